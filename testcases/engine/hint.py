"""One step more of the hint for an exercise.

python -m testcases.engine.hint 4 [--exercise compute_gae]
"""

from __future__ import annotations

import argparse
import re
import textwrap
from functools import cache

from .contract import TUTORIAL, Lesson, lesson_names
from .contract import lesson as read_lesson
from .progress import FOLDER, STATE, exercise_status, is_complete, read, write

SHOWN = FOLDER / "hints.json"
STEP = re.compile(r"^\d+\. ", re.MULTILINE)


@cache
def hints(lesson: str) -> dict[str, list[str]]:
    """The steps of each exercise of a lesson: the numbered lists, each folded, of its text's section "Hints"."""
    path = TUTORIAL / lesson / "README.md"
    text = path.read_text("utf-8") if path.is_file() else ""
    section = text.partition("\n## Hints\n")[2].partition("\n## ")[0]
    folded = re.findall(r"<summary>([\w.]+)</summary>\n(.*?)</details>", section, re.DOTALL)
    return {exercise: [" ".join(step.split()) for step in STEP.split(steps)[1:]] for exercise, steps in folded}


def next_hint(lesson: Lesson, exercise: str | None) -> str:
    """The text to print; one step more each time.

    Raises:
        LookupError: there is no such exercise.
    """
    if exercise is None:
        state = read(STATE)
        left = [name for name in lesson.exercises if exercise_status(lesson.name, name, state) != "passed"]
        if not left:
            return f"All exercises of {lesson.name} have passed. For a hint all the same, name one: EXERCISE=..."
        exercise = left[0]
    matching = [name for name in lesson.exercises if exercise in (name, name.rpartition(".")[2])]
    if not matching:
        raise LookupError(f"{lesson.name} has no exercise {exercise!r}; it has {', '.join(lesson.exercises)}")
    steps = hints(lesson.name).get(matching[0], [])
    shown = read(SHOWN)
    key = f"{lesson.name}.{matching[0]}"
    before = shown.get(key, 0)
    count = min(before + 1, len(steps))
    write(SHOWN, {**shown, key: count})
    lines = [f"{matching[0]}, in tutorial/{lesson.name}/{lesson.file_of(matching[0])}"]
    for number, step in enumerate(steps[:count], start=1):
        lines.append(textwrap.fill(f"{number}. {step}", 100, subsequent_indent="   "))
    if count == len(steps):
        lines.append(f"That was the last hint. The rest is yours; tutorial/{lesson.name}/README.md has the idea.")
    else:
        lines.append(f"({count} of {len(steps)}; ask again for the next)")
    return "\n".join(lines)


def next_open() -> str:
    """The first lesson that has not passed; the first of all where all have."""
    state = read(STATE)
    return next((name for name in lesson_names() if not is_complete(name, state)), lesson_names()[0])


def main() -> None:
    parser = argparse.ArgumentParser(prog="make hint LESSON=4 [EXERCISE=name]", description="Show one hint more.")
    parser.add_argument("lesson", nargs="?", help='number or folder name, such as "4"; the next open one, if left out')
    parser.add_argument("--exercise", help="the first that has not passed, if left out")
    options = parser.parse_args()
    try:
        print(next_hint(read_lesson(options.lesson or next_open()), options.exercise or None))
    except LookupError as error:
        parser.exit(2, f"{error.args[0]}\n")


if __name__ == "__main__":
    main()
