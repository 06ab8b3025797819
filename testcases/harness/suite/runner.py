"""The tests of a lesson with their points, and how they run without pytest: the course checks its suites hundreds of
times."""

import gc
import importlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from ..catalog import TESTCASES, Entry, is_basic, lesson_of, names_in_tests, read_lesson, split_node, suites
from ..oracle.reference import EXAMPLE_SEED, drawn
from .asserts import Verdict, verdict_of
from .session import current


@dataclass(frozen=True)
class Case:
    """One test function with one set of parameters."""

    entry: Entry
    """Its exercise and points."""
    label: str
    """Its parameters, for messages."""
    function: Callable[..., None]
    parameters: dict[str, Any]

    @property
    def node(self) -> str:
        """Such as "lesson04_gae/basic_test.py::test_x"."""
        return self.entry.node

    def run(self) -> Verdict | None:
        """None if it passed; anything but a verdict is raised."""
        current().begin_test(self.entry.is_basic)
        try:
            self.function(**self.parameters)
        except (Exception, pytest.fail.Exception) as error:
            if verdict := verdict_of(error):
                return verdict
            raise
        return None


@cache
def cases(lesson: str) -> tuple[Case, ...]:
    """All tests of a lesson: those of its suites, and those that contract_test.py asks of its exercises.

    Raises:
        LookupError: a test function's name begins with no exercise of its lesson.
    """
    collected = []
    for suite in suites(lesson):
        module = importlib.import_module(f"testcases.{lesson}.{suite}")
        for name, function in vars(module).items():
            if name.startswith("test_") and inspect.isfunction(function) and function.__module__ == module.__name__:
                node = f"{suite}.py::{name}"
                entry = Entry(lesson, _exercise_of(lesson, name), node, _points_of(function), is_basic(node))
                collected += [Case(entry, label, function, parameters) for label, parameters in _parameters(function)]
    written = {case.entry.function for case in collected}
    return (*collected, *importlib.import_module("testcases.contract_test").common_cases(lesson, written))


def cases_of(lesson: str, exercise: str) -> tuple[Case, ...]:
    return tuple(case for case in cases(lesson) if case.entry.exercise == exercise)


@cache
def by_node(lesson: str) -> Mapping[str, Entry]:
    """Node -> test function of a lesson, exercise by exercise, the basic suite first: here its points are counted."""
    order = read_lesson(lesson).exercises
    entries = dict.fromkeys(case.entry for case in cases(lesson))
    return {entry.node: entry for entry in sorted(entries, key=lambda entry: order.index(entry.exercise))}


def entries(lesson: str) -> list[Entry]:
    return [*by_node(lesson).values()]


def entry_of(nodeid: str) -> Entry | None:
    """The test function of a pytest node id, with or without its parameters."""
    lesson = lesson_of(nodeid)
    return by_node(lesson).get(split_node(nodeid)[0]) if lesson else None


def _exercise_of(lesson: str, test: str) -> str:
    """The exercise whose name a test function begins with, the longest one: "test_value_model_by_hand" tests
    ValueModel.forward, "test_load_checkpoint_is_exact" PPOTrainer.load_checkpoint.

    Raises:
        LookupError: there is none.
    """
    names = {name: exercise for exercise in read_lesson(lesson).exercises for name in names_in_tests(exercise)}
    fitting = [name for name in names if re.match(rf"test_{name}(_|$)", test)]
    if not fitting:
        raise LookupError(
            f"{lesson}: expected test_<exercise>_<what it tests>, got {test}; there are {', '.join(sorted(names))}"
        )
    return names[max(fitting, key=len)]


def _points_of(function: Callable[..., None]) -> int:
    """What a test function is worth by its mark."""
    return next((mark.args[0] for mark in getattr(function, "pytestmark", []) if mark.name == "points"), 1)


def load(lesson: str) -> None:
    """Import a lesson, what its scenarios need, such as peft, and all its suites, and draw its examples.

    Raises:
        LookupError: one of the course's own files is missing or damaged.
    """
    own = [name for name in (*suites(lesson), "examples", "scenarios") if (TESTCASES / lesson / f"{name}.py").is_file()]
    for module in (f"solutions.{lesson}", *(f"testcases.{lesson}.{name}" for name in own)):
        try:
            importlib.import_module(module)
        except Exception as error:
            raise LookupError(
                f"{module}, a part of the course, cannot be loaded ({type(error).__name__}: {error}). `git status` "
                "tells which of its files is missing or changed, `git checkout FILE` brings it back"
            ) from error
    drawn(lesson, EXAMPLE_SEED)


def keep_what_is_loaded() -> None:
    """Exclude what is loaded from garbage collection (half a second), and collect less often than after every 700 new
    objects (a tenth of the time of a trainer's suite)."""
    gc.freeze()
    gc.set_threshold(20_000)


def _parameters(function: Callable[..., None]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Label and arguments of each case that `pytest.mark.parametrize` makes; lessons' tests use no other fixture.

    Raises:
        TypeError: the test asks for an argument that no mark gives.
    """
    tables = []
    for mark in getattr(function, "pytestmark", []):
        if mark.name != "parametrize":
            continue
        names = [name.strip() for name in mark.args[0].split(",")]
        rows = [row if len(names) > 1 else (row,) for row in mark.args[1]]
        labels = [_label(row, mark.kwargs.get("ids"), index) for index, row in enumerate(rows)]
        tables.append([(label, dict(zip(names, row, strict=True))) for label, row in zip(labels, rows, strict=True)])
    wanted = set(inspect.signature(function).parameters)
    for chosen in itertools.product(*tables):
        parameters = {name: value for _, row in chosen for name, value in row.items()}
        if set(parameters) != wanted:
            raise TypeError(f"{function.__name__} takes {sorted(wanted)}, its marks give {sorted(parameters)}")
        yield "-".join(label for label, _ in chosen), parameters


def _label(row: Any, ids: Any, index: int) -> str:
    return str(ids[index]) if ids and not callable(ids) else "-".join(map(str, row))
