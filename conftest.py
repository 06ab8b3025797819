"""pytest for students: who is tested, what they read, and how far they have come."""

import faulthandler
import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from testcases.welcome import greet, refuse_names_of_libraries

refuse_names_of_libraries()
greet()  # before torch is loaded
# Models as small as these lose more to a second thread than they gain: on a busy machine two thirds of the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from testcases.harness.catalog import (
    CONTRACT,
    KINDS,
    ROOT,
    TESTCASES,
    TUTORIAL,
    Entry,
    is_basic,
    lesson_names,
    lesson_of,
    read_lesson,
    split_node,
)
from testcases.harness.execution import executor
from testcases.harness.execution.calling import Terms
from testcases.harness.report.failures import shortened
from testcases.harness.student import last_words, own_tests, progress, summary
from testcases.harness.student.verdicts import OPEN, Verdicts, told
from testcases.harness.suite import anti_gaming
from testcases.harness.suite.asserts import verdict_of
from testcases.harness.suite.runner import entry_of, keep_what_is_loaded, load
from testcases.harness.suite.session import Engine


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("PPO by Hand")
    group.addoption("--subject", default="tutorial", help='whose code: a copy of tutorial/ (default), or "solutions"')
    group.addoption("--full", action="store_true", help="show every failure, not only the first ones of each exercise")


def pytest_configure(config: pytest.Config) -> None:
    for name in lesson_names():
        config.addinivalue_line("markers", f"{read_lesson(name).short}: the suite of {name}")
    config.addinivalue_line("markers", "points(number): what a test is worth, if it is not 1")
    for kind, about in KINDS.items():
        config.addinivalue_line("markers", f"{kind}: {about}")
    subject = config.getoption("--subject")
    if subject != "solutions" and not _folder(subject).is_dir():
        raise pytest.UsageError(f"--subject: there is no folder {subject!r}")
    if subject != "solutions":
        # A library's warning, or that of a file left open, is no mistake; for each test, and for the end of the run.
        config.addinivalue_line("filterwarnings", "ignore")
        warnings.simplefilter("ignore")
    config.args = list(dict.fromkeys(suite for arg in config.args for suite in _suites_of(config, arg)))
    if config.option.verbose == 0:  # The configuration says -q, so this is -v: the names of the tests are wanted.
        config.option.verbose = 1
    is_own = any(own_tests.is_own_tests(config.invocation_params.dir / arg) for arg in config.args)
    if is_own and not config.pluginmanager.is_registered(own_tests):
        config.pluginmanager.register(own_tests)
    config.pluginmanager.register(_Plugin(config), "ppo-by-hand")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is loaded to collect the tests stays: to look for garbage in it takes a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def _suites_of(config: pytest.Config, arg: str) -> list[str]:
    """What to run for an argument of pytest: for a lesson's folder, or a file of it in `tutorial/`, its suites and
    contract_test.py, which asks the lessons that are among the arguments. A student's own tests are a suite."""
    path = (config.invocation_params.dir / arg).resolve()
    inside = path.relative_to(TUTORIAL).parts[:1] if path.is_relative_to(TUTORIAL) else ()
    names = [name for name in lesson_names() if path in (TESTCASES / name, TUTORIAL) or name in inside]
    if not names or own_tests.is_own_tests(path):
        return [arg]
    return [*(str(TESTCASES / name) for name in names), str(TESTCASES / f"{CONTRACT}.py")]


def _is_whole(config: pytest.Config) -> bool:
    """Whether all cases of each test are run that is run."""
    options = [getattr(config.option, name, None) for name in ("keyword", "lf", "stepwise", "deselect")]
    return not any(options) and not any("::" in str(arg) for arg in config.args)


def _folder(subject: str) -> Path:
    return TUTORIAL if subject == "tutorial" else Path(subject).resolve()


class _Plugin:
    """The hooks that know whose code is tested."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.subject: str = config.getoption("--subject")
        self.in_order: list[pytest.Item] = []
        self.entries: dict[pytest.Item, Entry] = {}
        self.version: Any = None
        self.note: Any = None
        with suppress(OSError):
            self.note = last_words.note(_folder(self.subject)) if self.subject != "solutions" else None

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
        self.verdicts = Verdicts(self.entries)
        keep_what_is_loaded()

    @cached_property
    def engine(self) -> Engine:
        reference = self.subject == "solutions"
        terms = Terms(unstoppable=self._end_process)
        subject = executor.solutions() if reference else executor.student(_folder(self.subject), terms)
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
                verdict = self.verdicts.of(item, found)
        raise verdict from None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        report = yield
        if item in self.entries:
            report.sections = [(title, shortened(text)) for title, text in report.sections]
        return report

    def pytest_report_teststatus(self, report: Any) -> Any:
        status = told(report).get("status") if report.when == "call" else None
        return (status, status[0], (status.upper(), {OPEN[status]: True})) if status in OPEN else None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        if terminal := self.config.pluginmanager.getplugin("terminalreporter"):
            self.version = progress.versions_in(progress.sources())
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
        run = summary.Run(self.subject, _is_whole(self.config), not_earned, terminalreporter, self.version)
        with run.first_failures(self.config.getoption("--full")):
            result = yield
        run.write_ending()
        return result


def pytest_report_header(config: pytest.Config) -> str | None:
    subject = config.getoption("--subject")
    return None if subject == "tutorial" else f"subject: {subject} ({ROOT})"
