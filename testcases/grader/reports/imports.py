"""The files that Canvas and Moodle import. Whoever has no mark, or is nobody yet, is in neither."""

import contextlib
import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ppo_by_hand.core.files import write_text

from ..marking.assignment import Assignment
from ..text import clean, guarded
from .people import People
from .sheets import tidy
from .table import Mark


def canvas(path: Path, marks: Sequence[Mark], known: People, assignment: Assignment) -> None:
    """Gradebook, Import. Canvas fills an assignment that exists if the last column has its title and id."""
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", _own_column(known, assignment.title)]
    rows: list[list[object]] = [[*head], ["    Points Possible", "", "", "", "", tidy(assignment.total)]]
    for mark in _marked(marks):
        # Canvas takes a row that begins so for the row with the points: nobody is called that.
        name = f"({mark.shown})" if "points possible" in mark.shown.lower() else mark.shown
        who = mark.person
        rows.append([name, who.id, who.sis_id, who.login, who.section, mark.mark])
    _write(path, rows, len(rows) > 2)


def canvas_doubts(known: People, assignment: Assignment) -> list[str]:
    """What Canvas would make of the import that an instructor may not want, in a sentence each."""
    columns, own = [name.strip() for name in known.header], _own_column(known, assignment.title)
    if known.possible and own not in columns:
        return [f"title: no assignment in ROSTER is called {own!r}, so Canvas would take it for a new one"]
    with contextlib.suppress(ValueError, IndexError):
        given = known.possible[columns.index(own)]
        if float(given) != assignment.total:
            told = f"has {clean(given)} points in Canvas, but the marks here are out of {assignment.total:g}"
            return [f"points: {clean(own)} {told}"]
    return []


def moodle(path: Path, marks: Sequence[Mark], known: People) -> None:
    """The teacher's own grading worksheet, filled in; no other cell than grades and comments changes.

    Feedback never comes without a grade, because Moodle would erase the grade.
    """
    names = [name.strip().lower() for name in known.header]
    is_worksheet = {"identifier", "grade", "maximum grade"} <= set(names)
    by_row = {mark.person.row: mark for mark in _marked(marks)}
    rows: list[list[object]] = [[*known.header]]
    for person in known.people if is_worksheet else ():
        row: list[object] = [*person.cells]
        if mark := by_row.get(person.row):
            row[names.index("grade")] = _scaled(mark, person.cells[names.index("maximum grade")])
            if "feedback comments" in names:  # An assignment may have none.
                row[names.index("feedback comments")] = _feedback(mark)
        rows.append(row)
    _write(path, rows, is_worksheet)


def _marked(marks: Iterable[Mark]) -> list[Mark]:
    return [mark for mark in marks if mark.mark is not None and not mark.problem]


def _write(path: Path, rows: Sequence[Sequence[object]], is_wanted: bool) -> None:
    """A CSV file in UTF-8 with commas; no cell is a formula, where Moodle's lone dash for "none yet" is none."""
    if not is_wanted:
        path.unlink(missing_ok=True)
        return
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [guarded(clean(value, 2_000)) if isinstance(value, str) and value != "-" else value for value in row]
        for row in rows
    )
    write_text(path, text.getvalue())


def _own_column(known: People, title: str) -> str:
    """The header that Canvas knows an assignment by, such as "HW (77)", where the list has it."""
    title = clean(title)
    own = [name.strip() for name in known.header if re.fullmatch(rf"{re.escape(title)}\s*\(\d+\)", name.strip(), re.I)]
    return own[0] if len(own) == 1 else title


def _feedback(mark: Mark) -> str:
    parts = [*mark.sheet.flags] if mark.sheet else []
    for lesson in mark.sheet.lessons if mark.sheet else ():
        parts.append(f"{lesson.name} {lesson.points}")
    return "; ".join([*parts, *filter(None, (mark.yours.get("reason"), mark.yours.get("comment")))])


def _scaled(mark: Mark, maximum: str) -> float | None:
    """The mark on the scale of the worksheet, with two decimals."""
    most = mark.sheet.all_points.most if mark.sheet else 0
    with contextlib.suppress(ValueError):
        if most and mark.mark is not None:
            return tidy(mark.mark * float(maximum.replace(",", ".")) / most)
    return mark.mark
