"""The results of a batch, read back from OUT/results/*.json (see ../schema.md), on the scale of the assignment.

Whatever is in a file, reading it gives a sheet: one that is not as the schema says is a grader-error without points.
All text in a sheet is safe to show.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..intake.submissions import Doubt
from ..marking.assignment import Assignment
from ..status import GRADED, GRADER, MISSING, NOT_STARTED, STATUSES, TAMPER, UNSAFE
from ..text import clean, clean_lines, name_of


@dataclass(frozen=True)
class Points:
    """So many of so many."""

    score: float = 0.0
    most: float = 0.0

    def __add__(self, other: Points) -> Points:
        return Points(self.score + other.score, self.most + other.most)

    def __str__(self) -> str:
        return f"{number(self.score)}/{number(self.most)}"


@dataclass(frozen=True)
class Exercise:
    """The verdict on one exercise."""

    lesson: str
    name: str
    status: str
    formula: Points
    """Of the basic suite."""
    safety: Points
    """Of the advanced suite."""
    causes: tuple[str, ...] = ()
    """What the student heard about a likely cause."""
    read: str = ""
    told: str = ""
    """The message without the causes, which are told beside it."""
    loads: bool = True
    """Whether its file does; of what does not an instructor hears once, as of a file."""

    @property
    def points(self) -> Points:
        return self.formula + self.safety


@dataclass(frozen=True)
class Lesson:
    """The exercises of one lesson."""

    name: str
    exercises: tuple[Exercise, ...]

    @property
    def points(self) -> Points:
        return sum((one.points for one in self.exercises), Points())

    @property
    def untouched(self) -> str:
        """The status that all exercises have, if nobody has worked on them; else empty."""
        statuses = {exercise.status for exercise in self.exercises}
        return statuses.pop() if len(statuses) == 1 and statuses <= {MISSING, NOT_STARTED} else ""


@dataclass(frozen=True)
class Sheet:
    """One submission."""

    folder: str
    """Its name, which identifies a submission."""
    page: str
    """The name of its results file, without suffix: safe everywhere, and unique in the batch."""
    status: str = GRADER
    """graded, empty, unreadable or grader-error."""
    system: str = ""
    name: str = ""
    """Of the person, as the platform writes it."""
    ids: tuple[str, ...] = ()
    sandbox: str = ""
    notes: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    lessons: tuple[Lesson, ...] = ()
    files: tuple[Mapping[str, Any], ...] = ()
    """Path, text, and the number of letters that are cut, of each that was graded."""
    code: str = ""
    """A hash of it."""

    @property
    def exercises(self) -> list[Exercise]:
        return [exercise for lesson in self.lessons for exercise in lesson.exercises]

    @property
    def all_points(self) -> Points:
        found = sum((lesson.points for lesson in self.lessons), Points())
        return Points(tidy(found.score), tidy(found.most))

    @property
    def points(self) -> float | None:
        """None where the grader failed, and where there was nothing to grade."""
        return self.all_points.score if self.status == GRADED else None

    @property
    def flags(self) -> tuple[str, ...]:
        """What students may see, too."""
        found = [UNSAFE] if self.sandbox != "bwrap" and self.lessons else []
        for status in (TAMPER, GRADER):
            count = sum(exercise.status == status for exercise in self.exercises)
            found += [f"{status} in {count} exercise{'s' * (count > 1)}"] if count else []
        return tuple(found)


def tidy(points: float) -> float:
    """With two decimals, as a mark is written."""
    rounded = round(points, 2)
    return int(rounded) if rounded == int(rounded) else rounded


def number(value: float) -> str:
    """With two decimals at most."""
    return f"{round(value, 2):.10g}"


def read(path: Path, student: str, assignment: Assignment) -> Sheet:
    """One results file; `student` is the name where the file cannot be read."""
    try:
        return sheet_of(json.loads(path.read_bytes().decode("utf-8")), path.stem, assignment)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        # Without the path: the same batch gives the same reports in any folder.
        reason = clean(f"{type(error).__name__}: {error.strerror if isinstance(error, OSError) else error}")
        note = f"the results file cannot be read ({reason}): grade again"
        return Sheet(student, path.stem, notes=(note,))


def only(out: Path, assignment: Assignment) -> Sheet:
    """The sheet of a batch of one; without a verdict if there is none."""
    return read(next((out / "results").glob("*.json"), out / "results/none.json"), "submission", assignment)


def sheet_of(data: Mapping[str, Any], file_name: str, assignment: Assignment) -> Sheet:
    """Raises ValueError, TypeError, KeyError, AttributeError: the result is not as the schema says."""
    found = {
        (lesson, name): one for lesson, about in data["lessons"].items() for name, one in about["exercises"].items()
    }
    factors = assignment.factors({key: sum(test["max_score"] for test in one["tests"]) for key, one in found.items()})
    exercises = [_exercise(lesson, name, one, factors[lesson, name]) for (lesson, name), one in found.items()]
    lessons = sorted({clean(lesson) for lesson in data["lessons"]})
    return Sheet(
        folder=name_of(data["student"]) or "(no name)",
        page=file_name,
        status=GRADER if any(one.status == GRADER for one in exercises) else clean(data["status"]),
        system=clean(data["system"]),
        name=name_of(data["name"]),
        ids=tuple(name_of(one) for one in data["ids"]),
        sandbox=clean(data["sandbox"]),
        notes=tuple(clean(note, 500) for note in data["notes"]),
        doubts=tuple(Doubt(clean(one["kind"]), clean(one["text"], 500)) for one in data["doubts"]),
        lessons=tuple(Lesson(name, tuple(one for one in exercises if one.lesson == name)) for name in lessons),
        files=tuple(
            {"path": clean(one["path"]), "text": _code(one["text"]), "cut": int(one["cut"])} for one in data["files"]
        ),
        code=clean(data["code"]),
    )


def _exercise(lesson: str, name: str, data: Mapping[str, Any], factor: float) -> Exercise:
    """Raises ValueError: points or a status that nobody gives."""
    parts = {True: Points(), False: Points()}
    for test in data["tests"]:
        score, most = float(test["score"]), float(test["max_score"])
        if not 0 <= score <= most < 1e9:
            raise ValueError(f"the points of {name} do not add up: {score:g} of {most:g}")
        parts[test["id"].startswith("basic_test.py")] += Points(score * factor, most * factor)
    if data["status"] not in STATUSES:
        raise ValueError(f"the status {clean(data['status'])!r} is none that the grader knows")
    causes = tuple(clean(cause, 500) for cause in data["causes"])
    told, read, loads = clean_lines(data["told"]), clean(data["read"]), not data["unloaded"]
    return Exercise(clean(lesson), clean(name), data["status"], parts[True], parts[False], causes, read, told, loads)


def _code(text: str) -> str:
    return clean_lines(text, lines=len(text) + 1, width=len(text) + 1)
