"""Causes that a wrong answer shows by itself, whatever the code: what was changed, cut off, hidden or rounded, what is
too large, and of which type it is.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..execution.messages import Call, Outcome
from .mistakes import is_float
from .parts import beside, leaves_of, same_outcome, same_slope
from .values import Ask, Seen, Shows, Sign


def sign_of(failing: Seen, wrong: Sequence[Call], ask: Ask) -> Sign | None:
    """`wrong`: the ordinary examples that the student has wrong as well."""
    asked, right, mine = failing
    if right.error or mine.error and not mine.error.frames:
        return None
    told = (
        (lambda: _changed(right, mine)),
        (lambda: _form(right, mine)),
        (lambda: _squeezed(right, mine, wrong, ask)),
        (lambda: _gradient(*failing, wrong, ask)),
        (lambda: _of_nan(right, mine)),
        (lambda: _dtype(*failing)),
        (lambda: _overflows(*failing, ask)),
        (lambda: _digits_lost(*failing, ask)),
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
    is_hidden = any(_has_nan(due) and not _has_nan(got) for due, got in beside(right, mine))
    return Sign(Shows.NAN_HIDDEN) if is_hidden else None


def _dtype(asked: Call, right: Outcome, mine: Outcome) -> Sign | None:
    """Of an exercise's own answer: a scenario's has parts of which another may be shown."""
    pairs = [(str(got.dtype), str(due.dtype)) for due, got in beside(right, mine) if due.dtype != got.dtype]
    return Sign(Shows.OTHER_DTYPE, pairs[0]) if pairs and not asked.scenario else None


def _overflows(asked: Call, right: Outcome, mine: Outcome, ask: Ask) -> Sign | None:
    """Infinity or NaN of an answer that is right of smaller numbers."""
    if not any(bool((due.isfinite() & ~got.isfinite()).any()) for due, got in beside(right, mine)):
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
    is_made = any(_has_nan(got) and not _has_nan(due) for due, got in beside(right, mine))
    return Sign(Shows.NAN_MADE) if is_made else None


def _digits_lost(asked: Call, right: Outcome, mine: Outcome, ask: Ask) -> Sign | None:
    """Right of the same numbers in float64."""
    narrow = {name: one for name, one in asked.arguments.items() if is_float(one) and one.dtype != torch.float64}
    if not narrow or asked.scenario or (asked.grad_of and same_outcome(right, mine, values_only=True)):
        return None
    if any(_has_nan(got) for _, got in beside(right, mine)):
        return None
    dtype = str(next(iter(narrow.values())).dtype).removeprefix("torch.")
    wide = {name: one.double() for name, one in narrow.items()}
    return Sign(Shows.DIGITS_LOST, (dtype,)) if _is_right_with(asked, wide, ask) else None


def has_16_bits(asked: Call) -> bool:
    return any(is_float(one) and one.dtype in (torch.float16, torch.bfloat16) for one in asked.arguments.values())


def _has_nan(tensor: Any) -> bool:
    return isinstance(tensor, Tensor) and bool(tensor.isnan().any())


def _form(right: Outcome, mine: Outcome) -> Sign | None:
    """What a wrong type of the answer, or of its first part that has one, comes from."""
    found = dict(leaves_of(mine.value))
    for due, got in ((one, found[path]) for path, one in leaves_of(right.value) if path in found):
        if isinstance(due, Tensor) and isinstance(got, (int, float)):
            return Sign(Shows.A_NUMBER)
        if isinstance(due, (int, float)) and isinstance(got, Tensor):
            return Sign(Shows.A_TENSOR)
    return None


def _squeezed(right: Outcome, mine: Outcome, wrong: Sequence[Call], ask: Ask) -> Sign | None:
    """Sizes of 1 are gone, and nothing else is wrong anywhere."""
    if not _lacks_ones(right, mine) or not all(_lacks_ones(*ask(one)) for one in wrong):
        return None
    return Sign(Shows.SQUEEZED, (tuple(right.value.shape),))


def _lacks_ones(right: Outcome, mine: Outcome) -> bool:
    due, got = right.value, mine.value
    is_tensor = isinstance(due, Tensor) and isinstance(got, Tensor)
    return is_tensor and due.shape != got.shape and [one for one in due.shape if one != 1] == [*got.shape]
