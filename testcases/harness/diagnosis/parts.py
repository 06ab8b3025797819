"""The parts of answers, what share of them is right, and how far a mistake agrees with a student."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any

import torch
from torch import Tensor

from ..execution.messages import Outcome, fields_of, leaves, tensors_in
from ..report.alike import alike, same_outcome
from ..report.compare import EXACT, Rules, close
from .values import Kind, Part, Seen

RAISED, TOUCHED = Part(Kind.EFFECT, "no exception"), Part(Kind.EFFECT, "what the call leaves changed")
MOST, MOST_FLAGS, SOME, LEAST = 0.75, 0.9, 1 / 3, 2
"""The shares of the values that have to be given, and how many; of flags and counts there are few, so chance gives many
of them."""
LOOSE = Rules(1e-6, 1e-6, equal_nan=True)


def parts_of(outcome: Outcome) -> dict[Part, Any]:
    """What a call gave, apart; of one that raised only that."""
    if outcome.error:
        return {RAISED: outcome.error.type_name}
    value, names = fields_of(outcome.value)
    named = value if isinstance(value, dict) else dict(zip(names, value, strict=True)) if names else {"": value}
    found = {Part(Kind.VALUE, name): part for name, part in named.items()}
    found |= {Part(Kind.SLOPE, name): slope for name, slope in outcome.gradients.items()}
    return found | {TOUCHED: (*outcome.changed, *outcome.left_behind)}


def floats_of(right: Any, mine: Any) -> list[tuple[float, float]]:
    """The Python floats that stand at one place in both."""
    if isinstance(right, dict) and isinstance(mine, dict):
        return [pair for key in right.keys() & mine.keys() for pair in floats_of(right[key], mine[key])]
    if isinstance(right, (list, tuple)) and isinstance(mine, (list, tuple)) and len(right) == len(mine):
        return [pair for one, other in zip(right, mine, strict=True) for pair in floats_of(one, other)]
    return [(right, mine)] if isinstance(right, float) and isinstance(mine, float) else []


def is_evidence(right: Outcome, mine: Outcome) -> bool:
    """Whether agreement with this wrong answer says something: it is not NaN, 0 or constant where it differs."""
    due, got = ([*tensors_in(one.value)] for one in (right, mine))
    if mine.error:
        return False
    slopes = [(one, mine.gradients.get(name)) for name, one in right.gradients.items()]
    pairs = [*zip(due, got, strict=False), *((a, b) for a, b in slopes if a is not None and b is not None)]
    pairs += [(torch.tensor(a), torch.tensor(b)) for a, b in floats_of(right.value, mine.value)]
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


def is_fraction(value: Any) -> bool:
    return any(one.is_floating_point() for one in tensors_in(value)) or any(
        isinstance(one, float) for one in leaves(value)
    )


def share_right(right: Any, mine: Any) -> float:
    """The share of the numbers that are right; of what is no tensor all or nothing."""
    due, got = fields_of(right)[0], fields_of(mine)[0]
    if isinstance(due, Tensor) and isinstance(got, Tensor):
        if due.shape != got.shape or due.dtype != got.dtype or not due.numel():
            return float(alike(due, got))
        loose = 1e-9 if due.dtype == torch.float64 else 1e-4
        return float(close(due, got, Rules(loose, loose, equal_nan=True)).double().mean())
    if isinstance(due, dict) and isinstance(got, dict) and due.keys() == got.keys() and due:
        return sum(share_right(due[key], got[key]) for key in due) / len(due)
    if isinstance(due, tuple) and isinstance(got, tuple) and len(due) == len(got) and due:
        return sum(map(share_right, due, got)) / len(due)
    return float(alike(due, got))


def share_of_outcome(right: Outcome, mine: Outcome) -> float:
    """The same of a whole answer, its gradients included."""
    due, got = parts_of(right), parts_of(mine)
    if RAISED in due or RAISED in got:
        return float(same_outcome(right, mine))
    shares = [share_right(due[part], got.get(part)) if not part.is_slope else _of_slope(due, got, part) for part in due]
    return sum(shares) / len(shares)


def _of_slope(due: dict[Part, Any], got: dict[Part, Any], part: Part) -> float:
    one, other = due[part], got.get(part)
    one = torch.zeros_like(other) if one is None and isinstance(other, Tensor) else one
    other = torch.zeros_like(one) if other is None and isinstance(one, Tensor) else other
    return share_right(one, other)


class On(Enum):
    """In what a mistake has to agree with a student."""

    ALL = auto()
    """In every answer, gradients and all that a call did included."""
    MOST = auto()
    """In three quarters of the values that either of the two has wrong."""
    SOME = auto()
    """In a third of them; but it has to be right in every number that the student has right."""


class Answers:
    """A student's answers to some questions, beside the right ones."""

    def __init__(self, seen: Sequence[Seen]) -> None:
        self.seen = seen
        is_right = [same_outcome(right, mine) for _, right, mine in seen]
        self.wrong_ones = [i for i, right in enumerate(is_right) if not right]
        self.right_ones = [i for i, right in enumerate(is_right) if right]
        self.has_fractions = any(is_fraction(mine.value) for _, _, mine in seen)


def agree(ask: Callable[[int], Outcome], answers: Answers, on: On) -> float:
    """The share of a student's answers that a mistake gives; 0 where that is not enough. `ask` gives what it answers to
    a question, by its number."""
    every = (*answers.wrong_ones, *answers.right_ones)
    if on is On.ALL:
        return float(all(same_outcome(answers.seen[i][2], ask(i)) for i in every))
    if all(mine.error for _, _, mine in answers.seen):
        return 0.0  # Many changes raise an error of one type: it makes none of them near.
    off = [not same_outcome(right, mine, values_only=True) for _, right, mine in answers.seen]
    least = SOME if on is On.SOME else MOST if answers.has_fractions else MOST_FLAGS
    agreed, differ, left = 0, 0, sum(off)
    for i in every:
        _, right, mine = answers.seen[i]
        theirs = ask(i)
        if on is On.SOME and is_contradicted(right, mine, theirs):
            return 0.0
        if off[i] or not same_outcome(theirs, right, values_only=True):
            same = same_outcome(mine, theirs, values_only=True) and (on is On.MOST or is_evidence(right, mine))
            agreed, differ = agreed + same, differ + (not same)
        left -= off[i]
        if agreed + left < least * (agreed + left + differ):
            return 0.0  # It is far, whatever comes.
    return agreed / (agreed + differ) if agreed >= (1 if on is On.MOST else LEAST) else 0.0


def is_contradicted(right: Outcome, mine: Outcome, theirs: Outcome) -> bool:
    """Whether an answer is wrong in a number that the student has right."""
    if mine.error or theirs.error:
        return bool(theirs.error) and not mine.error
    due, got, given = ([*tensors_in(one.value)] for one in (right, mine, theirs))
    if [one.shape for one in due] == [one.shape for one in got] == [one.shape for one in given]:
        tensors = zip(due, got, given, strict=True)
        if any(bool((close(a, b, LOOSE) & ~close(a, c, LOOSE)).any()) for a, b, c in tensors):
            return True
    floats = zip(floats_of(right.value, mine.value), floats_of(right.value, theirs.value), strict=False)
    return any(alike(*mine) and not alike(*theirs) for mine, theirs in floats)
