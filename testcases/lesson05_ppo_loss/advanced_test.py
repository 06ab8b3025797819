"""Lesson 5, in general: identities, each held against the reference or against a slow loop written here."""

import math

import pytest
import torch
from torch import Tensor

from testcases.harness import call, named_cases, reference
from testcases.harness.doubles.drawing import normal
from tutorial.lesson05_ppo_loss import (
    combine_losses,
    compute_kl_penalty_loss,
    compute_ppo_loss,
    compute_value_loss,
    ppo_statistics,
    update_beta,
)

EVERY = ("log_probs", "old_log_probs", "advantages")
VALUES = ("values", "old_values", "returns")
SHAPES = pytest.mark.parametrize("shape", [(1,), (5,), (1, 5), (4, 4), (2, 3, 5)], ids=str)


def policy_terms(*shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ratios between about 1/4 and 4."""
    old_log_probs = normal(*shape, seed=2) - 3
    return old_log_probs + 0.7 * normal(*shape, seed=3), old_log_probs, normal(*shape, seed=4)


def critic_terms(*shape: int) -> tuple[Tensor, Tensor, Tensor]:
    old_values = normal(*shape, seed=5) + 1
    return old_values + 0.6 * normal(*shape, seed=6), old_values, 2 * normal(*shape, seed=7)


def mean(numbers: list[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def triples(terms: tuple[Tensor, Tensor, Tensor]) -> list[tuple[float, ...]]:
    return list(zip(*(term.flatten().tolist() for term in terms), strict=True))


def slow_ppo_loss(terms: tuple[Tensor, Tensor, Tensor], clip_epsilon: float) -> float:
    """Case by case: a profit is capped at the edge of the interval, a loss is not."""
    losses = []
    for new, old, advantage in triples(terms):
        ratio = math.exp(new - old)
        if advantage > 0 and ratio > 1 + clip_epsilon:
            ratio = 1 + clip_epsilon
        if advantage < 0 and ratio < 1 - clip_epsilon:
            ratio = 1 - clip_epsilon
        losses.append(-ratio * advantage)
    return mean(losses)


def slow_value_loss(terms: tuple[Tensor, Tensor, Tensor], clip_epsilon: float) -> float:
    losses = []
    for value, old_value, target in triples(terms):
        near = min(max(value, old_value - clip_epsilon), old_value + clip_epsilon)
        losses.append(max((value - target) ** 2, (near - target) ** 2) / 2)
    return mean(losses)


@SHAPES
def test_compute_ppo_loss_takes_any_shape(shape):
    terms = policy_terms(*shape)
    call(compute_ppo_loss, *terms, 0.3).equals(slow_ppo_loss(terms, 0.3))


@pytest.mark.parametrize("clip_epsilon", [1e-3, 0.1, 0.9, 1.5])
def test_compute_ppo_loss_at_narrow_and_wide_intervals(clip_epsilon):
    terms = policy_terms(6, 7)
    answer = call(compute_ppo_loss, *terms, clip_epsilon, grad_of="log_probs")
    answer.equals(slow_ppo_loss(terms, clip_epsilon)).matches_reference()


def test_compute_ppo_loss_without_a_bound_is_the_importance_weighted_objective():
    log_probs, old_log_probs, advantages = policy_terms(3, 5)
    profit = torch.exp(log_probs - old_log_probs) * advantages
    answer = call(compute_ppo_loss, log_probs, old_log_probs, advantages, 1e6, grad_of="log_probs")
    answer.equals(-profit.mean()).gradient_equals(log_probs=-profit / 15)


def test_compute_ppo_loss_on_policy_has_the_gradient_of_reinforce():
    _, old_log_probs, advantages = policy_terms(4, 4)
    answer = call(compute_ppo_loss, old_log_probs.clone(), old_log_probs, advantages, 0.3, grad_of=EVERY)
    answer.equals(-advantages.mean()).gradient_equals(log_probs=-advantages / 16, old_log_probs=None, advantages=None)


def test_compute_ppo_loss_is_the_larger_of_both_losses():
    # Token by token: never lower than the clipped or the unclipped loss.
    log_probs, old_log_probs, advantages = policy_terms(12)
    ratio = torch.exp(log_probs - old_log_probs)
    free, held = -ratio * advantages, -ratio.clamp(0.6, 1.4) * advantages
    for t in range(12):
        token = slice(t, t + 1)
        call(compute_ppo_loss, log_probs[token], old_log_probs[token], advantages[token], 0.4).equals(
            max(free[t].item(), held[t].item())
        )


@pytest.mark.parametrize("log_ratio, advantage", [(30.0, -1.0), (-30.0, 1.0), (-30.0, -1.0), (30.0, 1.0)])
def test_compute_ppo_loss_far_from_the_old_policy(log_ratio, advantage):
    # Only the profit is capped, and nothing else is held: neither the logarithm nor the loss.
    profit = min(math.exp(log_ratio) * advantage, min(max(math.exp(log_ratio), 0.75), 1.25) * advantage)
    answer = call(compute_ppo_loss, [log_ratio - 2.0], [-2.0], [advantage], 0.25, grad_of="log_probs")
    slope = -profit if log_ratio * advantage < 0 else 0.0
    answer.equals(-profit).gradient_equals(log_probs=[slope], atol=0.0, rtol=1e-12)


# Below -104 exp is 0 in float32, and below -746 in float64: no probability is left to divide by.
TAILS = pytest.mark.parametrize(
    "dtype, level",
    [(torch.float32, -95.0), (torch.float32, -110.0), (torch.float32, -1000.0), (torch.float64, -740.0)]
    + [(torch.float64, -1000.0), (torch.float64, -1e4)],
    ids=str,
)


def in_the_tail(dtype: torch.dtype, level: float) -> tuple[list[Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Terms at this level, and at about -3, with the same ratios: multiples of 1/64 differ without rounding."""
    log_probs, old_log_probs, advantages = policy_terms(3, 5)
    old_log_probs = (64 * old_log_probs).round() / 64
    log_probs = (64 * log_probs).round() / 64
    far = [log_probs + level, old_log_probs + level, advantages]
    return [term.to(dtype) for term in far], (log_probs, old_log_probs, advantages)


@TAILS
def test_compute_ppo_loss_in_the_tail(dtype, level):
    far, near = in_the_tail(dtype, level)
    answer = call(compute_ppo_loss, *far, 0.3, grad_of="log_probs")
    answer.equals(slow_ppo_loss(near, 0.3), dtype=dtype).matches_reference()


@TAILS
def test_ppo_statistics_in_the_tail(dtype, level):
    far, near = in_the_tail(dtype, level)
    call(ppo_statistics, *far, 0.3).equals(reference(ppo_statistics, *near, 0.3), atol=1e-6)


@TAILS
def test_compute_kl_penalty_loss_in_the_tail(dtype, level):
    far, near = in_the_tail(dtype, level)
    answer = call(compute_kl_penalty_loss, *far, 1.7, grad_of="log_probs")
    answer.equals(reference(compute_kl_penalty_loss, *near, 1.7), dtype=dtype, atol=1e-6).matches_reference()


def real_and_padded(terms: tuple[Tensor, Tensor, Tensor], garbage: float) -> tuple[list[Tensor], Tensor]:
    """9 tokens of one long row, distributed over rows of 4, 0, 3 and 2 with garbage between them."""
    mask = torch.tensor([[1, 1, 1, 1, 0], [0, 0, 0, 0, 0], [1, 0, 1, 0, 1], [0, 1, 1, 0, 0]], dtype=torch.bool)
    spread = []
    for term in terms:
        padded = torch.full(mask.shape, garbage, dtype=torch.float64)
        padded[mask] = term
        spread.append(padded)
    return spread, mask


GARBAGE = named_cases("garbage", {"nan": math.nan, "infinite": math.inf, "huge": -1e30, "zero": 0.0})


@GARBAGE
def test_compute_ppo_loss_is_that_of_its_real_tokens(garbage):
    terms = policy_terms(9)
    padded, mask = real_and_padded(terms, garbage)
    answer = call(compute_ppo_loss, *padded, 0.3, mask, grad_of=EVERY)
    answer.equals(slow_ppo_loss(terms, 0.3)).matches_reference()


@GARBAGE
def test_compute_value_loss_is_that_of_its_real_tokens(garbage):
    terms = critic_terms(9)
    padded, mask = real_and_padded(terms, garbage)
    answer = call(compute_value_loss, *padded, 0.3, mask, grad_of=VALUES)
    answer.equals(slow_value_loss(terms, 0.3)).matches_reference()


@GARBAGE
def test_ppo_statistics_are_those_of_its_real_tokens(garbage):
    terms = policy_terms(9)
    padded, mask = real_and_padded(terms, garbage)
    call(ppo_statistics, *padded, 0.3, mask).equals(reference(ppo_statistics, *terms, 0.3), atol=1e-7)
    call(ppo_statistics, *padded, 0.3, mask).part("ratio_mean").equals(
        mean([math.exp(new - old) for new, old, _ in triples(terms)])
    )


@GARBAGE
def test_compute_kl_penalty_loss_is_that_of_its_real_tokens(garbage):
    terms = policy_terms(9)
    padded, mask = real_and_padded(terms, garbage)
    answer = call(compute_kl_penalty_loss, *padded, 0.3, mask, grad_of=EVERY)
    answer.equals(reference(compute_kl_penalty_loss, *terms, 0.3)).matches_reference()


# nan_to_num would make padding harmless, and hide a broken model as well: the trainer looks for the NaN.
def broken(name: str, terms: tuple[str, ...]) -> dict[str, list]:
    """Two real tokens; the second has a NaN in one of the terms."""
    return {**dict.fromkeys(terms, [-1.0, -1.0]), name: [-1.0, math.nan], "mask": [True, True]}


@pytest.mark.parametrize("name", EVERY)
def test_compute_ppo_loss_shows_a_nan_of_a_real_token(name):
    call(compute_ppo_loss, **broken(name, EVERY)).equals(math.nan, equal_nan=True)


@pytest.mark.parametrize("name", VALUES)
def test_compute_value_loss_shows_a_nan_of_a_real_token(name):
    call(compute_value_loss, **broken(name, VALUES)).equals(math.nan, equal_nan=True)


@pytest.mark.parametrize("name", ["log_probs", "old_log_probs"])
@pytest.mark.parametrize("part", ["ratio_mean", "ratio_max", "approx_kl"])
def test_ppo_statistics_show_a_nan_of_a_real_token(name, part):
    call(ppo_statistics, **broken(name, EVERY)).part(part).equals(math.nan, equal_nan=True)


@pytest.mark.parametrize("name", EVERY)
def test_compute_kl_penalty_loss_shows_a_nan_of_a_real_token(name):
    call(compute_kl_penalty_loss, **broken(name, EVERY), beta=0.5).equals(math.nan, equal_nan=True)


@SHAPES
def test_compute_value_loss_takes_any_shape(shape):
    terms = critic_terms(*shape)
    call(compute_value_loss, *terms, 0.3, grad_of="values").equals(slow_value_loss(terms, 0.3)).matches_reference()


def test_compute_value_loss_without_a_bound_is_half_the_squared_error():
    values, old_values, returns = critic_terms(3, 5)
    answer = call(compute_value_loss, values, old_values, returns, 1e6, grad_of="values")
    answer.equals((values - returns).square().mean() / 2).gradient_equals(values=(values - returns) / 15)


def test_compute_value_loss_moves_with_its_origin():
    # Values, old values and returns shifted alike: the interval lies around the old value, not around 0.
    values, old_values, returns = critic_terms(3, 5)
    expected = reference(compute_value_loss, values, old_values, returns, 0.25)
    call(compute_value_loss, values + 8, old_values + 8, returns + 8, 0.25).equals(expected)


def test_combine_losses_is_linear():
    scalars = [normal(seed=seed) for seed in (1, 2, 3)]
    for value_coef, entropy_coef in ((1.0, 0.0), (0.0, 1.0), (0.3, 0.7)):
        expected = scalars[0].item() + value_coef * scalars[1].item() - entropy_coef * scalars[2].item()
        call(combine_losses, *scalars, value_coef, entropy_coef).equals(expected)


@SHAPES
def test_ppo_statistics_take_any_shape(shape):
    terms = policy_terms(*shape)
    ratios = [math.exp(new - old) for new, old, _ in triples(terms)]
    answer = call(ppo_statistics, *terms, 0.3)
    answer.part("ratio_mean").equals(mean(ratios))
    answer.part("ratio_max").equals(max(ratios))
    answer.part("approx_kl").equals(mean([ratio - 1 - math.log(ratio) for ratio in ratios]))


def test_ppo_statistics_clip_fraction_is_where_the_loss_has_no_slope():
    terms = policy_terms(8, 8)
    inside = 0
    for new, old, advantage in triples(terms):
        ratio = math.exp(new - old)
        inside += (ratio <= 1.3) if advantage > 0 else (ratio >= 0.7)
    call(ppo_statistics, *terms, 0.3).part("clip_fraction").equals(1 - inside / 64)


def test_ppo_statistics_approx_kl_estimates_the_kl_from_the_old_policy():
    # 8 tokens drawn as often as the old policy (1/2, 1/4, 1/8, 1/8) says: the mean is KL(old || new) exactly.
    old = torch.tensor([0.5, 0.25, 0.125, 0.125], dtype=torch.float64)
    new = torch.tensor([0.25, 0.25, 0.375, 0.125], dtype=torch.float64)
    drawn = torch.tensor([0, 0, 0, 0, 1, 1, 2, 3])
    kl = (old * (old / new).log()).sum().item()
    answer = call(ppo_statistics, new.log()[drawn], old.log()[drawn], normal(8), 0.3)
    answer.part("approx_kl").equals(kl).part("ratio_mean").equals(1.0)


def test_ppo_statistics_approx_kl_survives_float32():
    # The true mean is 2^-29. In float32 ratio - 1 - log_ratio gives a multiple of 2^-24 or so; expm1 does not round so.
    small = torch.tensor([2.0**-14, -(2.0**-14)])
    answer = call(ppo_statistics, small - 1, -torch.ones(2), torch.ones(2), 0.3)
    text = "approx_kl = 1.86e-09: near ratio 1 the terms of ratio - 1 - log_ratio cancel, and float32 loses digits"
    answer.part("approx_kl").satisfies(lambda kl: abs(kl - 2.0**-29) <= 1e-11, text)


def test_ppo_statistics_are_data():
    terms = policy_terms(3, 4)
    call(ppo_statistics, *terms, 0.3, grad_of="log_probs").has_no_gradient().matches_reference()


@SHAPES
def test_compute_kl_penalty_loss_takes_any_shape(shape):
    terms = policy_terms(*shape)
    losses = []
    for new, old, advantage in triples(terms):
        ratio = math.exp(new - old)
        losses.append(-ratio * advantage + 1.7 * (ratio - 1 - (new - old)))
    call(compute_kl_penalty_loss, *terms, 1.7).equals(mean(losses))


def test_compute_kl_penalty_loss_has_the_gradient_of_the_kl():
    # Drawn as often as the old policy says; advantages 0. The gradient by the probability's logits is that of
    # KL(old || new): new - old. By log_probs it is (ratio - 1) / 8 for each drawn token.
    old = torch.tensor([0.5, 0.25, 0.125, 0.125], dtype=torch.float64)
    new = torch.tensor([0.25, 0.25, 0.375, 0.125], dtype=torch.float64)
    drawn = torch.tensor([0, 0, 0, 0, 1, 1, 2, 3])
    answer = call(
        compute_kl_penalty_loss,
        new.log()[drawn],
        old.log()[drawn],
        torch.zeros(8, dtype=torch.float64),
        3.0,
        grad_of="log_probs",
    )
    answer.equals(3 * (old * (old / new).log()).sum().item())
    answer.gradient_equals(log_probs=3 * ((new / old)[drawn] - 1) / 8)


@pytest.mark.parametrize("log_ratio", [-30.0, 30.0])
def test_compute_kl_penalty_loss_far_from_the_old_policy(log_ratio):
    ratio = math.exp(log_ratio)
    answer = call(compute_kl_penalty_loss, [log_ratio - 2.0], [-2.0], [0.0], 0.5, grad_of="log_probs")
    answer.equals(0.5 * (ratio - 1 - log_ratio), atol=0.0, rtol=1e-12)
    answer.gradient_equals(log_probs=[0.5 * (ratio - 1)], atol=0.0, rtol=1e-12)


def test_compute_kl_penalty_loss_is_linear_in_beta():
    terms = policy_terms(4, 4)
    free, dear = (reference(compute_kl_penalty_loss, *terms, beta) for beta in (0.0, 1.0))
    call(compute_kl_penalty_loss, *terms, 2.5).equals(free + 2.5 * (dear - free))


@pytest.mark.parametrize("target_kl", [0.01, 0.5, 6.0])
def test_update_beta_depends_on_the_quotient(target_kl):
    for share, factor in ((1.501, 2.0), (1.499, 1.0), (1.0, 1.0), (0.667, 1.0), (0.666, 0.5)):
        call(update_beta, 0.4, share * target_kl, target_kl).equals(0.4 * factor)


def test_update_beta_of_zero_stays_zero():
    call(update_beta, 0.0, 9.0, 1.0).equals(0.0)


@pytest.mark.parametrize("kl", [-0.25, -1.0, -8.0])
def test_update_beta_takes_a_negative_estimate(kl):
    # A sampled KL may fall below 0: the policy has hardly moved.
    call(update_beta, 1.5, kl, 1.0).equals(0.75)


@pytest.mark.parametrize("broken", ["policy_loss", "value_loss", "entropy"])
def test_combine_losses_shows_a_nan(broken):
    terms = {name: torch.tensor(1.0) for name in ("policy_loss", "value_loss", "entropy")}
    answer = call(combine_losses, **{**terms, broken: torch.tensor(math.nan)}, value_coef=0.5, entropy_coef=0.25)
    answer.equals(math.nan, equal_nan=True, dtype=torch.float32)
