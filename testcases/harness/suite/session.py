"""One run of suites: whose code is called, what is right, and on which numbers; and whose fault is whose, where an
exercise calls another that is a stub, never ends or is wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

from ..catalog import SOLUTIONS, once_written, read_lesson
from ..diagnosis.code import Function, definition, exercises_named_in
from ..diagnosis.explain import Explanation, FirstFailure, NoExplanation
from ..diagnosis.values import Diagnosis, Part
from ..execution.calling import a_tests_own_calls
from ..execution.executor import Executor, InProcess
from ..execution.messages import Call, Outcome, StudentError
from ..oracle.reference import Reference, examples, kept, shared_reference
from ..report.compare import same_outcome
from ..report.failures import CheckFailed, Kept, NotStarted, Waiting

MOST_LATE = 2
"""After so many calls that did not end an exercise is asked nothing more, here and by the grader."""
SEARCHES = 2
"""Whoever marks many answers looks for the cause of a wrong exercise so many times."""


@dataclass(eq=False)
class Engine:
    """The state behind what suites call. Whoever runs a suite makes one:

    with Engine(student(folder)).active():
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
    thorough: bool = True
    """Whether agreement with the reference asks what is made of the examples, too."""
    pays_once: bool = False
    """Whether an exercise keeps its points that is right with the solution's version of what it calls; and where that
    never ends, others do not call it either."""
    of_the_formula: bool = False
    """Whether this test is of the basic suite, where numbers are compared as float32."""
    is_heard: bool = True
    """Whether the calls of a test are its own: what they print is shown, and `breakpoint()` stops in them."""
    draws: int = 0
    """How often examples were asked for: a test that asks for none does not depend on the seed."""
    answered: list[Call] = field(default_factory=list)
    """The questions that were answered with a value since the last test began."""
    calls: list[Any] = field(default_factory=list)
    """The calls that the test has made, as `asked.Asked`."""
    lent: set[tuple[str, str, str]] = field(default_factory=set)
    """Lesson, exercise and the stub that it called, where the solution answered for the stub, since then."""

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

    @contextmanager
    def in_silence(self) -> Iterator[None]:
        """In this block nobody sees what the calls print, and no `breakpoint()` stops."""
        self.is_heard = False
        try:
            yield
        finally:
            self.is_heard = True

    def begin_test(self, of_the_formula: bool = False) -> None:
        self.of_the_formula = of_the_formula
        self.answered.clear()
        self.calls.clear()
        self.lent.clear()

    def end_test(self) -> None:
        """
        Raises:
            Waiting: the test has passed, with the solution in place of a stub of its lesson.
        """
        if self.lent:
            lesson, exercise, stub = min(self.lent)
            raise Waiting(lesson, exercise, f"runs on the solution's {stub}. {once_written(stub)}", stub)

    def examples(self, lesson: str, exercise: str) -> tuple[Call, ...]:
        """The examples of an exercise, drawn from this engine's seed."""
        self.draws += 1
        return examples(lesson, exercise, self.seed)

    @cached_property
    def explainer(self) -> Explanation:
        return self.explanation(self.subject, self.reference, partial(self.first_verdict, kind=CheckFailed))

    def first_verdict(self, subject: Executor, lesson: str, exercise: str, kind: type[Any] = Exception) -> Any:
        """What the first of an exercise's own tests that does not pass says of another subject, if it is of this kind;
        None where all pass."""
        from .runner import cases_of  # here, since its cases run on an engine

        other = Engine(subject, seed=self.seed, explanation=NoExplanation, seconds=self.seconds, believes=self.believes)
        if subject is self.subject:
            other._endless = self._endless  # Else the solution would be lent in its place, for good.
        with other.active(), other.in_silence():
            verdicts = (case.run() for case in cases_of(lesson, exercise))
            return next((verdict for verdict in verdicts if isinstance(verdict, kind)), None)

    @kept
    def right_with(self, lesson: str, exercise: str) -> tuple[str, ...]:
        """The exercises whose mistakes are all that is wrong with this one, where a mistake is paid once."""
        return _right_with(self, lesson, exercise) if self.pays_once else ()

    def require_started(self, lesson: str, exercise: str) -> None:
        """Find out, once, whether an exercise is still a stub: not every test of it would notice.

        Raises:
            NotStarted: it is.
        """
        first = self._first_answer(lesson, exercise)
        if first and stub_of(first, lesson) == exercise:
            raise NotStarted(lesson, exercise)

    def ask(self, call: Call) -> Outcome:
        """Run a call on the subject. After MOST_LATE calls that did not end an exercise is asked nothing more.

        Raises:
            NotStarted, Waiting: it, or one that it calls, is still a stub.
        """
        self.require_started(call.lesson, call.exercise)
        with a_tests_own_calls() if self.is_heard else nullcontext():
            outcome = self._endless.get((call.lesson, call.exercise)) or self._run(call)
        if outcome.error is None:
            self.answered.append(call)
        stub = stub_of(outcome, call.lesson)
        if stub == call.exercise:
            raise NotStarted(call.lesson, stub)
        if (call.lesson, stub) in self._endless:
            if names := self.right_with(call.lesson, call.exercise):
                raise Kept(call.lesson, call.exercise, names)
            raise Waiting(call.lesson, call.exercise, f"waits for {stub}, of which {MOST_LATE} calls did not end")
        if stub:
            why = f"needs {stub}, which is still a stub. {once_written(stub)}"
            raise Waiting(call.lesson, call.exercise, why, stub)
        self.lent.update((call.lesson, call.exercise, name) for name in outcome.lent)
        return outcome

    @kept
    def _first_answer(self, lesson: str, exercise: str) -> Outcome | None:
        """The subject's outcome on the first example of an exercise; None without examples."""
        asked = examples(lesson, exercise)[:1]
        return self._endless.get((lesson, exercise)) or (self._run(asked[0]) if asked else None)

    def _run(self, call: Call) -> Outcome:
        hurried = call if call.seconds <= self.seconds else replace(call, seconds=self.seconds)
        outcome = self.subject.run(hurried)
        while self._lends(call, outcome):
            outcome = self.subject.run(hurried)
        return self._late_answer(call, outcome) if is_timeout(outcome) else outcome

    def _lends(self, call: Call, outcome: Outcome) -> bool:
        """Whether this answer is the error of another stub of its lesson, for which the solution answers from now on.

        The grader's workers are lent nothing, since a student's code could read it there. Such a test waits unasked.
        """
        lesson, name = call.lesson, stub_of(outcome, call.lesson)
        is_other = name not in ("", call.exercise) and (lesson, name) not in self._endless
        asked = examples(lesson, name)[:1] if is_other else ()
        if not asked or not isinstance(self.subject, InProcess):
            return False
        if stub_of(self.subject.run(asked[0]), lesson) != name:
            return False
        self._first_answer(lesson, name)  # It is kept, so that the stub itself stays not started.
        self.subject.lend(lesson, name)
        return True

    def _late_answer(self, call: Call, outcome: Outcome) -> Outcome:
        """Of a call that did not end. The fault may be in the innermost exercise that it calls."""
        assert outcome.error is not None
        key = call.lesson, call.exercise
        own = self.subject if self.pays_once and isinstance(self.subject, InProcess) else None
        if own:
            known = {name.rpartition(".")[2]: name for name in read_lesson(call.lesson).exercises}
            inner = [known[frame.function] for frame in outcome.error.frames if frame.function in known][-1:]
            for called in inner if inner != [call.exercise] else ():
                if self._never_ends(call.lesson, called, call.seconds / 5):  # On plain examples that is plenty.
                    stub = f"{read_lesson(call.lesson).short}: {called}"
                    return Outcome(error=StudentError("raised", NotImplementedError.__name__, stub))
        self._late[key] += 1
        if self._late[key] >= MOST_LATE:
            self._endless[key] = outcome
            if own:
                own.put_aside(*key)
        return outcome

    def _never_ends(self, lesson: str, exercise: str, seconds: float) -> bool:
        """Whether an exercise is asked nothing more, now that it is asked some plain examples."""
        for asked in examples(lesson, exercise)[:MOST_LATE]:
            if (lesson, exercise) not in self._endless:
                self._run(replace(asked, seconds=seconds))
        return (lesson, exercise) in self._endless


class Sparing(Explanation):
    """For whoever marks many answers. One cause an exercise is enough: each search runs all wrong answers, which costs
    more than the test.

    Where live objects are made for each call, only those of the exercise itself: a neighbor has a row of its own.
    """

    def __init__(self, subject: Executor, reference: Reference, first_failure: FirstFailure) -> None:
        super().__init__(subject, reference, first_failure)
        self._tried: dict[tuple[str, str], int] = {}

    def diagnose(self, call: Call, outcome: Outcome, neighbors: bool = True, part: Part | None = None) -> Diagnosis:
        key = call.lesson, call.exercise
        if self._tried.get(key, 0) >= SEARCHES:
            return Diagnosis()
        found = super().diagnose(call, outcome, neighbors and not call.scenario, part)
        self._tried[key] = SEARCHES if found.is_found else self._tried.get(key, 0) + 1
        return found


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


def is_timeout(outcome: Outcome) -> bool:
    return outcome.error is not None and outcome.error.kind == "timeout"


# A mistake is paid once: an exercise that is right with the solution's version of what it calls keeps its points.
#
# The student's files are loaded again, with the solution's text in place of each function of the lesson that is wrong
# and that the exercise goes through: one that stands before it, or that the solution calls there, so that no process
# that is asked for an exercise holds its answer. Then the exercise has to pass all of its tests. And it has to call
# them: where a call gives shifted numbers, its answer has to move, or the mistake was copied.


SHIFTED = """
def _shifted(function):
    def shift(value):
        if isinstance(value, bool):
            return not value
        if str(getattr(value, "dtype", "")) == "torch.bool":
            return ~value
        if isinstance(value, dict):
            return {name: shift(part) for name, part in value.items()}
        if isinstance(value, tuple):
            parts = [shift(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return value + 1 if hasattr(value, "__add__") and not isinstance(value, (list, str)) else value

    return lambda *args, **options: shift(function(*args, **options))


"""


def _right_with(engine: Engine, lesson: str, exercise: str) -> tuple[str, ...]:
    """The exercises of the lesson whose mistakes are all that is wrong with this one; none if it has one of its own."""
    # A later one may do the same as a part of its own: whoever calls that would be given the answer.
    exercises = [*read_lesson(lesson).exercises]
    below = {*exercises[: exercises.index(exercise)], *exercises_named_in(engine.reference, lesson, exercise)}
    called = [name for name in exercises_named_in(engine.subject, lesson, exercise) if name in below]
    wrong = [name for name in called if engine.first_verdict(engine.subject, lesson, name)]
    repaired = _with_solutions(engine.subject, lesson, wrong) if wrong else None
    if repaired is None:
        return ()
    is_right = engine.first_verdict(repaired, lesson, exercise) is None
    moved = _called(engine, repaired, lesson, exercise, wrong) if is_right else ()
    repaired.finish()
    return moved


def _called(engine: Engine, repaired: Executor, lesson: str, exercise: str, wrong: list[str]) -> tuple[str, ...]:
    """Those whose answers move that of the exercise."""
    asked, found = examples(lesson, exercise), []
    before = [repaired.run(one) for one in asked]
    for name in wrong:
        repaired.finish()
        shifted = _with_solutions(engine.subject, lesson, wrong, shifted=name)
        if shifted is None:
            continue
        pairs = zip(asked, before, strict=True)
        if any(not same_outcome(shifted.run(one), answer, values_only=True) for one, answer in pairs):
            found.append(name)
        shifted.finish()
    return tuple(found)


def _with_solutions(subject: Executor, lesson: str, names: list[str], shifted: str = "") -> Executor | None:
    """The same files, with the solution's text for some exercises; None where they cannot be put in."""
    texts: dict[str, str] = {}
    for name in names:
        file = read_lesson(lesson).file_of(name)
        own = texts.get(file) or subject.text(lesson, file)
        text = _replaced(own, (SOLUTIONS / lesson / file).read_text("utf-8"), name, name == shifted)
        if text is None:
            return None
        texts[file] = text
    subject.finish()
    return subject.with_texts({f"{lesson}/{file}": text for file, text in texts.items()})


def _replaced(own: str, solution: str, name: str, shifted: bool = False) -> str | None:
    """A file with one function from another text; None where either has none, or has it elsewhere."""
    mine, theirs = definition(own, name), definition(solution, name)
    if mine is None or theirs is None or mine.col_offset != theirs.col_offset:
        return None
    top = definition(own, name.partition(".")[0]) or mine
    lines, right = own.splitlines(), solution.splitlines()
    after = ["", "", *SHIFTED.strip().splitlines(), "", "", f"{name} = _shifted({name})"] if shifted else []
    kept = [
        *lines[: _first(mine)],
        *right[_first(theirs) : theirs.end_lineno],
        *lines[mine.end_lineno : top.end_lineno],
    ]
    return "\n".join([*kept, *after, *lines[top.end_lineno :], ""])


def _first(node: Function) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
