"""Scores in standard deviations of the run's first rollout: a reward model's own scale is arbitrary (lesson 2).

Functions of the lessons are passed in, since what is given imports none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from .config import RolloutConfig

LEAST_STD = 1e-6
"""Scores that differ by less are all equal: only their mean is taken."""


class Scale(NamedTuple):
    """Mean and standard deviation of the scores of a rollout."""

    mean: float = 0.0
    std: float = 1.0

    def __call__(self, scores: Tensor) -> Tensor:
        return (scores - self.mean) / (self.std if self.std > LEAST_STD else 1.0)


def scale_of(scores: Tensor) -> Scale:
    return Scale(scores.mean().item(), scores.std(correction=0).item())


def scale_in(metrics: Mapping[str, float]) -> Scale:
    """That of the rollout with these metrics; those of the first are in each checkpoint."""
    return Scale(metrics["score"], metrics["score_std"])


def with_scores_normalized(
    experience: Any,
    config: RolloutConfig,
    kl_coef: float,
    scale: Scale,
    penalize_missing_stop: Callable[..., Tensor],
    compute_rewards: Callable[..., Tensor],
    compute_response_gae: Callable[..., tuple[Tensor, Tensor]],
    whiten: Callable[..., Tensor] | None = None,
) -> Any:
    """The same experience with rewards, advantages and returns made from normalized scores; its scores stay.

    Args:
        experience: lesson 8's `Experience`, its rewards not whitened.
        kl_coef: that of its rewards.
        scale: of the first rollout.
        penalize_missing_stop, compute_rewards, compute_response_gae: of lessons 6 and 4.
        whiten: scales these rewards, as lesson 1's `masked_whiten`; None leaves them.
    """
    scores = penalize_missing_stop(
        scale(experience.scores), experience.responses, config.stop_token_ids, config.missing_stop_penalty
    )
    log_probs = experience.log_probs, experience.ref_log_probs
    rewards = compute_rewards(scores, *log_probs, experience.mask, kl_coef, config.clip_score, config.kl_estimator)
    if whiten is not None:
        rewards = whiten(rewards, experience.mask, shift_mean=False)
    advantages, returns = compute_response_gae(rewards, experience.values, experience.mask, config.gamma, config.lam)
    return replace(experience, rewards=rewards, advantages=advantages, returns=returns)
