"""A whole small trainer: an actor and a critic on a chain of T places, one action at each."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class ChainRun(NamedTuple):
    """What is left of a run."""

    scores: Tensor
    """(T, A) of the actor: before the softmax."""
    critic: Tensor
    """(T,) what it expects from each place on."""
    value_loss: Tensor
    """(U,), before each update."""
    reward: Tensor
    """(U,), mean sum of rewards of each update."""


def train_chain(noise: Tensor, payoff: Tensor, start: Tensor, rate: float, decay: float) -> ChainRun:
    """Train an actor and a critic, both tables, on a chain.

    At place t, noise[u, b, t] draws the action of walker b in update u (inverse of the cumulative sum). It earns
    payoff[t, action], and the walker goes on to place t + 1. Actor: policy gradient with centered advantages. Critic:
    a step towards the mean of its targets.

    Args:
        noise: (U, B, T), uniform in [0, 1).
        payoff: (T, A).
        start: (T, A), scores of the actor before the first update.
        rate: of both, in [0, 1].
        decay: factor of the next place's credit; with 1 the targets are the sums of the rewards that follow.

    Returns:
        Tables, and what was logged.
    """
    # region solution
    _, walkers, length = noise.shape
    places = torch.arange(length)
    scores, critic, logged = start.clone(), payoff.new_zeros(length), []
    for draws in noise:
        chances = scores.softmax(dim=1)
        actions = (draws.unsqueeze(-1) > chances.cumsum(dim=1)[:, :-1]).sum(dim=-1)
        batch = {"earned": payoff[places, actions], "credit": payoff.new_zeros(walkers, length)}
        credit: list[Tensor] = []
        carry = payoff.new_zeros(walkers)
        for place in reversed(range(length)):
            ahead = critic[place + 1] if place + 1 < length else 0.0
            carry = batch["earned"][:, place] + ahead - critic[place] + decay * carry
            credit.insert(0, carry)
        advantage = torch.stack(credit, dim=1)
        batch = {**batch, "credit": advantage, "target": advantage + critic}
        centered = batch["credit"] - batch["credit"].mean()
        chosen = torch.nn.functional.one_hot(actions, payoff.shape[1])
        value_loss, reward = (batch["target"] - critic).square().mean(), batch["earned"].sum(dim=1).mean()
        logged.append(torch.stack([value_loss, reward]))
        scores = scores + rate * (centered.unsqueeze(-1) * (chosen - chances)).mean(dim=0)
        critic = critic + rate * (batch["target"] - critic).mean(dim=0)
    return ChainRun(scores, critic, *torch.stack(logged, dim=1))
    # endregion
