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
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_json, write_text

from .. import status
from ..text import clean, guarded, name_of, unguarded
from .people import People, Person, csv_rows, match
from .sheets import Sheet, number, tidy

FILE, LAST, SEEN = "marks.csv", "marks.last.csv", ".marks.json"
COLUMNS = ("folder", "student", "id", "points", "score", "reason", "regrade", "flags", "comment")
OURS = ("folder", "student", "id", "points", "flags")
NOTHING = "nothing handed in"


Line = dict[str, str]
"""One line of the table, as an instructor left it: every column, those that somebody added as well."""


@dataclass
class Mark:
    """One line of the table that is written."""

    sheet: Sheet | None = None
    """None for who handed in nothing, and for a line whose submission is gone."""
    folder: str = ""
    person: Person = Person()
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
        """The name for people to read."""
        return name_of(self.person.name or self.folder) or "(no name)"

    def state(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """What the next run has to know: our id, the code, and of which code an instructor's score is, which is that of
        the table in which it was new."""
        assert self.sheet
        edit = [self.yours.get("score", ""), self.yours.get("reason", "")]
        edit_code = before.get("edit_code" if edit == before.get("edit") else "code", self.sheet.code)
        return {"id": name_of(self.ours), "code": self.sheet.code, "edit": edit, "edit_code": edit_code}

    @property
    def flags(self) -> list[str]:
        """What to look at, in a word each."""
        unsafe = [flag for flag in self.sheet.flags if flag == status.UNSAFE] if self.sheet else []
        return list(dict.fromkeys([*unsafe, *(kind for kind, _ in self.looks)])) or ([] if self.sheet else [NOTHING])


def read(out: Path) -> list[Line]:
    """The lines of the last run's table; none where there is no table.

    Raises:
        ValueError: one sentence about what is wrong. The file stays as it is.
        OSError: it cannot be read.
    """
    path = out / FILE
    if not path.exists():
        return []
    (_, header), *rows = csv_rows(path)
    names = [name.strip().lower() for name in header]
    if not set(COLUMNS) <= set(names) or len(set(names)) != len(names):
        wanted = f"expected the columns {', '.join(COLUMNS)}, each once"
        raise ValueError(f"{FILE}: {wanted}, got {clean(', '.join(header))}; {LAST} has the table before it")
    lines, seen = list[Line](), dict[tuple[str, str], int]()
    for place, row in rows:
        where = f"{FILE}, line {place}"
        if len(row) > len(header):
            raise ValueError(f"{where}: expected {len(header)} cells, got {len(row)}; a comma needs quotes")
        line = dict(zip(names, [unguarded(value).strip() for value in row], strict=True))
        if line["score"] and _number(line["score"]) is None:
            wanted = f"a number from 0{', without a comma before three digits' if ',' in line['score'] else ''}"
            raise ValueError(f"{where}: score: expected {wanted}, got {clean(line['score'])!r}")
        column = "folder" if line["folder"] else "id"
        if not line[column]:
            raise ValueError(f"{where}: expected a folder or an id, got neither")
        # Two people who handed in nothing may have one name, and a folder the name of somebody's id.
        key = column, line[column]
        if (column == "folder" or _is_edited(line)) and seen.setdefault(key, place) != place:
            raise ValueError(f"{where}: {clean(key[1])!r} has line {seen[key]} as well: remove one of the two")
        lines.append(line)
    return lines


def _is_edited(line: Line) -> bool:
    """Whether an instructor has written something into it, apart from an id."""
    return any(value for name, value in line.items() if name not in OURS)


def _number(text: str) -> float | None:
    if re.fullmatch(r"[1-9]\d{0,2},\d{3}", text):
        return None  # To some people 1,000 is a thousand, and to others one.
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    return value if 0 <= value < 1e9 and not math.isnan(value) else None


def seen(out: Path) -> dict[str, Any]:
    """What the last table said of each folder, and of which code an instructor's score was."""
    try:
        found = json.loads((out / SEEN).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return {name: one for name, one in found.items() if isinstance(one, dict)} if isinstance(found, dict) else {}


def decide(sheets: Sequence[Sheet], known: People, lines: Sequence[Line], before: Mapping[str, Any]) -> list[Mark]:
    """The lines of the next table: every submission, everybody else on the list, and no edit is lost."""
    owners, rest, marks = match(sheets, known), [*lines], []
    for sheet in sheets:
        person, why = owners[sheet.page]
        mark = Mark(sheet, sheet.folder, person, ours=person.key, looks=[*_of_the_run(sheet)])
        line = _take(mark, rest, "folder", sheet.folder)
        _say_whose(mark, line["id"] if line else "", why, known, before.get(sheet.folder) or {})
        marks.append(mark)
    rest = [line for line in rest if _is_edited(line)]
    have = {mark.person.key for mark in marks}
    marks += [Mark(person=person) for person in known.people if person.key not in have]
    for mark in marks:
        # A spreadsheet may have changed the name of a folder, or somebody has handed in who had not, or no more.
        if mark.person.key and not mark.yours:
            _take(mark, rest, "id", mark.person.key)
    for line in [*rest]:
        mark = Mark(person=known.named(line["id"]) or Person(name=line["student"], id=line["id"]))
        _take(mark, rest, "folder", line["folder"])
        mark.problem = "" if line["id"] else "nobody's line"
        marks.append(mark)
    for mark in marks:
        if mark.folder and not mark.sheet:
            why = "the submission of this line is not in this run; what you wrote is kept"
            mark.looks.append((status.NOT_FOUND, why))
        was = before.get(mark.folder) or {}
        if not mark.yours and was.get("edit", [""])[0]:
            why = f"its line is gone from {FILE}, and with it the score {clean(was['edit'][0])}"
            mark.looks.append((status.CONFLICT, f"{why}; enter it again if it counts"))
        _compare(mark, was)
    _check_owners(marks, bool(known))
    return marks


def _take(mark: Mark, lines: list[Line], column: str, value: str) -> Line | None:
    """Give a mark the first of these lines that has this in a column; it is nobody else's then."""
    line = next((line for line in lines if line[column] == value), None)
    if line:
        lines.remove(line)
        mark.folder = mark.folder or line["folder"]
        mark.yours = {name: value for name, value in line.items() if name not in OURS}
    return line


def _of_the_run(sheet: Sheet) -> Iterator[tuple[str, str]]:
    """Kind and reason of what an instructor should look at in a submission, whatever the table says."""
    said = " | ".join(sheet.notes[:3])
    if sheet.status == status.GRADER:
        yield status.NO_VERDICT, said or ", ".join(sheet.flags)
    elif sheet.status != status.GRADED:
        yield status.NOT_GRADED, f"{sheet.status}: {said}"
    tampered = [one.name for one in sheet.exercises if one.status == status.TAMPER]
    ended = *status.ENDED, status.NOT_ASKED
    killed = [f"{one.name} ({one.status})" for one in sheet.exercises if one.status in ended and one.loads]
    for kind, names in ((status.TAMPER, tampered), (status.KILLED, killed)):
        if names:
            yield kind, ", ".join(names)
    for doubt in sheet.doubts:
        yield doubt.kind, doubt.text


def _say_whose(mark: Mark, given: str, why: str, known: People, before: Mapping[str, Any]) -> None:
    """An id that is not the one that we wrote is the instructor's."""
    if given and given not in (before.get("id"), mark.ours):
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
    if mark.sheet and mark.state(before)["edit_code"] != mark.sheet.code:
        mark.looks.append((status.CONFLICT, f"the code has changed since the score {score} was given"))


def _check_owners(marks: Iterable[Mark], has_list: bool) -> None:
    """Of two lines with one id none is imported; nor is one that is nobody's, where a list says who there is."""
    lines: dict[str, list[Mark]] = {}
    for mark in marks:
        if has_list and not mark.person.row:
            mark.problem = "nobody's yet"
        elif mark.person.key and not mark.problem:
            lines.setdefault(mark.person.key, []).append(mark)
    for key, found in lines.items():
        for mark in found if len(found) > 1 else ():
            mark.problem = "another line has its id"
            why = f"{len(found)} lines have the id {clean(key)}: remove those that do not count"
            mark.looks.append((status.OWNER, why))


def write(out: Path, marks: Sequence[Mark], before: Mapping[str, Any], regraded: Mapping[str, str]) -> None:
    """The table, with a mark for spreadsheets that it is UTF-8, and what the next run has to know of it.

    Args:
        regraded: by folder, what this run has graded again: it is done.
    """
    text = io.StringIO()
    columns = dict.fromkeys([*COLUMNS, *(name for mark in marks for name in mark.yours)])
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writerow({name: guarded(name) for name in columns})
    for mark in marks:
        row = {
            **mark.yours,
            "folder": mark.folder,
            "student": mark.shown,
            "id": name_of(mark.person.key),
            "points": "" if mark.points is None else number(mark.points),
            "flags": " | ".join(mark.flags),
        }
        if mark.sheet and row.get("regrade") == regraded.get(mark.folder):
            row["regrade"] = ""
        writer.writerow({name: guarded(value) for name, value in row.items()})
    path, new = out / FILE, "\ufeff" + text.getvalue()
    if path.exists() and path.read_bytes() != new.encode():
        shutil.copyfile(path, out / LAST)  # So that there is a table at any moment, even on a full disk.
    write_text(path, new, lasting=True)
    now = {mark.folder: mark.state(before.get(mark.folder) or {}) for mark in marks if mark.sheet}
    write_json(out / SEEN, {**before, **now})
