"""Small changes to the solutions, one at a time: which of them does the suite let pass?

    python -m testcases.course.mutants 4        # without a number: all lessons, some minutes

A survivor is a hole in the suite, or the same function in other words. Look at each, and give the new ones a reason in
testcases/course/survivors.json, which keeps what has one; `make test-all` tries some of them each time.
"""

import argparse
import ast
import contextlib
import hashlib
import itertools
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_json
from testcases.harness.catalog import SOLUTIONS, TESTCASES, Region, lesson_names, read_lesson, region_text, regions
from testcases.harness.diagnosis.edits import changed, edits_of
from testcases.harness.diagnosis.explain import NoExplanation
from testcases.harness.execution.executor import InProcess, solutions_changed
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine

RECORD = TESTCASES / "course" / "survivors.json"
"""Lesson -> a hash of its regions, how many mutants were tried, and why -> those that survive."""
UNKNOWN = ""
"""The reason of a survivor that nobody has looked at."""
STANDS_ALONE = (ast.Slice, ast.Constant, ast.Name, ast.Tuple, ast.Starred)
"""What needs no parentheses in another's place."""


@dataclass(frozen=True)
class Mutant:
    """One change."""

    exercise: str
    place: tuple[int, int]
    """Line of the region and column."""
    text: str
    source: str
    """The whole file."""

    def __str__(self) -> str:
        return f"{self.exercise} {self.place[0]}:{self.place[1]}  {self.text}"


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
            changes = [*(MORE[type(node)](node) if type(node) in MORE else edits_of(node))]
            if isinstance(node, ast.stmt) and not isinstance(node, ast.Return):
                changes.append(ast.Pass())
            for mutant in (_written(region, lines, node, new) for new in changes):
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
    return Mutant(region.exercise, (first - region.first, start), f"{old}  ->  {new}", text)


def _of_logic(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    for number in range(len(node.values)):
        rest = node.values[:number] + node.values[number + 1 :]
        yield rest[0] if len(rest) == 1 else changed(node, values=rest)


def _of_choice(node: ast.IfExp) -> Iterator[ast.AST]:
    yield changed(node, body=node.orelse, orelse=node.body)
    yield node.body
    yield node.orelse


def _of_dict(node: ast.Dict) -> Iterator[ast.AST]:
    values = node.values
    for i in range(len(values) - 1):
        yield changed(node, values=[*values[:i], values[i + 1], values[i], *values[i + 2 :]])
    for i in range(len(values)):
        yield changed(node, keys=node.keys[:i] + node.keys[i + 1 :], values=values[:i] + values[i + 1 :])


MORE: dict[type, Callable[[Any], Iterator[ast.AST]]] = {
    ast.BoolOp: _of_logic,
    ast.IfExp: _of_choice,
    ast.Dict: _of_dict,
}
"""What no diagnosis tries, because students rarely slip there."""


def mutants_of(lesson: str) -> list[tuple[str, Mutant]]:
    """The name of the file and the mutant, for all exercises of a lesson."""
    files, own = sorted((SOLUTIONS / lesson).glob("*.py")), _exercises(lesson)
    return [(file.name, one) for file in files for one in mutants(file) if one.exercise in own]


def survivors(lesson: str, most: int | None = None) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant of a lesson, or `most` of them that are always the same ones, and whether all tests of its exercise
    pass it."""
    found = mutants_of(lesson)
    random.Random(0).shuffle(found)
    # A changed `save_checkpoint` writes where it likes.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, mutant in itertools.islice(found, most):
            subject = solutions_changed({f"{lesson}/{name}": mutant.source})
            yield mutant, _passes(lesson, mutant.exercise, subject)


def _exercises(lesson: str) -> list[str]:
    """Without the tests that students write, which count by what they catch."""
    return [exercise for exercise in read_lesson(lesson).exercises if not exercise.startswith("test_")]


def version(lesson: str) -> str:
    """Of the code that the mutants of a lesson are made of."""
    texts = [region_text(lesson, exercise) for exercise in _exercises(lesson)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def recorded() -> dict[str, Any]:
    return json.loads(RECORD.read_text("utf-8"))


def record(lesson: str) -> list[str]:
    """Try all mutants of a lesson and write down which survive, with the reasons known so far; those without one."""
    tried = [(str(mutant), survives) for mutant, survives in survivors(lesson)]
    before = recorded()
    known = {one: why for why, found in before.get(lesson, {}).get("survivors", {}).items() for one in found}
    reasons: dict[str, list[str]] = {}
    for one in sorted(text for text, survives in tried if survives):
        reasons.setdefault(known.get(one, UNKNOWN), []).append(one)
    found = {"version": version(lesson), "tried": len(tried), "survivors": dict(sorted(reasons.items()))}
    write_json(RECORD, dict(sorted({**before, lesson: found}.items())))
    return reasons.get(UNKNOWN, [])


def _passes(lesson: str, exercise: str, subject: InProcess) -> bool:
    with Engine(subject, explanation=NoExplanation, seconds=1.0).active():
        try:
            return all(case.run() is None for case in cases_of(lesson, exercise))
        except Exception:
            return False


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m testcases.course.mutants", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("lessons", nargs="*", help='numbers or folder names, such as "4"; all, if left out')
    for lesson in [read_lesson(name).name for name in parser.parse_args().lessons] or lesson_names():
        found = record(lesson)
        print(f"{lesson}: {len(found)} survive without a reason", *found, sep="\n")


if __name__ == "__main__":
    main()
