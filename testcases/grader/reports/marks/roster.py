"""Who is who: a roster maps submissions to people.

A roster is a CSV file with a header. A gradebook exported from Canvas and a grading worksheet or participants list
downloaded from Moodle are rosters as they are. Nobody is matched by a guess: what fits two people fits nobody, and is
reported.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .sheets import MarkSheet
from .text import clean

COLUMNS = {
    "student": (
        "student",
        "folder",
        "folder name",
        "submission",
        "student/folder name",
        "directory",
        "student_repository_name",
    ),
    "name": ("name", "full name", "student name", "display name"),
    "first": ("first name", "firstname", "given name"),
    "last": ("last name", "surname", "lastname", "family name"),
    "id": ("id", "canvas id", "canvas user id", "user id"),
    "sis_id": ("sis_id", "sis id", "sis user id", "id number", "idnumber", "student id"),
    "login": ("login", "sis login id", "login id", "username", "user name", "github_username"),
    "email": ("email", "e-mail", "email address", "mail"),
    "section": ("section", "sections"),
    "identifier": ("identifier", "roster_identifier"),
}
"""Our name of a column, and the headers it is known by, in any case of letters."""
MAX_BYTES = 16 * 2**20
CANVAS_DOWNLOAD = re.compile(r"^(.+?)_(?:LATE_)?(\d+)(?:_\d+_|$)")
CANVAS_NUMBER = re.compile(r"(?=_(?:LATE_)?(\d+)_\d+_)")
"""In the name of a file; a student's name, or what a file is called, can look like more of them."""
MOODLE_DOWNLOAD = re.compile(r"_(\d+)_assignsubmission_", re.IGNORECASE)


ANONYMOUS = "Participant"
"""Moodle calls everybody so where marking is blind."""
ANOTHER = {
    "Canvas": "its number is somebody's on the roster, and the name with it, or in one of its files, is another's",
    "Moodle": "its number is somebody's on the roster, and the name is another's",
    "Gradescope": "its name is somebody's on the roster, and its email address is another one",
}
UNCLEAR = "a submission that is nobody's yet may be theirs: say in a column student of the roster which it is"


@dataclass(frozen=True)
class Person:
    """One row of the roster."""

    row: int
    """Line in the file, the header being 1."""
    student: str = ""
    name: str = ""
    id: str = ""
    sis_id: str = ""
    login: str = ""
    email: str = ""
    section: str = ""
    identifier: str = ""
    """Moodle's "Participant 123"."""

    @property
    def shown(self) -> str:
        return self.name or self.student or self.login or self.email or self.sis_id or self.id or self.identifier

    @property
    def keys(self) -> tuple[str, ...]:
        """What systems call this person by."""
        return self.login, self.sis_id, self.id, self.email, self.name

    @property
    def names(self) -> set[str]:
        """What one may call this person by."""
        return {*self.keys, self.student, self.identifier} - {""}


@dataclass
class Roster:
    """The people, and the file as it was."""

    people: list[Person] = field(default_factory=list)
    header: list[str] = field(default_factory=list)
    rows: dict[int, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def is_moodle_worksheet(self) -> bool:
        return {"identifier", "grade", "last modified (grade)"} <= {name.strip().lower() for name in self.header}


@dataclass
class Matching:
    """Who handed in what."""

    person_of: dict[str, Person] = field(default_factory=dict)
    """By `MarkSheet.page`."""
    absent: list[Person] = field(default_factory=list)
    """Who is on the roster and handed in nothing: known once every submission is somebody's."""
    unclear: list[Person] = field(default_factory=list)
    """Until then: whose one of those may be that are nobody's yet."""
    ambiguous: dict[str, str] = field(default_factory=dict)
    """By `MarkSheet.page`: why nobody is named."""
    problems: list[tuple[str, int | None, str, str]] = field(default_factory=list)
    """Kind, line of the roster, name, and what to do."""


def read(path: Path) -> Roster:
    """The roster in a file. What is wrong with it is in `problems`; it never raises."""
    roster = Roster()
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES} bytes")
        text = decode(path.read_bytes())
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter_of(text)))
    except (OSError, ValueError, csv.Error) as error:
        roster.problems.append(clean(f"the roster cannot be read: {type(error).__name__}: {error}", 500))
        return roster
    if not rows:
        roster.problems.append("the roster is empty")
        return roster
    roster.header = rows[0]
    places = _places(rows[0])
    if not set(places) - {"section"}:
        roster.problems.append(
            f"expected a header with a column such as student, name, id, sis_id, login or email, "
            f"got {clean(', '.join(rows[0]))!r}"
        )
        return roster
    for number, row in enumerate(rows[1:], start=2):
        # Canvas's points are nobody's.
        if not any(value.strip() for value in row) or row[0].strip().lower() == "points possible":
            continue
        values = {key: row[place].strip() for key, place in places.items() if place < len(row)}
        first, last = values.pop("first", ""), values.pop("last", "")
        if not values.get("name"):
            # GitHub Classroom has one name for each login, which it calls the identifier.
            values["name"] = f"{first} {last}".strip() or (values.get("login") and values.get("identifier")) or ""
        person = Person(number, **values)
        if not person.shown:
            roster.problems.append(f"line {number} of the roster names nobody")
            continue
        roster.people.append(person)
        roster.rows[number] = row
    return roster


def _in_front(student: str) -> str:
    """The name in "Team A_7_assignsubmission_file" and "teama_7"."""
    return re.split(r"_\d+(?:_|$)", student)[0]


def match(sheets: Iterable[MarkSheet], roster: Roster) -> Matching:
    """One person a submission, and one submission a person; everything else is a problem, and none is left out.

    The name of the submission is looked for in the columns student, login, sis_id, id, email and name, first exactly,
    then without regard to case and spelling of accents.
    """
    sheets = list(sheets)
    matching = Matching(problems=[("roster", None, "", problem) for problem in roster.problems])
    steps = (*STEPS, (_behind_titles(sheets, roster), lambda person: {_loose(person.login)} - {""}))
    open_sheets = {sheet.page: sheet for sheet in sheets}
    open_people = {person.row: person for person in roster.people}
    ambiguous = matching.ambiguous
    canvas = {(name, person.id): person for person in roster.people if person.id for name in _canvas_names(person)}
    for step in steps:
        wanted: dict[int, list[str]] = {}
        for page, fitting in _fitting(step, open_sheets, open_people.values()).items():
            found = {row for row in fitting if not _is_another(open_sheets[page], open_people[row], canvas)}
            if len(found) == 1:
                wanted.setdefault(found.pop(), []).append(page)
            else:
                lines = ", ".join(map(str, sorted(found)))
                several = f"fits several lines of the roster ({lines}): add a column student with folder names"
                ambiguous[page] = several if found else ANOTHER.get(open_sheets[page].system, "")
        for row, pages in wanted.items():
            if len(pages) == 1:
                matching.person_of[pages[0]] = open_people.pop(row)
                del open_sheets[pages[0]]
                ambiguous.pop(pages[0], None)
            else:
                why = f"several submissions fit line {row} of the roster: say in its column student which one counts"
                ambiguous.update(dict.fromkeys(pages, why))
    for step in steps:
        for page, rows in _fitting(step, open_sheets, roster.people).items():
            why = f"fits line {min(rows)} of the roster, and another submission fits it better: look at both"
            ambiguous.setdefault(page, why)
    _tell_the_rest(matching, open_sheets, list(open_people.values()))
    return matching


def _fitting(step: Step, sheets: Mapping[str, MarkSheet], people: Iterable[Person]) -> dict[str, set[int]]:
    """Page -> the lines of those whom a submission may be of, as far as one way to look tells."""
    keys_of_sheet, keys_of_person = step
    by_key: dict[str, set[int]] = {}
    for person in people:
        for key in keys_of_person(person):
            by_key.setdefault(key, set()).add(person.row)
    found = {page: [by_key.get(key, set()) for key in keys_of_sheet(sheet)] for page, sheet in sheets.items()}
    return {page: set().union(*rows) for page, rows in found.items() if any(rows)}


def _tell_the_rest(matching: Matching, sheets: Mapping[str, MarkSheet], people: list[Person]) -> None:
    for page, sheet in sheets.items():
        why = (
            "no line of the roster fits this submission: its mark is in gradebook.csv only, and until a column student "
            "of the roster names it, nobody has a 0 for having handed in nothing"
        )
        why = matching.ambiguous.get(page, why)
        matching.problems.append(("submission without roster row", None, sheet.shown, why))
    matching.absent, matching.unclear = ([], people) if sheets else (people, [])
    for person in people:
        why = "no submission fits this line of the roster: nothing handed in, or under another name"
        why = UNCLEAR if sheets else why
        matching.problems.append(("roster row without submission", person.row, clean(person.shown), why))


def _is_another(sheet: MarkSheet, person: Person, canvas: Mapping[tuple[str, str], Person]) -> bool:
    """Whether the system itself says that this is somebody else.

    On Gradescope people write their names themselves; a verified address that is not the person's says no. Canvas and
    Moodle write a name and a number, and a name can end in somebody's number: both must fit.

    Args:
        canvas: by the name and the number that Canvas writes.
    """
    own = {person.student, person.name, person.email, person.login, person.sis_id} - {""}
    if own & set(sheet.aliases) or person.student in (sheet.student, *sheet.exported):
        return False
    if sheet.system == "Canvas" and person.id and (hit := CANVAS_DOWNLOAD.match(sheet.student)):
        numbers = ((name, one) for name in sheet.exported for one in CANVAS_NUMBER.finditer(name))
        readings = [(_joined(name[: one.start()]), one[1]) for name, one in numbers]
        is_open = any(canvas.get(reading, person) is not person for reading in readings)
        return hit[2] != person.id or _joined(hit[1]) not in _canvas_names(person) or is_open
    if sheet.system == "Moodle" and person.name and person.identifier:
        name = _joined(_in_front(sheet.student))
        return not name.endswith((_joined(person.name), _joined(ANONYMOUS)))
    if sheet.system != "Gradescope":
        return False
    emails = {alias.casefold() for alias in sheet.aliases if "@" in alias}
    is_known = not emails or not person.email or person.email.casefold() in emails
    return not is_known and not (person.sis_id and person.sis_id in sheet.aliases)


def _joined(text: str) -> str:
    return _loose(text).replace(" ", "")


def _canvas_names(person: Person) -> set[str]:
    """As Canvas writes them into a file's name: the last name first, in one word; however the roster turns it."""
    words = _loose(person.name).split()
    return {"".join(words[i:] + words[:i]) for i in range(len(words))}


def _exact(text: str) -> str:
    return unicodedata.normalize("NFC", text.strip())


def _loose(text: str) -> str:
    """Without case, accents, and the order of "Last, First"."""
    last, comma, first = text.partition(",")
    plain = unicodedata.normalize("NFKD", f"{first} {last}" if comma else text)
    letters = "".join(letter if letter.isalnum() else " " for letter in plain if not unicodedata.combining(letter))
    return " ".join(letters.casefold().split())


def _sheet_names(sheet: MarkSheet) -> set[str]:
    """As they are: a space at the end makes another name, which is looked at later."""
    return {unicodedata.normalize("NFC", name) for name in (sheet.student, *sheet.aliases)} - {""}


def _exported(sheet: MarkSheet) -> set[str]:
    """The names of folders and files in the export, which begin with what the system has written."""
    return {unicodedata.normalize("NFC", name) for name in sheet.exported}


def _addresses(sheet: MarkSheet) -> set[str]:
    """What the system has verified, before a name that people write themselves."""
    return {alias.casefold() if "@" in alias else alias for alias in sheet.aliases if sheet.system == "Gradescope"}


def _downloads(sheet: MarkSheet) -> set[str]:
    """The ids in the file names that Canvas and Moodle give to downloaded submissions."""
    found = set()
    if hit := CANVAS_DOWNLOAD.match(sheet.student):
        found.add(f"canvas {hit[2]}")
    if hit := MOODLE_DOWNLOAD.search(sheet.student):
        found.add(f"moodle {hit[1]}")
    return found


def _name_in_download(sheet: MarkSheet) -> set[str]:
    """Moodle's "Ann Lee_12_assignsubmission_file_", Canvas's "leeann_12"."""
    name = _loose(sheet.student.partition("_")[0])
    return {f"{sheet.system} {name}"} if sheet.system in ("Moodle", "Canvas") else set()


def _behind_titles(sheets: Iterable[MarkSheet], roster: Roster) -> Callable[[MarkSheet], set[str]]:
    """GitHub puts the assignment's name before or behind a login: what most have in common is that name, and all of the
    rest is the login. The repository of bob-x is not Bob's."""
    known = {_loose(person.login) for person in roster.people} - {""}
    parts: dict[tuple[str, str], dict[str, str]] = {}
    for sheet in sheets:
        words = _loose(sheet.student).split()[:20]
        for start, end in itertools.combinations(range(len(words) + 1), 2):
            if (login := " ".join(words[start:end])) in known and end - start < len(words):
                shared = " ".join(words[:start]), " ".join(words[end:])
                parts.setdefault(shared, {})[sheet.page] = login
    most = max(map(len, parts.values()), default=0)
    titles = [logins for logins in parts.values() if len(logins) == most > 1]
    found = titles[0] if len(titles) == 1 else {}
    return lambda sheet: {found[sheet.page]} if sheet.page in found else set()


def _names(person: Person) -> set[str]:
    """As Moodle writes a name, and as Canvas does: the last name first, in one word. Where there is no surer number."""
    words = _loose(person.name).split()
    turned = {"Canvas " + "".join(words[i:] + words[:i]) for i in range(1, len(words))}
    return (set() if person.id else turned) | (set() if person.identifier else {f"Moodle {' '.join(words)}"})


def _letters_in_any_order(person: Person) -> set[str]:
    """First name first, and last name first; with a number or a login before or behind it, too."""
    names = _canvas_names(person)
    marks = {_joined(mark) for mark in (person.sis_id, person.id, person.login)} - {""}
    return names | {one for name in names for mark in marks for one in (name + mark, mark + name)}


def _download_ids(person: Person) -> set[str]:
    found = {f"canvas {person.id}"} if person.id else set()
    if hit := re.search(r"(\d+)\s*$", person.identifier):
        found.add(f"moodle {hit[1]}")
    return found


Step = tuple[Callable[[MarkSheet], set[str]], Callable[[Person], set[str]]]
STEPS: tuple[Step, ...] = (
    (_addresses, lambda person: {person.email.casefold(), person.sis_id} - {""}),
    (_sheet_names, lambda person: {_exact(person.student)} - {""}),
    (_exported, lambda person: {_exact(person.student)} - {""}),
    (_sheet_names, lambda person: {_exact(key) for key in person.keys} - {""}),
    (_downloads, _download_ids),
    (
        lambda sheet: {_loose(name) for name in (sheet.student, *sheet.aliases)} - {""},
        lambda person: {_loose(key) for key in (person.student, *person.keys)} - {""},
    ),
    (_name_in_download, _names),
    # Without spaces, of which Chinese names have none.
    (lambda sheet: {_joined(name) for name in (sheet.student, *sheet.aliases)} - {""}, _letters_in_any_order),
)
"""How to look, the surest way first: keys of a submission, keys of a person."""


def decode(data: bytes) -> str:
    """A text as spreadsheets save it."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def delimiter_of(text: str) -> str:
    header = text.partition("\n")[0]
    return max(",;\t", key=header.count)


def _places(header: list[str]) -> dict[str, int]:
    """Our column -> its place; the first of two wins."""
    names = [name.strip().lower() for name in header]
    known = COLUMNS
    if names[:2] == ["student", "id"] and "section" in names and not set(names) & set(COLUMNS["name"]):
        # A gradebook of Canvas: its "Student" is a name for people, not the name of a folder.
        known = {**COLUMNS, "student": COLUMNS["student"][1:], "name": ("student", *COLUMNS["name"])}
    return {
        key: min(names.index(name) for name in headers if name in names)
        for key, headers in known.items()
        if any(name in names for name in headers)
    }
