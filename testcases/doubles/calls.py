"""Scenarios for every lesson: an exercise called otherwise than once."""

from __future__ import annotations

import copy
from typing import Any

import torch


def first_of_two(lesson: Any, exercise: str, first: dict[str, Any], second: dict[str, Any]) -> tuple[Any, Any]:
    """Call it twice under `torch.no_grad()`: the first answer as it was before the second call, and after it."""
    function = getattr(lesson, exercise)
    with torch.no_grad():
        answer = function(**first)
        before = copy.deepcopy(answer)
        function(**second)
    return before, answer
