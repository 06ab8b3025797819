"""What an exercise still lacks, in one sentence: python -m testcases.course.complete 4

An exercise is a region in `solutions/`; whatever belongs to it is found by its name.
"""

import sys
from collections.abc import Iterator

from testcases.harness.catalog import DEFAULT, TUTORIAL, headings, read_lesson, section_for
from testcases.harness.oracle.mutations import published_answers, right_answers, wrong_answers
from testcases.harness.oracle.reference import examples
from testcases.harness.student.hint import hints
from testcases.harness.suite.runner import entries


def lacking(lesson: str, exercise: str) -> Iterator[str]:
    """What belongs to an exercise and isn't there."""
    here, path = f"testcases/{lesson}", TUTORIAL / lesson / read_lesson(lesson).file_of(exercise)
    tests = [entry for entry in entries(lesson) if entry.exercise == exercise]
    if not any(entry.is_basic for entry in tests):
        yield f"a test in {here}/basic_test.py"
    if all(entry.is_basic for entry in tests):
        yield f"agreement with the reference in {here}"
    if not examples(lesson, exercise):
        yield f"an example in {here}/examples.py"
    right = (*right_answers(lesson), *published_answers(lesson))
    for count, wanted, what in (
        (sum(one.exercise == exercise for one in wrong_answers(lesson)), 3, f"mistakes in {here}/mistakes.py"),
        (sum(one.exercise == exercise for one in right), 2, f"right answers in {here}/variants.py"),
        (len(hints(lesson).get(exercise, [])), 2, f"hints in tutorial/{lesson}/hints.md"),
    ):
        if count < wanted:
            yield f"{wanted - count} of {wanted} {what}"
    if headings(lesson):
        row = f"| `{exercise}` | {sum(entry.points for entry in tests)} |"
        if section_for(lesson, exercise) == DEFAULT:
            yield f"a heading with its name in tutorial/{lesson}/README.md"
        if row not in (TUTORIAL / lesson / "README.md").read_text("utf-8"):
            yield f"the row {row} in tutorial/{lesson}/README.md"
    if not path.is_file() or f"def {exercise.rpartition('.')[2]}(" not in path.read_text("utf-8"):
        yield f"its name in solutions/{lesson}/__init__.py, or its stub: run make stubs"


def main() -> int:
    """Print a sentence for each exercise of a lesson that lacks something; returns 1 if one does."""
    lesson = read_lesson(sys.argv[1]).name
    found = {name: [*lacking(lesson, name)] for name in read_lesson(lesson).exercises}
    said = [f"{name} lacks {', '.join(lacks)}" for name, lacks in found.items() if lacks]
    print("\n".join(said) or "Nothing is missing.")
    return bool(said)


if __name__ == "__main__":
    sys.exit(main())
