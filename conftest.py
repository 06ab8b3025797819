"""pytest for students: who is tested, what they read, and how far they have come."""

import gc
import os
import pickle
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testcases.welcome import greet

for _file in Path.cwd().glob("*.py"):
    if str(_file.parent) in sys.path and _file.stem in {*sys.stdlib_module_names, "numpy", "torch", "transformers"}:
        _why = f"so whatever imports {_file.stem} gets your file: rename it."
        raise SystemExit(f"{_file.name} has the name of the library {_file.stem}, {_why}")

greet()  # before torch is loaded
# Models as small as these lose more to a second thread than they gain: on a busy machine two thirds of the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from testcases.harness.catalog.lessons import ROOT, TESTCASES, TUTORIAL, lesson_names  # noqa: E402
from testcases.harness.catalog.lessons import lesson as read_lesson  # noqa: E402
from testcases.harness.catalog.points import KINDS, case_of, entries, entry_of, function_of, lesson_of  # noqa: E402
from testcases.harness.report.failures import CheckFailed, Kept, NotStarted, Waiting, printed_lines, with_first_line  # noqa: E402
from testcases.harness.student import hint, last_words, own_tests, progress  # noqa: E402
from testcases.harness.student.anecdotes import told  # noqa: E402
from testcases.harness.student.results import Result, Verdict, unpacked, verdict_of  # noqa: E402
from testcases.harness.suite.asserts import failure_of  # noqa: E402
from testcases.harness.suite.questions import if_right  # noqa: E402
from testcases.harness.suite.runner import keep_what_is_loaded  # noqa: E402

SHOWN_PER_EXERCISE = 2
WRONG = "wrong answer"
HANDED_OUT = "_as_handed_out"
LONG_PRINT = 20_000
LEAVE = os._exit


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("PPO by Hand")
    group.addoption("--subject", default="tutorial", help='whose code: a copy of tutorial/ (default), or "solutions"')
    group.addoption("--suite-seed", type=int, default=0, help="of the fresh random inputs")
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
    if any(str(TESTCASES / name) in config.args for name in lesson_names()):
        config.args.append(str(TESTCASES / "contract_test.py"))  # it asks the lessons whose folders are asked for
    if config.option.verbose == 0:  # The configuration says -q, so this is -v: the names of the tests are wanted.
        config.option.verbose = 1
    if not config.pluginmanager.is_registered(own_tests):
        config.pluginmanager.register(own_tests)
    config.pluginmanager.register(_Run(config), "ppo-by-hand")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is loaded to collect the tests stays: to look for garbage in it takes a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start with what is slow: first what one process must run in a row, then what is alone, then the many wrong and
    right answers of an exercise; end with the lessons' suites. So no process waits for another's last test.

    And keep an `xdist_group` in one process: xdist 3.8 writes a field that pytest 9.2 never reads (its issue 1386).
    """
    if not getattr(config.option, "loadgroup", False):
        return
    groups = {item: mark.args[0] for item in items if (mark := item.get_closest_marker("xdist_group"))}

    def place(item: pytest.Item) -> tuple[bool, int, bool]:
        of_an_exercise = groups.get(item, "").startswith("lesson")
        rank = 2 if of_an_exercise else 1 - (item in groups)
        return item.get_closest_marker("slow") is None, rank, lesson_of(item.nodeid) is not None

    items.sort(key=place)
    for item, group in groups.items():
        if "@" not in item.nodeid.rpartition("]")[2]:
            item._id = type(item._id).parse(f"{item.nodeid}@{group}")  # type: ignore[attr-defined]


def _suites_of(config: pytest.Config, arg: str) -> list[str]:
    """What to run for an argument of pytest: for a lesson's folder or file in `tutorial/`, the lesson's suite; a file
    of the student's own tests is itself one."""
    path = (config.invocation_params.dir / arg).resolve()
    if path.parent == TESTCASES and path.name in lesson_names():
        return [str(path)]
    if not path.is_relative_to(TUTORIAL) or own_tests.is_own_tests(path):
        return [arg]
    inside = path.relative_to(TUTORIAL).parts[:1]
    return [str(TESTCASES / name) for name in lesson_names() if not inside or name == inside[0]] or [arg]


def _folder(subject: str) -> Path:
    return TUTORIAL if subject == "tutorial" else Path(subject).resolve()


class _Run:
    """The state of one pytest run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.subject: str = config.getoption("--subject")
        self.places: dict[str, int] = {}
        self.first_of_file: dict[tuple[str, str], str] = {}
        self.endless: set[str] = set()
        self.results: dict[str, dict[str, Result]] = {}
        self.answered: dict[str, list[Any]] = {}
        """Test function -> lists of its questions that were answered with a value; pickled by other processes."""
        self.engine: Any = None
        self.is_open = False
        """Whether something that was asked for has neither passed nor failed."""
        self.note = None if self.subject == "solutions" else last_words.note(_folder(self.subject).resolve())
        self.codes = progress.codes() if self.subject == "tutorial" and not hasattr(config, "workerinput") else {}

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Number the tests in the order of the suites, before a plugin shuffles them."""
        self.places[item.nodeid] = len(self.places)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if lesson := lesson_of(item.nodeid):
                entry = entry_of(item.nodeid)
                item.add_marker(read_lesson(lesson).short)
                item.add_marker("basic" if entry and entry.is_basic else "advanced")
        # A lesson without a table: pytest makes a test of an empty list, and skips it.
        items[:] = [item for item in items if "[NOTSET" not in item.name]
        # Within a lesson the basic suite comes first; a plugin that shuffles does so after this.
        items.sort(key=lambda item: (lesson_of(item.nodeid) or "~", "/basic" not in item.nodeid))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Load the lessons, and what their scenarios need, such as peft: seconds that belong to no test."""
        from testcases.harness.oracle.reference import load

        try:
            for lesson in sorted({lesson_of(item.nodeid) or "" for item in session.items} - {""}):
                load(f"solutions.{lesson}")
                if (TESTCASES / lesson / "scenarios.py").is_file():
                    load(f"testcases.{lesson}.scenarios")
        except LookupError as error:
            raise pytest.UsageError(str(error)) from None
        keep_what_is_loaded()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        if not lesson_of(item.nodeid):
            return (yield)
        if self.engine is None:
            self.engine = self._make_engine()
        entry = entry_of(item.nodeid)
        self.engine.begin_test(entry is not None and entry.is_basic)
        with self.engine.active():
            result = yield
        return result

    def _make_engine(self) -> Any:
        from testcases.harness.execution import executor
        from testcases.harness.suite.session import Engine

        terms = executor.Terms(unstoppable=self._end_process)
        reference = self.subject == "solutions"
        subject = executor.solutions() if reference else executor.student(_folder(self.subject), terms)
        seed, is_student = self.config.getoption("--suite-seed"), not reference
        return Engine(subject, seed=seed, impatient=is_student, pays_once=is_student)

    def _end_process(self, call: Any, where: str) -> None:
        """The last resort: an endless loop that swallows what is raised in it would keep pytest for ever."""
        if capture := self.config.pluginmanager.getplugin("capturemanager"):
            capture.suspend_global_capture(in_=True)
        print(
            f"\n{call.lesson} · {call.exercise} never ends, and catches whatever would stop it, so pytest ends "
            f"here, at {where}: is there a loop around `except:` or `except BaseException:`? Catch the one error that "
            "you expect.",
            file=sys.__stderr__,
            flush=True,
        )
        if self.note:
            self.note.take_back()
        LEAVE(1)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        if (entry := entry_of(item.nodeid)) is None:
            return (yield)
        if self.note:
            self.note.at(entry)
        with last_words.staying():
            self.engine.require_started(entry.lesson, entry.exercise)
            result = yield
        self.engine.end_test()
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        if lesson_of(item.nodeid) is None:
            return (yield)
        error = failure_of(call.excinfo.value) if call.excinfo else None
        if isinstance(error, (AssertionError, Kept, NotStarted, Waiting)):
            # pytest would render the frames of the engine, which costs more than the test.
            item.repr_failure = lambda *args, **options: _text_of(item, error)  # type: ignore[method-assign]
        said_before = self._said_before(item, error)
        report = yield
        report.verdict = verdict = Verdict(self.places.get(item.nodeid, 0))
        if said_before or isinstance(error, (Kept, NotStarted, Waiting)):
            report.outcome = "skipped"
            report.longrepr = (str(item.path), item.location[1] or 0, said_before or str(error))
            waits_for = error.waits_for if isinstance(error, Waiting) else None
            status = {Kept: "kept", NotStarted: "not started"}.get(type(error), "waiting")
            verdict.result = Result(status, waits_for=waits_for)
        elif isinstance(error, AssertionError):
            verdict.kind = error.kind if isinstance(error, CheckFailed) else WRONG
            verdict.cause = getattr(error, "cause", None) or ""
            verdict.if_right = if_right(item.nodeid, error)
            verdict.remedies = getattr(error, "remedies", ())
            report.sections = [(title, _shortened(text)) for title, text in report.sections]
            if share := getattr(error, "share", 0.0):
                verdict.result = Result("partly", share)
        if call.when == "call":
            verdict.answered = list(self.engine.answered)
            if hasattr(self.config, "workerinput"):  # Another process decides what is earned.
                verdict.answered = pickle.dumps(() if self.subject == "solutions" else self.engine.answered)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_report_to_serializable(self) -> Any:
        data = yield
        if data and "verdict" in data:
            data["verdict"] = data["verdict"].packed()
        return data

    @pytest.hookimpl(wrapper=True)
    def pytest_report_from_serializable(self) -> Any:
        report = yield
        if isinstance(found := getattr(report, "verdict", None), dict):
            report.verdict = unpacked(found)
        return report

    def _said_before(self, item: pytest.Item, error: BaseException | None) -> str | None:
        """What this test waits for, if another test reports the same failure: a file that does not load is reported by
        the first test of its exercises, an endless loop by the first test that calls it."""
        found = error.outcome.error if isinstance(error, CheckFailed) and error.outcome else None
        entry = entry_of(item.nodeid)
        if found is None or entry is None:
            return None
        if found.is_of_file:
            file = read_lesson(entry.lesson).file_of(entry.exercise)
            if item.nodeid == self._first_of_file(item.session, entry.lesson, file):
                return None
            return f"{entry.lesson}: {entry.exercise} is waiting for {file} to load"
        if found.kind != "timeout":
            return None
        if entry.exercise in self.endless:
            return f"{entry.lesson}: {entry.exercise} is not called again, since one call did not end"
        self.endless.add(entry.exercise)
        return None

    def _first_of_file(self, session: pytest.Session, lesson: str, file: str) -> str:
        if (lesson, file) not in self.first_of_file:
            nodes = [item.nodeid for item in session.items]
            mine = [(entry_of(node), node) for node in nodes if lesson_of(node) == lesson]
            fitting = [node for entry, node in mine if entry and read_lesson(lesson).file_of(entry.exercise) == file]
            self.first_of_file[lesson, file] = min(fitting, key=lambda node: ("/basic" not in node, self.places[node]))
        return self.first_of_file[lesson, file]

    def pytest_report_teststatus(self, report: Any) -> Any:
        result = verdict_of(report).result
        if result and result.status in ("not started", "waiting", "kept"):
            color = {"not started": "cyan", "waiting": "yellow", "kept": "green"}[result.status]
            return result.status, result.status[0], (result.status.upper(), {color: True})
        return None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note_skipped(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note_skipped(report)
        if entry_of(report.nodeid) is None or (report.when != "call" and not report.failed):
            return
        verdict = verdict_of(report)
        function, case = function_of(report.nodeid), case_of(report.nodeid)
        result = verdict.result or Result("passed" if report.passed else "failed")
        self.results.setdefault(function, {})[case] = result
        self.answered.setdefault(function, []).append(verdict.answered)

    def _note_skipped(self, report: Any) -> None:
        """A skip of the course's own, such as for want of a GPU, is not among a lesson's tests or a student's own."""
        is_students = lesson_of(report.nodeid) or own_tests.is_own_tests(Path(report.nodeid.partition("::")[0]))
        self.is_open = self.is_open or bool(report.skipped and is_students)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        terminal = self.config.pluginmanager.getplugin("terminalreporter")
        for sentence in last_words.left_behind() if self.note and terminal else ():
            terminal.write_line(sentence)

    def pytest_unconfigure(self) -> None:
        if self.note:
            self.note.take_back()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """The exit status is 0 only if all that was asked for has passed: whoever runs pytest reads no more of it."""
        if self.is_open and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Iterator[None]:
        """One or two failures of each exercise in full, the others counted; then the bars."""
        failed = terminalreporter.stats.get("failed", [])
        self._say_what_is_right(failed)
        is_one = len({lesson_of(function) for function in self.results}) == 1
        later = [report for report in failed if not is_one and verdict_of(report).cause.endswith(HANDED_OUT)]
        shown, hidden = _first_of_each([report for report in failed if report not in later])
        if self.config.getoption("--full"):
            shown, hidden, later = sorted(failed, key=_place), {}, []
        if failed:
            terminalreporter.stats["failed"] = shown
        try:
            result = yield
        finally:
            if failed:
                terminalreporter.stats["failed"] = failed
        for exercise, count in hidden.items():
            terminalreporter.write_line(f"{exercise}: {count} more failed; fix the above first, or see all with --full")
        for lesson in sorted({lesson_of(report.nodeid) or "" for report in later}):
            terminalreporter.write_line(f"{lesson}: handed out broken, and not repaired yet; it is that lesson's work")
        self._write_bars(terminalreporter)
        return result

    def _say_what_is_right(self, failed: list[Any]) -> None:
        """A failure of the advanced suite says first that the formula is right, where all of the basic suite has passed
        in this run, or in an earlier one of the same code."""
        known = {**(progress.so_far() if self.subject == "tutorial" else {}), **self.results}
        for report in failed:
            entry, said = entry_of(report.nodeid), verdict_of(report).if_right
            if not said or entry is None or entry.is_basic or not isinstance(report.longrepr, str):
                continue
            own = [one for one in entries(entry.lesson) if one.exercise == entry.exercise and one.is_basic]
            if all(progress.status(one, known) == "passed" for one in own):
                report.longrepr = with_first_line(said, report.longrepr)

    def _take_back_what_is_not_earned(self, state: dict[str, dict[str, Result]]) -> list[str]:
        """While an exercise has a failure, in this run or an earlier one, its passed tests that nothing stands behind
        earn nothing, as the grader has it; they do once it has none. A line that says so."""
        from testcases.harness.suite.anti_gaming import not_earned

        taken: dict[str, int] = {}
        tested = [entry for node in self.results if (entry := entry_of(node))]
        for lesson, exercise in dict.fromkeys((entry.lesson, entry.exercise) for entry in tested):
            own = [entry for entry in entries(lesson) if entry.exercise == exercise]
            if progress.all_is_earned(own, state):
                continue
            all_passed = {Result("passed")}
            passed = [entry.node for entry in own if {*self.results.get(entry.node, {}).values()} == all_passed]
            if not passed:
                continue
            self.engine = self.engine or self._make_engine()  # None where other processes ran the tests
            asked = {node: [one for part in self.answered[node] for one in _unpickled(part)] for node in passed}
            with self.engine.active():
                why = not_earned(self.engine, lesson, exercise, asked)
            state.update({node: dict.fromkeys(state[node], Result("not earned")) for node in why})
            if why:
                taken[exercise] = sum(len(self.results[node]) for node in why)
        if not taken:
            return []
        number, names = sum(taken.values()), " and ".join(filter(None, [", ".join([*taken][:-1]), [*taken][-1]]))
        if number == 1:
            first, then = "1 of these passes doesn't count yet, because a stub would pass it too.", "It counts"
        else:
            first, then = f"{number} of these passes don't count yet, because a stub would pass them too.", "They count"
        return [f"{first} {then} once all tests of {names} pass."]

    def _keep_remedies(self, failed: list[Any]) -> None:
        """For `make hint`: those of the first failure of each exercise, which says the idea."""
        tested = [entry for node in self.results if (entry := entry_of(node))]
        kept = {f"{entry.lesson}.{entry.exercise}": None for entry in tested}
        for report in sorted(failed, key=_place, reverse=True):
            entry, said = entry_of(report.nodeid), verdict_of(report).remedies
            if entry and said:
                kept[f"{entry.lesson}.{entry.exercise}"] = [*said]
        before = progress.read(hint.REMEDIES)
        progress.write(hint.REMEDIES, {name: said for name, said in {**before, **kept}.items() if said})

    def _write_bars(self, terminalreporter: Any) -> None:
        if not self.results or hasattr(self.config, "workerinput"):
            return
        lessons = [name for name in lesson_names() if any(function.startswith(name + "/") for function in self.results)]
        is_student = self.subject == "tutorial"
        before = progress.so_far() if is_student else {}
        options = [getattr(self.config.option, name, None) for name in ("keyword", "lf", "stepwise", "deselect")]
        narrowed = any(options) or any("::" in str(arg) for arg in self.config.args)
        state = progress.merged(before, self.results, whole=not narrowed)
        lines = self._take_back_what_is_not_earned(state)
        if is_student:
            progress.keep(state, self.codes)
            self._keep_remedies(terminalreporter.stats.get("failed", []))
            lines += told(lessons, before, state)
            state = {node: cases if node in self.results else progress.earlier(cases) for node, cases in state.items()}
        for line in lines:
            terminalreporter.write_line(line)
        terminalreporter.section("your progress" if self.subject == "tutorial" else f"subject: {self.subject}", sep="-")
        waiting = {
            report.longrepr[2]
            for status in ("kept", "waiting")
            for report in terminalreporter.stats.get(status, [])
            if isinstance(report.longrepr, tuple)
        }
        lines = [*sorted(waiting), *progress.bars(lessons, state)]
        if self.subject == "tutorial":
            done = progress.finished(lessons, before, state)
            lines += done or filter(None, [progress.next_step(lessons, state)])
            lines += filter(None, [progress.the_end(lessons, state)])
        for line in lines:
            terminalreporter.write_line(line)


def _unpickled(found: Any) -> Any:
    return pickle.loads(found) if isinstance(found, bytes) else found


def _text_of(item: pytest.Item, error: BaseException) -> str:
    entry = entry_of(item.nodeid)
    if entry is None or isinstance(error, CheckFailed):
        return str(error)
    return f"{entry.lesson} · {entry.exercise} · {getattr(error, 'title', WRONG)}\n{error}"


def _shortened(text: str) -> str:
    """What a test has printed, at most a screenful."""
    from testcases.harness.execution.messages import Outcome

    return "\n".join(printed_lines(Outcome(printed=text[:LONG_PRINT], printed_length=len(text)))[1:])


def _place(report: Any) -> tuple[Any, ...]:
    """Order of the suites, whatever the order of the run."""
    _, line, name = report.location
    return lesson_of(report.nodeid) or "~", "/basic" not in report.nodeid, line or 0, verdict_of(report).place, name


def _first_of_each(failed: list[Any]) -> tuple[list[Any], dict[str, int]]:
    """The failures to show, and how many of each exercise are left out."""
    shown: list[Any] = []
    kinds: dict[tuple[str, str], set[tuple[str, str]]] = {}
    hidden: dict[str, int] = {}
    for report in sorted(failed, key=_place):
        entry = entry_of(report.nodeid)
        verdict = verdict_of(report)
        kind = verdict.kind, verdict.cause
        if entry is None or not verdict.kind:
            shown.append(report)
            continue
        seen = kinds.setdefault((entry.lesson, entry.exercise), set())
        if kind in seen or len(seen) >= SHOWN_PER_EXERCISE:
            name = f"{entry.lesson} {entry.exercise}"
            hidden[name] = hidden.get(name, 0) + 1
        else:
            seen.add(kind)
            shown.append(report)
    return shown, hidden


def pytest_report_header(config: pytest.Config) -> str | None:
    subject = config.getoption("--subject")
    return (
        None if subject == "tutorial" else f"subject: {subject}, suite seed {config.getoption('--suite-seed')} ({ROOT})"
    )
