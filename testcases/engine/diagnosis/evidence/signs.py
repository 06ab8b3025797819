"""Signs in a wrong answer itself: its type and shape, what it left changed, and a row that is wrong by itself."""

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor

from ...execution import Outcome, Request, fields_of
from ...report import same_outcome, show, show_argument, type_name

Seen = tuple[Request, Outcome, Outcome]
"""A question, the right answer, and the student's."""
Ask = Callable[[Request], tuple[Outcome, Outcome]]
"""The right answer to another question, and the student's."""


class Kind(enum.IntEnum):
    """What a part of an answer is."""

    VALUE = 0
    SLOPE = 1
    EFFECT = 2


class Part(NamedTuple):
    """A value by its path ("" where the answer is whole), a gradient by its argument, or what else a call did."""

    kind: Kind
    name: str

    @property
    def is_slope(self) -> bool:
        """A scenario has gradients among its values, under such names."""
        return self.kind is Kind.SLOPE or self.name.endswith("_gradient")

    def __format__(self, form: str) -> str:
        if self.kind is Kind.SLOPE:
            return f"gradient by {self.name}"
        return f"`{self.name}`" if self.name.isidentifier() else self.name


Parts = dict[Part, Any]
"""What an answer has in each part."""
Pair = tuple[Request, Parts, Parts]
"""A question, and the parts of the right answer and of the student's."""
MOST_ROWS = 16
OFF_BY_ONE = "is a slice, or a loop, off by one?"


def beside_the_answer(failing: Seen) -> str:
    """What the call left changed, if its answer is right."""
    _, right, mine = failing
    changed = [*mine.changed, *(name for name in mine.left_behind if name not in right.left_behind)]
    if right.error or not changed:
        return ""
    clean = replace(mine, changed=right.changed, left_behind=right.left_behind)
    if not same_outcome(right, clean):
        return ""
    return f"the answer itself is right; not left as before the call: {', '.join(changed)}"


def form_of(asked: Request, right: Outcome, mine: Outcome, wrong: Sequence[Request], ask: Ask) -> str:
    """What a wrong type or shape of the answer, or of its first part that has one, comes from."""
    text, sizes = _of_form(asked, right, mine), _sizes_of(asked, right, mine)
    if text or not sizes:
        return text
    # One column more, or as many as a number says, may be chance: it has to be so wherever a size is wrong.
    others = [told for one in wrong if (told := _sizes_of(one, *ask(one))) is not None]
    sizes = sizes if others else [text for text in sizes if text.endswith(OFF_BY_ONE)]
    return next((text for text in sizes if all(text in told for told in others)), "")


def _of_form(asked: Request, right: Outcome, mine: Outcome) -> str:
    for due, got in _forms(right.value, mine.value):
        if isinstance(due, Tensor) and isinstance(got, (int, float)):
            return "`.item()`, `float()` or Python's arithmetic makes a number of a tensor: no gradient passes it"
        if isinstance(due, (int, float)) and isinstance(got, Tensor):
            return "a tensor where a Python number is due: `.item()`"
        if isinstance(due, Tensor) and isinstance(got, Tensor) and due.shape != got.shape:
            return _of_dimensions(asked, due, got) if due.dim() != got.dim() else _of_sizes(asked, due, got)
    if isinstance(right.value, dict) and isinstance(mine.value, dict):
        return _of_keys([*right.value], [*mine.value])
    return ""


def _forms(right: Any, mine: Any) -> Iterator[tuple[Any, Any]]:
    right, mine = fields_of(right)[0], fields_of(mine)[0]
    if isinstance(right, dict) and isinstance(mine, dict):
        yield from ((right[key], mine[key]) for key in right if key in mine)
    elif isinstance(right, tuple) and isinstance(mine, tuple) and len(right) == len(mine):
        yield from zip(right, mine, strict=True)
    else:
        yield right, mine


def _of_dimensions(asked: Request, due: Tensor, got: Tensor) -> str:
    masks = [value for name, value in asked.arguments.items() if "mask" in name and isinstance(value, Tensor)]
    if got.dim() == 1 and any(mask.shape == due.shape and got.numel() == int(mask.sum()) for mask in masks):
        return (
            "only the real tokens are returned, one after another: put each back in its place (masked_scatter, where)"
        )
    sizes = [size for size in got.shape if size != 1] == [size for size in due.shape if size != 1]
    if got.dim() > due.dim() and sizes and got.numel() > 1:
        return "a dimension of size 1 is left: `squeeze` it, or reduce without `keepdim`"
    if got.dim() == 2 * due.dim():
        return "`x[..., index]` takes every index at every place: `gather` takes to each place its own"
    if got.dim() > due.dim() and got.shape[: due.dim()] == due.shape and got.numel() > due.numel():
        return "a dimension is left at the end: it is to be summed over, averaged, or picked from with `gather`"
    return "a dimension too many is reduced: pass `dim=`" if got.dim() < due.dim() and due.numel() > 1 else ""


def _of_sizes(asked: Request, due: Tensor, got: Tensor) -> str:
    differ = [i for i, (one, other) in enumerate(zip(due.shape, got.shape, strict=True)) if one != other]
    if len(differ) > 1:
        return ""
    place = differ[0]
    one, other, name = due.shape[place], got.shape[place], "row" if place == 0 and due.dim() > 1 else "column"
    given = [
        key
        for key, value in asked.arguments.items()
        if isinstance(value, Tensor) and value.dim() > place and value.shape[place] == other
    ]
    if asked.scenario and due.dim() == 1:  # Numbers of steps or batches, not a student's tensor.
        return ""
    if other == 0:
        return f"there is no {name} at all: a slice is empty"
    if other == 1 and one > 2:
        return f"there is one {name} where {one} are due: one is picked, or summed over, and the others are lost"
    if given and other > one + 1:
        return f"there are as many {name}s as `{given[0]}` has: is a slice missing?"
    return ""


def _sizes_of(asked: Request, right: Outcome, mine: Outcome) -> list[str] | None:
    """What may be said of the first size that is wrong; None where none is."""
    pairs = [pair for pair in _forms(right.value, mine.value) if all(isinstance(one, Tensor) for one in pair)]
    due, got = next(((due, got) for due, got in pairs if due.shape != got.shape), (None, None))
    if due is None or got is None or due.dim() != got.dim() or (asked.scenario and due.dim() == 1):
        return None
    place, *others = [i for i, (one, other) in enumerate(zip(due.shape, got.shape, strict=True)) if one != other]
    one, other, name = due.shape[place], got.shape[place], "row" if place == 0 and due.dim() > 1 else "column"
    given = [key for key, value in asked.arguments.items() if type(value) is int and value == other > 1]
    told = [f"there are always as many {name}s as `{key}` says: does nothing end it earlier?" for key in given]
    if abs(other - one) == 1:
        told.append(f"there is one {name} too {'many' if other > one else 'few'}: {OFF_BY_ONE}")
    return [] if others else told


def _of_keys(due: list[str], got: list[str]) -> str:
    missing, new = [key for key in due if key not in got], [key for key in got if key not in due]
    if len(missing) == len(new) == 1:
        return f"the key is `{missing[0]}`, not `{new[0]}`"
    return f"the answer has no `{missing[0]}`" if missing else ""


def of_another_kind(pairs: list[Pair]) -> str:
    """A difference in dtype, shape or type that all these wrong answers have in common."""
    found = [list(_kinds(right, got)) for _, right, got in pairs]
    return next((text for text in found[-1] if all(text in one for one in found)), "")


def _kinds(right: Parts, got: Parts) -> Iterator[str]:
    for key, part in right.items():
        if key.kind is Kind.SLOPE:
            continue
        other, of = got.get(key), f"of `{key.name}` " if key.name else ""
        if isinstance(part, Tensor) and isinstance(other, Tensor):
            if part.dtype != other.dtype:
                kinds = [str(one.dtype).removeprefix("torch.") for one in (other, part)]
                yield f"the dtype {of}is {kinds[0]} in place of {kinds[1]}"
            elif part.dim() != other.dim():
                yield f"the number of dimensions {of}is {other.dim()} in place of {part.dim()}"
            elif part.shape != other.shape:
                is_long = other.numel() > part.numel()
                yield f"the shape {of}is too {'large' if is_long else 'small'}"
        elif key in got and type(part) is not type(other):
            yield f"the type {of}is {type_name(other)} in place of {type_name(part)}"
    if len(got) != len(right):
        yield f"there are {'fewer' if len(got) < len(right) else 'more'} parts than are due"


def is_level(pairs: list[tuple[Tensor, Tensor]]) -> str:
    """Whether each row holds one number all along, or all numbers together are whitened, where the right ones are not.

    Places that are 0 are padding.
    """
    told = [_shape_of(*pair) for pair in pairs if int((pair[1] != 0).sum()) > 2 and not bool(pair[1].isnan().any())]
    return told[0] if len(told) > 1 and all(text == told[0] for text in told) else ""


def _shape_of(right: Tensor, got: Tensor) -> str:
    real = got != 0
    if right.dim() == 2 and not _along(right, real) and _along(got, real):
        return "the same number all along a row"
    are_counts = bool((got == got.round()).all())
    if not are_counts and _is_one(got[real].std()) and not _is_one(right[real].std()):
        if float(got[real].mean().abs()) < 1e-4:
            return "with mean 0 and standard deviation 1: is it whitened?"
        return "with standard deviation 1: is it scaled?"
    return ""


def _along(values: Tensor, real: Tensor) -> bool:
    rows = [row[chosen] for row, chosen in zip(values, real, strict=True) if bool(chosen.any())]
    return all(bool(((row - row[0]).abs() <= 1e-6 * (1 + row[0].abs())).all()) for row in rows)


def _is_one(deviation: Tensor) -> bool:
    return abs(float(deviation) - 1) < 1e-3


def row_alone(failing: Seen, ask: Ask) -> str:
    """The first row that is answered wrong by itself; `ask` gives the right answer to a question, and the student's."""
    asked = failing[0]
    tensors = {name: value for name, value in asked.arguments.items() if isinstance(value, Tensor) and value.dim()}
    sizes = {len(value) for value in tensors.values()}
    has_rows = any(one.dim() > 1 for one in tensors.values())
    if asked.scenario or not has_rows or len(sizes) != 1 or not 1 < max(sizes) <= MOST_ROWS:
        return ""
    for number in range(max(sizes)):
        row = {name: value[number : number + 1] for name, value in tensors.items()}
        alone = replace(asked, arguments={**asked.arguments, **row}, grad_of=(), grad_weights=None)
        right, mine = ask(alone)
        if right.error:
            return ""
        if not same_outcome(right, mine, values_only=True):
            given = ", ".join(f"{name}={show_argument(value)}" for name, value in row.items())
            got = mine.error.type_name if mine.error else show(mine.value)
            return f"row {number} is wrong by itself: {given} gives {got}, not {show(right.value)}"
    return ""
