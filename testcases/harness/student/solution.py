"""Print the solution of a lesson, once all its tests have passed; or what has passed beside one's own code.

python -m testcases.harness.student.solution 4
python -m testcases.harness.student.solution 4 --beside
"""

import argparse
import ast
import itertools
import shutil
import textwrap

from ..catalog import TUTORIAL, Lesson, region_of, region_text
from ..catalog import lesson as read_lesson
from .progress import exercise_status, left, said_plainly, so_far

NARROW = 160
"""Columns below which the two stand one above the other."""


def solution(lesson: Lesson) -> str:
    """Each region of the lesson, under the name of its exercise."""
    parts = []
    for exercise in lesson.exercises:
        lines, region = region_of(lesson.name, exercise)
        parts += [f"# {region.file}.py: {exercise}", *lines[region.first + 1 : region.last], ""]
    return "\n".join(parts).rstrip()


def own_code(lesson: Lesson, exercise: str) -> str:
    """What stands in the student's file below the docstring and the checks that are given.

    Raises:
        LookupError: the file cannot be read as Python, or has no such function.
    """
    path = TUTORIAL / lesson.name / lesson.file_of(exercise)
    try:
        text = path.read_text("utf-8")
        nodes: list[ast.stmt] = ast.parse(text).body
        for name in exercise.split("."):
            (found,) = [node for node in nodes if getattr(node, "name", "") == name]
            nodes = list(getattr(found, "body", []))
    except (OSError, SyntaxError, ValueError) as error:
        raise LookupError(f"tutorial/{lesson.name}/{path.name} has no {exercise} that can be read: {error}") from None
    body = nodes[1:] if ast.get_docstring(found) is not None else nodes  # type: ignore[arg-type]
    lines = text.splitlines()[body[0].lineno - 1 : found.end_lineno] if body else []
    reference, region = region_of(lesson.name, exercise)
    given = iter(reference[: region.first])
    # The checks that stand there stay away, as they do beside it: each is the next of those above the region.
    lines = list(itertools.dropwhile(lambda line: line in given, lines))
    return textwrap.dedent("\n".join(lines))


def beside(lesson: Lesson, exercise: str, columns: int) -> list[str]:
    """The student's code of an exercise and the course's: side by side where the terminal is wide enough."""
    yours, ours = own_code(lesson, exercise).splitlines(), region_text(lesson.name, exercise).splitlines()
    title = f"{exercise}, in {lesson.file_of(exercise)}"
    if columns < NARROW:
        return [title, "", "yours", *textwrap.indent("\n".join(yours), "    ").splitlines(), "the course's",
                *textwrap.indent("\n".join(ours), "    ").splitlines(), ""]  # fmt: skip
    half = columns // 2 - 2
    rows = itertools.zip_longest(["yours", *yours], ["the course's", *ours], fillvalue="")
    return [title, *(f"{one[:half]:{half}} | {other[:half]}".rstrip() for one, other in rows), ""]


@said_plainly()
def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make solution LESSON=4", description="Print the solution of a lesson you have passed."
    )
    parser.add_argument("lesson", help='number or folder name, such as "4"')
    parser.add_argument(
        "--beside", action="store_true", help="your own code beside it, of each exercise that has passed"
    )
    options = parser.parse_args()
    lesson, state = read_lesson(options.lesson), so_far()
    open_ones = left(lesson.name, state)
    passed = [name for name in lesson.exercises if exercise_status(lesson.name, name, state) == "passed"]
    if (options.beside and not passed) or (open_ones and not options.beside):
        parser.exit(
            1,
            f"{lesson.name} has not passed yet: {', '.join(open_ones)}.\n"
            f"Run  pytest testcases/{lesson.name}  and ask for a hint:  make hint LESSON={lesson.number}\n",
        )
    if not options.beside:
        print(solution(lesson))
        return
    for exercise in passed:
        print("\n".join(beside(lesson, exercise, shutil.get_terminal_size().columns)))
    if open_ones:
        print(f"Not shown, since they have not passed yet: {', '.join(open_ones)}.")


if __name__ == "__main__":
    main()
