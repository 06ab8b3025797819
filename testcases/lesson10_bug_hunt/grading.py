"""What a student's tests earn: the share of the wrong implementations that they refuse, once they accept the right."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from testcases.harness.catalog.handles import Exercise, exercise_of
from testcases.harness.catalog.lessons import lesson as read_lesson
from testcases.harness.catalog.lessons import section_for
from testcases.harness.execution.messages import Call, Outcome
from testcases.harness.report.failures import CheckFailed, clean, report, show
from testcases.harness.suite.asserts import Asked, example, put, scenario
from testcases.harness.suite.session import current

from .bank import FAMILIES, Implementation, drawn, packed
from .probes import PROBES
from .rules import overlooked, problem
from .scenarios import BROKEN, OUTSIDE, REFUSED

REFUSES, MISSED = "a right implementation is refused", "mistakes not caught"
KINDS = {
    REFUSED: (REFUSES, "refuses a right implementation, so nothing is earned"),
    OUTSIDE: (
        "a call outside of the contract",
        "makes a call that the contract does not allow: right implementations raise, so nothing is earned",
    ),
    BROKEN: ("your test broke", "broke on a right implementation, by an error of its own: nothing is earned"),
}
SECONDS = 10.0
"""Of work, for all tests of one function on all implementations."""
SIZE = 40
"""Wrong implementations that a student's tests meet,"""
FEW = 12
"""and in a second draw, and in the examples."""


def asked(exercise: Any, seed: str, size: int) -> Call:
    """The question of a test exercise, such as test_compute_gae: which of these implementations do you refuse?"""
    function = exercise_of(exercise).name.removeprefix("test_")
    _, bank = drawn(function, seed, size)
    return behind(exercise, "verdicts", function, bank)


def behind(exercise: Any, name: str, function: str, bank: Tensor) -> Call:
    """A question about implementations that the tests do not share a process with."""
    asked = example(scenario(name, of=exercise), function=function, bank=bank, seconds=SECONDS)
    return replace(asked, behind=("bank",))


def grade(exercise: Any, draw: int = 0) -> None:
    """Run a student's tests on implementations that this run's seed draws.

    It is not counted among the engine's draws: bank_test.py runs the reference's tests on the whole bank.

    Raises:
        CheckFailed: they break a rule, refuse a right implementation, or accept a wrong one; then with the share.
    """
    function, seed = exercise_of(exercise).name.removeprefix("test_"), f"{current().seed}.{draw}"
    size = SIZE if draw == 0 else FEW
    chosen, _ = drawn(function, seed, size)
    question = asked(exercise, seed, size)
    broken = problem(current().subject.text(question.lesson, "my_tests.py"), function)
    answer = Asked(question, Outcome()) if broken else put(question)
    _require_an_end(answer)
    if not broken:
        answer.is_sound()
    verdict = {"problem": broken} if broken else answer.outcome.value
    if verdict["problem"]:
        _fail(answer, "a rule is broken", [verdict["problem"]])
    _require_right_ones(answer, function, chosen)
    wrong = [(one, refused) for one, refused in zip(chosen, verdict["refused"], strict=True) if one.probe is not None]
    missed = sorted({one.probe for one, refused in wrong if not refused and one.probe is not None})
    if missed:
        caught = sum(refused for _, refused in wrong)
        lines = [
            f"{caught} of {len(wrong)} wrong implementations are caught, and every right one is accepted",
            f"a question that your tests leave open: {PROBES[function][missed[0]].question}",
        ]
        lines.append(
            overlooked(current().subject.text(question.lesson, "my_tests.py"), clean(str(verdict["left_out"])))
        )
        _fail(answer, MISSED, lines, caught / len(wrong))


def _require_an_end(answer: Asked) -> None:
    error = answer.outcome.error
    if error and error.kind == "timeout" and error.frames:
        test, line = error.frames[0].function, error.frames[-1].line
        says = f"{test} does not end, or is slow: it was {error.message}, which are for all implementations together"
        if test == "<module>":  # As it is loaded, or in a copy for one implementation.
            says = f"my_tests.py does not end, or is slow: it was {error.message}"
        _fail(answer, "took too long", [says, *_line(answer, line)])


def _require_right_ones(answer: Asked, function: str, chosen: Sequence[Implementation]) -> None:
    exercise = Exercise(answer.call.lesson, answer.call.exercise)
    for one, is_refused in zip(chosen, answer.outcome.value["refused"], strict=True):
        if one.probe is None and is_refused:
            told = put(behind(exercise, "refusal", function, packed([one.source])))
            told.is_sound()
            detail = told.outcome.value
            kind, says = KINDS[detail.get("kind", REFUSED)]
            lines = [f"{detail.get('test', exercise.name)} {says}"]
            if "options" in detail and detail["kind"] != BROKEN:
                parts = [show(part) for part in detail["positional"]]
                parts += [f"{name}={show(part)}" for name, part in detail["options"].items()]
                lines.append(f"called   {function}({', '.join(parts)})")
            if "answer" in detail and detail["kind"] != BROKEN:
                lines.append(f"got      {show(detail['answer'])}, which is right")
            lines += _line(answer, detail["line"]) if "line" in detail else []
            _fail(answer, kind, [*lines, clean(str(detail.get("error", "")))])


def _line(answer: Asked, number: int) -> list[str]:
    """A line of the student's tests, and where it stands."""
    lines = current().subject.text(answer.call.lesson, "my_tests.py").splitlines()
    return [f"my_tests.py, line {number}", *(f"    {clean(line.strip())}" for line in lines[number - 1 : number])]


def _fail(answer: Asked, kind: str, lines: list[str], share: float = 0.0) -> None:
    lesson, exercise = answer.call.lesson, answer.call.exercise
    cause = None
    if kind in (REFUSES, MISSED):  # Whatever stops tests before their end is its own cause.
        cause = current().explainer.diagnose(answer.call, answer.outcome, neighbors=False).listed
    tail = [f"Likely cause: {cause.why}"] if cause else []
    tail.append(f'Read: tutorial/{lesson}/README.md, "{section_for(lesson, exercise)}"')
    tail.append(f"Hint: make hint LESSON={read_lesson(lesson).number} EXERCISE={exercise}")
    said = report(f"{lesson} · {exercise} · {kind}", [line for line in lines if line], tail)
    failed = CheckFailed(said, lesson, exercise, kind, cause.name if cause else None, share)
    failed.outcome, failed.error = answer.outcome, answer.outcome.error
    raise failed


assert set(FAMILIES) == set(PROBES)
