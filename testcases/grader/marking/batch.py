"""Marks a folder of submissions, several at once; what is done stays done, whatever happens next."""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ppo_by_hand.core.files import write_json
from testcases.harness.suite.runner import keep_what_is_loaded

from ..intake.exports import HandIn
from ..intake.submissions import Submission, read_submission, unreadable
from ..sandbox import staging
from ..sandbox.guest.worker import die_with_parent
from ..sandbox.sandbox import Limits, Sandbox
from ..status import GRADER
from ..text import clean
from .assignment import Assignment
from .grade import Grader, Secret, answer_what_all_are_asked, has_grader_error, plan

AT_A_TEST = "at a test"
"""Where the grader failed, but for which there is a result."""


class _Disk(Exception):
    """A result cannot be written: that is no submission's fault."""


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

    @property
    def suite(self) -> str:
        """A hash of all that marks depend on but the submission."""
        text = "\n".join([staging.fingerprint(), repr(self.limits), *self.assignment.names])
        return hashlib.sha256(text.encode()).hexdigest()

    def would_repeat(self, result: Any, submission: Submission) -> bool:
        """Whether an older result would come out again."""
        wanted = {"content": submission.content, "secret": self.secret.id, "sandbox": self.kind, "suite": self.suite}
        try:
            is_same = all(result[key] == value for key, value in wanted.items())
            return is_same and submission.student not in self.regrade and not has_grader_error(result)
        except (LookupError, TypeError, AttributeError):
            return False  # There is none, or somebody has edited the file: it may hold anything.


def grade_all(hand_ins: list[HandIn], out: Path, batch: Batch) -> None:
    """Mark every submission, and write the results. One at which the grader failed is marked once more.

    Raises:
        OSError: `out` cannot be written.
    """
    results = out / "results"
    results.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in (*out.glob(".*.[0-9]*.tmp"), *results.glob(".*.tmp")):  # By a run that was killed.
        left.unlink()
    plan(batch.assignment.exercises)  # Before processes are forked, so that each has the suites.
    staging.prepare(batch.assignment.exercises)
    if sum(not (results / f"{one.file_name}.json").exists() for one in hand_ins) > 2:
        answer_what_all_are_asked(batch.assignment.exercises)
    keep_what_is_loaded()
    with tqdm(total=len(hand_ins), unit="submission", dynamic_ncols=True, disable=None) as bar:
        failed = [one for one in _marked(hand_ins, results, batch, batch.jobs, bar) if one]
        # Once more, when it is quiet: a neighbor may have taken the machine.
        bar.total += len(failed)
        for _ in _marked(failed, results, batch, 1, bar):
            pass


def grade_one(submission: Submission, batch: Batch) -> dict[str, Any]:
    """One submission, here and now."""
    with Sandbox(batch.kind, batch.limits) as sandbox:
        return _grader(sandbox, batch).grade(submission)


def _grader(sandbox: Sandbox, batch: Batch) -> Grader:
    return Grader(sandbox, batch.secret, batch.assignment.exercises, batch.suite)


@dataclass
class _Process:
    """One that marks one submission, and says nothing if that went well."""

    hand_in: HandIn
    slot: int
    process: Any
    said: Connection
    end: float


def _marked(hand_ins: list[HandIn], results: Path, batch: Batch, jobs: int, bar: Any) -> Iterator[HandIn | None]:
    """Each submission at which the grader failed, and None for each other, as they are done.

    Each is marked in a process of its own: whatever becomes of that, the others go on.
    """
    waiting, busy = hand_ins[::-1], list[_Process]()
    try:
        while waiting or busy:
            while waiting and len(busy) < jobs:
                slot = min(set(range(jobs)) - {one.slot for one in busy})
                busy.append(_start(waiting.pop(), slot, results, batch))
            soonest = min(one.end for one in busy)
            ready = wait([one.said for one in busy], max(0.0, soonest - time.monotonic()))
            for one in [one for one in busy if one.said in ready or time.monotonic() > one.end]:
                busy.remove(one)
                why = _answer(one)
                if isinstance(why, OSError):
                    raise why
                if why not in ("", AT_A_TEST):
                    tqdm.write(f"{one.hand_in.student}: grader error: {why}", file=sys.stderr)
                    # Apart from whose it is, nothing comes from the submission: something in it has stopped the grader.
                    lost = replace(unreadable(one.hand_in, f"grader error: {why}"), status=GRADER)
                    result = _grader(Sandbox(batch.kind, batch.limits), batch).result(lost, {})
                    write_json(results / f"{one.hand_in.file_name}.json", result, lasting=True)
                bar.update()
                yield one.hand_in if why else None
    finally:
        for one in busy:
            one.process.kill()
            one.process.join()


def _start(hand_in: HandIn, slot: int, results: Path, batch: Batch) -> _Process:
    context = multiprocessing.get_context("fork")
    said, theirs = context.Pipe(duplex=False)
    name = f"marks-{slot}"
    process = context.Process(target=_mark, args=(theirs, hand_in, results, batch), name=name)
    process.start()
    theirs.close()
    patience = 2 * batch.limits.submission_seconds + 600  # The suites' own time is short: whoever needs more hangs.
    return _Process(hand_in, slot, process, said, time.monotonic() + patience)


def _answer(one: _Process) -> str | OSError:
    """Why there is no result; empty where there is one."""
    why: str | OSError = "the grader was not done in time"
    if one.said.poll():
        try:
            why = one.said.recv()
        except EOFError:
            why = "the grader's own process died"
    one.said.close()
    one.process.kill()
    one.process.join()
    return why


def _mark(said: Connection, hand_in: HandIn, results: Path, batch: Batch) -> None:
    """Read one submission, mark what of it is new, and write the result, after each lesson as well."""
    with contextlib.suppress(AttributeError, OSError):
        die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    path = results / f"{hand_in.file_name}.json"

    def write(result: dict[str, Any]) -> None:
        try:
            write_json(path, result, lasting=True)
        except OSError as error:
            raise _Disk(error) from error

    try:
        submission = read_submission(hand_in, batch.assignment.lessons)
        if batch.would_repeat(_read(path), submission):
            return said.send("")
        with Sandbox(batch.kind, batch.limits, str(results)) as sandbox:
            result = _grader(sandbox, batch).grade(submission, write)
        said.send(AT_A_TEST if has_grader_error(result) else "")
    except _Disk as error:
        said.send(error.args[0])
    except Exception as error:
        said.send(_told(error))


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _told(error: Exception) -> str:
    """An error and its place in the grader, in a line."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return clean(f"{type(error).__name__}: {str(error)[:200]} ({Path(where.filename).name}:{where.lineno})", 300)
