"""The files that Canvas and Moodle import. Whoever has no mark, or is nobody yet, is in neither."""

import contextlib
import csv
import difflib
import io
import re
from collections.abc import Container, Iterable, Sequence
from pathlib import Path

from ppo_by_hand.core.files import write_text

from ..text import cell, clean
from .people import People, Person
from .sheets import tidy
from .table import Mark


def canvas(path: Path, marks: Sequence[Mark], known: People, title: str, total: float) -> None:
    """Gradebook, Import. Canvas fills an assignment that exists if the last column has its title and id."""
    head: list[object] = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", _own_column(known, title)]
    rows: list[list[object]] = [head, ["    Points Possible", None, None, None, None, tidy(total)]]
    for mark, who in _marked(marks):
        # Canvas takes a row that begins so for the row with the points: nobody is called that.
        name = f"({mark.shown})" if "points possible" in mark.shown.lower() else who.name or mark.shown
        rows.append([name, _digits(who.id), who.sis_id, who.login, who.section, mark.mark])
    _write(path, rows)


def canvas_doubts(known: People, title: str, total: float, systems: Container[str]) -> list[str]:
    """What Canvas would make of the import that an instructor may not want, in a sentence each."""
    columns = [name.strip() for name in known.header]
    assignments = [name for name in columns if re.search(r"\(\d+\)$", name)]
    if "Canvas" in systems and known and not any(one.id or one.sis_id or one.login for one in known.people):
        return [
            "ROSTER: there is no column ID, so canvas.csv has only names; export Canvas's whole gradebook, and use it"
        ]
    own = _own_column(known, title)
    if assignments and own not in assignments:
        (close,) = difflib.get_close_matches(title, assignments, n=1, cutoff=0)
        told = f"title: no assignment in ROSTER is called {clean(title)!r}, so Canvas would take it for a new one"
        return [f"{told}; there is {clean(close)}"]
    if own not in assignments or not (given := "".join(known.possible[columns.index(own) :][:1]).strip()):
        return []
    with contextlib.suppress(ValueError):
        if float(given) != total:
            return [
                f"points: {clean(own)} has {clean(given)} points in Canvas, but the marks here are out of {total:g}"
            ]
    return []


def moodle(path: Path, marks: Sequence[Mark], known: People) -> None:
    """The teacher's own grading worksheet, filled in; no other cell than grades and comments changes.

    Feedback never comes without a grade, because Moodle would erase the grade.
    """
    names = [name.strip().lower() for name in known.header]
    by_row = {who.row: mark for mark, who in _marked(marks)}
    rows: list[list[object]] = [[*known.header]]
    if not known.is_worksheet:
        path.unlink(missing_ok=True)
        return
    for person in known.people:
        row: list[object] = [*person.cells]
        row += [""] * (len(names) - len(row))
        if mark := by_row.get(person.row):
            row[names.index("grade")] = _scaled(mark, row[names.index("maximum grade")])
            if "feedback comments" in names:
                row[names.index("feedback comments")] = _feedback(mark)
        rows.append(row)
    # Moodle writes a lone dash for "none yet" and reads it back; no spreadsheet runs it.
    _write(path, rows, as_is=("-",))


def _marked(marks: Iterable[Mark]) -> list[tuple[Mark, Person]]:
    found = [mark for mark in marks if mark.mark is not None and not mark.problem]
    return [(mark, mark.person or Person(name=mark.shown)) for mark in found]


def _write(path: Path, rows: Sequence[Sequence[object]], as_is: Container[object] = ()) -> None:
    """A CSV file in UTF-8 with commas; each cell is made safe but for the values in `as_is`. It is written if somebody
    is in it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [value if value in as_is else cell(value) for value in row] for row in rows
    )
    if len([row for row in rows if "Points Possible" not in str(row[0])]) > 1:
        write_text(path, text.getvalue())
    else:
        path.unlink(missing_ok=True)


def _own_column(known: People, title: str) -> str:
    """Canvas's own heading for the assignment, with its id: an import with another makes a second assignment."""
    own = [name.strip() for name in known.header if re.fullmatch(rf"{re.escape(title)}\s*\(\d+\)", name.strip(), re.I)]
    return own[0] if len(own) == 1 else title


def _feedback(mark: Mark) -> str:
    parts = [*mark.sheet.flags] if mark.sheet else []
    for lesson in mark.sheet.lessons if mark.sheet else ():
        parts.append(f"{lesson.name} {lesson.points}")
    return "; ".join([*parts, *filter(None, (mark.yours.get("reason"), mark.yours.get("comment")))])


def _digits(text: str) -> object:
    return int(text) if text.isascii() and text.isdigit() and not text.startswith("0") else clean(text)


def _scaled(mark: Mark, maximum: object) -> object:
    """The mark on the scale of the worksheet, with two decimals."""
    try:
        top = float(str(maximum).replace(",", "."))
    except ValueError:
        return mark.mark
    most = mark.sheet.all_points.most if mark.sheet else 0
    if not 0 < top < 1e9 or not most or mark.mark is None:
        return mark.mark
    return tidy(mark.mark * top / most)
