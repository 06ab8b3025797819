"""Lesson 9's trainer is read in a row: what a reader of one update has to open, in which order it stands, and how many
forward passes it makes. And two settings that no exercise needs."""

import ast
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

FILE = Path(str(trainer_module.__file__))
STEPS = ("generate_responses", "compute_rewards", "compute_loss", "optimizer_step", "training_step")


def test_an_update_stands_in_its_order() -> None:
    """Each method calls only those that stand above it, or helpers at the end."""
    nodes = [node for node in ast.walk(ast.parse(FILE.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)]
    lines = {node.name: node.lineno for node in nodes}
    names = {node.name: {getattr(one, "attr", getattr(one, "id", "")) for one in ast.walk(node)} for node in nodes}
    assert sorted(STEPS, key=lines.__getitem__) == [*STEPS]
    assert all(not names[step] & {*STEPS[number:]} for number, step in enumerate(STEPS))
    helpers = {name for step in STEPS for name in names[step] & lines.keys() if name.startswith("_")}
    assert len(helpers) <= 8 and all(lines[name] > lines["training_step"] for name in helpers), helpers


def test_an_update_crosses_few_files() -> None:
    files: set[str] = set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(ROOT)) and ".venv" not in file and "testcases" not in file:
            files.add(str(Path(file).relative_to(ROOT)))

    trainer = small_trainer(micro_rollout_batch_size=2, whiten_rewards=True, micro_batch_size=1)
    trainer.training_step(PROMPTS)  # what is done once is not looked at
    sys.setprofile(watch)
    try:
        trainer.training_step(PROMPTS)
    finally:
        sys.setprofile(None)
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
        model.register_forward_hook(lambda *_, name=name: counts.update([name]))
    trainer.training_step(PROMPTS)
    assert counts["reference"] == others and counts["policy"] <= policy
    assert counts["critic"] - others in (4, 10)  # 2 epochs x 2 minibatches, or x 5 microbatches


def test_the_learning_rate_rises_over_five_updates_and_then_falls_to_0() -> None:
    trainer = small_trainer(num_updates=6, learning_rate=6.0)
    assert [6.0 * trainer.schedule(done) for done in range(6)] == pytest.approx([1.0, 2.0, 3.0, 3.0, 2.0, 1.0])
