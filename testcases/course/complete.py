"""What an exercise still lacks: one sentence for each, nothing where all is there.

    python -m testcases.course.complete
    python -m testcases.course.complete 3

An exercise is a region in `solutions/`; whatever belongs to it is found by its name.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from testcases.harness.catalog import DEFAULT, TUTORIAL, headings, lesson_names, read_lesson, section_for, suites
from testcases.harness.oracle.mutations import NamedChange, published_answers, right_answers, wrong_answers
from testcases.harness.oracle.reference import examples
from testcases.harness.student.hint import hints
from testcases.harness.suite.runner import entries

HINTS, WRONG, RIGHT = 2, 3, 2


def sentence(lesson: str, exercise: str) -> str:
    """Such as "lesson 3: x lacks a basic test and 2 of 3 wrong answers"; "" if it lacks nothing."""
    lacks = list(lacking(lesson, exercise))
    if not lacks:
        return ""
    text = ", ".join(lacks[:-1]) + " and " + lacks[-1] if lacks[1:] else lacks[0]
    return f"lesson {read_lesson(lesson).number}: {exercise} lacks {text}"


def lacking(lesson: str, exercise: str) -> Iterator[str]:
    """What is not there."""
    here, file = f"testcases/{lesson}", read_lesson(lesson).file_of(exercise)
    tests = [entry for entry in entries(lesson) if entry.exercise == exercise]
    if not any(entry.is_basic for entry in tests):
        yield f"a test in {here}/basic_test.py"
    if all(entry.is_basic for entry in tests):
        yield f"agreement with the reference in {here}"
    if not examples(lesson, exercise):
        yield f"an example in {here}/examples.py"
    right = (*right_answers(lesson), *published_answers(lesson))
    counts = (
        (len(_of(wrong_answers(lesson), exercise)), WRONG, f"mistakes in {here}/mistakes.py"),
        (len(_of(right, exercise)), RIGHT, f"right answers in {here}/variants.py"),
        (len(hints(lesson).get(exercise, [])), HINTS, f"hints in tutorial/{lesson}/hints.md"),
    )
    for count, wanted, what in counts:
        if count < wanted:
            yield f"{wanted - count} of {wanted} {what}"
    if headings(lesson):
        text = (TUTORIAL / lesson / "README.md").read_text("utf-8")
        row = f"| `{exercise}` | {sum(entry.points for entry in tests)} |"
        if section_for(lesson, exercise) == DEFAULT:
            yield f"a heading with its name in tutorial/{lesson}/README.md"
        if row not in text:
            yield f"the row {row} in tutorial/{lesson}/README.md"
    path = TUTORIAL / lesson / file
    if not path.is_file() or f"def {exercise.rpartition('.')[2]}(" not in path.read_text("utf-8"):
        yield f"its name in solutions/{lesson}/__init__.py, or its stub: run make stubs"


def _of(answers: Sequence[NamedChange], exercise: str) -> list[NamedChange]:
    return [answer for answer in answers if answer.exercise == exercise]


def left_over(lesson: str) -> Iterator[str]:
    """What belongs to no exercise."""
    known = read_lesson(lesson).exercises
    named = {exercise: "hints.md" for exercise in hints(lesson)}
    named |= {answer.exercise: "mistakes.py" for answer in wrong_answers(lesson)}
    named |= {answer.exercise: "variants.py" for answer in right_answers(lesson)}
    for exercise, file in named.items():
        if exercise not in known:
            yield f"lesson {read_lesson(lesson).number}: {file} has {exercise}, which is no exercise of it"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m testcases.course.complete", description="What exercises lack.")
    parser.add_argument("lesson", nargs="?", help='number or folder name, such as "4"; all, if left out')
    options = parser.parse_args()
    lessons = (
        [read_lesson(options.lesson).name] if options.lesson else [name for name in lesson_names() if suites(name)]
    )
    found = [text for lesson in lessons for text in left_over(lesson)]
    found += [text for lesson in lessons for name in read_lesson(lesson).exercises if (text := sentence(lesson, name))]
    print("\n".join(found) or "Nothing is missing.")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
