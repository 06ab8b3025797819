"""Lesson 9's trainer is read in a row: what a reader of one update has to open, and in which order it stands."""

import ast
import inspect
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

from solutions.lesson08_rollout import Experience, rollout
from solutions.lesson09_ppo_trainer import trainer as trainer_module
from testcases.course.memory_test import PROMPTS, small_trainer
from testcases.harness import named_cases
from testcases.harness.catalog import ROOT, region_text

FILE = str(trainer_module.__file__)
SOURCE = inspect.getsource(trainer_module)


def methods() -> list[str]:
    """Those of the trainer that anybody may call, in the order of the file."""
    (found,) = (node for node in ast.parse(SOURCE).body if isinstance(node, ast.ClassDef))
    return [node.name for node in found.body if isinstance(node, ast.FunctionDef) and not node.decorator_list[1:]]


def test_the_screen_names_the_methods_of_an_update_in_their_order() -> None:
    named = re.findall(r" {3,}(_?[a-z]\w+)$", str(trainer_module.__doc__), re.MULTILINE)
    own = methods()
    assert named == own[own.index("policy") + 1 : own.index("train")]
    lines = [
        region_text("lesson09_ppo_trainer", f"PPOTrainer.{name}") for name in named if name != "generate_responses"
    ]
    assert len(lines) == 4 and sum(len(text.splitlines()) for text in lines) <= 60, "PPO's four methods are one screen"


def one_update(watch: Callable[[FrameType, str, Any], None], **settings: Any) -> None:
    trainer = small_trainer(micro_rollout_batch_size=2, whiten_rewards=True, micro_batch_size=1, **settings)
    sys.setprofile(watch)
    try:
        trainer.training_step(PROMPTS)
    finally:
        sys.setprofile(None)


def test_an_update_calls_seven_functions_of_the_file_and_none_above_its_caller() -> None:
    calls: dict[str, set[int]] = {}

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or frame.f_code.co_filename != FILE or frame.f_code.co_name.startswith("<"):
            return
        caller = frame.f_back
        while caller is not None and caller.f_code.co_filename != FILE:
            caller = caller.f_back
        above = calls.setdefault(frame.f_code.co_name, set())  # its callers that stand below it
        if caller is not None and caller.f_code.co_firstlineno > frame.f_code.co_firstlineno:
            above.add(caller.f_code.co_firstlineno)

    one_update(watch)
    assert {"training_step", "generate_responses", "optimize", "optimizer_step", "compute_loss"} < set(calls)
    assert len(calls) <= 7, sorted(calls)
    assert not any(calls.values()), calls


def test_the_batch_comes_back_to_the_file_from_two_others() -> None:
    places: set[str] = set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        file, back = frame.f_code.co_filename, frame.f_back
        is_back = back is not None and back.f_code.co_filename == FILE != file and file.startswith(str(ROOT))
        if event == "return" and is_back and isinstance(argument, Experience):
            places.add(Path(file).name)

    one_update(watch)
    assert places == {"collector.py", "experience.py"}


def test_no_function_of_a_lesson_has_another_meaning_in_the_file() -> None:
    nodes = list(ast.walk(ast.parse(SOURCE)))
    lessons = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.level]
    taken = {alias.asname or alias.name for node in lessons for alias in node.names}
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    assert "compute_ppo_loss" in taken and not taken & stored
    assert all(alias.asname is None for node in lessons for alias in node.names)


@named_cases(
    "settings, rows",
    {
        "raw": ({}, 1),
        "whitened": ({"whiten_rewards": True}, 1),
        "in-chunks": ({"micro_rollout_batch_size": 2}, 1),
        "whitened-in-chunks": ({"whiten_rewards": True, "micro_rollout_batch_size": 2}, 2),
    },
)
def test_advantages_are_computed_once_where_a_chunk_is_the_rollout(
    settings: dict[str, Any], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the rewards of a chunk can be known only with those of all, once more from these."""
    seen: list[int] = []

    def counted(gae: Callable[..., Any], rewards: torch.Tensor, *rest: Any) -> Any:
        seen.append(len(rewards))
        return gae(rewards, *rest)

    trainer, once = small_trainer(**settings), partial(counted, rollout.compute_response_gae)
    monkeypatch.setattr(rollout, "compute_response_gae", once)
    trainer._collect(PROMPTS)
    assert sum(seen) == rows * len(PROMPTS)
