"""Everything that is written from OUT/results/*.json: tables, files for other systems, pages (see ../README.md)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..marking import Assignment, Row
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
    roster_file: Path | None = None,
    assignment: Assignment | None = None,
    overrides: Sequence[Override] = (),
    missing: float | None = None,
) -> Reports:
    """Write all reports of a batch.

    Args:
        out: the folder with `results/`.
        rows: one per submission of this batch; its `file_name` is that of the results file, without ".json". What else
            is in `results/` is of an older batch and is left out.
        roster_file: CSV that says who is who (see roster.py); what is wrong with it is in roster_report.csv.
        assignment: what counts (default: all exercises, with the points of the tests).
        overrides: the instructor's.
        missing: the mark of whoever is on the roster and handed in nothing; None: they are in no file for import.
    """
    from ..marking import everything

    assignment = assignment or everything()
    adjusted = marks_of(out, rows, roster_file, assignment, overrides)
    each = _Each()
    written = [*_tables(out, adjusted, assignment, each, missing), *_pages(out, adjusted, assignment, each)]
    written += each.written
    _remove_old(out, set(written))
    names = {sheet.page: sheet.shown for sheet in adjusted.sheets}
    failed = [f"{names[page]}: {why}" for page, why in each.failed.items()]
    return Reports(adjusted.sheets, [*adjusted.problems, *failed], written)


@dataclass
class _Each:
    """Writes what is about one submission: whatever that makes of it, the others have theirs."""

    written: list[Path] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Page of a submission -> what could not be written of it, and why."""

    def write(self, what: str, sheet: MarkSheet, work: Callable[[], Path | list[Path]]) -> None:
        try:
            done = work()
        except Exception as error:
            from .marks import clean

            told = clean(f"{what} could not be written: {type(error).__name__}: {error}")
            self.failed[sheet.page] = "; ".join(filter(None, [self.failed.get(sheet.page), told]))
        else:
            self.written += done if isinstance(done, list) else [done]


def marks_of(
    out: Path, rows: Sequence[Row], roster_file: Path | None, assignment: Assignment, overrides: Sequence[Override]
) -> Class:
    """The marks of a batch; the arguments are those of `write_reports`."""
    # Imported here, since gradescope and classroom are also run as programs of their own.
    from .marks import adjustments, roster, sheets

    people = roster.read(roster_file) if roster_file else None
    found = sheets.load(out, rows)
    matching = roster.match(found, people) if people else None
    adjusted = adjustments.apply(adjustments.Class(found, people, matching), assignment, overrides)
    return replace(adjusted, sheets=sheets.in_order(adjusted.sheets))


def _tables(out: Path, adjusted: Class, assignment: Assignment, each: _Each, missing: float | None) -> list[Path]:
    """What other systems read."""
    from .formats import gradescope
    from .marks import tables

    found, people, matching, title = adjusted.sheets, adjusted.roster, adjusted.matching, assignment.title
    written = [
        tables.gradebook(out / "gradebook.csv", found, matching, missing),
        tables.canvas(out / "canvas.csv", found, matching, tables.own_column(people, title, title), missing),
        tables.moodle(out / "moodle.csv", found, matching, title, missing),
        tables.changes(out / "changes.csv", found, matching),
    ]
    if people and matching:
        written.append(tables.roster_report(out / "roster_report.csv", found, matching))
        if people.is_moodle_worksheet:
            written.append(tables.moodle_worksheet(out / "moodle_worksheet.csv", found, people, matching, missing))
    for sheet in found:
        each.write("gradescope", sheet, partial(gradescope.write, out / "gradescope", sheet))
    return written


def _pages(out: Path, adjusted: Class, assignment: Assignment, each: _Each) -> list[Path]:
    """What people read."""
    from .pages import analysis, code, feedback, pages

    found = adjusted.sheets
    problems: list[tuple[str, int | None, str, str]]
    problems = [("overrides", None, "", problem) for problem in adjusted.problems]
    problems += adjusted.matching.problems if adjusted.matching else []
    written: list[Path] = []
    report, title = out / "report", assignment.title
    for sheet in found:
        each.write("its page", sheet, partial(pages.write_student, report / "students", sheet, title))
        each.write("its code", sheet, partial(pages.write_code, report / "code", sheet, title))
    shutil.rmtree(out / "code", ignore_errors=True)
    for sheet in found:
        each.write("its files", sheet, partial(code.write_files, out / "code", sheet))
    returned = feedback.Feedback(out / "feedback", found, title)
    for sheet in found:
        each.write("its feedback", sheet, partial(returned.add, sheet))
    written += returned.moodle()
    urgent = analysis.looks(found, _unknown(adjusted), adjusted.problems, each.failed)
    return [*written, pages.write_class(report, found, problems, assignment, urgent)]


def _unknown(adjusted: Class) -> dict[str, str]:
    """Page -> why the roster has nobody for it."""
    if not adjusted.matching:
        return {}
    known, why = adjusted.matching.person_of, adjusted.matching.ambiguous
    pages = [sheet.page for sheet in adjusted.sheets if sheet.page not in known]
    return {page: why.get(page, "no line of the roster fits it") for page in pages}


def _remove_old(out: Path, written: set[Path]) -> None:
    """Remove the pages of an earlier batch: they must not be taken for this one's. Nothing else is touched."""
    for folder, ending in (("gradescope", "json"), ("report/students", "html"), ("report/code", "html")):
        for path in (out / folder).glob(f"*.{ending}"):
            if path not in written and re.search(rf"-[0-9a-f]{{8}}\.{ending}$", path.name):
                path.unlink(missing_ok=True)
