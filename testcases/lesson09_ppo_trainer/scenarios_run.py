"""`train`, with stand-ins for its updates and for TensorBoard."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from .scenarios_trainer import student


class Interrupted(Exception):
    """What on_update raises."""


def run_of(
    lesson: Any,
    available: int,
    updates_done: int = 0,
    stop_after: int | None = None,
    log: bool = False,
    diverges_in: int | None = None,
    continued: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """`train` on the prompts [2, 2, 2], [3, 3], [4], [5, 5, 5], ... with a stand-in for `training_step`. Each call of
    `on_update` is shown as [updates done, entries of the history, batches so far].

    The metrics of update i are {"score": i, "kl": i / 10}. `stop_after`: on_update raises then. `log`: with a log_dir.
    `diverges_in`: the KL of this update, 1 is the first, is infinite. `continued`: `train` is called once more.
    """
    with tempfile.TemporaryDirectory() as top:
        if log:
            settings["log_dir"] = str(Path(top, "log"))
        run = _Run(lesson, updates_done, stop_after, diverges_in, settings)
        answer = run.train(available)
        if continued:
            answer |= {"error_before": answer["error"], **run.train(available)}
        return {**answer, "metrics_file": _lines(Path(top, "log", "metrics.jsonl"))} if log else answer


class _Run:
    """A trainer whose updates are made up, and what it does with them."""

    def __init__(
        self, lesson: Any, updates_done: int, stop_after: int | None, diverges_in: int | None, settings: dict[str, Any]
    ) -> None:
        self.stop_after, self.diverges_in, self.diverged = stop_after, diverges_in, lesson.DivergedError
        self.trainer = student(lesson, torch.zeros(2, 2).double(), torch.zeros(2).double(), **settings)
        self.trainer.updates_done = updates_done
        self.trainer.history = [{"score": float(i), "kl": i / 10} for i in range(updates_done)]
        self.trainer.training_step = self.training_step
        self.batches: list[list[int]] = []
        self.calls: list[list[int]] = []

    def training_step(self, batch: list[list[int]]) -> dict[str, float]:
        self.batches.append([prompt[0] for prompt in batch])
        self.trainer.updates_done += 1
        done = self.trainer.updates_done
        return {"score": float(done - 1), "kl": math.inf if done == self.diverges_in else (done - 1) / 10}

    def on_update(self, given: Any) -> None:
        self.calls.append([given.updates_done, len(given.history), len(self.batches)])
        if len(self.calls) == self.stop_after:
            raise Interrupted("stopped by the user")

    def train(self, available: int) -> dict[str, Any]:
        answer, error = None, None
        prompts = [[2 + number] * (3 - number % 3) for number in range(available)]
        before = [list(prompt) for prompt in prompts]
        with _recorded_writers() as written:
            try:
                answer = self.trainer.train(prompts, self.on_update)
            except (Interrupted, self.diverged) as stopped:
                error = str(stopped)
        return {
            "batches": self.batches,
            "on_update": self.calls,
            "returned": answer,
            "history": self.trainer.history,
            "error": error,
            "tensorboard": written,
            "prompts_are_as_before": prompts == before,
        }


def _lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.is_file() else []


@contextmanager
def _recorded_writers() -> Iterator[list[Any]]:
    """TensorBoard takes seconds to import; this stands in for it and keeps what is written."""
    written: list[Any] = []

    class SummaryWriter:
        def __init__(self, *given: Any, **named: Any) -> None:
            written.append("opened")

        def add_scalar(self, tag: str, scalar_value: float, global_step: int | None = None, **rest: Any) -> None:
            written.append([tag, float(scalar_value), global_step])

        def flush(self) -> None:
            pass

        def close(self) -> None:
            written.append("closed")

        def __enter__(self) -> SummaryWriter:
            return self

        def __exit__(self, *error: object) -> None:
            self.close()

    name = "torch.utils.tensorboard"
    before, module = sys.modules.get(name), ModuleType(name)
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    sys.modules[name] = module
    try:
        yield written
    finally:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
