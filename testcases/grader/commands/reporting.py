"""The end of a run: reports and the table. What they need from the instructor is read before anything starts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..marking import Assignment, Row
from ..reports.marks import overrides
from ..status import NOT_SANDBOXED

OUT = "runs/check"


def add_assignment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--assignment", default="", help="TOML file that says what counts")
    parser.add_argument("--lessons", default="", help='or the lessons, such as "1 3 4"')
    parser.add_argument("--points", default="", help="and the points of the whole")
    parser.add_argument("--missing", default="", help="0: the mark of whoever is on the roster and handed in nothing")


def refuse(text: str) -> int:
    print(f"error: {text}", file=sys.stderr)
    return 2


@dataclass(frozen=True)
class Given:
    """What the instructor gave besides submissions."""

    out: Path
    roster: Path | None
    assignment: Assignment
    overrides: Sequence[overrides.Override] = ()
    missing: float | None = None


def given_for(out: Path, roster_file: str, assignment: Assignment, missing: str = "") -> Given:
    """
    Raises:
        ValueError, OSError: something in it is wrong: better to know that before an hour of grading than after it.
    """
    if roster_file and not Path(roster_file).is_file():
        raise ValueError(f"ROSTER: expected a CSV file, and there is none at {roster_file!r}")
    if missing not in ("", "0"):
        raise ValueError(
            f"MISSING: expected 0, the mark of whoever is on the roster and handed in nothing, got {missing!r}"
        )
    if missing and not roster_file:
        raise ValueError("MISSING: expected a ROSTER with it, which says who is missing, got none")
    place = Path(roster_file) if roster_file else None
    given = overrides.read(out, assignment.names)
    return Given(out, place, assignment, given, float(missing) if missing else None)


def report(given: Given, rows: Sequence[Row], kind: str) -> int:
    """Write all reports and show the marks; 1 where the grader failed, or where something could not be decided."""
    from rich.console import Console

    from ..reports import write_reports
    from . import tables

    out = given.out
    found = write_reports(out, rows, given.roster, given.assignment, given.overrides, given.missing)
    overrides.offer(out)
    console = Console(highlight=False)
    if kind == "none":
        console.print(NOT_SANDBOXED, style="bold red", markup=False)
    console.print(tables.gradebook(found.sheets))
    for problem in found.problems:
        console.print(problem, style="red", markup=False)
    console.print(f"{len(rows)} in {out / 'gradebook.csv'}; the class: {out / 'report' / 'index.html'}", markup=False)
    return int(bool(found.problems) or any(row.status == "grader-error" for row in rows))
