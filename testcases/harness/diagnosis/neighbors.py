"""Questions like one that is answered wrongly, in which other mistakes of a draft may not show, and what agrees by
chance does not: other numbers, and other masks, flags and ids."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..execution.messages import Call, copy_plain, tensors_in
from .mistakes import is_flags, is_float

NEARBY = 3
"""How often the numbers are moved."""


def like(asked: Call) -> Iterator[Call]:
    """First the question itself, its numbers moved by a few percent."""
    yield from (_moved(asked, seed) for seed in range(NEARBY))


def unlike(asked: Call) -> list[Call]:
    """The question with its rows in the reverse order, its flags and ids others, one of its counts larger."""
    found = [_with_count(asked, name) for name, value in asked.arguments.items() if type(value) is int]
    if asked.scenario:
        return found
    tensors = [*tensors_in([*asked.arguments.values()])]
    rows = {len(one) for one in tensors if one.dim() > 1}
    if len(rows) == 1 and rows != {1}:
        found.append(_with_each(asked, lambda one: one.flip(0) if one.dim() and {len(one)} == rows else one))
    if any(one.dim() for one in tensors):
        found.append(_with_each(asked, lambda one: torch.cat([one, one[..., -1:]], dim=-1) if one.dim() else one))
    return found


def discrete(asked: Call) -> dict[str, list[Call]]:
    """By the name of an argument that is no float tensor: questions in which it is another."""
    found = {}
    for name, value in asked.arguments.items():
        if (
            isinstance(value, Tensor)
            and value.dim()
            and value.shape[-1] > 1
            and (is_flags(value) or not is_float(value))
        ):
            others = [value.roll(1, -1), value.flip(-1)]
            if is_flags(value):
                ends = value.clone()
                ends[..., -1] = torch.zeros_like(ends[..., -1])
                others += [ends, torch.ones_like(value)]
            asks = [
                replace(asked, arguments={**asked.arguments, name: one})
                for one in others
                if not torch.equal(one, value)
            ]
            found[name] = [replace(one, grad_of=(), grad_weights=None) for one in asks]
    return found


def _moved(asked: Call, seed: int) -> Call:
    """Nearly the same question: each number that is no count, flag or bound is another by a few percent."""
    generator = torch.Generator().manual_seed(seed)

    def moved(value: Any) -> Any:
        if is_float(value) and not is_flags(value):
            return value * (1 + torch.rand(value.shape, generator=generator, dtype=value.dtype) / 16)
        return value

    arguments = {name: copy_plain(value, moved) for name, value in asked.arguments.items()}
    for name, value in arguments.items():
        if type(value) is float and value not in (0.0, 1.0):
            arguments[name] = value * (1 - (seed + 1) / 64)
    return replace(asked, arguments=arguments)


def _with_count(asked: Call, name: str) -> Call:
    arguments = {**asked.arguments, name: asked.arguments[name] + 1}
    return replace(asked, arguments=arguments, grad_of=(), grad_weights=None)


def _with_each(asked: Call, changed: Callable[[Tensor], Tensor]) -> Call:
    arguments = {name: copy_plain(value, changed) for name, value in asked.arguments.items()}
    return replace(asked, arguments=arguments, grad_of=(), grad_weights=None)
