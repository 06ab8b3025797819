"""One run of suites: whose code is called, what is right, and on which numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from .contract import lesson as read_lesson
from .evaluate import STUB, Evaluator
from .explanation import Explanation
from .failures import Blocked, NotStarted
from .onlooker import asked_by_a_test
from .plain import Outcome, Request, StudentError
from .trusted import Reference, drawn, examples

if TYPE_CHECKING:
    from .upstream import Upstream


class Engine:
    """What the suites' verbs (call, examples_of, reference) stand on. Whoever runs a suite makes one:

        with Engine(student(folder)).active():
            case.run()

    Args:
        subject: whose code the checks are about.
        reference: the reference, if it is shared with other engines.
        seed: of the fresh random inputs.
        explanation: finds the cause of a wrong answer.
        seconds: no call is given more, whatever it asks for.
        echo: show what a test's own calls print.
        impatient: an exercise that took too long once is not called again, by no test and by no other exercise; the
            subject is a LocalEvaluator.
        believes: whether what the subject's process says of itself counts. It may say anything, so in a graded run it
            costs nothing to say that a global setting was changed, and earns nothing not to.
    """

    def __init__(
        self,
        subject: Evaluator,
        *,
        reference: Reference | None = None,
        seed: int = 0,
        explanation: Callable[[Evaluator, Reference], Explanation] = Explanation,
        seconds: float = math.inf,
        believes: bool = True,
        echo: bool = False,
        impatient: bool = False,
    ) -> None:
        self.subject, self.seed, self.seconds, self.believes = subject, seed, seconds, believes
        self.echo = echo
        self.reference = reference or shared_reference()
        self.explanation = explanation(subject, self.reference)
        self.impatient = impatient
        self._endless: dict[tuple[str, str], Outcome] = {}
        self._first_answers: dict[tuple[str, str], Outcome | None] = {}
        self._examples: dict[str, tuple[Request, ...]] = {}
        self._upstream: Upstream | None = None
        self.at_breakpoint: list[Request] = []
        """The tests' calls that came to a `breakpoint()`."""
        self.thorough = True
        """Whether agreement with the reference asks the questions of `families`, too."""
        self.draws = 0
        """How often examples were asked for: a test that asks for none does not depend on the seed."""
        self.asked: Request | None = None
        """The last question that a test has asked."""
        self.answered: list[Request] = []
        """The tests' questions that were answered with a value since this was last cleared."""

    @contextmanager
    def active(self) -> Iterator[Engine]:
        """Until the end of the block the suites' verbs use this engine."""
        token = _active.set(self)
        try:
            yield self
        finally:
            _active.reset(token)

    def examples(self, lesson: str, exercise: str) -> list[Request]:
        """Those of an exercise, drawn from this engine's seed."""
        self.draws += 1
        if lesson not in self._examples:
            self._examples[lesson] = drawn(lesson, self.seed)
        return [request for request in self._examples[lesson] if request.exercise == exercise]

    def upstream(self, request: Request) -> list[str]:
        """What a report says where an earlier lesson of the student is at fault."""
        from .upstream import Upstream

        self._upstream = self._upstream or Upstream(self.subject, self.reference)
        return self._upstream.lines(request)

    def require_started(self, lesson: str, exercise: str) -> None:
        """Find out, once, whether an exercise is still a stub: not every test of it would notice.

        Raises:
            NotStarted: it is.
        """
        first = self._first_answer(lesson, exercise)
        if first and stub_of(first) == (read_lesson(lesson).number, exercise):
            if first.at_breakpoint:
                self.at_breakpoint.append(examples(lesson, exercise)[0])
            raise NotStarted(lesson, exercise)

    def ask(self, request: Request) -> Outcome:
        """Run a request on the subject. An exercise that hangs on an ordinary example is not called again.

        Raises:
            NotStarted, Blocked: it, or one that it calls, is still a stub.
        """
        self.require_started(request.lesson, request.exercise)
        first = self._first_answer(request.lesson, request.exercise)
        self.asked = request
        known = self._endless.get((request.lesson, request.exercise)) or (
            first if first and is_timeout(first) else None
        )
        with asked_by_a_test(self.echo):
            outcome = known or self._evaluate(request)
        if outcome.at_breakpoint:
            self.at_breakpoint.append(request)
        stub = stub_of(outcome)
        if stub and (request.lesson, stub[1]) in self._endless:
            raise Blocked(request.lesson, request.exercise, f"{stub[1]}, of which one call did not end")
        raise_if_unfinished(request, outcome)
        if outcome.error is None:
            self.answered.append(request)
        return outcome

    def _first_answer(self, lesson: str, exercise: str) -> Outcome | None:
        """What the subject gives on the first example of an exercise, asked once; None without examples."""
        if (lesson, exercise) in self._endless:
            return self._endless[lesson, exercise]
        if (lesson, exercise) not in self._first_answers:
            asked = examples(lesson, exercise)[:1]
            self._first_answers[lesson, exercise] = self._evaluate(asked[0]) if asked else None
        return self._first_answers[lesson, exercise]

    def _evaluate(self, request: Request) -> Outcome:
        hurried = request if request.seconds <= self.seconds else replace(request, seconds=self.seconds)
        outcome = self.subject.evaluate(hurried)
        return self._blame(request, outcome) if self.impatient and is_timeout(outcome) else outcome

    def _blame(self, request: Request, outcome: Outcome) -> Outcome:
        """Put the exercise aside that never ended: this one, or the innermost that it calls."""
        assert outcome.error is not None
        lesson, known = (
            request.lesson,
            {name.rpartition(".")[2]: name for name in read_lesson(request.lesson).exercises},
        )
        inner = [known[frame.function] for frame in outcome.error.frames if frame.function in known][-1:]
        for called in inner if inner != [request.exercise] else ():
            if (lesson, called) not in self._endless and (asked := examples(lesson, called)[:1]):
                # On a plain example a second is plenty.
                self._evaluate(replace(asked[0], seconds=request.seconds / 5))
            if (lesson, called) in self._endless:
                waits = StudentError("raised", NotImplementedError.__name__, f"{read_lesson(lesson).short}: {called}")
                return Outcome(error=waits)
        self._endless[lesson, request.exercise] = outcome
        self.subject.put_aside(lesson, request.exercise)
        return outcome


@cache
def shared_reference() -> Reference:
    """One for all engines of this process that are not given another."""
    return Reference()


@cache
def _of_the_reference() -> Engine:
    return Engine(shared_reference())


_active: ContextVar[Engine] = ContextVar("engine")


def current() -> Engine:
    """The active engine; one of the reference where none is, such as while a suite is imported."""
    return _active.get(None) or _of_the_reference()


def raise_if_unfinished(request: Request, outcome: Outcome) -> None:
    """A stub's error is not a wrong answer.

    Raises:
        NotStarted: it is the exercise's own stub.
        Blocked: it is the stub of another exercise that this one calls.
    """
    if is_own_stub(request, outcome):
        raise NotStarted(request.lesson, request.exercise)
    if stub := stub_of(outcome):
        raise Blocked(request.lesson, request.exercise, f"lesson {stub[0]} ({stub[1]})")


def is_timeout(outcome: Outcome) -> bool:
    return outcome.error is not None and outcome.error.kind == "timeout"


def is_own_stub(request: Request, outcome: Outcome) -> bool:
    return stub_of(outcome) == (read_lesson(request.lesson).number, request.exercise)


def stub_of(outcome: Outcome) -> tuple[int, str] | None:
    """Lesson number and exercise of the stub whose error this is."""
    error = outcome.error
    if error is None or error.type_name != "NotImplementedError":
        return None
    match = STUB.match(error.message)
    return (int(match[1]), match[2]) if match else None
