"""`save_checkpoint` and `load_checkpoint`, of trainers in the middle of a run."""

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from ppo_by_hand.core.checkpoints import CHECKPOINT_FILE, global_generators
from solutions.lesson09_ppo_trainer import PPOConfig as ReferenceConfig
from solutions.lesson09_ppo_trainer import PPOTrainer as ReferenceTrainer
from testcases.harness.doubles.policies import Wrapped

from .scenarios_trainer import (
    EPOCHS,
    ROLLOUT,
    learning_rate,
    only,
    parts_in_training_mode,
    prompts_of,
    student,
    tables_of,
    trainer_over,
)


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
    in_the_way: bool = False,
    beside: str | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """`save_checkpoint` of trainers in the middle of a run, one after the other into one folder.

    What the file holds is read with the reference's `load_checkpoint`. `in_the_way`: a file has the folder's name.
    `beside`: a file of this name is in the folder.
    """
    with tempfile.TemporaryDirectory() as top:
        directory = Path(top, folder)
        if in_the_way:
            directory.touch()
        if beside is not None:
            directory.mkdir(parents=True)
            (directory / beside).touch()
        for mark in marks:
            _students(lesson, mark, **settings).save_checkpoint(directory if as_path else str(directory))
        files = sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))
        return {"files": files, **_restored(directory, **settings)}


def _restored(directory: Path, **settings: Any) -> dict[str, Any]:
    other = _reference(0.0, **settings)
    try:
        other.load_checkpoint(directory)
    except (KeyError, OSError, ValueError, RuntimeError, TypeError, AttributeError) as error:
        said = f"expected {CHECKPOINT_FILE} to be whole after save_checkpoint; loading it failed: {error}"
        kind = LookupError if isinstance(error, KeyError) else type(error)  # a KeyError puts its text into quotes
        raise kind(said.replace(str(directory), "FOLDER")) from None
    return _state_of(other)


def interrupted_save_of(lesson: Any, first: float, second: float, while_renaming: bool = False) -> dict[str, Any]:
    """`save_checkpoint` twice into one folder; while the second one writes (or renames), the disk fails.

    `written_elsewhere`: the unfinished file lay outside the folder; what is written to memory lies nowhere.
    `coefficient_saved_later`: the KL coefficient of the file when the same trainer has saved once more.
    """
    with tempfile.TemporaryDirectory() as top, tempfile.TemporaryDirectory() as working_directory:
        _students(lesson, first).save_checkpoint(top)
        trainer = _students(lesson, second)
        error = None
        with chdir(working_directory), _no_renaming() if while_renaming else _full_disk() as written:
            try:
                trainer.save_checkpoint(top)
            except OSError as stopped:
                error = str(stopped)
        elsewhere = [path for path in written if not path.is_relative_to(Path(top).resolve())]
        found = {"error": error, "written_elsewhere": bool(elsewhere), **_restored(Path(top))}
        trainer.save_checkpoint(top)
        return found | {"coefficient_saved_later": _restored(Path(top))["coefficient"]}


@contextmanager
def _full_disk() -> Iterator[list[Path]]:
    """`torch.save` writes a few bytes and fails; yields the files that it was given."""
    written: list[Path] = []

    def save(obj: Any, f: Any, *rest: Any, **more: Any) -> None:
        path = f if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
        if isinstance(path, (str, os.PathLike)):
            written.append(Path(path).resolve())
        if path is f:
            Path(f).write_bytes(b"half of a checkpoint")
        else:
            f.write(b"half of a checkpoint")
        raise OSError("no space left on device")

    before, torch.save = torch.save, save
    try:
        yield written
    finally:
        torch.save = before


@contextmanager
def _no_renaming() -> Iterator[list[Path]]:
    """Each way to rename a file fails."""

    def rename(*given: Any, **named: Any) -> None:
        raise OSError("the disk is gone")

    before = os.replace, os.rename, shutil.move
    os.replace = os.rename = shutil.move = rename
    try:
        yield []
    finally:
        os.replace, os.rename, shutil.move = before


def refused_load_of(lesson: Any, mark: float, mark_before: float, width: int) -> dict[str, Any]:
    """The state of a trainer in the middle of a run after `load_checkpoint` of another one, of tables so wide."""
    with tempfile.TemporaryDirectory() as directory:
        _reference(mark, width).save_checkpoint(directory)
        trainer = _students(lesson, mark_before)
        error = None
        try:
            trainer.load_checkpoint(directory)
        except ValueError as refused:
            error = type(refused).__name__
    return {"error": error, **_state_of(trainer)}


def loaded_of(
    lesson: Any,
    mark: float,
    mark_before: float = 0.0,
    content: str = "whole",
    as_path: bool = True,
    wrapped: bool = False,
    with_global_draws: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """`load_checkpoint` of a file that the reference wrote in the middle of a run; then the optimizer takes one step.

    `mark_before`: the trainer that loads is itself in the middle of another run; with 0 for either mark it is a new
    one. `content`: one of `_write`. `wrapped`: the model of the trainer that loads is, as on several processes.
    `with_global_draws`: the answer also has what torch's, Python's and numpy's global generators draw next.
    """
    with tempfile.TemporaryDirectory() as directory, _global_generators_as_before():
        _seed_global_generators(1)
        _write(Path(directory), content, mark, settings)
        _seed_global_generators(2)
        trainer = _students(lesson, mark_before, **settings)
        if wrapped:
            trainer.model = Wrapped(trainer.model)
        trainer.load_checkpoint(Path(directory) if as_path else directory)
        state = {**_state_of(trainer), **(_global_draws() if with_global_draws else {})}
    if any(
        moment.dim() and moment.shape != weight.shape
        for weight, moments in trainer.optimizer.state.items()
        for moment in moments.values()
    ):
        return state  # the fused step would write past the end of the moments, and end the whole process
    _take_a_step(trainer, 1.0)
    return {**state, **{f"{name}_one_step_later": table for name, table in tables_of(trainer).items()}}


OTHER_RUNS: dict[str, dict[str, Any]] = {
    "of other settings": {"kl_coef": 0.9},
    "2 wide": {"width": 2},
    "4 wide": {"width": 4},
    "5 wide": {"width": 5},
    "of a policy with places": {"places": torch.zeros(8, 3, dtype=torch.float64)},
}
"""What is other in the run that wrote the file; the tables of the trainer that loads are 3 wide."""


def _write(directory: Path, content: str, mark: float, settings: dict[str, Any]) -> None:
    """A checkpoint that is "whole", of one of OTHER_RUNS, "of other names" (those of its weights), "cut off", "empty",
    "unfinished" (only the leftover of an interrupted write), or "nothing" at all."""
    if content == "nothing":
        return
    _reference(mark, **{**settings, **OTHER_RUNS.get(content, {})}).save_checkpoint(directory)
    file = directory / CHECKPOINT_FILE
    if content == "unfinished":
        file.rename(file.with_name(f"{CHECKPOINT_FILE}.unfinished"))
    elif content in ("cut off", "empty"):
        file.write_bytes(file.read_bytes()[: -200 if content == "cut off" else 0])
    elif content == "of other names":
        state = torch.load(file, weights_only=True)
        state["model"] = {f"other.{name}": weight for name, weight in state["model"].items()}
        torch.save(state, file)


def _seed_global_generators(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def _global_draws() -> dict[str, float]:
    return {
        "next_draw_torch": torch.rand((), dtype=torch.float64).item(),
        "next_draw_python": random.random(),
        "next_draw_numpy": float(numpy.random.random()),
    }


@contextmanager
def _global_generators_as_before() -> Iterator[None]:
    before = {name: generator.get_state() for name, generator in global_generators().items()}
    try:
        yield
    finally:
        for name, generator in global_generators().items():
            generator.set_state(before[name])


def parts_in_training_mode_after(lesson: Any, method: str) -> int:
    """Parts of the model in training mode after `save_checkpoint` or `load_checkpoint`; before the call all were."""
    with tempfile.TemporaryDirectory() as directory, _global_generators_as_before():
        if method == "load_checkpoint":  # where saving is graded, the reference's is not at hand
            _reference(1.0).save_checkpoint(directory)
        trainer = _students(lesson, 2.0)
        getattr(trainer, method)(directory)
        return parts_in_training_mode(trainer)


def resumed_of(
    lesson: Any, tables: dict[str, Tensor], prompts: tuple[Any, ...], saved_after: tuple[int, ...], **settings: Any
) -> Any:
    """A run of `train`, saved after these updates, and for each a new trainer that loads it and goes on; nothing is
    replaced."""
    others = {"actor": tables["actor"].flip(0), "critic": tables["critic"].flip(0)}
    with tempfile.TemporaryDirectory() as top:

        def on_update(trainer: Any) -> None:
            if trainer.updates_done in saved_after:
                trainer.save_checkpoint(Path(top, str(trainer.updates_done)))

        runs = {"undisturbed": student(lesson, **tables, **settings)}
        runs["undisturbed"].train(prompts_of(prompts), on_update)
        for updates in saved_after:
            runs[f"resumed_after_{updates}"] = resumed = student(lesson, **{**tables, **others}, **settings)
            resumed.load_checkpoint(Path(top, str(updates)))
            resumed.train(prompts_of(prompts))
    return {
        f"{which}_{name}": value
        for which, trainer in runs.items()
        for name, value in {
            **_state_of(trainer),
            "history": [only(metrics, ROLLOUT + EPOCHS) for metrics in trainer.history],
        }.items()
    }
