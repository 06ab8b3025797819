"""Lesson 9's trainer is read in a row: what a reader of one update has to open, and in which order it stands."""

import ast
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from solutions.lesson09_ppo_trainer import trainer as trainer_module
from testcases.course.memory_test import PROMPTS, small_trainer
from testcases.harness.catalog.lessons import ROOT, region_text
from testcases.harness.suite.asserts import named

FILE = str(trainer_module.__file__)
SOURCE = inspect.getsource(trainer_module)


def methods() -> list[str]:
    """Those of the trainer that anybody may call, in the order of the file."""
    (found,) = (node for node in ast.parse(SOURCE).body if isinstance(node, ast.ClassDef))
    return [node.name for node in found.body if isinstance(node, ast.FunctionDef) and not node.decorator_list[1:]]


def test_the_screen_names_the_methods_of_an_update_and_they_stand_in_the_order_of_lesson_0() -> None:
    named = re.findall(r" {3,}([a-z]\w+)$", str(trainer_module.__doc__), re.MULTILINE)
    order = ["generate_responses", "compute_rewards", "compute_loss", "optimizer_step", "training_step"]
    own = methods()
    assert sorted(named) == sorted(order)
    assert own[own.index("policy") + 1 : own.index("train") + 1] == [*order, "train"]
    lines = [region_text("lesson09_ppo_trainer", f"PPOTrainer.{name}") for name in order]
    assert sum(len(text.splitlines()) for text in lines) <= 100


def test_it_is_one_class_that_says_what_it_calls() -> None:
    """No base class, no decorator but Python's and torch's own, no hook, no function handed in by the library."""
    tree = ast.parse(SOURCE)
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    assert not found.bases and not found.decorator_list and not found.keywords
    decorators = {ast.unparse(one) for node in ast.walk(found) if isinstance(node, ast.FunctionDef)
                  for one in node.decorator_list}  # fmt: skip
    assert decorators <= {"property", "torch.no_grad()"}
    assert "hook" not in SOURCE
    code = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and not _is_docstring(node)]
    lines = {line for node in code for line in (node.lineno, node.end_lineno or 0)}
    assert len(lines) <= 218


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


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
