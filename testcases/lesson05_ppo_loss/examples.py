"""Ordinary inputs: they tell wrong answers apart, and drive the comparison with the reference on fresh numbers."""

import math

import torch
from torch import Tensor

from testcases.harness.doubles.drawing import generator, normal_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example
from tutorial.lesson05_ppo_loss import (
    clipped_objective,
    combine_losses,
    compute_kl_penalty_loss,
    compute_ppo_loss,
    compute_value_loss,
    ppo_statistics,
    update_beta,
)

POLICY = ("log_probs", "old_log_probs", "advantages")
VALUE = ("values", "old_values", "returns")


def examples(seed: int) -> list[Call]:
    """O(1) numbers in float64, half of the tokens outside the interval; 16 real tokens, ragged, or 8 without a mask."""
    draw = generator(seed)
    found = []
    for shape, masked, garbage in (
        ((3, 7), True, 9.0),
        ((4, 4), False, 0.0),
        ((6, 6), True, math.nan),
        ((8,), False, 0),
    ):
        mask = _mask(draw, shape) if masked else None
        found += _losses(draw, shape, mask, garbage, by=3)
    # One bad token became several times as likely, one has no advantage; then a ratio of 1, at the bound itself.
    far = [[-1.0, -0.5, -2.5], [-3.0, -1.0, -2.0], [-1.0, 0.0, 2.0]]
    # 1 - 1.5 is below every ratio, and has no logarithm.
    found += [example(compute_ppo_loss, *far, clip_epsilon, grad_of=POLICY) for clip_epsilon in (0.3, 1.5)]
    found.append(example(ppo_statistics, [-1.0, -1.0], [-1.0, -1.5], [1.0, 0.5], 1e-20))
    # Tokens whose probability is 0 in their float: 0 / 0 in code that leaves the logarithms.
    for dtype, level in ((torch.float32, -110.0), (torch.float64, -1000.0)):
        terms = [term.to(dtype) for term in _policy_terms(draw, (2, 4))]
        tail = [terms[0] + level, terms[1] + level, terms[2]]
        found.append(example(compute_ppo_loss, *tail, 0.3, grad_of="log_probs"))
        found.append(example(ppo_statistics, *tail, 0.3))
        found.append(example(compute_kl_penalty_loss, *tail, 0.7, grad_of="log_probs"))
    # float32 has no number for this ratio.
    found.append(example(ppo_statistics, [-1.0, -0.5], [-121.0, -1.0], [1.0, 0.5]))
    found += [*_objectives(draw), *_at_the_defaults(draw), *_of_numbers(draw)]
    # Plain ones: padding on the right, finite numbers in it; again 16 real tokens.
    on_the_right = torch.arange(7) < torch.tensor([[5], [7], [4]])
    return found + _losses(draw, (3, 7), on_the_right, 9.0, by=1)


def _losses(draw: torch.Generator, shape: tuple[int, ...], mask: Tensor | None, garbage: float, by: int) -> list[Call]:
    """With `garbage` under the mask, and gradients by the first so many arguments."""
    terms = [_filled(one, mask, garbage) for one in _policy_terms(draw, shape)]
    values = [_filled(one, mask, garbage) for one in _values(draw, shape)]
    clip_epsilon, beta = _between(draw, 0.25, 0.6), _between(draw, 0.3, 2.0)
    return [
        example(compute_ppo_loss, *terms, clip_epsilon, mask, grad_of=POLICY[:by]),
        example(compute_value_loss, *values, clip_epsilon, mask, grad_of=VALUE[:by]),
        example(ppo_statistics, *terms, clip_epsilon, mask),
        example(compute_kl_penalty_loss, *terms, beta, mask, grad_of=POLICY[:by]),
    ]


def _objectives(draw: torch.Generator) -> list[Call]:
    """Ratios on both sides of the interval and inside."""
    found = []
    for shape in ((8,), (3, 4), (2, 2, 3)):
        ratio, advantages = normal_from(draw, *shape).exp(), normal_from(draw, *shape)
        found.append(example(clipped_objective, ratio, advantages, _between(draw, 0.25, 0.6), grad_of="ratio"))
    found.append(example(clipped_objective, ratio=ratio, advantages=advantages, grad_of="ratio"))
    return found


def _at_the_defaults(draw: torch.Generator) -> list[Call]:
    terms = dict(zip(POLICY, _policy_terms(draw, (2, 2, 4)), strict=True))
    values = dict(zip(VALUE, _values(draw, (2, 2, 4)), strict=True))
    return [
        example(compute_ppo_loss, **terms, grad_of="log_probs"),
        example(compute_value_loss, **values, grad_of="values"),
        example(ppo_statistics, **terms),
        example(compute_kl_penalty_loss, **terms, beta=0.7, grad_of="log_probs"),
    ]


def _of_numbers(draw: torch.Generator) -> list[Call]:
    """Scalar losses to combine, and values of beta to adapt."""
    found = []
    for _ in range(3):
        scalars = {name: normal_from(draw) for name in ("policy_loss", "value_loss", "entropy")}
        coefficients = {"value_coef": _between(draw, 0.2, 3.0), "entropy_coef": _between(draw, 0.2, 3.0)}
        found.append(example(combine_losses, *scalars.values(), *coefficients.values(), grad_of=tuple(scalars)))
    found.append(example(combine_losses, **scalars, grad_of=tuple(scalars)))
    for share in (0.1, 0.6, 0.7, 0.9, 1.1, 1.4, 1.6, 3.0):
        target = _between(draw, 0.5, 2.0)
        found.append(example(update_beta, _between(draw, 0.5, 2.0), share * target, target))
    found.append(example(update_beta, 3, 1, 4))
    # At the bounds themselves, in numbers that float64 holds exactly.
    return found + [example(update_beta, _between(draw, 0.5, 2.0), kl, 3.0) for kl in (2.0, 4.5)]


def _between(draw: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=draw))


def _mask(draw: torch.Generator, shape: tuple[int, int]) -> Tensor:
    """16 real tokens, so that a share of them is exact in any float type; anywhere, so that rows differ."""
    size = shape[0] * shape[1]
    order = torch.randperm(size, generator=draw)
    return (order < 16).reshape(shape)


def _filled(tensor: Tensor, mask: Tensor | None, garbage: float) -> Tensor:
    return tensor if mask is None else tensor.masked_fill(~mask, garbage)


def _policy_terms(draw: torch.Generator, shape: tuple[int, ...]) -> list[Tensor]:
    old_log_probs = -2 - normal_from(draw, *shape).abs()
    return [old_log_probs + 0.7 * normal_from(draw, *shape), old_log_probs, 0.3 + normal_from(draw, *shape)]


def _values(draw: torch.Generator, shape: tuple[int, ...]) -> list[Tensor]:
    old_values = 1 + normal_from(draw, *shape)
    return [old_values + 0.6 * normal_from(draw, *shape), old_values, 1 + 2 * normal_from(draw, *shape)]


# What contract_test.py asks: arguments to refuse (the checks are given, and have to stay), defaults, points.
POLICY_CALL = {"log_probs": [0.0, 0.0], "old_log_probs": [0.0, 0.0], "advantages": [1.0, 2.0]}
VALUES = {"values": [0.0, 0.0], "old_values": [0.0, 0.0], "returns": [1.0, 2.0]}
SCALARS = {name: torch.tensor(1.0) for name in ("policy_loss", "value_loss", "entropy")}
BAD_EPSILON = {"epsilon-0": ({"clip_epsilon": 0.0}, ["clip_epsilon"])}
BAD_TERMS = {
    "old-would-broadcast": ({"old_log_probs": [0.0]}, ["old_log_probs (1,)"]),
    "all-masked": ({"mask": [False, False]}, ["at least one True"]),
}
BAD_VALUES = {"old-would-broadcast": ({"old_values": [0.0]}, ["old_values (1,)"])}
BAD_SCALARS = {
    "policy-loss-not-reduced": ({"policy_loss": [1.0, 2.0]}, ["policy_loss", "(2,)"]),
    "value-coef-below-0": ({"value_coef": -0.1}, ["value_coef"]),
}
BAD_NUMBERS = {"beta-below-0": ({"beta": -0.5}, ["beta"]), "target-0": ({"target_kl": 0.0}, ["target_kl"])}

DEFAULTS = [clipped_objective, compute_ppo_loss, compute_value_loss, combine_losses, ppo_statistics]
REFUSALS = {
    clipped_objective: (
        {"ratio": [1.0, 2.0], "advantages": [1.0, 2.0]},
        BAD_EPSILON | {"would-broadcast": ({"advantages": [1.0]}, ["advantages (1,)"])},
    ),
    compute_ppo_loss: (POLICY_CALL, BAD_TERMS | BAD_EPSILON),
    compute_value_loss: (VALUES, BAD_VALUES | BAD_EPSILON),
    combine_losses: (SCALARS, BAD_SCALARS),
    ppo_statistics: (POLICY_CALL, BAD_TERMS | BAD_EPSILON),
    compute_kl_penalty_loss: ({**POLICY_CALL, "beta": 1.0}, BAD_TERMS | {"beta-below-0": ({"beta": -0.1}, ["beta"])}),
    update_beta: ({"beta": 0.5, "kl": 1.0, "target_kl": 1.0}, BAD_NUMBERS),
}
AGREEMENT = dict.fromkeys(REFUSALS, 1) | {combine_losses: 2, compute_kl_penalty_loss: 4}
