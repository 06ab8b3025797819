"""What an answer depends on, and must or must not: true of the code whatever else is wrong with it.

An argument is changed, and both answers are asked again: does it change nothing, does padding enter,
and do rows get mixed up? And which of a suspect's invariants does a repair break: only what is found broken is said.
"""

import itertools
from collections import namedtuple
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..catalog import region_text
from ..execution.messages import Call, Outcome, copy_plain, fields_of
from ..oracle.mutations import NamedChange
from ..oracle.reference import shared_reference
from .code import words_of
from .mistakes import is_flags, is_float
from .parts import alike, tensors_of
from .values import CHEAP, Ask, Shows, Sign

MOST_QUESTIONS = 3
RIGHT, MINE = 0, 1
MUST = 2
"""How often a right answer must have changed where the student's did not, before that is said."""
OTHER = 7.3
"""A number that no example holds."""


class _Question:
    """A question without NaN, since what is NaN cannot be seen to change; `changed` asks it with other arguments."""

    def __init__(self, asked: Call, ask: Ask) -> None:
        arguments = asked.arguments if asked.scenario else copy_plain(asked.arguments, _filled)
        self.asked, self._ask = replace(asked, arguments=arguments, grad_of=(), grad_weights=None), ask
        self.right, self.mine = ask(self.asked)

    def changed(self, **arguments: Any) -> tuple[Outcome, Outcome] | None:
        """Both answers; None where one of the two is an error."""
        right, mine = self._ask(replace(self.asked, arguments={**self.asked.arguments, **arguments}))
        return None if right.error or mine.error else (right, mine)


def _filled(tensor: Tensor) -> Tensor:
    return torch.where(tensor.isfinite(), tensor, torch.full_like(tensor, 0.5)) if is_float(tensor) else tensor


def facts(failing: Call, wrong: Sequence[Call], good: Sequence[Call], ask: Ask) -> Iterator[Sign]:
    """What is so of the code, the surest first, and may be why this answer is wrong. `wrong`, `good`: ordinary examples
    that are so."""
    if failing.seconds > CHEAP:
        return
    shown, (right, mine) = _Question(failing, ask), ask(failing)
    # What is due to raise has other reasons, and so has a gradient alone.
    if shown.right.error or shown.mine.error or mine.value is None or alike(right.value, mine.value):
        return
    others = [_Question(one, ask) for one in _telling(wrong)[: MOST_QUESTIONS - 1] if one.seconds <= CHEAP]
    seen = [shown, *(one for one in others if not (one.right.error or one.mine.error))]
    padding = [[] if one.asked.scenario else [*_padding(one)] for one in seen]
    yield from padding[0][:1]
    yield from _unused(seen, [_Question(one, ask) for one in _telling(good)[:MOST_QUESTIONS]], any(padding))


def _telling(examples: Sequence[Call]) -> list[Call]:
    """First those with a mask that is False somewhere."""
    return sorted(examples, key=lambda asked: all(map(_is_full, asked.arguments.values())))


def _is_full(value: Any) -> bool:
    return not is_flags(value) or bool(value.all())


def with_other_numbers(asked: Call) -> Call:
    """The same question with each of its numbers a little smaller, and each by another factor; probabilities still sum
    to 1."""

    def moved(value: Any, least: float) -> Any:
        if isinstance(value, float):
            return least * value
        if not is_float(value) or not value.dim():
            return value
        smaller = value * torch.linspace(least, 0.99, value.numel()).to(value).view_as(value)
        sums_to_1 = torch.allclose(value.sum(-1), torch.ones_like(value.sum(-1)))
        return smaller / smaller.sum(-1, keepdim=True) if sums_to_1 else smaller

    given = enumerate(asked.arguments.items())
    return replace(asked, arguments={name: moved(value, 0.97 - 0.02 * i) for i, (name, value) in given})


# What stands where a mask is False


def _padding(seen: _Question) -> Iterator[Sign]:
    """Whether one more column of padding changes the rest of the answer: its numbers enter, or it is counted."""
    for name, mask in seen.asked.arguments.items():
        if "mask" not in name or _is_full(mask):
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
    turned = [tensor.flip(0) if tensor.dim() else tensor for _, tensor in tensors_of(one)]
    return alike(turned, [tensor for _, tensor in tensors_of(other)])


def _one_more(tensor: Tensor) -> Tensor:
    column = torch.full_like(tensor[..., :1], OTHER if is_float(tensor) else 0)
    return torch.cat([tensor, column], dim=-1)


def _is_same(narrow: Outcome, wide: Outcome, mask: Tensor) -> bool:
    """Whether two answers are the same in the columns of the mask."""
    columns = mask.shape[-1]
    found = [tensor for _, tensor in tensors_of(wide)]
    cut = [one[..., :columns] if one.dim() and one.shape[-1] == columns + 1 else one for one in found]
    return alike([tensor for _, tensor in tensors_of(narrow)], cut)


# What changes nothing


def _unused(seen: list[_Question], good: list[_Question], without_masks: bool) -> Iterator[Sign]:
    """Arguments without effect, in all questions in which they must have one, and in those that are right."""
    lesson, exercise = seen[0].asked.lesson, seen[0].asked.exercise
    # What a scenario is told may be for itself.
    known = {*shared_reference().parameters(lesson, exercise), *words_of(region_text(lesson, exercise))}
    names = dict.fromkeys(name for one in seen for name in one.asked.arguments if name in known)
    for name in (one for one in names if not (without_masks and "mask" in one)):
        # What cancels in numbers worked by hand does not in others.
        if len(seen) + len(good) > 1 and not any(_acts(one, name) for one in (*seen, *good)):
            if sum(_must_act(one, name) for one in seen) >= min(MUST, len(seen)):
                yield Sign(Shows.IGNORED, (name,))


def has_effect(asked: Call, name: str, ask: Ask) -> bool:
    """Whether another value of an argument changes the student's answer to this question."""
    return _acts(_Question(asked, ask), name)


def _must_act(seen: _Question, name: str) -> bool:
    changed = [answers for other in _others(seen.asked, name) if (answers := seen.changed(**{name: other}))]
    return any(not alike(seen.right.value, right.value) for right, _ in changed)


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


def broken(suspect: NamedChange, questions: Iterable[Call], ask: Ask) -> str:
    """The first invariant that a right answer keeps in one of the questions and the student's does not; or ""."""
    for asked, invariant in itertools.product(itertools.islice(questions, MOST_QUESTIONS), suspect.invariants):
        with suppress(Exception):  # An answer of another form has other things to hear first.
            if _holds(invariant, asked, ask, RIGHT) and not _holds(invariant, asked, ask, MINE):
                return " ".join((invariant.__doc__ or "").split())
    return ""


def _holds(invariant: Any, asked: Call, ask: Ask, whose: int) -> bool:
    def changed(**arguments: Any) -> Any:
        return _plain(ask(replace(asked, arguments={**asked.arguments, **arguments}, grad_of=()))[whose])

    return bool(invariant(asked.arguments, changed))


def _plain(outcome: Outcome) -> Any:
    """A value, its parts under their names.

    Raises:
        LookupError: it is an error.
    """
    if outcome.error:
        raise LookupError(outcome.error)
    value, names = fields_of(outcome.value)
    return namedtuple("Parts", names)(*value) if names else value
