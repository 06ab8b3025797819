"""What `make check` prints. All text from students is plain text here: no markup, no control characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from ..intake import printable
from ..reports.marks import points

if TYPE_CHECKING:
    from ..marking import Assignment
    from ..reports.marks import MarkSheet

STYLES = {"passed": "green", "not-started": "cyan", "blocked": "yellow", "missing": "yellow"}


def exercises(result: dict[str, Any], assignment: Assignment) -> Table:
    """One submission: lesson, exercise, points of the assignment, status, likely cause."""
    found = {
        (lesson, name): one for lesson, all_of in result["lessons"].items() for name, one in all_of["exercises"].items()
    }
    factors = assignment.factors({exercise: one["max_score"] for exercise, one in found.items()})
    totals = [sum(one[key] * factors[exercise] for exercise, one in found.items()) for key in ("score", "max_score")]
    table = Table(title=Text(printable(result["student"])))
    for heading in ("lesson", "exercise", "points", "status", "likely cause"):
        table.add_column(heading, overflow="fold")
    for whole, found_in in result["lessons"].items():
        lesson = whole
        for name, exercise in found_in["exercises"].items():
            cause = exercise["likely_cause"]
            score = "/".join(points(exercise[key] * factors[whole, name]) for key in ("score", "max_score"))
            status = Text(exercise["status"], STYLES.get(exercise["status"], "red"))
            table.add_row(lesson, name, score, status, Text(f"{cause['name']}: {cause['why']}" if cause else ""))
            lesson = ""
        table.add_section()
    table.add_row("", "", "/".join(map(points, totals)), "", "")
    return table


def gradebook(sheets: Sequence[MarkSheet]) -> Table:
    """A batch: student, points, status, notes."""
    table = Table()
    for heading in ("student", "points", "status", "notes"):
        table.add_column(heading, overflow="fold")
    for sheet in sheets:
        score = "" if sheet.mark is None else points(sheet.mark)
        notes = Text("\n".join(sheet.notes[:3]) + ("\n..." if len(sheet.notes) > 3 else ""))
        table.add_row(Text(sheet.shown), f"{score}/{points(sheet.max_score or 0)}", Text(sheet.status), notes)
    return table
