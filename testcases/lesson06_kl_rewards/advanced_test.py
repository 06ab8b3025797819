"""Lesson 6, made safe, and in general: identities."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import assert_equal, assert_equals_reference, named, scenario, value_and_gradients
from tutorial.lesson06_kl_rewards import (
    AdaptiveKLController,
    compute_rewards,
    estimate_kl,
    nonnegative_kl,
    penalize_missing_stop,
)

NAN = math.nan
EACH = pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])


def log_probs_of(*shape: int, seed: int = 1) -> Tensor:
    return -normal(*shape, seed=seed).abs() - 0.2


def ragged() -> Tensor:
    """Rows of 5, 3, 1 and 4 real tokens among 5 or 6; the last has a gap."""
    return torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [1, 0, 0, 1, 1, 1]]).bool()


@EACH
def test_estimate_kl_of_two_dtypes(estimator):
    pair = log_probs_of(2, 5).float(), log_probs_of(2, 5, seed=2).bfloat16()
    assert_equals_reference(estimate_kl(*pair, estimator))
    assert_equals_reference(estimate_kl(*reversed(pair), estimator))


@EACH
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -1e30], ids=str)
def test_compute_rewards_lets_nothing_in_from_the_padding(estimator, garbage):
    scores, mask = normal(4), ragged()
    pair = [log_probs_of(4, 6, seed=seed).masked_fill(~mask, garbage) for seed in (1, 2)]
    for log_probs, ref_log_probs in (pair, (pair[0], log_probs_of(4, 6)), (log_probs_of(4, 6), pair[1])):
        assert_equals_reference(compute_rewards(scores, log_probs, ref_log_probs, mask, 0.3, 2.0, estimator))


def test_compute_rewards_of_half_precision_models_is_float32():
    # r = 1.5 and -0.5: exact in bfloat16
    pair = torch.tensor([[-1.0, -2.0]]).bfloat16(), torch.tensor([[-2.5, -1.5]]).bfloat16()
    answer = compute_rewards(torch.tensor([1.0]), *pair, [[True, True]], 0.5, 2.0)
    assert_equal(answer, torch.tensor([[-0.75, 1.25]]))


# Coefficients 2 * 1.0625 and that * 0.9375, as for a target of 4 nats
@pytest.mark.parametrize("unit", [0.5, 4.0])
@pytest.mark.points(2)
def test_update_does_not_depend_on_the_unit_of_the_kl(unit):
    seen, update = (4.5 * unit, 3.5 * unit), scenario("coefficients", of=AdaptiveKLController.update)
    answer = update(kl_coef=2.0, target_kl=4 * unit, horizon=64, seen=seen, n_steps=(32, 32))
    assert_equal(answer, {"update 1": 2.125, "update 2": 1.9921875})


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
@pytest.mark.points(3)
def test_estimate_kl_subtracts_in_float32(dtype):
    # -1 - step and -step / 2: the difference, -1 - step / 2, has one digit more than the dtype holds.
    step = torch.finfo(dtype).eps
    log_probs, ref_log_probs = torch.tensor([-1 - step], dtype=dtype), torch.tensor([-step / 2], dtype=dtype)
    assert_equal(estimate_kl(log_probs, ref_log_probs, "k1"), torch.tensor([-1 - step / 2]))
    assert_equal(estimate_kl(log_probs, ref_log_probs, "k2"), torch.tensor([(1 + step / 2) ** 2 / 2]))


@named("last, penalty", {"where-every-response-has-stopped": (2, 1.5), "where-the-penalty-is-0": (7, 0.0)})
def test_penalize_missing_stop_gives_a_new_tensor(last, penalty):
    through = scenario("calls.after_the_answer_is_overwritten", of=penalize_missing_stop)
    given = {"scores": [4.0, 3.0], "responses": [[5, 2], [5, last]], "stop_token_ids": (2,), "penalty": penalty}
    assert_equal(through(exercise="penalize_missing_stop", argument="scores", **given), [4.0, 3.0])


# r = log_probs - ref_log_probs; kl_coef 0.5, clip_score 2
@named(
    "r, mask, rewards",
    {
        "padding-holds-nan": ([1.0, -2.0, NAN], [True, True, False], [-0.5, 2.0, 0.0]),
        "the-last-token-behind-a-gap": ([1.0, -6.0, -2.0], [True, False, True], [-0.5, 0.0, 2.0]),
        "one-token-has-both": ([1.0, NAN, NAN], [True, False, False], [0.5, 0.0, 0.0]),
    },
)
@pytest.mark.points(2)
def test_compute_rewards_with_gaps_and_nan(r, mask, rewards):
    # In a second row with r = 2 everywhere: -1, -1 and, with the score 7 clipped to 2, 1.
    log_probs = [[number - 9 for number in r], [-7.0] * 3]
    ref_log_probs = [[NAN if math.isnan(number) else -9.0 for number in r], [-9.0] * 3]
    answer = compute_rewards([1.0, 7.0], log_probs, ref_log_probs, [mask, [True] * 3], 0.5, 2.0)
    assert_equal(answer, [rewards, [-1.0, -1.0, 1.0]])
