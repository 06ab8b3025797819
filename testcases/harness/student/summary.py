"""What a run of pytest says to a student: whether each test has passed, failed or waits, and at the end the first
failures of each exercise, and how far they are."""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ..catalog.lessons import lesson as read_lesson
from ..catalog.lessons import on_the_path, stories
from ..catalog.points import Entry, lesson_of, split_node
from ..report.failures import CheckFailed, Kept, NotStarted, Waiting, with_first_line
from ..suite.questions import if_right
from ..suite.runner import entries, entry_of
from . import progress
from .progress import Result

SHOWN_PER_EXERCISE = 2
HANDED_OUT = "_as_handed_out"
TOLD = "ppo-by-hand"
"""Name of the property of a report in which `told` stands."""
OPEN = {"not started": "cyan", "waiting": "yellow", "kept": "green"}
"""Status of a test that has neither passed nor failed -> its color."""
WRONG = "wrong answer"


def told(report: Any) -> dict[str, Any]:
    """What the course has to say of a test on pytest's report of it, nothing where it has simply passed: `status`,
    `share`, `waits_for` and `remedies` as in `progress.Result`; the `kind` of a failure and its `cause`, since those
    of one kind and cause are shown once; `if_right`, what it begins with if the basic suite has passed; `said`, what
    one of the OPEN waits for; its `place` in the order of the suites."""
    return dict(getattr(report, "user_properties", ())).get(TOLD, {})


class Verdicts:
    """The verdicts of one process: what is wrong with a whole file is said once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._said_by: dict[tuple[str, str], str] = {}
        """Lesson, and exercise or file -> the test that says for all others what is wrong with it."""

    def number(self, nodeid: str) -> None:
        """Keep the order of the suites, before a plugin shuffles the tests."""
        self._places[nodeid] = len(self._places)

    def of(self, item: pytest.Item, entry: Entry, error: Exception) -> BaseException:
        """The failure or skip that pytest reports, without the frames of the harness."""
        waits = self._said_before(item, entry, error)
        status = {Kept: "kept", NotStarted: "not started", Waiting: "waiting"}.get(type(error), "")
        common = {"share": 0.0, "waits_for": "", "remedies": (), "place": self._places[item.nodeid]}
        if waits or status:
            said = waits or str(error)
            more = {"status": status or "waiting", "said": said, "waits_for": getattr(error, "waits_for", "")}
            verdict: BaseException = pytest.skip.Exception(said)
        else:
            more = {
                "status": "failed",
                "kind": WRONG,
                "cause": "",
                "if_right": "" if entry.is_basic else if_right(item.nodeid, error),
            }
            text = f"{entry.lesson} · {entry.exercise} · {getattr(error, 'title', WRONG)}\n{error}"
            if isinstance(error, CheckFailed):
                more |= {"kind": error.kind, "cause": error.cause or "", "remedies": error.remedies}
                more |= {"status": "partly" if error.share else "failed", "share": error.share}
                text = str(error)
            verdict = pytest.fail.Exception(text, pytrace=False)
        item.user_properties.append((TOLD, {**common, **more}))
        # Where the student's code raised, `--pdb` stops there.
        return verdict.with_traceback(error.__traceback__)

    def _said_before(self, item: pytest.Item, entry: Entry, error: Exception) -> str:
        """What this test waits for, if another test reports the same failure: a file that does not load is reported by
        the first test of its exercises, an endless loop by the first test that calls it."""
        found = error.outcome.error if isinstance(error, CheckFailed) and error.outcome else None
        file = read_lesson(entry.lesson).file_of(entry.exercise)
        if found and found.is_of_file:
            first = self._first_of_file((one.nodeid for one in item.session.items), entry.lesson, file)
            return "" if first == item.nodeid else f"{entry.lesson}: {entry.exercise} is waiting for {file} to load"
        if found and found.kind == "timeout":
            first = self._said_by.setdefault((entry.lesson, entry.exercise), item.nodeid)
            said = f"{entry.lesson}: {entry.exercise} is not called again, since two calls did not end"
            return "" if first == item.nodeid else said
        return ""

    def _first_of_file(self, nodes: Iterable[str], lesson: str, file: str) -> str:
        if (lesson, file) not in self._said_by:
            mine = [(node, entry) for node in nodes if (entry := entry_of(node)) and entry.lesson == lesson]
            fitting = [node for node, entry in mine if read_lesson(lesson).file_of(entry.exercise) == file]
            first = min(fitting, key=lambda node: ("/basic" not in node, self._places[node]))
            self._said_by[lesson, file] = first
        return self._said_by[lesson, file]


@dataclass
class Run:
    """What one run of pytest has found."""

    subject: str
    is_progress: bool
    """Whether it is of the student's own folder, so that what it finds is kept."""
    is_whole: bool
    """Whether it runs all cases of each test that it runs."""
    not_earned: Callable[[str, str, Sequence[str]], Mapping[str, str]]
    """Asked for the passed tests of an exercise that a stub would pass, too."""
    results: dict[str, dict[str, Result]] = field(default_factory=dict)

    def note(self, report: Any) -> None:
        """Keep the result of a test."""
        if entry_of(report.nodeid) and (report.when == "call" or report.failed):
            function, case = split_node(report.nodeid)
            said, plain = told(report), Result("passed" if report.passed else "failed")
            self.results.setdefault(function, {})[case] = progress.result_of(said) if said else plain

    def shown(self, failed: list[Any], full: bool) -> tuple[list[Any], list[str]]:
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

    def _merged(self, before: progress.State) -> dict[str, progress.Test]:
        lessons = dict.fromkeys(lesson_of(node) or "" for node in self.results)
        collected = (entry for lesson in lessons for entry in entries(lesson))
        return progress.merged(before, collected, self.results, self.is_whole)

    def write_ending(self, terminal: Any) -> None:
        """Keep what is known, and write how far the student is."""
        lessons = on_the_path({name for node in self.results if (name := lesson_of(node))})
        if not lessons:
            return
        before = progress.so_far() if self.is_progress else {}
        state = self._merged(before)
        lines = self._take_back(state)
        if self.is_progress:
            progress.keep(state)
            lines += _stories_told(lessons, before, state)
            state = {node: test if node in self.results else progress.earlier(test) for node, test in state.items()}
        for line in lines:
            terminal.write_line(line)
        terminal.section("your progress" if self.is_progress else f"subject: {self.subject}", sep="-")
        waiting = {told(report)["said"] for one in ("kept", "waiting") for report in terminal.stats.get(one, [])}
        lines = [*sorted(waiting), *(progress.bar(lesson, state) for lesson in lessons)]
        if self.is_progress:
            lines += progress.finished(lessons, before, state) or filter(None, [progress.next_step(lessons, state)])
            lines += filter(None, [progress.the_end(lessons, state)])
        for line in lines:
            terminal.write_line(line)

    def _take_back(self, state: dict[str, progress.Test]) -> list[str]:
        """While an exercise has a failure, in this run or an earlier one, its passed tests that nothing stands behind
        earn nothing, as the grader has it; they do once it has none. A line that says so."""
        taken: dict[str, int] = {}
        tested = [entry for node in self.results if (entry := entry_of(node))]
        for lesson, exercise in dict.fromkeys((entry.lesson, entry.exercise) for entry in tested):
            own = {test.entry.node: test for test in progress.tests_of(state, lesson, exercise)}
            if progress.all_is_earned(own.values()):
                state.update({node: test.marked("passed") for node, test in own.items() if test.status == "not earned"})
                continue
            passed = [node for node in own if {*self.results.get(node, {}).values()} == {Result("passed")}]
            if why := self.not_earned(lesson, exercise, passed) if passed else {}:
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
    shown: list[Any] = []
    kinds: dict[str, set[tuple[str, str]]] = {}
    hidden: dict[str, int] = {}
    for report in failed:
        entry, said = entry_of(report.nodeid), told(report)
        if entry is None or not said:
            shown.append(report)
            continue
        name, kind = f"{entry.lesson} {entry.exercise}", (said["kind"], said["cause"])
        seen = kinds.setdefault(name, set())
        if kind in seen or len(seen) >= SHOWN_PER_EXERCISE:
            hidden[name] = hidden.get(name, 0) + 1
        else:
            seen.add(kind)
            shown.append(report)
    return shown, hidden


def _stories_told(lessons: Iterable[str], before: progress.State, after: progress.State) -> list[str]:
    """The lines about each suspect that has passed now and had not before."""
    lines = []
    for lesson in lessons:
        for exercise, story in stories(lesson).items():
            passed = [progress.exercise_status(lesson, exercise, state) == "passed" for state in (before, after)]
            if passed == [False, True]:
                lines += textwrap.wrap(f"{exercise}: found. {story['source']}. {story['story']}", 110) + [""]
    return lines
