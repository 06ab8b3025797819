"""Small changes of the solutions, one at a time."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..catalog.lessons import Region, regions
from ..diagnosis.edits import edits_of

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
            changes = [*edits_of(node)]
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
    return Mutant(region.exercise, (first - region.first, start), f"{old}  ->  {new}", text)
