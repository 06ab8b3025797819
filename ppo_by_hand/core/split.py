"""Checkpoints of weights and optimizers that are split among processes, in one file as a single process writes it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import nn
from torch.utils._pytree import tree_map

Model = TypeVar("Model", bound=nn.Module)
NOT_PLAIN = ("loss_scaler", "param_slice_mappings")
"""Objects of DeepSpeed in its optimizer's state, which `torch.load(weights_only=True)` refuses."""


def is_split(accelerator: Accelerator) -> bool:
    """Tell whether no process holds the weights and the optimizer's state whole."""
    return accelerator.distributed_type in (DistributedType.FSDP, DistributedType.DEEPSPEED)


def parts(accelerator: Accelerator) -> int | None:
    """Return how many parts of the optimizer's state a checkpoint holds; None if it is whole, for any number."""
    return accelerator.num_processes if accelerator.distributed_type == DistributedType.DEEPSPEED else None


def whole_state(accelerator: Accelerator, model: nn.Module, optimizer: Any) -> dict[str, Any]:
    """Gather weights and optimizer state of all processes in process 0, on the CPU; every process must call it.

    With FSDP both are those of an unsplit model, so any number of processes can load them. ZeRO's optimizer cuts its
    state into flat parts, one for each process, and this is the list of them.

    Returns:
        "model" and "optimizer" of a checkpoint; of no use in the other processes.
    """
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        part = _part(optimizer.optimizer)
        found: list[Any] | None = [None] * accelerator.num_processes if accelerator.is_main_process else None
        if accelerator.num_processes > 1:
            torch.distributed.gather_object(part, found)
        return {"model": model.state_dict(), "optimizer": [part] if accelerator.num_processes == 1 else found}
    from torch.distributed.checkpoint.state_dict import get_state_dict

    if not optimizer.state:  # get_state_dict would make it by a step
        return {"model": whole_weights(model), "optimizer": optimizer.state_dict()}
    weights, state = get_state_dict(model, optimizer, options=_whole())
    return {
        "model": weights,
        "optimizer": _renamed(state, {name: i for i, name in enumerate(_names(model, optimizer))}),
    }


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
    from torch.distributed.checkpoint.state_dict import set_model_state_dict, set_state_dict

    saved, options = state["optimizer"], _whole()
    if saved["state"]:
        named = _renamed(saved, dict(enumerate(_names(model, optimizer))))
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=named, options=options)
    else:
        set_model_state_dict(model, state["model"], options=options)
        optimizer.load_state_dict(saved)


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
