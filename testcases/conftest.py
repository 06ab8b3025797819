"""pytest for students: who is tested, what they read, and how far they have come."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testcases.engine import exercises, progress
from testcases.engine.contract import ROOT, TESTCASES, TUTORIAL, lesson_names
from testcases.engine.contract import lesson as read_lesson
from testcases.engine.failures import Blocked, CheckFailed, NotStarted
from testcases.engine.points import entries, entry_of, function_of, manifest
from testcases.engine.stories import told

exercises.install()

SHOWN_PER_EXERCISE = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("PPO by Hand")
    group.addoption("--subject", default="tutorial", help='whose code: a copy of tutorial/ (default), or "solutions"')
    group.addoption("--suite-seed", type=int, default=0, help="of the fresh random inputs")
    group.addoption("--full", action="store_true", help="show every failure, not only the first ones of each exercise")


def pytest_configure(config: pytest.Config) -> None:
    for name in lesson_names():
        config.addinivalue_line("markers", f"{read_lesson(name).short}: the suite of {name}")
    subject = config.getoption("--subject")
    if subject != "solutions" and not _folder(subject).is_dir():
        raise pytest.UsageError(f"--subject: there is no folder {subject!r}")
    if config.option.verbose == 0:  # The configuration says -q, so this is -v: the names of the tests are wanted.
        config.option.verbose = 1
    config.pluginmanager.register(_Run(config), "ppo-by-hand")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep an `xdist_group` in one process: xdist 3.8 writes a field that pytest 9.2 never reads (its issue 1386)."""
    for item in items if getattr(config.option, "loadgroup", False) else ():
        if (mark := item.get_closest_marker("xdist_group")) and "@" not in item.nodeid.rpartition("]")[2]:
            item._id = type(item._id).parse(f"{item.nodeid}@{mark.args[0]}")  # type: ignore[attr-defined]


def _folder(subject: str) -> Path:
    return TUTORIAL if subject == "tutorial" else Path(subject).resolve()


class _Run:
    """The state of one pytest run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.subject: str = config.getoption("--subject")
        self.results: dict[str, dict[str, str]] = {}
        self.asked: dict[str, list[Any]] = {}
        """Test function -> its questions that were answered with a value."""
        self.engine: Any = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if lesson := _lesson_of(item.nodeid):
                item.add_marker(read_lesson(lesson).short)
        # Within a lesson the basic suite comes first; a plugin that shuffles does so after this.
        items.sort(key=lambda item: (_lesson_of(item.nodeid) or "~", "/basic" not in item.nodeid))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Load what the lessons' scenarios need, such as peft: seconds that belong to no test."""
        for lesson in sorted({_lesson_of(item.nodeid) or "" for item in session.items}):
            if (TESTCASES / lesson / "scenarios.py").is_file():
                importlib.import_module(f"testcases.{lesson}.scenarios")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        if not _lesson_of(item.nodeid):
            return (yield)
        if self.engine is None:
            self.engine = self._make_engine()
        self.engine.answered.clear()
        with self.engine.active():
            result = yield
        self.asked.setdefault(function_of(item.nodeid), []).extend(self.engine.answered)
        return result

    def _make_engine(self) -> Any:
        from testcases.engine import evaluate
        from testcases.engine.session import Engine

        reference = self.subject == "solutions"
        subject = evaluate.solutions() if reference else evaluate.student(_folder(self.subject), self._end_process)
        return Engine(subject, seed=self.config.getoption("--suite-seed"))

    def _end_process(self, request: Any) -> None:
        """The last resort: an endless loop that swallows what is raised in it would keep pytest for ever."""
        if capture := self.config.pluginmanager.getplugin("capturemanager"):
            capture.suspend_global_capture(in_=True)
        print(
            f"\n{request.lesson} · {request.exercise} never ends, and catches whatever would stop it, so pytest ends "
            "here: is there a loop around `except:` or `except BaseException:`? Catch the one error that you expect.",
            file=sys.__stderr__,
            flush=True,
        )
        os._exit(1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        if entry := entry_of(item.nodeid):
            self.engine.require_started(entry.lesson, entry.exercise)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        error = call.excinfo.value if call.excinfo else None
        if _lesson_of(item.nodeid) is None or not isinstance(error, (AssertionError, NotStarted, Blocked)):
            return (yield)
        entry = entry_of(item.nodeid)
        kind = error.kind if isinstance(error, CheckFailed) else "wrong answer"
        text = str(error)
        if entry and not isinstance(error, CheckFailed):
            text = f"{entry.lesson} · {entry.exercise} · {kind}\n{text}"
        # pytest would render the frames of the engine, which costs more than the test.
        item.repr_failure = lambda *args, **options: text  # type: ignore[method-assign]
        report = yield
        if isinstance(error, (NotStarted, Blocked)):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), item.location[1] or 0, str(error))
            report.course_status = "not started" if isinstance(error, NotStarted) else "blocked"
        else:
            report.course_kind = f"{kind}: {error.cause or ''}" if isinstance(error, CheckFailed) else kind
            report.sections = []
        return report

    def pytest_report_teststatus(self, report: Any) -> Any:
        status = getattr(report, "course_status", None)
        if status == "not started":
            return status, "n", ("NOT STARTED", {"cyan": True})
        if status == "blocked":
            return status, "b", ("BLOCKED", {"yellow": True})
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if entry_of(report.nodeid) is None or (report.when != "call" and not report.failed):
            return
        status = getattr(report, "course_status", "passed" if report.passed else "failed")
        function, _, parameters = report.nodeid.partition("[")
        self.results.setdefault(function_of(function), {})[parameters.rstrip("]")] = status

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Iterator[None]:
        """One or two failures of each exercise in full, the others counted; then the bars."""
        failed = terminalreporter.stats.get("failed", [])
        shown, hidden = (sorted(failed, key=_place), {}) if self.config.getoption("--full") else _first_of_each(failed)
        if failed:
            terminalreporter.stats["failed"] = shown
        try:
            result = yield
        finally:
            if failed:
                terminalreporter.stats["failed"] = failed
        for exercise, count in hidden.items():
            terminalreporter.write_line(f"{exercise}: {count} more failed; fix the above first, or see all with --full")
        self._write_bars(terminalreporter)
        return result

    def _take_back_what_is_not_earned(self) -> list[str]:
        """Passed tests that nothing stands behind earn nothing, as the grader has it; a line for each exercise."""
        from testcases.engine.earned import EARNS_NOTHING, not_earned

        lines = []
        for lesson, exercise in dict.fromkeys((entry.lesson, entry.exercise) for entry in manifest().values()):
            own = [entry.node for entry in entries(lesson) if entry.exercise == exercise]
            passed = [node for node in own if set(self.results.get(node, {}).values()) == {"passed"}]
            if not passed or len(passed) == len(own):
                continue
            with self.engine.active():
                why = not_earned(self.engine, lesson, exercise, {node: self.asked[node] for node in passed})
            for node in why:
                self.results[node] = dict.fromkeys(self.results[node], "not earned")
            if why:
                lines.append(f"{lesson} {exercise}: {EARNS_NOTHING} ({len(why)} passed)")
        return lines

    def _write_bars(self, terminalreporter: Any) -> None:
        if not self.results or hasattr(self.config, "workerinput"):
            return
        for line in self._take_back_what_is_not_earned() if self.engine else ():
            terminalreporter.write_line(line)
        lessons = [name for name in lesson_names() if any(function.startswith(name + "/") for function in self.results)]
        state: progress.Results = self.results
        if self.subject == "tutorial":
            before = progress.read(progress.STATE)
            narrowed = self.config.option.keyword or any("::" in str(arg) for arg in self.config.args)
            progress.update(self.results, whole=not narrowed)
            state = progress.read(progress.STATE)
            for line in told(lessons, before, state):
                terminalreporter.write_line(line)
        terminalreporter.section("your progress" if self.subject == "tutorial" else f"subject: {self.subject}", sep="-")
        waiting = {
            report.longrepr[2]
            for report in terminalreporter.stats.get("blocked", [])
            if isinstance(report.longrepr, tuple)
        }
        for line in sorted(waiting):
            terminalreporter.write_line(line)
        for line in progress.bars(lessons, state):
            terminalreporter.write_line(line)
        if self.subject == "tutorial" and (following := progress.next_step(lessons, state)):
            terminalreporter.write_line(following)


def _first_of_each(failed: list[Any]) -> tuple[list[Any], dict[str, int]]:
    """The failures to show, and how many of each exercise are left out."""
    shown: list[Any] = []
    kinds: dict[tuple[str, str], set[str]] = {}
    hidden: dict[str, int] = {}
    for report in sorted(failed, key=_place):
        entry = entry_of(report.nodeid)
        if entry is None or not hasattr(report, "course_kind"):
            shown.append(report)
            continue
        seen = kinds.setdefault((entry.lesson, entry.exercise), set())
        if report.course_kind in seen or len(seen) >= SHOWN_PER_EXERCISE:
            name = f"{entry.lesson} {entry.exercise}"
            hidden[name] = hidden.get(name, 0) + 1
        else:
            seen.add(report.course_kind)
            shown.append(report)
    return shown, hidden


def _place(report: Any) -> tuple[Any, ...]:
    """Order of the suites, whatever the order of the run."""
    _, line, name = report.location
    return _lesson_of(report.nodeid) or "~", "/basic" not in report.nodeid, line or 0, name


def _lesson_of(nodeid: str) -> str | None:
    folder = nodeid.replace("\\", "/").rpartition("testcases/")[2].partition("/")[0]
    return folder if folder in lesson_names() else None


def pytest_report_header(config: pytest.Config) -> str | None:
    subject = config.getoption("--subject")
    return (
        None if subject == "tutorial" else f"subject: {subject}, suite seed {config.getoption('--suite-seed')} ({ROOT})"
    )
