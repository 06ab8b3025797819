"""What lesson 5 leaves out of the clip: an interval that is wider on one side, and how often the critic's clip acts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from .metrics import weighted

Answer = TypeVar("Answer", Tensor, dict[str, float])
Loss = Callable[[Any, Any], tuple[Tensor, dict[str, float]]]


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


def with_two_sides(function: Callable[..., Answer]) -> Any:
    """The same function of lesson 5, whose `clip_epsilon` may be a pair; for files of lesson 9 from when lesson 5 took
    one number."""

    @functools.wraps(function)
    def wrapped(
        log_probs: Tensor,
        old_log_probs: Tensor,
        advantages: Tensor,
        clip_epsilon: float | tuple[float, float] = 0.2,
        mask: Tensor | None = None,
    ) -> Answer:
        if isinstance(clip_epsilon, tuple):
            return by_sides(function, log_probs, old_log_probs, advantages, clip_epsilon, mask)
        return function(log_probs, old_log_probs, advantages, clip_epsilon, mask)

    return wrapped


def with_value_clip_fraction(compute_loss: Loss) -> Loss:
    """The same method of the trainer, with `value_clip_fraction` among its statistics; for files of lesson 9 that were
    handed out before `value_statistics`. The values are those of the model's forward pass."""

    @functools.wraps(compute_loss)
    def wrapped(trainer: Any, batch: Any) -> tuple[Tensor, dict[str, float]]:
        seen: list[Tensor] = []
        hook = trainer.model.register_forward_hook(lambda model, inputs, outputs: seen.append(outputs.values.detach()))
        try:
            loss, statistics = compute_loss(trainer, batch)
        finally:
            hook.remove()
        if seen:
            values, old_values, returns = (part[batch.mask] for part in (seen[0], batch.values, batch.returns))
            fraction = value_clip_fraction(values, old_values, returns, trainer.config.value_clip_epsilon)
            statistics = statistics | {"value_clip_fraction": fraction}
        return loss, statistics

    return wrapped


def value_clip_fraction(values: Tensor, old_values: Tensor, returns: Tensor, clip_epsilon: float) -> float:
    """Share of these tokens whose clipped squared error is strictly the larger: the new value gets no gradient."""
    clipped = values.clamp(old_values - clip_epsilon, old_values + clip_epsilon)  # inside it is the value, to the bit
    return ((clipped - returns).abs() > (values - returns).abs()).double().mean().item()
