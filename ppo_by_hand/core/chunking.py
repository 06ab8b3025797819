"""Large logits, a few positions at a time: in float32 those of 64 x 512 positions over 151,936 tokens take 18.5 GiB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .shapes import logits_at_once

Place = tuple[slice, slice]


def in_parts(function: Callable[..., Tensor], logits: Tensor, *others: Any) -> Tensor:
    """Answer as `function(logits, *others)` does, and keep no copy of the logits.

    The backward computes each part again and keeps its gradient alone.

    Args:
        function: (logits (B, T, V), others) -> (B, T), in which positions do not depend on each other.
        logits: (B, T, V).
        others: tensors (B, T), or numbers.

    Returns:
        (B, T).
    """

    def part(some_logits: Tensor, place: Place) -> Tensor:
        return function(some_logits, *(other[place] if isinstance(other, Tensor) else other for other in others))

    answer: Tensor = _Parts.apply(logits, part)  # type: ignore[no-untyped-call]
    return answer


def _places(logits: Tensor) -> list[Place]:
    """Rows and columns of each part: few enough logits in it, but at least one position."""
    count, length, vocabulary = logits.shape
    at_once = logits_at_once(logits)
    columns = max(1, min(length, at_once // vocabulary))
    rows = max(1, at_once // (vocabulary * length)) if columns == length else 1
    return [
        (slice(row, row + rows), slice(column, column + columns))
        for row in range(0, count, rows)
        for column in range(0, length, columns)
    ]


class _Parts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, part: Callable[[Tensor, Place], Tensor]) -> Tensor:
        ctx.save_for_backward(logits)
        ctx.part = part
        answer: Tensor | None = None
        for place in _places(logits):
            some = part(logits[place], place)
            answer = some.new_empty(logits.shape[:2]) if answer is None else answer
            answer[place] = some
        assert answer is not None
        return answer

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (logits,) = ctx.saved_tensors
        gradient = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
        for place in _places(logits):
            some = logits[place].detach().requires_grad_(True)
            with torch.enable_grad():
                answer = ctx.part(some, place)
            (gradient[place],) = torch.autograd.grad(answer, some, gradients[0][place])
        return gradient, None
