"""How far a student has come: shown after each run and by `make progress`.

python -m testcases.harness.student.progress
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from ppo_by_hand.core.progress import while_read

from ..catalog.lessons import CAPSTONE, ROOT, TUTORIAL, course_lessons, electives, lesson_names, on_the_path
from ..catalog.lessons import lesson as read_lesson
from ..catalog.points import once_written
from .record import CHANGED, DONE, FAILED, State, Test, exercise_status, so_far, tests_of

BAR = 24
AGAIN = "Some of its tests haven't run since you changed its file. Run them all:  pytest testcases/{}"


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
