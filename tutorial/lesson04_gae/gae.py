"""Lesson 4: generalized advantage estimation (GAE): how much better was this step than the critic expected?

`values` holds one entry more than `rewards`: values[..., t] is V(s_t), and the last one estimates the rewards after
the end of the rollout (bootstrapping). Nothing here is whitened or detached: the trainer whitens, the losses detach.
Rewards and values of an episode's own steps are finite, or NaN, which shows in the answer. Floats are float32 or
float64, and an answer has their precision. No function changes its arguments.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ppo_by_hand.core.shapes import check_mask, check_number, check_shapes


class AdvantagesAndReturns(NamedTuple):
    """The result of GAE: the advantages for the policy, and the targets for the critic."""

    advantages: Tensor
    """Shape of the rewards; raw, not whitened."""
    returns: Tensor
    """Same shape: advantages + values."""


class GAEEnds(NamedTuple):
    """The result of `gae_ends`: advantages of the two extreme kinds, each of the shape of the rewards."""

    lam_0: Tensor
    """The critic is believed at once."""
    lam_1: Tensor
    """The critic is believed as late as possible."""


def td_errors(rewards: Tensor, values: Tensor, dones: Tensor, gamma: float = 0.99) -> Tensor:
    """Return the TD error of each step, delta_t: how much the step changed the estimate of what is to come.

    What came, the reward, and what is expected from the state after the step, discounted; less what was expected
    before it. After the end of an episode nothing is expected.

    Args:
        rewards: (..., T) float.
        values: (..., T + 1) float, the critic's V(s_0) ... V(s_T).
        dones: (..., T) bool or 0/1: the episode ends after step t, so V(s_{t+1}) belongs to another episode: it may
            be anything, NaN included, and nothing of it may enter.
        gamma: discount in [0, 1].

    Returns:
        (..., T).

    Raises:
        ValueError: shapes disagree (`values` needs T + 1 entries), or gamma is out of range.
    """
    _check_episode(rewards, values, dones, gamma)
    raise NotImplementedError("lesson04: td_errors")


def gae_ends(rewards: Tensor, values: Tensor, dones: Tensor, gamma: float = 0.99) -> GAEEnds:
    """Estimate in two extreme ways how much better than expected each step was: the ends between which GAE lies.

    Both compare what came with what the critic expected before the step.
    lam_0 sees one reward and believes the critic about all that follows.
    lam_1 sees every reward that follows in the episode, discounted once a step, and believes the critic only where it
    must: about what comes after the last step, if the rollout was cut there before the episode's end.
    A step with a done is its episode's last, so both are its reward minus its value; so too for several dones in a row.

    Args:
        rewards: (..., T) float.
        values: (..., T + 1) float, the critic's V(s_0) ... V(s_T).
        dones: (..., T) bool or 0/1: the episode ends after step t, so V(s_{t+1}) belongs to another episode: it may
            be anything, NaN included, and nothing of it may enter.
        gamma: discount in [0, 1].

    Returns:
        GAEEnds(lam_0, lam_1), each (..., T). Written without `n_step_advantages` and `compute_gae`, which lie between;
        a loop over the steps is fine.

    Raises:
        ValueError: shapes disagree (`values` needs T + 1 entries), or gamma is out of range.
    """
    _check_episode(rewards, values, dones, gamma)
    raise NotImplementedError("lesson04: gae_ends")


def n_step_advantages(rewards: Tensor, values: Tensor, dones: Tensor, n: int, gamma: float = 0.99) -> Tensor:
    """Estimate the advantages from n real rewards and the critic's value after them.

    r_t + gamma r_(t+1) + ... + gamma^(n-1) r_(t+n-1) + gamma^n V(s_(t+n)) - V(s_t)

    The sum ends early at the end of an episode, after which nothing is expected, and at T, where values[T] bootstraps.

    Args:
        rewards: (..., T) float.
        values: (..., T + 1) float.
        dones: (..., T) bool or 0/1: the episode ends after step t.
        n: number of rewards, >= 1; a number beyond T changes nothing.
        gamma: discount in [0, 1].

    Returns:
        (..., T). n = 1 and n >= T give the two ends, `gae_ends`.

    Raises:
        ValueError: shapes disagree, n < 1, or gamma is out of range.
    """
    _check_episode(rewards, values, dones, gamma)
    check_number("n", n, 1)
    raise NotImplementedError("lesson04: n_step_advantages")


def compute_gae(
    rewards: Tensor, values: Tensor, dones: Tensor, gamma: float = 0.99, lam: float = 0.95
) -> AdvantagesAndReturns:
    """Average of the n-step advantages over all n, with the weights (1 - lam) lam^(n-1).

    It equals the sum of (gamma lam)^l delta_(t+l) over l = 0, 1, ... up to the end of the episode, or to T: the factor
    (1 - lam) belongs to the n-step advantages and has cancelled in the sum over TD errors. The returns are what the
    critic should have said: its value corrected by the advantage.

    Args:
        rewards: (..., T) float.
        values: (..., T + 1) float, the critic's V(s_0) ... V(s_T).
        dones: (..., T) bool or 0/1: the episode ends after step t. It removes the next value *and* the next advantage.
        gamma: discount in [0, 1].
        lam: in [0, 1]; 0 relies on the critic (bias), 1 on the rewards (variance).

    Returns:
        AdvantagesAndReturns(advantages, returns), each (..., T), not whitened, not detached.

    Raises:
        ValueError: shapes disagree (`values` needs T + 1 entries), or gamma or lam is out of range.

    Source: Schulman et al., "High-Dimensional Continuous Control Using GAE", 2016, equation 16.
    """
    _check_episode(rewards, values, dones, gamma)
    check_number("lam", lam, 0.0, 1.0)
    raise NotImplementedError("lesson04: compute_gae")


def compute_response_gae(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float = 1.0, lam: float = 0.95
) -> AdvantagesAndReturns:
    """Compute GAE over padded responses: the episode is the row's real tokens, and ends after the last of them.

    The step after a real token is the *next real token* of the row; after the last one nothing is expected. So nothing
    of the padding enters, and a False inside a row (a tool's token) costs no factor gamma lam. Call `compute_gae` for
    it: each row's real tokens side by side, in their order, then zeros, with a done at the last token (or in the last
    column: after zeros both give the same numbers); then put the answer in place.

    Args:
        rewards: (B, T) float; under a False mask anything, NaN included.
        values: (B, T) float, values[t] = V(the text before token t); likewise.
        mask: (B, T) bool, True on tokens the policy wrote, the stop token included.
        gamma: discount in [0, 1]; 1 is usual for one response.
        lam: in [0, 1].

    Returns:
        AdvantagesAndReturns(advantages, returns), each (B, T), 0 where masked, not whitened, not detached.

    Raises:
        ValueError: shapes disagree, the mask is not bool or is False everywhere, gamma or lam is out of range.
    """
    check_shapes(rewards=(rewards, "B T"), values=(values, "B T"), mask=(mask, "B T"))
    check_mask(mask)
    check_number("gamma", gamma, 0.0, 1.0)
    check_number("lam", lam, 0.0, 1.0)
    raise NotImplementedError("lesson04: compute_response_gae")


def _check_episode(rewards: Tensor, values: Tensor, dones: Tensor, gamma: float) -> None:
    check_shapes(rewards=(rewards, "... T"), values=(values, "... T+1"), dones=(dones, "... T"))
    check_number("T, the number of steps", rewards.shape[-1], 1)
    check_number("gamma", gamma, 0.0, 1.0)
