"""What is asked of every exercise alike: that it agrees with the solution on fresh questions, in float32 as well, keeps
its defaults, and refuses bad arguments.

What differs from exercise to exercise stands in a lesson's contract.py:

    AGREEMENT = {compute_gae: 1}                      points where they are not 2
    DEFAULTS = [compute_gae]                          whose optional arguments are left out
    REFUSALS = {compute_gae: (EPISODE, BAD)}          a good call; by name what is bad, and what the message says

An exercise of which a suite has such a test itself, `test_compute_gae_agrees_with_the_reference`, is left out here.
"""

import importlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testcases.harness.catalog.handles import Exercise, exercise_of
from testcases.harness.catalog.lessons import TESTCASES, lesson_names
from testcases.harness.catalog.lessons import lesson as read_lesson
from testcases.harness.catalog.points import CONTRACT, Entry, is_basic, names_in_tests
from testcases.harness.execution.messages import Call, in_float32, tensors_in
from testcases.harness.suite import runner
from testcases.harness.suite.asserts import example, put
from testcases.harness.suite.every_exercise import check_common_questions
from testcases.harness.suite.questions import hard, plain
from testcases.harness.suite.session import current


def test_agrees_with_the_reference(entry: Entry) -> None:
    examples = current().examples(entry.lesson, entry.exercise)
    for asked in examples:
        put(asked).matches_reference()
    if current().thorough:
        for asked in (in_float32(one) for one in examples if not one.scenario and not hard(one)):
            put(asked).matches_reference()
        check_common_questions(Exercise(entry.lesson, entry.exercise))


def test_keeps_its_defaults(entry: Entry) -> None:
    parameters = current().reference.parameters(entry.lesson, entry.exercise)
    required = {name for name, parameter in parameters.items() if parameter.default is parameter.empty}
    for asked in plain_examples(entry):
        needed = {name: value for name, value in asked.arguments.items() if name in required}
        short = replace(asked, arguments=needed, grad_of=(), positional=min(asked.positional, len(needed)))
        # Without its mask, an example may have NaN on real tokens: that says nothing of a default.
        right = current().reference.run(short)
        if not any(bool(tensor.isnan().any()) for tensor in tensors_in(right.value)):
            put(short).matches_reference()


def test_refuses_bad_arguments(target: Any, arguments: dict[str, Any], mentions: Sequence[str]) -> None:
    put(example(target, **arguments)).raises("ValueError", mentions)


def plain_examples(entry: Entry) -> Sequence[Call]:
    """The examples of the formula that call the exercise itself."""
    direct = [asked for asked in current().examples(entry.lesson, entry.exercise) if not asked.scenario]
    if not direct:
        raise LookupError(f"{entry.exercise} has no example that calls it without a scenario")
    return plain(direct)


def cases(lesson: str, written: Collection[str]) -> Iterator[tuple[Entry, str, Callable[..., None], dict[str, Any]]]:
    """The tests of a lesson, but for those `written` in its suites: what counts each, the name of the case, function
    and arguments."""
    if not (TESTCASES / lesson / "contract.py").is_file():
        return
    tables = vars(importlib.import_module(f"testcases.{lesson}.contract"))
    points = {exercise_of(target).name: worth for target, worth in tables.get("AGREEMENT", {}).items()}
    wanted = [(Exercise(lesson, name), test_agrees_with_the_reference) for name in read_lesson(lesson).exercises]
    wanted += [(target, test_keeps_its_defaults) for target in tables.get("DEFAULTS", ())]
    wanted += [(target, test_refuses_bad_arguments) for target in tables.get("REFUSALS", ())]
    for target, test in wanted:
        exercise = exercise_of(target).name
        name = f"test_{names_in_tests(exercise)[-1]}{test.__name__.removeprefix('test')}"
        worth = points.get(exercise, 2) if test is test_agrees_with_the_reference else 1
        node = f"{CONTRACT}.py::{name}"
        entry = Entry(lesson, exercise, node, worth, is_basic(node))
        if name in written:
            continue
        if test is not test_refuses_bad_arguments:
            yield entry, "", test, {"entry": entry}
            continue
        good, bad = tables["REFUSALS"][target]
        for case, (changed, mentions) in bad.items():
            yield entry, case, test, {"target": target, "arguments": {**good, **changed}, "mentions": mentions}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folders = {Path(arg).name for arg in metafunc.config.args}
    lessons = [name for name in lesson_names() if name in folders] or lesson_names()
    found = [case for lesson in lessons for case in runner.cases(lesson) if case.function is metafunc.function]
    names = ["-".join(filter(None, (case.entry.lesson[:8], case.entry.exercise, case.label))) for case in found]
    rows = [pytest.param(*case.parameters.values(), id=name) for case, name in zip(found, names, strict=True)]
    metafunc.parametrize([*found[0].parameters] if found else metafunc.fixturenames, rows)
