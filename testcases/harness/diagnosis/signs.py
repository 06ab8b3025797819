"""Causes that a wrong answer shows by itself, whatever the code: what was changed, cut off, hidden or rounded, of which
type it is, or that it is wrong for one special number only. The last are tested: without that number the answer has to
be right.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..execution.messages import Call, Outcome, fields_of, tensors_in
from ..report.compare import EXACT, close, is_rounding, same_outcome, same_slope
from .mistakes import is_flags, is_float
from .parts import floats_of, is_evidence
from .values import CHEAP, Ask, Seen, Shows, Sign

CONSTANTS = (0.0, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 1.0, 2.0,
             5.0, 10.0)  # fmt: skip
"""Numbers that people write for an option."""
ROUND = (0.0, 0.25, 0.5, 1.0, 2.0)


def sign_of(failing: Seen, wrong: Sequence[Call], ask: Ask) -> Sign | None:
    """`wrong`: the ordinary examples that the student has wrong as well."""
    asked, right, mine = failing
    if right.error or mine.error and not mine.error.frames:
        return None
    told = (
        (lambda: _changed(right, mine)),
        (lambda: _form(*failing)),
        (lambda: _gradient(*failing, wrong, ask)),
        (lambda: _of_nan(right, mine)),
        (lambda: _dtype(right, mine)),
        (lambda: _six_digits(*failing)),
        (lambda: _tamed(*failing, ask)),
        (lambda: digits_lost(*failing, ask)),
        (lambda: next(_exactly_0(failing, wrong, ask), None)),
        (lambda: next(_other_numbers(failing, wrong, ask), None)),
    )
    return next(filter(None, (tell() for tell in told)), None)


# Shown


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


def _six_digits(asked: Call, right: Outcome, mine: Outcome) -> Sign | None:
    pairs = [(due, got) for due, got in numbers_of(right, mine) if not bool(close(due, got, EXACT).all())]
    # A step of a training that is small anyway agrees as well.
    is_alone = not asked.scenario or ("." not in asked.exercise and "learning_rate" not in asked.arguments)
    return Sign(Shows.SIX_DIGITS) if is_alone and pairs and all(is_rounding(*pair) for pair in pairs) else None


def _tamed(asked: Call, right: Outcome, mine: Outcome, ask: Ask) -> Sign | None:
    """NaN or infinity of an answer that is right where infinite numbers are only large, or large ones smaller."""
    pairs = numbers_of(right, mine)
    if any(_has_nan(got) and not _has_nan(due) for due, got in pairs):
        if _is_right_tamed(asked, lambda one: not bool(one.isfinite().all()), 300.0, ask):
            return Sign(Shows.TIMES_INFINITY)
    if any(bool((due.isfinite() & ~got.isfinite()).any()) for due, got in pairs):
        if _is_right_tamed(asked, lambda one: bool((one.nan_to_num().abs() > 80).any()), 30.0, ask):
            return Sign(Shows.OVERFLOWS)
    return None


def _is_right_tamed(asked: Call, is_wild: Any, most: float, ask: Ask) -> bool:
    """Whether the answer is right with the wild arguments cut off at `most`."""
    given = {name: one for name, one in asked.arguments.items() if is_float(one) and is_wild(one)}
    tamed = {name: one.nan_to_num(0.5).clamp(-most, most) for name, one in given.items()}
    return bool(given) and _is_right_with(asked, tamed, ask)


def _is_right_with(asked: Call, changed: dict[str, Any], ask: Ask) -> bool:
    due, got = ask(replace(asked, arguments={**asked.arguments, **changed}, grad_of=(), grad_weights=None))
    return not due.error and same_outcome(due, got, values_only=True)


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


# Tested: another number, with which the answer is right


def _exactly_0(failing: Seen, wrong: Sequence[Call], ask: Ask) -> Iterator[Sign]:
    """Wrong only because numbers of a tensor are exactly 0."""
    asked, right, mine = failing
    if asked.seconds > CHEAP or wrong or mine.error or not is_evidence(right, mine):
        return
    for name, one in asked.arguments.items():
        if is_float(one) and not is_flags(one) and bool((one == 0).any()):
            if _is_right_with(asked, {name: one.masked_fill(one == 0, 1e-3)}, ask):
                yield Sign(Shows.EXACTLY_0, (name,))


def _other_numbers(failing: Seen, wrong: Sequence[Call], ask: Ask) -> Iterator[Sign]:
    """Another number in place of an option, where it explains all that is wrong with that one."""
    asked, right, mine = failing
    if asked.seconds > CHEAP or asked.scenario or not is_evidence(right, mine):
        return
    for name, value in asked.arguments.items():
        if type(value) not in (int, float):
            continue
        alike = [one for one in wrong if one.arguments.get(name) == value]
        alone = len(alike) == len(wrong) > 1
        if not same_outcome(mine, ask(_with(asked, name, type(value)(_moved(value))))[1], values_only=True):
            continue  # The option is used, and only here as if it were another number: 1 / (1 + 0.25) is 1 - 0.2.
        for number in (one for one in CONSTANTS if one != value and (alone or one not in ROUND)):
            # Other mistakes may be in the other wrong ones: then an odd number tells by itself.
            seen = [(asked, mine), *((one, ask(one)[1]) for one in alike[: 3 if alone else 0])]
            others = ((_with(one, name, type(value)(number)), got) for one, got in seen)
            # A bound that does not act may be any number.
            near = ask(_with(asked, name, type(value)(_moved(number))))[0]
            acts = not same_outcome(near, mine, values_only=True)
            if acts and all(same_outcome(ask(one)[0], got, values_only=True) for one, got in others):
                yield Sign(Shows.WRITTEN_NUMBER, (name, number, value))


def _moved(number: float) -> float:
    return 1.3 * number + 1e-3


def _with(asked: Call, name: str, number: float) -> Call:
    arguments = {**asked.arguments, name: number}
    return replace(asked, arguments=arguments, positional=0, grad_of=(), grad_weights=None)


def _form(asked: Call, right: Outcome, mine: Outcome) -> Sign | None:
    """What a wrong type of the answer, or of its first part that has one, comes from."""
    for due, got in _forms(right.value, mine.value):
        if isinstance(due, Tensor) and isinstance(got, (int, float)):
            return Sign(Shows.A_NUMBER)
        if isinstance(due, (int, float)) and isinstance(got, Tensor):
            return Sign(Shows.A_TENSOR)
        if isinstance(due, Tensor) and isinstance(got, Tensor) and due.shape != got.shape and got.dim() == 1:
            masks = [one for name, one in asked.arguments.items() if "mask" in name and isinstance(one, Tensor)]
            if any(one.shape == due.shape and got.numel() == int(one.sum()) for one in masks):
                return Sign(Shows.REAL_ALONE)
    return None


def _forms(right: Any, mine: Any) -> Iterator[tuple[Any, Any]]:
    right, mine = fields_of(right)[0], fields_of(mine)[0]
    if isinstance(right, dict) and isinstance(mine, dict):
        yield from ((right[key], mine[key]) for key in right if key in mine)
    elif isinstance(right, tuple) and isinstance(mine, tuple) and len(right) == len(mine):
        yield from zip(right, mine, strict=True)
    else:
        yield right, mine
