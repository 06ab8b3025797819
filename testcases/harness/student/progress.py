"""How far a student has come: kept in `.progress/` at the root, shown after each run and by `make progress`.

python -m testcases.harness.student.progress
"""

import argparse
import ast
import hashlib
import itertools
import json
import re
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_text
from ppo_by_hand.core.progress import while_read

from ..catalog.lessons import CAPSTONE, ROOT, TUTORIAL, course_lessons, electives, lesson_names, region_text
from ..catalog.lessons import lesson as read_lesson
from ..catalog.points import Entry, entries, entry_of, once_written
from .results import Result, Results, read_result

FOLDER = ROOT / ".progress"
STATE = FOLDER / "tests.json"
BAR = 24
WIDE = 200

FAILED = ("failed", "failed earlier", "partly")
AGAIN = "It failed in an earlier run: run its tests again."


def read(path: Path) -> dict[str, Any]:
    """A state file; empty where there is none, or where it cannot be read."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


Codes = Mapping[tuple[str, str], str]
"""Lesson and exercise -> a hash of the student's code."""


def codes() -> Codes:
    """Of all exercises: their own code, and all of their file but the other exercises. A comment changes nothing."""
    found: dict[tuple[str, str], str] = {}
    for lesson in map(read_lesson, lesson_names()):
        for file in {lesson.file_of(exercise) for exercise in lesson.exercises}:
            inside = [exercise for exercise in lesson.exercises if lesson.file_of(exercise) == file]
            texts = _texts(TUTORIAL / lesson.name / file, inside)
            found |= {(lesson.name, one): hashlib.sha256(texts[one]).hexdigest()[:8] for one in inside}
    return found


def _texts(path: Path, exercises: Iterable[str]) -> dict[str, bytes]:
    """What the results of each exercise depend on: the whole file, where it cannot be read as Python."""
    data = path.read_bytes() if path.is_file() else b""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(data)
        places: dict[str, Any] = dict(_definitions(tree, ""))
        own = {name: ast.dump(places[name]) if name in places else "" for name in exercises}
        for name in own.keys() & places.keys():
            places[name].body = []
        rest = ast.dump(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return dict.fromkeys(exercises, data)
    return {name: (rest + text).encode() for name, text in own.items()}


def _definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """Functions by their dotted names; of two with one name the last counts, as it does in Python."""
    for child in getattr(node, "body", []):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            yield prefix + child.name, child
            yield from _definitions(child, f"{prefix}{child.name}.")


def so_far() -> dict[str, dict[str, Result]]:
    """The results that are kept, of the code as it is now: those of another are forgotten."""
    stored, now = read(STATE), codes()
    found = {}
    for node, kept in stored.items():
        with suppress(AttributeError, KeyError, TypeError):  # where somebody has edited it
            cases = {case: read_result(one) for case, one in kept["cases"].items()}
            if kept["code"] == _judged(node, cases, now):
                found[node] = cases
    return found


def keep(results: Results, judged: Codes | None = None) -> None:
    """Write the results, all of them, and which code they are of: that of the start of the run, or of now."""
    judged = codes() if judged is None else judged
    write(
        STATE,
        {
            node: {"code": _judged(node, cases, judged), "cases": {case: one.stored() for case, one in cases.items()}}
            for node, cases in results.items()
        },
    )


def _judged(node: str, cases: Mapping[str, Result], known: Codes) -> str:
    """The code that the results of a test belong to: its exercise, and the stubs that it waits for."""
    entry = entry_of(node)
    names = {(entry.lesson, entry.exercise)} if entry else set()
    names |= {(read_lesson(str(one.waits_for[0])).name, one.waits_for[1]) for one in cases.values() if one.waits_for}
    return " ".join(known.get(name, "") for name in sorted(names))


def write(path: Path, state: Mapping[str, Any]) -> None:
    """Atomically, so that an interrupted run leaves the old state."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ignore = path.parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", "utf-8")
    write_text(path, json.dumps(state, indent=1))


def update(results: Results, whole: bool) -> None:
    """Put a run's results into the state."""
    keep(merged(so_far(), results, whole))


def merged(state: Results, results: Results, whole: bool) -> dict[str, dict[str, Result]]:
    """The state and a run's results; with `whole` a function's former parameters are forgotten."""
    joined = {function: dict(cases) for function, cases in state.items()}
    for function, cases in results.items():
        # A reset writes "not started" for a function without its cases.
        before = {case: found for case, found in joined.get(function, {}).items() if case}
        joined[function] = dict(cases) if whole else {**before, **cases}
    return joined


def earlier(cases: Mapping[str, Result]) -> dict[str, Result]:
    """The results of a test that the last run left out: what failed may have been repaired since."""
    again = Result("failed earlier")
    return {case: again if found.status == "failed" else found for case, found in cases.items()}


def status(entry: Entry, results: Results) -> str:
    """Status of one test function: the worst of its cases, so "passed" if all passed; "not run" without any."""
    return _worst({found.status for found in results.get(entry.node, {}).values()})


def earned(entry: Entry, results: Results) -> int:
    """Points of one test function."""
    state = status(entry, results)
    if state != "partly":
        return entry.points if state in ("passed", "kept") else 0
    return int(entry.points * min(found.share for found in results[entry.node].values() if found.share))


def all_is_earned(own: Iterable[Entry], state: dict[str, dict[str, Result]]) -> bool:
    """Whether none of an exercise's tests fails any longer; then those that were not earned have passed."""
    found = {entry.node: status(entry, state) for entry in own}
    is_so = set(found.values()) <= {"passed", "kept", "not earned", "not run"}
    for node, text in found.items():
        if is_so and text == "not earned":
            state[node] = dict.fromkeys(state[node], Result("passed"))
    return is_so


def exercise_status(lesson: str, exercise: str, results: Results) -> str:
    """Status of an exercise: the worst of its tests."""
    found = {status(entry, results) for entry in entries(lesson) if entry.exercise == exercise}
    return _worst(found)


def _worst(found: set[str]) -> str:
    order = ("failed", "failed earlier", "partly", "waiting", "not started", "not run", "not earned", "kept", "passed")
    return next((one for one in order if one in found), "not run")


def left(lesson: str, results: Results) -> list[str]:
    """The exercises of a lesson in which something is left to do."""
    names = as_in_the_text(lesson)
    return [name for name in names if exercise_status(lesson, name, results) not in ("passed", "kept")]


@cache
def as_in_the_text(lesson: str) -> tuple[str, ...]:
    """The exercises of a lesson in the order of its text; one that stands in no table of it comes last."""
    path = TUTORIAL / lesson / "README.md"
    text = path.read_text("utf-8") if path.is_file() else ""
    return tuple(sorted(read_lesson(lesson).exercises, key=lambda name: text.find(f"| `{name}` |") % (len(text) + 1)))


def bar(lesson: str, results: Results, columns: int = WIDE) -> str:
    """One line: "lesson04_gae  ######......  12/20 points  left: compute_gae (failed)"."""
    found = entries(lesson)
    total = sum(entry.points for entry in found)
    points = sum(earned(entry, results) for entry in found)
    filled = BAR * points // total if total else 0
    open_ones = left(lesson, results)
    width = max(map(len, lesson_names()))
    line = f"{lesson:{width}}  {'#' * filled}{'.' * (BAR - filled)}  {points:3}/{total} points"
    if columns < 100:
        line = f"{read_lesson(lesson).short} {points:3}/{total} points"
    if not open_ones:
        return f"{line}  done"
    if columns >= 100:
        line += f" ({', '.join(_parts(found, results))})"
    shown = ", ".join(f"{name} ({exercise_status(lesson, name, results)})" for name in open_ones[:3])
    line = f"{line}  {len(open_ones)} left: {shown}{', ...' if len(open_ones) > 3 else ''}"
    return line if len(line) <= columns or columns >= 100 else f"{line[: columns - 3]}..."


def _parts(found: Sequence[Entry], results: Results) -> Iterator[str]:
    """The points of the basic suite, and those of the rest."""
    for name, is_basic in (("formula", True), ("safe", False)):
        own = [entry for entry in found if entry.is_basic == is_basic]
        yield f"{name} {sum(earned(entry, results) for entry in own)}/{sum(entry.points for entry in own)}"


def bars(lessons: Iterable[str], results: Results) -> list[str]:
    """One line a lesson, for those that have points; short ones in a narrow terminal."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE
    return [bar(lesson, results, columns) for lesson in lessons if entries(lesson)]


def next_step(lessons: Iterable[str], results: Results) -> str:
    """The first exercise of these lessons that is not done, or the one of another lesson that it waits for, and where
    it is; empty if there is none. Within a lesson what has failed comes first; else the order is the text's."""
    for lesson in lessons:
        found = {name: exercise_status(lesson, name, results) for name in as_in_the_text(lesson)}
        for name, state in sorted(found.items(), key=lambda pair: pair[1] not in FAILED):
            waits = _waits_for(lesson, name, results) if state == "waiting" else None
            if waits:
                number, waited = waits
                waiting = f"{name} of lesson {read_lesson(lesson).number} waits for it."
                return f"{_step(read_lesson(str(number)).name, waited)} {waiting}"
            if state not in ("passed", "kept"):
                name = _at_fault(lesson, name, results) if state == "failed" else name
                then = f"Read tutorial/{lesson}/README.md first."
                return f"{_step(lesson, name)} {AGAIN if state == 'failed earlier' else then}"
    return ""


def _at_fault(lesson: str, exercise: str, results: Results) -> str:
    """An exercise of the lesson that this failed one calls and that failed as well; itself if there is none."""
    text = region_text(lesson, exercise)
    called = [name for name in read_lesson(lesson).exercises if re.search(rf"\b{name.rpartition('.')[2]}\(", text)]
    failed = [name for name in called if exercise_status(lesson, name, results) == "failed"]
    return next((name for name in failed if name != exercise), exercise)


def finished(lessons: Iterable[str], before: Results, after: Results) -> list[str]:
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
            f"Your code and the course's:  make solution LESSON={lesson.number}"
            + (f"    To see it move: notebooks/{notebook}" if notebook else "")
        ]
        lines += [f"Next lesson: tutorial/{other}/README.md" for other in [following(name, after)] if other]
    return lines


def following(lesson: str, results: Results) -> str | None:
    """The next lesson of the course after this one that is not done; none after an elective."""
    later = itertools.dropwhile(lambda name: name != lesson, course_lessons())
    return next((name for name in later if name != lesson and left(name, results)), None)


def the_end(lessons: Iterable[str], results: Results) -> str:
    """What to do next once the capstone has passed; empty before."""
    if not any(lesson.startswith(CAPSTONE) and not left(lesson, results) for lesson in lessons):
        return ""
    said = (
        "The capstone passes. Train on your own blocks, beside the reference's run:  make demo STACK=tutorial "
        "OUT=runs/mine"
    )
    open_ones = (f"tutorial/{lesson}/README.md" for lesson in electives() if left(lesson, results))
    return "\nAfter the course, if you like: ".join([said, *open_ones])


def _step(lesson: str, exercise: str) -> str:
    return f"Next: {exercise}, in tutorial/{lesson}/{read_lesson(lesson).file_of(exercise)}."


def _waits_for(lesson: str, exercise: str, results: Results) -> tuple[int, str] | None:
    """Number and exercise of the stub that an exercise waits for."""
    nodes = [entry.node for entry in entries(lesson) if entry.exercise == exercise]
    found = (one for node in nodes for one in results.get(node, {}).values())
    return min((one.waits_for for one in found if one.waits_for), default=None)


def waiting(lessons: Iterable[str], results: Results) -> list[str]:
    """A line for each exercise that waits for a stub."""
    found = ((lesson, name) for lesson in lessons for name in as_in_the_text(lesson))
    stubs = ((lesson, name, _waits_for(lesson, name, results)) for lesson, name in found)
    return [f"{lesson}: {name} waits. {once_written(stub[1])}" for lesson, name, stub in stubs if stub]


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
    if not state:
        print("Nothing has been run yet. Start with:  pytest testcases/" + lesson_names()[0])
    for line in [*bars(course_lessons(), state), "", "after the course (electives):", *bars(electives(), state)]:
        print(line)
    for line in waiting(lesson_names(), state):
        print(line)
    print("\n" + (next_step(course_lessons(), state) or "All lessons are done."))
    if offer := the_end(course_lessons(), state):
        print(offer)


if __name__ == "__main__":
    main()
