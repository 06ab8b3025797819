"""Causes that a wrong answer shows by itself, whatever the code: what was changed, kept, cut off, hidden or rounded, or
is wrong for one special number only. The last are tested: without that number the answer has to be right.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...execution import Outcome, Request, tensors_in
from ...oracle import shared_reference
from ...report import EXACT, Rules, close, is_rounding, same_outcome, same_slope
from ..hypotheses import CHEAP, is_flags, is_float
from .sentences import Evidence, Several, Sign
from .signs import Ask, Seen, form_of

SHORT, LONG = 200, 255
"""Columns that any dtype counts, and more than an 8-bit one does."""

CONSTANTS = (0.0, 1e-8, 1e-5, 1e-4, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 0.9, 0.95, 0.97, 0.98, 0.99,
             0.995, 0.999, 1.0, 2.0, 5.0, 10.0)  # fmt: skip
"""Numbers that people write for an option."""
ROUND = (0.0, 0.25, 0.5, 1.0, 2.0)
CUTS = re.compile(r"\.float\(\)|float32")
MADE = re.compile(r"\b(zeros|ones|empty|full|tensor|arange|linspace|eye)\(")


def cause_shown(failing: Seen, wrong: Sequence[Request], ask: Ask, code: str = "") -> Evidence | None:
    """`wrong`: the ordinary examples that the student has wrong as well; `code`: the function."""
    told = itertools.chain(
        (tell(*failing) for tell in (_changed, _left)),
        (form_of(*failing, wrong, ask), _gradient(*failing, wrong, ask), _lost(*failing), _of_nan(*failing)),
        (_dtype(*failing, code), _digits(*failing)),
        (tell(*failing, ask) for tell in (_of_infinity, _of_large, _of_float32)),
    )
    every = itertools.chain(told, _tested(failing, wrong, ask), _other_numbers(failing, wrong, ask))
    return None if failing[1].error else next(filter(None, every), None)


# Shown


def _changed(asked: Request, right: Outcome, mine: Outcome) -> Evidence | None:
    nested = [name.rpartition(".")[2] for name in mine.left_behind if name.startswith(("first.", "second."))]
    if not mine.changed or right.changed or not same_outcome(right, replace(mine, changed=(), left_behind=()), True):
        return None
    return Sign.CHANGED(Several(dict.fromkeys(nested or mine.changed)))


def _left(asked: Request, right: Outcome, mine: Outcome) -> Evidence | None:
    left = [name for name in mine.left_behind if name not in right.left_behind]
    if not left or not same_outcome(right, mine, values_only=True):
        return None
    if all(name.endswith(".grad") for name in left):
        return Sign.GRADIENTS_LEFT(Several(name.removesuffix(".grad") for name in left))
    return Sign.NOT_PUT_BACK(Several(left))


def _gradient(asked: Request, right: Outcome, mine: Outcome, wrong: Sequence[Request], ask: Ask) -> Evidence | None:
    differ = [name for name, slope in right.gradients.items() if not same_slope(slope, mine.gradients.get(name))]
    if not differ or not same_outcome(right, mine, values_only=True):
        return None
    pairs = [(right.gradients[name], mine.gradients.get(name)) for name in differ]
    if all(got is None for _, got in pairs):
        return Sign.CUT_OFF(Several(differ))
    if not any(got is None or bool(got.any()) for _, got in pairs):
        return Sign.FLAT(Several(differ))
    due_elsewhere = (ask(one)[0].gradients.get(name) for one in wrong for name in differ)
    if all(due is None or not bool(due.any()) for due in (*(due for due, _ in pairs), *due_elsewhere)):
        return Sign.UNDUE(Several(differ))
    return Sign.NAN_IN_GRADIENT() if all(_has_nan(got) and not _has_nan(due) for due, got in pairs) else None


def _lost(asked: Request, right: Outcome, mine: Outcome) -> Evidence | None:
    """Gradients that a scenario has among its answers, and that are all 0 where none of the right ones is."""
    if not (asked.scenario and isinstance(right.value, dict) and isinstance(mine.value, dict)):
        return None
    pairs = [(due, mine.value.get(name)) for name, due in right.value.items() if "gradient" in name]
    pairs = [(due, got) for due, got in pairs if isinstance(due, Tensor) and bool(due.any())]
    is_flat = pairs and all(isinstance(got, Tensor) and not bool(got.any()) for _, got in pairs)
    return Sign.CUT_OFF(Sign.WEIGHTS()) if is_flat else None


def _of_nan(asked: Request, right: Outcome, mine: Outcome) -> Evidence | None:
    pairs = [*_numbers(right, mine), *_floats(right.value, mine.value)]
    return Sign.NAN_HIDDEN() if any(_has_nan(due) and not _has_nan(got) for due, got in pairs) else None


def _dtype(asked: Request, right: Outcome, mine: Outcome, code: str) -> Evidence | None:
    every = zip(tensors_in(right.value), tensors_in(mine.value), strict=False)
    pairs = [(due, got) for due, got in every if due.shape == got.shape and due.dtype != got.dtype]
    if not pairs:
        return None
    if any((due.dtype, got.dtype) != (torch.float64, torch.float32) for due, got in pairs):
        return Sign.OTHER_DTYPE(*(one.dtype for one in reversed(pairs[0])))
    if CUTS.search(code):
        return Sign.CUT_DOWN()
    agree = all(torch.allclose(due, got.double(), 1e-5, 1e-5, equal_nan=True) for due, got in pairs)
    rest = None if agree else Sign.NUMBERS_AS_WELL()
    return Sign.DEFAULT_DTYPE() + rest if not code or MADE.search(code) else None


def _of_infinity(asked: Request, right: Outcome, mine: Outcome, ask: Ask) -> Evidence | None:
    """NaN of an answer that is right where what is infinite is only large."""
    pairs = _numbers(right, mine)
    given = {name: one for name, one in asked.arguments.items() if _is_broken(one)}
    if not given or not any(_has_nan(got) and not _has_nan(due) for due, got in pairs):
        return None
    return Sign.TIMES_INFINITY() if _is_right_tamed(asked, given, 300.0, ask) else None


def _of_large(asked: Request, right: Outcome, mine: Outcome, ask: Ask) -> Evidence | None:
    """What is not finite, and is right where large numbers are smaller."""
    given = {name: one for name, one in asked.arguments.items() if _is_large(one)}
    if not given or not any(bool((due.isfinite() & ~got.isfinite()).any()) for due, got in _numbers(right, mine)):
        return None
    return Sign.OVERFLOWS() if _is_right_tamed(asked, given, 30.0, ask) else None


def _is_broken(value: Any) -> bool:
    return is_float(value) and not bool(value.isfinite().all())


def _is_large(value: Any) -> bool:
    return is_float(value) and bool((value.nan_to_num().abs() > 80).any())


def _is_right_tamed(asked: Request, given: dict[str, Tensor], most: float, ask: Ask) -> bool:
    """Whether the answer is right with these arguments cut off at `most`."""
    tamed = {name: one.nan_to_num(0.5).clamp(-most, most) for name, one in given.items()}
    due, got = ask(replace(asked, arguments={**asked.arguments, **tamed}, grad_of=(), grad_weights=None))
    return not due.error and same_outcome(due, got, values_only=True)


def _digits(asked: Request, right: Outcome, mine: Outcome) -> Evidence | None:
    pairs = [(due, got) for due, got in _numbers(right, mine) if not bool(close(due, got, EXACT).all())]
    # A step of a training that is small anyway agrees as well.
    is_alone = not asked.scenario or ("." not in asked.exercise and "learning_rate" not in asked.arguments)
    return Sign.SIX_DIGITS() if is_alone and pairs and all(is_rounding(*pair) for pair in pairs) else None


def _of_float32(asked: Request, right: Outcome, mine: Outcome, ask: Ask) -> Evidence | None:
    """Right of the same numbers in float64."""
    narrow = {name: one for name, one in asked.arguments.items() if _is_of(one, torch.float32)}
    if not narrow or asked.scenario or any(_has_nan(got) for _, got in _numbers(right, mine)):
        return None
    wide = {name: one.double() for name, one in narrow.items()}
    due, got = ask(replace(asked, arguments={**asked.arguments, **wide}, grad_of=(), grad_weights=None))
    return Sign.DIGITS_LOST() if not due.error and same_outcome(due, got, values_only=True) else None


def _is_of(value: Any, dtype: torch.dtype) -> bool:
    return isinstance(value, Tensor) and value.dtype == dtype


def _other_numbers(failing: Seen, wrong: Sequence[Request], ask: Ask) -> Iterator[Evidence]:
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
                is_given = name in asked.arguments
                yield Sign.ANOTHER_NUMBER(name, number, value) if is_given else Sign.ANOTHER_DEFAULT(name, number)


def _moved(number: float) -> float:
    return 1.3 * number + 1e-3


def _with(asked: Request, name: str, number: float) -> Request:
    arguments = {**asked.arguments, name: number}
    return replace(asked, arguments=arguments, positional=0, grad_of=(), grad_weights=None)


def is_evidence(right: Outcome, mine: Outcome) -> bool:
    """Whether agreement with this wrong answer says something: it is not NaN, 0 or constant where it differs."""
    due, got = ([*tensors_in(one.value)] for one in (right, mine))
    if mine.error:
        return False
    slopes = [(one, mine.gradients.get(name)) for name, one in right.gradients.items()]
    pairs = [*zip(due, got, strict=False), *((a, b) for a, b in slopes if a is not None and b is not None)]
    pairs += [(torch.tensor(a), torch.tensor(b)) for a, b in _floats(right.value, mine.value)]
    if [one.shape for one in due] != [one.shape for one in got]:
        return bool(got)
    differ = [(a, b) for a, b in pairs if a.dtype == b.dtype and not bool(close(a, b, EXACT).all())]
    return any(a.dtype != b.dtype for a, b in pairs) or any(_says_something(*pair) for pair in differ)


def _says_something(right: Tensor, got: Tensor) -> bool:
    if not got.is_floating_point():
        return True
    off = ~close(right, got, Rules(equal_nan=True))
    numbers = got[off] if got.dim() else got.reshape(1)
    return bool((numbers.isfinite() & (numbers != 0)).any())


def _floats(right: Any, mine: Any) -> list[tuple[float, float]]:
    if isinstance(right, dict) and isinstance(mine, dict):
        return [pair for key in right.keys() & mine.keys() for pair in _floats(right[key], mine[key])]
    if isinstance(right, (list, tuple)) and isinstance(mine, (list, tuple)) and len(right) == len(mine):
        return [pair for one, other in zip(right, mine, strict=True) for pair in _floats(one, other)]
    return [(right, mine)] if isinstance(right, float) and isinstance(mine, float) else []


def _numbers(right: Outcome, mine: Outcome) -> list[tuple[Tensor, Tensor]]:
    """The tensors of both answers; none if they are not of the same form."""
    due, got = ([*tensors_in(one.value)] for one in (right, mine))
    if [one.shape for one in due] != [one.shape for one in got]:
        return []
    return [pair for pair in zip(due, got, strict=True) if all(one.is_floating_point() for one in pair)]


def _has_nan(tensor: Any) -> bool:
    return bool(tensor.isnan().any()) if isinstance(tensor, Tensor) else isinstance(tensor, float) and tensor != tensor


# Tested


def _tested(failing: Seen, wrong: Sequence[Request], ask: Ask) -> Iterator[Evidence]:
    """What is wrong only because of one number, or of a size: with another one the answer is right."""
    asked, right, mine = failing
    broken = not all(bool(one.isfinite().all()) for one in tensors_in(mine.value))
    if asked.seconds > CHEAP or not (mine.error or broken or is_evidence(right, mine)):
        return
    of_data = _of_data(asked) if not wrong and not mine.error else ()
    for cause, changed in itertools.chain(_of_options(asked, mine, wrong), of_data):
        due, got = ask(replace(asked, arguments={**asked.arguments, **changed}, grad_of=(), grad_weights=None))
        if not due.error and same_outcome(due, got, values_only=True):
            yield cause


def _of_options(asked: Request, mine: Outcome, wrong: Sequence[Request]) -> Iterator[tuple[Evidence, dict[str, Any]]]:
    """A cause, and the arguments without what it needs: a number that is 0 or 1, as in all that is wrong; no entry."""
    broken = any(not bool(one.isfinite().all()) for one in tensors_in(mine.value))
    for name, value in asked.arguments.items():
        if isinstance(value, Tensor) or any(repr(other.arguments.get(name)) != repr(value) for other in wrong):
            continue
        if type(value) in (int, float) and value in (0, 1):
            cause = Sign.APART(name, value) + (Sign.FALSY(name) if value == 0 else None)
            if asked.scenario and type(value) is int:  # Of a size, 1 may be what makes several parts.
                cause = Sign.WRONG_WITH(name, 2, value)
            if mine.error:
                cause = Sign.NOT_EXPECTED(name, value)
            elif broken and value == 0:
                cause = Sign.DIVIDED(name)
            yield cause, {name: 2 if type(value) is int else 0.75}
        elif isinstance(value, (list, tuple)) and not value:
            yield Sign.EMPTY(name), {name: type(value)([2])}


def _of_data(asked: Request) -> Iterator[tuple[Evidence, dict[str, Any]]]:
    """The same, of the numbers of a tensor, or their count."""
    for dim in (1, 0):
        sizes = [one.shape[dim] for one in asked.arguments.values() if isinstance(one, Tensor) and one.dim() > dim]
        if sizes and min(sizes) > LONG:
            yield Sign.COUNTED(), {name: _narrowed(one, dim, min(sizes)) for name, one in asked.arguments.items()}
    numbers = [
        (name, one) for name, one in asked.arguments.items() if isinstance(one, Tensor) and one.dtype.is_floating_point
    ]
    for name, one in numbers:
        if bool((one == 0).any()) and not is_flags(one):
            yield Sign.EXACTLY_0(name), {name: one.masked_fill(one == 0, 1e-3)}
    for name, one in numbers:
        if len(one.unique()) < one.numel() and not is_flags(one):
            yield Sign.EQUAL(name), {name: one + 1e-3 * torch.arange(one.numel()).reshape(one.shape)}


def _narrowed(value: Any, dim: int, size: int) -> Any:
    """The last columns, as only the first are right in an answer that doesn't read a whole row; a tensor with one more,
    as the values of lesson 4, keeps one more."""
    if not isinstance(value, Tensor) or value.dim() <= dim or value.shape[dim] not in (size, size + 1):
        return value
    return value.narrow(dim, size - SHORT, SHORT + value.shape[dim] - size)
