"""The code that was graded, line by line, with the exercises that did not pass."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ppo_by_hand.core.files import write_text
from testcases.harness.catalog import SOLUTIONS
from testcases.harness.catalog import lesson as read_lesson

from ...status import PASSED
from ..marks import ExerciseMarks, File, MarkSheet


@dataclass(frozen=True)
class Line:
    """One line of a file."""

    number: int
    text: str
    failed: bool = False
    told: str = ""
    """At the head of an exercise that did not pass: which, and what came out."""


@dataclass(frozen=True)
class Listing:
    """One file, and what the course has in its place."""

    path: str
    lines: tuple[Line, ...]
    course: tuple[str, ...]
    """Empty where the course has none: a module of the student's own."""
    cut: int
    """Letters of it that are not shown."""


def listings(sheet: MarkSheet, lesson: str = "") -> Iterator[Listing]:
    """The files of a submission, or those of one lesson."""
    for file in sheet.files:
        if file.path.startswith(f"{lesson}/") or not lesson:
            yield Listing(file.path, tuple(_marked(file, sheet)), _of_course(file.path), int(file.cut))


def write_files(folder: Path, sheet: MarkSheet) -> list[Path]:
    """All that was graded, as files again: a program that compares submissions reads these."""
    own = (folder / sheet.page).resolve()
    pairs = [((own / file.path).resolve(), file.text) for file in sheet.files]
    return [write_text(path, text) for path, text in pairs if path.is_relative_to(own)]


def elsewhere(sheet: MarkSheet) -> list[Listing]:
    """The files that stand below no lesson of the page: modules beside the lessons, and those of lessons that are not
    asked for, or on which nobody worked."""
    shown = tuple(f"{lesson.name}/" for lesson in sheet.lessons if not lesson.untouched)
    known = tuple(f"{lesson.name}/" for lesson in sheet.lessons)
    rest = (one for one in listings(sheet) if not one.path.startswith(shown))
    return [one for one in rest if not (one.course and one.path.startswith(known))]


def own_modules(sheet: MarkSheet) -> list[str]:
    """The files that the course does not have."""
    return [file.path for file in sheet.files if not _of_course(file.path)]


def _marked(file: File, sheet: MarkSheet) -> Iterator[Line]:
    failed: dict[int, ExerciseMarks] = {}
    heads: dict[int, ExerciseMarks] = {}
    for exercise in sheet.exercises:
        if exercise.lesson == file.path.partition("/")[0] and exercise.status != PASSED:
            rows = _rows(file.lines, exercise.name) if _is_in(file.path, exercise) else range(0)
            heads.update({rows.start: exercise} if rows else {})
            failed.update(dict.fromkeys(rows, exercise))
    for place, text in enumerate(file.lines):
        head = heads.get(place)
        yield Line(place + 1, text, place in failed, f"{head.name}: {head.status}" if head else "")


def _is_in(path: str, exercise: ExerciseMarks) -> bool:
    try:
        return path == f"{exercise.lesson}/{read_lesson(exercise.lesson).file_of(exercise.name)}"
    except LookupError:
        return False


def _rows(lines: list[str], name: str) -> range:
    """Where a function, a class or a method stands: from its head to the next line that is no further in."""
    first, last = 0, len(lines)
    for part in name.split("."):
        form = re.compile(rf"(\s*)(async\s+)?(def|class)\s+{re.escape(part)}\b")
        heads = [place for place in range(first, last) if form.match(lines[place])]
        if not heads:
            return range(0)
        first = heads[0]
        depth = len(lines[first]) - len(lines[first].lstrip())
        rest = (place for place in range(first + 1, last) if _ends(lines[place], depth))
        last = next(rest, last)
    while last > first and not lines[last - 1].strip():
        last -= 1
    return range(first, last)


def _ends(line: str, depth: int) -> bool:
    text = line.lstrip()
    return bool(text) and len(line) - len(text) <= depth and text[0] not in ")]}#"


@cache
def _of_course(path: str) -> tuple[str, ...]:
    file = SOLUTIONS / Path(path)
    return tuple(file.read_text("utf-8").splitlines()) if file.is_file() and ".." not in path else ()
