"""The optimizer, and the learning rate of each update: a warm-up, then one of three schedules; or one's own of both.

The critic may have a rate of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .config import SCHEDULES, PPOConfig
from .shapes import check_number

Groups = list[dict[str, Any]]
OptimizerMaker = Callable[[Groups], torch.optim.Optimizer]
"""Parameter groups with their learning rates -> an optimizer of all of them. A group may be split, its `part` kept."""
Schedule = Callable[[int], float]
"""Updates done -> the factor of the learning rates in the next one, in the place of warm-up and decay."""


def parameter_groups(model: nn.Module, config: PPOConfig) -> list[dict[str, Any]]:
    """What the optimizer trains: one group, or the policy's and the critic's where their rates differ.

    The rates are set before each update.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if config.critic_learning_rate is None and config.critic_warmup_updates == 0:
        return [{"params": trainable, "lr": config.learning_rate}]
    policy: nn.Module = model.policy  # type: ignore[assignment]
    own = {id(parameter) for parameter in policy.parameters()}
    groups = (
        [parameter for parameter in trainable if id(parameter) in own],
        [parameter for parameter in trainable if id(parameter) not in own],
    )
    return [{"params": group, "lr": rate} for group, rate in zip(groups, learning_rates(config, 0), strict=True)]


def make_optimizer(model: nn.Module, config: PPOConfig, make: OptimizerMaker | None = None) -> torch.optim.Optimizer:
    """AdamW without weight decay over actor and critic, or what `make` makes of their parameter groups.

    Raises:
        ValueError: `make` is no function of parameter groups, or leaves out a weight that trains.
    """
    groups = parameter_groups(model, config)
    if make is None:
        return torch.optim.AdamW(groups, eps=config.adam_epsilon, weight_decay=0.0, fused=True)
    wanted = {id(parameter) for group in groups for parameter in group["params"]}
    parts = ("policy", "critic")
    named = [group | {"part": part} for group, part in zip(groups, parts, strict=False)]
    made: Any = make(named) if callable(make) and not isinstance(make, type) else make
    if not isinstance(made, torch.optim.Optimizer) or made is make:
        raise ValueError(
            "expected optimizer to be a function that makes one of parameter groups, such as lambda groups: "
            f"torch.optim.AdamW(groups, weight_decay=0.01), got {type(made).__name__}"
        )
    found = {id(parameter) for group in made.param_groups for parameter in group["params"]}
    if found != wanted or any(group.get("part") not in parts for group in made.param_groups):
        raise ValueError(
            f"expected an optimizer of all {len(wanted)} weights that train, each group with the part of the one that "
            f"it comes from, got one of {len(found & wanted)}; split a group with {{**group, 'params': some}}"
        )
    return made


def set_learning_rates(
    optimizer: torch.optim.Optimizer, config: PPOConfig, updates_done: int, schedule: Schedule | None = None
) -> None:
    """Set the rate of each parameter group for the next update, the one after `updates_done`."""
    policy, critic = learning_rates(config, updates_done, schedule)
    for number, group in enumerate(optimizer.param_groups):  # one group for both, or two, or those of another optimizer
        group["lr"] = critic if group.get("part", ("policy", "critic")[min(number, 1)]) == "critic" else policy


def learning_rates(config: PPOConfig, updates_done: int, schedule: Schedule | None = None) -> tuple[float, float]:
    """Learning rates of policy and critic in the next update, the one after `updates_done`.

    Raises:
        ValueError: `schedule` gives anything but a number of at least 0.
    """
    warm = (updates_done + 1) / (config.warmup_updates + 1)
    share = min(warm, SCHEDULES[config.scheduler](updates_done / config.num_updates))
    if schedule is not None:
        share = schedule(updates_done)
        check_number(f"schedule({updates_done})", share, 0.0)
    critic = config.learning_rate if config.critic_learning_rate is None else config.critic_learning_rate
    policy = config.learning_rate if updates_done >= config.critic_warmup_updates else 0.0
    return policy * share, critic * share
