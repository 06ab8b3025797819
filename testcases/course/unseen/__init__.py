"""Answers that the banks have not seen: written from the stubs and the texts, before solution or bank was read.

`right` holds an answer of our own to each exercise. A row of `singles` and `drafts` is that answer with changes in it:
the exercise, what a right cause says (a regular expression; in a draft one for each mistake), and the changes, each
`old => new`. In `judged` is what a person found of those that say none of these words: vague, false or silent.
"""

import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

HEADS = "Likely cause:", "One of several causes:", "Must hold:", "Your file defines"


class Row(NamedTuple):
    name: str
    exercise: str
    verdict: Callable[[str], str]
    """What a sentence is worth: right, partly (some of several mistakes), or to be looked at."""
    changes: Sequence[str]


def rows(kind: str = "all") -> list[Row]:
    single = [
        Row(f"single {i} {exercise}", exercise, _verdict([words]), changes)
        for i, (exercise, words, *changes) in enumerate(_read("singles"))
    ]
    drafts = [
        Row(f"draft {i} {exercise}", exercise, _verdict(words), changes)
        for i, (exercise, words, *changes) in enumerate(_read("drafts"))
    ]
    return {"singles": single, "drafts": drafts, "all": [*single, *drafts]}[kind]


def _read(name: str) -> list[list[Any]]:
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))["rows"]


def judged() -> dict[str, list[str]]:
    """Verdict -> the names of the rows."""
    return tomllib.loads((Path(__file__).parent / "judged.toml").read_text("utf-8"))


def _verdict(words: Sequence[str]) -> Callable[[str], str]:
    def of(said: str) -> str:
        found = sum(bool(re.search(one, said)) for one in words)
        return "right" if found == len(words) else "partly" if found else "look"

    return of


def heard(report: str) -> str:
    """The cause that a report names, on one line; empty where it names none."""
    lines = report.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip().startswith(HEADS)), None)
    if first is None:
        return ""
    last = next((i for i in range(first, len(lines)) if lines[i].strip().startswith(("Read:", "Run:", "Hint:"))), None)
    return " ".join(" ".join(lines[first:last]).split())
