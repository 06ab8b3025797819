"""Whose a submission is: by what the export itself says, and by the platform's list of the class, where there is one.

The list is what a platform exports: Canvas's gradebook, Moodle's grading worksheet, GitHub Classroom's roster, or any
CSV file with such columns. It is read once and kept in OUT. Nobody is found by a guess: what fits two people fits
nobody, and an instructor writes the `id` into marks.csv.
"""

from __future__ import annotations

import csv
import io
import os
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_text

from ..text import clean
from .sheets import Sheet

FILE = "class.csv"
"""The copy in OUT."""
COLUMNS = {
    "name": ("name", "full name", "student name", "student"),
    "first": ("first name", "firstname"),
    "last": ("last name", "lastname", "surname"),
    "id": ("id", "canvas id", "user id"),
    "identifier": ("identifier",),
    "sis_id": ("sis_id", "sis user id", "id number", "student id"),
    "login": ("login", "sis login id", "username", "github_username"),
    "email": ("email", "email address"),
    "section": ("section",),
}
"""Our name of a column, and the headers it is known by, in any case of letters."""
SUREST = {"Canvas": "id", "Moodle": "identifier", "Gradescope": "email"}
"""What a platform knows a person by: where the list has it, no name counts."""
ANOTHER = "its number is on the list, with another person's name"
NOBODY = "no line of the list fits it"


@dataclass(frozen=True)
class Person:
    """One line of the list; or what is known without one; or nobody, who has no key."""

    row: int = 0
    """Line in the file, the header being 1."""
    name: str = ""
    id: str = ""
    identifier: str = ""
    """Moodle's "Participant 123", or what GitHub Classroom calls somebody."""
    sis_id: str = ""
    login: str = ""
    email: str = ""
    section: str = ""
    cells: tuple[str, ...] = ()
    """The whole line."""

    @property
    def key(self) -> str:
        """What marks.csv calls `id`."""
        return self.id or self.identifier or self.email or self.sis_id or self.login or self.name

    @property
    def ids(self) -> set[str]:
        """What one may call this person by: each belongs to nobody else."""
        return {_plain(one) for one in (self.id, self.identifier, self.email, self.sis_id, self.login)} - {""}


@dataclass
class People:
    """The class, and the file as it was."""

    people: list[Person] = field(default_factory=list)
    header: list[str] = field(default_factory=list)
    possible: list[str] = field(default_factory=list)
    """Canvas's row with the points that each column can give."""

    def __bool__(self) -> bool:
        return bool(self.people)

    def named(self, key: str) -> Person | None:
        """Who has this id, or this name alone."""
        found = [one for one in self.people if _plain(key) in one.ids | {_plain(one.name)}]
        return found[0] if len(found) == 1 else None


def kept(out: Path, given: Path | None) -> People:
    """The list that is given, else the one of an earlier run.

    Raises:
        ValueError: one sentence about what is wrong with it.
        OSError: it cannot be read.
    """
    place = given or out / FILE
    return read(place) if given or place.exists() else People()


def keep(out: Path, given: Path | None) -> None:
    if given:
        write_text(out / FILE, given.read_text("utf-8-sig"))


def csv_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Each row, as long as the header at least, with the number of its line; the header's first.

    Raises:
        ValueError: it is no table.
    """
    try:
        text = path.read_text("utf-8-sig")
        separator = max(",;\t", key=text.lstrip("\n").partition("\n")[0].count)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        rows = [(reader.line_num, row) for row in reader if any(value.strip() for value in row)]
    except UnicodeDecodeError:
        told = "expected UTF-8, got letters of another encoding; in a spreadsheet, save it as CSV UTF-8"
        raise ValueError(f"{path.name}: {told}") from None
    except csv.Error as error:
        raise ValueError(f"{path.name}: cannot be read as a CSV file: {error}") from None
    if not rows:
        raise ValueError(f"{path.name}: expected a line with the names of the columns, and it is empty")
    width = len(rows[0][1])
    return [(number, [*row, *[""] * (width - len(row))]) for number, row in rows]


def read(path: Path) -> People:
    """
    Raises:
        ValueError: one sentence about what is wrong.
        OSError: it cannot be read.
    """
    (_, header), *rows = csv_rows(path)
    names = [name.strip().lower() for name in header]
    places = {key: names.index(one) for key, known in COLUMNS.items() for one in known[::-1] if one in names}
    if not set(places) - {"section"}:
        told = clean(", ".join(header))
        raise ValueError(f"{path.name}: expected columns such as name, id, sis_id, login or email, got {told!r}")
    found = People(header=header)
    seen: dict[str, int] = {}
    for number, row in rows:
        values: dict[str, Any] = {key: row[place].strip() for key, place in places.items()}
        parts = ", ".join(filter(None, (values.pop("last", ""), values.pop("first", ""))))
        values["name"] = values.get("name") or parts or values.get("identifier", "")
        # Canvas's points, its test student, and the line that says whose marks are posted by hand are nobody.
        if row[0].strip().lower() == "points possible":
            found.possible = row
            continue
        if values["name"].lower() == "student, test":
            continue
        if not row[0].strip() and any("Manual Posting" in cell for cell in row):
            continue
        if any(row[len(header) :]):
            told = f"expected {len(header)} cells, got {len(row)}; a comma needs quotes"
            raise ValueError(f"{path.name}, line {number}: {told}")
        person = Person(number, cells=tuple(row), **values)
        if not person.key:
            raise ValueError(f"{path.name}, line {number}: expected a name or an id, got {clean(','.join(row))!r}")
        for one in person.ids:
            if seen.setdefault(one, number) != number:
                raise ValueError(f"{path.name}, line {number}: {clean(one)!r} is in line {seen[one]} as well")
        found.people.append(person)
    return found


def match(sheets: Sequence[Sheet], known: People) -> dict[str, tuple[Person, str]]:
    """Page -> whose the submission is, and else nobody, and why.

    Without a list, it is whom the export names.
    """
    if not known:
        return {sheet.page: (_of_export(sheet), "") for sheet in sheets}
    logins = _logins([sheet.folder for sheet in sheets if sheet.system == "GitHub"], known)
    found = {sheet.page: _find(sheet, known.people, logins) for sheet in sheets}
    often = Counter(person.row for person, _ in found.values())
    for page, (person, _) in found.items():
        if person.row and often[person.row] > 1:
            why = f"{often[person.row]} submissions fit line {person.row} of the list: remove those that do not count"
            found[page] = Person(), why
    return found


def _of_export(sheet: Sheet) -> Person:
    if sheet.system not in SUREST:
        return Person()
    first, *_ = *sheet.ids, ""
    kind = SUREST[sheet.system] if sheet.system != "Gradescope" or "@" in first else "sis_id"
    by: dict[str, Any] = {kind: first}
    return Person(name=sheet.name, **by)


def _find(sheet: Sheet, people: Sequence[Person], logins: Mapping[str, Person]) -> tuple[Person, str]:
    """The surest first: ids, a repository's login, names."""
    ids = {_plain(one) for one in sheet.ids or [sheet.folder]}
    if numbered := [one for one in people if ids & one.ids]:
        person, why = _alone(numbered)
        return (person, why) if _agrees(sheet, person) else (Person(), ANOTHER)
    if sheet.folder in logins:
        return logins[sheet.folder], ""
    surest = SUREST.get(sheet.system)
    if surest and any(getattr(one, surest) for one in people):
        return Person(), NOBODY
    wanted = {_joined(one) for one in (sheet.folder, sheet.name)} - {""}
    return _alone([one for one in people if wanted & _turned(one.name)])


def _alone(found: Sequence[Person]) -> tuple[Person, str]:
    if len(found) == 1:
        return found[0], ""
    lines = ", ".join(str(one.row) for one in found)
    return Person(), f"fits several lines of the list ({lines})" if found else NOBODY


def _agrees(sheet: Sheet, person: Person) -> bool:
    """Canvas and Moodle write a name and a number, and a name can look like somebody's number. Moodle puts the name of
    a group first."""
    if sheet.system not in ("Canvas", "Moodle") or not sheet.name or not person.name:
        return True
    return _joined(sheet.name).endswith(tuple(_turned(person.name)))


def _logins(folders: Sequence[str], known: People) -> dict[str, Person]:
    """Of repositories, which are called by the assignment and a login: what all have in common is the assignment."""
    by_login = {_plain(person.login): person for person in known.people if person.login}
    best: dict[str, Person] = {}
    for place, letter in enumerate(os.path.commonprefix(folders)):
        if letter == "-":
            logins = {folder: by_login.get(_plain(folder[place + 1 :])) for folder in folders}
            best = max(best, {folder: person for folder, person in logins.items() if person}, key=len)
    return best


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text.strip().casefold())


def _words(text: str) -> list[str]:
    """Without case, accents, and the order of "Last, First"."""
    last, comma, first = text.partition(",")
    plain = unicodedata.normalize("NFKD", f"{first} {last}" if comma else text)
    letters = "".join(letter if letter.isalnum() else " " for letter in plain if not unicodedata.combining(letter))
    return letters.casefold().split()


def _joined(text: str) -> str:
    return "".join(_words(text))


def _turned(name: str) -> set[str]:
    """First name first, and last name first, without spaces: Canvas writes names so, and Chinese ones have none."""
    words = _words(name)
    return {"".join([*words[i:], *words[:i]]) for i in range(len(words))}
