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
from collections.abc import Iterator, Mapping

from testcases.harness.catalog import lesson_names, read_lesson, region_of
from testcases.harness.diagnosis.explain import faults
from testcases.harness.execution.executor import InProcess, solutions_changed
from testcases.harness.report.failures import CheckFailed
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine

from . import rows
from .right import RIGHT


def lesson_of(exercise: str) -> str:
    return next(name for name in lesson_names() if exercise in read_lesson(name).exercises)


def subject_of(bodies: Mapping[str, str]) -> InProcess:
    """The solution, with these answers to exercises of one lesson."""
    lesson = lesson_of(next(iter(bodies)))
    places = {exercise: region_of(lesson, exercise)[1] for exercise in bodies}
    texts: dict[str, list[str]] = {}
    for exercise in sorted(bodies, key=lambda one: -places[one].first):  # From below, so that the lines above stay.
        region = places[exercise]
        lines = texts.setdefault(f"{lesson}/{region.file}.py", list(region_of(lesson, exercise)[0]))
        indent = lines[region.first].partition("#")[0]
        body = textwrap.indent(textwrap.dedent(bodies[exercise]).strip("\n"), indent)
        lines[region.first : region.last + 1] = body.splitlines()
    return solutions_changed(lesson, {file: "\n".join(lines) + "\n" for file, lines in texts.items()})


def failures(subject: InProcess, exercise: str) -> Iterator[CheckFailed]:
    """Of its own tests, one after the other."""
    with Engine(subject).active():
        for case in cases_of(lesson_of(exercise), exercise):
            if isinstance(verdict := case.run(), CheckFailed):
                yield verdict


def main() -> None:
    kind, *numbers = sys.argv[1:] or ["all"]
    if kind == "right":
        for exercise, body in RIGHT.items():
            first = next((str(one) for one in failures(subject_of({exercise: body}), exercise)), "passes")
            print(exercise, first, flush=True)
        return
    counts, total = Counter[str](), 0.0
    for row in rows(kind):
        if numbers and row.name.split()[1] not in numbers:
            continue
        started = time.process_time()
        failed = next(failures(subject_of(row.bodies), row.exercise), None)
        seconds = time.process_time() - started
        said = " ".join(failed.causes) if failed else ""
        verdict = "accepted" if failed is None else row.verdict(said) if said else "silent"
        if row.words or failed:
            counts[verdict] += 1
            total += seconds
            print(f"{verdict:8} {seconds:5.1f}  {row.name}\n         {said}", flush=True)
    print(*(f"fault: {one!r}" for one in faults), sep="\n")
    print(dict(counts), f"{total:.0f} s")


if __name__ == "__main__":
    main()
