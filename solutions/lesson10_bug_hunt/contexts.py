"""A whole small trainer: PPO on S questions with A answers each, several passes over each batch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class ContextRun(NamedTuple):
    """What is left of a run."""

    scores: Tensor
    """(S, A) before the softmax."""
    reward: Tensor
    """(U,), mean of each update."""
    ratio: Tensor
    """(U,), largest probability ratio of each update's last pass."""
    outside: Tensor
    """(U,), share of the last pass's ratios that lie outside 1 - width ... 1 + width."""


def train_contexts(noise: Tensor, payoff: Tensor, start: Tensor, rate: float, width: float, passes: int) -> ContextRun:
    """Train a table of scores with PPO: every question once an update, several passes over the answers.

    Args:
        noise: (U, B, S), uniform in [0, 1): draws B answers to each question (inverse of the cumulative sum).
        payoff: (S, A), what each answer earns.
        start: (S, A), scores before the first update.
        rate: step size of plain gradient steps.
        width: how far a probability ratio may go from 1 before the answer no longer counts.
        passes: gradient steps on the answers of one update.

    Returns:
        The scores, and what was logged.
    """
    # region solution
    questions = torch.arange(payoff.shape[0])
    scores, logged = start.clone(), []
    for draws in noise:
        chances = scores.softmax(dim=1)
        answers = (draws.unsqueeze(-1) > chances.cumsum(dim=1)[:, :-1]).sum(dim=-1)
        earned = payoff[questions, answers]
        merits = earned - earned.mean(dim=0)
        chosen = chances.log()[questions, answers]
        for _ in range(passes):
            leaf = scores.clone().requires_grad_()
            ratios = (leaf.log_softmax(dim=1)[questions, answers] - chosen).exp()
            gain = torch.minimum(ratios * merits, ratios.clamp(1 - width, 1 + width) * merits)
            (slope,) = torch.autograd.grad(gain.mean(), leaf)
            scores = scores + rate * slope
        ratios = ratios.detach()
        outside = ((ratios - 1).abs() > width).to(ratios.dtype)
        logged.append(torch.stack([earned.mean(), ratios.max(), outside.mean()]))
    return ContextRun(scores, *torch.stack(logged, dim=1))
    # endregion
