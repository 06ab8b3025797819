"""make check DRY=1: who was found, in which format, and what would be graded. It grades nothing and writes nothing."""

from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from testcases.harness.catalog import TUTORIAL

from ..intake import Submission, course_files, find_outside, from_folder, read_submission
from ..reports.marks import Class, MarkSheet, Raw, roster
from .reporting import Given


def show(folder: Path | None, given: Given) -> int:
    """Raises ValueError, OSError: it is no folder of submissions."""
    console = Console(highlight=False)
    console.print(_assignment(given))
    if folder is None:
        found = [from_folder(TUTORIAL, "tutorial")]
    else:
        found = [read_submission(one) for one in find_outside(folder, given.out)]
    known = who_is_who(found, given)
    console.print(_table(found, known, given))
    formats = Counter(one.system or "folder" for one in found)
    ungraded = sum(one.status != "graded" for one in found)
    told = ", ".join(f"{count} {name}" for name, count in formats.most_common())
    console.print(
        f"{len(found)} found ({told or 'none'}), {len(found) - ungraded} to grade, {ungraded} not to be graded"
    )
    for problem in _unmatched(known):
        console.print(problem, markup=False)
    console.print("DRY: nothing was graded, and nothing was written")
    return 0


def _assignment(given: Given) -> Text:
    assignment = given.assignment
    lessons = ", ".join(assignment.lessons)
    lines = [f"{assignment.title}: {len(assignment.exercises)} exercises, {assignment.total:g} points: {lessons}"]
    if assignment.weights:
        lines.append("weights: " + ", ".join(f"{name} {weight:g}" for name, weight in assignment.weights.items()))
    return Text("\n".join(lines))


def _table(found: list[Submission], known: Class, given: Given) -> Table:
    table = Table()
    for heading in ("student", "format", "graded part", "files", "notes"):
        table.add_column(heading, overflow="fold")
    lessons = given.assignment.lessons
    for one, sheet in zip(found, known.sheets, strict=True):
        files = [path for path in course_files() if path in one.files and path[: path.index("/")] in lessons]
        part = one.folder if one.status == "graded" else one.status
        notes = "\n".join(one.notes[:3])
        table.add_row(*map(Text, (sheet.shown, one.system, part, str(len(files)), notes)))
    return table


def who_is_who(found: list[Submission], given: Given) -> Class:
    """As far as the roster tells."""
    raw = [{"aliases": tuple(map(Raw, one.aliases)), "exported": tuple(map(Raw, one.exported))} for one in found]
    sheets = [
        MarkSheet(Raw(one.student), one.file_name, 0, 0, **{**one.told, **names})
        for one, names in zip(found, raw, strict=True)
    ]
    people = roster.read(given.roster) if given.roster else None
    if not people:
        return Class(sheets)
    return Class(sheets, people, roster.match(sheets, people))


def _unmatched(known: Class) -> list[str]:
    """Who is on the roster without a submission, and the other way round."""
    if not known.matching:
        return []
    people = len(known.roster.people) if known.roster else 0
    matched = f"{len(known.matching.person_of)} of the {people} people on the roster have a submission"
    return [matched, *(f"{kind}: {name}: {why}" for kind, _, name, why in known.matching.problems)]
