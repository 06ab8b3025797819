"""Lesson 3, by hand: two to four tokens, gamma = 0.5, every number worked out in a comment or by eye."""

import pytest

from testcases.harness.suite.asserts import assert_equal, named, value_and_gradients
from tutorial.lesson03_policy_gradient import leave_one_out_baseline, reinforce_loss, rewards_to_go


# G[t] = rewards[t] + gamma * G[t + 1] over the real tokens
@named(
    "rewards, gamma, to_go",
    {
        # 4; 2 + 0.5 * 4 = 4; 1 + 0.5 * 4 = 3
        "each-step-back-discounts-once-more": ([1.0, 2.0, 4.0], 0.5, [3.0, 4.0, 4.0]),
        "gamma-1-sums-what-follows": ([1.0, 2.0, 4.0], 1.0, [7.0, 6.0, 4.0]),
        "gamma-0-keeps-this-reward-only": ([1.0, 2.0, 4.0], 0.0, [1.0, 2.0, 4.0]),
        "nobody-earns-what-came-before-its-token": ([8.0, 0.0, 0.0], 0.5, [8.0, 0.0, 0.0]),
        "the-score-at-the-end-reaches-all": ([0.0, 0.0, 8.0], 0.5, [2.0, 4.0, 8.0]),
        "one-column": ([3.0], 0.5, [3.0]),
    },
)
@pytest.mark.points(8)
def test_rewards_to_go_by_hand(rewards, gamma, to_go):
    assert_equal(rewards_to_go([rewards], [[True] * len(rewards)], gamma), [to_go])


@pytest.mark.points(3)
def test_rewards_to_go_keeps_rows_apart_and_padding_out():
    # Fewer rows than tokens; the rows end at different places. Under a False mask stands a number that is no reward.
    rewards, mask = [[1.0, 2.0, 4.0, 8.0], [3.0, 4.0, 9.0, 7.0]], [[True, True, True, True], [True, True, False, False]]
    assert_equal(rewards_to_go(rewards, mask, 0.5), [[4.0, 6.0, 8.0, 8.0], [5.0, 4.0, 0.0, 0.0]])


# baseline[i] = mean of the other scores of its own row
@named(
    "scores, baseline",
    {
        "the-mean-of-the-two-others": ([[1.0, 2.0, 6.0]], [[4.0, 3.5, 1.5]]),  # (2 + 6) / 2, (1 + 6) / 2, (1 + 2) / 2
        "of-two-each-is-the-baseline-of-the-other": ([[1.0, 5.0]], [[5.0, 1.0]]),
        "divided-by-k-minus-1": ([[0.0, 3.0, 6.0, 9.0]], [[6.0, 5.0, 4.0, 3.0]]),  # 18 - score, by 3
        "each-prompt-has-its-own-responses": ([[1.0, 2.0, 6.0], [4.0, 2.0, 0.0]], [[4.0, 3.5, 1.5], [1.0, 2.0, 3.0]]),
    },
)
@pytest.mark.points(8)
def test_leave_one_out_baseline_by_hand(scores, baseline):
    assert_equal(leave_one_out_baseline(scores), baseline)


# loss = -(sum of weights * log_probs over the real tokens) / (their number); slope = -weights / (their number)
@named(
    "log_probs, weights, loss, slope",
    {
        "descending-makes-a-good-token-more-likely": ([-2.0], [3.0], 6.0, [-3.0]),
        "and-a-bad-token-less-likely": ([-2.0], [-3.0], -6.0, [3.0]),
        "each-token-has-its-own-weight": ([-1.0, -2.0], [3.0, -0.5], 1.0, [-1.5, 0.25]),  # (3 - 1) / 2
        "weight-0-still-counts": ([-1.0, -2.0], [0.0, 4.0], 4.0, [0.0, -2.0]),
        "nothing-is-centred-or-scaled": ([-1.0, -2.0], [5.0, 5.0], 7.5, [-2.5, -2.5]),
    },
)
@pytest.mark.points(4)
def test_reinforce_loss_by_hand(log_probs, weights, loss, slope):
    args = [log_probs], [weights], [[True] * len(weights)]
    answer, grads = value_and_gradients(reinforce_loss, *args, wrt="log_probs")
    assert_equal(answer, loss)
    assert_equal(grads, log_probs=[slope])


@pytest.mark.points(4)
def test_reinforce_loss_is_a_mean_over_tokens_not_over_rows():
    # (3 + 12 + 36) / 3 = 17: each token counts once, wherever it stands; the padding doesn't.
    args = [[-1.0, -2.0], [-4.0, -7.0]], [[3.0, 6.0], [9.0, 8.0]], [[True, True], [True, False]]
    answer, grads = value_and_gradients(reinforce_loss, *args, wrt="log_probs")
    assert_equal(answer, 17.0)
    assert_equal(grads, log_probs=[[-1.0, -2.0], [-3.0, 0.0]])
