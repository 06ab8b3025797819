"""Who handed in what: the folder of submissions, as people or the export of an LMS lay it out.

- a subfolder or an archive for each student, of any name; Moodle's folders are that
- Canvas: `smithjohn_1_22_gae.py`, `smithjohn_LATE_1_23_rest-2.zip`: the files of one student are one submission
- Moodle without folders: `Ann Lee_12_assignsubmission_file_gae.py`
- Gradescope: `submission_12/` and `submission_metadata.yml`, which says whose they are
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testcases.engine.contract import lesson_names

from .reading import Unreadable, is_archive, printable, read_file, stem_of

CANVAS = re.compile(r"(?P<student>[^_]+_)(?P<late>LATE_)?(?P<id>\d+)_(?P<number>\d+)_(?P<file>.+)")
CANVAS_VERSION = re.compile(r"-(\d+)(?=\.[^.]+(\.[^.]+)?$)")
MOODLE = re.compile(r"(?P<student>.+_\d+_assignsubmission_)(file|onlinetext)(_(?P<file>.*))?", re.IGNORECASE)
METADATA = "submission_metadata.yml"
NOT_SUBMITTED = re.compile(
    r"__MACOSX|__pycache__|\.git|\.venv|\.ipynb_checkpoints|\.DS_Store|\._.*|Thumbs\.db|desktop\.ini|" + METADATA
)


@dataclass(frozen=True)
class HandIn:
    """What one student handed in, in one place or in several."""

    student: str
    file_name: str
    """Of the result, without ".json"."""
    parts: tuple[tuple[Path, str], ...]
    """Where it is, and the name that it has in the submission."""
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other names of the student: an email address, a number."""


@dataclass
class _Group:
    """The places that belong together."""

    key: str
    """Which no other group has."""
    student: str
    parts: list[tuple[Path, str]] = field(default_factory=list)
    """Where they are, and their names in the submission."""
    notes: list[str] = field(default_factory=list)
    aliases: tuple[str, ...] = ()


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
    people = _people(folder / METADATA)
    names = [name for name in names if not NOT_SUBMITTED.fullmatch(name) and not _is_hidden_file(folder / name)]
    groups: dict[tuple[str, str], _Group] = {}
    for name in names:
        _add(groups, folder / name)
    found = [one for group in groups.values() for one in _of_gradescope(group, people)]
    return _named(found)


def _add(groups: dict[tuple[str, str], _Group], path: Path) -> None:
    """Put one thing in the folder where it belongs."""
    name = path.name
    is_loose = not path.is_dir() and (is_archive(name) or name.endswith(".py"))
    if is_loose and (hit := CANVAS.fullmatch(name)):
        student = hit["student"] + hit["id"]
        group = groups.setdefault(("canvas", student), _Group(f"canvas\0{student}", student))
        group.notes += ["handed in late, as Canvas says"] if hit["late"] else []
        group.parts.append((path, CANVAS_VERSION.sub("", hit["file"])))
        group.parts.sort(key=_version)
    elif (hit := MOODLE.fullmatch(name)) and (is_loose or path.is_dir()):
        student = f"{hit['student']}file_" if is_loose else name
        group = groups.setdefault(("moodle", hit["student"]), _Group(student, student))
        group.parts.append((path, hit["file"] or name))
    else:
        groups["", name] = _Group(name, stem_of(name), [(path, name)])


def _version(part: tuple[Path, str]) -> tuple[int, int]:
    """What Canvas counts up with each attempt."""
    name = part[0].name
    number, version = CANVAS.fullmatch(name), CANVAS_VERSION.search(name)
    return int(version[1]) if version else 0, int(number["number"]) if number else 0


def _is_hidden_file(path: Path) -> bool:
    """Such as .gitkeep; a folder or an archive is a submission whatever its name."""
    return path.name.startswith(".") and not path.is_dir() and not is_archive(path.name)


def _of_gradescope(group: _Group, people: dict[str, list[tuple[str, ...]]]) -> Iterator[_Group]:
    """One for each of its authors, where the export tells them."""
    authors = people.get(group.student, [])
    for names in authors:
        others = f"handed in by {len(authors)} people together" if len(authors) > 1 else ""
        notes = [*group.notes, *filter(None, [others])]
        yield _Group(f"{group.key}\0{names[0]}", names[0], group.parts, notes, (*names[1:], group.student))
    if not authors:
        yield group


def _people(metadata: Path) -> dict[str, list[tuple[str, ...]]]:
    """Folder -> the names (name, email address, number) of each of its authors, from Gradescope's list."""
    try:
        text = read_file(metadata, 50_000_000).decode("utf-8", "replace")
    except Unreadable:
        return {}
    found: dict[str, list[dict[str, str]]] = {}
    folder, inside = "", False
    for line in text.splitlines():
        if hit := re.fullmatch(r"['\"]?([^\s:'\"][^:'\"]*)['\"]?:\s*", line):
            folder, inside = hit[1], False
        elif hit := re.fullmatch(r"  :(\w+):.*", line):
            inside = hit[1] == "submitters"
        elif inside and (hit := re.fullmatch(r"\s+(- )?:(name|email|sid):\s*(.*)", line)):
            authors = found.setdefault(folder, [])
            if hit[1]:
                authors.append({})
            if authors:
                authors[-1][hit[2]] = hit[3].strip().strip("'\"")
    return {
        folder: [
            names for author in authors if (names := tuple(filter(None, map(author.get, ("name", "email", "sid")))))
        ]
        for folder, authors in found.items()
    }


def _named(groups: Sequence[_Group]) -> list[HandIn]:
    """Give each a file name of its own."""
    files = [re.sub(r"[^A-Za-z0-9._-]", "_", group.student)[:100] for group in groups]
    often = Counter(file.lower() for file in files)
    named = []
    same = Counter(group.student.lower() for group in groups)
    for group, file in zip(groups, files, strict=True):
        notes = list(dict.fromkeys(group.notes))
        if file != group.student or often[file.lower()] > 1 or file.startswith("."):
            file += "~" + hashlib.sha256(os.fsencode(group.key)).hexdigest()[:8]
        if same[group.student.lower()] > 1:
            notes.append("another submission has the same name, or one that differs only in capital letters")
        named.append(
            HandIn(printable(group.student)[:200], file.lstrip("."), tuple(group.parts), tuple(notes), group.aliases)
        )
    return named
