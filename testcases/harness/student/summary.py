"""A plugin: the end of a run of pytest: its exit status, the first failures of each exercise, what does not count yet,
and how far the student is."""

from __future__ import annotations

import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..catalog import lesson_of, on_the_path, read_lesson, split_node, stories
from ..report.failures import wrap
from ..suite.anti_gaming import not_earned_again
from ..suite.questions import with_first_line
from ..suite.runner import entries, entry_of
from . import own_tests, progress
from .progress import Result, State, Test

if TYPE_CHECKING:
    from .running import Running

TOLD = "ppo-by-hand"
"""Name of the property of a report in which `told` stands."""
SHOWN_PER_EXERCISE = 2
HANDED_OUT = "_as_handed_out"
SCREEN, MAX_PRINTED = 24, 20_000
"""Lines and letters that are shown of what a test has printed."""


def told(report: Any) -> dict[str, Any]:
    """What the course has to say of a test on pytest's report of it, nothing where it has simply passed: `status`,
    `share` and `remedies` as in `progress.Result`; the `kind` of a failure and its `cause`, since those of one kind and
    cause are shown once; `if_right`, what it begins with if the basic suite has passed; `said`, what it waits for; its
    `place` in the order of the suites."""
    return dict(getattr(report, "user_properties", ())).get(TOLD, {})


def shortened(text: str) -> str:
    """What a test has printed, at most a screenful."""
    lines = [line for one in text[:MAX_PRINTED].strip("\n").rstrip().splitlines() for line in wrap("    " + one)]
    if len(lines) > SCREEN or len(text) > MAX_PRINTED:
        lines = lines[:SCREEN] + [f"    ... cut: {len(text):,} characters in all; pytest -s shows them"]
    return "\n".join(lines)


class Summary:
    """The hooks at the end of a run."""

    def __init__(self, config: pytest.Config, running: Running) -> None:
        self.config, self.running = config, running
        self.is_progress = running.subject == "tutorial"
        """Whether it is of the student's own folder, so that what it finds is kept."""

    @property
    def terminal(self) -> Any:
        """pytest's, which has all reports; None in a process that only runs tests for another."""
        return self.config.pluginmanager.getplugin("terminalreporter")

    @property
    def reports(self) -> list[Any]:
        """pytest's on tests, and on files that it did not collect."""
        groups = self.terminal.stats.values()
        return [one for group in groups for one in group if isinstance(one, (pytest.TestReport, pytest.CollectReport))]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """The exit status is 0 only if all that was asked for has passed: whoever runs pytest reads no more of it."""
        if self.terminal and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            # A skip of the course's own, such as for want of a GPU, is not among a lesson's tests or a student's own.
            skipped = [one.nodeid for one in self.reports if one.skipped]
            files = [Path(nodeid.partition("::")[0]) for nodeid in skipped]
            if any(map(lesson_of, skipped)) or any(map(own_tests.is_own_tests, files)):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self) -> Iterator[None]:
        with self._first_failures(self.config.getoption("--full")):
            result = yield
        self._write_ending()
        return result

    @cached_property
    def results(self) -> dict[str, dict[str, Result]]:
        """Node -> parameters -> result."""
        found: dict[str, dict[str, Result]] = {}
        for report in self.reports:
            if (entry := entry_of(report.nodeid)) and (report.when == "call" or report.failed):
                said = {"status": "passed" if report.passed else "failed", **told(report)}
                result = Result(said["status"], said.get("share", 0.0), tuple(said.get("remedies", ())))
                found.setdefault(entry.node, {})[split_node(report.nodeid)[1]] = result
        return found

    @contextmanager
    def _first_failures(self, full: bool) -> Iterator[None]:
        """In this block pytest shows one or two failures of each exercise; behind it the others are counted."""
        stats, lines = self.terminal.stats, list[str]()
        if failed := stats.get("failed", []):
            stats["failed"], lines = self._shown(failed, full)
        try:
            yield
        finally:
            if failed:
                stats["failed"] = failed
        for line in lines:
            self.terminal.write_line(line)

    def _shown(self, failed: list[Any], full: bool) -> tuple[list[Any], list[str]]:
        """The failures to show, in the order of the suites, and a line about each of the others."""
        self._say_what_is_right(failed)
        failed = sorted(failed, key=_place)
        if full:
            return failed, []
        is_one = len({lesson_of(function) for function in self.results}) == 1
        later = [report for report in failed if not is_one and told(report).get("cause", "").endswith(HANDED_OUT)]
        shown, hidden = _first_of_each([report for report in failed if report not in later])
        lines = [f"{name}: {n} more failed; fix the above first, or see all with --full" for name, n in hidden.items()]
        for lesson in sorted({lesson_of(report.nodeid) or "" for report in later}):
            lines.append(f"{lesson}: some exercises were handed out broken, and repairing them is that lesson's task")
        return shown, lines

    def _say_what_is_right(self, failed: list[Any]) -> None:
        """A failure of the advanced suite says first that the formula is right, where all of the basic suite has passed
        in this run."""
        known = self._merged({})
        for report in failed:
            entry, said = entry_of(report.nodeid), told(report).get("if_right")
            if said and entry:
                own = progress.tests_of(known, entry.lesson, entry.exercise)
                if all(test.status == "passed" for test in own if test.entry.is_basic):
                    report.longrepr = with_first_line(said, report.longreprtext)

    def _merged(self, before: State) -> dict[str, Test]:
        lessons = dict.fromkeys(lesson_of(node) or "" for node in self.results)
        collected = (entry for lesson in lessons for entry in entries(lesson))
        some = [getattr(self.config.option, name, None) for name in ("keyword", "lf", "stepwise", "deselect")]
        is_whole = not any(some) and not any("::" in str(arg) for arg in self.config.args)
        return progress.merged(before, collected, self.results, is_whole)

    def _write_ending(self) -> None:
        """Keep what is known, and write how far the student is."""
        lessons = on_the_path({name for node in self.results if (name := lesson_of(node))})
        if not lessons:
            return
        before = progress.so_far() if self.is_progress else {}
        state = self._merged(before)
        lines = self._take_back(state)
        if self.is_progress:
            try:
                progress.keep(state)
            except OSError as error:
                lines.append(f"Your progress could not be kept: {error}")
            lines += _stories_told(lessons, before, state)
        for line in lines:
            self.terminal.write_line(line)
        self.terminal.section("your progress" if self.is_progress else f"subject: {self.running.subject}", sep="-")
        waiting = {told(report)["said"] for one in ("kept", "waiting") for report in self.terminal.stats.get(one, [])}
        lines = [*sorted(waiting), *(progress.bar(lesson, state) for lesson in lessons)]
        if self.is_progress:
            for lesson in lessons:
                if progress.left(lesson, before) and not progress.left(lesson, state):
                    number = read_lesson(lesson).number
                    lines.append(f"Compare your code with the course's:  make solution LESSON={number}")
            lines.append(progress.next_step(lessons, state))
        for line in lines:
            self.terminal.write_line(line)

    def _take_back(self, state: dict[str, Test]) -> list[str]:
        """While an exercise has a failure, in this run or an earlier one, its passed tests that nothing stands behind
        earn nothing, as the grader has it; they do once it has none. A line that says so."""
        taken: dict[str, int] = {}
        tested = [entry for node in self.results if (entry := entry_of(node))]
        for lesson, exercise in dict.fromkeys((entry.lesson, entry.exercise) for entry in tested):
            own = {test.entry.node: test for test in progress.tests_of(state, lesson, exercise)}
            if {test.status for test in own.values()} <= {"passed", "kept", "not earned", "not run"}:
                state.update({node: test.marked("passed") for node, test in own.items() if test.status == "not earned"})
                continue
            passed = [node for node in own if {one.status for one in self.results.get(node, {}).values()} == {"passed"}]
            if why := not_earned_again(self.running.engine, lesson, exercise, passed) if passed else {}:
                state.update({node: own[node].marked("not earned") for node in why})
                taken[exercise] = sum(len(self.results[node]) for node in why)
        if not taken:
            return []
        number = sum(taken.values())
        because = "because a stub would pass too. That changes once all tests of"
        return [f"Not counted yet: {number} of these passes, {because} {', '.join(taken)} pass."]


def _place(report: Any) -> tuple[Any, ...]:
    """Order of the suites, whatever the order of the run."""
    _, line, name = report.location
    return lesson_of(report.nodeid) or "~", "/basic" not in report.nodeid, line or 0, told(report).get("place", 0), name


def _first_of_each(failed: list[Any]) -> tuple[list[Any], dict[str, int]]:
    """The failures to show, and how many of each exercise are left out."""
    shown, seen, hidden = list[Any](), defaultdict[str, set[Any]](set), Counter[str]()
    for report in failed:
        entry, said = entry_of(report.nodeid), told(report)
        if entry and said:
            name, kind = f"{entry.lesson} {entry.exercise}", (said["kind"], said["cause"])
            if kind in seen[name] or len(seen[name]) >= SHOWN_PER_EXERCISE:
                hidden[name] += 1
                continue
            seen[name].add(kind)
        shown.append(report)
    return shown, hidden


def _stories_told(lessons: Iterable[str], before: State, after: State) -> list[str]:
    """The lines about each suspect that has passed now and had not before."""
    lines = []
    for lesson in lessons:
        for exercise, story in stories(lesson).items():
            passed = [progress.exercise_status(lesson, exercise, state) == "passed" for state in (before, after)]
            if passed == [False, True]:
                lines += textwrap.wrap(f"{exercise}: found. {story['source']}. {story['story']}", 110) + [""]
    return lines
