"""Small changes to the solutions, one at a time: which of them does the suite let pass?

    python -m testcases.engine.suite.mutation_check 4

A survivor is a hole in the suite, or the same function in other words. Look at each; those of the second kind go, as
they are printed, into testcases/lessonNN_x/equivalent_mutants.txt; `make test-all` tries some of them each time.
"""

import argparse
import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..catalog import SOLUTIONS, Region, regions
from ..catalog import lesson as read_lesson
from ..diagnosis import NoExplanation
from ..diagnosis.hypotheses import edits_of
from ..execution import LocalEvaluator, solutions_changed
from ..oracle import Reference
from .memo import Remembering
from .runner import cases_of
from .session import Engine

EQUIVALENT = "equivalent_mutants.txt"
STANDS_ALONE = (ast.Slice, ast.Constant, ast.Name, ast.Tuple, ast.Starred)
"""What needs no parentheses in another's place."""


@dataclass(frozen=True)
class Mutant:
    """One change."""

    exercise: str
    text: str
    source: str
    """The whole file."""

    def __str__(self) -> str:
        return f"{self.exercise}: {self.text}"


def mutants(path: Path) -> Iterator[Mutant]:
    """All changes within the regions of one file: what a diagnosis tries in one node, and each statement left out."""
    source = path.read_text("utf-8")
    lines = source.splitlines()
    for region in regions(path):
        inside = [
            node for node in ast.walk(ast.parse(source)) if region.first < getattr(node, "lineno", 0) <= region.last
        ]
        found: dict[str, Mutant] = {}
        for node in inside:
            changes = [changed for _, changed in edits_of(node)]
            if isinstance(node, ast.stmt) and not isinstance(node, ast.Return):
                changes.append(ast.Pass())
            for mutant in (_written(region, lines, node, changed) for changed in changes):
                found.setdefault(mutant.source, mutant)
        yield from found.values()


def _written(region: Region, lines: list[str], node: ast.AST, changed: ast.AST) -> Mutant:
    """Replace the characters of one node."""
    first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined, operator]
    start, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
    before = lines[first].encode()[:start].decode()
    after = lines[last].encode()[end:].decode()
    old, new = ast.unparse(node), ast.unparse(ast.fix_missing_locations(changed))
    if isinstance(changed, ast.expr) and not isinstance(changed, STANDS_ALONE):
        new = f"({new})"
    text = "\n".join([*lines[:first], before + new + after, *lines[last + 1 :]]) + "\n"
    return Mutant(region.exercise, f"{old}  ->  {new}", text)


def survivors(lesson: str, exercise: str | None = None, most: int | None = None) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant of a lesson, or `most` of them that are always the same ones, and whether all tests of its exercise
    pass it."""
    reference = Reference(Remembering)
    files = sorted((SOLUTIONS / lesson).glob("*.py"))
    found = [(file.name, one) for file in files for one in mutants(file) if exercise in (None, one.exercise)]
    for name, mutant in found if most is None else random.Random(0).sample(found, min(most, len(found))):
        subject = solutions_changed(lesson, {f"{lesson}/{name}": mutant.source})
        yield mutant, _passes(lesson, mutant.exercise, subject, reference)


def _passes(lesson: str, exercise: str, subject: LocalEvaluator, reference: Reference) -> bool:
    with Engine(subject, reference=reference, explanation=NoExplanation, seconds=1.0).active():
        try:
            return all(case.run() is None for case in cases_of(lesson, exercise))
        except Exception:
            return False


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m testcases.engine.suite.mutation_check", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("lesson", help='number or folder name, such as "4"')
    parser.add_argument("--exercise", help="only this one")
    options = parser.parse_args()
    lesson = read_lesson(options.lesson).name
    total = alive = 0
    for mutant, survives in survivors(lesson, options.exercise):
        total += 1
        if survives:
            alive += 1
            print(mutant)
    print(f"# {alive} of {total} mutants survive")


if __name__ == "__main__":
    main()
