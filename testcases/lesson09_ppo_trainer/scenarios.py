"""Live objects for lesson 9: trainers over tables, not neural networks, so that each number is worked out by hand. Here
`train`, with stand-ins for its updates and for TensorBoard, and checkpoints of trainers in the middle of a run."""

import json
import math
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from ppo_by_hand.core.checkpoints import CHECKPOINT_FILE
from solutions.lesson09_ppo_trainer import PPOConfig as ReferenceConfig
from solutions.lesson09_ppo_trainer import PPOTrainer as ReferenceTrainer
from testcases.harness.doubles.models import Wrapped

from .scenarios_trainer import learning_rate, parts_in_training_mode, student, tables_of, trainer_over
from .scenarios_updates import *  # noqa: F403  looked up by name


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


def _used(make: Callable[..., Any], config: Callable[..., Any], mark: float, width: int = 3, **settings: Any) -> Any:
    """A trainer in the middle of a run: everything that a checkpoint has to keep is moved to a place that `mark` gives.

    `mark=0` is the beginning of a run.
    """
    table = torch.arange(width * width, dtype=torch.float64).reshape(width, width) / 8 + mark
    trainer = trainer_over(make, config, table, table[0] - mark / 2, **settings)
    if mark == 0:
        return trainer
    _take_a_step(trainer, mark)
    trainer.optimizer.zero_grad(set_to_none=True)
    trainer.kl_controller.value = mark / 16
    for group in trainer.optimizer.param_groups:
        group["lr"] = trainer.config.learning_rate / 4
    trainer.updates_done = 3
    trainer.history = [{"score": mark * number} for number in range(3)]
    trainer.prompt_queue.take(2, 5)
    for generator in (trainer.sampling, trainer.shuffling):
        torch.rand(int(4 * mark), generator=generator)
    return trainer


def _reference(mark: float, width: int = 3, **settings: Any) -> Any:
    return _used(ReferenceTrainer, ReferenceConfig, mark, width, **settings)


def _students(lesson: Any, mark: float, **settings: Any) -> Any:
    return _used(lesson.PPOTrainer, lesson.PPOConfig, mark, **settings)


def _take_a_step(trainer: Any, slope: float) -> None:
    for weight in trainer.accelerator.unwrap_model(trainer.model).parameters():
        weight.grad = torch.full_like(weight, slope)
    trainer.optimizer.step()


def _state_of(trainer: Any) -> dict[str, Any]:
    """Everything that the next update depends on, in numbers; generators by what they draw next."""
    generators = {
        "sampling": trainer.sampling,
        "shuffling": trainer.shuffling,
        "prompts": trainer.prompt_queue.generator,
    }
    weights = list(trainer.accelerator.unwrap_model(trainer.model).parameters())
    moments = [trainer.optimizer.state[weight].get("exp_avg", torch.tensor(0.0)) for weight in weights]
    return {
        **tables_of(trainer),
        "momentum": torch.stack([moment.double().mean() for moment in moments]),
        "learning_rate": learning_rate(trainer),
        "coefficient": float(trainer.kl_controller.value),
        "prompts_waiting": torch.tensor(trainer.prompt_queue.waiting, dtype=torch.int64),
        "updates_done": trainer.updates_done,
        "scores_in_history": torch.tensor([one["score"] for one in trainer.history], dtype=torch.float64),
        **{
            f"next_draw_{name}": torch.rand((), generator=generator.clone_state(), dtype=torch.float64).item()
            for name, generator in generators.items()
        },
    }


def saved_of(
    lesson: Any,
    marks: tuple[float, ...],
    folder: str = "checkpoint",
    as_path: bool = True,
    fails: str | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """`save_checkpoint` of trainers in the middle of a run, one after the other into one folder.

    What the file holds is read with the reference's `load_checkpoint`. "written_elsewhere": an unfinished file lay
    outside the folder; what is written to memory lies nowhere.

    Args:
        fails: of the last one, "writing" or "renaming"; the disk then keeps what the one before has left.
    """
    error, written = None, list[Path]()
    with tempfile.TemporaryDirectory() as top, tempfile.TemporaryDirectory() as elsewhere:
        directory = Path(top, folder)
        for number, mark in enumerate(marks):
            trainer = _students(lesson, mark, **settings)
            failing = fails if number == len(marks) - 1 else None
            with chdir(elsewhere), _failing(failing, written):
                try:
                    trainer.save_checkpoint(directory if as_path else str(directory))
                except OSError as stopped:
                    if not failing:
                        raise
                    error = str(stopped)
        return {
            "error": error,
            "files": sorted(str(path.relative_to(directory)) for path in directory.rglob("*")) if not fails else [],
            "written_elsewhere": any(not path.is_relative_to(Path(top).resolve()) for path in written),
            "parts_in_training_mode": parts_in_training_mode(trainer),
            **_restored(directory, **settings),
        }


def _restored(directory: Path, **settings: Any) -> dict[str, Any]:
    other = _reference(0.0, **settings)
    try:
        other.load_checkpoint(directory)
    except (KeyError, OSError, ValueError, RuntimeError, TypeError, AttributeError) as error:
        said = f"expected {CHECKPOINT_FILE} to be whole after save_checkpoint; loading it failed: {error}"
        kind = LookupError if isinstance(error, KeyError) else type(error)  # a KeyError puts its text into quotes
        raise kind(said.replace(str(directory), "FOLDER")) from None
    return _state_of(other)


@contextmanager
def _failing(what: str | None, written: list[Path]) -> Iterator[None]:
    """When "writing", `torch.save` writes a few bytes and fails, and adds the file that it was given to `written`; when
    "renaming", each way to rename a file fails."""

    def save(obj: Any, f: Any, *rest: Any, **more: Any) -> None:
        path = f if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
        if isinstance(path, (str, os.PathLike)):
            written.append(Path(path).resolve())
        if path is f:
            Path(f).write_bytes(b"half of a checkpoint")
        else:
            f.write(b"half of a checkpoint")
        raise OSError("no space left on device")

    def rename(*given: Any, **named: Any) -> None:
        raise OSError("the disk is gone")

    with ExitStack() as stack:
        if what == "writing":
            stack.enter_context(mock.patch.object(torch, "save", save))
        for module, name in ((os, "replace"), (os, "rename"), (shutil, "move")) if what == "renaming" else ():
            stack.enter_context(mock.patch.object(module, name, rename))
        yield


def loaded_of(
    lesson: Any,
    mark: float,
    mark_before: float = 0.0,
    content: str = "whole",
    as_path: bool = True,
    wrapped: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """`load_checkpoint` of a file that the reference wrote in the middle of a run; then the optimizer takes one step.

    "next_draw_python" is of Python's generator, from which a reward function may draw.

    Args:
        mark_before: the trainer that loads is itself in the middle of another run; with 0 for either mark it is new.
        content: one of `_write`.
        wrapped: the model of the trainer that loads is, as on several processes.
    """
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        random.seed(1)
        _write(Path(directory), content, mark, settings)
        random.seed(2)
        trainer = _students(lesson, mark_before, **settings)
        if wrapped:
            trainer.model = Wrapped(trainer.model)
        trainer.load_checkpoint(Path(directory) if as_path else directory)
        state = {**_state_of(trainer), "next_draw_python": random.random()}
        state["parts_in_training_mode"] = parts_in_training_mode(trainer)
    _take_a_step(trainer, 1.0)
    return {**state, **{f"{name}_one_step_later": table for name, table in tables_of(trainer).items()}}


OTHER_RUNS: dict[str, dict[str, Any]] = {"of other settings": {"kl_coef": 0.9}, "5 wide": {"width": 5}}
"""What is other in the run that wrote the file; the tables of the trainer that loads are 3 wide."""


def _write(directory: Path, content: str, mark: float, settings: dict[str, Any]) -> None:
    """A checkpoint that is "whole", of one of OTHER_RUNS, "of other names" (those of its weights), "cut off", or
    "unfinished" (only the leftover of an interrupted write)."""
    _reference(mark, **{**settings, **OTHER_RUNS.get(content, {})}).save_checkpoint(directory)
    file = directory / CHECKPOINT_FILE
    if content == "unfinished":
        file.rename(file.with_name(f"{CHECKPOINT_FILE}.unfinished"))
    elif content == "cut off":
        file.write_bytes(file.read_bytes()[:-200])
    elif content == "of other names":
        state = torch.load(file, weights_only=True)
        state["model"] = {f"other.{name}": weight for name, weight in state["model"].items()}
        torch.save(state, file)
