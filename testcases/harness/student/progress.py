"""How far a student has come: kept in `.progress/` from one run of pytest to the next, shown after each of them and by
`make progress`.

The tests of a lesson, with their points, are those that pytest has collected when one of them was run last: so nothing
here has to import a suite, or torch.

python -m testcases.harness.student.progress
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_json

from ..catalog import ROOT, Entry, course_lessons, electives, lesson_names, on_the_path, read_lesson, text_of

FOLDER = ROOT / ".progress"
STATE = FOLDER / "tests.json"

WORST_FIRST = ("failed", "partly", "waiting", "not started", "not run", "not earned", "kept", "passed")
"""Of a case of a test. "kept": right with the solution's version of what it calls. "not earned": a stub would pass it,
too."""
FAILED = ("failed", "partly")
DONE = ("passed", "kept")
BAR = 24
AT_THE_END = (
    "The course is done. Now train with your own blocks, beside the reference's run:  "
    "make demo STACK=tutorial OUT=runs/mine"
)


@dataclass(frozen=True)
class Result:
    """Of one case of a test."""

    status: str
    share: float = 0.0
    """Of its points, where it is earned partly."""
    remedies: tuple[str, ...] = ()
    """What to do about the causes that a failure names: `make hint` says it."""


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
        return replace(self, cases={case: replace(one, status=status) for case, one in self.cases.items()})


State = Mapping[str, Test]
"""Node -> test, of the lessons that have been run."""
Results = Mapping[str, Mapping[str, Result]]
"""Node -> parameters -> result, of one run."""


def read(path: Path) -> dict[str, Any]:
    """A state file; empty where there is none, or where it cannot be read."""
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, TypeError, ValueError):
        return {}


def so_far() -> dict[str, Test]:
    """What is kept: of each test its last result."""
    found = {}
    for node, kept in read(STATE).items():
        with suppress(AttributeError, LookupError, TypeError, ValueError):  # of an older course, or edited by hand
            cases = {case: Result(**one) for case, one in kept["cases"].items()}
            test = Test(Entry(**kept["entry"]), cases)
            if test.entry.points + test.earned >= 0:  # It raises where a status is unknown, or points are no numbers.
                found[node] = test
    return found


def keep(state: State) -> None:
    """Write all that is known."""
    write_json(STATE, {node: asdict(test) for node, test in state.items()})


def forget(lesson: str) -> None:
    """What is known of a lesson whose stubs are put back."""
    keep({node: test for node, test in so_far().items() if test.entry.lesson != lesson})


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


def tests_of(state: State, lesson: str, exercise: str = "") -> list[Test]:
    """What is known of a lesson, or of one exercise of it."""
    own = [test for test in state.values() if test.entry.lesson == lesson]
    return [test for test in own if exercise in ("", test.entry.exercise)]


def exercise_status(lesson: str, exercise: str, state: State) -> str:
    """Status of an exercise: the worst of its tests."""
    return _worst(test.status for test in tests_of(state, lesson, exercise))


def _worst(found: Iterable[str]) -> str:
    return min(found, key=WORST_FIRST.index, default="not run")


# What is said of it


def left(lesson: str, state: State) -> dict[str, str]:
    """The exercises of a lesson that are not done, and their status. What has failed comes first; else the order is the
    text's."""
    statuses = {name: exercise_status(lesson, name, state) for name in _as_in_the_text(lesson)}
    found = {name: status for name, status in statuses.items() if status not in DONE}
    return dict(sorted(found.items(), key=lambda pair: pair[1] not in FAILED))


@cache
def _as_in_the_text(lesson: str) -> tuple[str, ...]:
    """The exercises of a lesson in the order of its text; one that stands in no table of it comes last."""
    text = text_of(lesson)
    return tuple(sorted(read_lesson(lesson).exercises, key=lambda name: text.find(f"| `{name}` |") % (len(text) + 1)))


def bar(lesson: str, state: State) -> str:
    """One line: "lesson04_gae  ######......  12/20 points  left: compute_gae (failed)"."""
    tests, open_ones = tests_of(state, lesson), left(lesson, state)
    points, total = _points(tests)
    filled = BAR * points // total if total else 0
    line = f"{lesson:{max(map(len, lesson_names()))}}  {'#' * filled}{'.' * (BAR - filled)}  "
    line += f"{points:3}/{total} points" if tests else "not run yet"
    if not open_ones:
        return f"{line}  done"
    if tests:
        basic, rest = (_points(test for test in tests if test.entry.is_basic == is_basic) for is_basic in (True, False))
        line += " (formula {}/{}, safe {}/{})".format(*basic, *rest)
    shown = ", ".join(f"{name} ({status})" for name, status in [*open_ones.items()][:3])
    return f"{line}  {len(open_ones)} left: {shown}{', ...' if len(open_ones) > 3 else ''}"


def _points(tests: Iterable[Test]) -> tuple[int, int]:
    """Earned, and in all."""
    tests = [*tests]
    return sum(test.earned for test in tests), sum(test.entry.points for test in tests)


def next_step(lessons: Iterable[str], state: State) -> str:
    """The first exercise that is left of these lessons, else of the course from there on, and where it is; one that
    waits for another only where no other is left."""
    lessons, course = [*lessons], on_the_path(course_lessons())
    start = course.index(lessons[-1]) if lessons[-1] in course else 0
    for lesson in (*lessons, *course[start:], *course):
        if found := left(lesson, state):
            name = min(found, key=lambda one: found[one] == "waiting")
            where = f"in tutorial/{lesson}/{read_lesson(lesson).file_of(name)}"
            return f"Next: {name}, {where}. Read tutorial/{lesson}/README.md first."
    return AT_THE_END


@contextmanager
def said_plainly() -> Iterator[None]:
    """A name that is not known, or a file that cannot be written, ends the command with a sentence alone, without a
    traceback."""
    try:
        yield
    except (LookupError, OSError) as error:
        print(error if isinstance(error, OSError) else error.args[0], file=sys.stderr)
        sys.exit(2)


@said_plainly()
def main() -> None:
    argparse.ArgumentParser(prog="make progress", description="Show how far you have come.").parse_args()
    state = so_far()
    course = on_the_path(course_lessons())
    if not state:
        print(f"You haven't run any tests yet. Start with:  pytest testcases/{course[0]}")
    print(*(bar(lesson, state) for lesson in course), sep="\n")
    print("\nafter the course (electives):", *(bar(lesson, state) for lesson in electives()), sep="\n")
    print("\n" + next_step(course[:1], state))


if __name__ == "__main__":
    main()
