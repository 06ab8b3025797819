"""How far a student has come: kept in `.progress/` from one run of pytest to the next, shown after each of them and by
`make progress`.

The tests of a lesson, with their points, are those that pytest has collected when one of them was run last: so nothing
here has to import a suite, or torch.

python -m testcases.harness.student.progress
"""

import argparse
import ast
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_text
from ppo_by_hand.core.progress import while_read

from ..catalog import (
    CAPSTONE,
    ROOT,
    TUTORIAL,
    Entry,
    course_lessons,
    electives,
    functions_in,
    lesson_names,
    on_the_path,
    once_written,
    read_lesson,
)

FOLDER = ROOT / ".progress"
STATE = FOLDER / "tests.json"

CHANGED = "changed since"
WORST_FIRST = ("failed", CHANGED, "partly", "waiting", "not started", "not run", "not earned", "kept", "passed")
"""Of a case of a test. "kept": right with the solution's version of what it calls. "changed since": it has failed or
passed, and its code is not what it was then. "not earned": a stub would pass it, too."""
FAILED = ("failed", "partly", CHANGED)
DONE = ("passed", "kept")
BAR = 24
AGAIN = "Some of its tests haven't run since you changed its file. Run them all:  pytest testcases/{}"


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
    """The version of its exercise."""


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
    """What is kept: of each test its last result, or that its exercise has changed since."""
    found, version = {}, versions_in(sources())
    for node, kept in read(STATE).items():
        with suppress(AttributeError, LookupError, TypeError):  # where somebody has edited it
            entry = Entry(**kept["entry"])
            cases = {case: result_of(one) for case, one in kept["cases"].items()}
            code = version(entry.lesson, entry.exercise)
            found[node] = Test(entry, {case: _as_of(code, one) for case, one in cases.items()})
    return found


def _as_of(code: str, result: Result) -> Result:
    has_run = result.status in (*DONE, *FAILED, "not earned")
    return Result(CHANGED) if has_run and result.code != code else result


def sources() -> dict[str, str]:
    """The files of the lessons as they are now, by their path below `tutorial/`."""
    found = {}
    for path in TUTORIAL.glob("lesson*/*.py"):
        with suppress(OSError):  # such as a link to nothing, by which Emacs says that a file is being edited
            found[path.relative_to(TUTORIAL).as_posix()] = path.read_text("utf-8", "replace")
    return found


def versions_in(now: Mapping[str, str]) -> Callable[[str, str], str]:
    """Of these files: lesson, exercise -> a short hash of all that may have a part in it, which is its file without the
    other exercises, and the files of its lesson that have none."""

    @cache
    def version(lesson: str, exercise: str) -> str:
        others = {*read_lesson(lesson).exercises} - {exercise}
        file_of = read_lesson(lesson).file_of
        left_out = {f"{lesson}/{file_of(name)}" for name in others} - {f"{lesson}/{file_of(exercise)}"}
        own = sorted(path for path in now if path.startswith(f"{lesson}/") and path not in left_out)
        return hashlib.sha256("".join(_code_beside(now[path], others) for path in own).encode()).hexdigest()[:16]

    return version


def _code_beside(source: str, exercises: Collection[str]) -> str:
    """A file without these exercises, comments and empty lines. Of one that is no Python no exercise is left out."""
    lines = source.split("\n")
    for name, first, last in _functions(source):
        if name in exercises:
            lines[first - 1 : last] = [""] * (last - first + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip() and not line.lstrip().startswith("#"))


@cache
def _functions(source: str) -> tuple[tuple[str, int, int], ...]:
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError), warnings.catch_warnings(action="ignore"):
        return (*functions_in(ast.parse(source)),)
    return ()


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


# What is said of it


def left(lesson: str, state: State) -> list[str]:
    """The exercises of a lesson in which something is left to do."""
    return [name for name in as_in_the_text(lesson) if exercise_status(lesson, name, state) not in DONE]


def most_urgent(lesson: str, state: State) -> dict[str, str]:
    """The exercises that are left, and their status. What has failed comes first; else the order is the text's."""
    found = {name: exercise_status(lesson, name, state) for name in left(lesson, state)}
    return dict(sorted(found.items(), key=lambda pair: (*FAILED, pair[1]).index(pair[1])))


@cache
def as_in_the_text(lesson: str) -> tuple[str, ...]:
    """The exercises of a lesson in the order of its text; one that stands in no table of it comes last."""
    path = TUTORIAL / lesson / "README.md"
    text = path.read_text("utf-8") if path.is_file() else ""
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
    shown = ", ".join(f"{name} ({exercise_status(lesson, name, state)})" for name in open_ones[:3])
    return f"{line}  {len(open_ones)} left: {shown}{', ...' if len(open_ones) > 3 else ''}"


def _points(tests: Iterable[Test]) -> tuple[int, int]:
    """Earned, and in all."""
    tests = [*tests]
    return sum(test.earned for test in tests), sum(test.entry.points for test in tests)


def next_step(lessons: Iterable[str], state: State) -> str:
    """The first exercise of these lessons that is not done, or the one of another lesson that it waits for, and where
    it is; empty if there is none."""
    for lesson in lessons:
        for name, status in most_urgent(lesson, state).items():
            if status == "waiting" and (waited := _waits_for(lesson, name, state)):
                return f"{_step(lesson, waited)} {name} waits for it."
            then = AGAIN.format(lesson) if status == CHANGED else f"Read tutorial/{lesson}/README.md first."
            return f"{_step(lesson, name)} {then}"
    return ""


def _step(lesson: str, exercise: str) -> str:
    return f"Next: {exercise}, in tutorial/{lesson}/{read_lesson(lesson).file_of(exercise)}."


def _waits_for(lesson: str, exercise: str, state: State) -> str:
    """The stub that an exercise waits for, while that one is not done."""
    stubs = {one.waits_for for test in tests_of(state, lesson, exercise) for one in test.cases.values()}
    return min(stubs & {*left(lesson, state)}, default="")


def finished(lessons: Iterable[str], before: State, after: State) -> list[str]:
    """For each lesson whose last exercise has passed now: what one can do, and what to look at."""
    lines = []
    for name in lessons:
        lesson = read_lesson(name)
        if left(name, after) or not left(name, before):
            continue
        aims = (TUTORIAL / name / "README.md").read_text("utf-8").partition("After this lesson you can")[2]
        aim = " ".join(aims.partition("\n- ")[2].partition("\n- ")[0].split()).rstrip(";.")
        lines += [f"Lesson {lesson.number} is done." + (f" You can now {aim}." if aim else "")]
        notebook = next((path.name for path in (ROOT / "notebooks").glob(f"{lesson.number:02}_*.ipynb")), None)
        lines += [
            f"Compare your code with the course's:  make solution LESSON={lesson.number}"
            + (f"    See it move: notebooks/{notebook}" if notebook else "")
        ]
        path = on_the_path(course_lessons())
        later = path[path.index(name) + 1 :] if name in path else ()
        lines += [f"Next lesson: tutorial/{other}/README.md" for other in later if left(other, after)][:1]
    return lines


def the_end(lessons: Iterable[str], state: State) -> str:
    """What to do next once the capstone has passed; empty before."""
    if not any(lesson.startswith(CAPSTONE) and not left(lesson, state) for lesson in lessons):
        return ""
    said = (
        "The capstone passes. Now train with your own blocks, beside the reference's run:  "
        "make demo STACK=tutorial OUT=runs/mine"
    )
    open_ones = (f"tutorial/{lesson}/README.md" for lesson in electives() if left(lesson, state))
    return "\nAfter the course, if you like: ".join([said, *open_ones])


@contextmanager
def said_plainly() -> Iterator[None]:
    """A LookupError ends the command with its message alone, without a traceback; a reader who left, in silence."""
    try:
        with while_read():
            yield
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
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
    for lesson in [*course, *electives()]:
        for name in as_in_the_text(lesson):
            if stub := _waits_for(lesson, name, state):
                print(f"{lesson}: {name} waits. {once_written(stub)}")
    print("\n" + (next_step(course, state) or "All lessons are done."))
    if offer := the_end(course, state):
        print(offer)


if __name__ == "__main__":
    main()
