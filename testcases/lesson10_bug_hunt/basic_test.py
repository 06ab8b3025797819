"""Lesson 10, the blocks: each test fails on the file as it is handed out."""

import math

import pytest
import torch

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import assert_equal, named, value_and_gradients
from tutorial.lesson10_bug_hunt import (
    bounded_error,
    credit_packed,
    label_replies,
    merge_moments,
    pessimistic_gain,
    read_prompts,
    sampled_drift,
    sum_in_groups,
)

NAN, LOG_3 = math.nan, math.log(3)


@named(
    "rewards, critic, lengths, factor, credit",
    {
        # 4; 2 + 4; 1 + 6
        "one-response": ([1.0, 2.0, 4.0], [0.0, 0.0, 0.0], (3,), 1.0, [7.0, 6.0, 4.0]),
        "two-responses": ([0.0, 1.0, 2.0], [0.0, 0.0, 100.0], (2, 1), 1.0, [1.0, 1.0, -98.0]),
        # 4 - 4; 3 + 2 - 3 + 0; 2 - 2; 1 + 1 - 1 + 0
        "discounted": ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], (2, 2), 0.5, [1.0, 0.0, 2.0, 0.0]),
        "three-of-one-token": ([5.0, 6.0, 7.0], [1.0, 2.0, 3.0], (1, 1, 1), 0.5, [4.0, 4.0, 4.0]),
    },
)
@pytest.mark.points(4)
def test_credit_packed_by_hand(rewards, critic, lengths, factor, credit):
    assert_equal(credit_packed(rewards, critic, lengths=lengths, discount=factor, decay=factor), credit)


@named(
    "ratio, merit, gain, slope",
    {
        "nothing-has-moved": (1.0, 1.0, 1.0, 1.0),
        "good-and-more-likely": (1.5, 1.0, 1.2, 0.0),
        "good-and-less-likely": (0.5, 1.0, 0.5, 1.0),
        "bad-and-less-likely": (0.5, -1.0, -0.8, 0.0),
        "bad-and-more-likely": (1.5, -1.0, -1.5, -1.0),
        "neither-good-nor-bad": (1.5, 0.0, 0.0, 0.0),
    },
)
@pytest.mark.points(3)
def test_pessimistic_gain_by_hand(ratio, merit, gain, slope):
    answer, grads = value_and_gradients(pessimistic_gain, [ratio], [merit], 0.2, wrt=("ratios", "merits"))
    assert_equal(answer, gain)
    assert_equal(grads, ratios=[slope], merits=None)


def test_pessimistic_gain_is_the_mean_over_tokens():
    # 1.2 and 2 * -0.8
    answer, grads = value_and_gradients(pessimistic_gain, [1.5, 0.5], [1.0, -2.0], 0.2, wrt="ratios")
    assert_equal(answer, -0.2)
    assert_equal(grads, ratios=[0.0, 0.0])


@named(
    "estimate, target, error, slope",
    {
        "within-the-room": (1.1, 2.0, 0.405, -0.9),
        "towards-the-target-and-too-far": (1.5, 2.0, 0.32, 0.0),
        "away-from-the-target": (0.5, 2.0, 1.125, -1.5),
        "past-the-target": (1.5, 1.3, 0.02, 0.2),
    },
)
@pytest.mark.points(3)
def test_bounded_error_by_hand(estimate, target, error, slope):
    answer, grads = value_and_gradients(
        bounded_error, [estimate], [1.0], [target], 0.2, wrt=("estimates", "anchors", "targets")
    )
    assert_equal(answer, error)
    assert_equal(grads, estimates=[slope], anchors=None, targets=None)


def test_bounded_error_is_the_mean_over_tokens():
    # 0.32 and 1.125, halved
    answer, grads = value_and_gradients(bounded_error, [1.5, 0.5], [1.0, 1.0], [2.0, 2.0], 0.2, wrt="estimates")
    assert_equal(answer, 0.7225)
    assert_equal(grads, estimates=[0.0, -0.75])


@named("scores", {"one-prompt": [[4.0, 4.0]], "one-response-each": [[4.0], [4.0]]})
@pytest.mark.points(3)
def test_merge_moments_by_hand(scores):
    # 0 and 2 were seen; of 0, 2, 4, 4 the mean is 2.5, the variance (6.25 + 0.25 + 2.25 + 2.25) / 4
    assert_equal(merge_moments(2.0, 1.0, 1.0, scores), seen=4.0, mean=2.5, variance=2.75)


@pytest.mark.parametrize("shape", [(4, 3), (2, 8), (5, 1)], ids=str)
def test_merge_moments_are_those_of_all_scores_together(shape):
    scores, earlier = 3 * normal(*shape), normal(6, seed=2)
    together = torch.cat([scores.flatten(), earlier])
    before = 6.0, earlier.mean().item(), earlier.var(unbiased=False).item()
    answer = merge_moments(*before, scores)
    mean, variance = together.mean().item(), together.var(unbiased=False).item()
    assert_equal(answer, seen=6.0 + scores.numel(), mean=mean, variance=variance)


@named(
    "heat, token, drift",
    {
        # At temperature 2 the policy has 3/4 and 1/4, the frozen model 1/10 and 9/10; at 1: 9/10, and 1/82.
        "warm-and-more-likely": (2.0, 0, math.log(7.5)),
        "warm-and-less-likely": (2.0, 1, math.log(5 / 18)),
        "temperature-1": (1.0, 0, math.log(73.8)),
    },
)
@pytest.mark.points(4)
def test_sampled_drift_by_hand(heat, token, drift):
    logits = [[[2 * LOG_3, 0.0]]], [[[0.0, 4 * LOG_3]]]
    assert_equal(sampled_drift(*logits, [[token]], heat), [[drift]], atol=1e-12)


@named(
    "tokens, visible, vector",
    {
        # (1 + 20 + 300) / 3
        "the-longest-prompt": ([[0, 1, 2]], [[True, True, True]], [[107.0]]),
        # (1 + 20) / 2
        "a-shorter-prompt": ([[2, 0, 1]], [[False, True, True]], [[10.5]]),
        "one-token": ([[1, 1, 2]], [[False, False, True]], [[3.0]]),
    },
)
@pytest.mark.points(4)
def test_read_prompts_by_hand(tokens, visible, vector):
    assert_equal(read_prompts([[1.0], [2.0], [3.0]], [[1.0], [10.0], [100.0]], tokens, visible), vector)


@pytest.mark.parametrize("budget", [1, 4, 100])
@pytest.mark.points(4)
def test_sum_in_groups_by_hand(budget):
    numbers = [[1.0, 2.0, 4.0], [8.0, NAN, NAN], [16.0, 32.0, NAN]]
    assert_equal(sum_in_groups(numbers, [3, 1, 2], budget), [7.0, 8.0, 48.0])


@named(
    "prompts, replies, tokens, labels",
    {
        "rows-of-one-length": (
            ([5, 6], [4]),
            ([7, 2], [8, 9, 2]),
            [[5, 6, 7, 2], [4, 8, 9, 2]],
            [[-100, -100, 7, 2], [-100, 8, 9, 2]],
        ),
        "rows-of-two-lengths": (
            ([5], [4]),
            ([7, 2], [8, 9, 3, 2]),
            [[5, 7, 2, 2, 2], [4, 8, 9, 3, 2]],
            [[-100, 7, 2, -100, -100], [-100, 8, 9, 3, 2]],
        ),
    },
)
@pytest.mark.points(3)
def test_label_replies_by_hand(prompts, replies, tokens, labels):
    assert_equal(label_replies(prompts=prompts, replies=replies, end=2), tokens=tokens, labels=labels)


def test_label_replies_learns_what_was_written_and_nothing_else():
    # The first reply was cut off; the second and fourth prompts contain the end-of-text token.
    prompts, replies = ([5], [2, 6], [4], [4, 2]), ([7, 8], [9, 2], [9, 9, 9, 2], [2])
    answer = label_replies(prompts=prompts, replies=replies, end=2)
    learned = [[-100, 7, 8, -100, -100], [-100, -100, 9, 2, -100], [-100, 9, 9, 9, 2], [-100, -100, 2, -100, -100]]
    assert_equal(answer, labels=learned)
