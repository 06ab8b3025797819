"""The optimizer of actor and critic: AdamW, or the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
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
    """AdamW without weight decay over actor and critic, or what `make` makes of their parameter groups.

    There is one group, or the policy's and the critic's where the critic has a learning rate of its own. Each keeps the
    rate that it was made with as `initial_lr`.

    Raises:
        ValueError: `make` is no function of parameter groups, or leaves out a weight that trains.
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
        _check(made, make, trained)
    for group in made.param_groups:
        group.setdefault("initial_lr", group["lr"])
    optimizer: torch.optim.Optimizer = made
    return optimizer


def _check(made: Any, make: Any, trained: list[nn.Parameter]) -> None:
    if not isinstance(made, torch.optim.Optimizer) or made is make:
        raise ValueError(
            "expected optimizer to be a function that makes one of parameter groups, such as lambda groups: "
            f"torch.optim.AdamW(groups, weight_decay=0.01), got {type(made).__name__}"
        )
    wanted = {id(weight) for weight in trained}
    found = {id(weight) for group in made.param_groups for weight in group["params"]}
    if found != wanted:
        raise ValueError(
            f"expected an optimizer of all {len(wanted)} weights that train, got one of {len(found & wanted)} of them"
        )
