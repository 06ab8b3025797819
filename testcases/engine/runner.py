"""Run the test functions of a lesson without pytest: the course checks its suites hundreds of times."""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from testcases.engine import exercises
from testcases.engine.failures import Blocked, CheckFailed, NotStarted
from testcases.engine.points import Entry, entries, suites


@dataclass(frozen=True)
class Case:
    """One test function with one set of parameters."""

    entry: Entry | None
    """Its points; None where the manifest forgot it."""
    node: str
    """Such as "lesson04_gae/basic_test.py::test_x"."""
    label: str
    """Its parameters, for messages."""
    function: Callable[..., None]
    parameters: dict[str, Any]

    def run(self) -> CheckFailed | NotStarted | Blocked | AssertionError | None:
        """None if it passed; anything but a verdict is raised."""
        try:
            self.function(**self.parameters)
        except (CheckFailed, NotStarted, Blocked, AssertionError) as verdict:
            return verdict
        return None


@cache
def cases(lesson: str) -> tuple[Case, ...]:
    """All cases of a lesson."""
    exercises.install()
    by_node = {entry.node: entry for entry in entries(lesson)}
    collected = []
    for name in suites(lesson):
        module = importlib.import_module(f"testcases.{lesson}.{name}")
        for test, function in vars(module).items():
            if test.startswith("test_") and inspect.isfunction(function):
                node = f"{lesson}/{name}.py::{test}"
                for label, parameters in _parameters(function):
                    collected.append(Case(by_node.get(node), node, label, function, parameters))
    return tuple(collected)


def _parameters(function: Callable[..., None]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What `pytest.mark.parametrize` would pass; tests of lessons use no other fixture.

    Raises:
        TypeError: the test asks for an argument that no mark gives.
    """
    tables = []
    for mark in getattr(function, "pytestmark", []):
        if mark.name != "parametrize":
            continue
        names, values = mark.args[0], mark.args[1]
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        rows = []
        for index, row in enumerate(values):
            label = getattr(row, "id", None)
            row = row.values if hasattr(row, "marks") else (row if len(names) > 1 else (row,))
            label = label or _label(names, row, mark.kwargs.get("ids"), index)
            rows.append((label, dict(zip(names, row, strict=True))))
        tables.append(rows)
    wanted = set(inspect.signature(function).parameters)
    for chosen in itertools.product(*tables):
        parameters = {name: value for _, row in chosen for name, value in row.items()}
        if set(parameters) != wanted:
            raise TypeError(f"{function.__name__} takes {sorted(wanted)}, its marks give {sorted(parameters)}")
        yield "-".join(label for label, _ in chosen), parameters


def _label(names: list[str], row: Any, ids: Any, index: int) -> str:
    """As pytest names a row that has no id of its own."""
    if ids and not callable(ids):
        return str(ids[index])
    plain = (str, int, float, type(None))
    given = [str(value) if ids or isinstance(value, plain) else None for value in row]
    return "-".join(label or f"{name}{index}" for name, label in zip(names, given, strict=True))
