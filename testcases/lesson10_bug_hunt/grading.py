"""What a student's tests earn: the share of the wrong implementations that they refuse, once they accept the right."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Never

from testcases.harness.diagnosis.sentences import HEAD, advice_of, section_of
from testcases.harness.diagnosis.values import Diagnosis
from testcases.harness.execution.messages import Call
from testcases.harness.report.failures import CheckFailed, clean, report, show
from testcases.harness.suite.asserts import Asked, example, exercise_of, put, scenario
from testcases.harness.suite.session import current

from . import bank

REFUSES, MISSED = "a right implementation is refused", "mistakes not caught"
SECONDS = 5.0
"""Of work, for all tests of one function in one question."""
QUESTIONS = 5, 2
"""In the basic and in the advanced suite, each about one right implementation and eight wrong ones."""


def behind(exercise: Any, chosen: Sequence[bank.Implementation], **options: bool) -> Call:
    """A question about implementations that the tests do not share a process with."""
    asked = example(
        scenario("verdicts", of=exercise),
        function=function_of(exercise),
        bank=bank.packed(chosen),
        seconds=SECONDS,
        **options,
    )
    return replace(asked, behind=("bank",))


def function_of(exercise: Any) -> str:
    """What the tests of an exercise test: `compute_gae` of test_compute_gae."""
    return exercise_of(exercise).name.removeprefix("test_")


def grade(exercise: Any, draw: int = 0) -> None:
    """Run a student's tests on all right implementations, then on those that this run's seed draws.

    Raises:
        CheckFailed: they refuse a right implementation, or accept a wrong one; then with the share.
    """
    function = function_of(exercise)
    answer, found = _put(behind(exercise, bank.right(function), up_to_a_refusal=True))
    if "test" in found:
        _fail_of_refusal(answer, function, found)
    caught, missed = 0, []
    for chosen in bank.drawn(function, f"{current().seed}.{draw}", QUESTIONS[draw]):
        answer, found = _put(behind(exercise, chosen))
        for one, is_refused in zip(chosen, found["refused"], strict=True):
            if is_refused and one.question is None:
                says = "two runs of my_tests.py don't agree, so a test depends on chance or on earlier runs"
                _fail(answer, "the verdict changes from run to run", [says])
            caught += is_refused
            missed += [] if is_refused or one.question is None else [one.question]
    if missed:
        total = caught + len(missed)
        lines = [
            f"{caught} of {total} wrong implementations are caught, and every right one is accepted",
            f"a question that your tests leave open: {min(missed, key=[*bank.WRONG[function]].index)}",
            _overlooked(current().subject.text(answer.call.lesson, "my_tests.py")),
        ]
        _fail(answer, MISSED, lines, caught / total)


def _put(question: Call) -> tuple[Asked, dict[str, Any]]:
    """Ask, and fail if tests do not end."""
    answer = put(question)
    error = answer.outcome.error
    if error and error.kind == "timeout" and error.frames:
        test, line = error.frames[0].function, error.frames[-1].line
        who = "my_tests.py" if test == "<module>" else test
        says = f"{who} does not end, or is slow: it was {error.message}, which are for nine implementations together"
        _fail(answer, "took too long", [says, *_line(answer, line)])
    answer.is_sound()
    return answer, answer.outcome.value


def _fail_of_refusal(answer: Asked, function: str, found: dict[str, Any]) -> Never:
    """A right implementation is refused, or a test is broken: show the call, the answer and the line."""
    where = _line(answer, found["line"]) if found["line"] else []
    error = clean(str(found["error"]))
    if not found["asserts"]:
        says = f"{found['test']} broke on a right implementation, by an error of its own, so nothing is earned"
        _fail(answer, "your test broke", [says, *where, error])
    lines = [f"{found['test']} refuses a right implementation, so nothing is earned"]
    if "answer" in found:
        parts = [show(part) for part in found["positional"]]
        parts += [f"{name}={show(part)}" for name, part in found["options"].items()]
        lines += [f"called   {function}({', '.join(parts)})", f"got      {show(found['answer'])}, which is right"]
    _fail(answer, REFUSES, [*lines, *where, error])


def _overlooked(source: str) -> str:
    """One sentence about the first test of a file that is not run; "" if there is none."""
    starts = tuple(f"test_{function}" for function in bank.LESSONS)
    for number, line in enumerate(source.splitlines(), 1):
        found = re.match(r"(?:def|class) (test\w*|Test\w*)", line)
        if found and not found[1].startswith(starts):
            return f"my_tests.py, line {number}: {found[1]} is not run, since names begin with {' or '.join(starts)}"
    return ""


def _line(answer: Asked, number: int) -> list[str]:
    """A line of the student's tests, and where it stands."""
    lines = current().subject.text(answer.call.lesson, "my_tests.py").splitlines()
    return [f"my_tests.py, line {number}", *(f"    {clean(line.strip())}" for line in lines[number - 1 : number])]


def _fail(answer: Asked, kind: str, lines: list[str], share: float = 0.0) -> Never:
    lesson, exercise = answer.call.lesson, answer.call.exercise
    cause = None
    if kind in (REFUSES, MISSED):  # Whatever stops tests before their end is its own cause.
        cause = current().explainer.diagnose(answer.call, answer.outcome, neighbors=False).listed
    causes, read = [(HEAD, cause.why)] if cause else [], section_of(Diagnosis(), answer.call)
    tail = advice_of(causes, read, answer.call)
    said = report(f"{lesson} · {exercise} · {kind}", [line for line in lines if line], tail, [])
    raise CheckFailed(
        said,
        lesson,
        exercise,
        kind,
        cause=cause.name if cause else None,
        share=share,
        outcome=answer.outcome,
        error=answer.outcome.error,
        causes=tuple(why for _, why in causes),
        read=read,
    )
