"""Lesson 3, by hand: two to four tokens, gamma = 0.5, every number worked out in a comment or by eye."""

from __future__ import annotations

import math

import pytest
import torch

from testcases.engine import call, worth
from tutorial.lesson03_policy_gradient import leave_one_out_baseline, reinforce_loss, rewards_to_go

NAN = math.nan


# G[t] = rewards[t] + gamma * G[t + 1] over the real tokens. Under a False mask: NaN, or a number that is no reward.
@pytest.mark.parametrize(
    "rewards, mask, gamma, to_go",
    [
        # 4; 2 + 0.5 * 4 = 4; 1 + 0.5 * 4 = 3
        pytest.param([[1.0, 2.0, 4.0]], [[True] * 3], 0.5, [[3.0, 4.0, 4.0]], id="each-step-back-discounts-once-more"),
        pytest.param([[1.0, 2.0, 4.0]], [[True] * 3], 1.0, [[7.0, 6.0, 4.0]], id="gamma-1-sums-what-follows"),
        pytest.param([[1.0, 2.0, 4.0]], [[True] * 3], 0.0, [[1.0, 2.0, 4.0]], id="gamma-0-keeps-this-reward-only"),
        pytest.param(
            [[8.0, 0.0, 0.0]], [[True] * 3], 0.5, [[8.0, 0.0, 0.0]], id="nobody-earns-what-came-before-its-token"
        ),
        pytest.param([[0.0, 0.0, 8.0]], [[True] * 3], 0.5, [[2.0, 4.0, 8.0]], id="the-score-at-the-end-reaches-all"),
        pytest.param(
            [[-4.0, 0.0, -8.0, 1.0]], [[True] * 4], 0.5, [[-5.875, -3.75, -7.5, 1.0]], id="rewards-may-be-negative"
        ),
        pytest.param([[1.0, 4.0, NAN]], [[True, True, False]], 0.5, [[3.0, 4.0, 0.0]], id="padding-holds-nan"),
        pytest.param([[1.0, 4.0, 9.0]], [[True, True, False]], 0.5, [[3.0, 4.0, 0.0]], id="padding-holds-numbers"),
        # The tool's token is as if it were not there: 4; 1 + 0.5 * 4
        pytest.param([[1.0, NAN, 4.0]], [[True, False, True]], 0.5, [[3.0, 0.0, 4.0]], id="gap-is-skipped"),
        pytest.param(
            [[1.0, 9.0, 7.0, 4.0]],
            [[True, False, False, True]],
            0.5,
            [[3.0, 0.0, 0.0, 4.0]],
            id="gap-of-numbers-is-skipped-not-decayed-through",
        ),
        pytest.param([[9.0, 1.0, 4.0]], [[False, True, True]], 0.5, [[0.0, 3.0, 4.0]], id="gap-at-the-start"),
        pytest.param([[3.0, NAN]], [[True, False]], 0.5, [[3.0, 0.0]], id="one-token"),
        pytest.param([[3.0]], [[True]], 0.5, [[3.0]], id="one-column"),
        pytest.param(
            [[NAN, NAN], [3.0, NAN]],
            [[False, False], [True, False]],
            0.5,
            [[0.0, 0.0], [3.0, 0.0]],
            id="an-empty-row-is-zero",
        ),
    ],
)
@worth(3)
def test_rewards_to_go_by_hand(rewards, mask, gamma, to_go):
    call(rewards_to_go, rewards, mask, gamma).equals(to_go)


def test_rewards_to_go_keeps_rows_apart():
    # Fewer rows than tokens; the rows end at different places.
    answer = call(
        rewards_to_go,
        [[1.0, 2.0, 4.0, 8.0], [3.0, 4.0, NAN, NAN]],
        [[True, True, True, True], [True, True, False, False]],
        0.5,
    )
    answer.equals([[4.0, 6.0, 8.0, 8.0], [5.0, 4.0, 0.0, 0.0]])


def test_rewards_to_go_gradient():
    # Tokens a, b, c: G_a + G_b + G_c = a + (1 + 1/2) b + (1 + 1/2 + 1/4) c
    answer = call(
        rewards_to_go,
        [[1.0, NAN, 2.0, 4.0, NAN]],
        [[True, False, True, True, False]],
        0.5,
        grad_of="rewards",
    )
    answer.equals([[3.0, 0.0, 4.0, 4.0, 0.0]]).gradient_equals(rewards=[[1.0, 0.0, 1.5, 1.75, 0.0]])


# baseline[i] = mean of the other scores of its own row
@pytest.mark.parametrize(
    "scores, baseline",
    [
        # (2 + 6) / 2, (1 + 6) / 2, (1 + 2) / 2
        pytest.param([[1.0, 2.0, 6.0]], [[4.0, 3.5, 1.5]], id="the-mean-of-the-two-others"),
        pytest.param([[1.0, 5.0]], [[5.0, 1.0]], id="of-two-each-is-the-baseline-of-the-other"),
        # 18 - score, by 3
        pytest.param([[0.0, 3.0, 6.0, 9.0]], [[6.0, 5.0, 4.0, 3.0]], id="divided-by-k-minus-1"),
        pytest.param([[2.0, 2.0, 2.0]], [[2.0, 2.0, 2.0]], id="equal-scores-are-their-own-baseline"),
        pytest.param([[-3.0, 0.0, 1.0]], [[0.5, -1.0, -1.5]], id="scores-may-be-negative"),
        pytest.param(
            [[1.0, 2.0, 6.0], [10.0, 20.0, 60.0], [0.0, 0.0, 2.0], [4.0, 2.0, 0.0]],
            [[4.0, 3.5, 1.5], [40.0, 35.0, 15.0], [1.0, 1.0, 0.0], [1.0, 2.0, 3.0]],
            id="each-prompt-has-its-own-responses",
        ),
        pytest.param([[1.0, 5.0], [2.0, 20.0]], [[5.0, 1.0], [20.0, 2.0]], id="as-many-prompts-as-responses"),
    ],
)
@worth(3)
def test_leave_one_out_baseline_by_hand(scores, baseline):
    call(leave_one_out_baseline, scores).equals(baseline)


@pytest.mark.parametrize(
    "weights, gradient",
    [
        pytest.param([[1.0, 0.0, 0.0]], [[0.0, 0.5, 0.5]], id="the-first-looks-at-the-second-and-third"),
        pytest.param([[0.0, 1.0, 0.0]], [[0.5, 0.0, 0.5]], id="the-second-looks-at-the-first-and-third"),
        pytest.param([[0.0, 0.0, 1.0]], [[0.5, 0.5, 0.0]], id="the-third-looks-at-the-first-and-second"),
    ],
)
def test_leave_one_out_baseline_gradient(weights, gradient):
    # d baseline[i] / d scores[i] = 0: that is the whole point.
    weights = torch.tensor(weights, dtype=torch.float64)
    answer = call(leave_one_out_baseline, [[1.0, 2.0, 6.0]], grad_of="scores", grad_weights=weights)
    answer.equals([[4.0, 3.5, 1.5]]).gradient_equals(scores=gradient)


# loss = -(sum of weights * log_probs over the real tokens) / (their number); slope = -weights / (their number)
@pytest.mark.parametrize(
    "log_probs, weights, mask, loss, slope",
    [
        pytest.param([[-2.0]], [[3.0]], [[True]], 6.0, [[-3.0]], id="descending-makes-a-good-token-more-likely"),
        pytest.param([[-2.0]], [[-3.0]], [[True]], -6.0, [[3.0]], id="and-a-bad-token-less-likely"),
        # (3 - 1) / 2
        pytest.param(
            [[-1.0, -2.0]], [[3.0, -0.5]], [[True, True]], 1.0, [[-1.5, 0.25]], id="each-token-has-its-own-weight"
        ),
        pytest.param([[-1.0, -2.0]], [[0.0, 4.0]], [[True, True]], 4.0, [[0.0, -2.0]], id="weight-0-still-counts"),
        pytest.param(
            [[-1.0, -2.0]], [[5.0, 5.0]], [[True, True]], 7.5, [[-2.5, -2.5]], id="nothing-is-centred-or-scaled"
        ),
        # (3 + 12 + 36) / 3 = 17: each token counts once, wherever it stands
        pytest.param(
            [[-1.0, -2.0], [-4.0, NAN]],
            [[3.0, 6.0], [9.0, NAN]],
            [[True, True], [True, False]],
            17.0,
            [[-1.0, -2.0], [-3.0, 0.0]],
            id="mean-over-tokens-not-over-rows",
        ),
        pytest.param(
            [[-1.0, -2.0], [-4.0, -7.0]],
            [[3.0, 6.0], [9.0, 8.0]],
            [[True, True], [True, False]],
            17.0,
            [[-1.0, -2.0], [-3.0, 0.0]],
            id="padding-holds-numbers",
        ),
        pytest.param(
            [[-1.0, -math.inf, -2.0]],
            [[2.0, 5.0, 4.0]],
            [[True, False, True]],
            5.0,
            [[-1.0, 0.0, -2.0]],
            id="gap-holds-minus-infinity",
        ),
        pytest.param(
            [[NAN, -1.0], [NAN, NAN]],
            [[NAN, 2.0], [NAN, NAN]],
            [[False, True], [False, False]],
            2.0,
            [[0.0, -2.0], [0.0, 0.0]],
            id="an-empty-row-counts-nothing",
        ),
    ],
)
@worth(3)
def test_reinforce_loss_by_hand(log_probs, weights, mask, loss, slope):
    answer = call(reinforce_loss, log_probs, weights, mask, grad_of=("log_probs", "weights"))
    answer.equals(loss).gradient_equals(log_probs=slope, weights=None)


def test_reinforce_loss_lets_no_nan_into_the_gradient():
    # Only the weight is NaN under the mask: 0 * NaN in the backward pass, unless it is filled before the product.
    answer = call(reinforce_loss, [[-1.0, -2.0]], [[3.0, NAN]], [[True, False]], grad_of=("log_probs", "weights"))
    answer.equals(3.0).gradient_equals(log_probs=[[-3.0, 0.0]], weights=None)
