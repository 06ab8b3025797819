"""Another program that samples: how far its probabilities are from those of the policy in training.

A function of lesson 13 is said here again, since what is given imports none; a test holds the two together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

Optimize = Callable[[Any, Any], dict[str, float]]


class SamplerGap:
    """Between a sampler and the policy that it samples for, in one rollout.

    Args:
        cap: of the importance weights; None makes none.

    Attributes:
        log_probs: (B, T) of the sampler, where the trainer has put its own in their place.
        weights: (B, T) for the tokens' advantages, or None.
        metrics: what is logged of it.
    """

    def __init__(self, cap: float | None) -> None:
        self.cap = cap
        self.log_probs: Tensor | None = None
        self.weights: Tensor | None = None
        self.metrics: dict[str, float] = {}

    def measure(self, experience: Any) -> None:
        """Compare the two sets of log-probabilities of a rollout.

        Raises:
            ValueError: there are to be weights, and the sampler gave no log-probabilities.
        """
        self.weights, self.metrics = None, {}
        if self.log_probs is None:
            return
        mask = experience.mask
        theirs = self.log_probs.to(mask.device)
        if theirs[mask].isnan().any():
            if self.cap is not None:
                raise ValueError("expected log-probabilities from the sampler with importance_cap, got none")
            return
        log_ratio = (experience.log_probs - theirs).masked_fill(~mask, 0.0)
        self.metrics = {
            "sampler_kl": (log_ratio.expm1() - log_ratio)[mask].mean().item(),
            "sampler_ratio_max": log_ratio[mask].exp().max().item(),
        }
        if self.cap is not None:
            self.weights = importance_weights(experience.log_probs, theirs, mask, self.cap)


def importance_weights(log_probs: Tensor, sampler_log_probs: Tensor, mask: Tensor, cap: float) -> Tensor:
    """Lesson 13's `truncated_importance_weights`."""
    log_weight = (log_probs - sampler_log_probs).masked_fill(~mask, 0.0)
    return log_weight.exp().clamp(max=cap).masked_fill(~mask, 0.0)


def widened(parts: list[Tensor], width: int) -> Tensor:
    """(B, width) of all parts (B_i, T_i), padded on the right."""
    return torch.cat([pad(part, (0, width - part.shape[1])) for part in parts])


def with_importance_weights(optimize: Optimize) -> Optimize:
    """The same method of the trainer, with the tokens of a rollout weighted: w min(r A, clip(r) A) for w > 0."""

    @functools.wraps(optimize)
    def wrapped(trainer: Any, buffer: Any) -> dict[str, float]:
        if (weights := trainer.collector.gap.weights) is not None:
            (rollout,) = buffer._stored
            buffer._stored = [replace(rollout, advantages=rollout.advantages * weights)]
        return optimize(trainer, buffer)

    return wrapped
