"""What the instructor decides: marks and comments in OUT/overrides.csv, which no run writes over.

student,exercise,score,comment
bob,lesson04_gae.compute_gae,3,The test asks for more than the text says.
carol,,12,Marked by hand.
"""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .roster import decode, delimiter_of
from .text import cell, clean, clean_lines

FILE = "overrides.csv"
COLUMNS = ("student", "exercise", "score", "comment")
MAX_BYTES = 16 * 2**20


@dataclass(frozen=True)
class Override:
    """One line."""

    line: int
    student: str
    exercise: str = ""
    """Such as "lesson04_gae.compute_gae"; empty for the whole mark."""
    score: float | None = None
    comment: str = ""


def read(out: Path, exercises: Sequence[str]) -> list[Override]:
    """The lines of the file; none where there is none.

    Args:
        exercises: those of the assignment, such as "lesson04_gae.compute_gae".

    Raises:
        ValueError: one sentence about what is wrong.
        OSError: it cannot be read.
    """
    path = out / FILE
    if not path.exists():
        return []
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{FILE}: expected at most {MAX_BYTES:,} bytes")
    text = decode(path.read_bytes())
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(text)))
    except csv.Error as error:
        raise ValueError(f"{FILE}: cannot be read: {error}") from None
    if not rows:
        return []
    names = [name.strip().lower() for name in rows[0]]
    if unknown := [name for name in names if name not in COLUMNS]:
        raise ValueError(f"{FILE}: expected the columns {', '.join(COLUMNS)}, got {clean(unknown[0])!r}")
    if "student" not in names:
        raise ValueError(f"{FILE}: expected a column student")
    found = []
    for line, row in enumerate(rows[1:], start=2):
        values = {name: value.strip() for name, value in zip(names, row, strict=False)}
        if any(values.values()):
            found.append(_line(line, values, exercises))
    _check_twice(found)
    return found


def _line(line: int, values: dict[str, str], exercises: Sequence[str]) -> Override:
    where = f"{FILE}, line {line}"
    student = values.get("student", "")
    if not student:
        raise ValueError(f"{where}: expected a student")
    exercise = values.get("exercise", "")
    if exercise:
        fitting = [name for name in exercises if exercise in (name, name.partition(".")[2])]
        if len(fitting) != 1:
            what = "could be several exercises" if fitting else "is no exercise of this assignment"
            raise ValueError(f"{where}: {clean(exercise)!r} {what}, expected a name such as {exercises[0]}")
        exercise = fitting[0]
    score = _number(values.get("score", ""), where)
    comment = clean_lines(values.get("comment", ""), lines=40)
    # A sheet of ours is opened and saved again: the mark that kept a name from being a formula is no part of it. One
    # before any other name is, or 'ann would be marked as ann.
    student = student[1:] if student[:1] == "'" and cell(student[1:]) == student else student
    return Override(line, student, exercise, score, comment)


def _number(text: str, where: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e9:
        raise ValueError(f"{where}: score: expected a number from 0, got {clean(text)!r}")
    return value


def _check_twice(found: Iterable[Override]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for one in found:
        key = one.student, one.exercise
        if one.score is None:
            continue
        if key in seen:
            raise ValueError(f"{FILE}, line {one.line}: {clean(one.student)!r} has a score in line {seen[key]}")
        seen[key] = one.line


def offer(out: Path) -> None:
    """An empty file to write into, where there is none."""
    path = out / FILE
    if not path.exists():
        path.write_text(",".join(COLUMNS) + "\n", "utf-8")
