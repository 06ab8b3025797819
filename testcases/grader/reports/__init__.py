"""Everything that is written from OUT/results/*.json: the table, files for other systems, pages (see ../README.md)."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from ..intake.exports import HandIn
from ..marking.assignment import Assignment
from ..status import UNWRITTEN
from ..text import clean
from . import imports, pages, sheets, table
from .people import People


def write_reports(
    out: Path, hand_ins: Sequence[HandIn], assignment: Assignment, known: People, regraded: dict[str, str]
) -> tuple[Sequence[table.Mark], list[str]]:
    """Write all reports of a batch. Whatever one submission makes of its own, the others have theirs.

    Returns the lines of the table, and what could not be written, in a sentence each.

    Args:
        out: the folder with `results/`.
        hand_ins: the submissions of this batch; what else is in `results/` is of an older one and is left out.
        assignment: what counts.
        known: the list of the class.
        regraded: by folder, what this run has graded again because the table asked for it.

    Raises:
        ValueError: somebody has made of marks.csv what cannot be read.
        OSError: something cannot be written.
    """
    found = [sheets.read(out / "results" / f"{one.file_name}.json", one.student, assignment) for one in hand_ins]
    found.sort(key=lambda sheet: (sheet.folder.casefold(), sheet.folder))
    # It is read again, because somebody may have written into it while the others were graded.
    lines, before = table.read(out), table.seen(out)
    marks = table.decide(found, known, lines, before)
    problems = list[str]()
    for old in (out / "results").glob("*.json"):  # Of an earlier batch, perhaps. What is not ours is left alone.
        (out / "report" / "students" / f"{old.stem}.html").unlink(missing_ok=True)
        shutil.rmtree(out / "code" / old.stem, ignore_errors=True)
    for mark in marks:
        try:
            if mark.sheet:
                pages.write_files(out / "code", mark.sheet)
                pages.write_student(out / "report" / "students", mark, assignment.title)
        except OSError:
            raise  # The disk is everybody's.
        except Exception as error:
            why = clean(f"its page could not be written: {type(error).__name__}: {error}")
            mark.looks.append((UNWRITTEN, why))
            problems.append(f"{mark.shown}: {why}")
    imports.canvas(out / "canvas.csv", marks, known, assignment)
    imports.moodle(out / "moodle.csv", marks, known)
    pages.write_class(out / "report" / "index.html", marks, assignment)
    table.write(out, marks, before, regraded)
    return marks, problems
