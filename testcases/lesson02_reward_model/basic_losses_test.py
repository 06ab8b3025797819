"""Lesson 2, losses and accuracy by hand: differences of log 3, where sigmoid is 3/4."""

import math
from math import log

import pytest
import torch

from testcases.harness.suite.asserts import assert_equal, named, value_and_gradients
from tutorial.lesson02_reward_model import pairwise_loss, preference_accuracy, ranking_loss, token_pairwise_loss

LN2 = math.log(2)
LOG3 = math.log(3.0)
"""sigmoid(log 3) = 3/4 and sigmoid(-log 3) = 1/4: the losses are log 4/3 and log 4, the slopes -1/4 and -3/4."""
WON, LOST, EVEN = math.log(4 / 3), math.log(4.0), math.log(2.0)


@named(
    "chosen, rejected, margin, loss",
    {
        # differences 0
        "a-tie-has-the-loss-log-2": ([2.0], [2.0], None, LN2),
        # differences 1.09861
        "a-pair-won": ([log(3)], [0.0], None, log(4 / 3)),
        # differences -1.09861
        "a-pair-lost": ([0.0], [log(3)], None, 2 * LN2),
        # differences 1.09861
        "only-the-difference-counts": ([-3.90138771133189], [-5.0], None, log(4 / 3)),
        # differences 1.94591
        "a-clear-win-has-a-small-loss": ([log(7)], [0.0], None, log(8 / 7)),
        # differences 1.09861, -1.09861
        "the-mean-over-pairs": ([log(3), 0.0], [0.0, log(3)], None, 0.8369882167858357),
        # differences 1.09861, 0, 0
        "three-pairs": ([log(3), 1.0, 4.0], [0.0, 1.0, 4.0], None, 0.5579921445238905),
        # 2 log 3 - log 3 = log 3 is left
        "the-margin-is-subtracted": ([log(9)], [0.0], [log(3)], log(4 / 3)),
        # differences -1.09861
        "a-tie-is-not-enough-with-a-margin": ([0.0], [0.0], [log(3)], 2 * LN2),
        # differences 1.09861, -1.09861
        "each-pair-has-its-own-margin": ([log(9), log(3)], [0.0, 0.0], [log(3), log(9)], 0.8369882167858357),
    },
)
@pytest.mark.points(6)
def test_pairwise_loss_by_hand(chosen, rejected, margin, loss):
    assert_equal(pairwise_loss(chosen, rejected, margin), loss)


# Where two scores are equal, as those of a head of zeros are, log sigmoid has the slope 1/2, and formulas with a kink
# there have 1: either trains them apart.
EITHER_SLOPE = 0.3


@pytest.mark.points(2)
def test_pairwise_loss_gradient():
    # -(1 - sigmoid) / 2 by the chosen score, the opposite by the rejected one: the lost pair has the larger gradient.
    answer, grads = value_and_gradients(pairwise_loss, [LOG3, 0.0], [0.0, LOG3], wrt=("chosen", "rejected"))
    assert_equal(grads, chosen=[-0.125, -0.375], rejected=[0.125, 0.375])
    answer, grads = value_and_gradients(pairwise_loss, [1.0], [1.0], wrt=("chosen", "rejected"))
    assert_equal(grads, chosen=[-0.75], rejected=[0.75], atol=EITHER_SLOPE)


@pytest.mark.points(2)
def test_pairwise_loss_gradient_with_a_margin():
    answer, grads = value_and_gradients(
        pairwise_loss, [2 * LOG3, 0.0], [0.0, 0.0], [LOG3, LOG3], wrt=("chosen", "rejected")
    )
    assert_equal(grads, chosen=[-0.125, -0.375], rejected=[0.125, 0.375])


@named(
    "scores, loss",
    {
        "two-responses-are-one-pair": ([[LOG3, 0.0]], WON),
        "the-first-is-the-best": ([[0.0, LOG3]], LOST),
        # log 3, 2 log 3 and log 3 apart: sigmoid 3/4, 9/10, 3/4
        "three-responses-are-three-pairs": ([[2 * LOG3, LOG3, 0.0]], (2 * WON + math.log(10 / 9)) / 3),
        "in-reverse-order": ([[0.0, LOG3, 2 * LOG3]], (2 * LOST + math.log(10.0)) / 3),
        # pairs of the first with both others are won, the second loses to the third by log 3
        "one-pair-in-reverse-order": ([[2 * LOG3, 0.0, LOG3]], (math.log(10 / 9) + WON + LOST) / 3),
        "four-ties": ([[1.0, 1.0, 1.0, 1.0]], EVEN),
        # six pairs: four with a gap of log 3, two ties
        "four-responses-are-six-pairs": ([[LOG3, LOG3, 0.0, 0.0]], (4 * WON + 2 * EVEN) / 6),
        "the-mean-over-prompts": ([[LOG3, 0.0], [0.0, LOG3], [5.0, 5.0]], (WON + LOST + EVEN) / 3),
        # Prompts differ by 100: pairs across prompts would show.
        "prompts-are-not-compared": (
            [[100 + LOG3, 100.0, 100.0], [0.0, 0.0, LOG3]],
            (2 * WON + EVEN) / 6 + (EVEN + 2 * LOST) / 6,
        ),
    },
)
@pytest.mark.points(5)
def test_ranking_loss_by_hand(scores, loss):
    assert_equal(ranking_loss(scores), loss)


@pytest.mark.points(2)
def test_ranking_loss_gradient():
    # Pairs (0, 1) and (0, 2) won by log 3: -1/4 each; the tie (1, 2): -1/2 on the better one. Over three pairs.
    answer, grads = value_and_gradients(ranking_loss, [[LOG3, 0.0, 0.0]], wrt="scores")
    assert_equal(grads, scores=[[-0.5 / 3, (0.25 - 0.5) / 3, (0.25 + 0.5) / 3]])


# Tokens 5, 6, ... are words, 9 is the padding token. The prefix [5, 6] is common.
@named(
    "chosen_scores, rejected_scores, chosen_ids, rejected_ids, loss",
    {
        # Positions 2 and 3 are compared: won by log 3 and lost by log 3.
        "from-the-first-token-that-differs": (
            [[7.0, 3.0, LOG3, 0.0]],
            [[1.0, 4.0, 0.0, LOG3]],
            [[5, 6, 7, 8]],
            [[5, 6, 8, 7]],
            (WON + LOST) / 2,
        ),
        "they-differ-from-the-start": ([[LOG3, 0.0]], [[0.0, LOG3]], [[5, 6]], [[6, 6]], (WON + LOST) / 2),
        "they-differ-at-the-end": ([[4.0, 1.0, LOG3]], [[2.0, 3.0, 0.0]], [[5, 6, 7]], [[5, 6, 8]], WON),
        # Once they differ they stay different texts, though the tokens at 2 and 3 are the same again.
        "equal-tokens-after-the-difference-count": (
            [[4.0, LOG3, 0.0, 0.0]],
            [[2.0, 0.0, LOG3, 0.0]],
            [[5, 6, 7, 8]],
            [[5, 7, 7, 8]],
            (WON + LOST + EVEN) / 3,
        ),
        # Lengths 3 and 3 of 5: the scores on padding do not count.
        "padding-after-both-is-left-out": (
            [[4.0, LOG3, 0.0, 50.0, 0.0]],
            [[2.0, 0.0, LOG3, 0.0, 50.0]],
            [[5, 6, 7, 9, 9]],
            [[5, 7, 7, 9, 9]],
            (WON + LOST) / 2,
        ),
        # Lengths 2 and 4: positions 1, 2, 3 are compared. At 2 and 3 the shorter one is scored on its padding.
        "up-to-the-end-of-the-longer-one": (
            [[4.0, LOG3, 0.0, LOG3, 50.0]],
            [[2.0, 0.0, LOG3, 0.0, 0.0]],
            [[5, 6, 9, 9, 9]],
            [[5, 7, 7, 8, 9]],
            (2 * WON + LOST) / 3,
        ),
        "the-longer-one-is-the-chosen-one": (
            [[4.0, LOG3, 0.0, LOG3, 50.0]],
            [[2.0, 0.0, LOG3, 0.0, 0.0]],
            [[5, 6, 7, 8, 9]],
            [[5, 7, 9, 9, 9]],
            (2 * WON + LOST) / 3,
        ),
        # One text goes on where the other stops: they differ at 2, where the first has its padding token.
        # Position 0 alone: the chosen text is empty.
        "one-is-empty": ([[LOG3, 8.0, 50.0]], [[0.0, 1.0, 0.0]], [[9, 9, 9]], [[5, 9, 9]], WON),
        "one-continues-the-other": ([[4.0, 8.0, LOG3]], [[2.0, 1.0, 0.0]], [[5, 6, 9]], [[5, 6, 7]], WON),
        # Each pair is averaged over its own positions (1 and 3), then over the pairs: a long pair weighs no more.
        "each-pair-counts-once": (
            [[4.0, 3.0, LOG3], [LOG3, 0.0, 0.0]],
            [[2.0, 1.0, 0.0], [0.0, LOG3, LOG3]],
            [[5, 6, 7], [5, 6, 7]],
            [[5, 6, 8], [6, 6, 7]],
            (WON + (WON + 2 * LOST) / 3) / 2,
        ),
        "each-pair-has-its-own-start-and-end": (
            [[4.0, LOG3, 40.0, 40.0], [4.0, 3.0, 2.0, LOG3]],
            [[2.0, 0.0, 3.0, 3.0], [2.0, 1.0, 7.0, 0.0]],
            [[5, 6, 9, 9], [5, 6, 7, 7]],
            [[5, 7, 9, 9], [5, 6, 7, 8]],
            WON,
        ),
    },
)
@pytest.mark.points(6)
def test_token_pairwise_loss_by_hand(chosen_scores, rejected_scores, chosen_ids, rejected_ids, loss):
    assert_equal(token_pairwise_loss(chosen_scores, rejected_scores, chosen_ids, rejected_ids, 9), loss)


@pytest.mark.points(2)
def test_token_pairwise_loss_where_the_padding_token_is_0():
    # Positions 1 and 2 here; token 9 is a word.
    scores, ids = ([[4.0, LOG3, 0.0, 50.0]], [[2.0, 0.0, LOG3, 0.0]]), ([[5, 9, 7, 0]], [[5, 7, 9, 0]])
    assert_equal(token_pairwise_loss(*scores, *ids, pad_token_id=0), (WON + LOST) / 2)


@pytest.mark.points(2)
def test_token_pairwise_loss_gradient():
    # Positions 1 and 2 of the first pair, 2 of the second; -1/4 where won, -3/4 where lost; each over 2 pairs.
    answer, grads = value_and_gradients(
        token_pairwise_loss,
        [[4.0, LOG3, 0.0, 50.0], [4.0, 1.0, LOG3, 50.0]],
        [[2.0, 0.0, LOG3, 0.0], [2.0, 5.0, 0.0, 0.0]],
        [[5, 6, 7, 9], [5, 6, 7, 9]],
        [[5, 7, 7, 9], [5, 6, 8, 9]],
        9,
        wrt=("chosen_scores", "rejected_scores"),
    )
    assert_equal(
        grads,
        chosen_scores=[[0.0, -0.0625, -0.1875, 0.0], [0.0, 0.0, -0.125, 0.0]],
        rejected_scores=[[0.0, 0.0625, 0.1875, 0.0], [0.0, 0.0, 0.125, 0.0]],
    )


@named(
    "chosen, rejected, accuracy",
    {
        "right": ([2.0], [1.0], 1.0),
        "wrong": ([1.0], [2.0], 0.0),
        "a-tie-is-not-right": ([1.0], [1.0], 0.0),
        "the-sign-of-a-score-means-nothing": ([-1.0, -3.0, -2.0], [-2.0, -4.0, -9.0], 1.0),
        "a-fraction-of-the-pairs": ([5.0, 1.0, 3.0, 2.0], [4.0, 3.0, 3.0, 0.0], 0.5),
        # One large loss does not outweigh three small wins.
        "by-how-much-does-not-matter": ([1.0, 2.0, 3.0, 0.0], [0.0, 1.0, 2.0, 100.0], 0.75),
        "each-with-its-own-partner": ([10.0, 1.0], [9.0, 0.0], 1.0),
        "a-little-is-enough": ([1.25, 0.0, -3.0], [1.0, -0.25, -3.25], 1.0),
    },
)
@pytest.mark.points(6)
def test_preference_accuracy_by_hand(chosen, rejected, accuracy):
    assert_equal(preference_accuracy(chosen, rejected), accuracy, dtype=torch.float32)
