"""What a bare `pytest` says on a course of which nothing is written yet, before anything heavy is loaded."""

from __future__ import annotations

import sys
from pathlib import Path

from testcases.harness.catalog import TUTORIAL, course_lessons, on_the_path, read_lesson

FAILED = 1
"""pytest's exit status where not all has passed that was asked for."""


def untouched() -> bool:
    """Whether every stub of the course is still as it was handed out."""
    return all(_is_stub(lesson, exercise) for lesson in course_lessons() for exercise in read_lesson(lesson).exercises)


def _is_stub(lesson: str, exercise: str) -> bool:
    path = TUTORIAL / lesson / read_lesson(lesson).file_of(exercise)
    if not path.is_file():
        return False
    text = path.read_text("utf-8", "replace")
    # Lesson 10 hands out code with bugs in it: there is no stub to be seen, and nothing to be told.
    return f'"{read_lesson(lesson).short}: {exercise}"' in text or lesson.startswith("lesson10")


def lines() -> list[str]:
    """Where to begin."""
    first = on_the_path(course_lessons())[0]
    number = sum(len(read_lesson(lesson).exercises) for lesson in course_lessons())
    return [
        f"You haven't written any code yet. {number} exercises wait for you in tutorial/.",
        "First see the whole algorithm in 15 seconds:  make first    (text: tutorial/lesson00_one_screen/README.md)",
        f"Then read tutorial/{first}/README.md, and fill in the stubs of the file beside it.",
        f"Test them:  pytest testcases/{first}    If you're stuck:  make hint LESSON={read_lesson(first).number}",
        "The map of the course: tutorial/README.md    To run all tests anyway:  pytest testcases",
    ]


def greet() -> None:
    """End a bare `pytest` with these lines where they apply; any argument asks for something else."""
    if len(sys.argv) == 1 and "pytest" in sys.argv[0] and untouched():
        print("\n".join(lines()))
        sys.exit(FAILED)


def refuse_names_of_libraries() -> None:
    """End pytest where a file in this folder would be imported in place of a library."""
    for file in Path.cwd().glob("*.py"):
        if str(file.parent) in sys.path and file.stem in {*sys.stdlib_module_names, "numpy", "torch", "transformers"}:
            why = f"so whatever imports {file.stem} gets your file: rename it."
            raise SystemExit(f"{file.name} has the name of the library {file.stem}, {why}")
