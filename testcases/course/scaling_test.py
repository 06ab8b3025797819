"""Lesson 11 with real processes: `accelerate launch`, gloo, two CPU processes, and what one process gives."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate.utils import DistributedType

from ppo_by_hand.core.processes import check_configuration
from solutions.lesson09_ppo_trainer import PPOTrainer
from testcases.course import scaling_run
from testcases.course.memory_test import rolled_out
from testcases.course.students import HANGS
from testcases.harness.catalog import ROOT, TUTORIAL

# Two processes are started once for all tests of what they found.
pytestmark = pytest.mark.slow
CONFIGS = sorted((TUTORIAL / "lesson11_scaling" / "configs").glob("*.yaml"))


def launch(job: str, folder: Path, count: int = 2) -> subprocess.CompletedProcess[str]:
    """Processes on the CPU. `--cpu` would start one, without a word: Accelerate leaves CPUs to mpirun."""
    launcher = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", str(count), "--num_machines", "1"]
    launcher += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    if count == 1:  # which Accelerate would start without a group of processes
        launcher = ["torch.distributed.run", "--standalone", "--nproc_per_node", "1"]
    command = [sys.executable, "-m", *launcher, "-m", "testcases.course.scaling_run", job, str(folder)]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=HANGS)


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder of a run of two processes, and how it ended."""
    folder = tmp_path_factory.mktemp("scaling")
    (folder / "prompts.txt").write_text("review the film :\nreview the food :\nreview the book :\n", "utf-8")
    return folder, launch("updates", folder)


@pytest.fixture(scope="module")
def two_processes(launched: tuple[Path, subprocess.CompletedProcess[str]]) -> list[dict[str, Any]]:
    folder, done = launched
    assert (folder / "updates-2.pt").is_file(), done.stderr[-3000:]
    return torch.load(folder / "updates-2.pt", weights_only=True)


@pytest.mark.parametrize("case", scaling_run.CASES)
def test_two_processes_make_the_update_of_one(case: str, two_processes: list[dict[str, Any]]):
    alone = scaling_run.updates(scaling_run.make_trainer(**scaling_run.CASES[case]))
    first, second = (answers[case] for answers in two_processes)
    assert first["metrics"] == second["metrics"]
    assert all(map(torch.equal, first["weights"], second["weights"]))
    assert first["kl_coef"] == pytest.approx(alone["kl_coef"], rel=1e-5)
    equal(first, alone)
    if case == "skipped steps":
        assert alone["metrics"][0]["skipped_share"] == 0.75
    if case == "whitened rewards, stopped early":
        assert alone["metrics"][0]["optimizer_steps"] < 4


@pytest.fixture(scope="module")
def fsdp(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], list[dict[str, Any]]]:
    """The folder of a run of one process and then of two under FSDP, and what they gave."""
    folder = tmp_path_factory.mktemp("fsdp")
    (folder / "prompts.txt").write_text("review the film :\nreview the food :\nreview the book :\n", "utf-8")
    alone = scaling_run.three_updates(folder / "in-1")
    done = launch("fsdp", folder)
    assert done.returncode == 0 and (folder / "fsdp-2.pt").is_file(), done.stderr[-3000:]
    return folder, alone, torch.load(folder / "fsdp-2.pt", weights_only=True)


def equal(together: dict[str, Any], single: dict[str, Any]) -> None:
    """To float tolerance: the same metrics of each update, and the same weights after the last."""
    for there, here in zip(together["metrics"], single["metrics"], strict=True):
        assert there == pytest.approx(here, rel=1e-4, abs=1e-5)
    for there, here in zip(together["weights"], single["weights"], strict=True):
        assert torch.allclose(there, here, rtol=1e-4, atol=1e-5)


def test_split_weights_make_the_same_updates(fsdp: Any, two_processes: list[dict[str, Any]]):
    _, alone, (first, second) = fsdp
    assert first["run"]["kind"] == "FSDPPolicyAndValue, AdamW"
    assert first["first"]["metrics"] == second["first"]["metrics"]
    equal(first["first"], two_processes[0]["microbatches of 2"])
    for part in ("before", "after"):
        equal(first["run"][part], alone[part])


def test_split_weights_go_on_from_their_checkpoint_and_in_another_number_of_processes(fsdp: Any):
    folder, alone, (first, second) = fsdp
    for process in (first, second):
        assert process["run"]["again"]["metrics"] == process["run"]["after"]["metrics"]
        assert all(map(torch.equal, process["run"]["again"]["weights"], process["run"]["after"]["weights"]))
        equal(process["from others"]["in-1"], alone["after"])
    equal(scaling_run.third_update(folder / "in-2"), first["run"]["after"])


def test_the_command_saves_the_whole_policy_under_fsdp(fsdp: Any):
    saved_as_trained(fsdp[0] / "out-2")


def saved_as_trained(out: Path) -> None:
    """The policy that the command has saved is the one in its last checkpoint."""
    from transformers import AutoModelForCausalLM

    state = torch.load(out / "checkpoints" / "trainer.pt", weights_only=True)["model"]
    weights = AutoModelForCausalLM.from_pretrained(out / "policy").state_dict()
    assert [name for name, weight in weights.items() if not torch.equal(weight, state[f"policy.{name}"])] == []


def test_processes_sample_their_own_rows_and_resume_to_the_bit(two_processes: list[dict[str, Any]]):
    first, second = (answers["runs"] for answers in two_processes)
    assert first["rows"] == second["rows"] == [2, 2, 2]
    assert first["first_responses"] != second["first_responses"]
    assert first["history"] == second["history"] == first["resumed"] == second["resumed"]
    for weights in (second["weights"], first["resumed_weights"], second["resumed_weights"]):
        assert all(map(torch.equal, first["weights"], weights))


def test_a_failure_in_one_process_ends_all_with_its_reason(two_processes: list[dict[str, Any]]):
    first, second = (answers["failure"] for answers in two_processes)
    assert second.startswith("the reward function <lambda> raised KeyError: 'no such word' (scaling_run.py:")
    assert first == f"process 1 of 2 failed, so all stop: RuntimeError: {second}"


def test_a_killed_process_ends_the_run_and_the_last_checkpoint_is_whole(tmp_path: Path):
    done = launch("death", tmp_path)
    assert done.returncode != 0
    assert "has lost another process: it was killed" in done.stderr, done.stderr[-3000:]
    trainer = scaling_run.make_trainer(num_updates=5)
    trainer.load_checkpoint(tmp_path / "kept")
    assert trainer.updates_done == 2 and len(trainer.history) == 2


def test_the_preset_hub_on_two_processes(launched: tuple[Path, subprocess.CompletedProcess[str]]):
    from transformers import AutoModelForCausalLM

    folder, done = launched
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("PPO: 2 updates of 4 responses to 3 prompts") == 1  # the first process speaks
    AutoModelForCausalLM.from_pretrained(folder / "out" / "policy")
    assert len((folder / "out" / "log" / "metrics.jsonl").read_text("utf-8").splitlines()) == 2


def test_one_process_is_the_trainer_of_lesson_9(monkeypatch: pytest.MonkeyPatch):
    alone = scaling_run.make_trainer(num_updates=2)
    monkeypatch.setattr(scaling_run, "DistributedPPOTrainer", PPOTrainer)
    plain = scaling_run.make_trainer(num_updates=2)
    assert type(plain) is PPOTrainer
    for here, there in zip(alone.train(scaling_run.PROMPTS), plain.train(scaling_run.PROMPTS), strict=True):
        assert here == pytest.approx(there, rel=1e-4, abs=1e-6)


def test_several_processes_need_the_trainer_for_several(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("accelerate.Accelerator.num_processes", 2)
    monkeypatch.setattr(scaling_run, "DistributedPPOTrainer", PPOTrainer)
    with pytest.raises(ValueError, match="expected one process, got 2.*DistributedPPOTrainer"):
        scaling_run.make_trainer()


def test_a_batch_smaller_than_the_number_of_processes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("accelerate.Accelerator.num_processes", 3)
    with pytest.raises(ValueError, match="expected a prompt for each process, got batch_size 2 and 3"):
        scaling_run.make_trainer(batch_size=2)


def test_fsdp_of_version_1_is_refused():
    """Its weights could not be gathered for a rollout, or for a checkpoint."""
    state = SimpleNamespace(fsdp_plugin=SimpleNamespace(fsdp_version=1))
    found = {"distributed_type": DistributedType.FSDP, "num_processes": 2, "gradient_accumulation_steps": 1}
    with pytest.raises(ValueError, match="expected FSDP of version 2.*got version 1; set fsdp_version: 2"):
        check_configuration(SimpleNamespace(state=state, **found))
    state.fsdp_plugin.fsdp_version = 2
    check_configuration(SimpleNamespace(state=state, **found))


def test_deepspeed_that_accelerate_leaves_out_is_refused(monkeypatch: pytest.MonkeyPatch):
    """As with ACCELERATE_USE_CPU=true: it would have trained whole models in each process, without a word."""
    found = {"distributed_type": DistributedType.MULTI_CPU, "gradient_accumulation_steps": 1, "num_processes": 2}
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    with pytest.raises(ValueError, match="expected DEEPSPEED, which the configuration asks for, got MULTI_CPU"):
        check_configuration(SimpleNamespace(**found))


def test_gradient_checkpointing_changes_no_number():
    plain, saving = scaling_run.make_trainer(), scaling_run.make_trainer(checkpointing=True)
    batch = scaling_run.whole_experience(plain)
    slopes = []
    for trainer in (plain, saving):
        loss, _ = trainer.compute_loss(batch)
        loss.backward()
        slopes.append([weight.grad for weight in trainer.model.parameters()])
    assert all(map(torch.equal, *slopes))
    assert any(getattr(module, "gradient_checkpointing", False) for module in saving.model.modules())


def test_bf16_is_for_the_passes_and_float32_for_the_numbers(monkeypatch: pytest.MonkeyPatch):
    from accelerate.state import AcceleratorState

    exact = scaling_run.make_trainer(num_epochs=1, num_minibatches=1)
    AcceleratorState._reset_state(reset_partial_state=True)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    try:
        trainer = scaling_run.make_trainer(num_epochs=1, num_minibatches=1)
        experience = rolled_out(trainer, scaling_run.PROMPTS)
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
