"""Points: `points.toml` says which exercise a test function belongs to, and what it is worth."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from .contract import TESTCASES


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


@cache
def manifest() -> Mapping[str, Entry]:
    """All entries by node, in the order of the file."""
    data = tomllib.loads((TESTCASES / "points.toml").read_text("utf-8"))
    entries = [
        Entry(lesson, exercise, test, points)
        for lesson, exercises in data.items()
        for exercise, tests in exercises.items()
        for test, points in tests.items()
    ]
    return {entry.node: entry for entry in entries}


def entries(lesson: str) -> list[Entry]:
    return [entry for entry in manifest().values() if entry.lesson == lesson]


def entry_of(nodeid: str) -> Entry | None:
    """The entry of a pytest node id, with or without its parameters."""
    return manifest().get(function_of(nodeid))


def function_of(nodeid: str) -> str:
    """ "testcases/lesson04_gae/basic_test.py::test_x[a]" -> "lesson04_gae/basic_test.py::test_x"."""
    return nodeid.partition("[")[0].replace("\\", "/").rpartition("testcases/")[2]
