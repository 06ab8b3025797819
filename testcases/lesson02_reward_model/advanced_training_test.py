"""Lesson 2, calibration and training in general: each number against the arithmetic written out."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness.doubles.arithmetic import nll
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


@pytest.mark.points(2)
def test_train_reward_model_agrees_with_the_reference():
    for answer in examples_of(train_reward_model):
        # Gradients may be scaled to the norm exactly; torch divides by their norm + 1e-6.
        assert_equals_reference(answer, atol=1e-5)


CALIBRATE = scenario("calibrate_model", of=calibrate)


@pytest.mark.parametrize("sizes", [(9,), (1, 8), (4, 4, 1), (1,) * 9], ids=str)
def test_calibrate_gives_mean_0_and_standard_deviation_1(sizes):
    features, weight, bias = normal(9, 3), normal(1, 3, seed=2), normal(1, seed=3)
    scores = (features @ weight[0] + bias).tolist()
    mean = sum(scores) / 9
    deviation = math.sqrt(sum((score - mean) ** 2 for score in scores) / 8)
    answer = CALIBRATE(features=features, sizes=sizes, weight=weight, bias=bias)
    assert_equal(answer, weight=weight / deviation, bias=(bias - mean) / deviation)


def test_calibrate_keeps_float32():
    numbers = [torch.tensor(number) for number in ([[0.0], [1.0], [2.0]], [[2.0]], [1.0])]
    answer = CALIBRATE(features=numbers[0], sizes=(2, 1), weight=numbers[1], bias=numbers[2])
    assert_equal(answer, weight=torch.tensor([[1.0]]), bias=torch.tensor([-1.0]))


TRAIN = scenario("train_on", of=train_reward_model)


def replay(table: Tensor, weight: Tensor, ids: Tensor, mask: Tensor, batches: list[list[int]], **config: float):
    """The training written out: AdamW by hand on weight and scale, on these batches in turn."""
    rows, n = len(ids) // 2, len(batches)
    features = torch.where(mask.unsqueeze(-1), table[ids], 0.0).sum(dim=1)
    parameters = [weight.flatten().clone(), torch.ones_like(weight.flatten())]
    means, squares = ([torch.zeros_like(parameter) for parameter in parameters] for _ in range(2))
    losses, accuracies, norms = [], [], []
    for k, batch in enumerate(batches):
        better, worse = features[batch], features[[rows + pair for pair in batch]]
        differences = (better - worse) @ (parameters[0] * parameters[1])
        losses.append(sum(nll(x) for x in differences.tolist()) / len(batch))
        accuracies.append(sum(x > 0 for x in differences.tolist()) / len(batch))
        gradient = -(torch.sigmoid(-differences) @ (better - worse)) / len(batch)
        slopes = [gradient * parameters[1], gradient * parameters[0]]
        norm = math.sqrt(sum(float(slope.square().sum()) for slope in slopes))
        norms.append(min(norm, config["max_grad_norm"]))
        rate = config["learning_rate"] * (1 - k / n)
        for i, slope in enumerate(slopes):
            slope = slope * min(1.0, config["max_grad_norm"] / norm)
            means[i] = 0.9 * means[i] + 0.1 * slope
            squares[i] = 0.999 * squares[i] + 0.001 * slope.square()
            size = (squares[i] / (1 - 0.999 ** (k + 1))).sqrt() + 1e-8
            parameters[i] = parameters[i] - rate * means[i] / (1 - 0.9 ** (k + 1)) / size
    return parameters, losses, accuracies, norms


@pytest.mark.parametrize("batch_size, epochs, max_grad_norm", [(2, 2, 10.0), (3, 3, 0.4), (1, 1, 0.1)])
@pytest.mark.points(2)
def test_train_reward_model_is_adamw_on_its_batches(batch_size, epochs, max_grad_norm):
    table, weight = normal(20, 2), normal(1, 2, seed=2)
    ids = torch.arange(14)[:, None].repeat(1, 3)
    ids[:, 1:] = torch.randint(14, 20, (14, 2), generator=torch.Generator().manual_seed(3))
    mask = torch.arange(3) < torch.tensor([1, 2, 3] * 5)[:14, None]
    config = {"learning_rate": 0.1, "max_grad_norm": max_grad_norm}
    answer = TRAIN(
        table=table,
        weight=weight,
        chosen_ids=ids[:7],
        chosen_mask=mask[:7],
        rejected_ids=ids[7:],
        rejected_mask=mask[7:],
        epochs=epochs,
        batch_size=batch_size,
        seed=4,
        seconds=20.0,
        **config,
    )
    batches = answer["batches"]
    assert sorted(pair for batch in answer["batches"] for pair in batch) == sorted([*range(7)] * epochs), (
        "each of the 7 comparisons once in each epoch"
    )
    (weight, scale), losses, accuracies, norms = replay(table, weight, ids, mask, batches, **config)
    assert_equal(
        answer, losses=losses, accuracies=accuracies, weight=weight[None], scale=scale, gradient_norms=norms, atol=1e-5
    )


def test_train_reward_model_changes_the_model_it_is_given():
    answer = TRAIN(
        table=normal(4, 2),
        weight=[[0.5, -0.5]],
        chosen_ids=[[0], [1]],
        chosen_mask=[[True], [True]],
        rejected_ids=[[2], [3]],
        rejected_mask=[[True], [True]],
        learning_rate=0.1,
        seconds=20.0,
    )
    assert answer["same_parameters"] is True, "the model's own parameters, trained in place"
    assert answer["trainable_afterwards"] is True, "parameters that still require a gradient"


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_train_reward_model_draws_nothing_from_the_global_generator(seed):
    answer = scenario("watch_training", of=train_reward_model)(pairs=6, epochs=2, batch_size=4, seed=seed, seconds=20.0)
    assert_leaves_global_random_alone(answer)
    assert_equals_reference(answer)


def test_train_reward_model_needs_a_pair():
    with pytest.raises(ValueError, match="pairs"):
        scenario("train_without_pairs", of=train_reward_model)()


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
