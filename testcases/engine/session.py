"""What this run is about: whose code is called, and with which seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from .evaluate import STUB, Evaluator, solutions
from .failures import Blocked, NotStarted
from .plain import Outcome, Request
from .wrong_answers import probes

subject: Evaluator = solutions()
"""Whose code the checks are about."""
trusted: Evaluator = subject
"""The reference, on the trusted side."""
seed: int = 0
"""Of the fresh random inputs."""

_first_answers: WeakKeyDictionary[Evaluator, dict[tuple[str, str], Outcome | None]] = WeakKeyDictionary()


def use(evaluator: Evaluator, suite_seed: int = 0) -> None:
    """Choose the subject and the seed of all checks from here on."""
    global subject, seed
    subject, seed = evaluator, suite_seed


@contextmanager
def using(evaluator: Evaluator, suite_seed: int = 0) -> Iterator[None]:
    """`use`, for a while."""
    before = subject, seed
    use(evaluator, suite_seed)
    try:
        yield
    finally:
        use(*before)


def require_started(lesson: str, exercise: str) -> None:
    """Find out, once, whether an exercise is still a stub: not every test of it would notice.

    Raises:
        NotStarted: it is.
    """
    first = _first_answer(lesson, exercise)
    if first and stub_of(first) == (lesson[6:8], exercise):
        raise NotStarted(lesson, exercise)


def ask(request: Request) -> Outcome:
    """Run a request on the subject. An exercise that hangs on an ordinary example is not called again.

    Raises:
        NotStarted, Blocked: it, or one that it calls, is still a stub.
    """
    require_started(request.lesson, request.exercise)
    first = _first_answer(request.lesson, request.exercise)
    hangs = first and first.error and first.error.kind == "timeout"
    outcome = first if first and hangs else subject.evaluate(request)
    raise_if_unfinished(request, outcome)
    return outcome


def _first_answer(lesson: str, exercise: str) -> Outcome | None:
    """What the subject gives on the first example of an exercise, asked once; None without examples."""
    known = _first_answers.setdefault(subject, {})
    if (lesson, exercise) not in known:
        examples = probes(lesson, exercise)[:1]
        known[lesson, exercise] = subject.evaluate(examples[0]) if examples else None
    return known[lesson, exercise]


def raise_if_unfinished(request: Request, outcome: Outcome) -> None:
    """A stub's error is not a wrong answer.

    Raises:
        NotStarted: it is the exercise's own stub.
        Blocked: it is the stub of another exercise that this one calls.
    """
    if is_own_stub(request, outcome):
        raise NotStarted(request.lesson, request.exercise)
    if stub := stub_of(outcome):
        raise Blocked(request.lesson, request.exercise, f"lesson {int(stub[0])} ({stub[1]})")


def is_own_stub(request: Request, outcome: Outcome) -> bool:
    return stub_of(outcome) == (request.lesson[6:8], request.exercise)


def stub_of(outcome: Outcome) -> tuple[str, str] | None:
    """Lesson number and exercise of the stub whose error this is."""
    error = outcome.error
    if error is None or error.type_name != "NotImplementedError":
        return None
    found = STUB.match(error.message)
    return (found[1], found[2]) if found else None
