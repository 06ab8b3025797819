"""Print your code and the course's, one below the other, for each exercise of a lesson that has passed.

python -m testcases.harness.student.solution 4
"""

import argparse
import ast
import textwrap

from ..catalog import TUTORIAL, Lesson, read_lesson, region_text
from .progress import exercise_status, said_plainly, so_far


def own_code(lesson: Lesson, exercise: str) -> str:
    """The last definition of an exercise in the student's file, without its docstring.

    Raises:
        LookupError: the file cannot be read as Python, or has no such function.
    """
    path = TUTORIAL / lesson.name / lesson.file_of(exercise)
    try:
        text = path.read_text("utf-8")
        nodes: list[ast.stmt] = ast.parse(text).body
        for name in exercise.split("."):
            found = [node for node in nodes if getattr(node, "name", "") == name][-1]
            nodes = list(getattr(found, "body", []))
    except (OSError, SyntaxError, ValueError, IndexError) as error:
        raise LookupError(f"tutorial/{lesson.name}/{path.name} has no {exercise} that can be read: {error}") from None
    first = nodes[1:] if ast.get_docstring(found) is not None else nodes  # type: ignore[arg-type]
    return textwrap.dedent("\n".join(text.splitlines()[first[0].lineno - 1 : found.end_lineno])) if first else ""


def both(lesson: Lesson, exercise: str) -> str:
    """The student's code of an exercise, then the course's."""
    yours, ours = own_code(lesson, exercise).strip("\n"), region_text(lesson.name, exercise).strip("\n")
    return "\n".join(
        [
            f"{exercise}, in {lesson.file_of(exercise)}",
            "",
            "yours",
            textwrap.indent(yours, "    "),
            "",
            "the course's",
            textwrap.indent(textwrap.dedent(ours), "    "),
            "",
        ]
    )


@said_plainly()
def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make solution LESSON=4", description="Print your code and the course's, of each exercise that has passed."
    )
    parser.add_argument("lesson", help='number or folder name, such as "4"')
    lesson, state = read_lesson(parser.parse_args().lesson), so_far()
    passed = [name for name in lesson.exercises if exercise_status(lesson.name, name, state) == "passed"]
    waiting = [name for name in lesson.exercises if name not in passed]
    if not passed:
        parser.exit(
            1,
            f"No exercise of {lesson.name} has passed yet.\n"
            f"Run  pytest testcases/{lesson.name}  or ask for a hint:  make hint LESSON={lesson.number}\n",
        )
    for exercise in passed:
        print(both(lesson, exercise))
    if waiting:
        print(f"Not shown, because they haven't passed yet: {', '.join(waiting)}.")


if __name__ == "__main__":
    main()
