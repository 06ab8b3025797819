"""Small changes to the solutions, one at a time: which of them does the suite let pass?

    python -m testcases.selfcheck.mutants 4

A survivor is a hole in the suite, or the same function in other words. Look at each; those of the second kind go, as
they are printed, into testcases/lessonNN_x/equivalent_mutants.txt, and `make test` then holds the suite to it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testcases.engine import evaluate
from testcases.engine.contract import SOLUTIONS, Region, regions
from testcases.engine.contract import lesson as read_lesson
from testcases.engine.explanation import NoExplanation
from testcases.engine.runner import cases
from testcases.engine.session import Engine
from testcases.engine.stubs import all_stubs

EQUIVALENT = "equivalent_mutants.txt"
OPERATORS: dict[type, list[type]] = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div, ast.Add],
    ast.Div: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt, ast.GtE],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.And: [ast.Or],
    ast.Or: [ast.And],
}
NAMES = {
    "minimum": "maximum",
    "maximum": "minimum",
    "min": "max",
    "max": "min",
    "zeros_like": "ones_like",
    "sum": "mean",
    "mean": "sum",
    "exp": "expm1",
    "softmax": "log_softmax",
}
TRANSPARENT = {
    "detach",
    "bool",
    "float",
    "double",
    "squeeze",
    "clone",
    "abs",
    "square",
    "clamp",
    "masked_fill",
    "mean",
    "flip",
}


@dataclass(frozen=True)
class Mutant:
    """One change."""

    exercise: str
    line: int
    text: str
    source: str
    """The whole file."""

    def __str__(self) -> str:
        return f"{self.exercise}: {self.text}"


def mutants(path: Path) -> Iterator[Mutant]:
    """All changes within the regions of one file."""
    source = path.read_text("utf-8")
    lines = source.splitlines()
    for region in regions(path):
        tree = ast.parse(source)
        inside = [node for node in ast.walk(tree) if region.first < getattr(node, "lineno", 0) <= region.last + 1]
        for node in inside:
            for changed in _changes(node):
                yield _written(region, lines, node, changed)
        for node in ast.walk(tree):
            for block in (getattr(node, name, None) for name in ("body", "orelse")):
                if not isinstance(block, list):
                    continue
                for statement in block:
                    if region.first < statement.lineno <= region.last and not isinstance(statement, ast.Return):
                        yield _written(region, lines, statement, ast.Pass())


def _written(region: Region, lines: list[str], node: ast.AST, changed: ast.AST) -> Mutant:
    """Replace the characters of one node."""
    first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined, operator]
    start, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
    before = lines[first].encode()[:start].decode()
    after = lines[last].encode()[end:].decode()
    old = ast.unparse(node)
    new = ast.unparse(ast.fix_missing_locations(changed))
    if isinstance(changed, ast.expr):
        new = (
            f"({new})" if not isinstance(changed, (ast.Slice, ast.Constant, ast.Name, ast.Tuple, ast.Starred)) else new
        )
    text = "\n".join([*lines[:first], before + new + after, *lines[last + 1 :]]) + "\n"
    return Mutant(region.exercise, first + 1, f"{old}  ->  {new}", text)


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    def changed(**fields: object) -> ast.AST:
        other = copy.deepcopy(node)
        for name, value in fields.items():
            setattr(other, name, value)
        return other

    if isinstance(node, ast.BinOp):
        for operator in OPERATORS.get(type(node.op), []):
            yield changed(op=operator())
        yield node.left
        yield node.right
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        for operator in OPERATORS[type(node.op)]:
            yield changed(op=operator())
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for operator in OPERATORS.get(type(node.ops[0]), []):
            yield changed(ops=[operator()])
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        for value in (node.value + 1, node.value - 1, node.value * 1.01):
            if value != node.value and type(value) is type(node.value):
                yield changed(value=value)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield changed(value=not node.value)
    elif isinstance(node, ast.Slice):
        if node.lower:
            yield changed(lower=None)
        if node.upper:
            yield changed(upper=None)
        if node.step:
            yield changed(step=None)
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.If):
        return
    elif isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if isinstance(node.func, ast.Attribute) and name in TRANSPARENT:
            yield node.func.value
        if name in NAMES:
            other = copy.deepcopy(node)
            if isinstance(other.func, ast.Attribute):
                other.func.attr = NAMES[name]
            else:
                other.func.id = NAMES[name]  # type: ignore[attr-defined]
            yield other
        for index in range(len(node.args) - 1):
            other = copy.deepcopy(node)
            other.args[index], other.args[index + 1] = other.args[index + 1], other.args[index]
            yield other
        for index in range(len(node.keywords)):
            other = copy.deepcopy(node)
            del other.keywords[index]
            yield other
        if len(node.args) > 1:
            other = copy.deepcopy(node)
            del other.args[-1]
            yield other


def survivors(lesson: str, exercise: str | None = None) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant of a lesson, and whether all tests of its exercise pass it."""
    folder = Path(tempfile.mkdtemp()) / "tutorial"
    for path in all_stubs():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SOLUTIONS / path, folder / path)
    try:
        for file in sorted((SOLUTIONS / lesson).glob("*.py")):
            target = folder / lesson / file.name
            for mutant in mutants(file):
                if exercise not in (None, mutant.exercise):
                    continue
                target.write_text(mutant.source, "utf-8")
                yield mutant, _passes(lesson, mutant.exercise, folder)
            shutil.copyfile(file, target)
    finally:
        shutil.rmtree(folder.parent)


def _passes(lesson: str, exercise: str, folder: Path) -> bool:
    with Engine(evaluate.student(folder), explanation=NoExplanation, seconds=1.0).active():
        for case in cases(lesson):
            if case.entry and case.entry.exercise == exercise:
                try:
                    if case.run() is not None:
                        return False
                except Exception:
                    return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m testcases.selfcheck.mutants", description=__doc__.splitlines()[0] if __doc__ else None
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
