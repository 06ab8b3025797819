"""Lesson 13, third part: learning from pairs without sampling (DPO), and choosing without learning (best of n).

Floats are float32 or float64, and an answer has their precision. No function changes its arguments.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ppo_by_hand.core.shapes import check_number, check_shapes


def dpo_loss(chosen: Tensor, rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor, beta: float = 0.1) -> Tensor:
    """Make the chosen response more likely than the rejected one, compared with the reference (DPO).

    The mean over the pairs of lesson 2's Bradley-Terry loss, with the score beta log(policy / reference) of a response:
    the reward of which the policy is the optimum under a KL penalty of coefficient beta.

    Args:
        chosen: (N,) log-probabilities of the whole chosen responses, sums over their tokens, in nats.
        rejected: (N,) of the rejected ones.
        ref_chosen: (N,) of the chosen ones by the frozen reference.
        ref_rejected: (N,) of the rejected ones by the frozen reference.
        beta: > 0.

    Returns:
        () scalar to minimize, log 2 where policy and reference agree, and for a pair of one text twice, which teaches
        nothing; finite for margins of any size. Its gradient flows into `chosen` and `rejected` alone.

    Raises:
        ValueError: shapes disagree, there is no pair, or beta is not positive.

    Source: Rafailov et al., "Direct Preference Optimization", 2023, equation 7.
    """
    terms = {"chosen": chosen, "rejected": rejected, "ref_chosen": ref_chosen, "ref_rejected": ref_rejected}
    check_shapes(**{name: (tensor, "N") for name, tensor in terms.items()})
    if len(chosen) == 0:
        raise ValueError("expected at least one pair, got none; the mean of no losses is undefined")
    check_number("beta", beta, 0.0, open_low=True)
    raise NotImplementedError("lesson13: dpo_loss")


def expected_best_of_n(scores: Tensor, n: int) -> Tensor:
    """Return the mean score of the best of n responses, over every choice of n from the N >= n that were sampled.

    Sort the scores upwards. The i-th of them (i = 1 ... N) is the best of C(i - 1, n - 1) of the C(N, n) choices:
    answer = sum over i of score_i * C(i - 1, n - 1) / C(N, n)

    Drawing one group of n would have the same mean and more noise.

    Args:
        scores: (B, N), N responses to each of B prompts.
        n: 1 to N.

    Returns:
        (B,), without gradient; the mean for n = 1, the maximum for n = N. Exact also where C(N, n) is far above what a
        float can hold.

    Raises:
        ValueError: `scores` is not (B, N), or n is not a whole number from 1 to N.

    Source: Nakano et al., "WebGPT", 2021, appendix I; used by Gao et al., 2022, section 2.
    """
    check_shapes(scores=(scores, "B N"))
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= scores.shape[1]:
        raise ValueError(f"expected n to be a whole number from 1 to {scores.shape[1]}, the responses, got {n!r}")
    raise NotImplementedError("lesson13: expected_best_of_n")


def best_of_n_kl(probabilities: Tensor, n: int) -> float:
    """Return the exact KL of "sample n responses, keep the best" from a policy with finitely many responses.

    The best of n is response i with probability  q_i = (p_1 + ... + p_i)^n - (p_1 + ... + p_{i-1})^n,
    where the responses are ordered from the worst to the best; the answer is sum of q_i log(q_i / p_i).

    It is never above log n - (n - 1) / n, the formula that papers print, and much smaller where n is large and few
    responses are possible.

    Args:
        probabilities: (M,) of the responses, worst first, no two of equal score; >= 0, of sum 1.
        n: >= 1; up to a million the answer is right to 1e-6.

    Returns:
        Nats, >= 0; 0 for n = 1. A response of probability 0 adds nothing.

    Raises:
        ValueError: `probabilities` is not (M,), has a negative number or another sum than 1, or n is not a whole
            number of at least 1.

    Source: Beirami et al., "Theoretical guarantees on the best-of-n alignment policy", 2024, theorem 3.1 for the bound.
    """
    check_shapes(probabilities=(probabilities, "M"))
    if not (probabilities >= 0).all() or abs(float(probabilities.sum()) - 1) > 1e-4:
        raise ValueError(f"expected probabilities >= 0 of sum 1, got {probabilities.tolist()[:8]}")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"expected n to be a whole number of at least 1, got {n!r}")
    raise NotImplementedError("lesson13: best_of_n_kl")
