"""The results of a batch, read back from OUT/results/*.json (see ../schema.md).

Whatever is in a file, reading it gives a record: one that cannot be read is a grader-error without points.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .text import clean, clean_lines, slug

if TYPE_CHECKING:
    from testcases.grader.batch import Row

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
    score: float | None = None
    """None where there is no verdict at all."""
    max_score: float | None = None
    sandbox: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    lessons: tuple[Lesson, ...] = ()
    staged: str = "graded"
    """What was handed in: graded, empty or unreadable."""
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
        return self.staged

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


def load(out: Path, rows: Iterable[Row]) -> list[Record]:
    """The records of a batch, by name; a submission whose results file is lost has one, too."""
    records = [read(out / "results" / f"{row.file_name}.json", row.student, row.status) for row in rows]
    return sorted(records, key=lambda record: (record.shown.casefold(), record.shown, record.page))


def read(file: Path, student: str, staged: str = "graded") -> Record:
    """One results file; `student` is the name where the file cannot be read."""
    name = file.name.removesuffix(".json")
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        return _record(json.loads(file.read_bytes().decode("utf-8")), name, staged)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        # Without the path: the same batch gives the same reports in any folder.
        reason = clean(f"{type(error).__name__}: {error.strerror if isinstance(error, OSError) else error}")
        note = f"the results file cannot be read ({reason}): grade again"
        return Record(student, slug(student, name), notes=(note,))


def only(out: Path) -> Record:
    """The record of a batch of one; without a verdict if there is none."""
    files = sorted((out / "results").glob("*.json"))
    if len(files) != 1:
        return Record("submission", "submission", notes=(f"expected one results file, got {len(files)}: grade again",))
    return read(files[0], "submission")


def _record(data: Any, name: str, staged: str) -> Record:
    # By number, whatever the order in the file.
    lessons = tuple(_lesson(lesson, part) for lesson, part in sorted(data["lessons"].items()))
    score, max_score = _sum("the submission", data, [(lesson.score, lesson.max_score) for lesson in lessons])
    student = data["student"]
    if not isinstance(student, str):
        raise TypeError("student is not a text")
    notes = data.get("notes", [])
    if not isinstance(notes, list):
        raise TypeError("notes is not a list")
    return Record(
        student=student,
        page=slug(student, name),
        score=score,
        max_score=max_score,
        sandbox=clean(data.get("sandbox", "")),
        seconds=_number(data.get("seconds", 0.0)),
        notes=tuple(clean(note, 500) for note in notes),
        lessons=lessons,
        staged=staged,
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
    if cause:
        message = message.partition("\nLikely cause:")[0]  # It is told beside the message.
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
