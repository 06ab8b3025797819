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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ppo_by_hand.core.files import write_text

from ..text import clean, whole
from .sheets import Sheet

FILE = "class.csv"
"""The copy in OUT."""
COLUMNS = {
    "folder": ("folder", "submission", "student_repository_name"),
    "name": ("name", "full name", "student name", "student", "display name"),
    "first": ("first name", "firstname", "given name"),
    "last": ("last name", "surname", "lastname", "family name"),
    "id": ("id", "canvas id", "canvas user id", "user id"),
    "identifier": ("identifier", "roster_identifier"),
    "sis_id": ("sis_id", "sis id", "sis user id", "id number", "idnumber", "student id"),
    "login": ("login", "sis login id", "login id", "username", "user name", "github_username"),
    "email": ("email", "e-mail", "email address", "mail"),
    "section": ("section", "sections"),
}
"""Our name of a column, and the headers it is known by, in any case of letters."""
MAX_BYTES = 16 * 2**20
ANOTHER = "its number is on the list, with another person's name"
NOBODY = "no line of the list fits it"


@dataclass(frozen=True)
class Person:
    """One line of the list; or what is known without one."""

    row: int = 0
    """Line in the file, the header being 1."""
    folder: str = ""
    name: str = ""
    id: str = ""
    identifier: str = ""
    """Moodle's "Participant 123"."""
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

    @property
    def is_worksheet(self) -> bool:
        """Moodle's grading worksheet."""
        wanted = {"identifier", "grade", "maximum grade", "last modified (grade)"}
        return wanted <= {name.strip().lower() for name in self.header}

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
    if given and not (os.path.exists(out / FILE) and os.path.samefile(given, out / FILE)):
        write_text(out / FILE, csv_text(given))


def csv_text(path: Path) -> str:
    """A table as spreadsheets save it.

    Raises:
        ValueError: it is too large, or in an encoding that does not say which it is.
    """
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name}: expected at most {MAX_BYTES:,} bytes")
    data = path.read_bytes()
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(
            f"{path.name}: expected UTF-8, got letters of another encoding; in a spreadsheet, save it as CSV UTF-8"
        ) from None


def csv_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Each row with the number of its line, the header's first.

    Raises:
        ValueError: it is no table.
    """
    text = csv_text(path)
    header = text.lstrip("\n").partition("\n")[0]
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=header.count), strict=True)
        rows = [(reader.line_num, row) for row in reader if any(value.strip() for value in row)]
    except csv.Error as error:
        raise ValueError(f"{path.name}: cannot be read as a CSV file: {error}") from None
    if not rows:
        raise ValueError(f"{path.name}: expected a line with the names of the columns, and it is empty")
    return rows


def read(path: Path) -> People:
    """
    Raises:
        ValueError: one sentence about what is wrong.
        OSError: it cannot be read.
    """
    (_, header), *rows = csv_rows(path)
    names = [name.strip().lower() for name in header]
    places = {
        key: min(names.index(one) for one in known if one in names)
        for key, known in COLUMNS.items()
        if not set(known).isdisjoint(names)
    }
    if not set(places) - {"section", "folder"}:
        told = clean(", ".join(header))
        raise ValueError(f"{path.name}: expected columns such as name, id, sis_id, login or email, got {told!r}")
    found = People(header=header)
    seen: dict[str, int] = {}
    for number, row in rows:
        # Canvas's points and its test student are nobody.
        if row[0].strip().lower() in ("points possible", "student, test"):
            found.possible = row if "possible" in row[0].lower() else found.possible
            continue
        values = {key: whole(row[place]) for key, place in places.items() if place < len(row)}
        both = f"{values.pop('first', '')} {values.pop('last', '')}".strip()
        if not values.get("name"):
            # GitHub Classroom has one name for each login, which it calls the identifier.
            values["name"] = both or (values.get("login") and values.get("identifier")) or ""
        if values.get("login") and "github_username" in names:
            values["identifier"] = ""
        person = Person(number, **values, cells=tuple(row))
        if not person.key:
            raise ValueError(f"{path.name}, line {number}: expected a name or an id, got {clean(','.join(row))!r}")
        for one in person.ids:
            if seen.setdefault(one, number) != number:
                raise ValueError(f"{path.name}, line {number}: {clean(one)!r} is in line {seen[one]} as well")
        found.people.append(person)
    return found


def match(sheets: Sequence[Sheet], known: People) -> dict[str, tuple[Person | None, str]]:
    """Page -> whose the submission is, and else why that is not known.

    Without a list, it is whom the export names.
    """
    if not known:
        return {sheet.page: (_of_export(sheet), "") for sheet in sheets}
    logins = _logins([sheet for sheet in sheets if sheet.system in ("GitHub", "archive", "folder")], known)
    found = {sheet.page: _find(sheet, known.people, logins) for sheet in sheets}
    often = Counter(person.row for person, _ in found.values() if person)
    for page, (person, _) in found.items():
        if person and often[person.row] > 1:
            why = f"{often[person.row]} submissions fit line {person.row} of the list: remove those that do not count"
            found[page] = None, why
    return found


def _of_export(sheet: Sheet) -> Person | None:
    first, *_ = *sheet.ids, ""
    if sheet.system == "Canvas":
        return Person(name=sheet.name, id=first) if first.isdigit() else None
    if sheet.system == "Moodle":
        return Person(name=sheet.name, identifier=first)
    if sheet.system == "Gradescope":
        return Person(name=sheet.name, email=first) if "@" in first else Person(name=sheet.name, sis_id=first)
    return None


def _find(sheet: Sheet, people: Iterable[Person], logins: Mapping[str, Person]) -> tuple[Person | None, str]:
    """The surest first: the folder that the list names, ids, a repository's login, names."""
    if folder := [one for one in people if one.folder and _plain(one.folder) == _plain(sheet.folder)]:
        return _alone(folder)
    ids = {_plain(one) for one in sheet.ids}
    if numbered := [one for one in people if ids & one.ids]:
        person, why = _alone(numbered)
        # Canvas and Moodle write a number and a name, and a name can look like somebody's number.
        return (person, why) if not person or _fits(sheet, person) else (None, ANOTHER)
    if sheet.page in logins:
        return logins[sheet.page], ""
    if {"Canvas": any(one.id for one in people), "Moodle": any(one.identifier for one in people)}.get(sheet.system):
        return None, NOBODY
    if sheet.system == "Gradescope":
        # People write their names themselves there; the address is verified.
        people = [one for one in people if not one.email or not any("@" in id for id in sheet.ids)]
    wanted = {_joined(one) for one in (sheet.folder, sheet.name)} - {""}
    return _alone([one for one in people if wanted & (_turned(one.name) | {_joined(id) for id in one.ids})])


def _alone(found: Sequence[Person]) -> tuple[Person | None, str]:
    if len(found) == 1:
        return found[0], ""
    lines = ", ".join(str(one.row) for one in found)
    return None, f"fits several lines of the list ({lines})" if found else NOBODY


def _fits(sheet: Sheet, person: Person) -> bool:
    """Whether the name that a platform writes beside a number is this person's, as far as both are known."""
    if sheet.system not in ("Canvas", "Moodle") or not sheet.name or not person.name:
        return True
    # Moodle puts the name of a group first.
    name, names = _joined(sheet.name), _turned(person.name)
    return name in names or (sheet.system == "Moodle" and name.endswith(tuple(names)))


def _logins(sheets: Sequence[Sheet], known: People) -> dict[str, Person]:
    """Of repositories, which are called by the assignment and a login: what all have in common is the assignment."""
    by_login = {_plain(person.login): person for person in known.people if person.login}
    folders = {sheet.page: _plain(sheet.folder) for sheet in sheets}
    shared = os.path.commonprefix(list(folders.values())) if len(folders) > 1 else ""
    cuts = [place + 1 for place, letter in enumerate(shared) if letter == "-"]
    found = [{page: by_login[name[cut:]] for page, name in folders.items() if name[cut:] in by_login} for cut in cuts]
    return max(found, key=len, default={})


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
