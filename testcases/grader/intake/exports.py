"""Who handed in what: the folder of submissions, as people or the export of an LMS lay it out (see ../README.md)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from testcases.harness.catalog import lesson_names

from .archives import ARCHIVES, Unreadable, is_archive, printable, read_file, stem_of
from .selection import course_files

CANVAS = re.compile(
    r"(?P<student>[^\s!-/:-@\[-^`{-~]+?_)(?P<late>LATE_)?(?P<id>\d+|(?:(?<=^anon_)|(?<=^anon_LATE_))\w{5})_"
    r"((?P<number>\d+)_(?P<file>.+)|(?P<typed>(text|link)\.html))"
)
"""Graded anonymously, everybody is called "anon", and has five letters or digits. A typed text has no number. A name
is what Canvas leaves of it: letters, digits and "_"."""
CANVAS_VERSION = re.compile(r"-(\d+)(?=\.[^.]+(\.[^.]+)?$)")
MOODLE = re.compile(r"(?P<student>.+?_\d+_assignsubmission_)(file|onlinetext)([_.](?P<file>.*))?", re.IGNORECASE)
BLACKBOARD_ATTEMPT = re.compile(r"_attempt_\d{4}(-\d\d){5}")
BLACKBOARD = re.compile(
    rf"(?P<before>((?!{BLACKBOARD_ATTEMPT.pattern}).)+)_(?P<student>[^_]+)"
    r"_attempt_(?P<time>\d{4}(-\d\d){5})(_(?P<file>.+)|\.txt)"
)
"""The first `_attempt_` is Blackboard's: what comes behind it is the name that a student has given to a file."""
BRIGHTSPACE_FOLDER = re.compile(
    r"(?P<id>\d+-\d+) - (?P<student>.+?) ?- (?P<day>\w+ \d+, \d{4}|\d+ \w+,? \d{4}) "
    r"(?P<hour>\d+?):?(?P<minute>\d\d)(?P<half> [AP]M)?"
)
"""The last time is Brightspace's: what is before it is a name, whatever a student is called."""
BRIGHTSPACE = re.compile(BRIGHTSPACE_FOLDER.pattern + r"( - (?P<file>.+))?")
GOOGLE = re.compile(r"(?P<student>.+?) - (?P<file>.+\.\w+)")
OTHERS_EACH = 2
"""Fewer files without a name of the course a person has, on average: nobody is called HW in `HW - Ann Lee.zip`."""
METADATA = "submission_metadata.yml"
NOT_SUBMITTED = re.compile(
    r"__MACOSX|__pycache__|\.git|\.venv|\.ipynb_checkpoints|\.DS_Store|\._.*|Thumbs\.db|desktop\.ini"
    r"|README(\.\w+)?|index\.html|" + METADATA
)
"""The system's, and what an instructor keeps beside the submissions."""
KEPT_BESIDE = re.compile(r"[^_]+\.(csv|toml|xlsx)")
"""Tables and settings: an instructor's, it seems, and named, since they may be somebody's."""


@dataclass
class HandIn:
    """What one student handed in, in one place or in several."""

    student: str
    """The name of the folder or archive."""
    file_name: str = ""
    """Of the result, without ".json"."""
    parts: list[tuple[Path, str]] = field(default_factory=list)
    """Where it is, and the name that it has in the submission."""
    notes: list[str] = field(default_factory=list)
    aliases: tuple[str, ...] = ()
    """Other names of the student, by which a roster may know them: an email address, a number."""
    system: str = ""
    """Whose layout it is, such as "Canvas"."""
    handed_in: str = ""
    """When, where the export says so: an ISO date."""
    is_late: bool = False
    """The system itself says that it came late."""
    group: str = ""
    """Who handed it in for several: it is graded once."""
    accepted: tuple[tuple[str, str, str], ...] = ()
    """File, which file of the course it is taken as, and since when the instructor says so (see accepted.py)."""
    key: str = ""
    """Which no other has."""
    words: tuple[str, ...] = ()
    """Blackboard's title and login, which may both have a "_" in them."""


@dataclass
class _Uploaded:
    """What Gradescope's list says of one submission."""

    authors: list[dict[str, str]] = field(default_factory=list)
    handed_in: str = ""


def find(folder: Path) -> list[HandIn]:
    """All submissions in a folder, each with a name of its own for its result.

    Raises:
        NotADirectoryError: there is no such folder.
        ValueError: it is one submission, and not a folder of them.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder {str(folder)!r}")
    names = sorted(os.listdir(folder))
    if own := [name for name in names if name in ("tutorial", *lesson_names())]:
        raise ValueError(
            f"expected a folder with one subfolder (or archive) a student, got one with {own[0]} in it: "
            f"put it into a folder of the student's name"
        )
    uploads = _uploads(folder / METADATA)
    beside = set(kept_beside(folder))
    names = [name for name in names if not NOT_SUBMITTED.fullmatch(name) and not _is_hidden_file(folder / name)]
    names = [name for name in names if name not in beside]
    groups: dict[tuple[str, str], HandIn] = {}
    layout = _Layout.of([folder / name for name in names])
    for name in names:
        _add(groups, folder / name, layout)
    _tell_logins([group for group in groups.values() if group.words])
    found = [one for group in groups.values() for one in _of_gradescope(group, uploads)]
    return _named(found)


def find_outside(folder: Path, out: Path) -> list[HandIn]:
    """Raises NotADirectoryError, ValueError: it is no folder of submissions, or `out` lies in it."""
    if out.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"OUT: expected a folder outside {str(folder)!r}, in which everything is a submission")
    return find(folder)


def told(folder: Path) -> str:
    """What is a submission here, in a sentence; with a second one where everything lies in one thing."""
    beside = kept_beside(folder)
    but = f", but {', '.join(map(printable, beside))}: whoever handed such a file in has no row" if beside else ""
    text = f"each thing in {printable(str(folder))} is a submission{but}"
    with contextlib.suppress(OSError, ValueError):  # It is said when the folder is graded.
        if len(found := find(folder)) == 1:
            text += f". There is one, {found[0].student}: if it holds the work of several people, unpack it and name it"
    return text


def kept_beside(folder: Path) -> list[str]:
    """The tables and settings that lie among the submissions and are none; of a person whose files have the name in
    front, as Google Classroom's do, they are a part."""
    names = sorted(os.listdir(folder))
    kept = [name for name in names if KEPT_BESIDE.fullmatch(name)]
    people = {hit["student"] for name in names if name not in kept and (hit := GOOGLE.fullmatch(name))}
    return [name for name in kept if not ((hit := GOOGLE.fullmatch(name)) and hit["student"] in people)]


def _tell_logins(groups: Sequence[HandIn]) -> None:
    """What Blackboard's names have in common is the title; all of the rest is the login: x_lee is not lee. Logins that
    begin alike are longer, which the roster knows."""
    shared = 0
    if len({group.words for group in groups}) > 1:
        shared = len(os.path.commonprefix([group.words[:-1] for group in groups]))
    for group in groups:
        first = shared or len(group.words) - 1
        group.student = "_".join(group.words[first:])
        group.aliases = tuple("_".join(group.words[start:]) for start in range(1, first))


@dataclass
class _Layout:
    """What the names in a folder have in common: one name alone can be read in several ways."""

    often: Counter[str]
    """System -> how many names look like its own."""
    has_people_in_front: bool
    """As Google Classroom's have."""

    @classmethod
    def of(cls, paths: Sequence[Path]) -> _Layout:
        often = Counter(system for path in paths for system in _hits(path))
        rest = [hit for path in paths if not _hits(path) and (hit := _of_google(path))]
        people = {hit["student"] for hit in rest}
        others = [hit for hit in rest if not _of_a_lesson().fullmatch(hit[0])]
        return cls(often, 1 < len(people) and len(others) < OTHERS_EACH * len(people))


def _hits(path: Path) -> dict[str, re.Match[str]]:
    """System -> how its pattern reads the name."""
    is_loose = not path.is_dir()
    patterns = {"Moodle": MOODLE, "Brightspace": BRIGHTSPACE if is_loose else BRIGHTSPACE_FOLDER}
    patterns |= {"Blackboard": BLACKBOARD, "Canvas": CANVAS} if is_loose else {}
    return {system: hit for system, pattern in patterns.items() if (hit := pattern.fullmatch(path.name))}


def _of_google(path: Path) -> re.Match[str] | None:
    return None if path.is_dir() else GOOGLE.fullmatch(path.name)


def _add(groups: dict[tuple[str, str], HandIn], path: Path, layout: _Layout) -> None:
    """Put one thing in the folder where it belongs."""
    name = path.name
    if hits := _hits(path):
        system = max(hits, key=lambda system: layout.often[system])
        ADD[system](groups, path, hits[system])
    elif not path.is_dir() and (
        hit := layout.has_people_in_front and _of_google(path) or _of_a_lesson().fullmatch(name)
    ):
        # Whose is called alike but for what stands between name and file is perhaps somebody else's.
        before = name.removesuffix(hit["file"])
        group = groups.setdefault(("files", before), HandIn(hit["student"], key=f"files\0{before}"))
        group.system = "file"
        group.parts.append((path, hit["file"]))
    else:
        system = "folder" if path.is_dir() else "archive" if stem_of(name) != name else "file"
        system = "repository" if (path / ".git").exists() else system
        groups["", name] = HandIn(stem_of(name), parts=[(path, name)], system=system, key=name)


def _add_canvas(groups: dict[tuple[str, str], HandIn], path: Path, hit: re.Match[str]) -> None:
    student = hit["student"] + hit["id"]
    group = groups.setdefault(("canvas", student), HandIn(student, system="Canvas", key=f"canvas\0{student}"))
    group.notes += ["handed in late, as Canvas says"] if hit["late"] else []
    group.is_late |= bool(hit["late"])
    group.parts.append((path, CANVAS_VERSION.sub("", hit["file"] or hit["typed"])))
    group.parts.sort(key=_version)


def _add_moodle(groups: dict[tuple[str, str], HandIn], path: Path, hit: re.Match[str]) -> None:
    student = path.name if path.is_dir() else f"{hit['student']}file_"
    group = groups.setdefault(("moodle", hit["student"]), HandIn(student, system="Moodle", key=student))
    group.parts.append((path, hit["file"] or path.name))


def _add_blackboard(groups: dict[tuple[str, str], HandIn], path: Path, hit: re.Match[str]) -> None:
    student, day, clock = hit["student"], hit["time"][:10], hit["time"][11:].replace("-", ":")
    key = f"blackboard\0{hit['before']}\0{student}\0{hit['time']}"
    made = HandIn(student, system="Blackboard", handed_in=f"{day}T{clock}", key=key)
    made.words = (*hit["before"].split("_"), student)
    group = groups.setdefault(("blackboard", made.key), made)
    if BLACKBOARD_ATTEMPT.search(hit["file"] or ""):
        group.notes.append(f"a file's own name looks like an attempt of somebody: {hit['file'][:100]}")
    # The .txt that comes with each attempt is Blackboard's own.
    group.parts += [(path, hit["file"])] if hit["file"] else []


def _add_brightspace(groups: dict[tuple[str, str], HandIn], path: Path, hit: re.Match[str]) -> None:
    time = f"{hit['day']} {hit['hour']}:{hit['minute']}{hit['half'] or ''}"
    made = HandIn(hit["student"], system="Brightspace", handed_in=time, key=f"brightspace\0{hit['id']}\0{time}")
    made.aliases = (f"{hit['id']} - {hit['student']}",)
    group = groups.setdefault(("brightspace", made.key), made)
    group.parts.append((path, hit.groupdict().get("file") or path.name))


ADD: dict[str, Callable[[dict[tuple[str, str], HandIn], Path, re.Match[str]], None]] = {
    "Canvas": _add_canvas,
    "Moodle": _add_moodle,
    "Blackboard": _add_blackboard,
    "Brightspace": _add_brightspace,
}


@cache
def _of_a_lesson() -> re.Pattern[str]:
    """A lesson's file, or all of them, behind a name: `Ann Lee - gae.py`, as Google Classroom has it."""
    files = {path.rpartition("/")[2] for path in course_files()} | {f"tutorial{ending}" for ending in ARCHIVES}
    return re.compile(rf"(?P<student>.+?)( - |[-_ ])(?P<file>{'|'.join(map(re.escape, sorted(files)))})")


def _version(part: tuple[Path, str]) -> tuple[int, int]:
    """What Canvas counts up with each attempt."""
    name = part[0].name
    number, version = CANVAS.fullmatch(name), CANVAS_VERSION.search(name)
    return int(version[1]) if version else 0, int(number["number"] or 0) if number else 0


def _is_hidden_file(path: Path) -> bool:
    """Such as .gitkeep; a folder or an archive is a submission whatever its name."""
    return path.name.startswith(".") and not path.is_dir() and not is_archive(path.name)


def _of_gradescope(group: HandIn, uploads: dict[str, _Uploaded]) -> Iterator[HandIn]:
    """One for each of its authors, where the export tells them."""
    upload = uploads.get(group.student, _Uploaded())
    found = [tuple(filter(None, map(author.get, ("name", "email", "sid")))) for author in upload.authors]
    authors = [names for names in found if names]
    for names in authors:
        others = f"handed in by {len(authors)} people together" if len(authors) > 1 else ""
        notes = [*group.notes, *filter(None, [others])]
        aliases, key = (*names[1:], group.student), f"{group.key}\0{names[0]}"
        made = HandIn(names[0], "", group.parts, notes, aliases, "Gradescope", upload.handed_in, key=key)
        made.group = authors[0][0] if len(authors) > 1 else ""
        yield made
    if not authors:
        yield group


def _uploads(metadata: Path) -> dict[str, _Uploaded]:
    """By folder, from Gradescope's list."""
    try:
        text = read_file(metadata, 50_000_000).decode("utf-8", "replace")
    except Unreadable:
        return {}
    found: dict[str, _Uploaded] = {}
    upload, inside = _Uploaded(), False
    for line in text.splitlines():
        if hit := re.fullmatch(r"['\"]?([^\s:'\"][^:'\"]*)['\"]?:\s*", line):
            upload, inside = found.setdefault(hit[1], _Uploaded()), False
        elif hit := re.fullmatch(r"  :(\w+):(.*)", line):
            inside = hit[1] == "submitters"
            upload.handed_in = hit[2].strip().strip("'\"") if hit[1] == "created_at" else upload.handed_in
        elif inside and (hit := re.fullmatch(r"  (- |  ):(name|email|sid):\s*(.*)", line)):
            # Further in lie the lines of a name that has several, and they may say anything.
            if hit[1] == "- ":
                upload.authors.append({})
            if upload.authors:
                upload.authors[-1][hit[2]] = hit[3].strip().strip("'\"")
    return found


def _named(groups: Sequence[HandIn]) -> list[HandIn]:
    """Give each a file name of its own."""
    files = [re.sub(r"[^A-Za-z0-9._-]", "_", group.student)[:100] for group in groups]
    often = Counter(file.lower() for file in files)
    people = [unicodedata.normalize("NFC", group.student.lower()) for group in groups]
    same = Counter(people)
    for group, person, file in zip(groups, people, files, strict=True):
        group.notes = list(dict.fromkeys(group.notes))
        if file != group.student or often[file.lower()] > 1 or file.startswith("."):
            file += "~" + hashlib.sha256(os.fsencode(group.key)).hexdigest()[:8]
        if same[person] > 1:
            group.notes.append("another submission has the same name, or one that differs only in capital letters")
        group.student, group.file_name = printable(group.student)[:200], file.lstrip(".")
    return [*groups]
