"""Lesson 11 with real processes: two on the CPU over gloo, and what one process gives; whole models in each process
(DDP), split weights (FSDP2), and a split optimizer (DeepSpeed's ZeRO-2).

DeepSpeed is not among the course's own packages: `python -m testcases.course.zero` installs it and runs its tests."""

import signal
import socket
import subprocess
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from accelerate.utils import DistributedType
from transformers import AutoModelForCausalLM

from ppo_by_hand.core.processes import Processes, check_configuration
from solutions.lesson09_ppo_trainer import PPOTrainer
from solutions.lesson11_scaling import DistributedPPOTrainer
from solutions.lesson11_scaling import trainer as scaled
from testcases.course import scaling_run
from testcases.course.trainers import PROMPTS, rolled_out, small_trainer
from testcases.grader.tests.forks import Fork
from testcases.harness.catalog import TUTORIAL
from testcases.harness.suite.asserts import named

# Two processes are started once for all tests of what they found.
pytestmark = pytest.mark.slow
CONFIGS = sorted((TUTORIAL / "lesson11_scaling" / "configs").glob("*.yaml"))


def launch(job: str, folder: Path, count: int = 2) -> list[subprocess.CompletedProcess[str]]:
    """So many processes on the CPU, with what `accelerate launch` would tell them (library_test.py starts that)."""
    (folder / "prompts.txt").write_text("review the film :\nreview the food :\nreview the book :\n", "utf-8")
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    around = {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", "MASTER_ADDR": "localhost"}
    around |= {"MASTER_PORT": str(port), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    forks = []
    for index in map(str, range(count)):
        said = folder / f"{job}-{count}-{index}"
        forks.append(Fork(said, scaling_run.main, job, folder, RANK=index, LOCAL_RANK=index, **around))
    return [fork.ended() for fork in forks]


def errors(done: list[subprocess.CompletedProcess[str]]) -> str:
    return "\n".join(f"exit status {one.returncode}\n{one.stderr[-3000:]}" for one in done)


def equal(together: dict[str, Any], single: dict[str, Any], rtol: float) -> None:
    """The same metrics of each update, the gradient's norm before the first step among them, and the same weights."""
    for there, here in zip(together["metrics"], single["metrics"], strict=True):
        assert there == pytest.approx(here, rel=rtol, abs=0.1 * rtol)
    for there, here in zip(together["weights"], single["weights"], strict=True):
        torch.testing.assert_close(there, here, rtol=rtol, atol=0.1 * rtol)


class Runs(NamedTuple):
    """A run of one process without an engine, and runs of so many processes with it; all in one folder."""

    kind: str
    folder: Path
    alone: dict[str, Any]
    found: dict[int, list[dict[str, Any]]]

    @property
    def rtol(self) -> float:
        return 1e-6 if self.kind == "ddp" else 1e-4

    def processes(self) -> list[dict[str, Any]]:
        return [process for processes in self.found.values() for process in processes]


@pytest.fixture(scope="module")
def runs_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Runs]:
    """Engine -> its runs, which are started once."""

    @cache
    def started(kind: str) -> Runs:
        folder = tmp_path_factory.mktemp(kind)
        alone, found = scaling_run.three_updates(kind, folder / "in-none"), {}
        for count in (1, 2) if kind == "zero" else (2,):
            done = launch(kind, folder, count)
            assert (folder / f"{kind}-{count}.pt").is_file(), errors(done)
            assert all(one.returncode == 0 for one in done), errors(done)
            spoke = ["PPO: 2 updates of 4 responses to 3 prompts" in one.stdout for one in done]
            assert spoke == [index == 0 for index in range(count)]
            found[count] = torch.load(folder / f"{kind}-{count}.pt", weights_only=True)
        return Runs(kind, folder, alone, found)

    return started


ENGINES = {
    "ddp": "DistributedDataParallel, AdamW",
    "fsdp": "FSDPPolicyAndValue, AdamW",
    "zero": "DeepSpeedEngine, DeepSpeedOptimizerWrapper",
}
WITHOUT_DEEPSPEED = pytest.mark.skipif(
    find_spec("deepspeed") is None, reason="DeepSpeed isn't installed here: python -m testcases.course.zero"
)
each_engine = pytest.mark.parametrize("kind", ["ddp", "fsdp", pytest.param("zero", marks=WITHOUT_DEEPSPEED)])


@each_engine
def test_several_processes_make_the_updates_of_one(kind: str, runs_of: Callable[[str], Runs]):
    runs = runs_of(kind)
    for process in runs.processes():
        assert process["engine"] == ENGINES[kind]
        equal(process["before"], runs.alone["before"], runs.rtol)
        equal(process["after"], runs.alone["after"], runs.rtol)
        norms = [one["before"]["metrics"][0]["grad_norm"] for one in (process, runs.alone)]
        assert norms[0] == pytest.approx(norms[1], rel=1e-5 if kind == "zero" else 1e-6)


@each_engine
def test_they_go_on_from_their_checkpoint_to_the_bit(kind: str, runs_of: Callable[[str], Runs]):
    for process in runs_of(kind).processes():
        assert process["first"]["metrics"] == process["before"]["metrics"][:1]
        assert process["again"]["metrics"] == process["after"]["metrics"]
        assert all(map(torch.equal, process["again"]["weights"], process["after"]["weights"]))


@each_engine
def test_a_checkpoint_of_another_number_of_processes_goes_on_or_is_refused_and_nothing_replaced(
    kind: str, runs_of: Callable[[str], Runs]
):
    runs = runs_of(kind)
    others = [process["from others"] for process in runs.processes()]
    plain = scaling_run.next_update(kind, runs.folder / "in-2")
    if kind != "zero":
        for one in (plain, *(other["in-none"] for other in others)):
            equal(one, runs.alone["after"], runs.rtol)
        return
    got = "got parts that DeepSpeed has split"
    assert all(f"{got} None in" in other["in-none"] for other in others)
    told = {other["in-1"] for other in others if "in-1" in other}
    assert any(f"{got} 1 in" in one and "and 2 here; only as many processes" in one for one in told)
    assert f"{got} 2 in" in plain and "and None here" in plain


@each_engine
def test_the_command_saves_the_policy_that_they_have_trained(kind: str, runs_of: Callable[[str], Runs]):
    runs = runs_of(kind)
    for count in runs.found:
        out = runs.folder / f"out-{count}"
        state = torch.load(out / "checkpoints" / "trainer.pt", weights_only=True)["model"]
        weights = AutoModelForCausalLM.from_pretrained(out / "policy").state_dict()
        assert [name for name, weight in weights.items() if not torch.equal(weight, state[f"policy.{name}"])] == []
        assert len((out / "log" / "metrics.jsonl").read_text("utf-8").splitlines()) == 2


@pytest.mark.parametrize("case", scaling_run.CASES)
def test_two_processes_make_the_update_of_one(case: str, runs_of: Callable[[str], Runs]):
    alone = scaling_run.updates(scaling_run.make_trainer(**scaling_run.CASES[case]))
    first, second = (answers[case] for answers in runs_of("ddp").processes())
    assert first["metrics"] == second["metrics"]
    assert all(map(torch.equal, first["weights"], second["weights"]))
    assert first["kl_coef"] == pytest.approx(alone["kl_coef"], rel=1e-6)
    equal(first, alone, 1e-6)
    if case == "skipped steps":
        assert 0.0 < alone["metrics"][0]["skipped_share"] < 1.0
    if case == "whitened, adaptive, stopped early":
        assert alone["metrics"][0]["optimizer_steps"] < 4


def test_each_process_samples_from_random_numbers_of_its_own(runs_of: Callable[[str], Runs]):
    first, second = (answers["responses"] for answers in runs_of("ddp").processes())
    assert torch.equal(first, second) and not torch.equal(first[:2], first[2:])


def test_a_failure_in_one_process_ends_all_with_its_reason(runs_of: Callable[[str], Runs]):
    first, second = (answers["failure"] for answers in runs_of("ddp").processes())
    assert second.startswith("the reward function <lambda> raised KeyError: 'no such word' (scaling_run.py:")
    assert first == f"process 1 of 2 failed, so all stop: RuntimeError: {second}"


def test_a_killed_process_ends_the_run_and_the_last_checkpoint_is_whole(tmp_path: Path):
    first, second = launch("death", tmp_path)
    assert first.returncode == 1 and second.returncode == -signal.SIGKILL
    assert "process 0 of 2 has lost another process: it was killed" in first.stderr, first.stderr[-3000:]
    trainer = scaling_run.make_trainer(num_updates=5)
    trainer.load_checkpoint(tmp_path / "kept")
    assert trainer.updates_done == 2 and len(trainer.history) == 2


def test_one_process_is_the_trainer_of_lesson_9():
    alone, plain = (scaling_run.make_trainer(kind=kind) for kind in (DistributedPPOTrainer, PPOTrainer))
    for here, there in zip(alone.train(PROMPTS), plain.train(PROMPTS), strict=True):
        assert here == pytest.approx(there, rel=1e-6, abs=1e-9)


def with_deepspeed(**found: Any) -> Any:
    plugin = SimpleNamespace(deepspeed_config={}, **found)
    return lambda: SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=plugin))


LESSON_9, LESSON_11 = (PPOTrainer,), (DistributedPPOTrainer,)
COUNT = "accelerate.Accelerator.num_processes"
REFUSED = {
    "several-processes": (
        LESSON_9,
        lambda patch: patch.setattr(COUNT, 2),
        "expected one process and no DeepSpeed, got 2 .*DistributedPPOTrainer",
    ),
    "processes-that-accelerate-does-not-join": (  # as under torchrun on a CPU: each would train by itself
        LESSON_9 + LESSON_11,
        lambda patch: [patch.setenv(name, value) for name, value in (("WORLD_SIZE", "2"), ("LOCAL_RANK", "0"))],
        "to join the 2 processes that were started, got one that trains by itself; on a CPU set ACCELERATE_USE_CPU=t",
    ),
    "more-processes-than-prompts": (
        LESSON_11,
        lambda patch: patch.setattr(COUNT, 6),
        "expected a prompt for each process, got batch_size 5 and 6",
    ),
    "other-settings": (
        LESSON_11,
        lambda patch: patch.setattr(Processes, "collect", lambda self, things: [*things, things[0] | {"seed": 7}]),
        "expected the same settings in each process, got seed 0 and 7",
    ),
    "fsdp-without-processes": (
        LESSON_9 + LESSON_11,
        lambda patch: patch.setenv("ACCELERATE_USE_FSDP", "true"),
        "expected FSDP, which the configuration asks for, got NO",
    ),
    "accumulation": (
        LESSON_9 + LESSON_11,
        lambda patch: patch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4"),
        "expected gradient_accumulation_steps 1 .*, got 4, by which",
    ),
    "float16": (
        LESSON_9 + LESSON_11,
        lambda patch: patch.setattr("accelerate.Accelerator.mixed_precision", "fp16"),
        "expected mixed_precision bf16 or no, got fp16",
    ),
    "zero-3": (
        LESSON_11,
        lambda patch: patch.setattr(scaled, "Accelerator", with_deepspeed(zero_stage=3)),
        "expected ZeRO stage 1 or 2 and .* got stage 3 and",
    ),
}


@named("kinds, prepare, sentence", REFUSED)
def test_processes_that_the_trainer_cannot_use_are_refused(kinds, prepare, sentence, monkeypatch):
    small_trainer()  # Accelerate has found one process
    prepare(monkeypatch)
    for kind in kinds:
        with pytest.raises(ValueError, match=sentence):
            small_trainer(kind, micro_batch_size=1)


def test_the_first_version_of_fsdp_whose_weights_could_not_be_gathered_is_refused():
    state = SimpleNamespace(fsdp_plugin=SimpleNamespace(fsdp_version=1))
    found = {"distributed_type": DistributedType.FSDP, "num_processes": 2, "gradient_accumulation_steps": 1}
    with pytest.raises(ValueError, match="expected FSDP of version 2.*got version 1; set fsdp_version: 2"):
        check_configuration(SimpleNamespace(state=state, **found))


def test_bf16_is_for_the_passes_and_float32_for_the_numbers(monkeypatch: pytest.MonkeyPatch):
    from accelerate.state import AcceleratorState

    settings = {"num_epochs": 1, "num_minibatches": 1, "dtype": torch.float32}
    exact = scaling_run.make_trainer(**settings)
    AcceleratorState._reset_state(reset_partial_state=True)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    try:
        trainer = scaling_run.make_trainer(**settings)
        experience = rolled_out(trainer, PROMPTS)
        loss, statistics = trainer.compute_loss(experience)
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)
    numbers = (experience.log_probs, experience.ref_log_probs, experience.values, experience.returns, loss)
    assert {one.dtype for one in numbers} == {torch.float32}
    assert {weight.dtype for weight in trainer.model.parameters()} == {torch.float32}
    in_float32, _ = exact.compute_loss(experience)
    assert loss.item() != in_float32.item()
    # Sampled and trained in the same precision: the ratio is 1 but for bf16's rounding.
    assert abs(statistics["ratio_max"] - 1) < 0.05


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.stem)
def test_accelerate_reads_the_configuration(config: Path):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    read = load_config_from_file(str(config))
    assert read.num_processes >= 2
    parsed = launch_command_parser().parse_args(["--config_file", str(config), "train.py"])
    assert parsed.config_file == str(config)
