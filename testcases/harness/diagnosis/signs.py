"""Causes that a wrong answer shows by itself, whatever the code: what was changed, cut off, hidden or rounded, what is
too large, and of which type it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..execution.messages import Call, Outcome, fields_of, tensors_in
from ..report.alike import same_outcome, same_slope
from .mistakes import is_float
from .parts import floats_of
from .values import Ask, Seen, Shows, Sign


def sign_of(failing: Seen, wrong: Sequence[Call], ask: Ask) -> Sign | None:
    """`wrong`: the ordinary examples that the student has wrong as well."""
    asked, right, mine = failing
    if right.error or mine.error and not mine.error.frames:
        return None
    told = (
        (lambda: _changed(right, mine)),
        (lambda: _form(right, mine)),
        (lambda: _gradient(*failing, wrong, ask)),
        (lambda: _of_nan(right, mine)),
        (lambda: _dtype(right, mine)),
        (lambda: _overflows(*failing, ask)),
        (lambda: digits_lost(*failing, ask)),
        (lambda: _nan_made(*failing)),
    )
    return next(filter(None, (tell() for tell in told)), None)


def _changed(right: Outcome, mine: Outcome) -> Sign | None:
    nested = [name.rpartition(".")[2] for name in mine.left_behind if name.startswith(("first.", "second."))]
    if not mine.changed or right.changed or not same_outcome(right, replace(mine, changed=(), left_behind=()), True):
        return None
    return Sign(Shows.CHANGED, tuple(dict.fromkeys(nested or mine.changed)))


def _gradient(asked: Call, right: Outcome, mine: Outcome, wrong: Sequence[Call], ask: Ask) -> Sign | None:
    differ = [name for name, slope in right.gradients.items() if not same_slope(slope, mine.gradients.get(name))]
    if not differ or not same_outcome(right, mine, values_only=True):
        return None
    pairs = [(right.gradients[name], mine.gradients.get(name)) for name in differ]
    if all(got is None for _, got in pairs):
        return Sign(Shows.CUT_OFF, tuple(differ))
    if not any(got is None or bool(got.any()) for _, got in pairs):
        return Sign(Shows.FLAT, tuple(differ))
    due_elsewhere = (ask(one)[0].gradients.get(name) for one in wrong for name in differ)
    if all(due is None or not bool(due.any()) for due in (*(due for due, _ in pairs), *due_elsewhere)):
        return Sign(Shows.UNDUE, tuple(differ))
    return Sign(Shows.NAN_IN_GRADIENT) if all(_has_nan(got) and not _has_nan(due) for due, got in pairs) else None


def _of_nan(right: Outcome, mine: Outcome) -> Sign | None:
    pairs = [*numbers_of(right, mine), *floats_of(right.value, mine.value)]
    return Sign(Shows.NAN_HIDDEN) if any(_has_nan(due) and not _has_nan(got) for due, got in pairs) else None


def _dtype(right: Outcome, mine: Outcome) -> Sign | None:
    every = zip(tensors_in(right.value), tensors_in(mine.value), strict=False)
    pairs = [(due.dtype, got.dtype) for due, got in every if due.shape == got.shape and due.dtype != got.dtype]
    return Sign(Shows.OTHER_DTYPE, tuple(str(one) for one in reversed(pairs[0]))) if pairs else None


def _overflows(asked: Call, right: Outcome, mine: Outcome, ask: Ask) -> Sign | None:
    """Infinity or NaN of an answer that is right of smaller numbers."""
    if not any(bool((due.isfinite() & ~got.isfinite()).any()) for due, got in numbers_of(right, mine)):
        return None
    large = {name: one for name, one in asked.arguments.items() if is_float(one) and bool((one.abs() > 80).any())}
    smaller = {name: one.clamp(-30, 30) for name, one in large.items()}
    return Sign(Shows.OVERFLOWS) if smaller and _is_right_with(asked, smaller, ask) else None


def _is_right_with(asked: Call, changed: dict[str, Any], ask: Ask) -> bool:
    due, got = ask(replace(asked, arguments={**asked.arguments, **changed}, grad_of=(), grad_weights=None))
    return not due.error and same_outcome(due, got, values_only=True)


def _nan_made(asked: Call, right: Outcome, mine: Outcome) -> Sign | None:
    """NaN of arguments that are finite."""
    is_finite = all(bool(one.isfinite().all()) for one in asked.arguments.values() if is_float(one))
    if asked.scenario or not is_finite:
        return None
    pairs = [*numbers_of(right, mine), *floats_of(right.value, mine.value)]
    return Sign(Shows.NAN_MADE) if any(_has_nan(got) and not _has_nan(due) for due, got in pairs) else None


def digits_lost(asked: Call, right: Outcome, mine: Outcome, ask: Ask) -> Sign | None:
    """Right of the same numbers in float64."""
    narrow = {name: one for name, one in asked.arguments.items() if is_float(one) and one.dtype != torch.float64}
    if not narrow or asked.scenario or (asked.grad_of and same_outcome(right, mine, values_only=True)):
        return None
    if any(_has_nan(got) for _, got in numbers_of(right, mine)):
        return None
    dtype = str(next(iter(narrow.values())).dtype).removeprefix("torch.")
    wide = {name: one.double() for name, one in narrow.items()}
    return Sign(Shows.DIGITS_LOST, (dtype,)) if _is_right_with(asked, wide, ask) else None


def has_16_bits(asked: Call) -> bool:
    return any(is_float(one) and one.dtype in (torch.float16, torch.bfloat16) for one in asked.arguments.values())


def numbers_of(right: Outcome, mine: Outcome) -> list[tuple[Tensor, Tensor]]:
    """The tensors of both answers; none if they are not of the same form."""
    due, got = ([*tensors_in(one.value)] for one in (right, mine))
    if [one.shape for one in due] != [one.shape for one in got]:
        return []
    return [pair for pair in zip(due, got, strict=True) if all(one.is_floating_point() for one in pair)]


def _has_nan(tensor: Any) -> bool:
    return bool(tensor.isnan().any()) if isinstance(tensor, Tensor) else isinstance(tensor, float) and tensor != tensor


def _form(right: Outcome, mine: Outcome) -> Sign | None:
    """What a wrong type of the answer, or of its first part that has one, comes from."""
    for due, got in _forms(right.value, mine.value):
        if isinstance(due, Tensor) and isinstance(got, (int, float)):
            return Sign(Shows.A_NUMBER)
        if isinstance(due, (int, float)) and isinstance(got, Tensor):
            return Sign(Shows.A_TENSOR)
    return None


def _forms(right: Any, mine: Any) -> Iterator[tuple[Any, Any]]:
    right, mine = fields_of(right)[0], fields_of(mine)[0]
    if isinstance(right, dict) and isinstance(mine, dict):
        yield from ((right[key], mine[key]) for key in right if key in mine)
    elif isinstance(right, tuple) and isinstance(mine, tuple) and len(right) == len(mine):
        yield from zip(right, mine, strict=True)
    else:
        yield right, mine
