"""Lesson 13 by hand: two to four numbers each, float64, the gradient beside the value."""

import math

import pytest
import torch

from testcases.harness.suite.asserts import assert_equal, named, value_and_gradients
from tutorial.lesson13_after_ppo import (
    best_of_n_kl,
    cispo_token_losses,
    clipped_token_losses,
    dpo_loss,
    expected_best_of_n,
    group_advantages,
    kl_token_losses,
    reduce_losses,
    sequence_ratio,
    truncated_importance_weights,
)

LOG_2, LOG_3, LOG_06 = math.log(2), math.log(3), math.log(0.6)


def logs(*rows):
    """Probabilities as log-probabilities; None is padding, where another number stands."""
    return [[-7.0 if one is None else math.log(one) for one in row] for row in rows]


# mean 2, distances from it -1, -1, -1, 3, standard deviation sqrt((1 + 1 + 1 + 9) / 3) = 2
FOUR, IN_DEVIATIONS = [1.0, 1.0, 1.0, 5.0], [-0.5, -0.5, -0.5, 1.5]


@named(
    "scores, epsilon, divide_by_std, advantages",
    {
        "in-standard-deviations-of-the-group": ([FOUR], 0.0, True, [IN_DEVIATIONS]),
        "epsilon-is-added-to-the-standard-deviation": ([FOUR], 2.0, True, [[-0.25, -0.25, -0.25, 0.75]]),
        "dr-grpo-does-not-divide": ([FOUR], 2.0, False, [[-1.0, -1.0, -1.0, 3.0]]),
        # The second group: mean 25, distances -15, 5, 5, 5, standard deviation 10
        "each-its-own": ([FOUR, [10.0, 30.0, 30.0, 30.0]], 0.0, True, [IN_DEVIATIONS, [-1.5, 0.5, 0.5, 0.5]]),
        "equal-scores-give-0": ([[2.0, 2.0, 2.0]], 0.5, True, [[0.0, 0.0, 0.0]]),
    },
)
@pytest.mark.points(7)
def test_group_advantages_by_hand(scores, epsilon, divide_by_std, advantages):
    assert_equal(group_advantages(scores, epsilon, divide_by_std), advantages)


# ratio = probability now / probability then
@named(
    "now, then, advantage, loss, slope",
    {
        "on-policy-is-plain-policy-gradient": (0.5, 0.5, 1.0, -1.0, -1.0),
        "good-token-inside-the-upper-bound": (0.5, 0.4, 1.0, -1.25, -1.25),
        "good-token-above-it-is-clipped": (0.6, 0.4, 1.0, -1.28, 0.0),
        "good-token-below-the-interval-is-not": (0.2, 0.4, 1.0, -0.5, -0.5),
        "bad-token-below-the-interval-is-clipped-at-the-lower-bound": (0.2, 0.4, -1.0, 0.8, 0.0),
        "bad-token-above-the-interval-is-not": (0.6, 0.4, -1.0, 1.5, 1.5),
    },
)
@pytest.mark.points(8)
def test_clipped_token_losses_by_hand(now, then, advantage, loss, slope):
    given = (logs([now]), logs([then]), [advantage], [[True]])
    answer, grads = value_and_gradients(clipped_token_losses, *given, wrt="log_probs")
    assert_equal(answer, [[loss]])
    assert_equal(grads, log_probs=[[slope]])


# The slope is -min(ratio, cap) * advantage. PPO's, with 0.2 on both sides, is 0 in the two cases marked "where PPO".
@named(
    "now, then, advantage, ratio_cap, loss, slope",
    {
        "on-policy-it-is-plain-policy-gradient": (0.5, 0.5, 1.0, 1.25, LOG_2, -1.0),
        "good-token-above-the-cap-keeps-the-cap-where-ppo-stops": (0.6, 0.4, 1.0, 1.25, -1.25 * LOG_06, -1.25),
        "bad-token-below-the-interval-keeps-its-ratio-where-ppo-stops": (0.25, 0.5, -1.0, 1.25, -LOG_2, 0.5),
        "bad-token-above-the-cap-is-held-at-the-cap": (0.6, 0.4, -1.0, 1.25, 1.25 * LOG_06, 1.25),
        "below-the-cap-the-ratio-counts-in-full": (0.6, 0.4, 1.0, 2.0, -1.5 * LOG_06, -1.5),
        "the-cap-is-for-the-ratio-alone": (0.6, 0.4, 4.0, 1.25, -5.0 * LOG_06, -5.0),
    },
)
@pytest.mark.points(2)
def test_cispo_token_losses_by_hand(now, then, advantage, ratio_cap, loss, slope):
    given = (logs([now, None]), logs([then, None]), [advantage], [[True, False]], ratio_cap)
    answer, grads = value_and_gradients(cispo_token_losses, *given, wrt="log_probs")
    assert_equal(answer, [[loss, 0.0]])
    assert_equal(grads, log_probs=[[slope, 0.0]])


LOSSES, MASK = [[1.0, 1.0, 1.0, 1.0], [4.0, 9.0, 9.0, 9.0]], [[True] * 4, [True, False, False, False]]


# Four tokens of 1 and one of 4: 8 in five tokens, two responses
@named(
    "options, loss, slopes",
    {
        "tokens": ({"denominator": "tokens"}, 1.6, (0.2, 0.2)),
        "responses": ({"denominator": "responses"}, 2.5, (0.125, 0.5)),
        "constant": ({"denominator": "constant", "constant": 10.0}, 0.4, (0.05, 0.05)),
        "tokens-of-the-window": ({"denominator": "tokens", "total": 10.0}, 0.8, (0.1, 0.1)),
        "responses-of-the-window": ({"denominator": "responses", "total": 4.0}, 1.25, (0.0625, 0.25)),
        "constant-in-a-window": ({"denominator": "constant", "total": 4.0, "constant": 10.0}, 0.2, (0.025, 0.025)),
    },
)
@pytest.mark.points(7)
def test_reduce_losses_by_hand(options, loss, slopes):
    answer, grads = value_and_gradients(reduce_losses, LOSSES, MASK, **options, wrt="losses")
    assert_equal(answer, loss)
    assert_equal(grads, losses=[[slopes[0]] * 4, [slopes[1], 0.0, 0.0, 0.0]])


# log-ratios log 2 and log 8: their mean is log 4, their sum log 16
@named(
    "per_token, ratio, slope",
    {"the-geometric-mean-of-the-token-ratios": (True, 4.0, 2.0), "their-product": (False, 16.0, 16.0)},
)
@pytest.mark.points(6)
def test_sequence_ratio_by_hand(per_token, ratio, slope):
    answer, grads = value_and_gradients(
        sequence_ratio,
        logs([0.5, 0.8, None], [0.3, None, None]),
        logs([0.25, 0.1, None], [0.3, None, None]),
        [[True, True, False], [True, False, False]],
        per_token,
        wrt="log_probs",
    )
    assert_equal(answer, [ratio, 1.0])
    assert_equal(grads, log_probs=[[slope, slope, 0.0], [1.0, 0.0, 0.0]])


# slope of ratio * (e^d - 1 - d) by the log-probability, d = log(reference / now): ratio * log(now / reference)
@named(
    "now, then, reference, loss, slope",
    {
        "at-the-reference-there-is-no-cost": (0.5, 0.5, 0.5, 0.0, 0.0),
        # reference / now = 1/2: 1/2 - 1 + log 2
        "on-policy-it-is-k3": (0.5, 0.5, 0.25, LOG_2 - 0.5, LOG_2),
        # the ratio is 2
        "a-token-that-has-gained-counts-for-what-it-is-now": (0.5, 0.25, 0.25, 2 * LOG_2 - 1, 2 * LOG_2),
        # reference / now = 3, the ratio is 1/2: (3 - 1 - log 3) / 2
        "a-rarer-one-counts-less": (0.2, 0.4, 0.6, 1 - LOG_3 / 2, -LOG_3 / 2),
    },
)
@pytest.mark.points(7)
def test_kl_token_losses_by_hand(now, then, reference, loss, slope):
    given = (logs([now, None]), logs([then, None]), logs([reference, None]), [[True, False]])
    answer, grads = value_and_gradients(kl_token_losses, *given, wrt="log_probs")
    assert_equal(answer, [[loss, 0.0]])
    assert_equal(grads, log_probs=[[slope, 0.0]])


@named(
    "trainer, sampler, cap, weights",
    {
        "what-agrees-weighs-1": ([[0.5, 0.2]], [[0.5, 0.2]], 2.0, [[1.0, 1.0]]),
        "the-trainer-above-the-sampler": ([[0.6, 0.2]], [[0.4, 0.4]], 2.0, [[1.5, 0.5]]),
        "cut-at-the-cap": ([[0.8, 0.4]], [[0.1, 0.4]], 2.0, [[2.0, 1.0]]),
        "small-weights-are-not-raised": ([[0.1]], [[0.8]], 2.0, [[0.125]]),
        "a-cap-of-1-only-lowers": ([[0.8, 0.2]], [[0.4, 0.4]], 1.0, [[1.0, 0.5]]),
    },
)
@pytest.mark.points(6)
def test_truncated_importance_weights_by_hand(trainer, sampler, cap, weights):
    mask = [[True] * len(weights[0]) + [False]]
    padded = [[*trainer[0], None]], [[*sampler[0], None]]
    answer = truncated_importance_weights(*(logs(*one) for one in padded), mask, cap)
    assert_equal(answer, [[*weights[0], 0.0]])


# -log sigmoid(log 3) = log(4/3), and there the sigmoid is 3/4: the slope is -beta / 4
@named(
    "chosen, rejected, beta, loss, slope",
    {
        "where-nothing-has-moved-it-is-log-2": (-3.0, -5.0, 0.5, LOG_2, -0.25),
        "the-chosen-one-has-gained": (-3.0 + 2 * LOG_3, -5.0, 0.5, math.log(4 / 3), -0.125),
        "the-rejected-one-has-lost": (-3.0, -5.0 - 2 * LOG_3, 0.5, math.log(4 / 3), -0.125),
        "beta-is-the-scale": (-3.0 + LOG_3, -5.0, 1.0, math.log(4 / 3), -0.25),
    },
)
@pytest.mark.points(4)
def test_dpo_loss_by_hand(chosen, rejected, beta, loss, slope):
    # The reference has -3 for the chosen response, -5 for the rejected one.
    given = [chosen], [rejected], [-3.0], [-5.0], beta
    answer, grads = value_and_gradients(dpo_loss, *given, wrt=("chosen", "rejected"))
    assert_equal(answer, loss)
    assert_equal(grads, chosen=[slope], rejected=[-slope])


# Pairs of 1, 2, 4, 8 have the best scores 2, 4, 8, 4, 8, 8. Of the second prompt all but one of four have 0.
@named(
    "n, best",
    {
        "of-1-the-mean": (1, [3.75, -1.5]),
        "of-2": (2, [34 / 6, 0.0]),
        "of-3": (3, [7.0, 0.0]),
        "of-all-the-maximum": (4, [8.0, 0.0]),
    },
)
@pytest.mark.points(5)
def test_expected_best_of_n_by_hand(n, best):
    assert_equal(expected_best_of_n([[4.0, 1.0, 8.0, 2.0], [0.0, 0.0, -6.0, 0.0]], n), best)


# Of two equally likely responses the best of 2 is the worse one with 1/4, the better one with 3/4
@named(
    "probabilities, n, kl",
    {
        "one-draw-is-the-policy": ([0.2, 0.3, 0.5], 1, 0.0),
        "two-responses-two-draws": ([0.5, 0.5], 2, 0.25 * math.log(0.5) + 0.75 * math.log(1.5)),
        "a-rare-good-one": ([0.75, 0.25], 2, 0.5625 * math.log(0.75) + 0.4375 * math.log(1.75)),
        "a-common-good-one": ([0.25, 0.75], 2, 0.0625 * math.log(0.25) + 0.9375 * math.log(1.25)),
        "what-never-comes-adds-nothing": ([0.5, 0.0, 0.5], 2, 0.25 * math.log(0.5) + 0.75 * math.log(1.5)),
    },
)
@pytest.mark.points(4)
def test_best_of_n_kl_by_hand(probabilities, n, kl):
    assert_equal(best_of_n_kl(torch.tensor(probabilities, dtype=torch.float64), n), kl)
