"""A checkpoint on disk: it is read only if it is whole and belongs to this run, and replaced every few updates."""

from __future__ import annotations

import pickle
import random
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor, nn

from .checks import DivergedError
from .files import first_line
from .shapes import check_number

CHECKPOINT_FILE = "trainer.pt"
MAY_DIFFER = ("log_dir", "num_updates", "micro_rollout_batch_size")
"""Settings that a resumed run may change: the updates before are the same, those after follow the new setting."""


class CheckpointFolder:
    """Keeps the newest checkpoint of one run; `save_checkpoint` replaces it in one step, so one is always whole.

    No other file is ever removed.

    Args:
        directory: for the checkpoint, created where missing.
        every: updates between two checkpoints; the last update is always saved.
    """

    def __init__(self, directory: str | Path, every: int = 5) -> None:
        check_number("every", every, 1)
        self.directory, self.every = Path(directory), every
        self.is_of_another_run = (self.directory / CHECKPOINT_FILE).exists()  # until `load` has taken it

    def load(self, trainer: Any) -> bool:
        """Let a trainer go on from the checkpoint; False if there is none.

        Raises:
            ValueError: as `load_checkpoint`.
        """
        if not (self.directory / CHECKPOINT_FILE).exists():
            return False
        trainer.load_checkpoint(self.directory)
        self.is_of_another_run = False
        return True

    def save(self, trainer: Any) -> None:
        """Save if it is time; made for `on_update` of `PPOTrainer.train`.

        Raises:
            ValueError: the folder came with a checkpoint that was not loaded.
            DivergedError: a weight is NaN or infinite, so the checkpoint would be of no use.
            OSError: it could not be written, for instance on a full disk; the one before is unchanged.
        """
        if self.is_of_another_run:
            raise ValueError(
                f"expected a folder without the checkpoint of another run, got {self.directory}; "
                "CheckpointFolder(...).load(trainer) before train goes on with that one, another folder keeps both"
            )
        if trainer.updates_done % self.every and trainer.updates_done < trainer.config.num_updates:
            return
        if not all(bool(weight.isfinite().all()) for weight in trainer.model.parameters()):
            raise DivergedError(
                f"stopped at update {trainer.updates_done}: a weight is NaN or infinite; lower learning_rate"
            )
        try:
            trainer.save_checkpoint(self.directory)
        except (OSError, RuntimeError) as error:  # torch.save speaks of a full disk as a RuntimeError
            raise OSError(f"expected room for a checkpoint in {self.directory}, got: {first_line(error)}") from error


def state_of(trainer: Any, generators: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a checkpoint holds of a trainer and of these random generators."""
    return {
        "config": asdict(trainer.config),
        "model": _trained_weights(trainer.accelerator.unwrap_model(trainer.model)),
        "optimizer": trainer.optimizer.state_dict(),
        "kl_coef": trainer.kl_controller.value,
        "prompts_waiting": trainer.prompt_queue.waiting,
        "updates_done": trainer.updates_done,
        "history": trainer.history,
        "generators": {name: generator.get_state() for name, generator in generators.items()},
    }


def _trained_weights(model: nn.Module) -> dict[str, Any]:
    """Return what a checkpoint holds of a model: the weights that are trained, and buffers.

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


def read_checkpoint(directory: str | Path, expected: Mapping[str, Any]) -> dict[str, Any]:
    """Read a checkpoint, and check that it is whole and fits this run.

    Args:
        directory: as given to `save_checkpoint`.
        expected: what the loading trainer would save itself, with which all but the numbers is compared.

    Returns:
        The state that was saved, on the CPU.

    Raises:
        FileNotFoundError: there is no checkpoint in the directory.
        ValueError: it was cut off or damaged, a part is missing, or its settings, models or optimizer are others.
    """
    file = Path(directory) / CHECKPOINT_FILE
    if not file.is_file():
        raise FileNotFoundError(
            f"expected a checkpoint written by save_checkpoint, got no {CHECKPOINT_FILE} in {directory}"
        )
    if not is_whole(file):
        raise ValueError(f"expected a whole checkpoint, got {file}, which was cut off or damaged; start a new run")
    try:
        state: dict[str, Any] = dict(torch.load(file, map_location="cpu", weights_only=True))
    except (pickle.UnpicklingError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"expected a checkpoint written by save_checkpoint, got {file} of something else") from error
    parts, own_parts = state.get("parts"), expected.get("parts")
    if parts != own_parts:
        raise ValueError(
            f"expected a checkpoint {_of_parts(own_parts)}, got {file}, one {_of_parts(parts)}; only as many processes "
            "under DeepSpeed can go on with what DeepSpeed has split: start the run as it was"
        )
    missing = sorted(expected.keys() - state.keys())
    if missing:
        raise ValueError(
            f"expected every part of a checkpoint, got none of {', '.join(missing)} in {file}; resume it with the code "
            "that wrote it"
        )
    if state["updates_done"] > expected["config"]["num_updates"]:
        raise ValueError(
            f"expected num_updates to be at least the {state['updates_done']} that the run in {file} has done, got "
            f"{expected['config']['num_updates']}; raise it"
        )
    fixes = {
        "settings": f"only {', '.join(MAY_DIFFER)} may change: resume with the same settings",
        "models": "give the models that its run began with",
        "optimizer": "give the optimizer= that its run began with",
    }
    saved, own = _described(state), _described(expected)
    for what, fix in fixes.items():
        for name in own[what] | saved[what]:
            here, there = own[what].get(name, "missing"), saved[what].get(name, "missing")
            if here != there:
                raise ValueError(
                    f"expected a checkpoint of a run with the same {what}, got {name} {there} in {file} and {here} "
                    f"here; {fix}, or start a new run"
                )
    state["generators"] = _of_this_machine(state["generators"], expected["generators"])
    return state


def _described(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is the same in all checkpoints of a run, by name; not the rates of now, which the schedule decides."""
    groups = state["optimizer"]["param_groups"] if state.get("parts") is None else []
    optimizer: dict[str, Any] = {"parameter groups": len(groups)}
    for number, group in enumerate(groups):
        behind = f" of group {number}" if number else ""
        values = {"weights": len(group["params"]), **group}
        optimizer |= {name + behind: value for name, value in values.items() if name not in ("lr", "params")}
    return {
        "settings": {name: value for name, value in state["config"].items() if name not in MAY_DIFFER},
        "models": {name: tuple(weight.shape) for name, weight in state["model"].items()},
        "optimizer": optimizer,
    }


def _of_this_machine(saved: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The states of generators; where the run had no such device, the seed has made one that it has not drawn from."""

    def fits(name: str) -> bool:
        one, other = saved.get(name), own[name]
        return one is not None and (not isinstance(other, Tensor) or one.shape == other.shape)

    return {name: saved[name] if fits(name) else own[name] for name in own}


def _of_parts(parts: int | None) -> str:
    return "of a whole optimizer" if parts is None else f"of DeepSpeed in {parts} process{'es' * (parts > 1)}"


def is_whole(file: Path) -> bool:
    """Tell whether a file ends where it should and its parts have their checksums: torch.load misses a flipped bit."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError):
        return False


class Generator(NamedTuple):
    """Reads and sets the state of a random generator, as `torch.Generator` does; plain data, for `torch.load`."""

    get_state: Callable[[], Any]
    set_state: Callable[[Any], Any]


def global_generators() -> dict[str, Generator]:
    """Return the global random generators of the process: a reward function may draw from any of them."""
    gpus = torch.cuda.default_generators if torch.cuda.is_available() else ()
    of_torch = {"torch": torch.default_generator, **{f"gpu {number}": one for number, one in enumerate(gpus)}}
    return {name: Generator(one.get_state, one.set_state) for name, one in of_torch.items()} | {
        "python": Generator(random.getstate, random.setstate),
        "numpy": Generator(_numpy_state, numpy.random.set_state),
    }


def _numpy_state() -> tuple[Any, ...]:
    state: Any = numpy.random.get_state()
    name, words, *rest = state
    return (name, words.tolist(), *rest)
