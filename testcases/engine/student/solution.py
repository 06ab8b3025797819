"""Print the solution of a lesson, once all its tests have passed.

python -m testcases.engine.student.solution 4
"""

from __future__ import annotations

import argparse

from ..catalog import Lesson, region_of
from ..catalog import lesson as read_lesson
from .progress import left, said_plainly, so_far


def solution(lesson: Lesson) -> str:
    """Each region of the lesson, under the name of its exercise."""
    parts = []
    for exercise in lesson.exercises:
        lines, region = region_of(lesson.name, exercise)
        parts += [f"# {region.file}.py: {exercise}", *lines[region.first + 1 : region.last], ""]
    return "\n".join(parts).rstrip()


@said_plainly()
def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make solution LESSON=4", description="Print the solution of a lesson you have passed."
    )
    parser.add_argument("lesson", help='number or folder name, such as "4"')
    options = parser.parse_args()
    lesson = read_lesson(options.lesson)
    if open_ones := left(lesson.name, so_far()):
        parser.exit(
            1,
            f"{lesson.name} has not passed yet: {', '.join(open_ones)}.\n"
            f"Run  pytest testcases/{lesson.name}  and ask for a hint:  make hint LESSON={lesson.number}\n",
        )
    print(solution(lesson))


if __name__ == "__main__":
    main()
