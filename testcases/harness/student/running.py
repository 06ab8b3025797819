"""A plugin: the tests of a run ask one engine, what they raise becomes a verdict, and the end says how far the student
is."""

import faulthandler
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from ..catalog import SOLUTIONS, TUTORIAL, Entry, is_basic, lesson_of, read_lesson, split_node
from ..execution.calling import Terms
from ..execution.executor import InProcess
from ..report.errors import Open
from ..report.failures import CheckFailed
from ..suite import anti_gaming
from ..suite.asserts import verdict_of
from ..suite.questions import if_right
from ..suite.runner import entry_of, keep_what_is_loaded, load
from ..suite.session import Engine
from . import last_words, own_tests, summary
from .summary import TOLD

OPEN = {"not started": "cyan", "waiting": "yellow", "kept": "green"}
"""Status of a test that has neither passed nor failed -> its color."""
WRONG = "wrong answer"


def folder_of(subject: str) -> Path:
    return TUTORIAL if subject == "tutorial" else Path(subject).resolve()


class Running:
    """The hooks of a run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.subject: str = config.getoption("--subject")
        self.in_order: list[pytest.Item] = []
        self.entries: dict[pytest.Item, Entry] = {}
        self.said_by: dict[tuple[str, str], pytest.Item] = {}
        """Lesson, and exercise or file -> the test that says for all others what is wrong with it."""
        self.note: Any = None
        with suppress(OSError):
            self.note = last_words.note(folder_of(self.subject)) if self.subject != "solutions" else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # A lesson without a table: pytest makes a test of an empty list, and skips it.
        items[:] = [item for item in items if "[NOTSET" not in item.name]
        for item in items:
            if lesson := lesson_of(item.nodeid):
                item.add_marker(read_lesson(lesson).short)
                item.add_marker("basic" if is_basic(split_node(item.nodeid)[0]) else "advanced")
        # Within a lesson the basic suite comes first, where no plugin shuffles after this.
        items.sort(key=lambda item: (lesson_of(item.nodeid) or "~", "/basic" not in item.nodeid))
        self.in_order = [*items]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Load what the tests need, and count the points of all suites, whatever tests are chosen: these seconds belong
        to no test."""
        try:
            for lesson in sorted({lesson_of(item.nodeid) or "" for item in session.items} - {""}):
                load(lesson)
        except LookupError as error:
            raise pytest.UsageError(str(error)) from None
        chosen = {*session.items}
        found = ((item, entry_of(item.nodeid)) for item in self.in_order if item in chosen)
        self.entries = {item: entry for item, entry in found if entry}
        keep_what_is_loaded()

    @cached_property
    def engine(self) -> Engine:
        reference = self.subject == "solutions"
        terms = Terms(unstoppable=self._end_process)
        subject = InProcess(SOLUTIONS, own=False) if reference else InProcess(folder_of(self.subject), terms=terms)
        return Engine(subject, pays_once=not reference)

    def _end_process(self, call: Any, where: str) -> None:
        if capture := self.config.pluginmanager.getplugin("capturemanager"):
            capture.suspend_global_capture(in_=True)
        last_words.end_process(self.note, call.lesson, call.exercise, where)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Any:
        with last_words.staying():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """A test of a lesson asks the code under test, and what it raises becomes a verdict."""
        if (entry := self.entries.get(item)) is None:
            return (yield)
        if self.note:
            print(entry.lesson, entry.exercise, sep=" · ", file=self.note, flush=True)
        self.engine.begin_test(entry.is_basic)
        with self.engine.active():
            try:
                self.engine.require_started(entry.lesson, entry.exercise)
                result = yield
                self.engine.end_test()
                return result
            except (Exception, pytest.fail.Exception) as error:
                if (found := verdict_of(error)) is None:
                    raise
                verdict = self._verdict(item, entry, found)
        raise verdict from None

    def _verdict(self, item: pytest.Item, entry: Entry, error: Exception) -> BaseException:
        """The failure or skip that pytest reports, without the frames of the harness."""
        waits = self._said_before(item, entry, error)
        if waits or isinstance(error, Open):
            said = waits or str(error)
            telling: dict[str, Any] = {"status": getattr(error, "status", "waiting"), "said": said}
            verdict: BaseException = pytest.skip.Exception(said)
        else:
            first = "" if entry.is_basic else if_right(item.nodeid, error)
            telling = {"status": "failed", "kind": WRONG, "cause": "", "if_right": first}
            text = f"{entry.lesson} · {entry.exercise} · {getattr(error, 'title', WRONG)}\n{error}"
            if isinstance(error, CheckFailed):
                telling |= {"kind": error.kind, "cause": error.cause or "", "remedies": error.remedies}
                telling |= {"status": "partly" if error.share else "failed", "share": error.share}
                text = str(error)
            verdict = pytest.fail.Exception(text, pytrace=False)
        item.user_properties.append((TOLD, {**telling, "place": self.in_order.index(item)}))
        # Where the student's code raised, `--pdb` stops there.
        return verdict.with_traceback(error.__traceback__)

    def _said_before(self, item: pytest.Item, entry: Entry, error: Exception) -> str:
        """What this test waits for, if another one has reported the same: a file that does not load, or a call that
        does not end."""
        found = error.outcome.error if isinstance(error, CheckFailed) and error.outcome else None
        if found is None or not (found.is_of_file or found.kind == "timeout"):
            return ""
        about = entry.file if found.is_of_file else entry.exercise
        if self.said_by.setdefault((entry.lesson, about), item) == item:
            return ""
        why = f"is waiting for {about} to load" if found.is_of_file else "is not called again: its calls did not end"
        return f"{entry.lesson}: {entry.exercise} {why}"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        report = yield
        if item in self.entries:
            report.sections = [(title, summary.shortened(text)) for title, text in report.sections]
        return report

    def pytest_report_teststatus(self, report: Any) -> Any:
        status = dict(report.user_properties).get(TOLD, {}).get("status") if report.when == "call" else None
        return (status, status[0], (status.upper(), {OPEN[status]: True})) if status in OPEN else None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        if terminal := self.config.pluginmanager.getplugin("terminalreporter"):
            for sentence in last_words.left_behind() if self.note else ():
                terminal.write_line(sentence)
        if self.note:
            faulthandler.enable(self.note)  # in place of the terminal, to which pytest has Python write a crash

    def pytest_unconfigure(self) -> None:
        if self.note:
            last_words.take_back(self.note)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """The exit status is 0 only if all that was asked for has passed: whoever runs pytest reads no more of it."""
        terminal = self.config.pluginmanager.getplugin("terminalreporter")
        if terminal and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            # A skip of the course's own, such as for want of a GPU, is not among a lesson's tests or a student's own.
            skipped = [one.nodeid for one in summary.reports_of(terminal) if one.skipped]
            files = [Path(nodeid.partition("::")[0]) for nodeid in skipped]
            if any(map(lesson_of, skipped)) or any(map(own_tests.is_own_tests, files)):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Iterator[None]:
        not_earned = partial(anti_gaming.not_earned_again, self.engine)
        run = summary.Run(self.subject, summary.is_whole(self.config), not_earned, terminalreporter)
        with run.first_failures(self.config.getoption("--full")):
            result = yield
        run.write_ending()
        return result
