"""Whether two answers are alike, up to rounding; their parts, what share of them is right, and how far a mistake agrees
with a student."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Any

import torch
from torch import Tensor

from ..execution.messages import Call, Foreign, Outcome, fields_of
from ..report.compare import Rules, close, near_float
from .values import Seen

MOST, MOST_FLAGS, SOME, LEAST = 0.75, 0.9, 1 / 3, 2
"""The shares of the values that have to be given, and how many; of flags and counts there are few, so chance gives many
of them."""


def same_outcome(a: Outcome, b: Outcome, values_only: bool = False) -> bool:
    """Whether two pieces of code answered a call alike, up to rounding; with `values_only` gradients may differ."""
    if a.error or b.error:
        return bool(a.error and b.error and (a.error.kind, a.error.type_name) == (b.error.kind, b.error.type_name))
    if values_only:
        return alike(a.value, b.value)
    if (a.changed, a.left_behind) != (b.changed, b.left_behind):
        return False
    if bool(a.tracked) != bool(b.tracked) or a.gradients.keys() != b.gradients.keys():
        return False
    return alike(a.value, b.value) and all(same_slope(a.gradients[name], b.gradients[name]) for name in a.gradients)


def same_slope(a: Any, b: Any) -> bool:
    """Whether two gradients are equal up to rounding; None counts as zeros."""
    a = torch.zeros_like(b) if a is None and isinstance(b, Tensor) else a
    b = torch.zeros_like(a) if b is None and isinstance(a, Tensor) else b
    return alike(a, b)


def alike(a: Any, b: Any) -> bool:
    """Whether two plain values are equal up to rounding."""
    a, b = fields_of(a)[0], fields_of(b)[0]
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and bool(near(a, b).all())
    if {type(a), type(b)} <= {int, float}:
        return a == b if type(a) is type(b) is int else (a != a and b != b) or near_float(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Foreign):
        return a.type_name == b.type_name
    return a == b


def beside(*outcomes: Outcome, slopes: bool = False) -> list[tuple[Tensor, ...]]:
    """The tensors of several answers side by side, Python's floats among them; none unless all have one form."""
    every = [tensors_of(one, slopes) for one in outcomes]
    forms = [[(path, tensor.shape) for path, tensor in found] for found in every]
    tensors = [[tensor for _, tensor in found] for found in every]
    return [*zip(*tensors, strict=True)] if all(form == forms[0] for form in forms) else []


def tensors_of(outcome: Outcome, slopes: bool = False) -> list[tuple[str, Tensor]]:
    found = [*leaves_of(outcome.value), *(leaves_of(outcome.gradients, "gradients") if slopes else ())]
    tensors = [(path, torch.tensor(one).double() if isinstance(one, float) else one) for path, one in found]
    return sorted(((path, one) for path, one in tensors if isinstance(one, Tensor)), key=lambda one: one[0])


def leaves_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each part of a value that has no parts, with its path."""
    value, names = fields_of(value)
    parts = dict(zip(names or range(len(value)), value, strict=True)) if isinstance(value, (list, tuple)) else value
    if not isinstance(parts, dict):
        yield path, value
    else:
        for name, part in parts.items():
            yield from leaves_of(part, f"{path}.{name}")


def near(due: Tensor, got: Tensor) -> Tensor:
    """Where two tensors are equal up to rounding."""
    loose = 1e-9 if due.dtype == torch.float64 else 1e-4
    return close(due, got, Rules(loose, loose, equal_nan=True))


def is_evidence(right: Outcome, mine: Outcome) -> bool:
    """Whether agreement with this wrong answer says something: it is not NaN, 0 or constant where it differs."""
    pairs = beside(right, mine, slopes=True) or beside(right, mine)
    if mine.error or not pairs:
        return not mine.error and bool(tensors_of(mine))
    return any(due.dtype != got.dtype or _says_something(due, got) for due, got in pairs)


def says_much(right: Outcome, mine: Outcome) -> bool:
    """Whether this answer is hardly given by chance: evidence, or two counts or texts that are wrong."""
    due, got = dict(leaves_of(right.value)), dict(leaves_of(mine.value))
    off = [path for path in got if not isinstance(got[path], Tensor) and due.get(path) != got[path]]
    return not mine.error and (is_evidence(right, mine) or len(off) > 1)


def _says_something(right: Tensor, got: Tensor) -> bool:
    numbers = got[~near(right, got)]
    return bool((numbers.isfinite() & (numbers != 0)).any() if got.is_floating_point() else len(numbers))


def share_of_outcome(right: Outcome, mine: Outcome) -> float:
    """The share of the numbers of an answer that are right, gradients included; of what has no numbers, all or
    nothing."""
    pairs = [(due, got) for due, got in beside(right, mine, slopes=True) if due.dtype == got.dtype and due.numel()]
    if right.error or mine.error or not pairs or same_outcome(right, mine):
        return float(same_outcome(right, mine))
    return min(0.99, sum(float(near(due, got).double().mean()) for due, got in pairs) / len(pairs))


class On(Enum):
    """In what a mistake has to agree with a student."""

    ALL = auto()
    """In every answer, gradients and all that a call did included."""
    MOST = auto()
    """In three quarters of the values that either of the two has wrong."""
    SOME = auto()
    """In a third of the numbers; but it has to be right in every number that the student has right."""


class Answers:
    """A student's answers to some questions, beside the right ones."""

    def __init__(self, seen: Sequence[Seen]) -> None:
        self.seen = seen
        is_right = [same_outcome(right, mine) for _, right, mine in seen]
        self.wrong_ones = [i for i, right in enumerate(is_right) if not right]
        self.right_ones = [i for i, right in enumerate(is_right) if right]
        every = [tensor for _, _, mine in seen for _, tensor in tensors_of(mine)]
        self.has_fractions = any(one.is_floating_point() for one in every)


def agree(ask: Callable[[Call], Outcome], answers: Answers, on: On) -> float:
    """The share of a student's answers that a mistake gives, or of the numbers; 0 where that is not enough. `ask` gives
    what it answers to a question."""
    every = (*answers.wrong_ones, *answers.right_ones)
    if on is On.ALL:
        return float(all(same_outcome(mine, ask(asked)) for asked, _, mine in (answers.seen[i] for i in every)))
    if all(mine.error for _, _, mine in answers.seen):
        return 0.0  # Many changes raise an error of one type: it makes none of them near.
    if on is On.SOME:
        return _share_of_numbers(ask, answers)
    off = [not same_outcome(right, mine, values_only=True) for _, right, mine in answers.seen]
    least = MOST if answers.has_fractions else MOST_FLAGS
    agreed, differ, left = 0, 0, sum(off)
    for i in every:
        asked, right, mine = answers.seen[i]
        theirs = ask(asked)
        if off[i] or not same_outcome(theirs, right, values_only=True):
            same = same_outcome(mine, theirs, values_only=True)
            agreed, differ = agreed + same, differ + (not same)
        left -= off[i]
        if agreed + left < least * (agreed + left + differ):
            return 0.0  # It is far, whatever comes.
    return agreed / (agreed + differ) if agreed else 0.0


def _share_of_numbers(ask: Callable[[Call], Outcome], answers: Answers) -> float:
    """Of those that are wrong; but it has to be right in every one that the student has right. What is 0 or not finite
    agrees by chance, and so do single flags and counts."""
    given, wrong = 0, 0
    for i in (*answers.right_ones, *answers.wrong_ones):
        asked, right, mine = answers.seen[i]
        theirs, pairs = ask(asked), beside(right, mine)
        triples = beside(right, mine, theirs)
        if theirs.error and not mine.error or pairs and not triples:
            return 0.0
        for due, got, other in (three for three in triples if three[0].dtype == three[1].dtype):
            if due.dtype != other.dtype:
                return 0.0
            off = ~near(due, got)
            if bool((~off & ~near(due, other)).any()):
                return 0.0
            if got.is_floating_point():
                wrong += int(off.sum())
                given += int((off & near(got, other) & got.isfinite() & (got != 0)).sum())
            elif bool(off.any()):
                wrong, given = wrong + 1, given + bool((got == other).all())
    return given / wrong if given >= max(LEAST, SOME * wrong) else 0.0
