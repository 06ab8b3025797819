"""The capstone as a user meets it: the whole pipeline on a pocket-sized preset, and every bad input."""

import dataclasses
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ppo_by_hand.core.checkpoints import CheckpointFolder
from solutions.demo import __main__ as command
from solutions.demo import figures, stack
from solutions.demo.run import Capstone
from solutions.demo.stages import train_sft_stage
from solutions.lesson02_reward_model import RewardModel
from testcases.course.checkpoints import read_one_response
from testcases.course.students import POCKET, course_copy, pocket_demo, summary
from testcases.grader.tests.forks import Fork
from testcases.harness.catalog import SOLUTIONS, read_lesson, regions
from testcases.harness.oracle.mutations import emptied
from testcases.harness.suite.asserts import named
from tiny_models import checkpoints, presets

pytestmark = pytest.mark.slow
REBUILD = "run python -m testcases.course.checkpoints"


@pytest.fixture(autouse=True)
def pocket_preset(monkeypatch):
    monkeypatch.setitem(presets.PRESETS, "pocket", POCKET)


@pytest.fixture(scope="module")
def pocket_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of an undisturbed run of seed 0 on the preset `pocket`, and what it has trained; beside it, as
    `killed`, what is on the disk one update after the first checkpoint."""
    out, runs = tmp_path_factory.mktemp("runs") / "undisturbed", []
    draw, threads, save = figures.draw_figures, torch.get_num_threads(), CheckpointFolder.save

    def save_and_copy(checkpoints: CheckpointFolder, trainer: Any) -> None:
        save(checkpoints, trainer)
        if trainer.updates_done == checkpoints.every + 1 and checkpoints.directory.name == "ppo":
            shutil.copytree(out, out.with_name("killed"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(presets.PRESETS, "pocket", POCKET)
        patch.setattr(figures, "draw_figures", lambda run: runs.append(run) or draw(run))
        patch.setattr(CheckpointFolder, "save", save_and_copy)
        assert run(out) == 0
    torch.set_num_threads(threads)
    return out, runs[0]


@pytest.fixture
def undisturbed(pocket_run) -> Path:
    return pocket_run[0]


def run(out: Path, *arguments: str) -> int:
    return command.main(["--preset", "pocket", "--out", str(out), *arguments])


@pytest.mark.smoke
def test_the_whole_pipeline_writes_models_figures_and_summary(undisturbed):
    result = summary(undisturbed)
    assert (result["preset"], result["seed"], result["gold_max"]) == ("pocket", 0, 2.0)
    numbers = {"gold", "proxy", "valid"}
    assert set(result["sft"]) == numbers and set(result["ppo"]) == set(result["no_kl"]) == numbers | {"kl"}
    for name in ("training_curves.png", "overoptimization.png"):
        assert (undisturbed / name).stat().st_size > 10_000
    assert {path.name for path in undisturbed.iterdir()} == {
        *("run.json", "summary.json", "training_curves.png", "overoptimization.png"),
        *("sft", "reward_model", "policy", "no_kl_policy", "log", "checkpoints"),
    }
    for name in ("ppo", "no_kl"):
        assert len((undisturbed / "log" / name / "metrics.jsonl").read_text().splitlines()) == POCKET.ppo_updates


def test_another_seed_is_another_run(tmp_path):
    plans = [Capstone("pocket", seed, tmp_path) for seed in (0, 1)]
    assert plans[0].prompts != plans[1].prompts
    small = dataclasses.replace(POCKET, demonstrations=32)
    runs = [train_sft_stage(small, plan.tokenizer, plan.seed) for plan in plans]
    assert not torch.equal(*(run.policy.lm_head.weight for run in runs)) and runs[0].losses != runs[1].losses


def test_the_saved_models_load_by_from_pretrained_and_are_the_trained_ones(pocket_run):
    undisturbed, trained = pocket_run
    loaded = AutoModelForCausalLM.from_pretrained(undisturbed / "policy")
    for name, parameter in trained.ppo.result.policy.named_parameters():
        assert torch.equal(parameter, loaded.get_parameter(name))
    assert AutoTokenizer.from_pretrained(undisturbed / "policy")("the film")["input_ids"]
    reward_model = RewardModel.from_pretrained(undisturbed / "reward_model")
    assert torch.equal(reward_model.head.bias, trained.reward.reward_model.head.bias)


@named(
    "arguments, sentence",
    {
        "unknown-preset": (["--preset", "huge"], "one of tiny, small, gpt2, pocket, or hub with make, got 'huge'"),
        "unwritable-out": (["--out", "/dev/null/out"], "OUT to be a folder that can be written"),
        "another-seed": (["--resume", "--seed", "1"], "got SEED 1 where it has 0"),
        "another-preset": (["--resume", "--preset", "tiny"], "got PRESET 'tiny' where it has 'pocket'"),
    },
)
def test_bad_arguments_are_one_sentence_and_exit_code_one(arguments, sentence, tmp_path, undisturbed, capsys):
    assert run(undisturbed if "--resume" in arguments else tmp_path, *arguments) == 1
    said = capsys.readouterr().err
    assert sentence in said and said.startswith("error: ") and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_killed_run_goes_on_to_the_same_numbers(undisturbed, monkeypatch, capsys):
    """Its checkpoint is an update older than its metrics."""
    monkeypatch.setattr(figures, "draw_figures", lambda run: None)
    out = undisturbed.with_name("killed")
    assert not (out / "summary.json").exists()
    assert len((out / "log/ppo/metrics.jsonl").read_text().splitlines()) == 6
    assert run(out) == 1
    assert "the same command with RESUME=1 (--resume) continues from it" in capsys.readouterr().err
    assert run(out, "--resume") == 0
    said = capsys.readouterr().out
    assert "continuing from" in said and "the three policies" in said and "before and after" in said
    assert summary(out) == summary(undisturbed)
    for name in ("policy/model.safetensors", "no_kl_policy/model.safetensors", "log/ppo/trace.json"):
        assert (out / name).read_bytes() == (undisturbed / name).read_bytes()
    for name in ("ppo", "no_kl"):
        file = f"log/{name}/metrics.jsonl"
        assert (out / file).read_text() == (undisturbed / file).read_text()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A student's run without the exercises that take no part, and beside it, as `called`, what it called."""
    folder = tmp_path_factory.mktemp("own")
    course = course_copy(folder)
    for number in stack.LEFT_OUT:
        for path in SOLUTIONS.glob(f"lesson{number:02d}_*/*.py"):
            file = course / "tutorial" / path.relative_to(SOLUTIONS)
            file.write_text(emptied(path, stack.LEFT_OUT[number]), "utf-8")
            note_calls(file)
    said, out, called = folder / "said", folder / "out", folder / "called"
    done = Fork(said, pocket_demo, str(out), str(called), folder=course).ended()
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def note_calls(file: Path) -> None:
    """Let each exercise of a file write its name into the builtin CALLED."""
    lines = file.read_text("utf-8").splitlines()
    for one in regions(file):
        indent, name = lines[one.first].partition("#")[0], f"{file.parent.name}:{one.exercise}"
        lines[one.first] = f'{indent}__import__("builtins").__dict__.setdefault("CALLED", set()).add("{name}")'
    file.write_text("\n".join(lines) + "\n", "utf-8")


def test_the_demo_on_a_solved_stack_has_the_references_summary(own, undisturbed):
    assert summary(own) == summary(undisturbed)


def test_the_demo_waits_for_just_the_exercises_that_it_calls(own):
    """Load-time waiting is decided from a list; here the list is held against what a run calls."""
    called = (own.parent / "called").read_text().splitlines()
    for number in stack.LEFT_OUT:
        lesson = read_lesson(str(number))
        left_out = {name for name in lesson.exercises if f"{lesson.name}:{name}" not in called}
        left_out -= {"PPOTrainer.load_checkpoint"}  # with RESUME=1
        assert left_out == set(stack.LEFT_OUT[number]), lesson.name


def test_the_shipped_checkpoints_belong_to_this_world_and_are_whole():
    manifest = json.loads(checkpoints.MANIFEST.read_text())
    assert manifest["world"] == checkpoints.world_digest(), f"the toy environment changed: {REBUILD}"
    assert manifest["files"] == checkpoints.digests(), f"the models changed: {REBUILD}"
    size = sum(file.stat().st_size for file in checkpoints.DIRECTORY.rglob("*") if file.is_file())
    assert size < 3_000_000


def test_the_one_response_is_what_the_shipped_models_say_and_credits_the_words_that_decide():
    one = checkpoints.one_response()
    again = read_one_response()
    for name in ("log_probs", "ref_log_probs", "values", "score"):
        assert again.pop(name) == pytest.approx(one[name], abs=2e-3), REBUILD
    assert again.items() <= one.items(), REBUILD
    surprise = [after - before for before, after in itertools.pairwise(one["values"])]
    words = dict(zip(one["tokens"][:-1], surprise, strict=True))
    assert min(words, key=words.get) == "weak" and words["weak"] < -0.5
    assert max(words, key=words.get) == "superb" and words["superb"] > 0.5
    assert max(abs(size) for word, size in words.items() if word not in ("superb", "weak", ".")) < 0.25


def test_only_evaluation_sees_the_gold_score():
    seeing = {
        file.relative_to(SOLUTIONS).as_posix()
        for file in SOLUTIONS.rglob("*.py")
        if "import gold_score" in file.read_text() or "gold.gold_score" in file.read_text()
    }
    assert seeing == {"lesson12_capstone/evaluation.py", "contest/running.py"}
