"""The optimizer of actor and critic: AdamW, or the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from torch import nn

from .config import PPOConfig

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
        ValueError: `make` leaves out a weight that trains, or changes a rate.
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
        made: torch.optim.Optimizer = torch.optim.AdamW(groups, eps=ADAM_EPSILON, weight_decay=0.0, fused=True)
    else:
        made = make(groups)
        wanted, found = _rates(groups), _rates(made.param_groups)
        if found != wanted:
            raise ValueError(
                f"expected an optimizer of all {len(wanted)} weights that train, each with the lr of its group, got "
                f"one of {len(found & wanted)}; split a group with {{**group, 'params': some}}"
            )
    for group in made.param_groups:
        group.setdefault("initial_lr", group["lr"])
    return made


def _rates(groups: Groups) -> set[tuple[int, float]]:
    return {(id(weight), group["lr"]) for group in groups for weight in group["params"]}


def prepared(model: nn.Module, optimizer: torch.optim.Optimizer, accelerator: Accelerator) -> tuple[Any, Any]:
    """Let Accelerate place and wrap both; its wrapper of the optimizer stays only where it is needed.

    That is with DeepSpeed. Else it would search the disk for a package in each step.
    """
    model, wrapped = accelerator.prepare(model, optimizer)
    return model, wrapped.optimizer if type(wrapped) is AcceleratedOptimizer else wrapped
