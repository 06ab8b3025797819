"""The optimizer of actor and critic: AdamW, or the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from torch import nn

from .config import PPOConfig
from .shapes import check_number
from .validate import check_functions

Groups = list[dict[str, Any]]
OptimizerMaker = Callable[[Groups], torch.optim.Optimizer]
"""Parameter groups with their learning rates -> an optimizer of all of them. A group may be split."""
Schedule = Callable[[int], float]
"""Updates done -> the factor of the learning rates in the next one."""
ADAM_EPSILON = 1e-5
"""PyTorch's 1e-8 makes the first steps large where gradients are small."""


def make_optimizer(model: nn.Module, config: PPOConfig, make: OptimizerMaker | None = None) -> torch.optim.Optimizer:
    """Make AdamW without weight decay over actor and critic, or what `make` makes of their parameter groups.

    There is one group, or the policy's and the critic's where the critic has a learning rate of its own. Each keeps the
    rate that it was made with as `initial_lr`.

    Raises:
        ValueError: `make` is no function of parameter groups, leaves out a weight that trains, or changes a rate.
    """
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    groups: Groups = [{"params": trained, "lr": config.learning_rate}]
    if config.critic_learning_rate is not None:
        policy: nn.Module = model.policy  # type: ignore[assignment]
        own = {id(weight) for weight in policy.parameters()}
        groups = [
            {"params": [weight for weight in trained if id(weight) in own], "lr": config.learning_rate},
            {"params": [weight for weight in trained if id(weight) not in own], "lr": config.critic_learning_rate},
        ]
    if make is None:
        made: Any = torch.optim.AdamW(groups, eps=ADAM_EPSILON, weight_decay=0.0, fused=True)
    else:
        made = make(groups) if callable(make) and not isinstance(make, type) else make
        _check(made, make, groups)
    for group in made.param_groups:
        group.setdefault("initial_lr", group["lr"])
    optimizer: torch.optim.Optimizer = made
    return optimizer


def _check(made: Any, make: Any, groups: Groups) -> None:
    if not isinstance(made, torch.optim.Optimizer) or made is make:
        raise ValueError(
            "expected optimizer to be a function that makes one of parameter groups, such as lambda groups: "
            f"torch.optim.AdamW(groups, weight_decay=0.01), got {type(made).__name__}"
        )
    wanted = {(id(weight), group["lr"]) for group in groups for weight in group["params"]}
    found = {(id(weight), group["lr"]) for group in made.param_groups for weight in group["params"]}
    if found != wanted:
        raise ValueError(
            f"expected an optimizer of all {len(wanted)} weights that train, each with the lr of its group, got one of "
            f"{len(found & wanted)}; split a group with {{**group, 'params': some}}"
        )


def prepared(model: nn.Module, optimizer: torch.optim.Optimizer, accelerator: Accelerator) -> tuple[Any, Any]:
    """Let Accelerate place and wrap both; its wrapper of the optimizer stays only where it is needed.

    That is with float16's gradient scaler and with DeepSpeed. Else it would search the disk for a package in each step.
    """
    model, wrapped = accelerator.prepare(model, optimizer)
    is_plain = type(wrapped) is AcceleratedOptimizer and accelerator.scaler is None
    return model, wrapped.optimizer if is_plain else wrapped


def checked_schedule(schedule: Schedule) -> Schedule:
    """Wrap a user's schedule so that its answers are checked.

    Raises:
        ValueError: it is no function of a number; later, when it is called: it gives anything but a number >= 0.
    """
    check_functions(schedule=schedule)

    def factor(updates_done: int) -> float:
        found = schedule(updates_done)
        check_number(f"schedule({updates_done})", found, 0.0)
        return found

    return factor
