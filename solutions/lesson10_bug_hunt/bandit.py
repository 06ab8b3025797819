"""A whole small trainer: PPO on one question with A answers."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class BanditRun(NamedTuple):
    """What is left of a run."""

    scores: Tensor
    """(A,) before the softmax."""
    entropy: Tensor
    """(U,), of the policy before each update, in nats."""
    reward: Tensor
    """(U,), mean of each update."""


def train_bandit(
    noise: Tensor, payoff: Tensor, start: Tensor, rate: float, width: float, passes: int, curiosity: float
) -> BanditRun:
    """Train a table of scores with PPO; `curiosity` rewards a policy that stays undecided.

    Args:
        noise: (U, B), uniform in [0, 1): draws the answers of update u (inverse of the cumulative sum).
        payoff: (A,), what each answer earns.
        start: (A,), scores before the first update.
        rate: step size of plain gradient steps.
        width: how far a probability ratio may go from 1.
        passes: gradient steps on the answers of one update.
        curiosity: weight of the entropy; larger keeps the policy undecided for longer.

    Returns:
        The scores, and what was logged.
    """
    # region solution
    scores, entropies, rewards = start.clone(), [], []
    for draws in noise:
        log_chances = scores.log_softmax(dim=0)
        answers = (draws.unsqueeze(1) > log_chances.exp().cumsum(dim=0)[:-1]).sum(dim=1)
        earned = payoff[answers]
        merits, before = earned - earned.mean(), log_chances[answers]
        entropies.append(-(log_chances.exp() * log_chances).sum())
        rewards.append(earned.mean())
        for _ in range(passes):
            leaf = scores.clone().requires_grad_()
            log_chances = leaf.log_softmax(dim=0)
            ratios = (log_chances[answers] - before).exp()
            gain = torch.minimum(ratios * merits, ratios.clamp(1 - width, 1 + width) * merits).mean()
            entropy = -(log_chances.exp() * log_chances).sum()
            (slope,) = torch.autograd.grad(gain + curiosity * entropy, leaf)
            scores = scores + rate * slope
    return BanditRun(scores, torch.stack(entropies), torch.stack(rewards))
    # endregion
