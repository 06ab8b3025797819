"""Lesson 5, made safe, and in general: identities."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    assert_no_gradient,
    named,
    reference,
    value_and_gradients,
)
from tutorial.lesson05_ppo_loss import (
    clipped_objective,
    combine_losses,
    compute_kl_penalty_loss,
    compute_ppo_loss,
    compute_value_loss,
    ppo_statistics,
    update_beta,
)

NAN = math.nan
EVERY = ("log_probs", "old_log_probs", "advantages")
VALUES = ("values", "old_values", "returns")


def policy_terms(*shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ratios between about 1/4 and 4."""
    old_log_probs = normal(*shape, seed=2) - 3
    return old_log_probs + 0.7 * normal(*shape, seed=3), old_log_probs, normal(*shape, seed=4)


def critic_terms(*shape: int) -> tuple[Tensor, Tensor, Tensor]:
    old_values = normal(*shape, seed=5) + 1
    return old_values + 0.6 * normal(*shape, seed=6), old_values, 2 * normal(*shape, seed=7)


def test_compute_ppo_loss_without_a_bound_is_the_importance_weighted_objective():
    log_probs, old_log_probs, advantages = policy_terms(3, 5)
    profit = torch.exp(log_probs - old_log_probs) * advantages
    answer, grads = value_and_gradients(compute_ppo_loss, log_probs, old_log_probs, advantages, 1e6, wrt="log_probs")
    assert_equal(answer, -profit.mean())
    assert_equal(grads, log_probs=-profit / 15)


@pytest.mark.points(2)
def test_compute_ppo_loss_on_policy_has_the_gradient_of_reinforce():
    _, old_log_probs, advantages = policy_terms(4, 4)
    terms = old_log_probs.clone(), old_log_probs, advantages
    answer, grads = value_and_gradients(compute_ppo_loss, *terms, 0.3, wrt=EVERY)
    assert_equal(answer, -advantages.mean())
    assert_equal(grads, log_probs=-advantages / 16, old_log_probs=None, advantages=None)


# Below -104 exp is 0 in float32, and below -746 in float64: no probability is left to divide by.
TAILS = pytest.mark.parametrize("dtype, level", [(torch.float32, -110.0), (torch.float64, -1000.0)], ids=str)


def in_the_tail(dtype: torch.dtype, level: float) -> tuple[list[Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Terms at this level, and at about -3, with the same ratios: multiples of 1/64 differ without rounding."""
    log_probs, old_log_probs, advantages = policy_terms(3, 5)
    log_probs, old_log_probs = (64 * log_probs).round() / 64, (64 * old_log_probs).round() / 64
    far = [log_probs + level, old_log_probs + level, advantages]
    return [term.to(dtype) for term in far], (log_probs, old_log_probs, advantages)


@TAILS
def test_compute_ppo_loss_in_the_tail(dtype, level):
    far, near = in_the_tail(dtype, level)
    answer, _ = value_and_gradients(compute_ppo_loss, *far, 0.3, wrt="log_probs")
    assert_equal(answer, reference(compute_ppo_loss, *near, 0.3), dtype=dtype, atol=1e-6)
    assert_equals_reference(answer)


@TAILS
def test_ppo_statistics_in_the_tail(dtype, level):
    far, near = in_the_tail(dtype, level)
    assert_equal(ppo_statistics(*far, 0.3), reference(ppo_statistics, *near, 0.3), atol=1e-6)


@TAILS
def test_compute_kl_penalty_loss_in_the_tail(dtype, level):
    far, near = in_the_tail(dtype, level)
    answer, _ = value_and_gradients(compute_kl_penalty_loss, *far, 1.7, wrt="log_probs")
    assert_equal(answer, reference(compute_kl_penalty_loss, *near, 1.7), dtype=dtype, atol=1e-6)
    assert_equals_reference(answer)


GARBAGE = named("garbage", {"nan": NAN, "infinite": math.inf, "huge": -1e30})
# 9 real tokens in rows of 4, 0, 3 and 2
MASK = torch.tensor([[1, 1, 1, 1, 0], [0, 0, 0, 0, 0], [1, 0, 1, 0, 1], [0, 1, 1, 0, 0]]).bool()


def padded(terms: tuple[Tensor, Tensor, Tensor], garbage: float) -> list[Tensor]:
    """One row of 9 tokens, distributed over the mask, with garbage between them."""
    spread = torch.full(MASK.shape, garbage, dtype=torch.float64)
    return [spread.masked_scatter(MASK, term) for term in terms]


@GARBAGE
def test_compute_ppo_loss_is_that_of_its_real_tokens(garbage):
    terms = policy_terms(9)
    answer, _ = value_and_gradients(compute_ppo_loss, *padded(terms, garbage), 0.3, MASK, wrt=EVERY)
    assert_equal(answer, reference(compute_ppo_loss, *terms, 0.3))
    assert_equals_reference(answer)


@GARBAGE
def test_compute_value_loss_is_that_of_its_real_tokens(garbage):
    terms = critic_terms(9)
    answer, _ = value_and_gradients(compute_value_loss, *padded(terms, garbage), 0.3, MASK, wrt=VALUES)
    assert_equal(answer, reference(compute_value_loss, *terms, 0.3))
    assert_equals_reference(answer)


@GARBAGE
def test_ppo_statistics_are_those_of_its_real_tokens(garbage):
    terms = policy_terms(9)
    answer = ppo_statistics(*padded(terms, garbage), 0.3, MASK)
    assert_equal(answer, reference(ppo_statistics, *terms, 0.3), atol=1e-7)


@GARBAGE
def test_compute_kl_penalty_loss_is_that_of_its_real_tokens(garbage):
    terms = policy_terms(9)
    answer, _ = value_and_gradients(compute_kl_penalty_loss, *padded(terms, garbage), 0.3, MASK, wrt=EVERY)
    assert_equal(answer, reference(compute_kl_penalty_loss, *terms, 0.3))
    assert_equals_reference(answer)


def test_clipped_objective_shows_a_nan():
    assert_equal(clipped_objective([NAN, 1.0, 2.0], [1.0, NAN, 1.0], 0.25), [NAN, NAN, 1.25], equal_nan=True)


@pytest.mark.parametrize("name", EVERY)
def test_compute_ppo_loss_shows_a_nan_of_a_real_token(name):
    # nan_to_num would make padding harmless, and hide a broken model as well: the trainer looks for the NaN.
    terms = {**dict.fromkeys(EVERY, [-1.0, -1.0]), name: [-1.0, NAN]}
    assert_equal(compute_ppo_loss(**terms, mask=[True, True]), NAN, equal_nan=True)


def test_compute_value_loss_without_a_bound_is_half_the_squared_error():
    values, old_values, returns = critic_terms(3, 5)
    answer, grads = value_and_gradients(compute_value_loss, values, old_values, returns, 1e6, wrt="values")
    assert_equal(answer, (values - returns).square().mean() / 2)
    assert_equal(grads, values=(values - returns) / 15)


def test_compute_value_loss_moves_with_its_origin():
    # Values, old values and returns shifted alike: the interval lies around the old value, not around 0.
    terms = critic_terms(3, 5)
    expected = reference(compute_value_loss, *terms, 0.25)
    assert_equal(compute_value_loss(*(term + 8 for term in terms), 0.25), expected)


@pytest.mark.parametrize("value_coef, entropy_coef", [(1.0, 0.0), (0.0, 1.0), (0.3, 0.7)])
def test_combine_losses_is_linear(value_coef, entropy_coef):
    policy_loss, value_loss, entropy = scalars = [normal(seed=seed) for seed in (1, 2, 3)]
    expected = policy_loss + value_coef * value_loss - entropy_coef * entropy
    assert_equal(combine_losses(*scalars, value_coef, entropy_coef), expected)


def test_ppo_statistics_approx_kl_survives_float32():
    # The true mean is 2^-29. In float32 ratio - 1 - log_ratio gives a multiple of 2^-24 or so; expm1 does not round so.
    small = torch.tensor([2.0**-14, -(2.0**-14)])
    answer = ppo_statistics(small - 1, -torch.ones(2), torch.ones(2), 0.3)
    text = "approx_kl = 1.86e-09: near ratio 1 the terms of ratio - 1 - log_ratio cancel, and float32 loses digits"
    assert abs(answer["approx_kl"] - 2.0**-29) <= 1e-11, text


def test_ppo_statistics_are_data():
    answer, _ = value_and_gradients(ppo_statistics, *policy_terms(3, 4), 0.3, wrt="log_probs")
    assert_no_gradient(answer)
    assert_equals_reference(answer)


# A sampled KL may fall below 0: the policy has hardly moved.
@named("beta, kl, after", {"a-beta-of-0-stays-0": (0.0, 9.0, 0.0), "a-negative-estimate": (1.5, -1.0, 0.75)})
@pytest.mark.points(2)
def test_update_beta_of_unusual_numbers(beta, kl, after):
    assert_equal(update_beta(beta, kl, 1.0), after)


def at(*ratios: float) -> list[float]:
    """log_probs whose ratio to old_log_probs of -1 is this."""
    return [math.log(ratio) - 1 for ratio in ratios]


def test_compute_value_loss_sends_its_gradient_to_values_only():
    # clipped 1.5, 2, 2.5, 3: 1/2 max(4, 2.25), 1/2 max(1, 1), 1/2 max(1, 6.25) and 0; a quarter of each.
    # The maximum of the two means would be 1.1875; through old_values the third would leak -2.5 / 4.
    terms = [1.0, 2.0, 4.0, 3.0], [2.0, 2.0, 2.0, 3.0], [3.0, 1.0, 5.0, 3.0]
    answer, grads = value_and_gradients(compute_value_loss, *terms, 0.5, wrt=VALUES)
    assert_equal(answer, 1.40625)
    assert_equal(grads, values=[-0.5, 0.25, 0.0, 0.0], old_values=None, returns=None)


def test_compute_kl_penalty_loss_sends_its_gradient_to_log_probs_only():
    # -1/2 * 2 + 2 (log 2 - 1/2) and 2 + 2 (1 - log 2): half of each; slopes -1 - 1 and 2 + 2
    terms = at(0.5, 2.0), [-1.0, -1.0], [2.0, -1.0]
    answer, grads = value_and_gradients(compute_kl_penalty_loss, *terms, 2.0, wrt=EVERY)
    assert_equal(answer, 1.0)
    assert_equal(grads, log_probs=[-1.0, 2.0], old_log_probs=None, advantages=None)
