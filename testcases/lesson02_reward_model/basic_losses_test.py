"""Lesson 2, losses and accuracy by hand: differences of log 3, where sigmoid is 3/4."""

from math import log

import pytest
import torch

from testcases.harness.suite.asserts import assert_equal, gradients, named
from tutorial.lesson02_reward_model import pairwise_loss, preference_accuracy, ranking_loss, token_pairwise_loss

LOG3 = log(3)
"""sigmoid(log 3) = 3/4 and sigmoid(-log 3) = 1/4: the losses are log 4/3 and log 4, the slopes -1/4 and -3/4."""
WON, LOST, EVEN = log(4 / 3), log(4), log(2)


@named(
    "chosen, rejected, margin, loss",
    {
        "a-tie-has-the-loss-log-2": ([2.0], [2.0], None, EVEN),
        "a-pair-won": ([LOG3], [0.0], None, WON),
        "a-pair-lost": ([0.0], [LOG3], None, LOST),
        "only-the-difference-counts": ([LOG3 - 5], [-5.0], None, WON),
        "the-mean-over-pairs": ([LOG3, 0.0, 4.0], [0.0, LOG3, 4.0], None, (WON + LOST + EVEN) / 3),
        "the-margin-is-subtracted": ([log(9)], [0.0], [LOG3], WON),  # 2 log 3 - log 3 = log 3 is left
        "each-pair-has-its-own-margin": ([log(9), LOG3], [0.0, 0.0], [LOG3, log(9)], (WON + LOST) / 2),
    },
)
@pytest.mark.points(6)
def test_pairwise_loss_by_hand(chosen, rejected, margin, loss):
    assert_equal(pairwise_loss(chosen, rejected, margin), loss)


@named(
    "chosen, rejected, margin",
    {"without": ([LOG3, 0.0], [0.0, LOG3], None), "with": ([log(9), 0.0], [0.0] * 2, [LOG3] * 2)},
)
@pytest.mark.points(4)
def test_pairwise_loss_gradient_without_and_with_a_margin(chosen, rejected, margin):
    # -(1 - sigmoid) / 2 by the chosen score, the opposite by the rejected one: the lost pair has the larger gradient.
    grads = gradients(pairwise_loss, chosen, rejected, margin, wrt=("chosen", "rejected"))
    assert_equal(grads, chosen=[-0.125, -0.375], rejected=[0.125, 0.375])


@named(
    "scores, loss",
    {
        "two-responses-are-one-pair": ([[LOG3, 0.0]], WON),
        "the-first-is-the-best": ([[0.0, LOG3]], LOST),
        # log 3, 2 log 3 and log 3 apart: sigmoid 3/4, 9/10, 3/4
        "three-responses-are-three-pairs": ([[2 * LOG3, LOG3, 0.0]], (2 * WON + log(10 / 9)) / 3),
        "in-reverse-order": ([[0.0, LOG3, 2 * LOG3]], (2 * LOST + log(10)) / 3),
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
    grads = gradients(ranking_loss, [[LOG3, 0.0, 0.0]], wrt="scores")
    assert_equal(grads, scores=[[-0.5 / 3, (0.25 - 0.5) / 3, (0.25 + 0.5) / 3]])


# Tokens 5, 6, ... are words, 9 is the padding token. `ahead`: by how much the chosen text's score is ahead.
@named(
    "ahead, chosen_ids, rejected_ids, loss",
    {
        # The prefix [5, 6] is common. Positions 2 and 3 are compared: won by log 3 and lost by log 3.
        "from-the-first-token-that-differs": ([6.0, -1.0, LOG3, -LOG3], [5, 6, 7, 8], [5, 6, 8, 7], (WON + LOST) / 2),
        "they-differ-from-the-start": ([LOG3, -LOG3], [5, 6], [6, 6], (WON + LOST) / 2),
        # Once they differ they stay different texts, though the tokens at 2 and 3 are the same again.
        "equal-tokens-after-it-count": ([2.0, LOG3, -LOG3, 0.0], [5, 6, 7, 8], [5, 7, 7, 8], (WON + LOST + EVEN) / 3),
        # Lengths 3 and 3 of 5: the scores on padding do not count.
        "not-the-padding-after": ([2.0, LOG3, -LOG3, 50.0, -50.0], [5, 6, 7, 9, 9], [5, 7, 7, 9, 9], (WON + LOST) / 2),
        # Lengths 2 and 4: positions 1, 2, 3 are compared. At 2 and 3 the shorter one is scored on its padding.
        "to-the-end-of-the-rejected": (
            [2.0, LOG3, -LOG3, LOG3, 50.0],
            [5, 6, 9, 9, 9],
            [5, 7, 7, 8, 9],
            (2 * WON + LOST) / 3,
        ),
        "to-the-end-of-the-chosen": (
            [2.0, LOG3, -LOG3, LOG3, 50.0],
            [5, 6, 7, 8, 9],
            [5, 7, 9, 9, 9],
            (2 * WON + LOST) / 3,
        ),
        "one-is-empty": ([LOG3, 7.0, 50.0], [9, 9, 9], [5, 9, 9], WON),  # Position 0 alone: the chosen text is empty.
        # One text goes on where the other stops: they differ at 2, where the first has its padding token.
        "one-continues-the-other": ([2.0, 7.0, LOG3], [5, 6, 9], [5, 6, 7], WON),
    },
)
@pytest.mark.points(5)
def test_token_pairwise_loss_by_hand(ahead, chosen_ids, rejected_ids, loss):
    scores = [[4 + score for score in ahead]], [[4.0] * len(ahead)]
    assert_equal(token_pairwise_loss(*scores, [chosen_ids], [rejected_ids], 9), loss)


def test_token_pairwise_loss_counts_each_pair_once():
    # Positions 2 of the first pair, 0, 1 and 2 of the second: each is averaged, so a long pair weighs no more.
    scores = [[4.0, 3.0, LOG3], [LOG3, 0.0, 0.0]], [[2.0, 1.0, 0.0], [0.0, LOG3, LOG3]]
    ids = [[5, 6, 7], [5, 6, 7]], [[5, 6, 8], [6, 6, 7]]
    assert_equal(token_pairwise_loss(*scores, *ids, 9), (WON + (WON + 2 * LOST) / 3) / 2)


@pytest.mark.points(2)
def test_token_pairwise_loss_where_the_padding_token_is_0():
    # Positions 1 and 2 here; token 9 is a word.
    scores, ids = ([[4.0, LOG3, 0.0, 50.0]], [[2.0, 0.0, LOG3, 0.0]]), ([[5, 9, 7, 0]], [[5, 7, 9, 0]])
    assert_equal(token_pairwise_loss(*scores, *ids, pad_token_id=0), (WON + LOST) / 2)


@pytest.mark.points(2)
def test_token_pairwise_loss_gradient():
    # Positions 1 and 2 of the first pair, 2 of the second; -1/4 where won, -3/4 where lost; each over 2 pairs.
    scores = [[4.0, LOG3, 0.0, 50.0], [4.0, 1.0, LOG3, 50.0]], [[2.0, 0.0, LOG3, 0.0], [2.0, 5.0, 0.0, 0.0]]
    ids = [[5, 6, 7, 9], [5, 6, 7, 9]], [[5, 7, 7, 9], [5, 6, 8, 9]]
    grads = gradients(token_pairwise_loss, *scores, *ids, 9, wrt=("chosen_scores", "rejected_scores"))
    slopes = torch.tensor([[0.0, 0.0625, 0.1875, 0.0], [0.0, 0.0, 0.125, 0.0]], dtype=torch.float64)
    assert_equal(grads, chosen_scores=-slopes, rejected_scores=slopes)


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
    },
)
@pytest.mark.points(6)
def test_preference_accuracy_by_hand(chosen, rejected, accuracy):
    assert_equal(preference_accuracy(chosen, rejected), accuracy, dtype=torch.float32)
