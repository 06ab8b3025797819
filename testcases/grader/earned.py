"""Points that no work stands behind: for what was handed out, and for answers learned by heart.

The suites are public. A table of their inputs passes every test of fixed numbers, and the argument checks are in the
stub already. So a passed test must show that it was earned: by a question whose right answer is new, which is that of
no question that anybody could have seen before. Then no table has it, and no guess at the nearest entry of one.

* Where an exercise failed somewhere, a test by value is asked again with twins of its own questions: the same shapes,
  masks and options, other numbers. If the student agrees on none, the first answer was not computed. Where a question
  has no numbers to change, or an answer does not depend on them, the lesson's fresh examples are asked instead.
* A test whose calls all ended in an error (it checks arguments) counts only beside a test that was earned by a value.
* Where all passed, the fresh examples were among the questions.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from testcases.doubles.drawing import generator
from testcases.engine.compare import Rules, first_difference
from testcases.engine.plain import Outcome, Request
from testcases.engine.session import Engine
from testcases.engine.trusted import drawn

from .cache import packed
from .results import PASSED, WRONG, Result

TWINS = 3
QUESTIONS = 10
LOOSE = Rules(atol=1e-4, rtol=1e-4, equal_nan=True)
"""Rounding is another test's matter."""
BY_HEART = "Right on the numbers of the test file, wrong on others of the same shape: this test earns nothing."
HANDED_OUT = "It checks arguments, which the stub does already: it counts once the exercise answers something right."


def earned(engine: Engine, results: list[Result]) -> list[Result]:
    """The results of one exercise, those not earned turned to wrong."""
    passed = [result for result in results if result.status == PASSED]
    if not passed or len(passed) == len(results):
        return results
    entry = passed[0].entry
    public = _Public(engine, entry.lesson, entry.exercise, [asked for result in passed for asked in result.requests])
    honest = {result.entry.test for result in passed if result.requests and _computes(engine, result.requests, public)}
    by_value = {result.entry.test for result in passed if result.requests}
    found = []
    for result in results:
        why = ""
        if result.status == PASSED and result.entry.test not in honest:
            why = BY_HEART if result.entry.test in by_value else "" if honest else HANDED_OUT
        text = f"{entry.lesson} · {entry.exercise} · not earned\n{why}"
        found.append(Result(result.entry, WRONG, text) if why else result)
    return found


class _Public:
    """The right answers that anybody can have seen: to the examples, and to the questions of the test files."""

    def __init__(self, engine: Engine, lesson: str, exercise: str, asked: list[Request]) -> None:
        self._fresh = {packed(one)[1] for one in engine.examples(lesson, exercise)}
        answers = [engine.reference.evaluate(one) for one in asked if packed(one)[1] not in self._fresh]
        answers += engine.reference.right_answers_to(lesson, exercise)
        self._values = [_without_dtype(answer.value) for answer in answers if answer.error is None]

    def has(self, right: Outcome) -> bool:
        value = _without_dtype(right.value)
        return any(first_difference(known, value, LOOSE) is None for known in self._values)


def _computes(engine: Engine, requests: Sequence[Request], public: _Public) -> bool:
    """Whether the student agrees with the reference on a question whose right answer is new."""
    twins = [twin for request in requests if (twin := twin_of(request, engine.seed))]
    asked = _agreements(engine, twins, public)
    if not asked:
        others = drawn(requests[0].lesson, engine.seed + 1)
        asked = _agreements(engine, [other for other in others if other.exercise == requests[0].exercise], public)
    return any(asked)


def _agreements(engine: Engine, requests: list[Request], public: _Public) -> list[bool]:
    found: list[bool] = []
    for request in requests:
        right = engine.reference.evaluate(request)
        if right.error is None and not public.has(right):
            found.append(_agree(right, engine.subject.evaluate(request)))
            if found[-1] or len(found) == QUESTIONS:
                break
    return found


def _agree(right: Outcome, got: Outcome) -> bool:
    return not got.error and first_difference(_without_dtype(right.value), _without_dtype(got.value), LOOSE) is None


def _without_dtype(value: Any) -> Any:
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.double()
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_without_dtype(part) for part in value)
    if isinstance(value, dict):
        return {key: _without_dtype(part) for key, part in value.items()}
    return value


def twin_of(request: Request, seed: int) -> Request | None:
    """The same question with other numbers: zeros, signs, NaN, masks and options stay. None if there are none."""
    changed = False
    text = f"{seed} {request.lesson} {request.exercise}".encode()
    draw = generator(int.from_bytes(hashlib.sha256(text).digest()[:16], "big"))

    def other(value: Any) -> Any:
        nonlocal changed
        if isinstance(value, Tensor) and value.is_floating_point() and value.dtype in (torch.float32, torch.float64):
            factor = 1 + 0.25 * torch.rand(value.shape, generator=draw, dtype=value.dtype)
            changed = changed or bool((value.isfinite() & (value != 0)).any())
            return value * factor
        if isinstance(value, (list, tuple)):
            return type(value)(other(part) for part in value)
        return value

    arguments = {name: other(value) for name, value in request.arguments.items()}
    return dataclasses.replace(request, arguments=arguments) if changed else None
