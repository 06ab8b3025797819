"""Lesson 2, made safe, and in general: identities, and scores that are far apart."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    assert_no_gradient,
    examples_of,
    named,
    reference,
    scenario,
    value_and_gradients,
)
from tutorial.lesson02_reward_model import (
    RewardModel,
    calibrate,
    last_token_index,
    pairwise_loss,
    preference_accuracy,
    ranking_loss,
    token_pairwise_loss,
    train_reward_model,
)

GARBAGE = named("garbage", {"nan": math.nan, "infinite": math.inf})
LOG3 = math.log(3.0)
"""sigmoid(log 3) = 3/4: the loss is log 4/3, the slope -1/4."""
WON, EVEN = math.log(4 / 3), math.log(2.0)


@pytest.mark.points(2)
def test_last_token_index_behind_a_gap():
    # No text has a gap, but the last real token is the last one all the same.
    assert_equal(last_token_index([[True, False, True, False]]), [2])


SCORE = scenario("score_rows", of=RewardModel.forward)


def backbone() -> dict[str, Tensor]:
    """Of 6 words, 9 places and 3 features."""
    shapes = {"table": (6, 3), "places": (9, 3), "weight": (1, 3), "bias": (1,)}
    return {name: normal(*shape, seed=seed) for seed, (name, shape) in enumerate(shapes.items(), start=1)}


@GARBAGE
@pytest.mark.points(3)
def test_reward_model_keeps_the_padding_out(garbage):
    # Token 0 stands on padding only, and the backbone gives it NaN: its state must not come near the score.
    numbers = backbone()
    clean = torch.tensor([[3, 1, 5, 1], [1, 2, 4, 1], [5, 1, 1, 1]])
    mask = torch.tensor([[True, True, True, False], [False, True, True, True], [False, True, True, False]])
    expected = reference(SCORE, input_ids=clean, attention_mask=mask, **numbers)
    numbers["table"][0] = garbage
    assert_equal(SCORE(input_ids=clean.masked_fill(~mask, 0), attention_mask=mask, **numbers), expected)


def test_reward_model_keeps_float32():
    numbers = {name: number.float() for name, number in backbone().items()}
    ids, mask = torch.tensor([[3, 1, 2], [0, 2, 4]]), torch.tensor([[True, True, True], [False, True, True]])
    expected = reference(SCORE, input_ids=ids, attention_mask=mask, **numbers)
    assert_equal(SCORE(input_ids=ids, attention_mask=mask, **numbers), expected)


@pytest.mark.points(2)
def test_ranking_loss_of_two_is_the_pairwise_loss():
    scores = normal(6, 2)
    assert_equal(ranking_loss(scores), reference(pairwise_loss, scores[:, 0], scores[:, 1]))


# In float32 sigmoid(-200) is 0, and its logarithm -infinity.
@named("ahead, loss, slope", {"200-behind": (-200.0, 200.0, -1.0), "1000-ahead": (1000.0, 0.0, 0.0)})
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.points(4)
def test_pairwise_loss_far_apart_is_finite(ahead, loss, slope, dtype):
    scores = torch.tensor([ahead], dtype=dtype), torch.tensor([0.0], dtype=dtype)
    answer, grads = value_and_gradients(pairwise_loss, *scores, wrt="chosen")
    assert_equal(answer, torch.tensor(loss, dtype=dtype))
    assert_equal(grads, chosen=torch.tensor([slope], dtype=dtype))


@GARBAGE
@pytest.mark.points(4)
def test_token_pairwise_loss_keeps_the_padding_out(garbage):
    scores, both = ([[4.0, LOG3, garbage]], [[2.0, 0.0, garbage]]), ("chosen_scores", "rejected_scores")
    answer, grads = value_and_gradients(token_pairwise_loss, *scores, [[5, 6, 9]], [[5, 7, 9]], 9, wrt=both)
    assert_equal(answer, WON)
    assert_equal(grads, chosen_scores=[[0.0, -0.25, 0.0]], rejected_scores=[[0.0, 0.25, 0.0]])


def test_preference_accuracy_is_data():
    answer, _ = value_and_gradients(preference_accuracy, [2.0, 1.0], [1.0, 3.0], wrt=("chosen", "rejected"))
    assert_equal(answer, torch.tensor(0.5))
    assert_no_gradient(answer)


CALIBRATE = scenario("calibrate_model", of=calibrate)


@pytest.mark.parametrize("sizes", [(9,), (4, 4, 1), (1,) * 9], ids=str)
def test_calibrate_gives_mean_0_and_standard_deviation_1(sizes):
    features, weight, bias = normal(9, 3), normal(1, 3, seed=2), normal(1, seed=3)
    scores = features @ weight[0] + bias
    answer = CALIBRATE(features=features, sizes=sizes, weight=weight, bias=bias)
    assert_equal(answer, weight=weight / scores.std(), bias=(bias - scores.mean()) / scores.std())


def test_calibrate_keeps_float32():
    features, weight, bias = map(torch.tensor, ([[0.0], [1.0], [2.0]], [[2.0]], [1.0]))
    answer = CALIBRATE(features=features, sizes=(2, 1), weight=weight, bias=bias)
    assert_equal(answer, weight=torch.tensor([[1.0]]), bias=torch.tensor([-1.0]))


@named(
    "features, sizes",
    {
        "one-response": ([[1.0]], (1,)),
        "no-batch": (torch.zeros(0, 1, dtype=torch.float64), ()),
        "two-equal-scores": ([[1.0], [1.0]], (2,)),
        # The mean of three times 0.1 is not quite 0.1, so their standard deviation is not quite 0: 1.7e-17.
        "equal-scores-that-round": ([[0.1], [0.1], [0.1]], (2, 1)),
    },
)
def test_calibrate_refuses_scores_that_do_not_differ(features, sizes):
    with pytest.raises(ValueError):
        CALIBRATE(features=features, sizes=sizes, weight=[[1.0]], bias=[0.0])


@pytest.mark.points(6)
def test_train_reward_model_agrees_with_the_reference():
    for answer in examples_of(train_reward_model):
        # Gradients may be scaled to the norm exactly; torch divides by their norm + 1e-6.
        assert_equals_reference(answer, atol=1e-5)


def test_train_reward_model_needs_a_pair():
    with pytest.raises(ValueError, match="pairs"):
        scenario("watch_training", of=train_reward_model)(pairs=0)
