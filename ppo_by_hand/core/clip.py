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


def with_two_sides(function: Callable[..., Answer]) -> Any:
    """The same function of log-probs and advantages, whose `clip_epsilon` may be a pair: the ratio is then kept in
    [1 - low, 1 + high].

    The upper bound acts only on tokens of positive advantage, the lower bound only on the others. So the function is
    evaluated on each group with its own epsilon, and the results are averaged by their numbers of tokens.

    Args:
        function: `compute_ppo_loss` or `ppo_statistics`.
    """

    @functools.wraps(function)
    def wrapped(
        log_probs: Tensor,
        old_log_probs: Tensor,
        advantages: Tensor,
        clip_epsilon: float | tuple[float, float] = 0.2,
        mask: Tensor | None = None,
    ) -> Answer:
        rows = log_probs, old_log_probs, advantages
        if not isinstance(clip_epsilon, tuple):
            return function(*rows, clip_epsilon, mask)
        is_good = advantages > 0
        real = torch.ones_like(is_good) if mask is None else mask
        sides = [(real & ~is_good, clip_epsilon[0]), (real & is_good, clip_epsilon[1])]
        parts = [(function(*rows, epsilon, side), int(side.sum())) for side, epsilon in sides if side.any()]
        tokens = sum(count for _, count in parts)
        answers, shares = [answer for answer, _ in parts], [count / tokens for _, count in parts]
        if isinstance(answers[0], dict):
            return weighted(answers, shares)
        return torch.stack([share * answer for share, answer in zip(shares, answers, strict=True)]).sum()

    return wrapped


def with_value_clip_fraction(compute_loss: Loss) -> Loss:
    """The same method of the trainer, its statistics with the share of tokens whose value the clip keeps from learning.

    Of these tokens the clipped error is strictly the larger, so that the new value gets no gradient. The values are
    those of the model's forward pass.
    """

    @functools.wraps(compute_loss)
    def wrapped(trainer: Any, batch: Any) -> tuple[Tensor, dict[str, float]]:
        seen: list[Tensor] = []
        hook = trainer.model.register_forward_hook(lambda model, inputs, outputs: seen.append(outputs.values.detach()))
        try:
            loss, statistics = compute_loss(trainer, batch)
        finally:
            hook.remove()
        if seen:
            fraction = value_clip_fraction(seen[0], batch, trainer.config.value_clip_epsilon)
            statistics = statistics | {"value_clip_fraction": fraction}
        return loss, statistics

    return wrapped


def value_clip_fraction(values: Tensor, batch: Any, clip_epsilon: float) -> float:
    """Share of the real tokens whose clipped squared error is strictly the larger."""
    values, old_values, returns = values[batch.mask], batch.values[batch.mask], batch.returns[batch.mask]
    clipped = values.clamp(old_values - clip_epsilon, old_values + clip_epsilon)  # inside it is the value, to the bit
    return ((clipped - returns).abs() > (values - returns).abs()).double().mean().item()
