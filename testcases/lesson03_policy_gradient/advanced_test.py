"""Lesson 3, made safe, and in general: identities."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import assert_equal, gradients, named, reference, value_and_gradients
from tutorial.lesson03_policy_gradient import leave_one_out_baseline, reinforce_loss, rewards_to_go
from tutorial.lesson04_gae import compute_response_gae

NAN, INF = math.nan, math.inf


def ragged() -> Tensor:
    """Rows of 5, 3, 1 and 4 real tokens among 5 or 6; the last has a gap."""
    return torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [1, 0, 0, 1, 1, 1]]).bool()


@pytest.mark.parametrize("gamma", [0.7, 1.0])
def test_rewards_to_go_is_what_a_critic_of_zero_leaves_of_gae(gamma):
    rewards, mask = normal(4, 6), ragged()
    advantages, _ = reference(compute_response_gae, rewards, torch.zeros_like(rewards), mask, gamma, 1.0)
    assert_equal(rewards_to_go(rewards, mask, gamma), advantages)


@pytest.mark.parametrize("responses", [2, 8])
def test_leave_one_out_baseline_undoes_the_shrinking(responses):
    # scores - baseline = K / (K - 1) * (scores - mean of all K)
    scores = normal(3, responses)
    advantages = (scores - scores.mean(dim=1, keepdim=True)) * responses / (responses - 1)
    assert_equal(leave_one_out_baseline(scores), scores - advantages)


# gamma 0.5: from the end 4; 1 + 0.5 * 4 = 3. A tool's token is as if it were not there.
@named(
    "rewards, mask, to_go",
    {
        "padding-holds-nan": ([1.0, 4.0, NAN], [True, True, False], [3.0, 4.0, 0.0]),
        "gap-is-skipped": ([1.0, NAN, 4.0], [True, False, True], [3.0, 0.0, 4.0]),
        "gap-of-numbers-is-not-decayed-through": ([1.0, 9.0, 4.0], [True, False, True], [3.0, 0.0, 4.0]),
        "gap-at-the-start": ([9.0, 1.0, 4.0], [False, True, True], [0.0, 3.0, 4.0]),
    },
)
@pytest.mark.points(4)
def test_rewards_to_go_with_gaps_and_nan(rewards, mask, to_go):
    # Below it stands a row without a real token, which is 0.
    answer = rewards_to_go([rewards, [NAN] * 3], [mask, [False] * 3], 0.5)
    assert_equal(answer, [to_go, [0.0] * 3])


@named(
    "log_probs, weights, mask, loss, slope",
    {
        # Only the weight is NaN under the mask: 0 * NaN in the backward pass, unless it is filled before the product.
        "padding-holds-nan": ([-1.0, -2.0], [3.0, NAN], [True, False], 3.0, [-3.0, 0.0]),
        "gap-holds-minus-infinity": ([-1.0, -INF, -2.0], [2.0, 5.0, 4.0], [True, False, True], 5.0, [-1.0, 0.0, -2.0]),
    },
)
@pytest.mark.points(3)
def test_reinforce_loss_with_gaps_and_nan(log_probs, weights, mask, loss, slope):
    # Below it stands a row without a real token, which counts nothing.
    steps = len(mask)
    args = [log_probs, [NAN] * steps], [weights, [NAN] * steps], [mask, [False] * steps]
    answer, grads = value_and_gradients(reinforce_loss, *args, wrt=("log_probs", "weights"))
    assert_equal(answer, loss)
    assert_equal(grads, log_probs=[slope, [0.0] * steps], weights=None)


def test_leave_one_out_baseline_gradient():
    # Of the first baseline. d baseline[i] / d scores[i] = 0: that is the whole point.
    weights = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    grads = gradients(leave_one_out_baseline, [[1.0, 2.0, 6.0]], wrt="scores", weights=weights)
    assert_equal(grads, scores=[[0.0, 0.5, 0.5]])
