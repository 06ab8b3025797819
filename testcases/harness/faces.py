"""The face of a package: what it offers, each name loaded when it is first asked for.

    from typing import TYPE_CHECKING

    from testcases.harness.faces import face

    if TYPE_CHECKING:
        from .progress import load_progress

    __getattr__ = face(__name__, __file__)

What stands under TYPE_CHECKING is the list, for a type checker and for `face` alike: a hint must not wait for torch,
and no name is said twice.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def names(path: str | Path) -> dict[str, str]:
    """Name -> the module below the package that has it, such as "progress", of a package's `__init__.py`."""
    tree = ast.parse(Path(path).read_text("utf-8"))
    listed = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 1]
    return {alias.asname or alias.name: node.module or "" for node in listed for alias in node.names}


def face(package: str, path: str) -> Callable[[str], Any]:
    """A package's `__getattr__`.

    Raises (when called):
        AttributeError: it offers no such name.
    """
    homes = names(path)

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f".{homes[name]}", package), name)

    return __getattr__
