"""Lesson 10, the whole small trainers: each test fails on the file as it is handed out."""

import math

import pytest
import torch

from testcases.harness.doubles.drawing import normal, uniform_from
from testcases.harness.suite.asserts import assert_equal, assert_equals_reference, named
from tutorial.lesson10_bug_hunt import train_bandit, train_chain, train_contexts, train_sliced


def noise(*shape: int, seed: int = 3) -> torch.Tensor:
    return uniform_from(torch.Generator().manual_seed(seed), *shape)


@named(
    "decay, value_loss, critic",
    {
        # Targets 1 + 3 and 3 in both updates, the critic goes halfway: losses (16 + 9) / 2, (4 + 2.25) / 2
        "sums-of-rewards": (1.0, [12.5, 3.125], [3.0, 2.25]),
        # Targets 1, 3, then 1 + 1.5, 3; the critic is at 0.5, 1.5 in between: losses (1 + 9) / 2, (4 + 2.25) / 2
        "one-step": (0.0, [5.0, 3.125], [1.5, 2.25]),
    },
)
@pytest.mark.points(4)
def test_train_chain_by_hand(decay, value_loss, critic):
    # One action, so that only the critic can learn; it earns 1, then 3.
    answer = train_chain(noise(2, 1, 2), [[1.0], [3.0]], [[0.0], [0.0]], 0.5, decay)
    assert_equal(answer, value_loss=value_loss, critic=critic, reward=[4.0, 4.0], scores=[[0.0], [0.0]])


@pytest.mark.parametrize("curiosity", [0.5, 1.0, 0.0])
@pytest.mark.points(4)
def test_train_bandit_without_any_payoff_follows_its_curiosity(curiosity):
    # d entropy / d score = -p * (log p + entropy)
    p = 1 / (1 + math.exp(-1))
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    slopes = [-share * (math.log(share) + entropy) for share in (p, 1 - p)]
    answer = train_bandit(noise(1, 4), [0.0, 0.0], [1.0, 0.0], 0.8, 0.2, 1, curiosity)
    assert_equal(answer, scores=[1.0 + 0.8 * curiosity * slopes[0], 0.8 * curiosity * slopes[1]], entropy=[entropy])


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.points(4)
def test_train_sliced_by_hand(rows):
    # Three tokens of probability 1/2: 0 to 1 (weight 1), 1 to 1 (weight 1), 0 to 0 (weight 2)
    answer = train_sliced([[1, 1], [0, 1]], [2, 1], [1.0, 2.0], [[0.0, 0.0], [0.0, 0.0]], rate=1.0, steps=1, rows=rows)
    assert_equal(answer, [[1 / 6, -1 / 6], [-1 / 6, 1 / 6]])


@named(
    "passes, score, ratio, outside",
    {
        "one-pass-is-the-policy-gradient": (1, 0.5, 1.0, 0.0),
        # After the first pass the probabilities are 0.73 and 0.27, both further than 0.2 from 1/2 in ratio.
        "three-passes-stop-at-the-width": (3, 0.5, 2 / (1 + math.exp(-1)), 1.0),
    },
)
@pytest.mark.points(3)
def test_train_contexts_by_hand(passes, score, ratio, outside):
    # One question with two answers, each drawn once: merits 1 and -1
    answer = train_contexts([[[0.2], [0.7]]], [[1.0, -1.0]], [[0.0, 0.0]], 1.0, 0.2, passes)
    assert_equal(answer, scores=[[score, -score]], ratio=[ratio], outside=[outside], reward=[0.0])


@pytest.mark.parametrize("passes", [1, 6])
def test_train_contexts_over_several_updates(passes):
    batch = noise(3, 12, 2), normal(2, 4), normal(2, 4, seed=2)
    assert_equals_reference(train_contexts(*batch, 8.0, 0.05, passes))
