"""pytest's side of the debugger: at which call a run stops, and that it ends as usual."""

import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ...catalog import lesson_of
from ...execution import Request
from ...report import CheckFailed
from .. import verdict_of


class Stops:
    """A plugin of one run. `breakpoint()` stops once, when all tests have run: at the first failure whose reported call
    comes to it, else at the first listed test that does. `--pdb` stops at each failure.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.engine: Any = None
        self._reached: list[tuple[bool, tuple[Any, ...], str, Request]] = []
        self._entered = False
        self._plain_pdb: Any = None
        self._passed_over = False
        self._kind = ":".join(config.getoption("usepdb_cls", None) or ("pdb", "Pdb"))
        try:
            pkgutil.resolve_name(self._kind)
        except (ImportError, AttributeError, ValueError) as error:
            raise pytest.UsageError(f"--pdbcls: could not import {self._kind}: {error}") from error

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        plugins = session.config.pluginmanager
        if plugins.has_plugin("pdbinvoke"):
            self._plain_pdb = plugins.unregister(name="pdbinvoke")

    def note(self, item: pytest.Item, error: BaseException | None, report: Any) -> None:
        """Remember the breakpoints that a finished test has reached."""
        reached, self.engine.at_breakpoint = self.engine.at_breakpoint, []
        outcome = error.outcome if isinstance(error, CheckFailed) else None
        failed = error.request if isinstance(error, CheckFailed) and outcome and outcome.at_breakpoint else None
        if failed or reached:
            report.course_breakpoint = True
            text = str(error) if failed else f"breakpoint() in {item.name}, which {_said(report)}"
            self._reached.append((failed is None, place(report), text, failed or reached[0]))

    def pytest_exception_interact(self, node: Any, call: pytest.CallInfo[Any], report: Any) -> None:
        if self._plain_pdb is None or report.outcome == "skipped":
            return
        error = call.excinfo.value if call.excinfo else None
        if not isinstance(error, CheckFailed) or error.request is None or error.outcome is None:
            self._plain_pdb.pytest_exception_interact(node, call, report)
        elif self._enter(str(error), error.request, error.outcome.error):
            node.session.shouldstop = "you left the debugger"

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._passed_over |= getattr(report, "course_breakpoint", False)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._passed_over and not self._reached:  # The tests ran in other processes.
            terminalreporter.write_line("breakpoint() needs one process: run without -n.")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        try:
            result = yield
        except session.Failed:  # -x
            self._stop_once()
            raise
        self._stop_once()
        return result

    def _stop_once(self) -> None:
        if self._reached and not self._entered and not hasattr(self.config, "workerinput"):
            _, _, text, request = min(self._reached, key=lambda one: one[:2])
            self._enter(text, request, breakpoints=True)

    def _enter(self, text: str, request: Request, error: Any = None, breakpoints: bool = False) -> bool:
        """Open the debugger at a call; whether the student left it."""
        from .debugger import KEYS, look_at_error, step_through

        self._entered = True
        view = self.engine.subject.view(request.lesson)
        raised = error is not None and error.kind not in ("timeout", "missing", "signature")
        with self._terminal() as write:
            write(f"\n{text}\n\ndebugger: {KEYS}")
            left = look_at_error(view, request, self._kind) if raised and not breakpoints else None
            if raised and left is None and not breakpoints or error is not None and error.kind == "missing":
                write("No line of yours has run: there is nothing to step through.")
                return False
            return step_through(view, request, self._kind, from_the_start=not breakpoints) if left is None else left

    @contextmanager
    def _terminal(self) -> Iterator[Any]:
        """Nothing is captured until the end of the block."""
        capture = self.config.pluginmanager.getplugin("capturemanager")
        if capture:
            capture.suspend_global_capture(in_=True)
        try:
            yield lambda line: print(line, flush=True)
        finally:
            if capture:
                capture.resume_global_capture()


def _said(report: Any) -> str:
    result = verdict_of(report).result
    return (result.status if result else report.outcome).replace("not", "is not")


def place(report: Any) -> tuple[Any, ...]:
    """Order of the suites, whatever the order of the run."""
    _, line, name = report.location
    return lesson_of(report.nodeid) or "~", "/basic" not in report.nodeid, line or 0, verdict_of(report).place, name
