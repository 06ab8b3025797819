"""A plugin: the tests of a run ask one engine, and what they raise becomes a verdict."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from ..catalog import SOLUTIONS, TUTORIAL, Entry, is_basic, lesson_of, read_lesson, split_node
from ..execution.calling import Terms
from ..execution.executor import InProcess
from ..report.errors import Open
from ..report.failures import CheckFailed
from ..suite.asserts import verdict_of
from ..suite.questions import if_right
from ..suite.runner import entry_of, keep_what_is_loaded, load
from ..suite.session import Engine
from .last_words import LastWords
from .summary import TOLD, shortened

OPEN = {"not started": "cyan", "waiting": "yellow", "kept": "green"}
"""Status of a test that has neither passed nor failed -> its color."""
WRONG = "wrong answer"


def folder_of(subject: str) -> Path:
    return TUTORIAL if subject == "tutorial" else Path(subject).resolve()


class Running:
    """The hooks of a run."""

    def __init__(self, config: pytest.Config, last_words: LastWords) -> None:
        self.config, self.last_words = config, last_words
        self.subject: str = config.getoption("--subject")
        self.in_order: list[pytest.Item] = []
        self.entries: dict[pytest.Item, Entry] = {}
        self.said_by: dict[tuple[str, str], pytest.Item] = {}
        """Lesson, and exercise or file -> the test that says for all others what is wrong with it."""

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
        terms = Terms(unstoppable=self.last_words.end_process)
        subject = InProcess(SOLUTIONS, own=False) if reference else InProcess(folder_of(self.subject), terms=terms)
        return Engine(subject, pays_once=not reference)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """A test of a lesson asks the code under test, and what it raises becomes a verdict."""
        if (entry := self.entries.get(item)) is None:
            return (yield)
        if note := self.last_words.note:
            print(entry.lesson, entry.exercise, sep=" · ", file=note, flush=True)
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
            text = f"{entry.lesson} · {entry.exercise} · {WRONG}\n{error}"
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
            report.sections = [(title, shortened(text)) for title, text in report.sections]
        return report

    def pytest_report_teststatus(self, report: Any) -> Any:
        status = dict(report.user_properties).get(TOLD, {}).get("status") if report.when == "call" else None
        return (status, status[0], (status.upper(), {OPEN[status]: True})) if status in OPEN else None
