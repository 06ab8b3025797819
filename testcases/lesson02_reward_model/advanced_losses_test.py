"""Lesson 2, losses and accuracy made safe, and in general: identities."""

import math

import pytest
import torch

from testcases.harness.doubles.arithmetic import nll
from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import assert_equal, assert_no_gradient, named, reference, value_and_gradients
from tutorial.lesson02_reward_model import pairwise_loss, preference_accuracy, ranking_loss, token_pairwise_loss

NAN = math.nan
LOG3 = math.log(3.0)
"""sigmoid(log 3) = 3/4: the loss is log 4/3, the slope -1/4."""
WON, EVEN = math.log(4 / 3), math.log(2.0)


@pytest.mark.points(2)
def test_pairwise_loss_does_not_know_the_offset():
    chosen, rejected = normal(5), normal(5, seed=2)
    expected = reference(pairwise_loss, chosen, rejected)
    assert_equal(pairwise_loss(chosen + 64.0, rejected + 64.0), expected)


def test_ranking_loss_of_two_is_the_pairwise_loss():
    scores = normal(6, 2)
    assert_equal(ranking_loss(scores), reference(pairwise_loss, scores[:, 0], scores[:, 1]))


def test_token_pairwise_loss_does_not_depend_on_the_prefix():
    # Prefix of 2, 0, 3 and 1 tokens; lengths 5 and 7, 4 and 2, 4 and 7, 6 and 6.
    ids = (
        torch.tensor([[1, 2, 3, 4, 5, 9, 9], [1, 2, 3, 4, 9, 9, 9], [5, 5, 5, 1, 9, 9, 9], [4, 1, 1, 1, 1, 1, 9]]),
        torch.tensor([[1, 2, 4, 4, 5, 6, 7], [2, 2, 9, 9, 9, 9, 9], [5, 5, 5, 2, 1, 1, 1], [4, 2, 1, 2, 1, 1, 9]]),
    )
    scores = normal(4, 7), normal(4, 7, seed=2)
    expected = reference(token_pairwise_loss, *scores, *ids, 9)
    longer = [torch.cat([5 * normal(4, 2, seed=3 + i), score], dim=1) for i, score in enumerate(scores)]
    longer += [torch.cat([torch.full((4, 2), 8), side], dim=1) for side in ids]
    assert_equal(token_pairwise_loss(*longer, 9), expected)


def test_token_pairwise_loss_where_the_padding_token_is_the_stop_token():
    # Each text ends in 9, the padding token: the text is taken to end before it. Lengths 2 and 3: positions 1 and 2.
    scores = normal(1, 5), normal(1, 5, seed=2)
    first, second = (scores[0] - scores[1])[0, 1:3].tolist()
    answer = token_pairwise_loss(*scores, [[1, 2, 9, 9, 9]], [[1, 3, 4, 9, 9]], 9)
    assert_equal(answer, (nll(first) + nll(second)) / 2)


@named(
    "chosen, loss, slope",
    {
        "200-behind": ([-200.0], 200.0, [-1.0]),
        "1000-behind": ([-1000.0], 1000.0, [-1.0]),
        "1000-ahead": ([1000.0], 0.0, [0.0]),
    },
)
def test_pairwise_loss_far_apart_is_finite(chosen, loss, slope):
    answer, grads = value_and_gradients(pairwise_loss, chosen, [0.0], wrt="chosen")
    assert_equal(answer, loss)
    assert_equal(grads, chosen=slope)


@pytest.mark.parametrize("difference, loss", [(-200.0, 200.0), (200.0, 0.0)])
def test_pairwise_loss_far_apart_is_finite_in_float32(difference, loss):
    # In float32 sigmoid(-200) is 0, and its logarithm -infinity.
    assert_equal(pairwise_loss(torch.tensor([difference]), torch.tensor([0.0])), torch.tensor(loss))


def test_ranking_loss_far_apart_is_finite():
    # Pairs 1000, 2000 and 1000 the wrong way round.
    assert_equal(ranking_loss([[-1000.0, 0.0, 1000.0]]), 4000 / 3)


@named("garbage", {"nan": NAN, "infinite": math.inf})
def test_token_pairwise_loss_keeps_the_padding_out(garbage):
    scores, both = ([[4.0, LOG3, garbage]], [[2.0, 0.0, garbage]]), ("chosen_scores", "rejected_scores")
    answer, grads = value_and_gradients(token_pairwise_loss, *scores, [[5, 6, 9]], [[5, 7, 9]], 9, wrt=both)
    assert_equal(answer, WON)
    assert_equal(grads, chosen_scores=[[0.0, -0.25, 0.0]], rejected_scores=[[0.0, 0.25, 0.0]])


def test_token_pairwise_loss_far_apart_is_finite():
    assert_equal(token_pairwise_loss([[-1000.0, 0.0]], [[0.0, 0.0]], [[5, 6]], [[6, 6]], 9), (1000 + EVEN) / 2)


def test_preference_accuracy_is_data():
    answer, _ = value_and_gradients(preference_accuracy, [2.0, 1.0], [1.0, 3.0], wrt=("chosen", "rejected"))
    assert_equal(answer, 0.5, dtype=torch.float32)
    assert_no_gradient(answer)
