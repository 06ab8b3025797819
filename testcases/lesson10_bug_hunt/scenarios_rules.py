"""What a student's test file may do: look at what a function returns, and at nothing else.

A test that knows *which* implementation it has before it could pass the right one and fail all others without testing
anything. So a file may import what computes, call the four functions, and assert.
"""

from __future__ import annotations

import ast

FUNCTIONS = {
    "lesson01_masked_sequences": "response_mask",
    "lesson04_gae": "compute_gae",
    "lesson05_ppo_loss": "compute_ppo_loss",
    "lesson06_kl_rewards": "compute_rewards",
}
"""The lesson and the function of it that tests may import."""
MODULES = {"__future__", "torch", "math", "pytest", "itertools", "functools", "random", "typing", "collections", "copy"}
CALLS = set("open eval exec compile globals locals vars dir getattr setattr delattr input breakpoint super".split())
INSIDE = set(
    "os sys inspect gc save load hub utils package serialization multiprocessing distributed jit fx overrides classes "
    "ops profiler compile tb traceback frame frames tb_frame tb_next f_back f_code f_locals f_globals gi_frame "
    "gi_code cr_frame co_code func_code code locals mro monkeypatch MonkeyPatch".split()
)
"""Attributes that lead out of a value."""


def problem(source: str) -> str:
    """One sentence about the first thing in a file that no test needs; "" if there is none."""
    for node in ast.walk(ast.parse(source)):
        if found := _found(node):
            line = getattr(node, "lineno", 1)
            return f"my_tests.py, line {line}: {found}. A test looks at what a function returns, and at nothing else"
    return ""


def _found(node: ast.AST) -> str:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names if alias.name.partition(".")[0] not in MODULES]
        return f"import of {names[0]}" if names else ""
    if isinstance(node, ast.ImportFrom):
        return _found_in_import(node)
    if isinstance(node, ast.Name) and (node.id in CALLS or node.id.startswith("__")):
        return f"use of {node.id}"
    if isinstance(node, ast.Attribute):
        if node.attr in INSIDE or node.attr.startswith("_"):
            return f"use of .{node.attr}"
        if isinstance(node.ctx, (ast.Store, ast.Del)) and node.attr not in ("grad", "requires_grad"):
            return f"assignment to .{node.attr}"
    if isinstance(node, ast.FunctionDef) and node.name.startswith("__"):
        return f"definition of {node.name}"
    return ""


def _found_in_import(node: ast.ImportFrom) -> str:
    if not node.level:
        return "" if (node.module or "").partition(".")[0] in MODULES else f"import of {node.module}"
    allowed = FUNCTIONS.get(node.module or "")
    names = [alias.name for alias in node.names if alias.name != allowed]
    return f"import of {names[0]} from another lesson" if names else ""
