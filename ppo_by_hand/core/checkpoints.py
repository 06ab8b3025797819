"""Checkpoints on disk: one is read only if it is whole and belongs to this run, and a folder keeps the newest few."""

from __future__ import annotations

import functools
import pickle
import random
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy
import torch
from torch import Tensor, nn

from .checks import DivergedError
from .config import PPOConfig
from .files import first_line, remove_empty
from .shapes import check_number

CHECKPOINT_FILE = "trainer.pt"
VERSION = 1
"""Of the format of a checkpoint; one of another version is refused."""
PREFIX = "update-"
MAY_DIFFER = ("log_dir", "num_updates", "micro_rollout_batch_size", "stop_on")
"""Settings that a resumed run may change: the updates before are the same, those after follow the new setting."""


def read_checkpoint(directory: str | Path, expected: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a checkpoint, checked to be whole and to fit this run.

    Args:
        directory: as given to `save_checkpoint`.
        expected: what the loading trainer would save itself; parts, version and settings are compared with it.

    Returns:
        The state that was saved, on the CPU.

    Raises:
        FileNotFoundError: there is no checkpoint in the directory.
        ValueError: it was cut off or damaged, a part is missing, or it is of another version or other settings.
    """
    if directory is None:
        raise ValueError("expected the folder of a checkpoint, got None: where newest finds none, start without one")
    file = Path(directory) / CHECKPOINT_FILE
    if not file.is_file():
        raise FileNotFoundError(
            f"expected a checkpoint written by save_checkpoint, got no {CHECKPOINT_FILE} in {directory}"
        )
    if not is_whole(file):
        raise ValueError(f"expected a whole checkpoint, got {file}, which was cut off or damaged; take an older one")
    try:
        state: dict[str, Any] = dict(torch.load(file, map_location="cpu", weights_only=True))
    except (pickle.UnpicklingError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"expected a checkpoint written by save_checkpoint, got {file} of something else") from error
    if state.get("version") != VERSION:
        raise ValueError(
            f"expected a checkpoint of version {VERSION}, got version {state.get('version')} in {file}; "
            "resume it with the code that wrote it"
        )
    parts, own_parts = state.get("parts"), expected.get("parts")
    if parts != own_parts:
        raise ValueError(
            f"expected a checkpoint {_of_parts(own_parts)}, got {file}, one {_of_parts(parts)}; only as many processes "
            "under DeepSpeed can go on with what DeepSpeed has split: start the run as it was"
        )
    missing = sorted(expected.keys() - state.keys())
    if missing:
        raise ValueError(f"expected every part of a checkpoint, got none of {', '.join(missing)} in {file}")
    saved, own = state["config"], expected["config"]
    if differs := sorted(saved.keys() ^ own.keys()):
        raise ValueError(
            f"expected a checkpoint with the settings of this version of the course, got {file}, in which "
            f"{differs[0]} is {'no setting yet' if differs[0] in own else 'one'}; resume it with the code that wrote it"
        )
    other = [name for name in own if name not in MAY_DIFFER and own[name] != saved[name]]
    if other:
        raise ValueError(
            f"expected a checkpoint of a run with the same settings, got {other[0]} {saved[other[0]]!r} in {file} "
            f"and {own[other[0]]!r} here; only {', '.join(MAY_DIFFER)} may change: resume with the same settings, or "
            "start a new run"
        )
    if state["updates_done"] > own["num_updates"]:
        raise ValueError(
            f"expected num_updates to be at least the {state['updates_done']} that the run in {file} has done, got "
            f"{own['num_updates']}; raise it"
        )
    state["generators"] = _of_this_machine(state["generators"], expected["generators"])
    return state


def _of_this_machine(saved: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The states of generators; where the run had no such device, the seed has made one that it has not drawn from."""

    def fits(name: str) -> bool:
        one, other = saved.get(name), own[name]
        return one is not None and (not isinstance(other, Tensor) or one.shape == other.shape)

    return {name: saved[name] if fits(name) else own[name] for name in own}


def trained_weights(model: nn.Module) -> dict[str, Any]:
    """What a checkpoint holds of a model: the weights that are trained, and buffers.

    The others are those that the model was loaded with; of a LoRA policy they are nearly all, and quantized ones could
    not be loaded again.
    """
    kept = {name for name, weight in model.named_parameters(remove_duplicate=False) if weight.requires_grad}
    kept |= {name for name, _ in model.named_buffers(remove_duplicate=False)}
    state: dict[str, Any] = model.state_dict()
    for name in state.keys() - kept:
        if not name.endswith("_extra_state"):
            del state[name]
    return state


def may_lack_frozen_weights(model: nn.Module) -> None:
    """Let `load_state_dict` of this model take what `trained_weights` gave; nothing else may lack."""
    model.register_load_state_dict_post_hook(_pass_over_frozen)


def _pass_over_frozen(model: nn.Module, keys: Any) -> None:
    frozen = {name for name, weight in model.named_parameters(remove_duplicate=False) if not weight.requires_grad}
    keys.missing_keys[:] = [name for name in keys.missing_keys if name not in frozen]


def _of_parts(parts: int | None) -> str:
    return "of a whole optimizer" if parts is None else f"of DeepSpeed in {parts} process{'es' * (parts > 1)}"


def is_whole(file: Path) -> bool:
    """True if the file ends where it should and each part has its checksum; torch.load would not see a flipped bit."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError):
        return False


class Resumable(Protocol):
    """What `CheckpointFolder` needs of a trainer."""

    updates_done: int
    history: list[dict[str, float]]
    config: PPOConfig
    model: nn.Module

    def save_checkpoint(self, directory: str | Path) -> None: ...


@dataclass(frozen=True)
class CheckpointFolder:
    """The newest few checkpoints of one run: `update-000010/trainer.pt` is that after 10 updates."""

    directory: str | Path
    """Kept as a `Path`."""
    every: int = 5
    """Updates between two checkpoints; the last update is always saved."""
    keep: int = 2
    """How many are kept: more than one, since the newest may be damaged when a machine fails."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "directory", Path(self.directory))
        check_number("every", self.every, 1)
        check_number("keep", self.keep, 1)

    def save(self, trainer: Resumable) -> None:
        """Save if it is time, then remove the oldest; made for `on_update` of `PPOTrainer.train`.

        Raises:
            ValueError: the folder holds a whole checkpoint of another run, whose history or number of updates says so.
            DivergedError: a weight is NaN or infinite, so the checkpoint would be of no use.
            OSError: it could not be written, for instance on a full disk; earlier checkpoints are unchanged.
        """
        own = self._own(trainer)
        if trainer.updates_done % self.every and trainer.updates_done < trainer.config.num_updates:
            return
        if not all(bool(weight.isfinite().all()) for weight in trainer.model.parameters()):
            raise DivergedError(
                f"stopped at update {trainer.updates_done}: a weight is NaN or infinite; lower learning_rate"
            )
        target = Path(self.directory) / f"{PREFIX}{trainer.updates_done:06d}"
        try:
            trainer.save_checkpoint(target)
        except (OSError, RuntimeError) as error:  # torch.save speaks of a full disk as a RuntimeError
            if not (target / CHECKPOINT_FILE).exists():
                with suppress(OSError):
                    remove_checkpoint(target)
            raise OSError(f"expected room for a checkpoint in {target}, got: {first_line(error)}") from error
        for old in sorted({*own, target}, key=updates_done)[: -self.keep]:
            remove_checkpoint(old)

    def newest(self, say: Callable[[str], None] = print) -> Path | None:
        """The newest checkpoint that is whole, for `load_checkpoint`; None where none was ever written.

        Args:
            say: called with a line about each checkpoint that is passed over.

        Raises:
            ValueError: there are checkpoints, and none is whole.
        """
        found = self._all()
        for directory in reversed(found):
            if is_whole(directory / CHECKPOINT_FILE):
                return directory
            say(f"passed over {directory}: it was cut off or damaged")
        if found:
            raise ValueError(
                f"expected a whole checkpoint in {self.directory}, got {len(found)} that are damaged; start a new run"
            )
        return None

    def _own(self, trainer: Resumable) -> list[Path]:
        """The checkpoints of this run so far; one that was cut off is of nobody."""
        own = []
        for directory in self._all():
            file, done = directory / CHECKPOINT_FILE, updates_done(directory)
            if done <= trainer.updates_done and _history(file) == repr(trainer.history[:done]):
                own.append(directory)
            elif is_whole(file):
                raise ValueError(
                    f"expected a folder for the checkpoints of this run, which has done {trainer.updates_done} "
                    f"updates, got {directory} of another; load_checkpoint(newest(print)) goes on with that one, "
                    "another folder keeps both"
                )
        return own

    def _all(self) -> list[Path]:
        """Oldest first; without the folders in which an interrupted write left no whole file."""
        return [one for one in checkpoints_in(Path(self.directory)) if (one / CHECKPOINT_FILE).exists()]


def _history(file: Path) -> str | None:
    """The metrics that a checkpoint holds, as they print: NaN does not equal itself. No weight is read."""
    try:
        return _read_history(file, file.stat().st_mtime_ns)
    except Exception:  # it may be anything, and another process may be removing it
        return None


@functools.lru_cache(maxsize=8)  # once for each file, where every update asks
def _read_history(file: Path, changed: int) -> str:
    return repr(torch.load(file, map_location="cpu", weights_only=True, mmap=True)["history"])


def remove_checkpoint(directory: Path) -> None:
    """Remove the file that `save_checkpoint` wrote, whole or not, and its folder if nothing else is there.

    Another process may be removing it too.
    """
    for name in (CHECKPOINT_FILE, CHECKPOINT_FILE + ".unfinished"):
        (directory / name).unlink(missing_ok=True)
    remove_empty([directory])


def checkpoints_in(directory: Path) -> list[Path]:
    """The folders that a `CheckpointFolder` has made, by their names, oldest first."""
    found = (one for one in directory.glob(f"{PREFIX}*") if one.name.removeprefix(PREFIX).isdecimal())
    return sorted(found, key=updates_done)


def updates_done(directory: Path) -> int:
    """The number of updates after which a checkpoint of `CheckpointFolder` was written."""
    return int(directory.name.removeprefix(PREFIX))


class Generator(Protocol):
    """What `torch.Generator` and the global generators below have in common."""

    def get_state(self) -> Any: ...

    def set_state(self, state: Any) -> Any: ...


def global_generators() -> dict[str, Generator]:
    """The global random generators of the process; a reward function may draw from any of them."""
    gpus = torch.cuda.default_generators if torch.cuda.is_available() else ()
    return {
        "torch": torch.default_generator,
        **{f"gpu {number}": generator for number, generator in enumerate(gpus)},
        "python": _PythonRandom(),
        "numpy": _NumpyRandom(),
    }


class _PythonRandom:
    """Its state holds 625 integers, which `torch.load` reads ten times as fast from a tensor."""

    def get_state(self) -> Any:
        version, words, spare = random.getstate()
        return version, torch.tensor(words), spare

    def set_state(self, state: Any) -> None:
        version, words, spare = state
        random.setstate((version, tuple(torch.as_tensor(words).tolist()), spare))


class _NumpyRandom:
    """Its state holds an array, which `torch.load(weights_only=True)` takes as a tensor."""

    def get_state(self) -> Any:
        state: Any = numpy.random.get_state()
        name, words, *rest = state
        return (name, torch.from_numpy(words.astype(numpy.int64)), *rest)

    def set_state(self, state: Any) -> None:
        name, words, *rest = state
        numpy.random.set_state((name, numpy.asarray(words), *rest))
