"""Marks a folder of submissions with several sandboxes at once; what is done stays done, whatever happens next."""

from __future__ import annotations

import contextlib
import csv
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tqdm import tqdm

from . import course, kernel
from .grade import Grader, empty_result, plan
from .results import GRADER, NOT_SANDBOXED
from .sandbox import Course, Limits, Sandbox
from .staging import Entry, Submission, find, printable, stage

ATTEMPTS = 2


@dataclass
class Row:
    """One line of the gradebook."""

    student: str
    file_name: str
    score: int
    max_score: int
    status: str
    notes: list[str] = field(default_factory=list)


def grade_folder(
    folder: Path, out: Path, *, kind: str, seed: int, jobs: int, limits: Limits, roster: list[list[str]] | None = None
) -> list[Row]:
    """Mark every submission in the folder, write the results and the gradebook.

    Raises:
        NotADirectoryError, ValueError: it is no folder of submissions.
        OSError: `out` cannot be written.
    """
    entries = find(folder)
    results = out / "results"
    results.mkdir(parents=True, exist_ok=True)
    suite = course.fingerprint(repr(limits))
    untouched = course.untouched()
    work = out / ".work"
    shutil.rmtree(work, ignore_errors=True)
    for left in results.glob("*.tmp"):
        left.unlink()
    rows: dict[str, Row] = {}
    try:
        staged = course.stage(work / "course")
        plan()  # Before the processes of the pool are forked, so that each has the suites.
        make = partial(_make, staged, kind, limits, seed, suite, untouched)
        with tqdm(total=len(entries), unit="submission", dynamic_ncols=True, disable=None) as bar:
            with _Pool(make, max(1, min(jobs, len(entries)))) as pool:
                todo = _todo(entries, results, rows, bar, kind, seed, suite)
                for submission, result in pool.map(todo):
                    _write(results / f"{submission.file_name}.json", json.dumps(result, indent=1) + "\n")
                    rows[submission.file_name] = _row(submission, result)
                    bar.update()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    ordered = [rows[entry.file_name] for entry in entries]
    _check_roster(ordered, roster)
    write_gradebook(out / "gradebook.csv", ordered)
    return ordered


def _make(staged: Course, kind: str, limits: Limits, seed: int, suite: str, untouched: Mapping[str, bytes]) -> Grader:
    return Grader(Sandbox(staged, kind, limits), seed, suite, untouched)


def _todo(
    entries: list[Entry], results: Path, rows: dict[str, Row], bar: Any, kind: str, seed: int, suite: str
) -> Iterator[Submission]:
    """Read one submission after the other, and leave out what has been graded before."""
    for entry in entries:
        submission = stage(entry)
        known = _known(results / f"{entry.file_name}.json")
        wanted = {"content": submission.content, "seed": seed, "suite": suite, "sandbox": kind}
        if known and all(known.get(key) == value for key, value in wanted.items()) and not has_grader_error(known):
            rows[entry.file_name] = _row(submission, known)
            bar.update()
        else:
            yield submission


def _known(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("lessons"), dict) else None


def has_grader_error(result: dict[str, Any]) -> bool:
    return any(
        test["status"] == GRADER
        for lesson in result["lessons"].values()
        for exercise in lesson["exercises"].values()
        for test in exercise["tests"]
    )


def _row(submission: Submission, result: dict[str, Any]) -> Row:
    status = "grader-error" if has_grader_error(result) else submission.status
    return Row(
        submission.student, submission.file_name, result["score"], result["max_score"], status, list(result["notes"])
    )


class _Pool:
    """Processes that mark submissions, each with a sandbox of its own. One that dies costs no other its work."""

    def __init__(self, make: Callable[[], Grader], jobs: int) -> None:
        self._make, self._jobs = make, jobs
        self._workers: dict[Connection, Any] = {}
        self._context = multiprocessing.get_context("fork")

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *error: object) -> None:
        for connection in list(self._workers):
            self._end(connection)

    def map(self, submissions: Iterable[Submission]) -> Iterator[tuple[Submission, dict[str, Any]]]:
        """Results in the order in which they are ready."""
        source = iter(submissions)
        again: list[tuple[Submission, int]] = []
        busy: dict[Connection, tuple[Submission, int]] = {}
        idle: list[Connection] = []
        more = True
        while True:
            while more and (idle or len(self._workers) < self._jobs):
                submission, attempt = again.pop() if again else (next(source, None), 1)
                if submission is None:
                    more = False
                    break
                connection = idle.pop() if idle else self._start()
                connection.send(submission)
                busy[connection] = submission, attempt
            if not busy:
                return
            for ready in wait(list(busy)):
                connection = next(one for one in busy if one is ready)
                submission, attempt = busy.pop(connection)
                try:
                    result = connection.recv()
                    idle.append(connection)
                except (EOFError, OSError):
                    self._end(connection)
                    result = "the grader's own process died"
                if isinstance(result, dict):
                    yield submission, result
                elif attempt < ATTEMPTS:
                    again.append((submission, attempt + 1))
                    more = True
                else:
                    yield submission, self._failed(submission, result)

    def _failed(self, submission: Submission, why: str) -> dict[str, Any]:
        grader = self._make()
        submission.note(f"grader error: {why}")
        return empty_result(grader, submission, GRADER, why)

    def _start(self) -> Connection:
        ours, theirs = self._context.Pipe()
        others = list(self._workers)
        process = self._context.Process(target=_serve, args=(theirs, [ours, *others], self._make), daemon=True)
        process.start()
        theirs.close()
        self._workers[ours] = process
        return ours

    def _end(self, connection: Connection) -> None:
        process = self._workers.pop(connection)
        connection.close()
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()


def _serve(connection: Connection, others: list[Connection], make: Callable[[], Grader]) -> None:
    """One process of the pool."""
    with contextlib.suppress(AttributeError, OSError):
        kernel.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other in others:
        other.close()
    from . import memory

    memory.install()
    grader = make()
    with grader.sandbox:
        while True:
            try:
                submission = connection.recv()
            except (EOFError, OSError):
                return
            try:
                answer: Any = grader.grade(submission)
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                answer = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            try:
                connection.send(answer)
            except OSError:
                return


def write_gradebook(path: Path, rows: list[Row]) -> None:
    with _replacing(path) as file:
        writer = csv.writer(file)
        writer.writerow(["student", "score", "max_score", "status", "notes"])
        for row in rows:
            cells = [row.student, row.score, row.max_score, row.status, " | ".join(row.notes)]
            writer.writerow([safe_cell(cell) for cell in cells])


def safe_cell(value: Any) -> Any:
    """A text that no spreadsheet runs."""
    if not isinstance(value, str):
        return value
    value = printable(value)
    return f"'{value}" if value.lstrip().startswith(("=", "+", "-", "@", "\t", "\r", "|", "%")) else value


def _check_roster(rows: list[Row], roster: list[list[str]] | None) -> None:
    """Add who is on the list and handed in nothing, and say who is not on the list."""
    if roster is None:
        return
    known = {cell.strip().casefold() for line in roster for cell in line if cell.strip()}
    names = {row.student.casefold() for row in rows}
    for row in rows:
        if row.student.casefold() not in known:
            row.notes.append("not on the roster")
    most = max((row.max_score for row in rows), default=0)
    for line in roster:
        cells = [cell.strip() for cell in line if cell.strip()]
        if cells and not any(cell.casefold() in names for cell in cells):
            notes = ["on the roster, nothing handed in"]
            rows.append(Row(printable(cells[0])[:200], "", 0, most, "no-submission", notes))


def read_roster(path: Path) -> list[list[str]]:
    """The lines of a CSV file without its header.

    Raises:
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    text = text.replace("\0", "")
    try:
        dialect: Any = csv.Sniffer().sniff(text[:4096], delimiters=",;\t")
    except csv.Error:
        dialect = csv.excel
    return list(csv.reader(text.splitlines(), dialect))[1:]


def _write(path: Path, text: str) -> None:
    with _replacing(path) as file:
        file.write(text)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Any]:
    """A file that is there whole, or not at all."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def grade_one(submission: Submission, *, kind: str, seed: int, limits: Limits) -> dict[str, Any]:
    """One submission, here and now."""
    from . import memory

    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        os.chmod(folder, 0o755)
        staged: Course = course.stage(Path(folder) / "course")
        memory.install()
        with Sandbox(staged, kind, limits) as box:
            return Grader(box, seed, course.fingerprint(repr(limits)), course.untouched()).grade(submission)


__all__ = ["NOT_SANDBOXED", "Row", "grade_folder", "grade_one", "read_roster", "safe_cell", "write_gradebook"]
