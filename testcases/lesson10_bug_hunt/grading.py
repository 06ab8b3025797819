"""What a student's tests earn: the share of the wrong implementations that they refuse, once they accept the right.

Right are the reference and the other right answers of lessons 1, 4, 5 and 6. The wrong ones are in bank.json: below the
question that a test has to ask to catch them, from the plain to the rare, an exercise and what stands in the place of
its region. They raise nothing and answer in the right shape, so looking at shapes alone catches nothing.
"""

import itertools
import json
import marshal
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple, Never

import torch
from torch import Tensor

from testcases.harness.catalog import SOLUTIONS, read_lesson
from testcases.harness.execution.messages import Call
from testcases.harness.oracle.mutations import Change, NamedChange, changed_source, right_answers
from testcases.harness.report.failures import CheckFailed, clean, show
from testcases.harness.suite.asserts import Asked, call_of, example, put, scenario
from testcases.harness.suite.session import current

from .scenarios import FUNCTIONS

WRONG: dict[str, dict[str, list[tuple[str, str]]]] = json.loads(
    Path(__file__).with_name("bank.json").read_text("utf-8")
)
EACH = 8
"""Wrong implementations in one question to a student's tests."""
LESSONS = {function: lesson for lesson, function in FUNCTIONS.items()}
SECONDS = 5.0
"""Of work, for all tests of one function in one question."""
QUESTIONS = 5, 2
"""In the basic and in the advanced suite, each about one right implementation and eight wrong ones."""


class Implementation(NamedTuple):
    """One way to write a function."""

    source: str
    """The whole file."""
    question: str | None
    """What a test that catches it has asked; None if it is right."""


@cache
def right(function: str) -> list[Implementation]:
    """The reference first."""
    lesson = LESSONS[function]
    reference = (SOLUTIONS / lesson / read_lesson(lesson).file_of(function)).read_text("utf-8")
    others = [changed_source(lesson, one)[1] for one in right_answers(lesson) if one.exercise == function]
    return [Implementation(source, None) for source in (reference, *others)]


@cache
def wrong(function: str) -> list[Implementation]:
    """In the order of bank.json."""
    found = []
    for question, regions in WRONG[function].items():
        for exercise, region in regions:
            change = NamedChange(exercise, "", "", "", Change("", None, whole=region))
            found.append(Implementation(changed_source(LESSONS[function], change)[1], question))
    return found


def drawn(function: str, seed: object, questions: int) -> list[list[Implementation]]:
    """For each question to the tests a right implementation and EACH wrong ones, as different as there are, in an order
    that the seed chooses.

    A process meets those of one question and no others, so counting what behaves alike tells it little.
    """
    draw = random.Random(f"{function} {seed}")
    shuffled = draw.sample(wrong(function), len(wrong(function)))
    alike = [[one for one in shuffled if one.question == question] for question in WRONG[function]]
    in_turn = [one for row in itertools.zip_longest(*alike) for one in row if one is not None]
    found = []
    for number in range(questions):
        chosen = [draw.choice(right(function)), *in_turn[number : EACH * questions : questions]]
        found.append(draw.sample(chosen, len(chosen)))
    return found


def packed(chosen: Sequence[Implementation]) -> Tensor:
    """Compiled, as bytes: no message shows them."""
    return torch.frombuffer(bytearray(marshal.dumps([_compiled(one.source) for one in chosen])), dtype=torch.uint8)


@cache
def _compiled(source: str) -> CodeType:
    return compile(source, "<implementation>", "exec", dont_inherit=True)


# What is asked of them


def behind(exercise: Any, chosen: Sequence[Implementation], **options: bool) -> Call:
    """A question about implementations that the tests do not share a process with."""
    asked = example(
        scenario("verdicts", of=exercise),
        function=function_of(exercise),
        bank=packed(chosen),
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
    answer = put(behind(exercise, right(function), up_to_a_refusal=True))
    answer.is_sound()
    if any(answer.outcome.value["refused"]):
        _fail_of_refusal(answer, function)
    caught, missed = 0, []
    for chosen in drawn(function, f"{current().seed}.{draw}", QUESTIONS[draw]):
        answer = put(behind(exercise, chosen))
        answer.is_sound()
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
            f"a question that your tests leave open: {min(missed, key=[*WRONG[function]].index)}",
        ]
        try:
            answer.fail("mistakes not caught", lines)
        except CheckFailed as failed:
            failed.share = caught / total
            raise


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
