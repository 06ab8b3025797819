"""What a student's tests earn: the share of the wrong implementations that they refuse, once they accept the right."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Never

from testcases.harness.execution.messages import Call
from testcases.harness.report.failures import CheckFailed, clean, show
from testcases.harness.suite.asserts import Asked, call_of, example, put, scenario
from testcases.harness.suite.session import current

from . import bank

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
    return call_of(exercise).exercise.removeprefix("test_")


def grade(exercise: Any, draw: int = 0) -> None:
    """Run a student's tests on all right implementations, then on those that this run's seed draws.

    Raises:
        CheckFailed: they refuse a right implementation, or accept a wrong one; then with the share.
    """
    function = function_of(exercise)
    answer = _sound(behind(exercise, bank.right(function), up_to_a_refusal=True))
    if any(answer.outcome.value["refused"]):
        _fail_of_refusal(answer, function)
    caught, missed = 0, []
    for chosen in bank.drawn(function, f"{current().seed}.{draw}", QUESTIONS[draw]):
        answer = _sound(behind(exercise, chosen))
        for one, is_refused in zip(chosen, answer.outcome.value["refused"], strict=True):
            if one.question is None and is_refused:
                says = "two runs of my_tests.py don't agree, so a test depends on chance or on earlier runs"
                answer.fail("the verdict changes from run to run", [says])
            if one.question is not None:
                caught += is_refused
                missed += [] if is_refused else [one.question]
    if missed:
        total = caught + len(missed)
        lines = [
            f"{caught} of {total} wrong implementations are caught, and every right one is accepted",
            f"a question that your tests leave open: {min(missed, key=[*bank.WRONG[function]].index)}",
        ]
        try:
            answer.fail("mistakes not caught", lines)
        except CheckFailed as failed:
            failed.share = caught / total
            raise


def _sound(question: Call) -> Asked:
    """Ask, and fail if tests do not end."""
    answer = put(question)
    answer.is_sound()
    return answer


def _fail_of_refusal(answer: Asked, function: str) -> Never:
    """A right implementation is refused, or a test is broken: show the call, the answer and the line."""
    found = answer.outcome.value
    source, number = current().subject.text(answer.call.lesson, "my_tests.py").splitlines(), found["line"]
    where = [f"my_tests.py, line {number}", f"    {source[number - 1].strip()}"] if number else []
    where.append(str(found["error"]))
    if not found["asserts"]:
        says = f"{found['test']} broke on a right implementation, by an error of its own, so nothing is earned"
        answer.fail("your test broke", [says, *map(clean, where)])
    lines = [f"{found['test']} refuses a right implementation, so nothing is earned"]
    if "answer" in found:
        parts = [show(part) for part in found["positional"]]
        parts += [f"{name}={show(part)}" for name, part in found["options"].items()]
        lines += [f"called   {function}({', '.join(parts)})", f"got      {show(found['answer'])}, which is right"]
    answer.fail("a right implementation is refused", [*lines, *map(clean, where)])
