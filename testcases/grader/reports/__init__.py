"""Everything that is written from OUT/results/*.json: tables, files for other systems, pages.

- gradebook.csv: one row for every submission, and one for everybody on the roster who handed in nothing
- canvas.csv: Canvas (Gradebook, Import)
- moodle.csv: Moodle (Grades, Import)
- moodle_worksheet.csv: with a Moodle grading worksheet as the roster, that worksheet filled in
- roster_report.csv: with a roster, whatever did not match
- similarity.csv: pairs of submissions that resemble each other
- gradescope/*.json, junit/*.xml: one a submission
- report/index.html: the class, for the instructor
- report/students/*.html: a page for each student, to hand out
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testcases.grader.batch import Row


def write_reports(
    out: Path,
    rows: Sequence[Row],
    submissions: Path,
    roster_file: Path | None = None,
    title: str = "PPO by Hand",
) -> list[Path]:
    """Write all reports of a batch, and return the files.

    Args:
        out: the folder with `results/`.
        rows: one a submission of this batch; its `file_name` is that of the results file, without ".json". What else
            is in `results/` is of an older batch and is left out.
        submissions: the graded folder, in which similarity is looked at.
        roster_file: CSV that says who is who (see roster.py); what is wrong with it is in roster_report.csv.
        title: of the assignment, in the Canvas and Moodle files.
    """
    # Imported here, since gradescope and classroom are also run as programs of their own.
    from . import gradescope, junit, pages, roster, sheets, similarity, tables

    found = sheets.load(out, rows)
    people = roster.read(roster_file) if roster_file else None
    matching = roster.match(found, people) if people else None
    similar = similarity.look(submissions) if len(found) > 1 else similarity.Report()
    written = [
        tables.gradebook(out / "gradebook.csv", found, matching),
        tables.canvas(out / "canvas.csv", found, matching, title),
        tables.moodle(out / "moodle.csv", found, matching, title),
        tables.write_rows(out / "similarity.csv", similarity.rows(similar)),
    ]
    if people and matching:
        written.append(tables.roster_report(out / "roster_report.csv", found, matching))
        if people.is_moodle_worksheet:
            written.append(tables.moodle_worksheet(out / "moodle_worksheet.csv", found, people, matching))
    written += [gradescope.write(out / "gradescope", sheet) for sheet in found]
    written += [junit.write(out / "junit", sheet) for sheet in found]
    written += [pages.write_student(out / "report" / "students", sheet) for sheet in found]
    written += pages.write_class(out / "report", found, similar, matching.problems if matching else ())
    _remove_old(out, set(written))
    return written


def _remove_old(out: Path, written: set[Path]) -> None:
    """Remove the pages of an earlier batch: they must not be taken for this one's. Nothing else is touched."""
    for folder, ending in (("gradescope", "json"), ("junit", "xml"), ("report/students", "html")):
        for path in (out / folder).glob(f"*.{ending}"):
            if path not in written and re.search(rf"-[0-9a-f]{{8}}\.{ending}$", path.name):
                path.unlink(missing_ok=True)
