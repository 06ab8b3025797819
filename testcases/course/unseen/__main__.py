"""What each of these answers hears first.

    python -m testcases.course.unseen                    # all of them, some minutes
    python -m testcases.course.unseen singles 10 40      # these rows
    python -m testcases.course.unseen right              # whether our own answers pass

Prints a line for each: right, silent, or look, where what was said is none of the words that a right cause has.
"""

import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from testcases.harness.catalog.lessons import lesson as read_lesson
from testcases.harness.catalog.lessons import lesson_names, region_of
from testcases.harness.diagnosis.explain import faults
from testcases.harness.execution.executor import InProcess, solutions_changed
from testcases.harness.oracle.reference import shared_reference
from testcases.harness.report.failures import CheckFailed
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine

from . import heard, rows
from .right import RIGHT


def lesson_of(exercise: str) -> str:
    return next(name for name in lesson_names() if exercise in read_lesson(name).exercises)


def body_of(exercise: str, changes: Sequence[str] = ()) -> str:
    """Our answer with these changes in it.

    Raises:
        LookupError: what one of them replaces doesn't stand there.
    """
    body = RIGHT[exercise]
    for change in changes:
        old, _, new = change.partition(" => ")
        if old not in body:
            raise LookupError(f"{exercise}: {old!r}")
        body = body.replace(old, new)
    return body


def subject_of(exercise: str, changes: Sequence[str] = ()) -> InProcess:
    """The solution, with our answer to one exercise."""
    lesson = lesson_of(exercise)
    lines, region = region_of(lesson, exercise)
    indent = lines[region.first].partition("#")[0]
    body = textwrap.indent(textwrap.dedent(body_of(exercise, changes)).strip("\n"), indent).splitlines()
    text = "\n".join([*lines[: region.first], *body, *lines[region.last + 1 :]]) + "\n"
    return solutions_changed(lesson, {f"{lesson}/{region.file}.py": text})


def failures(subject: InProcess, exercise: str) -> Iterator[CheckFailed]:
    with (engine := Engine(subject, reference=shared_reference())).active():
        for case in cases_of(lesson_of(exercise), exercise):
            engine.begin_test(case.entry.is_basic)
            if isinstance(verdict := case.run(), CheckFailed):
                yield verdict


def main() -> None:
    kind, *numbers = sys.argv[1:] or ["all"]
    if kind == "right":
        for exercise in RIGHT:
            print(exercise, next((str(one) for one in failures(subject_of(exercise), exercise)), "passes"), flush=True)
        return
    counts, total = Counter[str](), 0.0
    chosen = [one for i, one in enumerate(rows(kind)) if not numbers or str(i) in numbers]
    for name, exercise, words, changes in chosen:
        started = time.process_time()
        failed = next(failures(subject_of(exercise, changes), exercise), None)
        seconds = time.process_time() - started
        said = heard(str(failed)) if failed else "accepted"
        verdict = "accepted" if failed is None else words(said) if said else "silent"
        counts[verdict] += 1
        total += seconds
        print(f"{verdict:8} {seconds:5.1f}  {name}: {'; '.join(changes)!r}\n         {said}", flush=True)
    print(*(f"fault: {one!r}" for one in faults), sep="\n")
    print(dict(counts), f"{total:.0f} s")


if __name__ == "__main__":
    main()
