"""What is asked of every exercise alike: that it agrees with the solution on fresh questions, keeps its defaults and
float32, and refuses bad arguments.

What differs from exercise to exercise stands in a lesson's contract.py:

    AGREEMENT = {compute_gae: 1}                      points where they are not 2
    DEFAULTS = [compute_gae]                          whose optional arguments are left out
    FLOAT32 = [compute_gae]                           that answer float32 with float32
    REFUSALS = {compute_gae: (EPISODE, BAD)}          a good call; by name what is bad, and what the message says

An exercise of which a suite has such a test itself, `test_compute_gae_agrees_with_the_reference`, is left out here.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testcases.harness.catalog.handles import Exercise, exercise_of
from testcases.harness.catalog.lessons import lesson_names
from testcases.harness.catalog.points import AGREEMENT, DEFAULTS, FLOAT32, REFUSALS, Entry, made_tests
from testcases.harness.execution.messages import Call, tensors_in
from testcases.harness.suite.asserts import call
from testcases.harness.suite.metamorphic import check_families
from testcases.harness.suite.questions import plain
from testcases.harness.suite.session import current


def test_agrees_with_the_reference(entry: Entry) -> None:
    for asked in current().examples(entry.lesson, entry.exercise):
        call(asked).matches_reference()
    if current().thorough:
        check_families(Exercise(entry.lesson, entry.exercise))


def test_keeps_its_defaults(entry: Entry) -> None:
    parameters = current().reference.parameters(entry.lesson, entry.exercise)
    required = {name for name, parameter in parameters.items() if parameter.default is parameter.empty}
    for asked in plain_examples(entry):
        needed = {name: value for name, value in asked.arguments.items() if name in required}
        short = replace(asked, arguments=needed, grad_of=(), positional=min(asked.positional, len(needed)))
        # Without its mask, an example may have NaN on real tokens: that says nothing of a default.
        right = current().reference.run(short)
        if not any(bool(tensor.isnan().any()) for tensor in tensors_in(right.value)):
            call(short).matches_reference()


def test_keeps_float32(entry: Entry) -> None:
    for asked in plain_examples(entry):
        call(asked).matches_reference()


def test_refuses_bad_arguments(entry: Entry, changed: dict[str, Any], mentions: Sequence[str]) -> None:
    target, good, _ = refusals(entry)
    call(target, **{**good, **changed}).raises(ValueError, mentions)


def plain_examples(entry: Entry) -> Iterator[Call]:
    """The examples of the formula that call the exercise itself: they ask for no gradient of what is a constant."""
    direct = [asked for asked in current().examples(entry.lesson, entry.exercise) if not asked.scenario]
    if not direct:
        raise LookupError(f"{entry.exercise} has no example that calls it without a scenario")
    for asked in plain(tuple(direct)):
        slopes = current().reference.run(asked).gradients
        yield replace(asked, grad_of=tuple(name for name in asked.grad_of if slopes.get(name) is not None))


def refusals(entry: Entry) -> tuple[Any, dict[str, Any], dict[str, tuple[dict[str, Any], Sequence[str]]]]:
    """What to call, with which good arguments, and the bad ones by name."""
    tables = importlib.import_module(f"testcases.{entry.lesson}.contract").REFUSALS
    (target,) = [target for target in tables if exercise_of(target).name == entry.exercise]
    return target, *tables[target]


TESTS: dict[str, Callable[..., None]] = {
    AGREEMENT: test_agrees_with_the_reference,
    DEFAULTS: test_keeps_its_defaults,
    FLOAT32: test_keeps_float32,
    REFUSALS: test_refuses_bad_arguments,
}


def cases(lesson: str) -> Iterator[tuple[Entry, str, Callable[..., None], dict[str, Any]]]:
    """The tests of a lesson: the entry that counts them, the name of the case, function and arguments."""
    for entry in made_tests(lesson):
        ending = next(ending for ending in TESTS if entry.function.endswith(ending))
        if ending != REFUSALS:
            yield entry, "", TESTS[ending], {"entry": entry}
            continue
        for name, (changed, mentions) in refusals(entry)[2].items():
            yield entry, name, TESTS[ending], {"entry": entry, "changed": changed, "mentions": mentions}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folders = {Path(arg).name for arg in metafunc.config.args}
    lessons = [name for name in lesson_names() if name in folders] or lesson_names()
    found = [case for lesson in lessons for case in cases(lesson) if case[2] is metafunc.function]
    names = [*found[0][3]] if found else metafunc.fixturenames
    rows = [
        pytest.param(
            *given.values(),
            id="-".join(filter(None, (entry.lesson[:8], entry.exercise, name))),
            marks=pytest.mark.points(entry.points),
        )
        for entry, name, _, given in found
    ]
    metafunc.parametrize(names, rows)
