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
from pathlib import Path

from testcases.harness.catalog import lesson_names

from .archives import Unreadable, is_archive, printable, read_file, stem_of

CANVAS = re.compile(
    r"(?P<student>[^\s!-/:-@\[-^`{-~]+?_)(?P<late>LATE_)?(?P<id>\d+|(?:(?<=^anon_)|(?<=^anon_LATE_))\w{5})_"
    r"((?P<number>\d+)_(?P<file>.+)|(?P<typed>(text|link)\.html))"
)
"""Graded anonymously, everybody is called "anon", and has five letters or digits. A typed text has no number. A name
is what Canvas leaves of it: letters, digits and "_"."""
CANVAS_VERSION = re.compile(r"-(\d+)(?=\.[^.]+(\.[^.]+)?$)")
MOODLE = re.compile(r"(?P<student>.+?_\d+_assignsubmission_)(file|onlinetext)([_.](?P<file>.*))?", re.IGNORECASE)
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
    key: str = ""
    """Which no other has."""


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
    often = Counter(system for name in names for system in _hits(folder / name))
    for name in names:
        _add(groups, folder / name, often)
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
            text += (
                f". There is only one, {found[0].student}, so if it holds the work of several people, unpack it and "
                "give make check the folder in it"
            )
    return text


def kept_beside(folder: Path) -> list[str]:
    """The tables and settings that lie among the submissions and are none."""
    return [name for name in sorted(os.listdir(folder)) if KEPT_BESIDE.fullmatch(name)]


def _hits(path: Path) -> dict[str, re.Match[str]]:
    """System -> how its pattern reads the name."""
    patterns = {"Moodle": MOODLE} if path.is_dir() else {"Moodle": MOODLE, "Canvas": CANVAS}
    return {system: hit for system, pattern in patterns.items() if (hit := pattern.fullmatch(path.name))}


def _add(groups: dict[tuple[str, str], HandIn], path: Path, often: Counter[str]) -> None:
    """Put one thing in the folder where it belongs: a name alone can be read in several ways.

    Args:
        often: system -> how many names look like its own.
    """
    name = path.name
    if hits := _hits(path):
        system = max(hits, key=lambda system: often[system])
        ADD[system](groups, path, hits[system])
    else:
        system = "folder" if path.is_dir() else "archive" if stem_of(name) != name else "file"
        system = "repository" if (path / ".git").exists() else system
        groups["", name] = HandIn(stem_of(name), parts=[(path, name)], system=system, key=name)


def _add_canvas(groups: dict[tuple[str, str], HandIn], path: Path, hit: re.Match[str]) -> None:
    student = hit["student"] + hit["id"]
    group = groups.setdefault(("canvas", student), HandIn(student, system="Canvas", key=f"canvas\0{student}"))
    group.notes += ["handed in late, as Canvas says"] if hit["late"] else []
    group.parts.append((path, CANVAS_VERSION.sub("", hit["file"] or hit["typed"])))
    group.parts.sort(key=_version)


def _add_moodle(groups: dict[tuple[str, str], HandIn], path: Path, hit: re.Match[str]) -> None:
    student = path.name if path.is_dir() else f"{hit['student']}file_"
    group = groups.setdefault(("moodle", hit["student"]), HandIn(student, system="Moodle", key=student))
    group.parts.append((path, hit["file"] or path.name))


ADD: dict[str, Callable[[dict[tuple[str, str], HandIn], Path, re.Match[str]], None]] = {
    "Canvas": _add_canvas,
    "Moodle": _add_moodle,
}


def _version(part: tuple[Path, str]) -> tuple[int, int]:
    """What Canvas counts up with each attempt."""
    name = part[0].name
    number, version = CANVAS.fullmatch(name), CANVAS_VERSION.search(name)
    return int(version[1]) if version else 0, int(number["number"] or 0) if number else 0


def _is_hidden_file(path: Path) -> bool:
    """Such as .gitkeep; a folder or an archive is a submission whatever its name."""
    return path.name.startswith(".") and not path.is_dir() and not is_archive(path.name)


def _of_gradescope(group: HandIn, uploads: dict[str, list[dict[str, str]]]) -> Iterator[HandIn]:
    """One for each of its authors, where the export tells them."""
    found = [
        tuple(filter(None, map(author.get, ("name", "email", "sid")))) for author in uploads.get(group.student, [])
    ]
    authors = [names for names in found if names]
    for names in authors:
        others = f"handed in by {len(authors)} people together" if len(authors) > 1 else ""
        notes = [*group.notes, *filter(None, [others])]
        aliases, key = (*names[1:], group.student), f"{group.key}\0{names[0]}"
        yield HandIn(names[0], "", group.parts, notes, aliases, "Gradescope", key=key)
    if not authors:
        yield group


def _uploads(metadata: Path) -> dict[str, list[dict[str, str]]]:
    """The authors by folder, from Gradescope's list."""
    try:
        text = read_file(metadata, 50_000_000).decode("utf-8", "replace")
    except Unreadable:
        return {}
    found: dict[str, list[dict[str, str]]] = {}
    authors: list[dict[str, str]] = []
    inside = False
    for line in text.splitlines():
        if hit := re.fullmatch(r"['\"]?([^\s:'\"][^:'\"]*)['\"]?:\s*", line):
            authors, inside = found.setdefault(hit[1], []), False
        elif hit := re.fullmatch(r"  :(\w+):(.*)", line):
            inside = hit[1] == "submitters"
        elif inside and (hit := re.fullmatch(r"  (- |  ):(name|email|sid):\s*(.*)", line)):
            # Further in lie the lines of a name that has several, and they may say anything.
            if hit[1] == "- ":
                authors.append({})
            if authors:
                authors[-1][hit[2]] = hit[3].strip().strip("'\"")
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
