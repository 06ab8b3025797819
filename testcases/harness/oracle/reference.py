"""The reference, the reference with one change in it, and what both answer to the lesson's examples."""

import functools
import importlib
import inspect
import math
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..catalog.lessons import SOLUTIONS, exists
from ..execution.executor import InProcess, solutions, solutions_changed
from ..execution.messages import Call, Outcome
from .memo import Remembering
from .mutations import NamedChange, changed_source

EXAMPLE_SEED = 20240
"""Seed of the examples that tell wrong answers apart; a suite draws its own."""


def kept(method: Any) -> Any:
    """A method that is run once for the same arguments; its answers live as long as the object."""

    @functools.wraps(method)
    def ask(self: Any, *key: Any) -> Any:
        known = self.__dict__.setdefault(f"answers of {method.__qualname__}", {})
        if key not in known:
            known[key] = method(self, *key)
        return known[key]

    return ask


class Reference:
    """Whose answers are right; what it has answered once is kept."""

    def __init__(self) -> None:
        self.executor = Remembering(solutions())

    def run(self, call: Call) -> Outcome:
        """The right answer."""
        return self.executor.run(call)

    def text(self, lesson: str, file: str) -> str:
        return self.executor.text(lesson, file)

    @kept
    def parameters(self, lesson: str, exercise: str) -> dict[str, inspect.Parameter]:
        """Name -> parameter of the exercise's function."""
        return dict(inspect.signature(self.executor.function(lesson, exercise)).parameters)

    @kept
    def right_answers_to(self, lesson: str, exercise: str) -> list[Outcome]:
        """The right outcomes of all examples of an exercise."""
        return [self.run(asked) for asked in examples(lesson, exercise)]

    @kept
    def changed(self, lesson: str, answer: NamedChange) -> InProcess:
        """The reference with a change in it.

        Raises:
            LookupError: it does not apply.
        """
        return Remembering(with_change(lesson, answer))


@functools.cache
def shared_reference() -> Reference:
    """One for all of this process."""
    return Reference()


class TooManyCalls(BaseException):
    """Raised in a solution whose calls are counted."""


def calls_made(run: Callable[[], object], most: float = math.inf) -> int:
    """How many calls of Python or C this leads to. After `most` it ends in the solution's code: nowhere else, since
    what is half imported or half restored would stay so."""
    made = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")
        if made >= most and frame.f_code.co_filename.startswith(str(SOLUTIONS)):
            raise TooManyCalls

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return made


def with_change(lesson: str, answer: NamedChange) -> InProcess:
    path, source = changed_source(lesson, answer)
    return solutions_changed(lesson, {path: source})


def examples(lesson: str, exercise: str, seed: int = EXAMPLE_SEED) -> tuple[Call, ...]:
    """The examples of an exercise; those that tell wrong answers apart are always the same."""
    return tuple(call for call in drawn(lesson, seed) if call.exercise == exercise)


@functools.lru_cache(maxsize=64)
def drawn(lesson: str, seed: int) -> tuple[Call, ...]:
    """All examples of a lesson from one seed: what `examples` in its examples.py gives."""
    home = f"testcases.{lesson}.examples"
    return tuple(importlib.import_module(home).examples(seed)) if exists(home) else ()
