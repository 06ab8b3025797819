"""Large logits, a few positions at a time: in float32 those of 64 x 512 positions over 151,936 tokens take 18.5 GiB."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

AT_ONCE = 2**18
"""Logits in one computation: 1 MiB in float32, which a core's cache holds."""
ON_GPU = 16
"""So many times more on a GPU, where starting a computation takes longer than a small one does."""

Place = tuple[slice, slice]
Function = TypeVar("Function", bound=Callable[..., Tensor])


def few_positions_at_once(function: Function) -> Function:
    """The same function of `logits` (B, T, V), which keeps no copy of them where they are large.

    Positions must not depend on each other. The backward computes each part again and keeps its gradient alone; few
    logits go to the function as they are.

    Args:
        function: (logits (B, T, V), and any of (B, T), and numbers) -> (B, T).
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Tensor:
        logits = args[0] if args else options.get("logits")
        if not isinstance(logits, Tensor) or logits.dim() != 3 or logits.numel() <= _at_once(logits):
            return function(*args, **options)
        others = signature.bind(*args, **options).arguments
        del others["logits"]
        if any(isinstance(other, Tensor) and other.shape != logits.shape[:2] for other in others.values()):
            return function(*args, **options)  # says what is wrong

        def part(some_logits: Tensor, place: Place) -> Tensor:
            cut = {name: other[place] if isinstance(other, Tensor) else other for name, other in others.items()}
            return function(some_logits, **cut)

        return cast(Tensor, _Parts.apply(logits, part))

    return cast(Function, wrapped)


def _at_once(logits: Tensor) -> int:
    return AT_ONCE * (1 if logits.device.type == "cpu" else ON_GPU)


def _places(logits: Tensor) -> list[Place]:
    """Rows and columns of each part: few enough logits in it, but at least one position."""
    count, length, vocabulary = logits.shape
    columns = max(1, min(length, _at_once(logits) // vocabulary))
    rows = max(1, _at_once(logits) // (vocabulary * length)) if columns == length else 1
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
