"""What counts: which exercises, how much each is worth, until when, and which attempt.

It is read from an `assignment.toml`, or made from LESSONS= and POINTS=. Results hold the points of the tests, and what
stands here is applied when the reports are written: other weights, or another due date, grade nothing again.
"""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from testcases.harness.catalog import course_lessons, manifest
from testcases.harness.catalog import lesson as read_lesson

TITLE = "PPO by Hand"
LAST, BEST = "last", "best"
EXPORT, FILES = "export", "files"
"""Where a time of hand-in comes from, besides a column of the roster."""
KEYS = ("title", "lessons", "exercises", "points", "weights", "attempts", "due", "late")
Exercise = tuple[str, str]
"""Lesson and name."""


class BadKey(ValueError):
    """One sentence, which begins with the key that is wrong."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}")
        self.key, self.why = key, why


@dataclass(frozen=True)
class Due:
    """Until when, and how it is known when somebody handed in."""

    at: datetime | None = None
    column: str = ""
    """Of the roster: somebody's own due date; an empty cell means `at`."""
    handed_in: str = EXPORT
    """A column of the roster; "export": what the export itself says; "files": that, else the newest file."""


@dataclass(frozen=True)
class Late:
    """What a day costs, in percent of the assignment's points. A day that has begun is a day."""

    percent_per_day: float = 0.0
    grace_minutes: float = 0.0
    at_most_percent: float = 100.0


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
    attempts: str = ""
    """"last", "best", or empty: who has several submissions is reported."""
    due: Due | None = None
    late: Late | None = None

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

    def days_late(self, handed_in: datetime, due: datetime) -> int:
        grace = timedelta(minutes=self.late.grace_minutes if self.late else 0)
        return math.ceil((handed_in - due) / timedelta(days=1)) if handed_in > due + grace else 0

    def percent_off(self, days: int) -> float:
        return min(days * self.late.percent_per_day, self.late.at_most_percent) if self.late else 0.0

    def as_dict(self) -> dict[str, Any]:
        """What `from_dict` reads, in values of JSON."""
        found = asdict(self)
        found["exercises"] = list(self.names)
        if self.due and self.due.at:
            found["due"]["at"] = self.due.at.isoformat()
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
    _known(data, KEYS, "")
    title = data.get("title", TITLE)
    if not isinstance(title, str) or not title.strip():
        raise BadKey("title", f"expected a text, got {title!r}")
    attempts = data.get("attempts", "")
    if attempts not in ("", LAST, BEST):
        raise BadKey("attempts", f'expected "last" or "best", got {attempts!r}')
    exercises = _exercises(data)
    points, weights = _points(data, exercises)
    due = _due(data["due"]) if "due" in data else None
    late = _late(data["late"]) if "late" in data else None
    if late and not due:
        raise BadKey("late", "expected a due date as well: [due] with at, or column")
    return Assignment(title.strip(), exercises, points, weights, attempts, due, late)


def _known(data: Any, keys: Iterable[str], above: str) -> None:
    if not isinstance(data, Mapping):
        raise BadKey(above, f"expected a table with {', '.join(keys)}, got {data!r}")
    for key in data:
        if key not in keys:
            raise BadKey(f"{above and above + '.'}{key}", f"unknown key, expected one of {', '.join(keys)}")


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


def _due(data: Any) -> Due:
    if isinstance(data, (str, date)):  # due = 2026-12-01T23:59:00
        data = {"at": data}
    _known(data, [one.name for one in fields(Due)], "due")
    at = data.get("at")
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            pass
    if at is not None and not isinstance(at, datetime):
        raise BadKey("due.at", f"expected a date with a time, such as 2026-12-01T23:59:00+01:00, got {str(at)!r}")
    for key in ("column", "handed_in"):
        if not isinstance(data.get(key, ""), str):
            raise BadKey(f"due.{key}", f"expected the name of a column, got {data[key]!r}")
    due = Due(at.astimezone() if at and not at.tzinfo else at, data.get("column", ""), data.get("handed_in") or EXPORT)
    if not due.at and not due.column:
        raise BadKey("due", "expected at, or a column of the roster with each due date")
    return due


def _late(data: Any) -> Late:
    _known(data, [one.name for one in fields(Late)], "late")
    for key, value in data.items():
        if not _is_number(value) or "percent" in key and value > 100:
            wanted = "a percentage from 0 to 100" if "percent" in key else "a number from 0"
            raise BadKey(f"late.{key}", f"expected {wanted}, got {value!r}")
    if "percent_per_day" not in data:
        raise BadKey("late", "expected percent_per_day")
    return Late(**{key: float(value) for key, value in data.items()})
