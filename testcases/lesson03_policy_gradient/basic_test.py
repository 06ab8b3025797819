"""Lesson 3, by hand: two to four tokens, gamma = 0.5, every number worked out in a comment or by eye."""

import math

import torch

from testcases.harness import call, cited_cases, named_cases, scenario, worth
from tutorial.lesson03_policy_gradient import leave_one_out_baseline, reinforce_loss, rewards_to_go

NAN = math.nan


# G[t] = rewards[t] + gamma * G[t + 1] over the real tokens. Under a False mask: NaN, or a number that is no reward.
@cited_cases(
    "rewards_to_go",
    "rewards, mask, gamma, to_go",
    "plain-01 plain-02 plain-03 plain-04 plain-05 plain-06 nan-01 padding-01 gap-01 gap-02 gap-03 nan-02 one-step-01 "
    "empty-row-01",
)
@worth(3)
def test_rewards_to_go_by_hand(rewards, mask, gamma, to_go):
    call(rewards_to_go, rewards, mask, gamma).equals(to_go)


# Fewer rows than tokens; the rows end at different places.
@cited_cases("rewards_to_go", "rewards, mask, gamma, to_go", "nan-03")
def test_rewards_to_go_keeps_rows_apart(rewards, mask, gamma, to_go):
    call(rewards_to_go, rewards, mask, gamma).equals(to_go)


@named_cases(
    "rewards, gamma",
    {"where-gamma-is-0": ([[1.0, 2.0, 4.0]], 0.0), "where-each-row-has-one-token": ([[1.0], [2.0]], 0.5)},
)
def test_rewards_to_go_gives_a_new_tensor(rewards, gamma):
    through = scenario("calls.after_the_answer_is_overwritten", of=rewards_to_go)
    mask = [[True for _ in row] for row in rewards]
    given = {"rewards": rewards, "mask": mask, "gamma": gamma}
    call(through, exercise="rewards_to_go", argument="rewards", **given).equals(rewards)


def test_rewards_to_go_gradient():
    # Tokens a, b, c: G_a + G_b + G_c = a + (1 + 1/2) b + (1 + 1/2 + 1/4) c
    answer = call(
        rewards_to_go, [[1.0, NAN, 2.0, 4.0, NAN]], [[True, False, True, True, False]], 0.5, grad_of="rewards"
    )
    answer.equals([[3.0, 0.0, 4.0, 4.0, 0.0]]).gradient_equals(rewards=[[1.0, 0.0, 1.5, 1.75, 0.0]])


# baseline[i] = mean of the other scores of its own row
@cited_cases("leave_one_out", "scores, baseline", "plain-01 plain-02 plain-03 plain-04 plain-05 plain-06 plain-07")
@worth(3)
def test_leave_one_out_baseline_by_hand(scores, baseline):
    call(leave_one_out_baseline, scores).equals(baseline)


@named_cases(
    "weights, gradient",
    {
        "the-first-looks-at-the-second-and-third": ([[1.0, 0.0, 0.0]], [[0.0, 0.5, 0.5]]),
        "the-second-looks-at-the-first-and-third": ([[0.0, 1.0, 0.0]], [[0.5, 0.0, 0.5]]),
        "the-third-looks-at-the-first-and-second": ([[0.0, 0.0, 1.0]], [[0.5, 0.5, 0.0]]),
    },
)
def test_leave_one_out_baseline_gradient(weights, gradient):
    # d baseline[i] / d scores[i] = 0: that is the whole point.
    weights = torch.tensor(weights, dtype=torch.float64)
    answer = call(leave_one_out_baseline, [[1.0, 2.0, 6.0]], grad_of="scores", grad_weights=weights)
    answer.equals([[4.0, 3.5, 1.5]]).gradient_equals(scores=gradient)


# loss = -(sum of weights * log_probs over the real tokens) / (their number); slope = -weights / (their number)
@named_cases(
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
            [[-1.0, -2.0], [-4.0, NAN]],
            [[3.0, 6.0], [9.0, NAN]],
            [[True, True], [True, False]],
            17.0,
            [[-1.0, -2.0], [-3.0, 0.0]],
        ),
        "padding-holds-numbers": (
            [[-1.0, -2.0], [-4.0, -7.0]],
            [[3.0, 6.0], [9.0, 8.0]],
            [[True, True], [True, False]],
            17.0,
            [[-1.0, -2.0], [-3.0, 0.0]],
        ),
        "gap-holds-minus-infinity": (
            [[-1.0, -math.inf, -2.0]],
            [[2.0, 5.0, 4.0]],
            [[True, False, True]],
            5.0,
            [[-1.0, 0.0, -2.0]],
        ),
        "an-empty-row-counts-nothing": (
            [[NAN, -1.0], [NAN, NAN]],
            [[NAN, 2.0], [NAN, NAN]],
            [[False, True], [False, False]],
            2.0,
            [[0.0, -2.0], [0.0, 0.0]],
        ),
    },
)
@worth(3)
def test_reinforce_loss_by_hand(log_probs, weights, mask, loss, slope):
    answer = call(reinforce_loss, log_probs, weights, mask, grad_of=("log_probs", "weights"))
    answer.equals(loss).gradient_equals(log_probs=slope, weights=None)


def test_reinforce_loss_lets_no_nan_into_the_gradient():
    # Only the weight is NaN under the mask: 0 * NaN in the backward pass, unless it is filled before the product.
    answer = call(reinforce_loss, [[-1.0, -2.0]], [[3.0, NAN]], [[True, False]], grad_of=("log_probs", "weights"))
    answer.equals(3.0).gradient_equals(log_probs=[[-3.0, 0.0]], weights=None)
