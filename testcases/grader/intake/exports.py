"""Who handed in what, as people lay out a folder, or as Canvas, Moodle, Gradescope or GitHub export one."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testcases.harness.catalog import lesson_names

from ..text import clean
from .archives import Unreadable, is_archive, read_file, stem_of

CANVAS = re.compile(
    r"(?P<name>[^\s!-/:-@\[-^`{-~]+?)_(LATE_)?(?P<id>\d+|(?:(?<=^anon_)|(?<=^anon_LATE_))\w{5})_"
    r"((?P<number>\d+)_(?P<file>.+)|(?P<typed>(text|link)\.html))"
)
"""Graded anonymously, everybody is called "anon", and has five letters or digits. A typed text has no number. A name
is what Canvas leaves of it: letters, digits and "_"."""
CANVAS_VERSION = re.compile(r"-(\d+)(?=\.[^.]+(\.[^.]+)?$)")
MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(file|onlinetext)([_.](?P<file>.*))?", re.IGNORECASE)
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
    """The name of the folder or archive, which no other in the class has."""
    file_name: str = ""
    """Of the result, without ".json"."""
    parts: list[tuple[Path, str]] = field(default_factory=list)
    """Where it is, and the name that it has in the submission."""
    notes: list[str] = field(default_factory=list)
    name: str = ""
    """Of the person, as the platform writes it."""
    ids: tuple[str, ...] = ()
    """What the platform knows the person by, the surest first."""
    system: str = "folder"
    """Whose layout it is, such as "Canvas"."""
    older: list[str] = field(default_factory=list)
    """Files of earlier attempts."""

    @property
    def told(self) -> dict[str, Any]:
        """What the export says of it, which is in its result and no part of the mark."""
        return {"system": self.system, "name": clean(self.name), "ids": [clean(one) for one in self.ids]}


def find(folder: Path) -> list[HandIn]:
    """All submissions in a folder, each with a name of its own for its result.

    Raises:
        ValueError: it is one submission, or a file, and not a folder of submissions; or nothing is there.
    """
    if folder.is_file():
        raise ValueError(f"SUBMISSIONS: expected a folder, got a file, {str(folder)!r}; unpack it into a folder")
    if not folder.is_dir():
        raise ValueError(f"SUBMISSIONS: there is no folder {str(folder)!r}")
    names = sorted(os.listdir(folder))
    if own := [name for name in names if name in ("tutorial", *lesson_names())]:
        raise ValueError(
            f"expected a folder with one subfolder (or archive) a student, got one with {own[0]} in it: "
            f"put it into a folder of the student's name"
        )
    uploads = _uploads(folder / METADATA)
    groups: dict[tuple[Any, str], list[tuple[Path, re.Match[str] | None]]] = {}
    for name in names:
        path = folder / name
        is_hidden = name.startswith(".") and not path.is_dir() and not is_archive(name)
        if not (NOT_SUBMITTED.fullmatch(name) or KEPT_BESIDE.fullmatch(name) or is_hidden):
            hit = MOODLE.fullmatch(name) or (None if path.is_dir() else CANVAS.fullmatch(name))
            key = (hit.re, f"{hit['name']}_{hit['id']}") if hit else (None, name)
            groups.setdefault(key, []).append((path, hit))
    return _named([one for (_, name), parts in groups.items() for one in _hand_ins(name, parts, uploads)])


def find_outside(folder: Path, out: Path) -> list[HandIn]:
    """Raises ValueError: it is no folder of submissions, or `out` lies in it."""
    if out.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"OUT: expected a folder outside {str(folder)!r}, in which everything is a submission")
    return find(folder)


def told(folder: Path, found: Sequence[HandIn]) -> str:
    """What is a submission here, in a sentence."""
    beside = [clean(name) for name in sorted(os.listdir(folder)) if KEPT_BESIDE.fullmatch(name)]
    but = f", but {', '.join(beside)}: whoever handed such a file in has no row" if beside else ""
    only = f": there is only one, {found[0].student}" if len(found) == 1 else ""
    return f"each thing in {clean(folder)} is a submission{only}{but}"


def _hand_ins(name: str, parts: list[tuple[Path, Any]], uploads: dict[str, list[dict[str, str]]]) -> Iterator[HandIn]:
    path, hit = parts[0]
    if hit and hit.re is CANVAS:
        yield _of_canvas(name, parts)
    elif hit:
        person = "" if hit["name"].startswith("Participant") else hit["name"]
        places = [(path, one["file"] or path.name) for path, one in parts]
        yield HandIn(name, parts=places, name=person, ids=(f"Participant {hit['id']}",), system="Moodle")
    elif authors := uploads.get(name):
        for author in authors:
            person, ids = author.get("name", ""), tuple(filter(None, (author.get("email"), author.get("sid"))))
            student = name if len(authors) == 1 else f"{name} {person or ids[0]}"
            notes = [f"handed in by {len(authors)} people together"] if len(authors) > 1 else []
            yield HandIn(student, parts=[(path, name)], notes=notes, name=person, ids=ids, system="Gradescope")
    else:
        stem = stem_of(name)
        system = "folder" if path.is_dir() else "archive" if stem != name else "file"
        yield HandIn(stem, parts=[(path, name)], system="GitHub" if (path / ".git").exists() else system)


def _of_canvas(name: str, parts: list[tuple[Path, Any]]) -> HandIn:
    """Of two attempts at one file the newest counts: Canvas counts both up in its name."""
    found = HandIn(name, system="Canvas", name=parts[0][1]["name"], ids=(parts[0][1]["id"],))
    newest: dict[str, Path] = {}
    for path, hit in sorted(parts, key=lambda part: _attempt(part[1])):
        file = CANVAS_VERSION.sub("", hit["file"] or hit["typed"])
        found.older += [newest[file].name] if file in newest else []
        newest[file] = path
    found.parts = [(path, file) for file, path in sorted(newest.items())]
    return found


def _attempt(hit: re.Match[str]) -> tuple[int, int]:
    version = CANVAS_VERSION.search(hit.string)
    return int(version[1]) if version else 0, int(hit["number"] or 0)


def _uploads(metadata: Path) -> dict[str, list[dict[str, str]]]:
    """The authors by folder, from Gradescope's list."""
    import yaml

    def texts(author: Any) -> dict[str, str]:
        known = author.items() if isinstance(author, dict) else ()
        return {str(key).strip(":"): str(value) for key, value in known if value}

    try:
        listed = yaml.load(read_file(metadata, 50_000_000), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return {
            name: [author for one in upload[":submitters"] if {"name", "email", "sid"} & (author := texts(one)).keys()]
            for name, upload in listed.items()
            if isinstance(upload, dict) and isinstance(upload.get(":submitters"), list)
        }
    except (Unreadable, yaml.YAMLError, ValueError, AttributeError, RecursionError):
        return {}


def _named(found: Sequence[HandIn]) -> list[HandIn]:
    """Give each a name of its own that can be printed, and a file name."""
    shown = [clean(one.student) or "(no name)" for one in found]
    keys = [unicodedata.normalize("NFC", name.casefold().strip()) for name in shown]
    often = Counter(keys)
    files = Counter(_file_name(name).lower() for name in shown)
    for one, name, key in zip(found, shown, keys, strict=True):
        mark = hashlib.sha256(os.fsencode("\0".join([one.student, one.parts[0][0].name]))).hexdigest()[:8]
        file = _file_name(name)
        if file != one.student or files[file.lower()] > 1:
            file += f"~{mark}"
        if often[key] > 1:
            one.notes.append("another submission has the same name, or one that differs only in capital letters")
            name = f"{name.strip()} ~{mark}"
        one.student, one.file_name = name, file
    return [*found]


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100].lstrip(".")
