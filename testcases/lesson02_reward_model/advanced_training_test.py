"""Lesson 2, calibration and training in general: each number against the arithmetic written out."""

import pytest
import torch

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    assert_leaves_global_random_alone,
    examples_of,
    named,
    scenario,
)
from tutorial.lesson02_reward_model import calibrate, train_reward_model

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


@pytest.mark.points(3)
def test_train_reward_model_agrees_with_the_reference():
    for answer in examples_of(train_reward_model):
        # Gradients may be scaled to the norm exactly; torch divides by their norm + 1e-6.
        assert_equals_reference(answer, atol=1e-5)


@pytest.mark.points(2)
def test_train_reward_model_changes_the_model_it_is_given():
    answer = scenario("train_on", of=train_reward_model, seconds=20.0)(
        table=normal(4, 2),
        weight=[[0.5, -0.5]],
        chosen_ids=[[0], [1]],
        chosen_mask=[[True], [True]],
        rejected_ids=[[2], [3]],
        rejected_mask=[[True], [True]],
        learning_rate=0.1,
    )
    assert answer["same_parameters"] is True, "the model's own parameters, trained in place"
    assert answer["trainable_afterwards"] is True, "parameters that still require a gradient"


def test_train_reward_model_draws_nothing_from_the_global_generator():
    answer = scenario("watch_training", of=train_reward_model, seconds=20.0)(pairs=6, epochs=2, batch_size=4, seed=7)
    assert_leaves_global_random_alone(answer)
    assert_equals_reference(answer)


def test_train_reward_model_needs_a_pair():
    with pytest.raises(ValueError, match="pairs"):
        scenario("train_without_pairs", of=train_reward_model)()
