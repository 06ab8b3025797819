"""Marks a folder of submissions with several sandboxes at once; what is done stays done, whatever happens next."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tqdm import tqdm

from testcases.harness.suite.runner import keep_what_is_loaded

from ..intake.archives import printable
from ..intake.exports import HandIn, find_outside
from ..intake.submissions import Submission, read_submission, unreadable
from ..sandbox import staging
from ..sandbox.guest import linux
from ..sandbox.limits import Limits
from ..sandbox.sandbox import Sandbox
from .assignment import Assignment
from .grade import Grader, Keep, empty_result, plan
from .secret import Secret
from .store import has_grader_error, read_result, suites_of, write_result


@dataclass
class Batch:
    """How a folder is graded."""

    kind: str
    secret: Secret
    jobs: int
    limits: Limits
    assignment: Assignment
    regrade: dict[str, str] = field(default_factory=dict)
    """Submissions that are graded again in any case, with what the table says of each."""
    suites: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.suites = suites_of(staging.fingerprint_of, repr(self.limits), self.assignment)

    def kept(self, result: dict[str, Any], submission: Submission) -> dict[str, Any]:
        """The lessons of an older result that would come out again."""
        wanted = {"content": submission.content, "secret": self.secret.id, "sandbox": self.kind}
        is_other = any(result.get(key) != value for key, value in wanted.items())
        if is_other or submission.student in self.regrade:
            return {}
        try:
            return {lesson: marks for lesson, marks in result["lessons"].items() if self._keeps(lesson, marks)}
        except (LookupError, TypeError, AttributeError):
            return {}  # Somebody has edited the file: it may hold anything.

    def _keeps(self, lesson: str, marks: dict[str, Any]) -> bool:
        return marks["suite"] == self.suites.get(lesson) and not has_grader_error({"lessons": {lesson: marks}})


def grade_folder(folder: Path, out: Path, batch: Batch) -> list[HandIn]:
    """Mark every submission, and write the results.

    Raises:
        NotADirectoryError, ValueError: it is no folder of submissions, or `out` lies in it.
        OSError: `out` cannot be written.
    """
    hand_ins = find_outside(folder, out)
    _mark_all(hand_ins, _folder_for_results(out), batch)
    return hand_ins


def _mark_all(hand_ins: list[HandIn], results: Path, batch: Batch) -> None:
    """One at which the grader failed is marked once more."""
    plan(batch.assignment.exercises)  # Before the processes of the pool are forked, so that each has the suites.
    for lesson in batch.assignment.lessons:
        staging.tree(lesson)
    keep_what_is_loaded()
    make = partial(_make, batch, staging.untouched(), str(results), partial(_keep, results))
    patience = 2 * batch.limits.submission_seconds + 600  # The suites' own time is short: whoever needs more hangs.

    def mark(submissions: Iterable[Submission], jobs: int) -> list[Submission]:
        """Those at which the grader failed."""
        failed = []
        for submission, answer in _in_processes(submissions, jobs, patience, make):
            path = results / f"{submission.file_name}.json"
            try:
                answer = _as_result(submission, answer, batch)
                write_result(path, answer)
            except OSError:
                raise  # The disk is everybody's.
            except Exception as error:
                answer = _as_result(submission, _told(error), batch)
                write_result(path, answer)
            failed += [submission] if has_grader_error(answer) else []
            bar.update()
        return failed

    with tqdm(total=len(hand_ins), unit="submission", dynamic_ncols=True, disable=None) as bar:
        failed = mark(_todo(hand_ins, results, bar, batch), batch.jobs)
        # Once more, when it is quiet: a neighbor may have taken the machine.
        bar.total += len(failed)
        mark(failed, 1)


def _as_result(submission: Submission, answer: dict[str, Any] | str, batch: Batch) -> dict[str, Any]:
    """The result; of a submission at which the grader failed, one that says why, and no more."""
    if not isinstance(answer, str):
        return answer
    tqdm.write(printable(f"{submission.student}: grader error: {answer}"), file=sys.stderr)
    common = {"secret": batch.secret.id, "sandbox": batch.kind}
    return empty_result(submission, batch.assignment.exercises, common, printable(answer)[:300])


def _told(error: Exception) -> str:
    """An error and its place in the grader, in a line."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    try:
        text = str(error)
    except Exception:
        text = ""
    return printable(f"{type(error).__name__}: {text[:200]} ({Path(where.filename).name}:{where.lineno})")


def _folder_for_results(out: Path) -> Path:
    """Without what a run that was killed has left there."""
    results = out / "results"
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    results.mkdir(exist_ok=True)
    for left in results.glob(".*.tmp"):
        left.unlink()
    return results


def _make(batch: Batch, untouched: Mapping[str, bytes], run: str = "", keep: Keep | None = None) -> Grader:
    box = Sandbox(batch.kind, batch.limits, run)
    return Grader(box, batch.secret, untouched, batch.assignment.exercises, batch.suites, keep=keep)


def _keep(results: Path, submission: Submission, result: dict[str, Any]) -> None:
    """What there is after a lesson. What is not in it yet has no `suite`, so the next run grades it."""
    write_result(results / f"{submission.file_name}.json", result)


def _todo(hand_ins: list[HandIn], results: Path, bar: Any, batch: Batch) -> Iterator[Submission]:
    """Read one submission after the other, and leave out what has been graded before."""
    for hand_in in hand_ins:
        try:
            submission = read_submission(hand_in, batch.assignment.lessons)
            known = read_result(results / f"{submission.file_name}.json")
            submission.kept = batch.kept(known, submission) if known else {}
            is_done = known is not None and set(submission.kept) == set(batch.suites) == set(known["lessons"])
            if known and is_done and any(known.get(key) != value for key, value in submission.told.items()):
                write_result(results / f"{submission.file_name}.json", {**known, **submission.told})
        except OSError:
            raise  # The disk is everybody's.
        except Exception as error:
            submission, is_done = unreadable(hand_in, f"it cannot be read: {_told(error)}"), False
        if is_done:
            bar.update()
        else:
            yield submission


class _Process:
    """A process that marks one submission after the other, in a sandbox of its own."""

    def __init__(self, make: Callable[[], Grader], others: Iterable[_Process]) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        inherited = [self.connection, *(other.connection for other in others)]
        self._process = context.Process(target=_serve, args=(theirs, inherited, make), daemon=True)
        self._process.start()
        theirs.close()
        self.submission: Submission | None = None
        self.end = 0.0

    def give(self, submission: Submission, seconds: float) -> None:
        self.submission, self.end = submission, time.monotonic() + seconds
        with contextlib.suppress(OSError):  # It has died: that is its answer.
            self.connection.send(submission)

    def answer(self) -> dict[str, Any] | str:
        """A result, or in words why there is none."""
        if not self.connection.poll():
            return "the grader was not done in time"
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            return "the grader's own process died"

    def close(self) -> None:
        self.connection.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _in_processes(
    submissions: Iterable[Submission], jobs: int, seconds: float, make: Callable[[], Grader]
) -> Iterator[tuple[Submission, dict[str, Any] | str]]:
    """Results in the order in which they are ready. A process that dies or hangs costs no other its work."""
    source, busy, idle = iter(submissions), list[_Process](), list[_Process]()
    try:
        while True:
            for submission in islice(source, jobs - len(busy)):
                busy.append(idle.pop() if idle else _Process(make, busy))
                busy[-1].give(submission, seconds)
            if not busy:
                return
            first = min(process.end for process in busy)
            ready = wait([process.connection for process in busy], max(0.0, first - time.monotonic()))
            for process in [one for one in busy if one.connection in ready or time.monotonic() > one.end]:
                answer = process.answer()
                busy.remove(process)
                if isinstance(answer, str):
                    process.close()
                else:
                    idle.append(process)
                assert process.submission
                yield process.submission, answer
    finally:
        for process in (*busy, *idle):
            process.close()


def _serve(connection: Connection, others: list[Connection], make: Callable[[], Grader]) -> None:
    """One process of the pool."""
    with contextlib.suppress(AttributeError, OSError):
        linux.die_with_parent()
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
                answer = _told(error)
            try:
                connection.send(answer)
            except OSError:
                return


def grade_one(submission: Submission, batch: Batch) -> dict[str, Any]:
    """One submission, here and now."""
    grader = _make(batch, staging.untouched())
    with grader.sandbox:
        return grader.grade(submission)
