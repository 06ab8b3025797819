"""What the losses of lesson 5 are asked on, and slow loops that say what is right."""

import math

import pytest
from torch import Tensor

from testcases.harness.doubles.drawing import normal

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
