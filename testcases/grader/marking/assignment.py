"""What counts: which exercises, and how much each is worth.

It is read from an `assignment.toml`, or made from LESSONS= and POINTS=. Results hold the points of the tests, and what
stands here is applied when the reports are written: other weights grade nothing again.
"""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from testcases.harness.catalog import course_lessons, manifest
from testcases.harness.catalog import lesson as read_lesson

TITLE = "PPO by Hand"
KEYS = ("title", "lessons", "exercises", "points", "weights")
Exercise = tuple[str, str]
"""Lesson and name."""


class BadKey(ValueError):
    """One sentence, which begins with the key that is wrong."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}")
        self.key, self.why = key, why


@dataclass(frozen=True)
class Assignment:
    """What counts."""

    title: str = TITLE
    exercises: tuple[Exercise, ...] = ()
    """In the order of the course."""
    points: float | None = None
    """Of the whole; none: those of the tests."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """By lesson or by "lesson.exercise", for all or for none. Inside a lesson the points of the tests decide."""

    @property
    def lessons(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(lesson for lesson, _ in self.exercises))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{lesson}.{name}" for lesson, name in self.exercises)

    @property
    def total(self) -> float:
        return self.points or sum(course_points().get(exercise, 0) for exercise in self.exercises)

    def factors(self, possible: Mapping[Exercise, float]) -> dict[Exercise, float]:
        """What one point of the tests is worth in each exercise, from the points that its tests can give."""
        total = sum(possible.values())
        if not self.weights:
            factor = self.points / total if self.points and total else 1.0
            return dict.fromkeys(possible, factor)
        names = {exercise: ".".join(exercise) for exercise in possible}
        groups = {exercise: full if full in self.weights else exercise[0] for exercise, full in names.items()}
        sums: dict[str, float] = {}
        for exercise, group in groups.items():
            sums[group] = sums.get(group, 0) + possible[exercise]
        unit = (self.points or total) / sum(self.weights.values())
        return {
            exercise: unit * self.weights.get(group, 0.0) / sums[group] if sums[group] else 0.0
            for exercise, group in groups.items()
        }

    def as_dict(self) -> dict[str, Any]:
        """What `from_dict` reads, in values of JSON."""
        found = asdict(self)
        found["exercises"] = list(self.names)
        return {key: value for key, value in found.items() if value}


@cache
def course_points() -> dict[Exercise, int]:
    """Every exercise, those of electives as well, with the points of its tests."""
    found: dict[Exercise, int] = {}
    for entry in manifest().values():
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
    if file:
        return from_file(Path(file))
    data: dict[str, Any] = {}
    if lessons.replace(",", " ").split():
        data["lessons"] = lessons.replace(",", " ").split()
    if points:
        data["points"] = _number_in(points)
    try:
        return from_dict(data)
    except BadKey as error:
        raise BadKey(error.key.upper(), error.why) from None


def _number_in(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


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
    """Raises BadKey."""
    for key in data:
        if key not in KEYS:
            raise BadKey(key, f"unknown key, expected one of {', '.join(KEYS)}")
    title = data.get("title", TITLE)
    if not isinstance(title, str) or not title.strip():
        raise BadKey("title", f"expected a text, got {title!r}")
    exercises = _exercises(data)
    points, weights = _points(data, exercises)
    return Assignment(title.strip(), exercises, points, weights)


def _exercises(data: Mapping[str, Any]) -> tuple[Exercise, ...]:
    if "lessons" not in data and "exercises" not in data:
        return everything().exercises
    found: set[Exercise] = set()
    for key, find in (("lessons", _of_lesson), ("exercises", _of_name)):
        names = data.get(key, [])
        if not isinstance(names, list):
            raise BadKey(key, f"expected a list, such as {key} = [...], got {names!r}")
        for name in names:
            found.update(find(key, name))
    if not found:
        raise BadKey("lessons", "expected at least one lesson or exercise, got none")
    return tuple(exercise for exercise in course_points() if exercise in found)


def _of_lesson(key: str, name: Any) -> list[Exercise]:
    is_name = isinstance(name, (str, int)) and re.fullmatch(r"(lesson)?\d+(_\w+)?", str(name).strip())
    try:
        lesson = read_lesson(str(name).strip() if is_name else "").name
    except LookupError:
        numbers = ", ".join(
            str(read_lesson(lesson).number) for lesson in dict.fromkeys(one for one, _ in course_points())
        )
        raise BadKey(key, f"there is no lesson {name!r}, expected some of {numbers}") from None
    return [exercise for exercise in course_points() if exercise[0] == lesson]


def _of_name(key: str, name: Any) -> list[Exercise]:
    if not isinstance(name, str):
        raise BadKey(key, f"expected names of exercises, got {name!r}")
    above, _, below = name.partition(".")
    found = [exercise for exercise in course_points() if exercise[1] == name]
    if not found and below:
        try:
            lesson = read_lesson(above).name
        except LookupError:
            lesson = ""
        found = [exercise for exercise in course_points() if exercise == (lesson, below)]
    if not found:
        raise BadKey(key, f"there is no exercise {name!r}, expected a name such as lesson04.compute_gae")
    if len(found) > 1:
        options = " or ".join(".".join(exercise) for exercise in found)
        raise BadKey(key, f"{name!r} could be two exercises, expected {options}")
    return found


def _points(data: Mapping[str, Any], exercises: tuple[Exercise, ...]) -> tuple[float | None, dict[str, float]]:
    points, weights = data.get("points"), data.get("weights", {})
    if isinstance(points, Mapping):
        if "weights" in data:
            raise BadKey("points", "a table of points says the weights already, expected points or weights, got both")
        table = _weights("points", points, exercises)
        return sum(table.values()), table
    if points is not None and not _is_number(points, above=0):
        raise BadKey("points", f"expected a number above 0, or a table by lesson, got {points!r}")
    return points, _weights("weights", weights, exercises)


def _weights(key: str, table: Any, exercises: tuple[Exercise, ...]) -> dict[str, float]:
    if not isinstance(table, Mapping):
        raise BadKey(key, f"expected a table, such as lesson04 = 2, got {table!r}")
    found: dict[str, float] = {}
    open_ones = set(exercises)
    for name, weight in _flat(table).items():
        if not _is_number(weight):
            raise BadKey(f"{key}.{name}", f"expected a number from 0, got {weight!r}")
        try:
            named, full = (of := _of_lesson(key, name)), of[0][0]
        except ValueError:
            named = _of_name(key, name)
            full = ".".join(named[0])
        chosen = [exercise for exercise in named if exercise in exercises]
        if not chosen:
            raise BadKey(f"{key}.{name}", f"is not in this assignment, expected one of {_told(exercises)}")
        if not open_ones.issuperset(chosen):
            raise BadKey(f"{key}.{name}", f"has two {key}, its own and that of its lesson; expected one")
        open_ones -= set(chosen)
        found[full] = float(weight)
    if found and open_ones:
        raise BadKey(key, f"expected one for each lesson or exercise, there is none for {_told(open_ones)}")
    if found and not sum(found.values()):
        raise BadKey(key, "expected at least one above 0, all are 0")
    return found


def _told(exercises: Iterable[Exercise]) -> str:
    names = sorted({lesson for lesson, _ in exercises})
    return ", ".join(names if len(names) > 1 else sorted(".".join(exercise) for exercise in exercises))


def _flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """TOML takes the dot in lesson04.td_errors for a table."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        found.update(_flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {above + name: value})
    return found


def _is_number(value: Any, above: float | None = None) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    return value > above if above is not None else value >= 0
