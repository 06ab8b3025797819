"""What counts: which exercises, and how much each is worth.

It is read from an `assignment.toml`, or made from LESSONS= and POINTS=. Results hold the points of the tests, and what
stands here is applied when the reports are written: other weights grade nothing again.
"""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from testcases.harness.catalog import ROOT, course_lessons, lesson_names, read_lesson
from testcases.harness.suite.runner import entries

TITLE = "PPO by Hand"
KEYS = ("title", "lessons", "exercises", "points", "weights")
Exercise = tuple[str, str]
"""Lesson and name."""


@dataclass(frozen=True)
class Assignment:
    """What counts."""

    title: str = TITLE
    exercises: tuple[Exercise, ...] = ()
    """In the order of the course."""
    points: float | None = None
    """Of the whole; none: those of the tests."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of each lesson, or of none; inside a lesson the tests' points decide."""

    @property
    def lessons(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(lesson for lesson, _ in self.exercises))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(".".join(exercise) for exercise in self.exercises)

    @property
    def total(self) -> float:
        return self.points or sum(course_points().get(exercise, 0) for exercise in self.exercises)

    @property
    def worth(self) -> dict[str, float]:
        """Lesson -> points."""
        found = dict.fromkeys(self.lessons, 0.0)
        possible = {exercise: float(course_points().get(exercise, 0)) for exercise in self.exercises}
        for exercise, factor in self.factors(possible).items():
            found[exercise[0]] += factor * possible[exercise]
        return found

    def factors(self, possible: Mapping[Exercise, float]) -> dict[Exercise, float]:
        """What one point of the tests is worth in each exercise, from the points that its tests can give."""
        total, of_lesson = sum(possible.values()), dict[str, float]()
        if not self.weights:
            return dict.fromkeys(possible, self.points / total if self.points and total else 1.0)
        for (lesson, _), most in possible.items():
            of_lesson[lesson] = of_lesson.get(lesson, 0.0) + most
        unit = (self.points or total) / sum(self.weights.values())
        return {one: unit * self.weights.get(one[0], 0.0) / (of_lesson[one[0]] or 1) for one in possible}


@cache
def course_points() -> dict[Exercise, int]:
    """Every exercise, those of electives as well, with the points of its tests."""
    found: dict[Exercise, int] = {}
    for entry in (entry for lesson in lesson_names() for entry in entries(lesson)):
        exercise = entry.lesson, entry.exercise
        found[exercise] = found.get(exercise, 0) + entry.points
    return dict(sorted(found.items(), key=lambda item: item[0][0]))


def everything() -> Assignment:
    """The course without its electives: those count where an assignment names them."""
    return Assignment(exercises=tuple(one for one in course_points() if one[0] in course_lessons()))


def asked_for(file: str = "", lessons: str = "", points: str = "") -> Assignment:
    """From a file, or from LESSONS and POINTS.

    Raises:
        ValueError: one sentence about what is wrong.
        OSError: the file cannot be read.
    """
    if file and (lessons or points):
        raise ValueError("ASSIGNMENT: expected the file or LESSONS and POINTS, got both: write them into the file")
    if file and not Path(file).is_file():
        raise ValueError(f"ASSIGNMENT: expected a TOML file, and there is none at {file!r}")
    if file:
        return from_file(Path(file))
    data: dict[str, Any] = {"lessons": lessons.replace(",", " ").split()} if lessons.strip(" ,") else {}
    if points:
        data["points"] = float(points) if points.replace(".", "", 1).isdecimal() else points
    return from_dict(data)


def carried() -> Assignment:
    """What counts in an autograder: its assignment.toml lies in the folder of the course."""
    path = ROOT / "assignment.toml"
    return from_file(path) if path.exists() else everything()


def from_file(path: Path) -> Assignment:
    """
    Raises:
        ValueError: one sentence about what is wrong.
        OSError: the file cannot be read.
    """
    try:
        return from_dict(tomllib.loads(path.read_text("utf-8-sig")))
    except UnicodeDecodeError:
        raise ValueError(f"{path.name}: expected a text in UTF-8") from None
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def from_dict(data: Mapping[str, Any]) -> Assignment:
    """Raises ValueError: one sentence about what is wrong, which begins with the key."""
    for key in data:
        if key not in KEYS:
            raise ValueError(f"{key}: unknown key, expected one of {', '.join(KEYS)}")
    points = data.get("points")
    if points is not None and not (_is_number(points) and points):
        raise ValueError(f"points: expected a number above 0, got {points!r}")
    exercises = _exercises(data)
    title = str(data.get("title", "")).strip() or TITLE
    return Assignment(title, exercises, points, _weights(data.get("weights", {}), exercises))


def _exercises(data: Mapping[str, Any]) -> tuple[Exercise, ...]:
    if "lessons" not in data and "exercises" not in data:
        return everything().exercises
    found: set[Exercise] = set()
    for key in ("lessons", "exercises"):
        names = data.get(key, [])
        if not isinstance(names, list):
            raise ValueError(f"{key}: expected a list, such as {key} = [...], got {names!r}")
        for name in names:
            found.update(_named(key, name))
    if not found:
        raise ValueError("lessons: expected at least one lesson or exercise, got none")
    return tuple(exercise for exercise in course_points() if exercise in found)


def _named(key: str, name: Any) -> list[Exercise]:
    """The exercises of a lesson, or the one of a name: 4, "lesson04", "compute_gae" or "lesson04.compute_gae"."""
    above, _, below = str(name).strip().partition(".")
    try:
        lesson = read_lesson(above).name
        found = [one for one in course_points() if one[0] == lesson and below in ("", one[1])]
    except LookupError:
        found = [one for one in course_points() if one[1] == above and not below]
    if not found or len({lesson for lesson, _ in found}) > 1:
        numbers = dict.fromkeys(str(read_lesson(lesson).number) for lesson, _ in course_points())
        expected = f"one of the lessons {', '.join(numbers)}, or one exercise, such as lesson04.compute_gae"
        raise ValueError(f"{key}: expected {expected}, got {name!r}")
    return found


def _weights(table: Any, exercises: tuple[Exercise, ...]) -> dict[str, float]:
    """Of all lessons, or of none."""
    if not isinstance(table, Mapping) or not all(map(_is_number, table.values())):
        raise ValueError(f"weights: expected a table of numbers from 0, such as lesson04 = 2, got {table!r}")
    found = {_named("weights", name)[0][0]: float(weight) for name, weight in table.items()}
    lessons = dict.fromkeys(lesson for lesson, _ in exercises)
    if table and (len(table) != len(lessons) or {*found} != {*lessons} or not any(found.values())):
        raise ValueError(f"weights: expected one for each of {', '.join(lessons)}, and not all 0; got {table!r}")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
