"""Submissions that resemble each other too much: a flag for the instructor, never a mark.

copydetect (Winnowing: Schleimer, Wilkerson and Aiken, 2003) turns code into fingerprints that survive new names,
comments and layout. What a student did not write is taken out first: the lines of the stubs, then the passages of the
course's own solutions, then passages that many submissions have. The rest is compared all with all by one product of
matrices.

It runs in a process of its own, with a limit of time: what it reads was written by students.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .text import clean

PASSAGE = 25
"""Characters of a passage, names counted as one character: copydetect's own default."""
SHARE, LEAST = 60.0, 150
"""A flag needs this percent of one's own passages, and this many: short answers are alike by nature."""
FILE_SHARE, FILE_LEAST = 80.0, 120
"""The same for a single file, so that one copied lesson among nine of one's own is seen."""
COMMON, COMMON_SHARE = 10, 0.1
"""A passage in more submissions than this (a number, or a share of the class) is no evidence."""
MAX_TEXT = 100_000
MAX_PAIRS = 200
SECONDS_PER_FILE = 2.0
ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Pair:
    """Two submissions, by the names of the students and of their results."""

    first: str
    second: str
    first_file: str
    second_file: str
    first_percent: float
    """Share of the first one's own passages that the second has."""
    second_percent: float
    passages: int
    """In common."""
    files: tuple[str, ...]
    """Where, with the percent of that file."""


@dataclass(frozen=True)
class Report:
    """The flags, and what could not be compared."""

    pairs: tuple[Pair, ...] = ()
    notes: tuple[str, ...] = ()


class TooSlow(Exception):
    """One file took too long."""


def look(submissions: Path, seconds: float | None = None) -> Report:
    """Compare all submissions of a folder, in another process."""
    # Fixed hashes: two runs find the same.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg"}
    command = [sys.executable, "-m", "testcases.grader.reports.similarity", str(submissions.resolve())]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.json"
        try:
            limit = 60.0 + 3.0 * len(os.listdir(submissions)) if seconds is None else seconds
            done = subprocess.run(
                [*command, str(target)], cwd=ROOT, env=environment, timeout=limit, capture_output=True
            )
            if done.returncode:
                said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it died"]
                return Report(notes=(clean(f"similarity could not be looked at: {said[-1]}", 500),))
            data = json.loads(target.read_text("utf-8"))
        except subprocess.TimeoutExpired:
            return Report(notes=(f"similarity: not finished within {limit:.0f} seconds, so no pair is named",))
        except (OSError, ValueError) as error:
            return Report(notes=(clean(f"similarity could not be looked at: {error}", 500),))
    pairs = tuple(Pair(**{**pair, "files": tuple(pair["files"])}) for pair in data["pairs"])
    return Report(pairs, tuple(data["notes"]))


def own_text(text: str, stub: str) -> str:
    """The lines that the stub does not have. Works on broken code, too."""
    given = {line.strip() for line in stub.splitlines()}
    lines = [line for line in text[:MAX_TEXT].splitlines() if line.strip() and line.strip() not in given]
    return "\n".join(lines) + "\n"


def fingerprints(text: str, known: Any = ()) -> Any:
    """The passages of one text, without those that are known: an int64 array, sorted."""
    import numpy as np
    from copydetect import CodeFingerprint

    # A window of 1 keeps every passage: the texts are small, and nothing is left to the choice of a minimum.
    found = CodeFingerprint("x.py", PASSAGE, 1, boilerplate=known, language="python", fp=io.StringIO(text))
    return np.array(sorted(found.hashes), dtype=np.int64)


def compare(prints: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, float, float, int, list[str]]]:
    """Pairs that share too much, from submission -> file -> passages; the closest first.

    A pair is found if the whole submissions are too close, or one file of them is. With it come the percentages and
    the number of passages of the whole, and the closest files.
    """
    import numpy as np

    names = sorted(prints)
    files = sorted({file for own in prints.values() for file in own})
    nothing = np.array([], dtype=np.int64)
    shared, percent = _overlap([np.unique(np.concatenate([nothing, *prints[name].values()])) for name in names])
    found = {pair: {} for pair in _pairs(shared, percent, SHARE, LEAST)}
    for file in files:
        in_file, of_file = _overlap([prints[name].get(file, nothing) for name in names])
        for pair in _pairs(in_file, of_file, FILE_SHARE, FILE_LEAST):
            found.setdefault(pair, {})
        for i, j in found:
            if in_file[i, j]:
                found[i, j][file] = max(of_file[i, j], of_file[j, i])
    rows = []
    for (i, j), places in found.items():
        closest = sorted(places.items(), key=lambda item: (-item[1], item[0]))[:5]
        where = [f"{file} {share:.0f}%" for file, share in closest]
        rows.append((names[i], names[j], float(percent[i, j]), float(percent[j, i]), int(shared[i, j]), where))
    return sorted(rows, key=lambda row: (-max(row[2], row[3]), -row[4], row[0], row[1]))


def _pairs(shared: Any, percent: Any, share: float, least: int) -> list[tuple[int, int]]:
    import numpy as np

    first, second = np.nonzero(np.triu((np.maximum(percent, percent.T) >= share) & (shared >= least), 1))
    return list(zip(first.tolist(), second.tolist(), strict=True))


def _overlap(rows: list[Any]) -> tuple[Any, Any]:
    """How many passages each two submissions share, and the percent of one's own; common ones do not count."""
    import numpy as np

    owners = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    values = np.concatenate([np.array([], dtype=np.int64), *rows])
    _, column, often = np.unique(values, return_inverse=True, return_counts=True)
    rare = often[column] <= max(COMMON, COMMON_SHARE * len(rows))
    own = np.bincount(owners[rare], minlength=len(rows))
    useful = rare & (often[column] > 1)
    shared = _products(owners[useful], column[useful], len(rows))
    return shared, 100.0 * shared / np.maximum(own, 1)[:, None]


def _products(owners: Any, column: Any, count: int) -> Any:
    """How many passages each two submissions share; a block of passages at a time, so that memory is bounded."""
    import numpy as np

    order = np.argsort(column, kind="stable")
    owners, column = owners[order], np.unique(column[order], return_inverse=True)[1]
    shared = np.zeros((count, count), dtype=np.float32)
    for start in range(0, int(column[-1]) + 1 if len(column) else 0, 8192):
        low, high = np.searchsorted(column, [start, start + 8192])
        block = np.zeros((count, 8192), dtype=np.float32)
        block[owners[low:high], column[low:high] - start] = 1.0
        shared += block @ block.T
    return shared


def _known() -> tuple[dict[str, str], dict[str, Any]]:
    """By path below `tutorial/`: the stub, and the passages of the solution."""
    from testcases.harness.contract import SOLUTIONS
    from testcases.harness.stubs import all_stubs

    stubs = all_stubs()
    passages = {}
    for path, stub in stubs.items():
        solution = SOLUTIONS / path
        text = own_text(solution.read_text("utf-8"), stub) if solution.is_file() else ""
        passages[path] = fingerprints(text)
    return stubs, passages


def _read(submissions: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str], list[str]]:
    """Result name -> file -> passages; result name -> student; and notes."""
    from testcases.grader.staging import find, stage

    stubs, known = _known()
    prints: dict[str, dict[str, Any]] = {}
    students, notes = {}, []
    for entry in find(submissions):
        students[entry.file_name] = entry.student
        own: dict[str, Any] = {}
        for path, data in stage(entry).files.items():
            text = own_text(data.decode("utf-8", "replace"), stubs.get(path, ""))
            try:
                if text.strip():
                    own[path] = _in_time(text, known.get(path, ()))
            except Exception as error:  # Whatever the text does to the tool, the others are compared.
                notes.append(clean(f"similarity: {path} of {entry.student} left out ({type(error).__name__})"))
        prints[entry.file_name] = own
    return prints, students, notes


def _in_time(text: str, known: Any) -> Any:
    def stop(*_: Any) -> None:
        raise TooSlow

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_FILE)
    try:
        return fingerprints(text, known)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def rows(report: Report) -> Iterable[tuple[object, ...]]:
    """For a CSV file."""
    yield "first", "second", "first_percent", "second_percent", "passages", "files"
    for pair in report.pairs:
        yield (
            pair.first,
            pair.second,
            round(pair.first_percent, 1),
            round(pair.second_percent, 1),
            pair.passages,
            "; ".join(pair.files),
        )
    for note in report.notes:
        yield "note", None, None, None, None, note


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare submissions, and write what resembles what.")
    parser.add_argument("submissions", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args(arguments)
    logging.disable()
    try:
        import copydetect  # noqa: F401
    except ImportError:
        print("copydetect is not installed", file=sys.stderr)
        return 1
    prints, students, notes = _read(options.submissions)
    found = compare(prints)
    pairs = [
        {
            "first": students[a],
            "second": students[b],
            "first_file": a,
            "second_file": b,
            "first_percent": of_a,
            "second_percent": of_b,
            "passages": passages,
            "files": files,
        }
        for a, b, of_a, of_b, passages, files in found[:MAX_PAIRS]
    ]
    if len(found) > MAX_PAIRS:
        notes.append(f"similarity: {len(found)} pairs, of which the closest {MAX_PAIRS} are named")
    options.target.write_text(json.dumps({"pairs": pairs, "notes": notes[:50]}), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
