"""The implementations that a student's tests are run against: right ones, and wrong ones of which each is proved wrong.

Right are the reference and the other right answers of lessons 1, 4, 5 and 6. The wrong ones are in bank.json: what
stands in the place of an exercise's region, and the first probe that shows it. They answer every probe without an error
and in the right shape, so that looking at shapes alone catches nothing, and no two of them answer alike.
"""

import itertools
import json
import marshal
import random
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from testcases.harness.catalog.lessons import SOLUTIONS
from testcases.harness.catalog.lessons import lesson as read_lesson
from testcases.harness.oracle.mutations import Change, NamedChange, changed_source, right_answers

from .scenarios import FUNCTIONS

BANK = Path(__file__).with_name("bank.json")
EACH = 8
"""Wrong implementations in one question."""
LESSONS = {function: lesson for lesson, function in FUNCTIONS.items()}


class Implementation(NamedTuple):
    """One way to write a function."""

    source: str
    """The whole file."""
    probe: int | None
    """The first probe on which it differs from the reference; None if it is right."""


@cache
def right(function: str) -> tuple[Implementation, ...]:
    """The reference first."""
    lesson = LESSONS[function]
    reference = (SOLUTIONS / lesson / read_lesson(lesson).file_of(function)).read_text("utf-8")
    others = [changed_source(lesson, one)[1] for one in right_answers(lesson) if one.exercise == function]
    return tuple(Implementation(source, None) for source in (reference, *others))


@cache
def wrong(function: str) -> tuple[Implementation, ...]:
    """As bank.json lists them."""
    lesson, found = LESSONS[function], []
    for kept in json.loads(BANK.read_text("utf-8"))[function]:
        answer = NamedChange(kept["exercise"], kept["region"], "", "", Change("", "", whole=kept["region"]))
        found.append(Implementation(changed_source(lesson, answer)[1], kept["probe"]))
    return tuple(found)


def drawn(function: str, seed: object, questions: int) -> list[list[Implementation]]:
    """For each question a right implementation and EACH wrong ones of as many classes as there are, in an order that
    the seed chooses.

    A process meets those of one question and no others, so counting what behaves alike tells it little.
    """
    draw = random.Random(f"{function} {seed}")
    by_class: dict[int | None, list[Implementation]] = {}
    for one in draw.sample(wrong(function), len(wrong(function))):
        by_class.setdefault(one.probe, []).append(one)
    in_turn = [one for row in itertools.zip_longest(*by_class.values()) for one in row if one is not None]
    found = []
    for number in range(questions):
        chosen = [draw.choice(right(function)), *in_turn[number : EACH * questions : questions]]
        found.append(draw.sample(chosen, len(chosen)))
    return found


def packed(chosen: Sequence[Implementation]) -> Tensor:
    """Their texts as bytes, compiled: no message shows them."""
    return torch.frombuffer(bytearray(marshal.dumps([_compiled(one.source) for one in chosen])), dtype=torch.uint8)


@cache
def _compiled(source: str) -> bytes:
    return zlib.compress(marshal.dumps(compile(source, "<implementation>", "exec", dont_inherit=True)))
