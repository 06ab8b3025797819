"""Everything that is written from OUT/results/*.json: tables, files for other systems, pages (see ../README.md)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..marking import Assignment, Row, Secret
    from .marks import Class, MarkSheet, Override


@dataclass
class Reports:
    """What was written."""

    sheets: Sequence[MarkSheet]
    problems: Sequence[str]
    """What could not be decided, in a sentence each."""
    files: list[Path]


def write_reports(
    out: Path,
    rows: Sequence[Row],
    submissions: Path | None,
    roster_file: Path | None = None,
    assignment: Assignment | None = None,
    overrides: Sequence[Override] = (),
    secret: Secret | None = None,
) -> Reports:
    """Write all reports of a batch.

    Args:
        out: the folder with `results/`.
        rows: one per submission of this batch; its `file_name` is that of the results file, without ".json". What else
            is in `results/` is of an older batch and is left out.
        submissions: the graded folder, in which similarity is looked at; without it nobody is compared.
        roster_file: CSV that says who is who (see roster.py); what is wrong with it is in roster_report.csv.
        assignment: what counts (default: all exercises, with the points of the tests).
        overrides: the instructor's.
        secret: of the grading, by which a results file that was edited since is known.

    Raises:
        ValueError: the roster lacks a column that the assignment names.
    """
    from ..marking import everything

    assignment = assignment or everything()
    adjusted = marks_of(out, rows, roster_file, assignment, overrides, secret)
    written = [*_tables(out, adjusted, assignment), *_pages(out, adjusted, assignment, submissions)]
    _remove_old(out, set(written))
    return Reports(adjusted.sheets, adjusted.problems, written)


def marks_of(
    out: Path,
    rows: Sequence[Row],
    roster_file: Path | None,
    assignment: Assignment,
    overrides: Sequence[Override],
    secret: Secret | None,
) -> Class:
    """The marks of a batch; the arguments are those of `write_reports`."""
    # Imported here, since gradescope and classroom are also run as programs of their own.
    from .marks import adjustments, roster, sheets

    people = roster.read(roster_file) if roster_file else None
    found = sheets.load(out, rows, secret)
    found = roster.of_members(found, people) if people else found
    matching = roster.match(found, people, bool(assignment.attempts)) if people else None
    adjusted = adjustments.apply(adjustments.Class(found, people, matching), assignment, overrides)
    return replace(adjusted, sheets=sheets.in_order(adjusted.sheets))


def _tables(out: Path, adjusted: Class, assignment: Assignment) -> list[Path]:
    """What other systems read."""
    from .formats import gradescope, junit
    from .marks import tables

    found, people, matching, title = adjusted.sheets, adjusted.roster, adjusted.matching, assignment.title
    written = [
        tables.gradebook(out / "gradebook.csv", found, matching),
        tables.canvas(out / "canvas.csv", found, matching, tables.own_column(people, title, title)),
        tables.moodle(out / "moodle.csv", found, matching, title),
        *tables.of_systems(out, found, people, matching, title),
        tables.changes(out / "changes.csv", found, matching),
    ]
    if people and matching:
        written.append(tables.roster_report(out / "roster_report.csv", found, matching))
        if people.is_moodle_worksheet:
            written.append(tables.moodle_worksheet(out / "moodle_worksheet.csv", found, people, matching))
    written += [gradescope.write(out / "gradescope", sheet) for sheet in found]
    return [*written, *(junit.write(out / "junit", sheet) for sheet in found)]


def _pages(out: Path, adjusted: Class, assignment: Assignment, submissions: Path | None) -> list[Path]:
    """What people read."""
    from .marks import tables
    from .pages import analysis, feedback, pages, similarity

    found = adjusted.sheets
    similar = similarity.Report(notes=() if submissions else ("Nobody was compared: SUBMISSIONS was not given.",))
    if submissions and len(found) > 1:
        similar = similarity.look(submissions, {sheet.student: sheet.shown for sheet in found})
    problems: list[tuple[str, int | None, str, str]]
    problems = [("overrides", None, "", problem) for problem in adjusted.problems]
    problems += adjusted.matching.problems if adjusted.matching else []
    written = [tables.write_rows(out / "similarity.csv", similarity.rows(similar))]
    written += [pages.write_student(out / "report" / "students", sheet, assignment.title) for sheet in found]
    written += [pages.write_code(out / "report" / "code", sheet, assignment.title) for sheet in found]
    unknown = _unknown(adjusted)
    urgent = analysis.looks(found, unknown, adjusted.problems, assignment)
    written += pages.write_class(out / "report", found, similar, problems, assignment, urgent)
    return written + feedback.write(out / "feedback", found, assignment.title)


def _unknown(adjusted: Class) -> dict[str, str]:
    """Page -> why the roster has nobody for it."""
    if not adjusted.matching:
        return {}
    known, why = adjusted.matching.person_of, adjusted.matching.ambiguous
    pages = [sheet.page for sheet in adjusted.sheets if sheet.page not in known]
    return {page: why.get(page, "no line of the roster fits it") for page in pages}


def _remove_old(out: Path, written: set[Path]) -> None:
    """Remove the pages of an earlier batch: they must not be taken for this one's. Nothing else is touched."""
    for folder, ending in (
        ("gradescope", "json"),
        ("junit", "xml"),
        ("report/students", "html"),
        ("report/code", "html"),
    ):
        for path in (out / folder).glob(f"*.{ending}"):
            if path not in written and re.search(rf"-[0-9a-f]{{8}}\.{ending}$", path.name):
                path.unlink(missing_ok=True)
