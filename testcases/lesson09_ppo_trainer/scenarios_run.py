"""`train`, with stand-ins for its updates and for TensorBoard."""

import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

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

    Args:
        updates_done: the metrics of update i, the first is 0, are {"score": i, "kl": i / 10}.
        stop_after: on_update raises then.
        log: with a log_dir.
        diverges_in: the KL of this update, 1 is the first, is infinite.
        continued: `train` is called once more.
    """
    with tempfile.TemporaryDirectory() as top:
        if log:
            settings["log_dir"] = str(Path(top, "log"))
        trainer = student(lesson, torch.zeros(2, 2).double(), torch.zeros(2).double(), **settings)
        trainer.updates_done = updates_done
        trainer.history = [{"score": float(i), "kl": i / 10} for i in range(updates_done)]
        batches: list[list[int]] = []
        calls: list[list[int]] = []

        def training_step(batch: list[list[int]]) -> dict[str, float]:
            batches.append([prompt[0] for prompt in batch])
            trainer.updates_done += 1
            done = trainer.updates_done
            return {"score": float(done - 1), "kl": math.inf if done == diverges_in else (done - 1) / 10}

        def on_update(given: Any) -> None:
            calls.append([given.updates_done, len(given.history), len(batches)])
            if len(calls) == stop_after:
                raise Interrupted("stopped by the user")

        trainer.training_step = training_step
        prompts = [[2 + number] * (3 - number % 3) for number in range(available)]
        before = [list(prompt) for prompt in prompts]
        answer, errors = None, []
        # TensorBoard takes seconds to import.
        with mock.patch.dict(sys.modules, {"torch.utils.tensorboard": mock.MagicMock()}) as modules:
            writer = modules["torch.utils.tensorboard"].SummaryWriter.return_value
            for _ in range(2 if continued else 1):
                try:
                    answer = trainer.train(prompts, on_update)
                except (Interrupted, lesson.DivergedError) as stopped:
                    errors.append(str(stopped))
        file = Path(top, "log", "metrics.jsonl")
        return {
            "batches": batches,
            "on_update": calls,
            "returned": answer,
            "history": trainer.history,
            "errors": errors,
            "log_is_closed": writer.close.called or writer.__exit__.called,
            "metrics_file": list(map(json.loads, file.read_text("utf-8").splitlines())) if file.is_file() else [],
            "prompts_are_as_before": prompts == before,
        }
