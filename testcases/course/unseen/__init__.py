"""Answers that the banks have not seen: written from the stubs and the texts, before solution or bank was read.

`right` holds an answer of our own to each exercise. A row of `singles` and `drafts` is that answer with changes in it:
the exercise, what a right cause says (a regular expression; in a draft one for each mistake), and the changes, each
`old => new`. One of `files` is a whole lesson, as somebody hands it in. In `judged` is what a person found of those
that say none of these words: vague, false or silent.
"""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .right import RIGHT


class Row(NamedTuple):
    name: str
    exercise: str
    words: Sequence[str]
    """For each mistake what a right cause says; none where the answer is right."""
    bodies: dict[str, str]
    """The student's answers, by exercise."""

    def verdict(self, said: str) -> str:
        """What a sentence is worth: right, partly (some of several mistakes), or to be looked at."""
        found = sum(bool(re.search(one, said)) for one in self.words)
        return "right" if found == len(self.words) else "partly" if found else "look"


def rows(kind: str = "all") -> list[Row]:
    """Of `singles`, `drafts` or `files`, or of all."""
    found = []
    for name in ("singles", "drafts") if kind == "all" else {kind} - {"files"}:
        for i, (exercise, words, *changes) in enumerate(_read(name)["rows"]):
            every = [words] if isinstance(words, str) else words
            found.append(Row(f"{name[:-1]} {i} {exercise}", exercise, every, {exercise: changed(exercise, changes)}))
    for i, file in enumerate(_read("files")["files"] if kind in ("all", "files") else ()):
        for exercise in file["code"]:
            found.append(Row(f"file {i} {exercise}", exercise, file["wrong"].get(exercise, ()), file["code"]))
    return found


def changed(exercise: str, changes: Sequence[str]) -> str:
    """Our answer with these changes in it.

    Raises:
        LookupError: what one of them replaces doesn't stand there.
    """
    body = RIGHT[exercise]
    for change in changes:
        old, _, new = change.partition(" => ")
        if old not in body:
            raise LookupError(f"{exercise}: {old!r}")
        body = body.replace(old, new)
    return body


def _read(name: str) -> Any:
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))


def judged() -> dict[str, list[str]]:
    """Verdict -> the names of the rows."""
    return _read("judged")
