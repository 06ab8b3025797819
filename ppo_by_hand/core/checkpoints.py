"""A checkpoint on disk: it is read only if it is whole and belongs to this run, and replaced every few updates.

It is one file, as a single process writes it, also of weights and an optimizer that are split among processes."""

from __future__ import annotations

import copy
import pickle
import random
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import nn
from torch.utils._pytree import tree_map

from .files import first_line

Model = TypeVar("Model", bound=nn.Module)
CHECKPOINT_FILE = "trainer.pt"
MAY_DIFFER = ("log_dir", "num_updates", "micro_rollout_batch_size")
"""Settings that a resumed run may change: the updates before are the same, those after follow the new setting."""

FIXES = {
    "processes": "only as many processes under DeepSpeed can go on with what DeepSpeed has split",
    "settings": f"only {', '.join(MAY_DIFFER)} may change: resume with the same settings",
    "models": "give the models that its run began with",
    "optimizer": "give the optimizer= that its run began with",
}
"""What must be the same in a resumed run."""
NOT_PLAIN = ("loss_scaler", "param_slice_mappings")
"""Objects of DeepSpeed in its optimizer's state, which `torch.load(weights_only=True)` refuses."""


class CheckpointFolder:
    """Keeps the newest checkpoint of one run; `save_checkpoint` replaces it in one step, so one is always whole.

    No other file is ever removed.

    Args:
        directory: for the checkpoint, created where missing.
        every: updates between two checkpoints; the last update is always saved.
    """

    def __init__(self, directory: str | Path, every: int = 5) -> None:
        self.directory, self.every = Path(directory), every
        self.is_of_another_run = (self.directory / CHECKPOINT_FILE).exists()  # until `load` has taken it

    def load(self, trainer: Any) -> bool:
        """Let a trainer go on from the checkpoint, by its `load_checkpoint`; False if there is none."""
        if not (self.directory / CHECKPOINT_FILE).exists():
            return False
        trainer.load_checkpoint(self.directory)
        self.is_of_another_run = False
        return True

    def save(self, trainer: Any) -> None:
        """Save if it is time; made for `on_update` of `PPOTrainer.train`.

        Raises:
            ValueError: the folder came with a checkpoint that was not loaded.
            OSError: it could not be written, for instance on a full disk; the one before is unchanged.
        """
        if self.is_of_another_run:
            raise ValueError(
                f"expected a folder without the checkpoint of another run, got {self.directory}; "
                "CheckpointFolder(...).load(trainer) before train goes on with that one, another folder keeps both"
            )
        if trainer.updates_done % self.every and trainer.updates_done < trainer.config.num_updates:
            return
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
    """Read a checkpoint, on the CPU, and check that it is whole and fits this run.

    All but its numbers is compared with `expected`, which is what the loading trainer would save itself.

    Raises:
        FileNotFoundError: there is no checkpoint in the directory.
        ValueError: it was cut off or damaged, or its settings, models or optimizer are others.
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
        saved, own = _described(state), _described(expected)
    except (pickle.UnpicklingError, RuntimeError, TypeError, ValueError, KeyError) as error:
        raise ValueError(f"expected a checkpoint written by save_checkpoint, got {file} of something else") from error
    for what, fix in FIXES.items():
        for name in own[what] | saved[what]:
            here, there = own[what].get(name, "missing"), saved[what].get(name, "missing")
            if here != there:
                raise ValueError(
                    f"expected a checkpoint of a run with the same {what}, got {name} {there} in {file} and {here} "
                    f"here; {fix}, or start a new run"
                )
    # Where the run had no such device, the seed has made a generator that it has not drawn from.
    own_states, found = expected["generators"], state["generators"]
    fits = {name for name in own_states.keys() & found.keys() if _shape(own_states[name]) == _shape(found[name])}
    state["generators"] = own_states | {name: found[name] for name in fits}
    return state


def _shape(state: Any) -> Any:
    return getattr(state, "shape", None)


def _described(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is the same in all checkpoints of a run, by name; not the rates of now, which the schedule decides."""
    parts = state.get("parts")
    optimizer: dict[str, Any] = {}
    for number, group in enumerate(state["optimizer"]["param_groups"] if parts is None else []):
        values = {"weights": len(group["params"]), **group}
        optimizer |= {f"{name} of group {number}": one for name, one in values.items() if name not in ("lr", "params")}
    return {
        "processes": {"parts that DeepSpeed has split": parts},
        "settings": {name: value for name, value in state["config"].items() if name not in MAY_DIFFER},
        "models": {name: tuple(weight.shape) for name, weight in state["model"].items()},
        "optimizer": optimizer,
    }


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


def is_split(accelerator: Accelerator) -> bool:
    """Tell whether no process holds the weights and the optimizer's state whole."""
    return accelerator.distributed_type in (DistributedType.FSDP, DistributedType.DEEPSPEED)


def whole_state(accelerator: Accelerator, model: nn.Module, optimizer: Any) -> dict[str, Any]:
    """Gather weights and optimizer state of all processes in process 0, on the CPU; every process must call it.

    With FSDP both are those of an unsplit model, so any number of processes can load them. ZeRO's optimizer cuts its
    state into flat parts, one for each process, and this is the list of them.
    """
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        part = _part(optimizer.optimizer)
        found: list[Any] | None = [None] * accelerator.num_processes if accelerator.is_main_process else None
        if accelerator.num_processes > 1:
            torch.distributed.gather_object(part, found)
        return {"model": model.state_dict(), "optimizer": [part] if accelerator.num_processes == 1 else found}
    from torch.distributed.checkpoint.state_dict import get_state_dict

    is_new = not optimizer.state  # torch fills it by a step without gradients, which would count as Adam's first
    weights, state = get_state_dict(model, optimizer, options=_whole())
    if is_new:
        optimizer.state.clear()
        state.pop("state", None)
    numbers = {name: number for number, name in enumerate(_names(model, optimizer))}
    return {"model": weights, "optimizer": _renamed(state, numbers)}


def whole_weights(model: nn.Module) -> dict[str, Any]:
    """Gather the weights of a model that FSDP splits in process 0, on the CPU; every process must call it."""
    from torch.distributed.checkpoint.state_dict import get_model_state_dict

    return get_model_state_dict(model, options=_whole())


def load_whole_state(accelerator: Accelerator, model: nn.Module, optimizer: Any, state: Mapping[str, Any]) -> None:
    """Give each process its part of what `whole_state` gave; every process must call it, with the same state."""
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        model.load_state_dict(state["model"], strict=False)
        zero = optimizer.optimizer
        vars(zero.loss_scaler).update(state["optimizer"][accelerator.process_index]["scale"])
        zero.load_state_dict(state["optimizer"], load_from_fp32_weights=True)
        return
    from torch.distributed.checkpoint.state_dict import set_state_dict

    named = _renamed(state["optimizer"], dict(enumerate(_names(model, optimizer))))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=named, options=_whole())
    if not named["state"]:
        optimizer.state.clear()


def without_weights(model: Model, device: str) -> Model:
    """Copy a model without its weights' numbers; on the device "meta" they have none, and take no memory."""
    empty = {
        id(weight): nn.Parameter(torch.empty_like(weight, device=device), weight.requires_grad)
        for weight in model.parameters()
    }
    return copy.deepcopy(model, empty)


def _whole() -> Any:
    from torch.distributed.checkpoint.state_dict import StateDictOptions  # two seconds, which only split weights need

    return StateDictOptions(full_state_dict=True, cpu_offload=True, strict=False)


def _names(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Of the optimizer's weights, in the order in which a plain state numbers them."""
    name = {id(weight): name for name, weight in model.named_parameters()}
    return [name[id(weight)] for group in optimizer.param_groups for weight in group["params"]]


def _renamed(state: Mapping[str, Any], new: Mapping[Any, Any]) -> dict[str, Any]:
    """An optimizer's state whose weights have other names or numbers; empty as it is in all processes but the first."""
    groups = [{**group, "params": [new[one] for one in group["params"]]} for group in state.get("param_groups", [])]
    return {"state": {new[one]: found for one, found in state.get("state", {}).items()}, "param_groups": groups}


def _part(zero: Any) -> dict[str, Any]:
    """The state of DeepSpeed's optimizer in this process, as plain data on the CPU."""
    state = {name: value for name, value in zero.state_dict().items() if name not in NOT_PLAIN}
    state |= {"zero_stage": int(state["zero_stage"]), "scale": dict(vars(zero.loss_scaler))}
    return dict(tree_map(lambda one: one.detach().cpu() if isinstance(one, torch.Tensor) else one, state))
