"""What one test says to a student: whether it has failed, waits or is kept, and of what is wrong with a whole file only
once. pytest's report carries it to the end of the run."""

from collections.abc import Mapping
from typing import Any

import pytest

from ..catalog import Entry
from ..report.errors import Open
from ..report.failures import CheckFailed
from ..suite.questions import if_right

TOLD = "ppo-by-hand"
"""Name of the property of a report in which `told` stands."""
OPEN = {"not started": "cyan", "waiting": "yellow", "kept": "green"}
"""Status of a test that has neither passed nor failed -> its color."""
WRONG = "wrong answer"


def told(report: Any) -> dict[str, Any]:
    """What the course has to say of a test on pytest's report of it, nothing where it has simply passed: `status`,
    `share` and `remedies` as in `progress.Result`; the `kind` of a failure and its `cause`, since those of one kind and
    cause are shown once; `if_right`, what it begins with if the basic suite has passed; `said`, what one of the OPEN
    waits for; its `place` in the order of the suites."""
    return dict(getattr(report, "user_properties", ())).get(TOLD, {})


class Verdicts:
    """The verdicts of one process.

    Args:
        entries: the tests of lessons, in the order of the suites, before a plugin shuffles them.
    """

    def __init__(self, entries: Mapping[pytest.Item, Entry]) -> None:
        self._entries = entries
        self._places = {item: place for place, item in enumerate(entries)}
        self._said_by: dict[tuple[str, str], pytest.Item] = {}
        """Lesson, and exercise or file -> the test that says for all others what is wrong with it."""

    def of(self, item: pytest.Item, error: Exception) -> BaseException:
        """The failure or skip that pytest reports, without the frames of the harness."""
        entry = self._entries[item]
        waits = self._said_before(item, entry, error)
        if waits or isinstance(error, Open):
            said = waits or str(error)
            told: dict[str, Any] = {"status": getattr(error, "status", "waiting"), "said": said}
            verdict: BaseException = pytest.skip.Exception(said)
        else:
            first = "" if entry.is_basic else if_right(item.nodeid, error)
            told = {"status": "failed", "kind": WRONG, "cause": "", "if_right": first}
            text = f"{entry.lesson} · {entry.exercise} · {getattr(error, 'title', WRONG)}\n{error}"
            if isinstance(error, CheckFailed):
                told |= {"kind": error.kind, "cause": error.cause or "", "remedies": error.remedies}
                told |= {"status": "partly" if error.share else "failed", "share": error.share}
                text = str(error)
            verdict = pytest.fail.Exception(text, pytrace=False)
        item.user_properties.append((TOLD, {**told, "place": self._places[item]}))
        # Where the student's code raised, `--pdb` stops there.
        return verdict.with_traceback(error.__traceback__)

    def _said_before(self, item: pytest.Item, entry: Entry, error: Exception) -> str:
        """What this test waits for, if another test reports the same failure: a file that does not load is reported by
        the first test of its exercises, an endless loop by the first test that calls it."""
        found = error.outcome.error if isinstance(error, CheckFailed) and error.outcome else None
        if found and found.is_of_file:
            first = self._first_of_file(entry)
            return "" if first == item else f"{entry.lesson}: {entry.exercise} is waiting for {entry.file} to load"
        if found and found.kind == "timeout":
            first = self._said_by.setdefault((entry.lesson, entry.exercise), item)
            said = f"{entry.lesson}: {entry.exercise} is not called again, since its calls did not end"
            return "" if first == item else said
        return ""

    def _first_of_file(self, entry: Entry) -> pytest.Item:
        """The first test of the exercises of this file that is run, those of the basic suite before all others."""
        key = entry.lesson, entry.file
        if key not in self._said_by:
            fitting = [item for item, one in self._entries.items() if (one.lesson, one.file) == key]
            self._said_by[key] = min(fitting, key=lambda item: "/basic" not in item.nodeid)
        return self._said_by[key]
