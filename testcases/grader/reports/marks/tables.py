"""The CSV files: our own gradebook, and what Canvas and Moodle import."""

import csv
import io
import re
from collections.abc import Container, Iterable, Sequence
from pathlib import Path

from ppo_by_hand.core.files import write_text

from ...marking import TITLE
from ...status import GRADER
from .roster import UNCLEAR, Matching, Person, Roster
from .sheets import Adjustments, MarkSheet, Raw, tidy
from .text import cell, clean


def write_rows(path: Path, rows: Iterable[Sequence[object]], as_is: Container[object] = ()) -> Path:
    """Write a CSV file (UTF-8, commas), each cell made safe but for the values in `as_is`."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(
        [value if value in as_is else cell(value) for value in row] for row in rows
    )
    return write_text(path, text.getvalue())


def gradebook(
    path: Path, sheets: Sequence[MarkSheet], matching: Matching | None = None, missing: float | None = None
) -> Path:
    """One row for every submission, and one for everybody on the roster who handed in nothing."""
    lessons = list(dict.fromkeys(lesson.name for sheet in sheets for lesson in sheet.lessons))
    head: list[object] = ["student", "score", "max_score", "percent", "status", *lessons]
    head += ["flags", "comments", "notes"]
    if matching is not None:
        head.insert(1, "name")
    rows: list[list[object]] = [head]
    for sheet in sheets:
        scores = {lesson.name: tidy(lesson.score) for lesson in sheet.lessons}
        row: list[object] = [
            sheet.student,
            sheet.mark,
            sheet.max_score,
            sheet.percent,
            sheet.status,
            *(scores.get(lesson) for lesson in lessons),
            " | ".join(sheet.all_flags),
            " | ".join(sheet.comments),
            " | ".join([*sheet.notes, *_roster_notes(sheet, matching)]),
        ]
        if matching is not None:
            person = matching.person_of.get(sheet.page)
            row.insert(1, person.name if person else None)
        rows.append(row)
    if matching is not None:
        most = max((sheet.max_score or 0 for sheet in sheets), default=0)
        blank = [None] * len(lessons)
        for told, mark, people in (
            (("no-submission", *blank, "", "", "on the roster, nothing handed in"), missing, matching.absent),
            (("unclear", *blank, "", "", UNCLEAR), None, matching.unclear),
        ):
            rows += [[one.student or one.shown, one.name, mark, most, mark, *told] for one in people]
    return write_rows(path, rows)


def canvas(
    path: Path, sheets: Sequence[MarkSheet], matching: Matching | None, title: str = TITLE, missing: float | None = None
) -> Path:
    """What Canvas imports: Gradebook, Import. To fill an existing assignment, its title must end in "(its id)".

    A submission without a verdict, or with no person where there is a roster, is left out: an empty mark would
    delete one that is there. So is whoever handed in nothing, unless `missing` says what that is worth: the others may
    have been graded before.
    """
    marked = _marked(sheets, matching, missing)
    possible = max((sheet.max_score or 0 for sheet in sheets), default=0)
    head: list[object] = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", title]
    rows: list[list[object]] = [head, ["    Points Possible", None, None, None, None, possible]]
    for sheet, person in marked:
        who = person or Person(0, name=sheet.student)
        rows.append([_not_points(who.shown), _digits(who.id), who.sis_id, who.login, who.section, sheet.score])
    return write_rows(path, rows)


def moodle(
    path: Path, sheets: Sequence[MarkSheet], matching: Matching | None, title: str = TITLE, missing: float | None = None
) -> Path:
    """What Moodle imports: Grades, Import, CSV file; map "Email address" or "ID number" to the user.

    Moodle minds the case of an email address, so it is written as the roster has it. Feedback never comes without a
    grade: Moodle would erase the grade.
    """
    head: list[object] = ["Email address", "ID number", "Username", "Full name", title, f"{title} feedback"]
    rows = [head]
    for sheet, person in _marked(sheets, matching, missing):
        who = person or Person(0, name=sheet.student)
        rows.append([who.email, who.sis_id, who.login, who.shown, sheet.score, _feedback(sheet)])
    return write_rows(path, rows)


def moodle_worksheet(
    path: Path, sheets: Sequence[MarkSheet], roster: Roster, matching: Matching, missing: float | None = None
) -> Path:
    """The teacher's own grading worksheet, with grades and comments filled in; no other cell changes."""
    names = [name.strip().lower() for name in roster.header]
    grade = names.index("grade")
    comment = names.index("feedback comments") if "feedback comments" in names else None
    maximum = names.index("maximum grade") if "maximum grade" in names else None
    by_page = {sheet.page: sheet for sheet in sheets}
    by_row = {person.row: page for page, person in matching.person_of.items()}
    rows: list[list[object]] = [list(roster.header)]
    for person in roster.people:
        row: list[object] = list(roster.rows[person.row])
        row += [""] * (len(names) - len(row))
        sheet = by_page.get(by_row.get(person.row, ""))
        if sheet is not None and sheet.mark is not None:
            row[grade] = _scaled(sheet, row[maximum] if maximum is not None else None)
            if comment is not None:
                row[comment] = _feedback(sheet)
        elif missing is not None and person in matching.absent and not str(row[grade]).strip(" -"):
            row[grade] = missing
        rows.append(row)
    # Moodle writes a lone dash for "none yet" and reads it back; no spreadsheet runs it.
    return write_rows(path, rows, as_is=("-",))


def own_column(roster: Roster | None, title: str, otherwise: str) -> str:
    """The roster's own heading for the assignment, with its id: an import with another makes a second assignment."""
    form = re.compile(rf"{re.escape(title)}\s*(\(\d+\)|\[.*\]\s*\|?\s*\d*|Points Grade.*|\|\d+)", re.IGNORECASE)
    own = [name for name in (roster.header if roster else ()) if form.fullmatch(name.strip())]
    return own[0].strip() if len(own) == 1 else otherwise


def roster_report(path: Path, sheets: Sequence[MarkSheet], matching: Matching) -> Path:
    """Whatever did not match, and every submission that is in no import file."""
    rows: list[Sequence[object]] = [["problem", "roster_line", "name", "what_to_do"], *matching.problems]
    why = {GRADER: "the grader failed here: the mark is in no import file; grade again"}
    ungraded = "there was nothing to grade: no mark is in any import file; look at it yourself"
    without = [sheet for sheet in sheets if sheet.mark is None]
    rows += [("no verdict", None, sheet.student, why.get(sheet.status, ungraded)) for sheet in without]
    return write_rows(path, rows)


def changes(path: Path, sheets: Sequence[MarkSheet], matching: Matching | None) -> Path:
    """What regrading has changed, exercise by exercise, in points of the tests; to look through, and to sign."""
    rows: list[list[object]] = [["student", "name", "exercise", "old", "new", "why"]]
    for sheet in sheets:
        person = matching.person_of.get(sheet.page) if matching else None
        name = person.name if person else None
        rows += [[sheet.student, name, one.exercise, one.old, one.new, one.why] for one in sheet.changes]
    return write_rows(path, rows)


def _marked(
    sheets: Sequence[MarkSheet], matching: Matching | None, missing: float | None
) -> list[tuple[MarkSheet, Person | None]]:
    """The submissions whose mark may be imported, and whose they are; on request also whoever handed in nothing, once
    it is known whose all submissions are."""
    graded = [sheet for sheet in sheets if sheet.mark is not None]
    if matching is None:
        return [(sheet, None) for sheet in graded]
    return [
        *((sheet, matching.person_of[sheet.page]) for sheet in graded if sheet.page in matching.person_of),
        *((_nothing(person, sheets, missing), person) for person in matching.absent if missing is not None),
    ]


def _nothing(person: Person, sheets: Iterable[MarkSheet], mark: float) -> MarkSheet:
    most = max((sheet.max_score or 0 for sheet in sheets), default=0)
    return MarkSheet(Raw(person.shown), "", mark, most, adjustments=Adjustments(comments=("nothing handed in",)))


def _roster_notes(sheet: MarkSheet, matching: Matching | None) -> list[str]:
    if matching is None or sheet.page in matching.person_of:
        return []
    why = matching.ambiguous.get(sheet.page)
    return [f"not on the roster: {why}" if why else "not on the roster"]


def _feedback(sheet: MarkSheet) -> str:
    parts = [f"{clean(lesson.name)} {points(lesson.score)}/{points(lesson.max_score)}" for lesson in sheet.lessons]
    return "; ".join([*sheet.flags, *parts, *sheet.comments])


def _not_points(name: str) -> str:
    """Canvas takes a row that begins so for the row with the points: nobody is called that."""
    return f"({clean(name)})" if "points possible" in clean(name).lower() else name


def points(value: float) -> str:
    """With two decimals at most."""
    return f"{round(value, 2):.10g}"


def _digits(text: str) -> object:
    return int(text) if text.isascii() and text.isdigit() and not text.startswith("0") else text


def _scaled(sheet: MarkSheet, maximum: object) -> float:
    """The score on the scale of the worksheet, with two decimals."""
    assert sheet.score is not None
    try:
        top = float(str(maximum).replace(",", "."))
    except ValueError:
        return sheet.score
    if not 0 < top < 1e9 or not sheet.max_score:
        return sheet.score
    return round(sheet.score * top / sheet.max_score, 2)
