"""OUT/marks.csv: one line a person, ours and the instructor's in one table.

`points` is what the tests gave: it is written anew each time and never read. `score` is the instructor's and wins. So
are `reason`, `comment`, `regrade`, an `id` that is not ours, and any column that somebody adds theirs. The next run
reads the table, and keeps it as marks.last.csv before it writes another one. It refuses a table that it does not
understand, and leaves it alone.
"""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_json, write_text

from .. import status
from ..text import cell, clean, guarded, unguarded, whole
from .people import People, Person, csv_rows, match
from .sheets import Sheet, number, tidy

FILE, LAST, SEEN = "marks.csv", "marks.last.csv", ".marks.json"
COLUMNS = ("folder", "student", "id", "points", "score", "reason", "regrade", "flags", "comment")
YOURS = ("score", "reason", "regrade", "comment")
NOTHING = "nothing handed in"


Line = dict[str, str]
"""One line of the table, as an instructor left it: every column, those that somebody added as well."""


@dataclass
class Table:
    """What stands in the file."""

    lines: list[Line] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    """Columns that are neither ours nor asked for."""

    def regrade(self) -> dict[str, str]:
        """Folder -> what stands in the cell that asks for it."""
        return {one["folder"]: one["regrade"] for one in self.lines if one["regrade"]}


@dataclass
class Mark:
    """One line of the table that is written."""

    sheet: Sheet | None = None
    """None for who handed in nothing, and for a line whose submission is gone."""
    folder: str = ""
    person: Person | None = None
    yours: dict[str, str] = field(default_factory=dict)
    """What the instructor wrote, by column."""
    ours: str = ""
    """The id that we found."""
    looks: list[tuple[str, str]] = field(default_factory=list)
    """Kind and reason of what an instructor should look at."""
    problem: str = ""
    """Why this may be in no import file."""

    @property
    def points(self) -> float | None:
        return self.sheet.points if self.sheet else None

    @property
    def score(self) -> float | None:
        """The instructor's, which was checked when the table was read."""
        return _number(self.yours.get("score", ""))

    @property
    def mark(self) -> float | None:
        return self.points if self.score is None else tidy(self.score)

    @property
    def shown(self) -> str:
        """The name for people to read. What Canvas makes of a name, "leeann", is less than its folder says."""
        is_known = self.person and (self.person.row or not self.sheet or self.sheet.system in ("Moodle", "Gradescope"))
        return clean((self.person.name if self.person and is_known else "") or self.folder) or "(no name)"

    @property
    def flags(self) -> list[str]:
        """What to look at, in a word each."""
        unsafe = [flag for flag in self.sheet.flags if flag == status.UNSAFE] if self.sheet else []
        return list(dict.fromkeys([*unsafe, *(kind for kind, _ in self.looks)])) or ([] if self.sheet else [NOTHING])


def read(out: Path) -> Table:
    """The table of the last run; an empty one where there is none.

    Raises:
        ValueError: one sentence about what is wrong. The file stays as it is.
        OSError: it cannot be read.
    """
    path = out / FILE
    if not path.exists():
        return Table()
    (_, header), *rows = csv_rows(path)
    names = [name.strip().lower() for name in header]
    while names and not names[-1]:
        names.pop()
    missing = [name for name in COLUMNS if name not in names]
    if missing or len(set(names)) != len(names) or "" in names:
        wanted = f"expected the columns {', '.join(COLUMNS)}, each once"
        raise ValueError(f"{FILE}: {wanted}, got {clean(', '.join(header))}; {LAST} has the table before it")
    table, seen = Table(added=[name for name in names if name not in COLUMNS]), dict[str, int]()
    for place, row in rows:
        if len(row) > len(header):
            raise ValueError(
                f"{FILE}, line {place}: expected {len(header)} cells, got {len(row)}; a comma needs quotes"
            )
        values = [unguarded(value).strip() for value in [*row, *[""] * len(names)][: len(names)]]
        line = dict(zip(names, values, strict=True))
        line["id"] = whole(line["id"])
        _check(place, line, seen)
        table.lines.append(line)
    return table


def _check(place: int, line: Line, seen: dict[str, int]) -> None:
    where = f"{FILE}, line {place}"
    if line["score"] and _number(line["score"]) is None:
        raise ValueError(f"{where}: score: expected a number from 0, got {clean(line['score'])!r}")
    key = line["folder"] or f"\0{line['id']}"
    if key == "\0":
        raise ValueError(f"{where}: expected a folder or an id, got neither")
    if key in seen:
        raise ValueError(f"{where}: {clean(key.strip(chr(0)))!r} has line {seen[key]} as well: remove one of the two")
    seen[key] = place


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    return value if 0 <= value < 1e9 and not math.isnan(value) else None


def seen(out: Path) -> dict[str, Any]:
    """What the last table said of each folder, and of which code an instructor's score was."""
    try:
        found = json.loads((out / SEEN).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def decide(sheets: Sequence[Sheet], known: People, table: Table, before: Mapping[str, Any]) -> list[Mark]:
    """The lines of the next table: every submission, everybody else on the list, and no edit is lost."""
    owners = match(sheets, known)
    lines = {line["folder"]: line for line in table.lines if line["folder"]}
    marks = []
    for sheet in sheets:
        line, (person, why) = lines.pop(_in_table(sheet.folder), None), owners[sheet.page]
        mark = Mark(sheet, sheet.folder, person, ours=person.key if person else "", looks=[*_of_the_run(sheet)])
        _with(mark, line)
        _say_whose(mark, line["id"] if line else "", why, known, before.get(sheet.folder) or {})
        marks.append(mark)
    rest = [*lines.values(), *(line for line in table.lines if not line["folder"])]
    _give_back(marks, rest)
    have = {mark.person.key for mark in marks if mark.person}
    for person in known.people:
        if person.key not in have:
            own = [one for one in rest if not one["folder"] and one["id"] == person.key]
            marks.append(_with(Mark(person=person), own[0] if own else None))
            rest = [one for one in rest if one not in own]
    for line in rest:
        if any(line[name] for name in (*YOURS, *table.added)):
            marks.append(_left(line, have, known))
    _check_owners(marks, bool(known))
    for mark in marks:
        _compare(mark, before.get(mark.folder) or {})
    return marks


def _of_the_run(sheet: Sheet) -> Iterator[tuple[str, str]]:
    """Kind and reason of what an instructor should look at in a submission, whatever the table says."""
    said = " | ".join(sheet.notes[:3])
    if sheet.status == status.GRADER:
        yield status.NO_VERDICT, said or ", ".join(sheet.flags)
    elif sheet.status != status.GRADED:
        yield status.NOT_GRADED, f"{sheet.status}: {said}"
    tampered = [one.name for one in sheet.exercises if one.status == status.TAMPER]
    killed = [f"{one.name} ({one.status})" for one in sheet.exercises if one.status in status.ENDED and one.loads]
    for kind, names in ((status.TAMPER, tampered), (status.KILLED, killed)):
        if names:
            yield kind, ", ".join(names)
    for doubt in sheet.doubts:
        yield doubt.kind, doubt.text


def _in_table(text: str) -> str:
    """A folder, or an id, as it is read back from the table."""
    return unguarded(str(cell(text))).strip()


def _with(mark: Mark, line: Line | None) -> Mark:
    known = {"folder", "student", "id", "points", "flags"}
    mark.yours = {name: value for name, value in line.items() if name not in known} if line else {}
    return mark


def _say_whose(mark: Mark, given: str, why: str, known: People, before: Mapping[str, Any]) -> None:
    """An id that is not the one that we wrote is the instructor's."""
    if given and given not in (_in_table(before.get("id") or ""), _in_table(mark.ours)):
        mark.person = known.named(given) or Person(name=mark.sheet.name if mark.sheet else "", id=given)
        why = f"the id {clean(given)} of {FILE} is on no line of the list" if known and not mark.person.row else ""
    if why:
        mark.looks.append((status.OWNER, f"{why}; write the right id into {FILE}"))


def _compare(mark: Mark, before: Mapping[str, Any]) -> None:
    """A score with the points of the tests, and with the code that it was given for."""
    if mark.score is None:
        return
    score, points = number(mark.score), "none" if mark.points is None else number(mark.points)
    said = clean(mark.yours.get("reason") or "no reason given")
    mark.looks.append((status.GIVEN, f"{score}, points of the tests: {points}; {said}"))
    if mark.sheet and mark.score > mark.sheet.all_points.most > 0:
        mark.looks.append((status.GIVEN, f"{score} of {number(mark.sheet.all_points.most)}: more than there are"))
    if mark.sheet and _code_of(mark, before) != mark.sheet.code:
        mark.looks.append((status.CONFLICT, f"the code has changed since the score {score} was given"))


def _code_of(mark: Mark, before: Mapping[str, Any]) -> str:
    """The code that the score was given for: that of the table in which it was new."""
    assert mark.sheet
    is_known = [mark.yours.get("score", ""), mark.yours.get("reason", "")] == before.get("edit")
    return str(before.get("edit_code" if is_known else "code", mark.sheet.code))


def _give_back(marks: Sequence[Mark], rest: list[Line]) -> None:
    """A line whose folder nobody has any more is that of who has its id: a spreadsheet may have changed the name, or
    somebody has handed in who had not."""
    for mark in marks:
        fits = [line for line in rest if mark.person and not mark.yours and line["id"] == mark.person.key]
        if len(fits) == 1:
            _with(mark, fits[0])
            rest.remove(fits[0])


def _left(line: Line, have: set[str], known: People) -> Mark:
    """Somebody has written into a line whose submission is gone: it stays."""
    person = known.named(line["id"]) or Person(name=line["student"], id=line["id"])
    mark = _with(Mark(folder=line["folder"], person=person), line)
    if line["folder"]:
        mark.looks.append((status.NOT_FOUND, "the submission of this line is not in this run; what you wrote is kept"))
    if line["id"] in have or not line["id"]:
        mark.problem = "nobody's line" if not line["id"] else "another line has its id"
    return mark


def _check_owners(marks: Iterable[Mark], has_list: bool) -> None:
    """Of two lines with one id none is imported; nor is one that is nobody's, where a list says who there is."""
    lines: dict[str, list[Mark]] = {}
    for mark in marks:
        if has_list and not (mark.person and mark.person.row):
            mark.problem = mark.problem or "nobody's yet"
        elif mark.person and not mark.problem:
            lines.setdefault(mark.person.key, []).append(mark)
    for key, found in lines.items():
        for mark in found if len(found) > 1 and key else ():
            mark.problem = "another line has its id"
            mark.looks.append(
                (status.OWNER, f"{len(found)} lines have the id {clean(key)}: remove those that do not count")
            )


def write(
    out: Path, marks: Sequence[Mark], added: Sequence[str], before: Mapping[str, Any], regraded: Mapping[str, str]
) -> Path:
    """The table, with a mark for spreadsheets that it is UTF-8, and what the next run has to know of it.

    Args:
        regraded: by folder, what this run has graded again: it is done.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *map(guarded, added)])
    for mark in marks:
        yours = {**dict.fromkeys((*YOURS, *added), ""), **mark.yours}
        if mark.sheet and yours["regrade"] == regraded.get(_in_table(mark.folder)):
            yours["regrade"] = ""
        safe = {name: guarded(value) for name, value in yours.items()}
        ours = [cell(mark.folder), cell(mark.shown), cell(mark.person.key if mark.person else ""), cell(mark.points)]
        flags = cell(" | ".join(mark.flags))
        row = [*ours, *(safe[name] for name in YOURS[:3]), flags, safe["comment"], *(safe[name] for name in added)]
        writer.writerow(row)
    path, new = out / FILE, "\ufeff" + text.getvalue()
    if path.exists() and path.read_bytes() != new.encode():
        shutil.copyfile(path, out / LAST)  # So that there is a table at any moment, even on a full disk.
    write_text(path, new, lasting=True)
    now = {mark.folder: _state(mark, before.get(mark.folder) or {}) for mark in marks if mark.sheet}
    write_json(out / SEEN, {**before, **now})
    return path


def _state(mark: Mark, before: Mapping[str, Any]) -> dict[str, Any]:
    assert mark.sheet
    edit = [mark.yours.get("score", ""), mark.yours.get("reason", "")]
    found = {"id": mark.ours, "code": mark.sheet.code}
    return {**found, "edit": edit, "edit_code": _code_of(mark, before)} if any(edit) else found
