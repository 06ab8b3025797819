"""The results of a batch, read back from OUT/results/*.json (see ../schema.md).

Whatever is in a file, reading it gives a record: one that cannot be read is a grader-error without points.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .text import clean, clean_lines, slug

STATUSES = (
    "passed",
    "wrong",
    "error",
    "timeout",
    "memory",
    "crash",
    "output-limit",
    "not-started",
    "missing",
    "blocked",
    "tamper-suspected",
    "grader-error",
)
MAX_BYTES = 32 * 2**20
NOT_SANDBOXED = "NOT SANDBOXED"
EMPTY = "no file of the course in it"
"""The note by which staging.py tells an empty submission from one that cannot be read."""


@dataclass(frozen=True)
class Cause:
    """A misconception that explains the answer."""

    name: str
    why: str
    read: str


@dataclass(frozen=True)
class Exercise:
    """The verdict on one exercise."""

    lesson: str
    name: str
    score: float
    max_score: float
    status: str
    """One of STATUSES; anything else in the file is read as grader-error."""
    cause: Cause | None
    message: str
    tests: tuple[tuple[str, float, float, str], ...]
    """Id, score, max_score and status of each test."""


@dataclass(frozen=True)
class Lesson:
    """The exercises of one lesson."""

    name: str
    score: float
    max_score: float
    exercises: tuple[Exercise, ...]

    @property
    def untouched(self) -> str:
        """The status that all exercises have, if nobody has worked on them; else empty."""
        statuses = {exercise.status for exercise in self.exercises}
        return statuses.pop() if len(statuses) == 1 and statuses <= {"missing", "not-started"} else ""

    @property
    def short(self) -> str:
        """Such as "Lesson 4: GAE"."""
        digits, _, title = self.name.removeprefix("lesson").partition("_")
        words = [word.upper() if word in ("gae", "kl", "ppo") else word for word in title.split("_")]
        return f"Lesson {int(digits)}: {' '.join(words)}" if digits.isascii() and digits.isdigit() else self.name


@dataclass(frozen=True)
class Record:
    """One submission. All text went through `clean`, but for `student`, which is what identifies a person."""

    student: str
    """The name as it was found; whoever shows it cleans it."""
    page: str
    """A file name, without suffix, that is unique in the batch."""
    file: str = field(default="", kw_only=True)
    """Name of the results file, without ".json"."""
    score: float | None = None
    """None where there is no verdict at all."""
    max_score: float | None = None
    sandbox: str = ""
    seed: int | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    lessons: tuple[Lesson, ...] = ()
    given_status: str = ""
    exercises: tuple[Exercise, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "exercises", tuple(item for lesson in self.lessons for item in lesson.exercises))

    @property
    def shown(self) -> str:
        """The name for people to read."""
        return clean(self.student) or "(no name)"

    @property
    def status(self) -> str:
        """graded, empty, unreadable or grader-error."""
        if self.score is None or any(item.status == "grader-error" for item in self.exercises):
            return "grader-error"
        if self.given_status:
            return self.given_status
        if any(item.status != "missing" for item in self.exercises):
            return "graded"
        return "unreadable" if self.notes and EMPTY not in self.notes else "empty"

    @property
    def final(self) -> bool:
        """Whether the score may go into a gradebook."""
        return self.status != "grader-error"

    @property
    def percent(self) -> float | None:
        return round(100 * self.score / self.max_score, 2) if self.score is not None and self.max_score else None

    @property
    def flags(self) -> tuple[str, ...]:
        """What an instructor must look at."""
        found = [NOT_SANDBOXED] if self.sandbox != "bwrap" and self.lessons else []
        for status in ("tamper-suspected", "grader-error"):
            count = sum(item.status == status for item in self.exercises)
            if count:
                found.append(f"{status} in {count} exercise{'s' * (count > 1)}")
        return tuple(found)


def load(out: Path, submissions: Path | None = None, statuses: Mapping[str, str] | None = None) -> list[Record]:
    """All records, by name; a submission without a results file has one, too.

    `statuses` holds what staging said about a submission, by the name of its results file without ".json".
    """
    records = [read(file) for file in sorted((out / "results").glob("*.json"))]
    records = [replace(record, given_status=(statuses or {}).get(record.file, "")) for record in records]
    if submissions is not None:
        records += _lost(submissions, out)
    return sorted(records, key=lambda record: (record.shown.casefold(), record.shown, record.page))


def read(file: Path) -> Record:
    """One results file."""
    name = file.name.removesuffix(".json")
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        data = json.loads(file.read_bytes().decode("utf-8"))
        return _record(data, name)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = clean(f"{type(error).__name__}: {error}")
        return Record(
            name, slug(name, name), file=name, notes=(f"the results file cannot be read ({reason}): grade again",)
        )


def _lost(submissions: Path, out: Path) -> list[Record]:
    """A record for each submission that has no results file."""
    from testcases.grader.staging import find

    try:
        entries = find(submissions)
    except (OSError, ValueError):
        return []
    return [
        Record(
            entry.student,
            slug(entry.student, entry.file_name),
            file=entry.file_name,
            notes=("there is no results file: grade again",),
        )
        for entry in entries
        if not (out / "results" / f"{entry.file_name}.json").is_file()
    ]


def _record(data: Any, name: str) -> Record:
    # By number, whatever the order in the file.
    lessons = tuple(_lesson(lesson, part) for lesson, part in sorted(data["lessons"].items()))
    score, max_score = _sum("the submission", data, [(lesson.score, lesson.max_score) for lesson in lessons])
    student = data["student"]
    if not isinstance(student, str):
        raise TypeError("student is not a text")
    notes = data.get("notes", [])
    if not isinstance(notes, list):
        raise TypeError("notes is not a list")
    seed = data.get("seed")
    return Record(
        student=student,
        page=slug(student, name),
        file=name,
        score=score,
        max_score=max_score,
        sandbox=clean(data.get("sandbox", "")),
        seed=seed if isinstance(seed, int) else None,
        seconds=_number(data.get("seconds", 0.0)),
        notes=tuple(clean(note, 500) for note in notes),
        lessons=lessons,
    )


def _lesson(name: str, data: Any) -> Lesson:
    exercises = tuple(_exercise(name, exercise, part) for exercise, part in data["exercises"].items())
    totals = _sum(name, data, [(exercise.score, exercise.max_score) for exercise in exercises])
    return Lesson(clean(name), *totals, exercises)


def _exercise(lesson: str, name: str, data: Any) -> Exercise:
    status, message = data["status"], clean_lines(data.get("message") or "")
    if status not in STATUSES:
        message = f"the status {clean(status)!r} is none that the grader knows\n{message}"
        status = "grader-error"
    cause = data.get("likely_cause")
    tests = tuple(
        (clean(test["id"]), _number(test["score"]), _number(test["max_score"]), clean(test["status"]))
        for test in data["tests"]
    )
    score, max_score = _sum(name, data, [test[1:3] for test in tests])
    return Exercise(
        lesson=clean(lesson),
        name=clean(name),
        score=score,
        max_score=max_score,
        status=status,
        cause=Cause(*(clean(cause.get(key) or "", 500) for key in ("name", "why", "read"))) if cause else None,
        message=message,
        tests=tests,
    )


def _sum(what: str, data: Any, parts: list[tuple[float, float]]) -> tuple[float, float]:
    """The score and max_score that are written, if they are the sum of their parts."""
    found = _number(data["score"]), _number(data["max_score"])
    wanted = sum(score for score, _ in parts), sum(most for _, most in parts)
    if found[0] > found[1] or any(abs(x - y) > 1e-6 for x, y in zip(found, wanted, strict=True)):
        raise ValueError(f"the points of {what} do not add up: {found[0]}/{found[1]}, parts {wanted[0]}/{wanted[1]}")
    return found


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9 or math.isnan(value):
        raise ValueError(f"expected a number of points, got {clean(value)!r}")
    return int(value) if value == int(value) else value
