"""Print the solution of a lesson, once all its tests have passed.

python -m testcases.engine.solution 4
"""

from __future__ import annotations

import argparse

from .contract import SOLUTIONS, Lesson, regions
from .contract import lesson as read_lesson
from .progress import STATE, exercise_status, is_complete, read


def solution(lesson: Lesson) -> str:
    """Each region of the lesson, under the name of its exercise."""
    parts = []
    for path in sorted((SOLUTIONS / lesson.name).glob("*.py")):
        lines = path.read_text("utf-8").splitlines()
        for region in regions(path):
            parts += [f"# {path.name}: {region.exercise}", *lines[region.first + 1 : region.last], ""]
    return "\n".join(parts).rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make solution LESSON=4", description="Print the solution of a lesson you have passed."
    )
    parser.add_argument("lesson", help='number or folder name, such as "4"')
    options = parser.parse_args()
    try:
        lesson = read_lesson(options.lesson)
    except LookupError as error:
        parser.exit(2, f"{error.args[0]}\n")
    state = read(STATE)
    if not is_complete(lesson.name, state):
        left = [name for name in lesson.exercises if exercise_status(lesson.name, name, state) != "passed"]
        parser.exit(
            1,
            f"{lesson.name} has not passed yet: {', '.join(left)}.\n"
            f"Run  pytest testcases/{lesson.name}  and ask for a hint:  make hint LESSON={lesson.number}\n",
        )
    print(solution(lesson))


if __name__ == "__main__":
    main()
