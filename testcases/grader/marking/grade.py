"""Marks one submission: the suites run here, on the trusted side, and only their calls go to a worker."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from ppo_by_hand.core.files import write_text
from testcases.harness.catalog import Entry, read_lesson
from testcases.harness.execution.messages import Call, StudentError
from testcases.harness.oracle.reference import shared_reference
from testcases.harness.report.errors import Kept, NotStarted, Waiting
from testcases.harness.report.failures import CheckFailed
from testcases.harness.suite.anti_gaming import not_earned
from testcases.harness.suite.questions import if_right, with_first_line
from testcases.harness.suite.runner import Case, cases, entries
from testcases.harness.suite.session import Engine

from ..intake.selection import course_files
from ..intake.submissions import Doubt, Submission, close_match
from ..sandbox.sandbox import Sandbox, WorkerError, what_holds
from ..sandbox.staging import untouched
from ..sandbox.worker_client import InSandbox
from ..status import (
    BLOCKED,
    ERROR,
    FIRST,
    GRADER,
    LOAD,
    LONG,
    MEMORY,
    MISSING,
    NOT_ASKED,
    NOT_STARTED,
    PASSED,
    STATUS_OF_ERROR,
    TAMPER,
    UNSAFE,
    WRONG,
)
from ..text import clean, clean_lines, text_of
from .assignment import Exercise

MOST_SHOWN, MOST_LINES = 2_000_000, 20_000
"""Letters and lines of a submission that its pages show: a course is a tenth of that."""
KEY, SEED_BITS = "secret.key", 128
ALLOCATOR = "DefaultCPUAllocator"
"""Torch's, in the message of its RuntimeError where there is no memory left."""


@dataclass(frozen=True)
class Secret:
    """What fresh inputs are drawn from: the suites are public, so whoever has it can write a table of answers.

    It is 128 bits, made by the first run and kept beside its results, where only the instructor can read it. A result
    holds a hash of it, and the inputs of one lesson of one submission come from another: nothing leads back, and what a
    failure page shows of one submission's inputs says nothing about the inputs of the next.
    """

    _text: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    @property
    def id(self) -> str:
        """Tells secrets apart, and says nothing about them."""
        return self._hash("id").hex()[:16]

    def seed(self, lesson: str, content: str) -> int:
        """Of the fresh inputs of one lesson of one submission."""
        return int.from_bytes(self._hash(f"seed\0{lesson}\0{content}")[: SEED_BITS // 8], "big")

    def _hash(self, text: str) -> bytes:
        return hmac.digest(self._text.encode(), text.encode(), "sha256")


def kept_secret(out: Path) -> Secret:
    """The secret of the results in a folder, made if there is none, for the owner alone by the umask of a run.

    Raises:
        OSError: the file cannot be read or written.
        ValueError: there is nothing in it.
    """
    path = out / KEY
    if not path.exists():
        write_text(path, secrets.token_hex(16) + "\n", lasting=True)
    text = path.read_text("utf-8", "replace").strip()
    if not text:
        raise ValueError(f"OUT: expected a secret in {str(path)!r}, which is empty; remove it, and a new one is made")
    return Secret(text)


@dataclass
class Result:
    """One test function."""

    entry: Entry
    status: str
    told: str = ""
    """What the student reads, without the causes."""
    causes: tuple[str, ...] = ()
    read: str = ""
    """Where to read on, if a cause is named."""
    calls: Sequence[Call] = ()
    """Some of those that were answered with a value, where the test passed."""
    share: float = 0.0
    """Of the points, where the test did not pass."""
    if_right: str = ""
    """What `told` begins with if the basic suite has passed."""

    @property
    def score(self) -> int:
        return self.entry.points if self.status == PASSED else int(self.entry.points * self.share)

    def as_json(self) -> dict[str, Any]:
        return {"id": self.entry.test, "score": self.score, "max_score": self.entry.points, "status": self.status}


@dataclass
class Grader:
    """Marks one submission in a sandbox of its own."""

    sandbox: Sandbox
    secret: Secret
    exercises: tuple[Exercise, ...] = ()
    """Those of the assignment."""
    suite: str = ""
    """A hash of all that marks depend on but the submission."""

    def grade(
        self, submission: Submission, keep: Callable[[dict[str, Any]], None] = lambda result: None
    ) -> dict[str, Any]:
        """The result, as `schema.md` describes it.

        Args:
            keep: told it after each lesson, too: the run may be ended from outside, such as by a platform.
        """
        start = time.monotonic()
        planned = plan(self.exercises)
        lessons = {lesson: _not_asked(exercises) for lesson, exercises in planned.items()}
        for lesson, exercises in planned.items():
            # One for each lesson, so that no answer is kept longer than that.
            subject = InSandbox(self.sandbox, submission.files)
            seed = self.secret.seed(lesson, submission.content)
            with Engine(subject, seed=seed, believes=False, pays_once=True).active() as engine:
                try:
                    found = {name: self._exercise(engine, submission, name, tests) for name, tests in exercises.items()}
                finally:
                    subject.finish()
            lessons[lesson] = {**_points(found), "exercises": found}
            suite = self.suite if lesson == [*planned][-1] else ""
            result = self.result(submission, lessons, time.monotonic() - start, suite)
            keep(result)
        return result

    def result(
        self, submission: Submission, lessons: dict[str, Any], seconds: float = 0.0, suite: str = ""
    ) -> dict[str, Any]:
        """The result, from the marks by lesson.

        Args:
            suite: empty while a lesson waits.
        """
        files = self._shown(submission, lessons)
        return {
            "student": submission.student,
            "status": submission.status,
            **submission.told,
            **_points(lessons),
            "secret": self.secret.id,
            "sandbox": self.sandbox.kind,
            "folder": submission.folder,
            "content": submission.content,
            "suite": suite,
            "code": submission.code,
            "notes": [*([f"{UNSAFE}: {what_holds()}"] if self.sandbox.kind == "none" else []), *submission.notes],
            "doubts": [asdict(doubt) for doubt in _doubts(submission, lessons, files)],
            "seconds": round(seconds, 2),
            "lessons": lessons,
            "files": files,
        }

    def _shown(self, submission: Submission, lessons: Mapping[str, Any]) -> list[dict[str, Any]]:
        """All that a worker gets, for the pages: the files of the course first, then the student's own.

        Of lessons that are not asked for, what is as it was handed out says nothing.
        """
        paths = dict.fromkeys([*(path for path in course_files() if path in submission.files), *submission.files])
        found, letters, lines = [], MOST_SHOWN, MOST_LINES
        for path in paths:
            data = submission.files[path]
            if path.partition("/")[0] not in lessons and untouched().get(path) == data:
                continue
            text = text_of(data)
            rows = text[:letters].splitlines(keepends=True)[:lines]
            shown = "".join(rows)
            letters, lines = letters - len(shown), lines - len(rows)
            found.append({"path": path, "text": shown, "cut": len(text) - len(shown)})
        return found

    def _exercise(
        self, engine: Engine, submission: Submission, name: str, tests: Mapping[Entry, tuple[Case, ...]]
    ) -> dict[str, Any]:
        lesson = next(iter(tests)).lesson
        file = f"{lesson}/{read_lesson(lesson).file_of(name)}"
        if file not in submission.files and file in submission.damaged:
            text = f"{lesson} · {name} · cannot be read\ntutorial/{file} is there, and is {submission.damaged[file]}"
            return _summary([Result(entry, ERROR, text) for entry in tests])
        if file not in submission.files:
            text = f"{lesson} · {name} · missing\nthere is no file tutorial/{file}"
            text += close_match(file, submission.others)
            return _summary([Result(entry, MISSING, text) for entry in tests])
        if submission.files[file] == untouched().get(file):
            return _summary([Result(entry, NOT_STARTED, f"{lesson}: {name} is not started") for entry in tests])
        results: list[Result] = []
        for entry, group in tests.items():
            is_absent = bool(results) and results[0].status == MISSING  # One test says it for all.
            results.append(replace(results[0], entry=entry) if is_absent else self._test(engine, entry, group))
        _keep_what_is_earned(engine, results)
        _say_what_is_right(results)
        subject = cast(InSandbox, engine.subject)
        if not subject.settle(lesson, name):
            # Whoever forges one answer may have forged them all.
            text = f"{lesson} · {name} · {TAMPER}\nThe worker sent something that no worker sends. Read this code."
            results = [Result(result.entry, TAMPER, text) for result in results]
        died = subject.unloaded.get(file)
        return _summary(results, _how_it_died(file, died) if died else "")

    def _test(self, engine: Engine, entry: Entry, group: tuple[Case, ...]) -> Result:
        """One test function: passed if all its cases pass; the first that fails says why."""
        kept, calls = "", list[Call]()
        for case in group:
            try:
                engine.require_started(entry.lesson, entry.exercise)
                verdict: Exception | None = case.run()
                calls += engine.answered
            except WorkerError as error:
                return Result(entry, GRADER, f"The sandbox failed: {clean(error, 500)}")
            except Exception as error:
                verdict = error
            if isinstance(verdict, Kept):
                kept = str(verdict)
            elif isinstance(verdict, (NotStarted, Waiting)):
                return Result(entry, NOT_STARTED if isinstance(verdict, NotStarted) else BLOCKED, str(verdict))
            elif isinstance(verdict, AssertionError):
                return _failed(entry, verdict)
            elif verdict:
                return self._strange(engine.seed, entry, case, verdict)
        return Result(entry, PASSED, kept, calls=tuple(calls))

    def _strange(self, seed: int, entry: Entry, case: Case, error: Exception) -> Result:
        """The test itself broke: over an answer that no test foresaw, or because it is wrong."""
        text = f"{entry.lesson} · {entry.exercise} · {case.node}\n{type(error).__name__}: {clean(error, 500)}"
        return Result(entry, WRONG if self._reference_passes(case, seed) else GRADER, text)

    def _reference_passes(self, case: Case, seed: int) -> bool:
        with Engine(shared_reference(), seed=seed).active():
            try:
                return case.run() is None
            except Exception:
                return False


def _not_asked(exercises: Mapping[str, Iterable[Entry]]) -> dict[str, Any]:
    """The marks of a lesson while it waits."""
    why = "not asked: the run ended before it"
    found = {name: _summary([Result(entry, NOT_ASKED, why) for entry in tests]) for name, tests in exercises.items()}
    return {**_points(found), "exercises": found}


def _doubts(submission: Submission, lessons: Mapping[str, Any], files: Iterable[Mapping[str, Any]]) -> Iterator[Doubt]:
    """Those of the reader, then what loading and showing the files has brought."""
    yield from submission.doubts
    by_file: dict[str, list[Mapping[str, Any]]] = {}
    for name, lesson in lessons.items():
        for exercise, marks in lesson["exercises"].items():
            by_file.setdefault(f"{name}/{read_lesson(name).file_of(exercise)}", []).append(marks)
    for path, found in by_file.items():
        if died := next((marks["unloaded"] for marks in found if marks["unloaded"]), ""):
            yield Doubt(LOAD, f"{path}, {died}")
        elif path in submission.files and all(marks["status"] == MISSING for marks in found):
            yield Doubt(LOAD, f"{path} has none of its exercises")
    for file in files:
        if file["cut"]:
            yield Doubt(LONG, f"{file['path']}: {file['cut']:,} letters of it are on no page")


def _how_it_died(path: str, error: StudentError) -> str:
    """Such as "line 6: NameError: name 'get_ipython' is not defined"."""
    place = ""
    if error.frames:
        last = error.frames[-1]
        place = f"line {last.line}: " if last.file.endswith(f"/{path}") else f"{last.file}, line {last.line}: "
    return clean(f"{place}{error.type_name}: {error.message}", 300)


def _keep_what_is_earned(engine: Engine, results: list[Result]) -> None:
    """Of one exercise; the tests that no work stands behind turn to wrong, or to not asked where nobody could see."""
    passed = {result.entry.test: result.calls for result in results if result.status == PASSED}
    if not passed or len(passed) == len(results):
        return
    lesson, exercise = results[0].entry.lesson, results[0].entry.exercise
    why = not_earned(engine, lesson, exercise, passed)
    late = cast(InSandbox, engine.subject).refused(lesson, exercise)
    status, head = (NOT_ASKED, "not asked for new numbers") if late else (WRONG, "not earned")
    for result in results:
        if text := why.get(result.entry.test):
            result.status = status
            result.told = f"{lesson} · {exercise} · {head}\n{late.message if late else text}"


def _say_what_is_right(results: list[Result]) -> None:
    """A failure of the advanced suite says first that the formula is right, where all of the basic suite has passed."""
    if all(result.status == PASSED for result in results if result.entry.is_basic):
        for result in results:
            if result.if_right and not result.entry.is_basic:
                result.told = with_first_line(result.if_right, result.told)


def _failed(entry: Entry, verdict: Exception) -> Result:
    head = f"{entry.lesson} · {entry.exercise}"
    if not isinstance(verdict, CheckFailed):
        return Result(entry, WRONG, f"{head} · wrong answer\n{clean_lines(verdict)}")
    status = _status_of(verdict.error) if verdict.error else WRONG
    if verdict.error and status == NOT_ASKED:
        return Result(entry, NOT_ASKED, f"{head} · not asked\n{clean(verdict.error.message, 500)}")
    share = verdict.share if status == WRONG else 0.0
    causes = tuple(clean(cause, 500) for cause in verdict.causes)
    told = verdict.report.without_advice if causes else str(verdict)
    said = if_right(entry.test, verdict) if status == WRONG else ""
    return Result(entry, status, told, causes, verdict.read, share=share, if_right=said)


def _status_of(error: StudentError) -> str:
    """Of what Python or torch raised for want of memory the kind says no more than that it was raised."""
    if error.kind != "load" and (error.type_name == "MemoryError" or ALLOCATOR in error.message):
        return MEMORY
    if error.kind == "timeout" and error.type_name == NOT_ASKED:
        return NOT_ASKED
    return STATUS_OF_ERROR.get(error.kind, ERROR)


@cache
def plan(exercises: tuple[Exercise, ...]) -> dict[str, dict[str, dict[Entry, tuple[Case, ...]]]]:
    """Lesson -> exercise -> test -> its cases, in the order of the points."""
    plan: dict[str, dict[str, dict[Entry, tuple[Case, ...]]]] = {}
    for entry in (entry for lesson in sorted({lesson for lesson, _ in exercises}) for entry in entries(lesson)):
        if (entry.lesson, entry.exercise) in exercises:
            found = tuple(case for case in cases(entry.lesson) if case.entry == entry)
            plan.setdefault(entry.lesson, {}).setdefault(entry.exercise, {})[entry] = found
    return plan


def answer_what_all_are_asked(exercises: tuple[Exercise, ...]) -> None:
    """Answer the questions that are the same for everybody, four of ten, before processes are forked.

    A test that breaks on this machine says so of each submission, and not here, where it would stop all of them.
    """
    with Engine(shared_reference(), is_heard=False).active():
        for tests in (tests for lesson in plan(exercises).values() for tests in lesson.values()):
            for case in (case for group in tests.values() for case in group):
                with contextlib.suppress(Exception):
                    case.run()


def _summary(results: list[Result], unloaded: str = "") -> dict[str, Any]:
    """One exercise.

    Args:
        unloaded: how its file died while it was loaded, if it did.
    """
    failed, lost = [result for result in results if result.status != PASSED], Counter[str]()
    for result in failed:
        lost[result.status] += result.entry.points
    status = next((one for one in FIRST if one in lost), max(lost, key=lambda one: lost[one], default=PASSED))
    return {
        **_points({result.entry.test: result.as_json() for result in results}),
        "status": status,
        "unloaded": unloaded,
        "causes": list(dict.fromkeys(cause for result in failed for cause in result.causes)),
        "read": next((result.read for result in failed if result.causes), ""),
        "told": next((one.told for one in failed or results if one.status == status and one.told), ""),
        "tests": [result.as_json() for result in results],
    }


def _points(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {key: sum(part[key] for part in parts.values()) for key in ("score", "max_score")}


def has_grader_error(result: Mapping[str, Any]) -> bool:
    exercises = (one for lesson in result["lessons"].values() for one in lesson["exercises"].values())
    return any(test["status"] == GRADER for exercise in exercises for test in exercise["tests"])
