"""What lesson 5 leaves out of the clip: an interval that is wider on one side, and how often the critic's clip acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .metrics import weighted


def by_sides(
    function: Callable[..., Any],
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    clip_epsilon: tuple[float, float],
    mask: Tensor | None,
) -> Any:
    """A function of lesson 5 for two bounds: the ratio is kept in [1 - low, 1 + high].

    The upper bound acts only on tokens of positive advantage, the lower bound only on the others. So the function is
    evaluated on each group with its own epsilon, and the results are averaged by their numbers of tokens.

    Args:
        function: `compute_ppo_loss` or `ppo_statistics`; the others are its arguments, their shapes checked.
    """
    rows = log_probs, old_log_probs, advantages
    is_good = advantages > 0
    real = torch.ones_like(is_good) if mask is None else mask
    sides = [(real & ~is_good, clip_epsilon[0]), (real & is_good, clip_epsilon[1])]
    parts = [(function(*rows, epsilon, side), int(side.sum())) for side, epsilon in sides if side.any()]
    tokens = sum(count for _, count in parts)
    answers, shares = [answer for answer, _ in parts], [count / tokens for _, count in parts]
    if isinstance(answers[0], dict):
        return weighted(answers, shares)
    return torch.stack([share * answer for share, answer in zip(shares, answers, strict=True)]).sum()


def value_clip_fraction(values: Tensor, old_values: Tensor, returns: Tensor, clip_epsilon: float) -> float:
    """Share of these tokens whose clipped squared error is strictly the larger: the new value gets no gradient."""
    clipped = values.clamp(old_values - clip_epsilon, old_values + clip_epsilon)  # inside it is the value, to the bit
    return ((clipped - returns).abs() > (values - returns).abs()).double().mean().item()
