"""What an answer depends on, and must or must not: true of the code whatever else is wrong with it.

An argument is changed, and both answers are asked again: does it change nothing, does padding enter,
and do rows get mixed up?
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..catalog import region_text
from ..execution.messages import Call, Outcome, copy_plain
from ..oracle.reference import shared_reference
from ..report.alike import alike
from .code import words_of
from .mistakes import is_flags, is_float
from .parts import parts_of
from .values import CHEAP, Ask, Kind, Part, Shows, Sign

MOST_QUESTIONS = 3
MUST = 2
"""How often a right answer must have changed where the student's did not, before that is said."""
OTHER = 7.3
"""A number that no example holds."""


class _Question:
    """A question and both answers; `changed` asks it with other arguments."""

    def __init__(self, asked: Call, ask: Ask, is_shown: bool = False) -> None:
        self.asked, self._ask, self.is_shown = asked, ask, is_shown
        self.right, self.mine = ask(asked)

    def changed(self, **arguments: Any) -> tuple[Outcome, Outcome] | None:
        """Both answers; None where one of the two is an error."""
        right, mine = self._ask(replace(self.asked, arguments={**self.asked.arguments, **arguments}))
        return None if right.error or mine.error else (right, mine)

    def elsewhere(self) -> "_Question":
        """The question with each number another one."""

        def moved(tensor: Tensor) -> Tensor:
            shift = torch.linspace(0.1, 0.4, tensor.numel(), dtype=tensor.dtype) if is_float(tensor) else None
            return tensor if shift is None else tensor + shift.view(tensor.shape)

        return _Question(replace(self.asked, arguments=copy_plain(self.asked.arguments, moved)), self._ask)


def facts(failing: Call, part: Part | None, wrong: Sequence[Call], good: Sequence[Call], ask: Ask) -> Iterator[Sign]:
    """What is so of the code, the surest first, and may be why this `part` of the answer is wrong. `wrong`, `good`:
    ordinary examples that are so.
    """
    right, mine = ask(failing)
    # What is due to raise, and what is no part of an answer, has other reasons; so has a gradient alone.
    if (
        right.error
        or mine.value is None
        or (part and (part.kind is Kind.EFFECT or part.is_slope))
        or alike(right.value, mine.value)
    ):
        return
    asked = [one for one in (failing, *_telling(wrong)) if one.seconds <= CHEAP][:MOST_QUESTIONS]
    every = [_Question(_tame(one), ask, one is failing) for one in asked]
    seen = [one for one in every if not (one.right.error or one.mine.error)]
    if not (seen and seen[0].is_shown):
        return
    padding = [(one, sign) for one in seen if not one.asked.scenario for sign in _padding(one)]
    # Where nothing is padded, something else is wrong.
    yield from [sign for one, sign in padding if one.is_shown][:1]
    right_ones = [_Question(_tame(one), ask) for one in _telling(good)[:MOST_QUESTIONS]]
    yield from _unused(seen, part, right_ones, bool(padding))


def _telling(wrong: Sequence[Call]) -> list[Call]:
    """The examples that have most to change: a mask that is False somewhere, several rows, many arguments."""

    def weight(asked: Call) -> tuple[bool, bool, int]:
        tensors = [one for one in asked.arguments.values() if isinstance(one, Tensor)]
        ragged = any(is_flags(one) and not bool(one.all()) for one in tensors)
        return ragged, any(one.dim() > 1 and len(one) > 1 for one in tensors), len(asked.arguments)

    return sorted(wrong, key=weight, reverse=True)


def _tame(asked: Call) -> Call:
    """The question without NaN: what is NaN cannot be seen to change."""

    def filled(tensor: Tensor) -> Tensor:
        return torch.where(tensor.isfinite(), tensor, torch.full_like(tensor, 0.5)) if is_float(tensor) else tensor

    arguments = asked.arguments if asked.scenario else copy_plain(asked.arguments, filled)
    return replace(asked, arguments=arguments, grad_of=(), grad_weights=None)


# What stands where a mask is False


def _padding(seen: _Question) -> Iterator[Sign]:
    """Whether one more column of padding changes the rest of the answer: its numbers enter, or it is counted."""
    for name, mask in seen.asked.arguments.items():
        if "mask" not in name or not is_flags(mask) or bool(mask.bool().all()):
            continue
        given = seen.asked.arguments.items()
        alike_in_shape = {key: value for key, value in given if isinstance(value, Tensor) and value.shape == mask.shape}
        answers = seen.changed(**{key: _one_more(value) for key, value in alike_in_shape.items()})
        if answers and _is_same(seen.right, answers[0], mask) and not _is_same(seen.mine, answers[1], mask):
            # Where rows get mixed up, one more column moves their numbers.
            yield Sign(Shows.ROWS_MIXED) if _mixes_rows(seen) else Sign(Shows.PADDING_ENTERS, (name,))


def _mixes_rows(seen: _Question) -> bool:
    """Whether the rows in another order get other answers, and not in the right answer."""
    given = {name: one for name, one in seen.asked.arguments.items() if isinstance(one, Tensor) and one.dim()}
    if len({len(one) for one in given.values()}) != 1:
        return False
    answers = seen.changed(**{name: one.flip(0) for name, one in given.items()})
    return answers is not None and _is_flipped(seen.right, answers[0]) and not _is_flipped(seen.mine, answers[1])


def _is_flipped(one: Outcome, other: Outcome) -> bool:
    due, got = parts_of(one), parts_of(other)
    turned = {part: value.flip(0) for part, value in due.items() if isinstance(value, Tensor) and value.dim()}
    return all(alike(value, got.get(part)) for part, value in (due | turned).items())


def _one_more(tensor: Tensor) -> Tensor:
    column = torch.full_like(tensor[..., :1], OTHER if is_float(tensor) else 0)
    return torch.cat([tensor, column], dim=-1)


def _is_same(narrow: Outcome, wide: Outcome, mask: Tensor) -> bool:
    """Whether two answers are the same in the columns of the mask."""
    due, got = parts_of(narrow), parts_of(wide)
    columns = mask.shape[-1]
    tensors = {part: one for part, one in got.items() if isinstance(one, Tensor) and one.dim()}
    got |= {part: one[..., :columns] for part, one in tensors.items() if one.shape[-1] == columns + 1}
    return all(alike(one, got.get(part)) for part, one in due.items())


# What changes nothing


def _unused(seen: list[_Question], part: Part | None, good: list[_Question], without_masks: bool) -> Iterator[Sign]:
    """Arguments without effect, in all questions in which they must have one on this part of the answer, and in those
    that are right.
    """
    lesson, exercise = seen[0].asked.lesson, seen[0].asked.exercise
    # What a scenario is told may be for itself.
    known = {*shared_reference().parameters(lesson, exercise), *words_of(region_text(lesson, exercise))}
    names = dict.fromkeys(name for one in seen for name in one.asked.arguments if name in known)
    for name in (one for one in names if not (without_masks and "mask" in one)):
        must = 0
        for question, other in ((one, other) for one in seen for other in _others(one.asked, name)):
            answers = question.changed(**{name: other})
            if answers and not alike(question.mine.value, answers[1].value):
                break
            must += answers is not None and _moves(question, part, answers[0])
        else:
            # What cancels in numbers worked by hand does not in others.
            if must >= min(MUST, len(seen)) and not any(_acts(one, name) for one in (*good, seen[0].elsewhere())):
                yield Sign(Shows.IGNORED, (name,))


def _moves(seen: _Question, part: Part | None, right: Outcome) -> bool:
    """Whether another right answer has another number in this part."""
    due, other = parts_of(seen.right), parts_of(right)
    return any(not alike(due[one], other.get(one)) for one in due if part is None or part.holds(one))


def has_effect(asked: Call, name: str, ask: Ask) -> bool:
    """Whether another value of an argument changes the student's answer to this question."""
    return _acts(_Question(_tame(asked), ask), name)


def _acts(seen: _Question, name: str) -> bool:
    changed = [answers for other in _others(seen.asked, name) if (answers := seen.changed(**{name: other}))]
    return any(not alike(seen.mine.value, mine.value) for _, mine in changed)


def _others(asked: Call, name: str) -> list[Any]:
    value: Any = asked.arguments.get(name)
    in_scenario = asked.scenario is not None
    if isinstance(value, bool):  # Of a scenario, it may be no option that the code knows.
        return [] if in_scenario else [not value]
    if isinstance(value, float):
        return [value / 2, 1.7 * value + 0.05, *(() if in_scenario else (10 * value + 0.3, value / 10))]
    if in_scenario:
        return []
    if isinstance(value, int):
        return [value + 1]
    if is_float(value) and value.dim():
        return [value * 1.3 + 0.37, value * 0.6 - 0.81, -value, value.flip(-1), value * 8.0]
    return [torch.ones_like(value)] if is_flags(value) else []
