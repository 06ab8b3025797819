"""One more hint for an exercise.

python -m testcases.harness.student.hint 4 [--exercise compute_gae]
"""

import argparse
import re
import textwrap
from functools import cache

from ppo_by_hand.core.files import write_json

from ..catalog import TUTORIAL, Lesson, read_lesson
from . import progress

SHOWN = progress.FOLDER / "hints.json"
STEP = re.compile(r"^\d+\. ", re.MULTILINE)


@cache
def hints(lesson: str) -> dict[str, list[str]]:
    """The steps of each exercise of a lesson: the numbered lists, each folded, of its hints.md."""
    path = TUTORIAL / lesson / "hints.md"
    text = path.read_text("utf-8") if path.is_file() else ""
    folded = re.findall(r"<summary>([\w.]+)</summary>\n(.*?)</details>", text, re.DOTALL)
    return {exercise: [" ".join(step.split()) for step in STEP.split(steps)[1:]] for exercise, steps in folded}


def next_hint(lesson: Lesson, exercise: str | None) -> str:
    """The text to print; one more step each time.

    Raises:
        LookupError: there is no such exercise.
    """
    state = progress.so_far()
    if exercise is None:
        left = progress.left(lesson.name, state)
        if not left:
            return f"All exercises of {lesson.name} have passed. If you want a hint anyway, name one: EXERCISE=..."
        exercise = next(iter(left))
    exercise = lesson.exercise(exercise)
    steps = hints(lesson.name).get(exercise, [])
    shown = {name: count for name, count in progress.read(SHOWN).items() if isinstance(count, int)}
    key = f"{lesson.name}.{exercise}"
    cases = (one for test in progress.tests_of(state, lesson.name, exercise) for one in test.cases.values())
    remedies = next((one.remedies for one in cases if one.remedies), ())
    count = min(shown.get(key, 0) + 1, len(steps))
    write_json(SHOWN, {**shown, key: count})
    lines = [f"{exercise}, in tutorial/{lesson.name}/{lesson.file_of(exercise)}"]
    for remedy in remedies:
        lines.append(textwrap.fill(f"About your last run: {remedy}", 100, subsequent_indent="   "))
    for number, step in enumerate(steps[:count], start=1):
        lines.append(textwrap.fill(f"{number}. {step}", 100, subsequent_indent="   "))
    if count == len(steps):
        lines.append(f"That was the last hint. If you're still stuck, read tutorial/{lesson.name}/README.md again.")
    else:
        lines.append(f"(Hint {count} of {len(steps)}. Run the command again for the next one.)")
    return "\n".join(lines)


@progress.said_plainly()
def main() -> None:
    parser = argparse.ArgumentParser(prog="make hint LESSON=4 [EXERCISE=name]", description="Show one more hint.")
    parser.add_argument("lesson", help='number or folder name, such as "4"')
    parser.add_argument("--exercise", help="(default: the one that failed, or the first that hasn't passed)")
    options = parser.parse_args()
    print(next_hint(read_lesson(options.lesson), options.exercise))


if __name__ == "__main__":
    main()
