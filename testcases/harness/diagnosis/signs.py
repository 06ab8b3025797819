"""Causes that a wrong answer shows by itself, whatever the code: what was changed, cut off, hidden or rounded, of which
type and shape it is, or that it is wrong for one special number only. The last are tested: without that number the
answer has to be right.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..execution.messages import Call, Outcome, fields_of, tensors_in
from ..oracle.reference import shared_reference
from ..report.compare import EXACT, close, is_rounding, same_outcome, same_slope
from .mistakes import is_flags, is_float
from .parts import floats_of, is_evidence
from .values import CHEAP, Ask, Seen, Shows, Sign

SHORT, LONG = 200, 255
"""Columns that any dtype counts, and more than an 8-bit one does."""
CONSTANTS = (0.0, 1e-8, 1e-5, 1e-4, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 0.9, 0.95, 0.97, 0.98, 0.99,
             0.995, 0.999, 1.0, 2.0, 5.0, 10.0)  # fmt: skip
"""Numbers that people write for an option."""
ROUND = (0.0, 0.25, 0.5, 1.0, 2.0)
CUTS = re.compile(r"\.float\(\)|float32")
MADE = re.compile(r"\b(zeros|ones|empty|full|tensor|arange|linspace|eye)\(")
SMALL = re.compile(r"\b(u?int8|b?float16|half|byte|char)\b")
"""Dtypes that count no further than a few hundred or thousand."""


def sign_of(failing: Seen, wrong: Sequence[Call], ask: Ask, code: str) -> Sign | None:
    """`wrong`: the ordinary examples that the student has wrong as well; `code`: the function."""
    asked, right, mine = failing
    if right.error or mine.error and not mine.error.frames:
        return None
    told = (
        (lambda: _changed(right, mine)),
        (lambda: _left(right, mine)),
        (lambda: form_of(*failing, wrong, ask)),
        (lambda: _gradient(*failing, wrong, ask)),
        (lambda: _of_nan(right, mine)),
        (lambda: _dtype(right, mine, code)),
        (lambda: _digits(*failing)),
        (lambda: _tamed(*failing, ask)),
        (lambda: _of_float32(*failing, ask)),
        (lambda: next(_tested(failing, wrong, ask, code), None)),
        (lambda: next(_other_numbers(failing, wrong, ask), None)),
    )
    return next(filter(None, (tell() for tell in told)), None)


# Shown


def _changed(right: Outcome, mine: Outcome) -> Sign | None:
    nested = [name.rpartition(".")[2] for name in mine.left_behind if name.startswith(("first.", "second."))]
    if not mine.changed or right.changed or not same_outcome(right, replace(mine, changed=(), left_behind=()), True):
        return None
    return Sign(Shows.CHANGED, tuple(dict.fromkeys(nested or mine.changed)))


def _left(right: Outcome, mine: Outcome) -> Sign | None:
    left = [name for name in mine.left_behind if name not in right.left_behind]
    if not left or not same_outcome(right, mine, values_only=True):
        return None
    if all(name.endswith(".grad") for name in left):
        return Sign(Shows.GRADIENTS_LEFT, tuple(name.removesuffix(".grad") for name in left))
    return Sign(Shows.NOT_PUT_BACK, tuple(left))


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


def _dtype(right: Outcome, mine: Outcome, code: str) -> Sign | None:
    every = zip(tensors_in(right.value), tensors_in(mine.value), strict=False)
    pairs = [(due, got) for due, got in every if due.shape == got.shape and due.dtype != got.dtype]
    if not pairs:
        return None
    if any((due.dtype, got.dtype) != (torch.float64, torch.float32) for due, got in pairs):
        return Sign(Shows.OTHER_DTYPE, tuple(str(one.dtype) for one in reversed(pairs[0])))
    if CUTS.search(code):
        return Sign(Shows.CUT_DOWN)
    return Sign(Shows.DEFAULT_DTYPE) if not code or MADE.search(code) else None


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


def _digits(asked: Call, right: Outcome, mine: Outcome) -> Sign | None:
    pairs = [(due, got) for due, got in numbers_of(right, mine) if not bool(close(due, got, EXACT).all())]
    # A step of a training that is small anyway agrees as well.
    is_alone = not asked.scenario or ("." not in asked.exercise and "learning_rate" not in asked.arguments)
    return Sign(Shows.SIX_DIGITS) if is_alone and pairs and all(is_rounding(*pair) for pair in pairs) else None


def _of_float32(asked: Call, right: Outcome, mine: Outcome, ask: Ask) -> Sign | None:
    """Right of the same numbers in float64."""
    narrow = {name: one for name, one in asked.arguments.items() if is_float(one) and one.dtype == torch.float32}
    if not narrow or asked.scenario or any(_has_nan(got) for _, got in numbers_of(right, mine)):
        return None
    wide = {name: one.double() for name, one in narrow.items()}
    return Sign(Shows.DIGITS_LOST) if _is_right_with(asked, wide, ask) else None


def numbers_of(right: Outcome, mine: Outcome) -> list[tuple[Tensor, Tensor]]:
    """The tensors of both answers; none if they are not of the same form."""
    due, got = ([*tensors_in(one.value)] for one in (right, mine))
    if [one.shape for one in due] != [one.shape for one in got]:
        return []
    return [pair for pair in zip(due, got, strict=True) if all(one.is_floating_point() for one in pair)]


def _has_nan(tensor: Any) -> bool:
    return bool(tensor.isnan().any()) if isinstance(tensor, Tensor) else isinstance(tensor, float) and tensor != tensor


# Tested


def _tested(failing: Seen, wrong: Sequence[Call], ask: Ask, code: str) -> Iterator[Sign]:
    """What is wrong only because of one number, or of a size: with another one the answer is right."""
    asked, right, mine = failing
    broken = not all(bool(one.isfinite().all()) for one in tensors_in(mine.value))
    if asked.seconds > CHEAP or not (mine.error or broken or is_evidence(right, mine)):
        return
    of_data = _of_data(asked, code) if not wrong and not mine.error else ()
    for sign, changed in itertools.chain(_of_options(asked, mine, wrong), of_data):
        if _is_right_with(asked, changed, ask):
            yield sign


def _of_options(asked: Call, mine: Outcome, wrong: Sequence[Call]) -> Iterator[tuple[Sign, dict[str, Any]]]:
    """A cause, and the arguments without what it needs: a number that is 0 or 1, as in all that is wrong; no entry."""
    broken = any(not bool(one.isfinite().all()) for one in tensors_in(mine.value))
    for name, value in asked.arguments.items():
        if isinstance(value, Tensor) or any(repr(other.arguments.get(name)) != repr(value) for other in wrong):
            continue
        if type(value) in (int, float) and value in (0, 1):
            if mine.error:
                shows = Shows.NOT_EXPECTED
            elif broken and value == 0:
                shows = Shows.DIVIDED
            else:
                shows = Shows.FALSY if value == 0 else Shows.APART
            if not (asked.scenario and type(value) is int):  # Of a size, 1 may be what makes several parts.
                yield Sign(shows, (name, value)), {name: 2 if type(value) is int else 0.75}
        elif isinstance(value, (list, tuple)) and not value:
            yield Sign(Shows.EMPTY, (name,)), {name: type(value)([2])}


def _of_data(asked: Call, code: str) -> Iterator[tuple[Sign, dict[str, Any]]]:
    """The same, of the numbers of a tensor, or their count."""
    for dim in (1, 0) if SMALL.search(code) else ():
        sizes = [one.shape[dim] for one in asked.arguments.values() if isinstance(one, Tensor) and one.dim() > dim]
        if sizes and min(sizes) > LONG:
            narrow = {name: _narrowed(one, dim, min(sizes)) for name, one in asked.arguments.items()}
            yield Sign(Shows.COUNTED), narrow
    numbers = [(name, one) for name, one in asked.arguments.items() if is_float(one) and not is_flags(one)]
    for name, one in numbers:
        if bool((one == 0).any()):
            yield Sign(Shows.EXACTLY_0, (name,)), {name: one.masked_fill(one == 0, 1e-3)}
    for name, one in numbers:
        if len(one.unique()) < one.numel():
            yield Sign(Shows.EQUAL, (name,)), {name: one + 1e-3 * torch.arange(one.numel()).reshape(one.shape)}


def _narrowed(value: Any, dim: int, size: int) -> Any:
    """The last columns; a tensor with one more, as the values of lesson 4, keeps one more."""
    if not isinstance(value, Tensor) or value.dim() <= dim or value.shape[dim] not in (size, size + 1):
        return value
    return value.narrow(dim, size - SHORT, SHORT + value.shape[dim] - size)


def _other_numbers(failing: Seen, wrong: Sequence[Call], ask: Ask) -> Iterator[Sign]:
    """Another number in place of an option, or of its default, where it explains all that is wrong with that one."""
    asked, right, mine = failing
    if asked.seconds > CHEAP or asked.scenario or not is_evidence(right, mine):
        return
    for name, parameter in shared_reference().parameters(asked.lesson, asked.exercise).items():
        value = asked.arguments.get(name, parameter.default)
        if type(value) not in (int, float):
            continue
        alike = [one for one in wrong if one.arguments.get(name, parameter.default) == value]
        alone = len(alike) == len(wrong) > 1
        due, got = ask(_with(asked, name, type(value)(_moved(value))))
        if not same_outcome(mine if name in asked.arguments else due, got, values_only=True):
            continue  # The option is used, and only here as if it were another number: 1 / (1 + 0.25) is 1 - 0.2.
        for number in (one for one in CONSTANTS if one != value and (alone or one not in ROUND)):
            # Other mistakes may be in the other wrong ones: then an odd number tells by itself.
            seen = [(asked, mine), *((one, ask(one)[1]) for one in alike[: 3 if alone else 0])]
            others = ((_with(one, name, type(value)(number)), got) for one, got in seen)
            # A bound that does not act may be any number.
            near = ask(_with(asked, name, type(value)(_moved(number))))[0]
            acts = not same_outcome(near, mine, values_only=True)
            if acts and all(same_outcome(ask(one)[0], got, values_only=True) for one, got in others):
                shows = Shows.WRITTEN_NUMBER if name in asked.arguments else Shows.WRITTEN_DEFAULT
                yield Sign(shows, (name, number, value))


def _moved(number: float) -> float:
    return 1.3 * number + 1e-3


def _with(asked: Call, name: str, number: float) -> Call:
    arguments = {**asked.arguments, name: number}
    return replace(asked, arguments=arguments, positional=0, grad_of=(), grad_weights=None)


# Type and shape


def form_of(asked: Call, right: Outcome, mine: Outcome, wrong: Sequence[Call], ask: Ask) -> Sign | None:
    """What a wrong type or shape of the answer, or of its first part that has one, comes from."""
    found, sizes = _of_form(asked, right, mine), _of_one_size(asked, right, mine)
    if found or not sizes:
        return found
    # One column more may be chance: it has to be so wherever a size is wrong.
    others = ((one, *ask(one)) for one in wrong)
    return sizes if all(_of_one_size(*one) == sizes for one in others if _has_other_size(*one[1:])) else None


def _has_other_size(right: Outcome, mine: Outcome) -> bool:
    return any(
        isinstance(due, Tensor) and isinstance(got, Tensor) and due.shape != got.shape
        for due, got in _forms(right.value, mine.value)
    )


def _of_form(asked: Call, right: Outcome, mine: Outcome) -> Sign | None:
    for due, got in _forms(right.value, mine.value):
        if isinstance(due, Tensor) and isinstance(got, (int, float)):
            return Sign(Shows.A_NUMBER)
        if isinstance(due, (int, float)) and isinstance(got, Tensor):
            return Sign(Shows.A_TENSOR)
        if isinstance(due, Tensor) and isinstance(got, Tensor) and due.shape != got.shape:
            return _of_dimensions(asked, due, got) if due.dim() != got.dim() else _of_sizes(asked, due, got)
    # The keys of a scenario are no student's.
    if isinstance(right.value, dict) and isinstance(mine.value, dict) and not asked.scenario:
        missing = [key for key in right.value if key not in mine.value]
        others = [key for key in mine.value if key not in right.value]
        if missing:
            return Sign(Shows.OTHER_KEY, (others[0], missing[0])) if others else Sign(Shows.NO_KEY, (missing[0],))
    return None


def _forms(right: Any, mine: Any) -> Iterator[tuple[Any, Any]]:
    right, mine = fields_of(right)[0], fields_of(mine)[0]
    if isinstance(right, dict) and isinstance(mine, dict):
        yield from ((right[key], mine[key]) for key in right if key in mine)
    elif isinstance(right, tuple) and isinstance(mine, tuple) and len(right) == len(mine):
        yield from zip(right, mine, strict=True)
    else:
        yield right, mine


def _of_dimensions(asked: Call, due: Tensor, got: Tensor) -> Sign | None:
    masks = [value for name, value in asked.arguments.items() if "mask" in name and isinstance(value, Tensor)]
    if got.dim() == 1 and any(mask.shape == due.shape and got.numel() == int(mask.sum()) for mask in masks):
        return Sign(Shows.REAL_ALONE)
    sizes = [size for size in got.shape if size != 1] == [size for size in due.shape if size != 1]
    if got.dim() > due.dim() and sizes and got.numel() > 1:
        return Sign(Shows.SIZE_1_LEFT)
    if got.dim() == 2 * due.dim():
        return Sign(Shows.EVERY_INDEX)
    if got.dim() > due.dim() and got.shape[: due.dim()] == due.shape and got.numel() > due.numel():
        return Sign(Shows.LEFT_AT_END)
    return Sign(Shows.REDUCED) if got.dim() < due.dim() and due.numel() > 1 else None


def _of_sizes(asked: Call, due: Tensor, got: Tensor) -> Sign | None:
    place, *more = [i for i, (one, other) in enumerate(zip(due.shape, got.shape, strict=True)) if one != other]
    if more or (asked.scenario and due.dim() == 1):  # Numbers of steps or batches, not a student's tensor.
        return None
    one, other, name = due.shape[place], got.shape[place], _dimension(due, place)
    given = [
        key
        for key, value in asked.arguments.items()
        if isinstance(value, Tensor) and value.dim() > place and value.shape[place] == other
    ]
    if other == 0:
        return Sign(Shows.NONE_AT_ALL, (name,))
    if other == 1 and one > 2:
        return Sign(Shows.ONE_OF_MANY, (name, one))
    return Sign(Shows.AS_MANY_AS, (name, given[0])) if given and other > one + 1 and not asked.scenario else None


def _of_one_size(asked: Call, right: Outcome, mine: Outcome) -> Sign | None:
    """One row or column too many or too few."""
    pairs = [pair for pair in _forms(right.value, mine.value) if all(isinstance(one, Tensor) for one in pair)]
    due, got = next(((due, got) for due, got in pairs if due.shape != got.shape), (None, None))
    if due is None or got is None or due.dim() != got.dim() or (asked.scenario and due.dim() == 1):
        return None
    place, *more = [i for i, (one, other) in enumerate(zip(due.shape, got.shape, strict=True)) if one != other]
    difference = got.shape[place] - due.shape[place]
    if more or abs(difference) != 1:
        return None
    return Sign(Shows.ONE_TOO_MANY if difference > 0 else Shows.ONE_TOO_FEW, (_dimension(due, place),))


def _dimension(tensor: Tensor, place: int) -> str:
    return "row" if place == 0 and tensor.dim() > 1 else "column"
