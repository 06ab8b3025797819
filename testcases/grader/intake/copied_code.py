"""Regions that are the reference's own, but for names, comments and layout: a flag for the instructor, never a mark."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from keyword import iskeyword
from typing import Any

from testcases.harness.catalog import SOLUTIONS, TESTCASES, regions
from testcases.harness.oracle import region_text, suspects

from .selection import course_files

LONG = 6
"""Statements. Two people write the same five, each alone."""
MY_TESTS = "lesson10_bug_hunt/my_tests.py"
LONG_ROW, MOST_ROWS = 20, 3
"""Words and signs of a row that is compared, and how many rows are a copy."""
MOST_PLACES = 100
"""Where one region may stand in a file: a bound for files that are made to be slow."""
NAMES = re.compile(r"(?<=Name\(id=)'\w+'|(?<=arg\(arg=)'\w+'")
MOST_PARSED = 200_000
MOST_BYTES = 1_500_000
"""Of a file with the modules beside it."""
Tokens = list[tuple[str, str]]
"""Each with its shape: all names have one, except those after a dot."""


def copies(files: Mapping[str, bytes]) -> dict[str, Any]:
    """Of the long regions that were worked on, those that are the reference's, and how many there are."""
    found, count = [], 0
    for path, long in long_regions().items():
        text = _with_modules(files, path)
        student, functions = tokens(text), _functions(text)
        for exercise, region in long.items() if student else ():
            is_copy = _stands_in(student, region) or _is_all_in_one(functions, _statements_of(path, exercise))
            # The stub's own error: not started.
            count += is_copy or f'"{path[:8]}: {exercise}"' not in text
            if is_copy:
                found.append(f"{path.partition('/')[0]}.{exercise}")
    text = files.get(MY_TESTS, b"").decode("utf-8", "replace")
    words = " ".join(word for word, _ in tokens(text))
    if sum(row in words for row in suite_rows()) >= MOST_ROWS:
        found.append("lesson10_bug_hunt.my_tests")
        count += 1
    return {"regions": found, "of": count}


def _with_modules(files: Mapping[str, bytes], path: str) -> str:
    """A file of the course, and the student's own modules that it may import."""
    lesson, known = path.partition("/")[0] + "/", course_files()
    own = [one for one in files if one not in known and one.endswith(".py")]
    near = [one for one in own if "/" not in one or one.startswith(lesson)]
    together = b"\n".join([files[one] for one in (path, *near)] if path in files else [])
    return together[:MOST_BYTES].decode("utf-8", "replace")


@cache
def suite_rows() -> tuple[str, ...]:
    """The rows of the tables in the course's own suites of lessons 1, 4, 5 and 6: nobody writes three of them alike."""
    rows = set()
    for path in (path for number in "1456" for path in TESTCASES.glob(f"lesson0{number}_*/basic*_test.py")):
        calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        tables = [call.args[1] for call in calls if ast.unparse(call.func) == "named_cases"]
        for row in (row for table in tables if isinstance(table, ast.Dict) for row in table.values):
            cells = row.elts if isinstance(row, ast.Tuple) else [row]
            words = [word for word, _ in tokens(", ".join(map(ast.unparse, cells)))]
            if len(words) >= LONG_ROW:
                rows.add(" ".join(words))
    return tuple(sorted(rows))


@cache
def long_regions() -> dict[str, dict[str, Tokens]]:
    """Path below `solutions/` -> exercise -> its region, for all that are long."""
    found: dict[str, dict[str, Tokens]] = {}
    for path in course_files():
        text = (SOLUTIONS / path).read_text("utf-8")
        starts = [node.lineno - 1 for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
        for region in regions(SOLUTIONS / path):
            # A suspect is the reference but for one edit: whoever repairs it has the reference's region.
            if region.exercise in suspects(path.partition("/")[0]):
                continue
            if sum(region.first < line < region.last for line in starts) >= LONG:
                inside = "\n".join(text.splitlines()[region.first + 1 : region.last])
                found.setdefault(path, {})[region.exercise] = tokens(inside)
    return found


def tokens(text: str) -> Tokens:
    """Words and signs, without comments, layout, and a comma before a closing bracket. It takes any text."""
    words = [word for word in re.findall(r"#[^\r\n]*|\w+|[^\w\s]", text.replace("'", '"')) if word[0] not in "#;\\"]
    found: Tokens = []
    for before, word, after in zip(["", *words], words, [*words[1:], ""], strict=False):
        is_name = word.isidentifier() and not iskeyword(word) and before != "."
        if word != "," or after not in list(")]}"):
            found.append((word, "name" if is_name else word))
    return found


@dataclass
class _Statements:
    """The statements that do something, without their names."""

    often: Counter[str] = field(default_factory=Counter)
    names: dict[str, set[str]] = field(default_factory=dict)
    """Shape -> the names in statements of it."""

    def names_in(self, shapes: Iterable[str]) -> int:
        return len(set().union(*(self.names[shape] for shape in shapes)))


def _functions(text: str) -> list[_Statements]:
    """The statements of each function; none where the text is no Python, or too long to look at."""
    if len(text) > MOST_PARSED:
        return []
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [_statements(node.body) for node in nodes if isinstance(node, ast.FunctionDef)]


@cache
def _statements_of(path: str, exercise: str) -> _Statements:
    """Of the reference's region."""
    return _statements(ast.parse(region_text(path.partition("/")[0], exercise)).body)


def _statements(body: list[ast.stmt]) -> _Statements:
    inside = [node for one in body for node in ast.walk(one)]
    read = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    found = _Statements()
    for node in inside:
        is_dead = isinstance(node, ast.Assign) and all(
            isinstance(target, ast.Name) and target.id not in read for target in node.targets
        )
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.Pass, ast.FunctionDef)) and not is_dead | is_text:
            shape, names = _shape(node)
            found.often[shape] += 1
            found.names.setdefault(shape, set()).update(names)
    return found


def _shape(node: ast.stmt) -> tuple[str, list[str]]:
    """One statement without the statements in it; its names are apart."""
    own = [child for child in ast.iter_child_nodes(node) if not isinstance(child, (ast.stmt, ast.ExceptHandler))]
    text = ", ".join(ast.dump(child) for child in own if child is not getattr(node, "annotation", None))
    return f"{type(node).__name__.replace('Ann', '')}({NAMES.sub('_', text)})", NAMES.findall(text)


def _is_all_in_one(functions: list[_Statements], region: _Statements) -> bool:
    """Whether one function has all statements of the region, with no two names made one: whatever stands between them,
    and in whatever order."""
    holders = [one for one in functions if not region.often - one.often]
    names = region.names_in(region.often)
    return region.often.total() >= LONG and any(one.names_in(region.often) >= names for one in holders)


def _stands_in(student: Tokens, region: Tokens) -> bool:
    """Whether the region is somewhere in it, each of its names replaced by one other."""
    whole, part = ("\n" + "".join(f"{shape}\n" for _, shape in one) for one in (student, region))
    place = -1
    for _ in range(MOST_PLACES):
        place = whole.find(part, place + 1)
        if place < 0:
            return False
        first = whole.count("\n", 0, place)
        window = student[first : first + len(region)]
        pairs = {(mine, theirs) for (mine, shape), (theirs, _) in zip(window, region, strict=True) if shape == "name"}
        if len(pairs) == len({mine for mine, _ in pairs}) == len({theirs for _, theirs in pairs}):
            return True
    return False
