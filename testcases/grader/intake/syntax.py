"""Whether Python can load a file, and where it cannot, whether a newer one could, or one with more packages."""

import ast
import importlib.util
import re
import sys
import warnings
from collections.abc import Container
from dataclasses import dataclass

from testcases.harness.catalog import text_of

NEWER = (
    ((3, 12), "type parameters", r"\s*(async\s+def|def|class)\s+\w+\s*\[[^\]=]*\]\s*[(:]"),
    ((3, 12), "the type statement", r"\s*type\s+\w+\s*(\[[^\]=]*\])?\s*="),
    ((3, 13), "defaults of type parameters", r"\s*(async\s+def|def|class|type)\s+\w+\s*\[[^\]]*=.*\]\s*[(:=]"),
    ((3, 14), "except of several without brackets", r"\s*except\s+[\w.]+(\s*,\s*[\w.]+)+\s*:"),
    ((3, 14), "a template string", r".*\b[rR]?[tT][rR]?[\"']"),
)
"""Since which Python a line may look so."""
QUOTES_INSIDE = (3, 12), "quotes inside of an f-string"


@dataclass(frozen=True)
class Problem:
    """Why a text cannot be read."""

    line: int
    what: str
    newer: tuple[int, int] | None = None
    """The Python that could."""

    def __str__(self) -> str:
        here = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
        if not self.newer:
            return f"line {self.line}: {self.what} (graded with {here})"
        since = f"Python {self.newer[0]}.{self.newer[1]}"
        return f"line {self.line}: {self.what} came with {since}, and the grader runs {here}: grade it with {since}"


def problem(data: bytes, own: Container[str] = ()) -> Problem | None:
    """The first thing in a text that is no Python, or else that it imports and that is neither installed nor among the
    student's own modules, if there is one. Call it where a hostile text can do no harm.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _not_installed(ast.parse(data), own)
    except SyntaxError as error:
        number = error.lineno or 1
        lines = text_of(data).splitlines()
        line = lines[number - 1] if number <= len(lines) else ""
        found = next(((since, what) for since, what, form in NEWER if re.match(form, line[:500])), None)
        if error.msg.startswith("f-string") and re.match(r".*f(\"[^\"]*\{[^\"}]*\"|'[^']*\{[^'}]*')", line[:500]):
            found = QUOTES_INSIDE
        if found and found[0] > sys.version_info[:2]:
            return Problem(number, found[1], found[0])
        return Problem(number, f"SyntaxError: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        return Problem(1, f"{type(error).__name__}: {error}")


def _not_installed(tree: ast.Module, own: Container[str]) -> Problem | None:
    for node in tree.body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        for package in (name.partition(".")[0] for name in names):
            is_known = package in own or package in sys.modules  # Those have no spec if they are "__main__".
            if not is_known and not importlib.util.find_spec(package):
                what = f"imports {package}, which is not installed here: install it, and run again"
                return Problem(node.lineno, what)
    return None
