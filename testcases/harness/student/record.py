"""What is known of a student's tests: kept in `.progress/` at the root, from one run of pytest to the next.

The tests of a lesson, with their points, are those that pytest has collected when one of them was run last: so nothing
here has to import a suite, or torch.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_text

from ..catalog.lessons import ROOT, TUTORIAL
from ..catalog.points import Entry

FOLDER = ROOT / ".progress"
STATE = FOLDER / "tests.json"

CHANGED = "changed since"
WORST_FIRST = ("failed", CHANGED, "partly", "waiting", "not started", "not run", "not earned", "kept", "passed")
"""Of a case of a test. "kept": right with the solution's version of what it calls. "changed since": it has failed or
passed, and its file is another one now. "not earned": a stub would pass it, too."""
FAILED = ("failed", "partly", CHANGED)
DONE = ("passed", "kept")


@dataclass(frozen=True)
class Result:
    """Of one case of a test."""

    status: str
    share: float = 0.0
    """Of its points, where it is earned partly."""
    waits_for: str = ""
    """The stub of its lesson for which it waits."""
    remedies: tuple[str, ...] = ()
    """What to do about the causes that a failure names: `make hint` says it."""
    code: str = ""
    """The version of its exercise's file."""


@dataclass(frozen=True)
class Test:
    """One test function, and what is known of its cases."""

    entry: Entry
    cases: Mapping[str, Result] = field(default_factory=dict)
    """Parameters -> result."""

    @property
    def status(self) -> str:
        """The worst of its cases."""
        return _worst(one.status for one in self.cases.values())

    @property
    def earned(self) -> int:
        """Its points so far."""
        if self.status == "partly":
            return int(self.entry.points * min(one.share for one in self.cases.values() if one.share))
        return self.entry.points if self.status in DONE else 0

    def marked(self, status: str) -> "Test":
        """With all its cases at one status."""
        return replace(self, cases=dict.fromkeys(self.cases, Result(status)))


State = Mapping[str, Test]
"""Node -> test, of the lessons that have been run."""
Results = Mapping[str, Mapping[str, Result]]
"""Node -> parameters -> result, of one run."""


def read(path: Path) -> dict[str, Any]:
    """A state file; empty where there is none, or where it cannot be read."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(path: Path, state: Mapping[str, Any]) -> None:
    """Atomically, so that an interrupted run leaves the old state."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ignore = path.parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", "utf-8")
    write_text(path, json.dumps(state, indent=1))


def so_far() -> dict[str, Test]:
    """What is kept: of each test its last result, or that its file has changed since."""
    found, now = {}, versions()
    for node, kept in read(STATE).items():
        with suppress(AttributeError, KeyError, TypeError):  # where somebody has edited it
            entry = Entry(**kept["entry"])
            cases = {case: result_of(one) for case, one in kept["cases"].items()}
            found[node] = Test(entry, {case: _as_of(now[entry.path], one) for case, one in cases.items()})
    return found


def _as_of(code: str, result: Result) -> Result:
    return result if result.code == code or result.status not in (*DONE, *FAILED) else Result(CHANGED)


def versions() -> dict[str, str]:
    """The files of the lessons, by their path below `tutorial/`, and what each holds now, as a short hash."""
    found = defaultdict[str, str](str)
    for path in TUTORIAL.glob("lesson*/*.py"):
        with suppress(OSError):  # such as a link to nothing, by which Emacs says that a file is being edited
            found[path.relative_to(TUTORIAL).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return found


def keep(state: State) -> None:
    """Write all that is known."""
    write(STATE, {node: asdict(test) for node, test in state.items()})


def forget(lesson: str) -> None:
    """What is known of a lesson whose stubs are put back."""
    keep({node: test for node, test in so_far().items() if test.entry.lesson != lesson})


def result_of(told: Mapping[str, Any]) -> Result:
    """A result from plain values, of which some may have become lists on their way."""
    return Result(told["status"], told["share"], told["waits_for"], tuple(told["remedies"]), told["code"])


def merged(state: State, collected: Iterable[Entry], results: Results, whole: bool) -> dict[str, Test]:
    """What is known after a run. All tests of its lessons are `collected`; with `whole` the former parameters of those
    that it ran are forgotten."""
    collected = [*collected]
    lessons = {entry.lesson for entry in collected}
    after = {node: test for node, test in state.items() if test.entry.lesson not in lessons}
    for entry in collected:
        before = state[entry.node].cases if entry.node in state else {}
        now = results.get(entry.node)
        after[entry.node] = Test(entry, before if now is None else dict(now) if whole else {**before, **now})
    return after


def all_is_earned(own: Iterable[Test]) -> bool:
    """Whether none of these tests fails any longer; then those that were not earned have passed."""
    return {test.status for test in own} <= {"passed", "kept", "not earned", "not run"}


def tests_of(state: State, lesson: str, exercise: str = "") -> list[Test]:
    """What is known of a lesson, or of one exercise of it."""
    own = [test for test in state.values() if test.entry.lesson == lesson]
    return [test for test in own if exercise in ("", test.entry.exercise)]


def exercise_status(lesson: str, exercise: str, state: State) -> str:
    """Status of an exercise: the worst of its tests."""
    return _worst(test.status for test in tests_of(state, lesson, exercise))


def _worst(found: Iterable[str]) -> str:
    return min(found, key=WORST_FIRST.index, default="not run")
