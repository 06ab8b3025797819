"""Lesson 9's trainer is read in a row: what a reader of one update has to open, and in which order it stands."""

import inspect
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from solutions.lesson09_ppo_trainer import trainer as trainer_module
from testcases.course.memory_test import PROMPTS, small_trainer
from testcases.harness.catalog import ROOT
from testcases.harness.suite.asserts import named

FILE = str(trainer_module.__file__)
SOURCE = inspect.getsource(trainer_module)


def one_update(watch: Callable[[FrameType, str, Any], None], **settings: Any) -> None:
    trainer = small_trainer(micro_rollout_batch_size=2, whiten_rewards=True, micro_batch_size=1, **settings)
    trainer.training_step(PROMPTS)  # what is done once is not looked at
    sys.setprofile(watch)
    try:
        trainer.training_step(PROMPTS)
    finally:
        sys.setprofile(None)


def test_an_update_calls_few_functions_of_the_file_and_the_five_only_from_above() -> None:
    """Each method calls only those that stand above it, or helpers at the end."""
    calls: dict[str, set[str]] = {}
    places: dict[str, int] = {}

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or frame.f_code.co_filename != FILE or frame.f_code.co_name.startswith("<"):
            return
        caller = frame.f_back
        while caller is not None and (caller.f_code.co_filename != FILE or caller.f_code.co_name.startswith("<")):
            caller = caller.f_back
        places[frame.f_code.co_name] = frame.f_code.co_firstlineno
        calls.setdefault(frame.f_code.co_name, set()).add(caller.f_code.co_name if caller else "")

    one_update(watch)
    five = ["generate_responses", "compute_rewards", "compute_loss", "optimizer_step", "training_step"]
    assert calls["optimizer_step"] == calls["compute_rewards"] == calls["generate_responses"] == {"training_step"}
    assert calls["compute_loss"] == {"optimizer_step"}
    assert sorted(five, key=places.__getitem__) == five
    helpers = calls.keys() - {*five, "policy"}
    assert len(helpers) <= 8 and all(places[name] > places["training_step"] for name in helpers), helpers


def test_an_update_crosses_few_files() -> None:
    files: set[str] = set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(ROOT)) and ".venv" not in file and "testcases" not in file:
            files.add(str(Path(file).relative_to(ROOT)))

    one_update(watch)
    assert len(files) <= 12, sorted(files)


@named(
    "settings, policy, others",
    {
        "plain": ({}, 6 + 8, 1),
        "in-chunks": ({"micro_rollout_batch_size": 2}, 6 * 3 + 8, 3),
        "recomputed": ({"recompute_log_probs": True}, 6 + 1 + 8, 1),
        "microbatches": ({"micro_batch_size": 1}, 6 + 2 * 5, 1),
    },
)
def test_an_update_makes_so_many_forward_passes_and_no_more(settings: dict[str, Any], policy: int, others: int) -> None:
    """Of the policy one for each of at most 6 tokens and one for each microbatch; reference and critic read once."""
    trainer, counts = small_trainer(**settings), Counter[str]()
    trainer.training_step(PROMPTS)  # the first one measures dropout, twice
    models = {"policy": trainer.policy, "reference": trainer.ref_model, "critic": trainer.model.value_model}
    for name, model in models.items():
        assert model is not None
        model.register_forward_hook(lambda *_, name=name: counts.update([name]))
    trainer.training_step(PROMPTS)
    steps = counts["critic"] - others
    assert counts["reference"] == others and counts["policy"] <= policy
    assert steps == int(trainer.history[-1]["optimizer_steps"]) if trainer.history else steps in (4, 10)
