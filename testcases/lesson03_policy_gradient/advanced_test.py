"""Lesson 3, made safe, and in general: identities."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    named,
    reference,
    scenario,
    value_and_gradients,
)
from tutorial.lesson03_policy_gradient import leave_one_out_baseline, reinforce_loss, rewards_to_go
from tutorial.lesson04_gae import compute_response_gae

NAN = math.nan
GARBAGE = pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf, 1e30], ids=str)


def ragged() -> Tensor:
    """Rows of 5, 3, 1 and 4 real tokens among 5 or 6; the last has a gap."""
    return torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [1, 0, 0, 1, 1, 1]]).bool()


def slow_rewards_to_go(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """The definition, in plain Python: sum over the real tokens k from t on of gamma^(tokens between) rewards[k]."""
    to_go = torch.zeros_like(rewards)
    for row, real in enumerate(mask):
        kept = rewards[row, real].tolist()
        sums = [sum(gamma ** (k - t) * kept[k] for k in range(t, len(kept))) for t in range(len(kept))]
        to_go[row, real] = torch.tensor(sums, dtype=rewards.dtype)
    return to_go


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.95, 0.9995, 1.0])
def test_rewards_to_go_of_a_row_is_that_of_its_real_tokens(gamma):
    rewards, mask = normal(4, 6), ragged()
    rewards[0, 0] = -1e17  # It is past when the next ones come: no digit of theirs may be lost.
    assert_equal(rewards_to_go(rewards, mask, gamma), slow_rewards_to_go(rewards, mask, gamma))


@GARBAGE
def test_rewards_to_go_lets_nothing_in_from_the_padding(garbage):
    mask, weights = ragged(), normal(4, 6, seed=2)
    rewards = normal(4, 6).masked_fill(~mask, garbage)
    answer, _ = value_and_gradients(rewards_to_go, rewards, mask, 0.8, wrt="rewards", weights=weights)
    assert_equals_reference(answer)


@pytest.mark.parametrize("extra", [1, 3])
def test_rewards_to_go_does_not_depend_on_the_padding(extra):
    rewards, mask = normal(4, 6), ragged()
    expected = torch.cat([slow_rewards_to_go(rewards, mask, 0.8), torch.zeros(4, extra, dtype=torch.float64)], dim=1)
    rewards = torch.cat([rewards, 7 * normal(4, extra, seed=5)], dim=1)
    mask = torch.cat([mask, torch.zeros(4, extra, dtype=torch.bool)], dim=1)
    assert_equal(rewards_to_go(rewards, mask, 0.8), expected)


@pytest.mark.parametrize("gamma", [0.7, 1.0])
def test_rewards_to_go_is_what_a_critic_of_zero_leaves_of_gae(gamma):
    rewards, mask = normal(4, 6), ragged()
    advantages, _ = reference(compute_response_gae, rewards, torch.zeros_like(rewards), mask, gamma, 1.0)
    assert_equal(rewards_to_go(rewards, mask, gamma), advantages)


@pytest.mark.parametrize("shape", [(3, 5), (4, 4), (1, 7), (6, 2)], ids=str)
def test_leave_one_out_baseline_leaves_each_one_out(shape):
    scores = normal(*shape)
    others = [torch.cat([scores[:, :i], scores[:, i + 1 :]], dim=1).mean(dim=1) for i in range(shape[1])]
    assert_equal(leave_one_out_baseline(scores), torch.stack(others, dim=1))


@pytest.mark.parametrize("responses", [2, 3, 8])
def test_leave_one_out_baseline_undoes_the_shrinking(responses):
    # scores - baseline = K / (K - 1) * (scores - mean of all K)
    scores = normal(3, responses)
    advantages = (scores - scores.mean(dim=1, keepdim=True)) * responses / (responses - 1)
    assert_equal(leave_one_out_baseline(scores), scores - advantages)


def test_leave_one_out_baseline_does_not_depend_on_its_own_score():
    for i in range(4):
        weights = torch.zeros(2, 4, dtype=torch.float64)
        weights[:, i] = 3
        slope = torch.ones(2, 4, dtype=torch.float64)
        slope[:, i] = 0
        answer, grads = value_and_gradients(leave_one_out_baseline, normal(2, 4), wrt="scores", weights=weights)
        assert_equal(grads, scores=slope)


def test_reinforce_loss_is_the_mean_over_tokens():
    log_probs, weights, mask = normal(4, 6) - 2, normal(4, 6, seed=2) + 1, ragged()
    products = [log_probs[i, t] * weights[i, t] for i in range(4) for t in range(6) if mask[i, t]]
    expected = -torch.stack(products).sum() / len(products)
    slope = torch.where(mask, -weights / len(products), 0.0)
    answer, grads = value_and_gradients(reinforce_loss, log_probs, weights, mask, wrt=("log_probs", "weights"))
    assert_equal(answer, expected)
    assert_equal(grads, log_probs=slope, weights=None)


@GARBAGE
def test_reinforce_loss_lets_nothing_in_from_the_padding(garbage):
    mask = ragged()
    log_probs, weights = normal(4, 6) - 2, normal(4, 6, seed=2)
    filled, other = log_probs.masked_fill(~mask, garbage), weights.masked_fill(~mask, garbage)
    for pair in ((filled, weights), (log_probs, other), (filled, other)):
        answer, _ = value_and_gradients(reinforce_loss, *pair, mask, wrt=("log_probs", "weights"))
        assert_equals_reference(answer)


def test_rewards_to_go_shows_a_nan_of_a_real_token():
    # What stands after it may be NaN as well: who multiplies by a matrix of weights meets 0 * NaN there.
    answer = rewards_to_go([[1.0, math.nan, 2.0, 5.0]], [[True, True, True, False]], 0.5)
    assert bool(answer[0, :2].isnan().all()), "NaN at the broken token and at the one before"


def test_rewards_to_go_counts_every_token_of_a_long_response():
    # A reward of 1 for each of 130 tokens: as many as are left.
    answer = rewards_to_go([[1.0] * 130], [[True] * 130], 1.0)
    assert_equal(answer, [[float(130 - t) for t in range(130)]])


def test_leave_one_out_baseline_shows_a_nan_of_another_response():
    # Whether the broken score's own baseline is NaN depends on whether it is added and taken off again.
    answer = leave_one_out_baseline([[1.0, math.nan, 4.0], [1.0, 2.0, 3.0]])
    assert bool(answer[0, ::2].isnan().all()) and answer[1].tolist() == [2.5, 2.0, 1.5], (
        "NaN for both others of the broken score's group, and [2.5, 2, 1.5] for the other group"
    )


@pytest.mark.parametrize("broken", ["log_probs", "weights"])
def test_reinforce_loss_shows_a_nan_of_a_real_token(broken):
    terms = {"log_probs": [[-1.0, -2.0]], "weights": [[1.0, 3.0]], "mask": [[True, True]]}
    assert_equal(reinforce_loss(**{**terms, broken: [[-1.0, math.nan]]}), math.nan, equal_nan=True)


def test_reinforce_loss_of_a_very_unlikely_token():
    answer, grads = value_and_gradients(reinforce_loss, [[-200.0, -2.0]], [[1.5, 3.0]], [[True, True]], wrt="log_probs")
    assert_equal(answer, 153.0)
    assert_equal(grads, log_probs=[[-0.75, -1.5]])


@named(
    "rewards, gamma",
    {"where-gamma-is-0": ([[1.0, 2.0, 4.0]], 0.0), "where-each-row-has-one-token": ([[1.0], [2.0]], 0.5)},
)
def test_rewards_to_go_gives_a_new_tensor(rewards, gamma):
    through = scenario("calls.after_the_answer_is_overwritten", of=rewards_to_go)
    mask = [[True for _ in row] for row in rewards]
    given = {"rewards": rewards, "mask": mask, "gamma": gamma}
    assert_equal(through(exercise="rewards_to_go", argument="rewards", **given), rewards)


def test_reinforce_loss_lets_no_nan_into_the_gradient():
    # Only the weight is NaN under the mask: 0 * NaN in the backward pass, unless it is filled before the product.
    answer, grads = value_and_gradients(
        reinforce_loss, [[-1.0, -2.0]], [[3.0, NAN]], [[True, False]], wrt=("log_probs", "weights")
    )
    assert_equal(answer, 3.0)
    assert_equal(grads, log_probs=[[-3.0, 0.0]], weights=None)


@named(
    "rewards, mask, gamma, to_go",
    {
        # from the end: 4; 1 + 0.5 * 4 = 3
        "padding-holds-nan": ([[1.0, 4.0, NAN]], [[True, True, False]], 0.5, [[3.0, 4.0, 0.0]]),
        # The tool's token is as if it were not there: 4; 1 + 0.5 * 4
        "gap-is-skipped": ([[1.0, NAN, 4.0]], [[True, False, True]], 0.5, [[3.0, 0.0, 4.0]]),
        # from the end: 4; 1 + 0.5 * 4 = 3
        "gap-of-numbers-is-skipped-not-decayed-through": (
            [[1.0, 9.0, 7.0, 4.0]],
            [[True, False, False, True]],
            0.5,
            [[3.0, 0.0, 0.0, 4.0]],
        ),
        # from the end: 4; 1 + 0.5 * 4 = 3
        "gap-at-the-start": ([[9.0, 1.0, 4.0]], [[False, True, True]], 0.5, [[0.0, 3.0, 4.0]]),
        # from the end: 3
        "one-token": ([[3.0, NAN]], [[True, False]], 0.5, [[3.0, 0.0]]),
        # from the end: no token: 0 | 3
        "an-empty-row-is-zero": (
            [[NAN, NAN], [3.0, NAN]],
            [[False, False], [True, False]],
            0.5,
            [[0.0, 0.0], [3.0, 0.0]],
        ),
    },
)
def test_rewards_to_go_with_gaps_and_nan(rewards, mask, gamma, to_go):
    assert_equal(rewards_to_go(rewards, mask, gamma), to_go)


@named(
    "log_probs, weights, mask, loss, slope",
    {
        # (3 + 12 + 36) / 3 = 17: each token counts once, wherever it stands
        "mean-over-tokens-not-over-rows": (
            [[-1.0, -2.0], [-4.0, NAN]],
            [[3.0, 6.0], [9.0, NAN]],
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
def test_reinforce_loss_with_gaps_and_nan(log_probs, weights, mask, loss, slope):
    answer, grads = value_and_gradients(reinforce_loss, log_probs, weights, mask, wrt=("log_probs", "weights"))
    assert_equal(answer, loss)
    assert_equal(grads, log_probs=slope, weights=None)
