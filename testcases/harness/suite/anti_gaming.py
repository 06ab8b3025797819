"""Points that no work stands behind: for what was handed out, for answers learned by heart, and for trivial ones.

The suites are public. A table of their inputs passes every test of fixed numbers, the argument checks are in the
stub already, and 0, or an input as it came, is sometimes right. So a passed test must show that it was earned: by a
question whose right answer is new, which is that of no question that anybody could have seen before, and none of its
own arguments. Then no table has it, no guess at the nearest entry of one, and no constant.

* Where an exercise failed somewhere, a test by value is asked again with twins of its own questions: the same shapes,
  masks and options, other numbers. If the student agrees on none, the first answer was not computed. Where a question
  has no numbers to change, or an answer does not depend on them, the lesson's fresh examples are asked instead: of a
  test of the basic suite only the plain ones, so that a right formula keeps its points.
* Where every answer is one of a few names, none is new: then a name is earned that is right on a fresh question, beside
  another one that is, so that no constant earns anything.
* A mask or a small whole number is sometimes guessed: of those, more than half must be right.
* A test whose calls all ended in an error (it checks arguments) counts only beside a test that was earned by a value.
* Where all passed, the fresh examples were among the questions.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from testcases.harness.doubles.drawing import generator

from ..catalog import is_basic
from ..execution.executor import Executor
from ..execution.messages import Call, Outcome, identical
from ..oracle.mutations import NamedChange, instead
from ..oracle.reference import examples, with_change
from ..report.compare import Rules, first_difference
from .questions import plain
from .runner import cases_of
from .session import Engine

TWINS = 3
FARTHER = 0.25, 0.25, 0.05, 0.05
"""By how much the numbers of a question's twins are larger at most. A formula that is right for some numbers, such as
those that need no clipping, is not to depend on the luck of one draw: equal code should have equal marks."""
QUESTIONS = TWINS * len(FARTHER)
LOOSE = Rules(atol=1e-4, rtol=1e-4, equal_nan=True, single=True)
"""Rounding is another test's matter."""
BY_HEART = "Right on the numbers of the test file, wrong on others of the same shape: this test earns nothing."
HANDED_OUT = "It checks arguments, which the stub does already: it counts once the exercise answers something right."


def not_earned(engine: Engine, lesson: str, exercise: str, passed: Mapping[str, Sequence[Call]]) -> dict[str, str]:
    """The passed tests that earn nothing, and why, of an exercise of which another test failed.

    Args:
        passed: test -> its questions that were answered with a value; none where it checks arguments.
    """
    passed = {test: asked[:: max(1, len(asked) // TWINS)][:TWINS] for test, asked in passed.items()}
    public = _Public(engine, lesson, exercise, [one for asked in passed.values() for one in asked])
    honest = {test for test, asked in passed.items() if asked and _computes(engine, asked, public, is_basic(test))}
    why = {test: BY_HEART if asked else HANDED_OUT for test, asked in passed.items() if test not in honest}
    return {test: text for test, text in why.items() if text is BY_HEART or not honest}


def not_earned_again(engine: Engine, lesson: str, exercise: str, passed: Sequence[str]) -> dict[str, str]:
    """The same of tests that have passed before, perhaps in another process: the reference is asked what they ask."""
    questions: dict[str, list[Call]] = {}
    asked = Engine(engine.reference, seed=engine.seed)
    with asked.active():
        for case in cases_of(lesson, exercise):
            if case.node in passed:
                case.run()
                questions.setdefault(case.node, []).extend(asked.answered)
    with engine.active():
        return not_earned(engine, lesson, exercise, questions)


class _Public:
    """The right answers that anybody can have seen: to the examples, and to the questions of the test files."""

    def __init__(self, engine: Engine, lesson: str, exercise: str, asked: list[Call]) -> None:
        self._lesson, self._exercise = lesson, exercise
        fresh = engine.examples(lesson, exercise)
        answers = [
            engine.reference.run(one)
            for one in asked
            if not any(identical(one.arguments, other.arguments) for other in fresh)
        ]
        answers += engine.reference.right_answers_to(lesson, exercise)
        self._values = [answer.value for answer in answers if answer.error is None]

    def has(self, right: Outcome, call: Call) -> bool:
        """Whether this right answer is one of them, an argument as it came, or what comes of doing nothing."""
        seen = *self._values, *call.arguments.values()
        if any(first_difference(known, right.value, LOOSE) is None for known in seen):
            return True
        idle = self._idle if call.scenario else ()
        return any(_agree(right, nothing.run(call)) for nothing in idle)

    @cached_property
    def _idle(self) -> tuple[Executor, ...]:
        """Two exercises that do nothing: in a scenario the answer is the state of live objects, so these have one."""
        bodies = "return None", "raise ValueError('nothing is right')"
        idle = (NamedChange(self._exercise, body, "", "", instead(body)) for body in bodies)
        return tuple(with_change(self._lesson, one) for one in idle)


def _computes(engine: Engine, calls: Sequence[Call], public: _Public, of_the_formula: bool) -> bool:
    """Whether the student agrees with the reference on a question whose right answer is new: of the formula, a plain
    one."""
    twins = (twin_of(call, engine.seed, number) for number in range(len(FARTHER)) for call in calls)
    asked = _agreements(engine, filter(None, twins), public)
    if not asked:
        others = examples(calls[0].lesson, calls[0].exercise, engine.seed + 1)
        others = plain(others) if of_the_formula else others
        asked = _agreements(engine, others, public)
        if not asked and (told := _names_told(engine, others)):
            return len(told) > 1 and engine.reference.run(calls[0]).value in told
    return 2 * sum(asked) > len(asked)


def _names_told(engine: Engine, calls: Sequence[Call]) -> set[str]:
    """The names that the student gives rightly, where names are what is asked for."""
    rights = [(call, engine.reference.run(call)) for call in calls]
    named = [(call, right) for call, right in rights if isinstance(right.value, str)]
    return {right.value for call, right in named if _agree(right, engine.subject.run(call))}


def _agreements(engine: Engine, calls: Iterable[Call], public: _Public) -> list[bool]:
    """Whether the student agrees on each new question; except for whole numbers, one agreement is enough."""
    found: list[bool] = []
    for call in calls:
        right = engine.reference.run(call)
        if right.error is None and not public.has(right, call):
            found.append(_agree(right, engine.subject.run(call)))
            if found[-1] and not _is_whole(right.value):
                return [True]
            if len(found) == QUESTIONS:
                break
    return found


def _agree(right: Outcome, got: Outcome) -> bool:
    return not got.error and not got.lent and first_difference(right.value, got.value, LOOSE) is None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) or isinstance(value, Tensor) and not value.is_floating_point()


def _is_flags(value: Tensor) -> bool:
    """Only 0 and 1, such as `dones` in float: they say no more at 1.2."""
    return bool(((value == 0) | (value == 1)).all())


def twin_of(call: Call, seed: int, number: int) -> Call | None:
    """The same question with other numbers: zeros, signs, NaN, masks, flags and options stay, and of two equal tensors
    (such as the log-probabilities of a policy that has not moved yet) the twins are equal. None if that is all."""
    changed = False
    text = f"{seed} {number} {call.lesson} {call.exercise}"

    def other(value: Any) -> Any:
        nonlocal changed
        if isinstance(value, Tensor) and value.dtype in (torch.float32, torch.float64) and not _is_flags(value):
            drawn_from = hashlib.sha256(f"{text} {value.tolist()}".encode()).digest()[:16]
            draw = generator(int.from_bytes(drawn_from, "big"))
            factor = 1 + FARTHER[number] * torch.rand(value.shape, generator=draw, dtype=value.dtype)
            changed = changed or bool((value.isfinite() & (value != 0)).any())
            return value * factor
        if isinstance(value, (list, tuple)):
            return type(value)(other(part) for part in value)
        return value

    arguments = {name: other(value) for name, value in call.arguments.items()}
    return dataclasses.replace(call, arguments=arguments) if changed else None
