"""What pytest is told of a test of a lesson that has not simply passed: a failure, or a skip that says what it waits
for, and beside it what only the course knows."""

from collections.abc import Iterable
from typing import Any

import pytest

from ..catalog.lessons import lesson as read_lesson
from ..catalog.points import Entry
from ..report.failures import CheckFailed, Kept, NotStarted, Waiting
from ..suite.questions import if_right
from ..suite.runner import entry_of

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
        common = {"share": 0.0, "waits_for": None, "remedies": (), "place": self._places[item.nodeid]}
        if waits or status:
            said = waits or str(error)
            more = {"status": status or "waiting", "said": said, "waits_for": getattr(error, "waits_for", None)}
            verdict: BaseException = pytest.skip.Exception(said)
        else:
            more = {"status": "failed", "kind": WRONG, "cause": "", "if_right": if_right(item.nodeid, error)}
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
            said = f"{entry.lesson}: {entry.exercise} is not called again, since one call did not end"
            return "" if first == item.nodeid else said
        return ""

    def _first_of_file(self, nodes: Iterable[str], lesson: str, file: str) -> str:
        if (lesson, file) not in self._said_by:
            mine = [(node, entry) for node in nodes if (entry := entry_of(node)) and entry.lesson == lesson]
            fitting = [node for node, entry in mine if read_lesson(lesson).file_of(entry.exercise) == file]
            first = min(fitting, key=lambda node: ("/basic" not in node, self._places[node]))
            self._said_by[lesson, file] = first
        return self._said_by[lesson, file]
