"""What is asked of every exercise alike: that it agrees with the solution on fresh questions, in float32 as well, keeps
its defaults, and refuses bad arguments.

What differs from exercise to exercise stands in a lesson's examples.py:

    AGREEMENT = {compute_gae: 1}                      points where they are not 2
    DEFAULTS = [compute_gae]                          whose optional arguments are left out
    REFUSALS = {compute_gae: (EPISODE, BAD)}          a good call; by name what is bad, and what the message says

An exercise of which a suite has such a test itself, `test_compute_gae_agrees_with_the_reference`, is left out here.
"""

import ast
import functools
import importlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from testcases.harness.catalog import (
    CONTRACT,
    SOLUTIONS,
    TESTCASES,
    Entry,
    is_basic,
    lesson_names,
    names_in_tests,
    read_lesson,
)
from testcases.harness.diagnosis.values import CHEAP
from testcases.harness.execution.messages import Call, Outcome, leaves, tensors_in
from testcases.harness.report.failures import show
from testcases.harness.suite.asked import in_float32, put
from testcases.harness.suite.asserts import call_of, example
from testcases.harness.suite.checks import matches_reference, raises
from testcases.harness.suite.questions import hard, plain, sizes, views, with_a_nan
from testcases.harness.suite.runner import Case, cases
from testcases.harness.suite.session import current

SHOWN = re.compile(r"NaN[^.]*\b(?:shows|stays)\b")
"""In a docstring: the exercise promises to show the NaN of a real token."""


def test_agrees_with_the_reference(entry: Entry) -> None:
    examples = current().examples(entry.lesson, entry.exercise)
    for asked in examples:
        matches_reference(put(asked))
    check_common_questions(entry)


def test_keeps_its_defaults(entry: Entry) -> None:
    parameters = current().reference.parameters(entry.lesson, entry.exercise)
    required = {name for name, parameter in parameters.items() if parameter.default is parameter.empty}
    for asked in plain_examples(entry):
        needed = {name: value for name, value in asked.arguments.items() if name in required}
        short = replace(asked, arguments=needed, grad_of=(), positional=min(asked.positional, len(needed)))
        # Without its mask, an example may have NaN on real tokens: that says nothing of a default.
        if not _has_nan(current().reference.run(short)):
            matches_reference(put(short))


def test_refuses_bad_arguments(target: Any, arguments: dict[str, Any], mentions: Sequence[str]) -> None:
    raises(put(example(target, **arguments)), "ValueError", mentions)


def plain_examples(entry: Entry) -> Sequence[Call]:
    """The examples of the formula that call the exercise itself."""
    direct = [asked for asked in current().examples(entry.lesson, entry.exercise) if not asked.scenario]
    if not direct:
        raise LookupError(f"{entry.exercise} has no example that calls it without a scenario")
    return plain(direct)


def check_common_questions(entry: Entry) -> None:
    """The exercise answers all questions that are made of its examples as the reference does."""
    examples = current().examples(entry.lesson, entry.exercise)
    for asked in (in_float32(one) for one in examples if not one.scenario and not hard(one)):
        matches_reference(put(asked))
    direct = [question for question in examples if not question.scenario and question.seconds <= CHEAP]
    for question in (*views(direct), *sizes(direct)):
        right = current().reference.run(question)
        # What the reference refuses, or is not defined for, says nothing of the exercise.
        if not right.error and not _has_nan(right):
            matches_reference(put(question))
    if _promises_to_show_nan(entry.lesson, entry.exercise):
        _hides_no_nan(direct)


def _has_nan(right: Outcome) -> bool:
    return any(bool(tensor.isnan().any()) for tensor in tensors_in(right.value))


@functools.cache
def _promises_to_show_nan(lesson: str, exercise: str) -> bool:
    """Whether its docstring says so, or that of its file, which holds for all exercises in it."""
    tree = ast.parse((SOLUTIONS / lesson / read_lesson(lesson).file_of(exercise)).read_text("utf-8"))
    own = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == exercise]
    docstrings = [ast.get_docstring(tree), *map(ast.get_docstring, own)]
    return any(SHOWN.search(docstring or "") for docstring in docstrings)


def _hides_no_nan(direct: Sequence[Call]) -> None:
    """A plain example with NaN in the second row of each tensor: a part of the answer that shows it has to show some.

    How far it spreads depends on the way: who multiplies by a matrix of weights meets 0 * NaN.
    """
    for question in ([one for one in direct if not hard(one)] or direct)[:1]:
        for name, value in question.arguments.items():
            if not (isinstance(value, Tensor) and value.is_floating_point() and value.numel()):
                continue
            broken = {**question.arguments, name: with_a_nan(value)}
            asked = replace(question, arguments=broken, grad_of=())
            right = current().reference.run(asked)
            answer = put(asked)
            if right.error or answer.outcome.error:
                continue
            pairs = zip(leaves(right.value), leaves(answer.outcome.value), strict=False)
            if any(_is_hidden(wanted, got) for wanted, got in pairs):
                said = f"`{name}` has a NaN at a real token, and it has to show in the answer"
                answer.fail("hides a NaN", [f"got      {show(answer.outcome.value)}", said])


def _is_hidden(wanted: Any, got: Any) -> bool:
    """Whether there is a NaN in the first, and none in the second."""
    if not isinstance(wanted, (Tensor, float)) or not isinstance(got, (Tensor, float)):
        return False
    return bool(torch.as_tensor(wanted).isnan().any()) and not bool(torch.as_tensor(got).isnan().any())


def common_cases(lesson: str, written: Collection[str]) -> Iterator[Case]:
    """The tests of a lesson, but for those `written` in its suites."""
    if not (TESTCASES / lesson / "examples.py").is_file():
        return
    tables = vars(importlib.import_module(f"testcases.{lesson}.examples"))
    points = {call_of(target).exercise: worth for target, worth in tables.get("AGREEMENT", {}).items()}
    wanted = [(Call(lesson, name), test_agrees_with_the_reference) for name in read_lesson(lesson).exercises]
    wanted += [(target, test_keeps_its_defaults) for target in tables.get("DEFAULTS", ())]
    wanted += [(target, test_refuses_bad_arguments) for target in tables.get("REFUSALS", ())]
    for target, test in wanted:
        exercise = call_of(target).exercise
        name = f"test_{names_in_tests(exercise)[-1]}{test.__name__.removeprefix('test')}"
        worth = points.get(exercise, 2) if test is test_agrees_with_the_reference else 1
        node = f"{CONTRACT}.py::{name}"
        entry = Entry(lesson, exercise, node, worth, is_basic(node))
        if name in written:
            continue
        if test is not test_refuses_bad_arguments:
            yield Case(entry, "", test, {"entry": entry})
            continue
        good, bad = tables["REFUSALS"][target]
        for case, (changed, mentions) in bad.items():
            arguments = {"target": target, "arguments": {**good, **changed}, "mentions": mentions}
            yield Case(entry, case, test, arguments)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folders = {Path(arg).name for arg in metafunc.config.args}
    lessons = [name for name in lesson_names() if name in folders] or lesson_names()
    found = [case for lesson in lessons for case in cases(lesson) if case.function is metafunc.function]
    names = ["-".join(filter(None, (case.entry.lesson[:8], case.entry.exercise, case.label))) for case in found]
    rows = [pytest.param(*case.parameters.values(), id=name) for case, name in zip(found, names, strict=True)]
    metafunc.parametrize([*found[0].parameters] if found else metafunc.fixturenames, rows)
