"""An exercise of lesson 4 beside another answer of one that it calls."""

import inspect
from typing import Any


def through_compute_gae(lesson, rewards, values, mask, gamma, lam):
    """`compute_response_gae` where the lesson's `compute_gae` answers twice the advantages."""
    names = inspect.unwrap(lesson.compute_response_gae).__globals__
    right = names["compute_gae"]

    def doubled(rewards: Any, values: Any, *others: Any, **named: Any) -> Any:
        advantages = 2 * right(rewards, values, *others, **named).advantages
        return names["AdvantagesAndReturns"](advantages, advantages + values[..., :-1])

    names["compute_gae"] = doubled
    try:
        return lesson.compute_response_gae(rewards, values, mask, gamma, lam)
    finally:
        names["compute_gae"] = right
