"""Marks a folder of submissions with several sandboxes at once; what is done stays done, whatever happens next."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tqdm import tqdm

from . import kernel, trees
from .finding import HandIn, find
from .grade import Grader, empty_result, plan
from .limits import Limits
from .results import GRADER
from .sandbox import Course, Sandbox
from .secret import Secret, kept_in, new
from .submissions import Submission, read_submission

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


def grade_folder(folder: Path, out: Path, *, kind: str, secret: Secret | None, jobs: int, limits: Limits) -> list[Row]:
    """Mark every submission, and write the results. Without a secret it is the one kept in `out`.

    Raises:
        NotADirectoryError, ValueError: it is no folder of submissions, or `out` lies in it.
        OSError: `out` cannot be written.
    """
    if out.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"OUT: expected a folder outside {str(folder)!r}, in which everything is a submission")
    hand_ins = find(folder)
    results = _folder_for_results(out)
    secret = secret or kept_in(out)
    suite, untouched = trees.fingerprint(repr(limits)), trees.untouched()
    work = out / ".work"
    rows: dict[str, Row] = {}
    try:
        course = trees.lay_out(work / "course")
        plan()  # Before the processes of the pool are forked, so that each has the suites.
        make = partial(_make, course, kind, limits, secret, suite, untouched)
        patience = 2 * limits.submission_seconds + 600  # The suites' own time is short: whoever needs more hangs.

        def mark(submissions: Iterable[Submission], jobs: int) -> list[Submission]:
            """Those at which the grader failed."""
            failed = []
            with _Pool(make, max(1, min(jobs, len(hand_ins))), patience) as pool:
                for submission, result in pool.map(submissions):
                    _write(results / f"{submission.file_name}.json", json.dumps(result, indent=1) + "\n")
                    rows[submission.file_name] = _row(submission, result)
                    failed += [submission] if has_grader_error(result) else []
                    bar.update()
            return failed

        with tqdm(total=len(hand_ins), unit="submission", dynamic_ncols=True, disable=None) as bar:
            failed = mark(_todo(hand_ins, results, rows, bar, kind, secret, suite), jobs)
            # Once more, when it is quiet: a neighbour may have taken the machine.
            bar.total += len(failed)
            mark(failed, 1)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return [rows[hand_in.file_name] for hand_in in hand_ins]


def _folder_for_results(out: Path) -> Path:
    """Without what a run that was killed has left there."""
    results = out / "results"
    results.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(out / ".work", ignore_errors=True)
    for left in results.glob(".*.tmp"):
        left.unlink()
    return results


def _make(
    course: Course, kind: str, limits: Limits, secret: Secret, suite: str, untouched: Mapping[str, bytes]
) -> Grader:
    return Grader(Sandbox(course, kind, limits), secret, suite, untouched)


def _todo(
    hand_ins: list[HandIn], results: Path, rows: dict[str, Row], bar: Any, kind: str, secret: Secret, suite: str
) -> Iterator[Submission]:
    """Read one submission after the other, and leave out what has been graded before."""
    for hand_in in hand_ins:
        submission = read_submission(hand_in)
        known = _known(results / f"{hand_in.file_name}.json")
        wanted = {"content": submission.content, "secret": secret.id, "suite": suite, "sandbox": kind}
        if known and all(known.get(key) == value for key, value in wanted.items()) and not has_grader_error(known):
            rows[hand_in.file_name] = _row(submission, known)
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

    def __init__(self, make: Callable[[], Grader], jobs: int, seconds: float) -> None:
        self._make, self._jobs, self._seconds = make, jobs, seconds
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
        busy: dict[Connection, tuple[Submission, int, float]] = {}
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
                busy[connection] = submission, attempt, time.monotonic() + self._seconds
            if not busy:
                return
            first = min(end for _, _, end in busy.values())
            ready = wait(list(busy), max(0.0, first - time.monotonic()))
            for connection, (submission, attempt, end) in list(busy.items()):
                result = self._answer(connection, connection in ready, end)
                if result is None:
                    continue
                del busy[connection]
                idle += [connection] if connection in self._workers else []
                if isinstance(result, dict):
                    yield submission, result
                elif attempt < ATTEMPTS:
                    again.append((submission, attempt + 1))
                    more = True
                else:
                    yield submission, self._failed(submission, result)

    def _answer(self, connection: Connection, is_ready: bool, end: float) -> Any:
        """A result, or in words why there will be none; None while it is waited for."""
        if is_ready:
            with contextlib.suppress(EOFError, OSError):
                return connection.recv()
            self._end(connection)
            return "the grader's own process died"
        if time.monotonic() > end:
            self._end(connection)
            return "the grader was not done in time"
        return None

    def _failed(self, submission: Submission, why: str) -> dict[str, Any]:
        noted = replace(submission, notes=[*submission.notes, f"grader error: {why}"])
        return empty_result(self._make(), noted, GRADER, why)

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


def _write(path: Path, text: str) -> None:
    """The file is there whole, or not at all, even if the machine stops."""
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def grade_one(submission: Submission, *, kind: str, secret: Secret | None, limits: Limits) -> dict[str, Any]:
    """One submission, here and now."""
    with tempfile.TemporaryDirectory(prefix="check-") as folder:
        os.chmod(folder, 0o755)
        course = trees.lay_out(Path(folder) / "course")
        with Sandbox(course, kind, limits) as box:
            return Grader(box, secret or new(), trees.fingerprint(repr(limits)), trees.untouched()).grade(submission)
