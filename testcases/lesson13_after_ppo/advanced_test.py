"""Lesson 13, made safe, and in general: identities between the methods."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import assert_equal, gradients, reference, value_and_gradients
from tutorial.lesson02_reward_model import pairwise_loss
from tutorial.lesson03_policy_gradient import leave_one_out_baseline
from tutorial.lesson05_ppo_loss import compute_ppo_loss
from tutorial.lesson13_after_ppo import (
    best_of_n_kl,
    clipped_token_losses,
    dpo_loss,
    expected_best_of_n,
    group_advantages,
    kl_token_losses,
    reduce_losses,
    sequence_ratio,
)

NAN = math.nan


def ragged() -> Tensor:
    """Rows of 5, 3, 1 and 4 real tokens; the last has a gap."""
    return torch.tensor([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [1, 0, 0, 1, 1, 1]]).bool()


@pytest.mark.parametrize("shape", [(3, 5), (4, 4), (1, 2)], ids=str)
@pytest.mark.points(2)
def test_group_advantages_without_division_are_rloo_shrunk(shape):
    # score - mean of all K = (K - 1) / K * (score - mean of the others)
    scores, responses = normal(*shape), shape[1]
    rloo = scores - reference(leave_one_out_baseline, scores)
    assert_equal(group_advantages(scores, divide_by_std=False), rloo * (responses - 1) / responses)


@pytest.mark.parametrize("epsilon", [0.1, 0.3])
@pytest.mark.points(2)
def test_clipped_token_losses_with_equal_bounds_are_ppos(epsilon):
    log_probs, old, mask, advantages = normal(4, 6) - 2, normal(4, 6, seed=2) - 2, ragged(), normal(4, seed=3)
    wide = advantages.unsqueeze(1).expand(4, 6)
    expected = reference(compute_ppo_loss, log_probs, old, wide, epsilon, mask)
    answer = clipped_token_losses(log_probs, old, advantages, mask, epsilon, epsilon)
    assert bool(torch.isclose(answer.sum() / mask.sum(), expected, rtol=0, atol=1e-12)), (
        "a mean over the real tokens equal to lesson 5's loss"
    )


@pytest.mark.parametrize("denominator", ["tokens", "responses", "constant"])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_reduce_losses_of_microbatches_sum_up_to_the_window(denominator, cut):
    losses, mask = normal(4, 6), ragged()
    constant = 7.0 if denominator == "constant" else None
    total = float(mask.sum()) if denominator == "tokens" else 4.0
    whole = reference(reduce_losses, losses, mask, denominator, None, constant)
    rest = reference(reduce_losses, losses[cut:], mask[cut:], denominator, total, constant)
    assert_equal(reduce_losses(losses[:cut], mask[:cut], denominator, total, constant), whole - rest)


@pytest.mark.parametrize("scale", [1.0, 20.0], ids=["near", "far"])
def test_sequence_ratio_of_a_response_is_the_power_of_its_mean(scale):
    log_probs, old, mask = scale * normal(4, 6), scale * normal(4, 6, seed=2), ragged()
    expected = reference(sequence_ratio, log_probs, old, mask, True) ** mask.sum(dim=1)
    assert_equal(sequence_ratio(log_probs, old, mask, False), expected)


@pytest.mark.parametrize("beta", [0.1, 0.5, 2.0])
def test_dpo_loss_is_bradley_terry_on_implicit_rewards(beta):
    chosen, rejected, ref_chosen, ref_rejected = (4 * normal(5, seed=seed) - 20 for seed in range(4))
    rewards = beta * (chosen - ref_chosen), beta * (rejected - ref_rejected)
    assert_equal(dpo_loss(chosen, rejected, ref_chosen, ref_rejected, beta), reference(pairwise_loss, *rewards))


@pytest.mark.parametrize("margin, loss", [(1e4, 0.0), (-1e4, 5e3), (-1e6, 5e5)])
def test_dpo_loss_of_large_margins(margin, loss):
    answer, grads = value_and_gradients(dpo_loss, [margin], [0.0], [0.0], [0.0], 0.5, wrt="chosen")
    assert_equal(answer, loss)
    assert_equal(grads, chosen=[0.0 if margin > 0 else -0.5])


@pytest.mark.parametrize("n", [2, 4, 64])
def test_best_of_n_kl_is_below_the_bound_and_near_it_for_many_responses(n):
    bound = math.log(n) - (n - 1) / n
    probabilities = torch.full((20_000,), 1 / 20_000, dtype=torch.float64)
    answer = best_of_n_kl(probabilities, n)
    assert 0.98 * bound < answer <= bound + 1e-9, f"just below {bound}"


@pytest.mark.parametrize("options, loss", [({}, 3.0), ({"denominator": "responses"}, 1.5)], ids=["tokens", "responses"])
def test_reduce_losses_counts_an_empty_response_as_a_response(options, loss):
    assert_equal(reduce_losses([[2.0, 4.0], [NAN, NAN]], [[True, True], [False, False]], **options), loss)


@pytest.mark.points(2)
def test_kl_token_losses_keep_the_digits_of_float32():
    # log(reference / now) = d = 2^-13, and the ratio is e^18: e^18 d^2 / 2. In 24 digits exp(d) - 1 - d is 0.
    answer = kl_token_losses(*(torch.tensor([[one]]) for one in (0.0, -18.0, 2.0**-13)), [[True]])
    assert_equal(answer, torch.tensor([[math.exp(18) * 2.0**-27]]), rtol=1e-3)


def test_expected_best_of_n_where_no_float_holds_the_number_of_choices():
    # Scores 1 ... N: the mean maximum of n of them is n (N + 1) / (n + 1)
    scores = torch.arange(1, 2001, dtype=torch.float64).flip(0)[None]
    assert_equal(expected_best_of_n(scores, 1000), [1000 * 2001 / 1001])


def test_expected_best_of_n_is_no_training():
    assert_equal(gradients(expected_best_of_n, [[1.0, 2.0]], 2, wrt="scores"), scores=None)
