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


@pytest.mark.points(3)
def test_compute_ppo_loss_on_policy_has_the_gradient_of_reinforce():
    _, old_log_probs, advantages = policy_terms(4, 4)
    terms = old_log_probs.clone(), old_log_probs, advantages
    answer, grads = value_and_gradients(compute_ppo_loss, *terms, 0.3, wrt=EVERY)
    assert_equal(answer, -advantages.mean())
    assert_equal(grads, log_probs=-advantages / 16, old_log_probs=None, advantages=None)


@named("dtype, level", {"float32": (torch.float32, -110.0), "float64": (torch.float64, -1000.0)})
def test_compute_ppo_loss_in_the_tail(dtype, level):
    # Below -104 exp is 0 in float32, and below -746 in float64: no probability is left to divide by.
    log_probs, old_log_probs, advantages = (term.to(dtype) for term in policy_terms(3, 5))
    far = log_probs + level, old_log_probs + level
    answer, _ = value_and_gradients(compute_ppo_loss, *far, advantages, 0.3, wrt="log_probs")
    assert_equals_reference(answer)


GARBAGE = named("garbage", {"nan": NAN, "infinite": math.inf, "huge": -1e30})
# 9 real tokens in rows of 4, 0, 3 and 2
MASK = torch.tensor([[1, 1, 1, 1, 0], [0, 0, 0, 0, 0], [1, 0, 1, 0, 1], [0, 1, 1, 0, 0]]).bool()


def padded(terms: tuple[Tensor, Tensor, Tensor], garbage: float) -> list[Tensor]:
    """One row of 9 tokens, distributed over the mask, with garbage between them."""
    spread = torch.full(MASK.shape, garbage, dtype=torch.float64)
    return [spread.masked_scatter(MASK, term) for term in terms]


@GARBAGE
@pytest.mark.points(2)
def test_compute_ppo_loss_is_that_of_its_real_tokens(garbage):
    terms = policy_terms(9)
    answer, _ = value_and_gradients(compute_ppo_loss, *padded(terms, garbage), 0.3, MASK, wrt=EVERY)
    assert_equal(answer, reference(compute_ppo_loss, *terms, 0.3))
    assert_equals_reference(answer)


@GARBAGE
@pytest.mark.points(4)
def test_compute_value_loss_is_that_of_its_real_tokens(garbage):
    terms = critic_terms(9)
    answer, _ = value_and_gradients(compute_value_loss, *padded(terms, garbage), 0.3, MASK, wrt=VALUES)
    assert_equal(answer, reference(compute_value_loss, *terms, 0.3))
    assert_equals_reference(answer)


def test_clipped_objective_shows_a_nan():
    assert_equal(clipped_objective([NAN, 1.0, 2.0], [1.0, NAN, 1.0], 0.25), [NAN, NAN, 1.25], equal_nan=True)


def test_ppo_statistics_approx_kl_survives_float32():
    # The true mean is 2^-29. In float32 ratio - 1 - log_ratio gives a multiple of 2^-24 or so; expm1 does not round so.
    small = torch.tensor([2.0**-14, -(2.0**-14)])
    answer = ppo_statistics(small - 1, -torch.ones(2), torch.ones(2), 0.3)
    text = "approx_kl = 1.86e-09: near ratio 1 the terms of ratio - 1 - log_ratio cancel, and float32 loses digits"
    assert abs(answer["approx_kl"] - 2.0**-29) <= 1e-11, text


@pytest.mark.points(3)
def test_ppo_statistics_are_data():
    answer, _ = value_and_gradients(ppo_statistics, *policy_terms(3, 4), 0.3, wrt="log_probs")
    assert_no_gradient(answer)
    assert_equals_reference(answer)


# A sampled KL may fall below 0: the policy has hardly moved.
@named("beta, kl, after", {"a-beta-of-0-stays-0": (0.0, 9.0, 0.0), "a-negative-estimate": (1.5, -1.0, 0.75)})
@pytest.mark.points(2)
def test_update_beta_of_unusual_numbers(beta, kl, after):
    assert_equal(update_beta(beta, kl, 1.0), after)
