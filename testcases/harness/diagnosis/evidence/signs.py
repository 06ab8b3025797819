"""Signs in a wrong answer itself: its type and shape, what it left changed, and a row that is wrong by itself."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from ...execution import Outcome, Request, fields_of
from ...report import same_outcome, show, show_argument, type_name
from .sentences import Evidence, Kind, Part, Place, Several, Sign

Seen = tuple[Request, Outcome, Outcome]
"""A question, the right answer, and the student's."""
Ask = Callable[[Request], tuple[Outcome, Outcome]]
"""The right answer to another question, and the student's."""


Parts = dict[Part, Any]
"""What an answer has in each part."""
Pair = tuple[Request, Parts, Parts]
"""A question, and the parts of the right answer and of the student's."""
MOST_ROWS = 16
OFF_BY_ONE = Sign.ONE_TOO_MANY, Sign.ONE_TOO_FEW


def rounded(number: float, digits: int) -> float:
    """As it is said: what differs in further digits is the same."""
    return float(f"{number:.{digits}g}")


def beside_the_answer(failing: Seen) -> Evidence | None:
    """What the call left changed, if its answer is right."""
    _, right, mine = failing
    changed = [*mine.changed, *(name for name in mine.left_behind if name not in right.left_behind)]
    clean = replace(mine, changed=right.changed, left_behind=right.left_behind)
    return Place.BESIDE(Several(changed)) if changed and not right.error and same_outcome(right, clean) else None


def form_of(asked: Request, right: Outcome, mine: Outcome, wrong: Sequence[Request], ask: Ask) -> Evidence | None:
    """What a wrong type or shape of the answer, or of its first part that has one, comes from."""
    found, sizes = _of_form(asked, right, mine), _sizes_of(asked, right, mine)
    if found or not sizes:
        return found
    # One column more, or as many as a number says, may be chance: it has to be so wherever a size is wrong.
    others = [told for one in wrong if (told := _sizes_of(one, *ask(one))) is not None]
    sizes = sizes if others else [one for one in sizes if one.kind in OFF_BY_ONE]
    return next((one for one in sizes if all(one in told for told in others)), None)


def _of_form(asked: Request, right: Outcome, mine: Outcome) -> Evidence | None:
    for due, got in _forms(right.value, mine.value):
        if isinstance(due, Tensor) and isinstance(got, (int, float)):
            return Sign.A_NUMBER()
        if isinstance(due, (int, float)) and isinstance(got, Tensor):
            return Sign.A_TENSOR()
        if isinstance(due, Tensor) and isinstance(got, Tensor) and due.shape != got.shape:
            return _of_dimensions(asked, due, got) if due.dim() != got.dim() else _of_sizes(asked, due, got)
    # The keys of a scenario are no student's.
    if isinstance(right.value, dict) and isinstance(mine.value, dict) and not asked.scenario:
        return _of_keys([*right.value], [*mine.value])
    return None


def _forms(right: Any, mine: Any) -> Iterator[tuple[Any, Any]]:
    right, mine = fields_of(right)[0], fields_of(mine)[0]
    if isinstance(right, dict) and isinstance(mine, dict):
        yield from ((right[key], mine[key]) for key in right if key in mine)
    elif isinstance(right, tuple) and isinstance(mine, tuple) and len(right) == len(mine):
        yield from zip(right, mine, strict=True)
    else:
        yield right, mine


def _of_dimensions(asked: Request, due: Tensor, got: Tensor) -> Evidence | None:
    masks = [value for name, value in asked.arguments.items() if "mask" in name and isinstance(value, Tensor)]
    if got.dim() == 1 and any(mask.shape == due.shape and got.numel() == int(mask.sum()) for mask in masks):
        return Sign.REAL_ALONE()
    sizes = [size for size in got.shape if size != 1] == [size for size in due.shape if size != 1]
    if got.dim() > due.dim() and sizes and got.numel() > 1:
        return Sign.SIZE_1_LEFT()
    if got.dim() == 2 * due.dim():
        return Sign.EVERY_INDEX()
    if got.dim() > due.dim() and got.shape[: due.dim()] == due.shape and got.numel() > due.numel():
        return Sign.LEFT_AT_END()
    return Sign.REDUCED() if got.dim() < due.dim() and due.numel() > 1 else None


def _of_sizes(asked: Request, due: Tensor, got: Tensor) -> Evidence | None:
    differ = [i for i, (one, other) in enumerate(zip(due.shape, got.shape, strict=True)) if one != other]
    if len(differ) > 1:
        return None
    place = differ[0]
    one, other, name = due.shape[place], got.shape[place], "row" if place == 0 and due.dim() > 1 else "column"
    given = [
        key
        for key, value in asked.arguments.items()
        if isinstance(value, Tensor) and value.dim() > place and value.shape[place] == other
    ]
    if asked.scenario and due.dim() == 1:  # Numbers of steps or batches, not a student's tensor.
        return None
    if other == 0:
        return Sign.NONE_AT_ALL(name)
    if other == 1 and one > 2:
        return Sign.ONE_OF_MANY(name, one)
    if given and other > one + 1 and not asked.scenario:
        return Sign.AS_MANY_AS(name, given[0])
    return None


def _sizes_of(asked: Request, right: Outcome, mine: Outcome) -> list[Evidence] | None:
    """What may be said of the first size that is wrong; None where none is."""
    pairs = [pair for pair in _forms(right.value, mine.value) if all(isinstance(one, Tensor) for one in pair)]
    due, got = next(((due, got) for due, got in pairs if due.shape != got.shape), (None, None))
    if due is None or got is None or due.dim() != got.dim() or (asked.scenario and due.dim() == 1):
        return None
    place, *others = [i for i, (one, other) in enumerate(zip(due.shape, got.shape, strict=True)) if one != other]
    one, other, name = due.shape[place], got.shape[place], "row" if place == 0 and due.dim() > 1 else "column"
    given = [key for key, value in asked.arguments.items() if type(value) is int and value == other > 1]
    told = [Sign.NEVER_EARLIER(name, key) for key in given]
    if abs(other - one) == 1:
        told.append((Sign.ONE_TOO_MANY if other > one else Sign.ONE_TOO_FEW)(name))
    return [] if others else told


def _of_keys(due: list[str], got: list[str]) -> Evidence | None:
    missing, new = [key for key in due if key not in got], [key for key in got if key not in due]
    if len(missing) == len(new) == 1:
        return Sign.OTHER_KEY(missing[0], new[0])
    return Sign.NO_KEY(missing[0]) if missing else None


def of_another_kind(pairs: list[Pair]) -> Evidence | None:
    """A difference in dtype, shape or type that all these wrong answers have in common."""
    found = [list(_kinds(right, got)) for _, right, got in pairs]
    return next((kind for kind in found[-1] if all(kind in one for one in found)), None)


def _kinds(right: Parts, got: Parts) -> Iterator[Evidence]:
    for key, part in right.items():
        if key.kind is Kind.SLOPE:
            continue
        other = got.get(key)
        if isinstance(part, Tensor) and isinstance(other, Tensor):
            if part.dtype != other.dtype:
                yield Place.DTYPE(key, other.dtype, part.dtype)
            elif part.dim() != other.dim():
                yield Place.DIMENSIONS(key, other.dim(), part.dim())
            elif part.shape != other.shape:
                yield (Place.TOO_LARGE if other.numel() > part.numel() else Place.TOO_SMALL)(key)
        elif key in got and type(part) is not type(other):
            yield Place.TYPE(key, type_name(other), type_name(part))
    if len(got) != len(right):
        yield Place.FEWER_PARTS() if len(got) < len(right) else Place.MORE_PARTS()


def is_level(pairs: list[tuple[Tensor, Tensor]]) -> Evidence | None:
    """Whether each row holds one number all along, or all numbers together are whitened, where the right ones are not.

    Places that are 0 are padding.
    """
    told = [_shape_of(*pair) for pair in pairs if int((pair[1] != 0).sum()) > 2 and not bool(pair[1].isnan().any())]
    return told[0] if len(told) > 1 and all(one == told[0] for one in told) else None


def _shape_of(right: Tensor, got: Tensor) -> Evidence | None:
    real = got != 0
    if right.dim() == 2 and not _along(right, real) and _along(got, real):
        return Place.SAME_ALONG()
    are_counts = bool((got == got.round()).all())
    if not are_counts and _is_one(got[real].std()) and not _is_one(right[real].std()):
        if float(got[real].mean().abs()) < 1e-4:
            return Place.WHITENED()
        return Place.SCALED()
    return None


def _along(values: Tensor, real: Tensor) -> bool:
    rows = [row[chosen] for row, chosen in zip(values, real, strict=True) if bool(chosen.any())]
    return all(bool(((row - row[0]).abs() <= 1e-6 * (1 + row[0].abs())).all()) for row in rows)


def _is_one(deviation: Tensor) -> bool:
    return abs(float(deviation) - 1) < 1e-3


def row_alone(failing: Seen, ask: Ask) -> Evidence | None:
    """The first row that is answered wrong by itself; `ask` gives the right answer to a question, and the student's."""
    asked = failing[0]
    tensors = {name: value for name, value in asked.arguments.items() if isinstance(value, Tensor) and value.dim()}
    sizes = {len(value) for value in tensors.values()}
    has_rows = any(one.dim() > 1 for one in tensors.values())
    if asked.scenario or not has_rows or len(sizes) != 1 or not 1 < max(sizes) <= MOST_ROWS:
        return None
    for number in range(max(sizes)):
        row = {name: value[number : number + 1] for name, value in tensors.items()}
        alone = replace(asked, arguments={**asked.arguments, **row}, grad_of=(), grad_weights=None)
        right, mine = ask(alone)
        if right.error:
            return None
        if not same_outcome(right, mine, values_only=True):
            given = Several(Place.ROW_GIVEN(name, show_argument(value)) for name, value in row.items())
            got = mine.error.type_name if mine.error else show(mine.value)
            return Place.ROW_ALONE(number, given, got, show(right.value))
    return None
