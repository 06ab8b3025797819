"""One run of suites: whose code is called, what is right, and on which numbers; and whose fault is whose, where an
exercise calls another that is a stub, never ends or is wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

from ..catalog import once_written, read_lesson
from ..diagnosis.code import exercises_named_in
from ..diagnosis.explain import Explanation, FirstFailure, NoExplanation
from ..execution.calling import is_heard
from ..execution.executor import Executor, InProcess
from ..execution.messages import Call, Outcome
from ..oracle.reference import Reference, examples, kept, shared_reference
from ..report.errors import NotStarted, Waiting
from ..report.failures import CheckFailed
from . import paid_once

MOST_LATE = 2
"""After so many calls that did not end an exercise is asked nothing more, here and by the grader."""


@dataclass(eq=False)
class Engine:
    """The state behind what suites call. Whoever runs a suite makes one:

    with Engine(InProcess(folder)).active():
        case.run()
    """

    subject: Executor
    """Whose code the checks are about."""
    _: KW_ONLY
    seed: int = 0
    """Seed of the fresh random inputs."""
    explanation: Callable[[Executor, Reference, FirstFailure], Explanation] = Explanation
    """Class, called with subject, reference and what runs the tests, that finds the cause of a wrong answer."""
    seconds: float = math.inf
    """Upper bound of every call's time limit."""
    believes: bool = True
    """Whether to trust what the subject's process reports about itself, such as a changed global setting. In a graded
    run it could report anything, so such reports neither cost nor earn points."""
    pays_once: bool = False
    """Whether an exercise keeps its points that is right with the solution's version of what it calls."""
    of_the_formula: bool = False
    """Whether this test is of the basic suite, where numbers are compared as float32."""
    is_heard: bool = True
    """Whether the calls of a test are its own: what they print is shown, and `breakpoint()` stops in them."""
    calls: list[Any] = field(default_factory=list, init=False)
    """What the test has asked so far, as `asked.Asked`."""

    _late: Counter[tuple[str, str]] = field(default_factory=Counter, init=False)
    _endless: dict[tuple[str, str], Outcome] = field(default_factory=dict, init=False)

    @property
    def reference(self) -> Reference:
        """Whose answers are right."""
        return shared_reference()

    @contextmanager
    def active(self) -> Iterator[Engine]:
        """In this block the suites' verbs use this engine."""
        token = _active.set(self)
        try:
            yield self
        finally:
            _active.reset(token)

    def begin_test(self, of_the_formula: bool = False) -> None:
        self.of_the_formula = of_the_formula
        self.calls.clear()

    def end_test(self) -> None:
        """
        Raises:
            Waiting: the test has passed, with the solution in place of a stub of its lesson.
        """
        for call, stub in [(one.call, stub) for one in self.calls for stub in one.outcome.lent]:
            why = f"runs on the solution's {stub}. {once_written(stub)}"
            raise Waiting(call.lesson, call.exercise, why)

    @property
    def answered(self) -> list[Call]:
        """The questions of the test that were answered with a value."""
        return [one.call for one in self.calls if one.outcome.error is None]

    def examples(self, lesson: str, exercise: str) -> tuple[Call, ...]:
        """The examples of an exercise, drawn from this engine's seed."""
        return examples(lesson, exercise, self.seed)

    @cached_property
    def explainer(self) -> Explanation:
        return self.explanation(self.subject, self.reference, partial(self.first_verdict, kind=CheckFailed))

    def first_verdict(self, subject: Executor, lesson: str, exercise: str, kind: type[Any] = Exception) -> Any:
        """What the first of an exercise's own tests that does not pass says of another subject, if it is of this kind;
        None where all pass."""
        from .runner import cases_of  # here, since its cases run on an engine

        other = replace(self, subject=subject, explanation=NoExplanation, pays_once=False, is_heard=False)
        if subject is self.subject:
            other._endless = self._endless  # What does not end is not waited for again.
        with other.active():
            verdicts = (case.run() for case in cases_of(lesson, exercise))
            return next((verdict for verdict in verdicts if isinstance(verdict, kind)), None)

    @kept
    def right_with(self, lesson: str, exercise: str) -> tuple[str, ...]:
        """The exercises whose mistakes are all that is wrong with this one, where a mistake is paid once."""
        called = exercises_named_in(self.subject, lesson, exercise) if self.pays_once else ()
        return paid_once.right_with(self, lesson, exercise, called) if called else ()

    def require_started(self, lesson: str, exercise: str) -> None:
        """Find out, once, whether an exercise is still a stub: not every test of it would notice.

        Raises:
            NotStarted: it is.
        """
        first = self._first_answer(lesson, exercise)
        if first and stub_of(first, lesson) == exercise:
            raise NotStarted(lesson, exercise)

    def ask(self, call: Call) -> Outcome:
        """Run a call on the subject.

        Raises:
            NotStarted, Waiting: it, or one that it calls, is still a stub.
        """
        self.require_started(call.lesson, call.exercise)
        token = is_heard.set(self.is_heard)
        try:
            outcome = self._run(call)
        finally:
            is_heard.reset(token)
        stub = stub_of(outcome, call.lesson)
        if stub == call.exercise:
            raise NotStarted(call.lesson, stub)
        if stub:
            why = f"needs {stub}, which is still a stub. {once_written(stub)}"
            raise Waiting(call.lesson, call.exercise, why)
        return outcome

    @kept
    def _first_answer(self, lesson: str, exercise: str) -> Outcome | None:
        """The subject's outcome on the first example of an exercise; None without examples."""
        asked = examples(lesson, exercise)[:1]
        return self._run(asked[0]) if asked else None

    def _run(self, call: Call) -> Outcome:
        """After MOST_LATE calls that did not end an exercise is asked nothing more; after a short one, if another that
        it calls never ends."""
        key = call.lesson, call.exercise
        if key in self._endless:
            return self._endless[key]
        called = exercises_named_in(self.subject, *key) if self._endless else ()
        waits = any((call.lesson, name) in self._endless for name in called)
        seconds = min(self.seconds, call.seconds / 5 if waits else call.seconds)
        hurried = call if seconds == call.seconds else replace(call, seconds=seconds)
        outcome = self.subject.run(hurried)
        while self._lends(call, outcome):
            outcome = self.subject.run(hurried)
        if outcome.error and outcome.error.kind == "timeout":
            self._late[key] += 1
            if waits or self._late[key] >= MOST_LATE:
                self._endless[key] = outcome
        return outcome

    def _lends(self, call: Call, outcome: Outcome) -> bool:
        """Whether this answer is the error of another stub of its lesson, for which the solution answers from now on.

        The grader's workers are lent nothing, since a student's code could read it there. Such a test waits unasked.
        """
        lesson, name = call.lesson, stub_of(outcome, call.lesson)
        asked = examples(lesson, name)[:1] if name not in ("", call.exercise) else ()
        if not asked or not isinstance(self.subject, InProcess):
            return False
        if stub_of(self.subject.run(asked[0]), lesson) != name:
            return False
        self._first_answer(lesson, name)  # It is kept, so that the stub itself stays not started.
        self.subject.lend(lesson, name)
        return True


@cache
def _of_the_reference() -> Engine:
    return Engine(shared_reference())


_active: ContextVar[Engine] = ContextVar("engine")


def current() -> Engine:
    """The active engine; one of the reference where none is, such as while a suite is imported."""
    return _active.get(None) or _of_the_reference()


def stub_of(outcome: Outcome, lesson: str) -> str:
    """The exercise of a lesson that is still a stub, and whose error this is; empty where it is not that."""
    error = outcome.error
    if error is None or error.type_name != "NotImplementedError":
        return ""
    short, _, name = error.message.partition(": ")
    return name if short == read_lesson(lesson).short and name in read_lesson(lesson).exercises else ""
