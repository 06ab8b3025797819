"""Who handed in what, as people lay out a folder, or as Canvas, Moodle, Gradescope or GitHub export one."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testcases.harness.catalog import lesson_names

from ..text import clean, name_of
from .archives import stem_of

CANVAS = re.compile(
    r"((?P<name>[^\s!-/:-@\[-^`{-~]+?)_(LATE_)?(?P<id>\d+)|anon_(LATE_)?(?P<anonymous>\w{5}))_(?P<number>\d+)_(?P<file>.+)"
)
"""A name is what Canvas leaves of it: letters, digits and "_". Graded anonymously, everybody is called "anon"."""
CANVAS_VERSION = re.compile(r"-\d+(?=\.[^.]+(\.[^.]+)?$)")
MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(file|onlinetext)([_.](?P<file>.*))?", re.IGNORECASE)
METADATA = "submission_metadata.yml"
NOT_SUBMITTED = re.compile(
    rf"\..*|__MACOSX|__pycache__|README.*|index\.html|Thumbs\.db|desktop\.ini|.*\.(csv|toml|xlsx)|{METADATA}"
)
"""The system's, and what an instructor keeps beside the submissions."""


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
        ValueError: one sentence about what is wrong: such as one submission, and not a folder of them.
    """
    if folder.is_file():
        raise ValueError(f"SUBMISSIONS: expected a folder, got a file, {str(folder)!r}; unpack it into a folder")
    if not folder.is_dir():
        raise ValueError(f"SUBMISSIONS: there is no folder {str(folder)!r}")
    paths = sorted(folder.iterdir())
    tops = "tutorial", *lesson_names()
    if own := [path.name for path in paths if path.name in tops]:
        raise ValueError(
            f"expected a folder with one subfolder (or archive) a student, got one with {own[0]} in it: "
            f"put it into a folder of the student's name"
        )
    authors = _authors(folder / METADATA)
    found: list[HandIn] = []
    by_key: dict[tuple[re.Pattern[str], str], list[tuple[Path, re.Match[str]]]] = {}
    for path in paths:
        if hit := MOODLE.fullmatch(path.name) or CANVAS.fullmatch(path.name):
            by_key.setdefault((hit.re, f"{hit['name'] or 'anon'}_{_id(hit)}"), []).append((path, hit))
        elif authors.get(path.name):
            found += _of_gradescope(path, authors[path.name])
        elif not NOT_SUBMITTED.fullmatch(path.name) or (
            path.name[0] == "." and any(os.path.isdir(path / top) for top in tops)  # A student's, for all that.
        ):
            is_clone = os.path.exists(path / ".git")  # Path.exists raises at a folder that may not be read.
            system = "GitHub" if is_clone else "folder" if path.is_dir() else "archive"
            found.append(HandIn(stem_of(path.name), parts=[(path, path.name)], system=system))
    for (platform, key), parts in by_key.items():
        found.append((_of_canvas if platform is CANVAS else _of_moodle)(key, parts))
    return _named(sorted(found, key=lambda one: one.student))


def _id(hit: re.Match[str]) -> str:
    return str(hit["id"] or hit["anonymous"])


def _of_moodle(key: str, parts: list[tuple[Path, re.Match[str]]]) -> HandIn:
    hit = parts[0][1]
    person = "" if hit["name"].startswith("Participant") else hit["name"]
    places = [(path, one["file"] or path.name) for path, one in parts]
    return HandIn(key, parts=places, name=person, ids=(f"Participant {hit['id']}",), system="Moodle")


def _of_canvas(key: str, parts: list[tuple[Path, re.Match[str]]]) -> HandIn:
    """Of two attempts at one file the newest counts: Canvas numbers all uploads."""
    hit = parts[0][1]
    found = HandIn(key, system="Canvas", name=hit["name"] or "anon", ids=(_id(hit),))
    newest: dict[str, Path] = {}
    for path, hit in sorted(parts, key=lambda part: int(part[1]["number"])):
        file = CANVAS_VERSION.sub("", hit["file"])
        found.older += [newest[file].name] if file in newest else []
        newest[file] = path
    found.parts = [(path, file) for file, path in sorted(newest.items())]
    return found


def _of_gradescope(path: Path, authors: Sequence[dict[str, str]]) -> list[HandIn]:
    """One for each author of it."""
    found = []
    for author in authors:
        ids = tuple(filter(None, (author.get("email"), author.get("sid"))))
        one = HandIn(path.name, parts=[(path, path.name)], name=author.get("name", ""), ids=ids, system="Gradescope")
        if len(authors) > 1:
            one.student = f"{path.name} {one.name or one.ids}"
            one.notes = [f"handed in by {len(authors)} people together"]
        found.append(one)
    return found


def _authors(metadata: Path) -> dict[str, list[dict[str, str]]]:
    """The authors by folder, from Gradescope's list.

    Raises:
        ValueError: it is not as Gradescope writes it.
    """
    import yaml

    if not metadata.exists():
        return {}
    try:
        listed = yaml.load(metadata.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return {
            name: [{key.strip(":"): str(value) for key, value in one.items() if value} for one in upload[":submitters"]]
            for name, upload in listed.items()
        }
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        why = clean(f"{type(error).__name__}: {error}")
        raise ValueError(
            f"{METADATA}: expected the list that Gradescope exports, and it cannot be read ({why})"
        ) from None


def _named(found: Sequence[HandIn]) -> list[HandIn]:
    """Give each a name of its own that can be printed, and a file name."""
    shown = [name_of(one.student) or "(no name)" for one in found]
    keys = [unicodedata.normalize("NFC", name.casefold()) for name in shown]
    often = Counter(keys)
    files = Counter(_file_name(name).lower() for name in shown)
    for one, name, key in zip(found, shown, keys, strict=True):
        # Two who handed in together may have one name, too.
        mark = hashlib.sha256(os.fsencode("\0".join([one.student, one.parts[0][0].name, *one.ids]))).hexdigest()[:8]
        file = _file_name(name)
        if file != one.student or files[file.lower()] > 1:
            file += f"~{mark}"
        if often[key] > 1:
            one.notes.append("another submission has the same name, or one that differs only in capital letters")
            name = f"{name[:100]} ~{mark}"
        one.student, one.file_name = name, file
    return [*found]


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:100].lstrip(".")
