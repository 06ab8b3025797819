"""Lesson 9's trainer is read in a row: what a reader of one update has to open, in which order it stands, and how many
forward passes it makes. And two settings that no exercise needs."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from solutions.lesson09_ppo_trainer import trainer as trainer_module
from testcases.course.trainers import PROMPTS, small_trainer
from testcases.harness.catalog import ROOT
from testcases.harness.suite.asserts import named

FILE = str(trainer_module.__file__)


def is_method(frame: FrameType) -> bool:
    return frame.f_code.co_filename == FILE and not frame.f_code.co_name.startswith("<")


def test_an_update_crosses_few_files_and_calls_few_functions_that_stand_in_their_order() -> None:
    """Each method calls only those that stand above it, or helpers at the end."""
    calls: dict[str, set[str]] = {}
    places: dict[str, int] = {}
    files: set[str] = set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(ROOT)) and ".venv" not in file and "testcases" not in file:
            files.add(str(Path(file).relative_to(ROOT)))
        if event != "call" or not is_method(frame):
            return
        caller = frame.f_back
        while caller is not None and not is_method(caller):
            caller = caller.f_back
        places[frame.f_code.co_name] = frame.f_code.co_firstlineno
        calls.setdefault(frame.f_code.co_name, set()).add(caller.f_code.co_name if caller else "")

    trainer = small_trainer(micro_rollout_batch_size=2, whiten_rewards=True, micro_batch_size=1)
    trainer.training_step(PROMPTS)  # what is done once is not looked at
    sys.setprofile(watch)
    try:
        trainer.training_step(PROMPTS)
    finally:
        sys.setprofile(None)
    assert len(files) <= 12, sorted(files)
    five = ["generate_responses", "compute_rewards", "compute_loss", "optimizer_step", "training_step"]
    assert calls["optimizer_step"] == calls["compute_rewards"] == calls["generate_responses"] == {"training_step"}
    assert calls["compute_loss"] == {"optimizer_step"}
    assert sorted(five, key=places.__getitem__) == five
    helpers = calls.keys() - {*five, "policy"}
    assert len(helpers) <= 8 and all(places[name] > places["training_step"] for name in helpers), helpers


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
        model.register_forward_hook(lambda *_, name=name: counts.update([name]))
    trainer.training_step(PROMPTS)
    assert counts["reference"] == others and counts["policy"] <= policy
    assert counts["critic"] - others in (4, 10)  # 2 epochs x 2 minibatches, or x 5 microbatches


def test_the_learning_rate_rises_over_five_updates_and_then_falls_to_0() -> None:
    trainer = small_trainer(num_updates=6, learning_rate=6.0)
    assert [6.0 * trainer.schedule(done) for done in range(6)] == pytest.approx([1.0, 2.0, 3.0, 3.0, 2.0, 1.0])
