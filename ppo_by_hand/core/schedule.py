"""The learning rate of each update: a warm-up, then one of three schedules; the critic may have its own rate."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .config import SCHEDULES, PPOConfig


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


def make_optimizer(model: nn.Module, config: PPOConfig) -> torch.optim.AdamW:
    """AdamW without weight decay over actor and critic."""
    groups = parameter_groups(model, config)
    return torch.optim.AdamW(groups, eps=config.adam_epsilon, weight_decay=0.0, fused=True)


def set_learning_rates(optimizer: torch.optim.Optimizer, config: PPOConfig, updates_done: int) -> None:
    """Set the rate of each parameter group for the next update, the one after `updates_done`."""
    rates = learning_rates(config, updates_done)
    for group, rate in zip(optimizer.param_groups, rates, strict=False):  # one group for both, or two
        group["lr"] = rate


def learning_rates(config: PPOConfig, updates_done: int) -> tuple[float, float]:
    """Learning rates of policy and critic in the next update, the one after `updates_done`."""
    warm = (updates_done + 1) / (config.warmup_updates + 1)
    share = min(warm, SCHEDULES[config.scheduler](updates_done / config.num_updates))
    critic = config.learning_rate if config.critic_learning_rate is None else config.critic_learning_rate
    policy = config.learning_rate if updates_done >= config.critic_warmup_updates else 0.0
    return policy * share, critic * share
