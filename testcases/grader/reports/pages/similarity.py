"""Submissions that resemble each other too much: a flag for the instructor, never a mark.

copydetect (Winnowing: Schleimer, Wilkerson and Aiken, 2003) turns code into hashes of passages that survive new names,
comments and layout. What a student did not write is taken out first: the lines of the stubs, then the passages of the
course's own solutions, then passages that many submissions have. The rest is compared all with all.
"""

import contextlib
import io
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..marks import clean

PASSAGE = 25
"""Characters of a passage, names counted as one character: copydetect's own default."""
SHARE, LEAST = 60.0, 150
"""A flag needs this percent of one's own passages, and this many: short answers are alike by nature."""
FILE_SHARE, FILE_LEAST = 80.0, 120
"""The same for a single file, so that one copied lesson among nine of one's own is seen."""
COMMON, COMMON_SHARE = 10, 0.1
"""A passage in more submissions than this (a number, or a share of the class) is no evidence."""
MAX_TEXT = 30_000
"""Letters of one's own in a file; the longest solution has 5,400."""
MAX_PAIRS = 200
FILE_SECONDS = 5.0
BLOCK = 8192


@dataclass(frozen=True)
class Pair:
    """Two submissions."""

    first: str
    second: str
    first_percent: float
    """Share of the first one's own passages that the second has."""
    second_percent: float
    passages: int
    """In common."""
    files: tuple[str, ...]
    """Where, with the percent of that file; the closest first."""


@dataclass(frozen=True)
class Report:
    """The flags, and what could not be compared."""

    pairs: tuple[Pair, ...] = ()
    notes: tuple[str, ...] = ()


class TooSlow(Exception):
    """One file took too long."""


def look(submissions: Path, shown: Mapping[str, str] | None = None) -> Report:
    """Compare all submissions of a folder. The same folder gives the same report.

    Args:
        shown: what the reports call a student.
    """
    from testcases.harness.catalog import text_of
    from testcases.harness.oracle import all_stubs

    from ...intake import find, read_submission

    stubs = all_stubs()
    prints: dict[str, dict[str, Any]] = {}
    students: dict[str, str] = {}
    notes: list[str] = []
    for hand_in in find(submissions):
        students[hand_in.file_name] = (shown or {}).get(hand_in.student, hand_in.student)
        prints[hand_in.file_name] = {}
        for path, data in read_submission(hand_in).files.items():
            if not path.endswith(".py"):
                continue
            stub = stubs.get(path, "")
            known = _passages_given(path, stub)
            try:
                with _in_time(FILE_SECONDS):
                    text = own_text(text_of(data), stub)
                    prints[hand_in.file_name][path] = np.setdiff1d(fingerprints(text), known)
            except Exception as error:  # Whatever the text does to the tool, the others are compared.
                notes.append(clean(f"similarity: {path} of {hand_in.student} left out ({type(error).__name__})"))
    pairs = compare(prints)
    if len(pairs) > MAX_PAIRS:
        notes.append(f"similarity: {len(pairs)} pairs, of which the closest {MAX_PAIRS} are named")
    named = [Pair(students[pair[0]], students[pair[1]], *pair[2:]) for pair in pairs[:MAX_PAIRS]]
    return Report(tuple(named), tuple(notes[:50]))


def own_text(text: str, stub: str) -> str:
    """The lines that the stub does not have. Works on broken code, too."""
    given = {line.strip() for line in stub.splitlines()}
    lines = [line for line in text.splitlines() if line.strip() and line.strip() not in given]
    return ("\n".join(lines) + "\n")[:MAX_TEXT]


def fingerprints(text: str) -> Any:
    """The passages of one text: an int64 array, sorted, each once."""
    from copydetect import CodeFingerprint

    # A window of 1 keeps every passage, so that it does not matter which hashes Python gives to them in this run.
    return np.unique(np.array(list(CodeFingerprint("x.py", PASSAGE, 1, fp=io.StringIO(text)).hashes), dtype=np.int64))


def compare(prints: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, float, float, int, tuple[str, ...]]]:
    """Pairs that share too much, from submission -> file -> passages; the closest first.

    A pair is found if the whole submissions are too close, or one file of them is. With it come the percentages and
    the number of passages of the whole, and the closest files.
    """
    names = sorted(prints)
    nothing = np.array([], dtype=np.int64)
    shared, percent = _overlap([np.unique(np.concatenate([nothing, *prints[name].values()])) for name in names])
    found: dict[tuple[int, int], dict[str, float]] = {pair: {} for pair in _close(shared, percent, SHARE, LEAST)}
    for file in sorted({file for own in prints.values() for file in own}):
        in_file, of_file = _overlap([prints[name].get(file, nothing) for name in names])
        for pair in _close(in_file, of_file, FILE_SHARE, FILE_LEAST):
            found.setdefault(pair, {})
        for i, j in found:
            if in_file[i, j]:
                found[i, j][file] = max(of_file[i, j], of_file[j, i])
    rows = []
    for (i, j), places in found.items():
        closest = sorted(places.items(), key=lambda item: (-item[1], item[0]))[:5]
        where = tuple(f"{file} {share:.0f}%" for file, share in closest)
        rows.append((names[i], names[j], float(percent[i, j]), float(percent[j, i]), int(shared[i, j]), where))
    return sorted(rows, key=lambda row: (-max(row[2], row[3]), -row[4], row[0], row[1]))


def rows(report: Report) -> Iterable[tuple[object, ...]]:
    """For a CSV file."""
    yield "first", "second", "first_percent", "second_percent", "passages", "files"
    for pair in report.pairs:
        percents = round(pair.first_percent, 1), round(pair.second_percent, 1)
        yield pair.first, pair.second, *percents, pair.passages, "; ".join(pair.files)
    for note in report.notes:
        yield "note", None, None, None, None, note


def _close(shared: Any, percent: Any, share: float, least: int) -> list[tuple[int, int]]:
    first, second = np.nonzero(np.triu((np.maximum(percent, percent.T) >= share) & (shared >= least), 1))
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _overlap(passages: list[Any]) -> tuple[Any, Any]:
    """How many passages each two submissions share, and the percent of one's own; common ones do not count."""
    owners = np.repeat(np.arange(len(passages)), [len(own) for own in passages])
    values = np.concatenate([np.array([], dtype=np.int64), *passages])
    _, column, often = np.unique(values, return_inverse=True, return_counts=True)
    rare = often[column] <= max(COMMON, COMMON_SHARE * len(passages))
    own = np.bincount(owners[rare], minlength=len(passages))
    useful = rare & (often[column] > 1)
    shared = _products(owners[useful], column[useful], len(passages))
    return shared, 100.0 * shared / np.maximum(own, 1)[:, None]


def _products(owners: Any, column: Any, count: int) -> Any:
    """How many passages each two submissions share; a block of passages at a time, so that memory is bounded."""
    order = np.argsort(column, kind="stable")
    owners, column = owners[order], np.unique(column[order], return_inverse=True)[1]
    shared = np.zeros((count, count), dtype=np.float32)
    for start in range(0, int(column[-1]) + 1 if len(column) else 0, BLOCK):
        low, high = np.searchsorted(column, [start, start + BLOCK])
        block = np.zeros((count, BLOCK), dtype=np.float32)
        block[owners[low:high], column[low:high] - start] = 1.0
        shared += block @ block.T
    return shared


@cache
def _passages_given(path: str, stub: str) -> Any:
    """The passages of the solution of one file below `tutorial/`; none if the course has no such file."""
    from testcases.harness.catalog import SOLUTIONS

    file = SOLUTIONS / path
    return fingerprints(own_text(file.read_text("utf-8"), stub)) if stub and file.is_file() else ()


@contextlib.contextmanager
def _in_time(seconds: float) -> Iterator[None]:
    """Raise TooSlow after so many seconds of this process's own time, so that a busy machine changes nothing."""

    def stop(*_: object) -> None:
        raise TooSlow

    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
