"""Lesson 3, by hand: two to four tokens, gamma = 0.5, every number worked out in a comment or by eye."""

import pytest
import torch

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import assert_equal, named, reference, value_and_gradients
from tutorial.lesson03_policy_gradient import leave_one_out_baseline, reinforce_loss, rewards_to_go

ROWS = torch.arange(6) < torch.tensor([[5], [3], [1], [4]])
"""A mask of four rows, padded on the right."""


# G[t] = rewards[t] + gamma * G[t + 1] over the real tokens. Under a False mask stands a number that is no reward.
@named(
    "rewards, mask, gamma, to_go",
    {
        # 4; 2 + 0.5 * 4 = 4; 1 + 0.5 * 4 = 3
        "each-step-back-discounts-once-more": ([[1.0, 2.0, 4.0]], [[True, True, True]], 0.5, [[3.0, 4.0, 4.0]]),
        # from the end: 4; 2 + 1 * 4 = 6; 1 + 1 * 6 = 7
        "gamma-1-sums-what-follows": ([[1.0, 2.0, 4.0]], [[True, True, True]], 1.0, [[7.0, 6.0, 4.0]]),
        # from the end: 4; 2 + 0 * 4 = 2; 1 + 0 * 2 = 1
        "gamma-0-keeps-this-reward-only": ([[1.0, 2.0, 4.0]], [[True, True, True]], 0.0, [[1.0, 2.0, 4.0]]),
        # from the end: 0; 0 + 0.5 * 0 = 0; 8 + 0.5 * 0 = 8
        "nobody-earns-what-came-before-its-token": ([[8.0, 0.0, 0.0]], [[True, True, True]], 0.5, [[8.0, 0.0, 0.0]]),
        # from the end: 8; 0 + 0.5 * 8 = 4; 0 + 0.5 * 4 = 2
        "the-score-at-the-end-reaches-all": ([[0.0, 0.0, 8.0]], [[True, True, True]], 0.5, [[2.0, 4.0, 8.0]]),
        # from the end: 1; -8 + 0.5 * 1 = -7.5; 0 + 0.5 * -7.5 = -3.75; -4 + 0.5 * -3.75 = -5.875
        "rewards-may-be-negative": (
            [[-4.0, 0.0, -8.0, 1.0]],
            [[True, True, True, True]],
            0.5,
            [[-5.875, -3.75, -7.5, 1.0]],
        ),
        # from the end: 4; 1 + 0.5 * 4 = 3
        "padding-holds-numbers": ([[1.0, 4.0, 9.0]], [[True, True, False]], 0.5, [[3.0, 4.0, 0.0]]),
        # from the end: 3
        "one-column": ([[3.0]], [[True]], 0.5, [[3.0]]),
        # Fewer rows than tokens; the rows end at different places.
        "keeps-rows-apart": (
            [[1.0, 2.0, 4.0, 8.0], [3.0, 4.0, 9.0, 7.0]],
            [[True, True, True, True], [True, True, False, False]],
            0.5,
            [[4.0, 6.0, 8.0, 8.0], [5.0, 4.0, 0.0, 0.0]],
        ),
    },
)
@pytest.mark.points(11)
def test_rewards_to_go_by_hand(rewards, mask, gamma, to_go):
    assert_equal(rewards_to_go(rewards, mask, gamma), to_go)


# baseline[i] = mean of the other scores of its own row
@named(
    "scores, baseline",
    {
        # (2 + 6) / 2, (1 + 6) / 2, (1 + 2) / 2
        "the-mean-of-the-two-others": ([[1.0, 2.0, 6.0]], [[4.0, 3.5, 1.5]]),
        # sums 6; each less its own score, by 1
        "of-two-each-is-the-baseline-of-the-other": ([[1.0, 5.0]], [[5.0, 1.0]]),
        # 18 - score, by 3
        "divided-by-k-minus-1": ([[0.0, 3.0, 6.0, 9.0]], [[6.0, 5.0, 4.0, 3.0]]),
        # sums 6; each less its own score, by 2
        "equal-scores-are-their-own-baseline": ([[2.0, 2.0, 2.0]], [[2.0, 2.0, 2.0]]),
        # sums -2; each less its own score, by 2
        "scores-may-be-negative": ([[-3.0, 0.0, 1.0]], [[0.5, -1.0, -1.5]]),
        # sums 9, 90, 2, 6; each less its own score, by 2
        "each-prompt-has-its-own-responses": (
            [[1.0, 2.0, 6.0], [10.0, 20.0, 60.0], [0.0, 0.0, 2.0], [4.0, 2.0, 0.0]],
            [[4.0, 3.5, 1.5], [40.0, 35.0, 15.0], [1.0, 1.0, 0.0], [1.0, 2.0, 3.0]],
        ),
        # sums 6, 22; each less its own score, by 1
        "as-many-prompts-as-responses": ([[1.0, 5.0], [2.0, 20.0]], [[5.0, 1.0], [20.0, 2.0]]),
    },
)
@pytest.mark.points(8)
def test_leave_one_out_baseline_by_hand(scores, baseline):
    assert_equal(leave_one_out_baseline(scores), baseline)


# loss = -(sum of weights * log_probs over the real tokens) / (their number); slope = -weights / (their number)
@named(
    "log_probs, weights, mask, loss, slope",
    {
        "descending-makes-a-good-token-more-likely": ([[-2.0]], [[3.0]], [[True]], 6.0, [[-3.0]]),
        "and-a-bad-token-less-likely": ([[-2.0]], [[-3.0]], [[True]], -6.0, [[3.0]]),
        # (3 - 1) / 2
        "each-token-has-its-own-weight": ([[-1.0, -2.0]], [[3.0, -0.5]], [[True, True]], 1.0, [[-1.5, 0.25]]),
        "weight-0-still-counts": ([[-1.0, -2.0]], [[0.0, 4.0]], [[True, True]], 4.0, [[0.0, -2.0]]),
        "nothing-is-centred-or-scaled": ([[-1.0, -2.0]], [[5.0, 5.0]], [[True, True]], 7.5, [[-2.5, -2.5]]),
        # (3 + 12 + 36) / 3 = 17: each token counts once, wherever it stands
        "mean-over-tokens-not-over-rows": (
            [[-1.0, -2.0], [-4.0, -7.0]],
            [[3.0, 6.0], [9.0, 8.0]],
            [[True, True], [True, False]],
            17.0,
            [[-1.0, -2.0], [-3.0, 0.0]],
        ),
    },
)
@pytest.mark.points(4)
def test_reinforce_loss_by_hand(log_probs, weights, mask, loss, slope):
    answer, grads = value_and_gradients(reinforce_loss, log_probs, weights, mask, wrt="log_probs")
    assert_equal(answer, loss)
    assert_equal(grads, log_probs=slope)


@pytest.mark.points(2)
def test_reinforce_loss_of_two_batches_weighs_them_by_their_tokens():
    log_probs, weights, mask = normal(4, 6) - 2, normal(4, 6, seed=2), ROWS
    first = reference(reinforce_loss, log_probs[:1], weights[:1], mask[:1])
    second = reference(reinforce_loss, log_probs[1:], weights[1:], mask[1:])
    expected = (5 * first + 8 * second) / 13
    assert_equal(reinforce_loss(log_probs, weights, mask), expected)


@pytest.mark.points(2)
def test_reinforce_loss_does_not_depend_on_the_padding():
    log_probs, weights, mask = normal(4, 6) - 2, normal(4, 6, seed=2), ROWS
    expected = reference(reinforce_loss, log_probs, weights, mask)
    log_probs, weights = torch.cat([log_probs, normal(4, 3)], dim=1), torch.cat([weights, 9 * normal(4, 3)], dim=1)
    mask = torch.cat([mask, torch.zeros(4, 3, dtype=torch.bool)], dim=1)
    assert_equal(reinforce_loss(log_probs, weights, mask), expected)
