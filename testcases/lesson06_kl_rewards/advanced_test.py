"""Lesson 6, made safe: gaps, NaN, few digits and large numbers."""

import math

import pytest
import torch

from testcases.harness.suite.asserts import assert_equal, named, scenario, value_and_gradients
from tutorial.lesson06_kl_rewards import compute_rewards, estimate_kl, nonnegative_kl, penalize_missing_stop

NAN = math.nan


@pytest.mark.points(2)
def test_penalize_missing_stop_shows_a_nan():
    assert_equal(penalize_missing_stop([math.nan, 4.0], [[5, 2], [5, 6]], (2,), 1.5), [math.nan, 2.5], equal_nan=True)


def test_nonnegative_kl_keeps_its_digits():
    # r = 2^-13: r^2 / 2 = 2^-27, but for 3e-13
    pair = {"log_probs": torch.tensor([0.0]), "ref_log_probs": torch.tensor([-(2.0**-13)])}
    assert_equal(scenario("kl_in_units", of=nonnegative_kl)(**pair, unit=2.0**-27), torch.tensor([1.0]))
    # -1 - step and -step / 2 in bfloat16: the difference, -1 - step / 2, has one digit more than that holds.
    step = torch.finfo(torch.bfloat16).eps
    pair = {"log_probs": torch.tensor([-1 - step]).bfloat16(), "ref_log_probs": torch.tensor([-step / 2]).bfloat16()}
    assert_equal(nonnegative_kl(**pair), torch.tensor([math.expm1(1 + step / 2) - 1 - step / 2]))


# exp(200) is infinite in float32. Capped at 20: exp(20) - 1 - 200; the slope is that of r alone.
FLOATS = named("dtype", {"float32": torch.float32, "float64": torch.float64})


@FLOATS
def test_nonnegative_kl_does_not_overflow(dtype):
    pair = torch.tensor([-201.0], dtype=dtype), torch.tensor([-1.0], dtype=dtype)
    answer, grads = value_and_gradients(nonnegative_kl, *pair, wrt="log_probs")
    assert_equal(answer, torch.tensor([math.expm1(20) - 200], dtype=dtype))
    assert_equal(grads, log_probs=torch.tensor([1.0], dtype=dtype))


@named("dtype", {"bfloat16": torch.bfloat16, "float16": torch.float16})
@pytest.mark.points(4)
def test_estimate_kl_subtracts_in_float32(dtype):
    # -1 - step and -step / 2: the difference, -1 - step / 2, has one digit more than the dtype holds.
    step = torch.finfo(dtype).eps
    log_probs, ref_log_probs = torch.tensor([-1 - step], dtype=dtype), torch.tensor([-step / 2], dtype=dtype)
    assert_equal(estimate_kl(log_probs, ref_log_probs, "k1"), torch.tensor([-1 - step / 2]))
    assert_equal(estimate_kl(log_probs, ref_log_probs, "k2"), torch.tensor([(1 + step / 2) ** 2 / 2]))


# r = log_probs - ref_log_probs; kl_coef 0.5, clip_score 2
@named(
    "r, mask, rewards",
    {
        "padding-holds-nan": ([1.0, -2.0, NAN], [True, True, False], [-0.5, 2.0, 0.0]),
        "the-last-token-behind-a-gap": ([1.0, -6.0, -2.0], [True, False, True], [-0.5, 0.0, 2.0]),
        "one-token-has-both": ([1.0, NAN, NAN], [True, False, False], [0.5, 0.0, 0.0]),
    },
)
@pytest.mark.points(4)
def test_compute_rewards_with_gaps_and_nan(r, mask, rewards):
    # In a second row with r = 2 everywhere: -1, -1 and, with the score 7 clipped to 2, 1.
    log_probs = [[number - 9 for number in r], [-7.0] * 3]
    ref_log_probs = [[NAN if math.isnan(number) else -9.0 for number in r], [-9.0] * 3]
    answer = compute_rewards([1.0, 7.0], log_probs, ref_log_probs, [mask, [True] * 3], 0.5, 2.0)
    assert_equal(answer, [rewards, [-1.0, -1.0, 1.0]])
