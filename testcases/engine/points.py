"""Points: a test function belongs to the exercise that its name begins with, and is worth 1 unless `worth` says more.

Read from the text of the suites: knowing how far a student is must not cost an import of torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from .contract import TESTCASES, lesson_names
from .contract import lesson as read_lesson

KINDS = ("basic", "advanced")


@dataclass(frozen=True)
class Entry:
    """One test function."""

    lesson: str
    exercise: str
    test: str
    """Such as "basic_test.py::test_values"."""
    points: int

    @property
    def node(self) -> str:
        """Such as "lesson04_gae/basic_test.py::test_values"."""
        return f"{self.lesson}/{self.test}"


def worth(points: int) -> Callable[[Any], Any]:
    """A test function that is worth more than one point. It earns them when all of its cases pass."""
    return lambda function: function


@cache
def manifest() -> Mapping[str, Entry]:
    """All entries by node: lesson by lesson, exercise by exercise, the basic suite first.

    Raises:
        LookupError: a test function's name begins with no exercise of its lesson.
    """
    found = {}
    for lesson in lesson_names():
        order = read_lesson(lesson).exercises
        entries = [entry for suite in suites(lesson) for entry in _entries_of(lesson, suite)]
        for entry in sorted(entries, key=lambda entry: order.index(entry.exercise)):
            found[entry.node] = entry
    return found


def suites(lesson: str, kind: str | None = None) -> list[str]:
    """The modules of a lesson's suites, basic ones first: "basic_test", or "basic_sampling_test" where it is long."""
    folder = TESTCASES / lesson
    return [path.stem for one in ([kind] if kind else KINDS) for path in sorted(folder.glob(f"{one}*_test.py"))]


def _entries_of(lesson: str, suite: str) -> Iterator[Entry]:
    path = TESTCASES / lesson / f"{suite}.py"
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield Entry(lesson, exercise_of(lesson, node.name), f"{suite}.py::{node.name}", _worth_of(node))


def _worth_of(node: ast.FunctionDef) -> int:
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == worth.__name__:
            return ast.literal_eval(mark.args[0])
    return 1


def exercise_of(lesson: str, test: str) -> str:
    """The exercise whose name a test function begins with, the longest one: "test_value_model_by_hand" tests
    ValueModel.forward, "test_load_checkpoint_is_exact" PPOTrainer.load_checkpoint.

    Raises:
        LookupError: there is none.
    """
    names = {name: exercise for exercise in read_lesson(lesson).exercises for name in _test_names(exercise)}
    fitting = [name for name in names if re.match(rf"test_{name}(_|$)", test)]
    if not fitting:
        raise LookupError(
            f"{lesson}: expected test_<exercise>_<what it tests>, got {test}; there are {', '.join(sorted(names))}"
        )
    return names[max(fitting, key=len)]


def _test_names(exercise: str) -> list[str]:
    """A method by its own name or with its class; `forward` by its class alone."""
    words = [re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", word).lower() for word in exercise.split(".")]
    if words[-1] == "forward":
        return [words[0]]
    return ["_".join(words), words[-1]] if len(words) > 1 else words


def entries(lesson: str) -> list[Entry]:
    return [entry for entry in manifest().values() if entry.lesson == lesson]


def entry_of(nodeid: str) -> Entry | None:
    """The entry of a pytest node id, with or without its parameters."""
    return manifest().get(function_of(nodeid))


def function_of(nodeid: str) -> str:
    """ "testcases/lesson04_gae/basic_test.py::test_x[a]" -> "lesson04_gae/basic_test.py::test_x"."""
    return nodeid.partition("[")[0].replace("\\", "/").rpartition("testcases/")[2]
