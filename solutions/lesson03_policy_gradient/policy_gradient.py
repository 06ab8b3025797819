"""Lesson 3: the policy gradient (REINFORCE), and why a baseline helps without changing its mean.

Floats are float32 or float64, and an answer has their precision. No function changes its arguments; a NaN of a real
token shows in the answer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ppo_by_hand.core.shapes import check_mask, check_number, check_shapes

from ..lesson01_masked_sequences import masked_mean


def rewards_to_go(rewards: Tensor, mask: Tensor, gamma: float = 1.0) -> Tensor:
    """Return the discounted sum of the rewards from each token on: those that the token can still influence.

    r_t + gamma r_(t+1) + gamma^2 r_(t+2) + ..., up to the last real token of the row

    A False inside a row (a tool's token) is skipped: it adds no reward and no factor gamma.

    Args:
        rewards: (B, T) float; under a False mask anything, NaN included.
        mask: (B, T) bool, True on real tokens.
        gamma: discount in [0, 1].

    Returns:
        (B, T), 0 where masked; a new tensor, nothing is detached.

    Raises:
        ValueError: shapes disagree, the mask is not bool or is False everywhere, gamma is out of range.
    """
    check_shapes(rewards=(rewards, "B T"), mask=(mask, "B T"))
    check_mask(mask)
    check_number("gamma", gamma, 0.0, 1.0)
    # region solution
    rewards = rewards.masked_fill(~mask, 0.0)
    to_go = []
    to_go_t = torch.zeros_like(rewards[:, 0])
    for t in reversed(range(rewards.shape[1])):
        to_go_t = torch.where(mask[:, t], rewards[:, t] + gamma * to_go_t, to_go_t)
        to_go.append(to_go_t)
    return torch.stack(to_go[::-1], dim=1).masked_fill(~mask, 0.0)
    # endregion


def leave_one_out_baseline(scores: Tensor) -> Tensor:
    """Return, for each of K responses to a prompt, the mean score of the K - 1 others.

    It does not depend on the response it is subtracted from, so the mean of the gradient does not change;
    the mean over all K does depend on it, and makes the gradient too small by (K - 1) / K.

    Args:
        scores: (B, K), K responses to each of B prompts, K >= 2.

    Returns:
        (B, K), the baseline itself, not yet subtracted; nothing is detached.

    Raises:
        ValueError: `scores` is not (B, K), or K < 2.

    Source: Kool, van Hoof and Welling, "Buy 4 REINFORCE samples, get a baseline for free!", 2019.
    """
    check_shapes(scores=(scores, "B K"))
    check_number("K, the responses to each prompt", scores.shape[1], 2)
    # region solution
    return (scores.sum(dim=1, keepdim=True) - scores) / (scores.shape[1] - 1)
    # endregion


def reinforce_loss(log_probs: Tensor, weights: Tensor, mask: Tensor) -> Tensor:
    """Return a loss whose gradient is the policy gradient: minus the mean of weights * log_probs over real tokens.

    Its value means nothing; only its gradient does. The weights (rewards to go, or advantages) are data: no
    gradient flows into them, even if they were computed by a model.

    Args:
        log_probs: (B, T) of the policy that sampled, in nats; under a False mask anything, NaN included.
        weights: (B, T), how good each token was; under a False mask anything.
        mask: (B, T) bool, True on real tokens.

    Returns:
        () scalar to minimize.

    Raises:
        ValueError: shapes disagree, the mask is not bool or is False everywhere.

    Source: Williams, "Simple statistical gradient-following algorithms", 1992.
    """
    check_shapes(log_probs=(log_probs, "B T"), weights=(weights, "B T"), mask=(mask, "B T"))
    check_mask(mask)
    # region solution
    weights = weights.detach().masked_fill(~mask, 0.0)
    log_probs = log_probs.masked_fill(~mask, 0.0)
    return -masked_mean(weights * log_probs, mask)
    # endregion
