"""The mark sheets of a batch, read back from OUT/results/*.json (see ../schema.md).

Whatever is in a file, reading it gives a sheet: one that is not as the schema says is a grader-error without points.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NewType, get_args, get_origin, get_type_hints

from ...intake import Doubt
from ...status import EMPTY, GRADED, GRADER, MISSING, NOT_STARTED, STATUSES, TAMPER, UNREADABLE, UNSAFE
from .text import clean, clean_lines, slug

if TYPE_CHECKING:
    from ...marking import Row

MAX_BYTES = 32 * 2**20
Raw = NewType("Raw", str)
"""Text as it was found: whoever shows it cleans it. All other text is clean."""
Lines = NewType("Lines", str)
Code = NewType("Code", str)


TEXTS: dict[Any, Callable[[str], str]] = {
    str: lambda text: clean(text, 500),
    Lines: clean_lines,
    Code: lambda text: clean_lines(text, lines=len(text) + 1, width=len(text) + 1),
    Raw: str,
}
LATER = {"later": True}
"""A field that is in no results file."""


@dataclass(frozen=True)
class Cause:
    """A wrong answer of ours that the student's agrees with."""

    name: str
    why: str
    read: str

    @property
    def told(self) -> str:
        return self.why or self.name


@dataclass(frozen=True)
class TestMark:
    """One test function."""

    __test__ = False
    id: str
    score: float
    max_score: float
    status: str


@dataclass(frozen=True)
class ExerciseMarks:
    """The verdict on one exercise."""

    lesson: str
    name: str
    score: float
    max_score: float
    status: str
    likely_cause: Cause | None
    told: Lines
    """The message without the cause, which is told beside it."""
    tests: tuple[TestMark, ...]
    given: bool = field(default=False, metadata=LATER)
    """The instructor's points, and not the tests'."""
    comments: tuple[str, ...] = field(default=(), metadata=LATER)


@dataclass(frozen=True)
class LessonMarks:
    """The exercises of one lesson."""

    name: str
    score: float
    max_score: float
    exercises: tuple[ExerciseMarks, ...]

    @property
    def untouched(self) -> str:
        """The status that all exercises have, if nobody has worked on them; else empty."""
        statuses = {exercise.status for exercise in self.exercises}
        return statuses.pop() if len(statuses) == 1 and statuses <= {MISSING, NOT_STARTED} else ""

    @property
    def short(self) -> str:
        """Such as "Lesson 4: GAE"."""
        digits, _, title = self.name.removeprefix("lesson").partition("_")
        words = [word.upper() if word in ("gae", "kl", "ppo") else word for word in title.split("_")]
        return f"Lesson {int(digits)}: {' '.join(words)}" if digits.isascii() and digits.isdigit() else self.name


@dataclass(frozen=True)
class File:
    """One that was graded."""

    path: str
    text: Code
    cut: float = 0
    """Letters that are not shown."""

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")


@dataclass(frozen=True)
class Changed:
    """What a regrade has changed."""

    exercise: str
    old: float
    new: float
    why: str


@dataclass(frozen=True)
class Adjustments:
    """What the instructor made of the points (see adjustments.py)."""

    tests: float | None = None
    """Points before that."""
    given: bool = False
    """The mark is the instructor's."""
    comments: tuple[str, ...] = ()


@dataclass(frozen=True)
class MarkSheet:
    """One submission."""

    student: Raw
    """The name as it was found: it is what identifies a person."""
    page: str
    """A file name, without suffix, that is unique in the batch."""
    score: float | None = None
    """None where there is no verdict at all."""
    max_score: float | None = None
    sandbox: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    lessons: tuple[LessonMarks, ...] = ()
    status: str = GRADED
    """graded, empty, unreadable or grader-error."""
    aliases: tuple[Raw, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    changes: tuple[Changed, ...] = ()
    files: tuple[File, ...] = ()
    system: str = ""
    exported: tuple[Raw, ...] = ()
    adjustments: Adjustments = field(default=Adjustments(), metadata=LATER)
    name: str = field(default="", metadata=LATER)
    """What the roster calls them."""

    def __post_init__(self) -> None:
        failed = any(exercise.status == GRADER and not exercise.given for exercise in self.exercises)
        if (self.score is None or failed) and not self.adjustments.given:
            object.__setattr__(self, "status", GRADER)

    @property
    def exercises(self) -> list[ExerciseMarks]:
        return [exercise for lesson in self.lessons for exercise in lesson.exercises]

    @property
    def shown(self) -> str:
        """The name for people to read."""
        return clean(self.name or self.student) or "(no name)"

    @property
    def final(self) -> bool:
        """Whether there is a verdict."""
        return self.status != GRADER

    @property
    def mark(self) -> float | None:
        """What may go into a gradebook: none where the grader failed, and none where there was nothing to grade."""
        return self.score if self.status == GRADED else None

    @property
    def percent(self) -> float | None:
        return round(100 * self.mark / self.max_score, 2) if self.mark is not None and self.max_score else None

    @property
    def comments(self) -> tuple[str, ...]:
        """The instructor's, on the whole and on each exercise."""
        of_exercises = [f"{one.name}: {comment}" for one in self.exercises for comment in one.comments]
        return (*self.adjustments.comments, *of_exercises)

    @property
    def flags(self) -> tuple[str, ...]:
        """What an instructor must look at."""
        found = [UNSAFE] if self.sandbox != "bwrap" and self.lessons else []
        for status in (TAMPER, GRADER):
            count = sum(exercise.status == status for exercise in self.exercises)
            if count:
                found.append(f"{status} in {count} exercise{'s' * (count > 1)}")
        return tuple(found)

    @property
    def all_flags(self) -> tuple[str, ...]:
        """The flags, and what is for the instructor alone."""
        return (*self.flags, *dict.fromkeys(doubt.kind for doubt in self.doubts))


def tidy(points: float) -> float:
    """With two decimals, as a mark is written."""
    rounded = round(points, 2)
    return int(rounded) if rounded == int(rounded) else rounded


def load(out: Path, rows: Iterable[Row]) -> list[MarkSheet]:
    """The sheets of a batch, by name; a submission whose results file is lost has one, too."""
    sheets = [read(out / "results" / f"{row.file_name}.json", row.student) for row in rows]
    return in_order(sheets)


def in_order(sheets: Iterable[MarkSheet]) -> list[MarkSheet]:
    """By name."""
    return sorted(sheets, key=lambda sheet: (sheet.shown.casefold(), sheet.shown, sheet.page))


def read(file: Path, student: str) -> MarkSheet:
    """One results file; `student` is the name where the file cannot be read."""
    name = file.name.removesuffix(".json")
    try:
        if file.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        data = json.loads(file.read_bytes().decode("utf-8"))
        sheet = _parse(MarkSheet, _in_lists({**data, "page": slug(data["student"], name)}))
        _check(sheet)
        return sheet
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        # Without the path: the same batch gives the same reports in any folder.
        reason = clean(f"{type(error).__name__}: {error.strerror if isinstance(error, OSError) else error}")
        note = f"the results file cannot be read ({reason}): grade again"
        return MarkSheet(Raw(student), slug(student, name), notes=(note,))


def only(out: Path) -> MarkSheet:
    """The sheet of a batch of one; without a verdict if there is none."""
    files = sorted((out / "results").glob("*.json"))
    if len(files) != 1:
        notes = (f"expected one results file, got {len(files)}: grade again",)
        return MarkSheet(Raw("submission"), "submission", notes=notes)
    return read(files[0], "submission")


def _in_lists(data: dict[str, Any]) -> dict[str, Any]:
    """Lessons, by number whatever the order in the file, and exercises as lists, each with its name."""
    lessons = []
    for lesson, found in sorted(data["lessons"].items()):
        named = ((one, {"lesson": lesson, "name": name}) for name, one in found["exercises"].items())
        exercises = [{**one, **place} for one, place in named]
        lessons.append({**found, "name": lesson, "exercises": exercises})
    return {**data, "lessons": lessons}


def _check(sheet: MarkSheet) -> None:
    """Raises ValueError: points that do not add up, or a status that nobody gives."""
    sums: list[tuple[str, Any, Iterable[Any]]] = [("the submission", sheet, sheet.lessons)]
    sums += [(lesson.name, lesson, lesson.exercises) for lesson in sheet.lessons]
    sums += [(exercise.name, exercise, exercise.tests) for exercise in sheet.exercises]
    for name, whole, parts in sums:
        wanted = sum(part.score for part in parts), sum(part.max_score for part in parts)
        if whole.score > whole.max_score or (whole.score, whole.max_score) != wanted:
            got = f"{whole.score}/{whole.max_score}, parts {wanted[0]}/{wanted[1]}"
            raise ValueError(f"the points of {name} do not add up: {got}")
    known = {(GRADED, EMPTY, UNREADABLE, GRADER): [sheet.status], STATUSES: [one.status for one in sheet.exercises]}
    for statuses, found in known.items():
        if unknown := set(found) - set(statuses):
            raise ValueError(f"the status {clean(unknown.pop())!r} is none that the grader knows")


def _parse(kind: Any, data: Any) -> Any:
    """JSON as the type that it must have.

    Raises:
        ValueError: it is of another.
        KeyError: a field is not there.
    """
    options = get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind) and type(data) is dict:
        types_of = get_type_hints(kind)
        stored = [one.name for one in fields(kind) if not one.metadata.get("later")]
        return kind(**{name: _parse(types_of[name], data[name]) for name in stored})
    if get_origin(kind) is tuple and type(data) is list:
        return tuple(_parse(options[0], part) for part in data)
    if get_origin(kind) is types.UnionType:
        return None if data is None else _parse(options[0], data)
    if kind in TEXTS and type(data) is str:
        return TEXTS[kind](data)
    if kind is bool and type(data) is bool:
        return data
    if kind is float and type(data) in (int, float) and 0 <= data < 1e9:
        return int(data) if data == int(data) else data
    raise ValueError(f"expected {getattr(kind, '__name__', kind)}, got {clean(data)!r}")
