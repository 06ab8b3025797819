"""The implementations that a student's tests are run against.

Right are the reference and the other right answers of lessons 1, 4, 5 and 6. The wrong ones are in bank.json: below the
question that a test has to ask to catch them, from the plain to the rare, an exercise and what stands in the place of
its region. They raise nothing and answer in the right shape, so looking at shapes alone catches nothing.
"""

import itertools
import json
import marshal
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import torch
from torch import Tensor

from testcases.harness.catalog import SOLUTIONS, read_lesson
from testcases.harness.oracle.mutations import Change, NamedChange, changed_source, right_answers

from .scenarios import FUNCTIONS

WRONG: dict[str, dict[str, list[tuple[str, str]]]] = json.loads(
    Path(__file__).with_name("bank.json").read_text("utf-8")
)
EACH = 8
"""Wrong implementations in one question to a student's tests."""
LESSONS = {function: lesson for lesson, function in FUNCTIONS.items()}


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
