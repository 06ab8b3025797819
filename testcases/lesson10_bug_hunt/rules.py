"""What a student's test file may do: look at what a function returns, and at nothing else.

A test that knows *which* implementation it has before it could pass the right one and fail all others without testing
anything. So a file may import what computes, call the four functions, and assert. The text is read where no student's
code runs: who grades reads it before it runs it.
"""

import ast
import builtins
import collections.abc
import fractions
import functools
import importlib
import itertools
import math
import random
import re
import statistics
import sys
import types
from collections.abc import Container, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch

from .scenarios import FUNCTIONS

TORCH = {
    f"torch.{name}" for name in "nn nn.functional autograd autograd.functional linalg random special testing".split()
}
MODULES = {"__future__", "torch", "math", "pytest", "itertools", "functools", "random", "typing", "collections", "copy"}
MODULES |= {"collections.abc", "contextlib", "dataclasses", "fractions", "statistics", *TORCH}
"""No module outside of these is imported, or found inside of one."""
PARTS = {
    "pytest": {"mark", "param", "raises", "approx", "fail", "skip", "xfail", "warns"},
    "contextlib": {"contextmanager", "nullcontext", "suppress"},
    "dataclasses": {"dataclass", "field"},
    "copy": {"copy", "deepcopy"},
    "typing": {
        "Any",
        "NamedTuple",
        "Callable",
        "Optional",
        "Union",
        "Iterator",
        "Iterable",
        "Sequence",
        "Mapping",
        "cast",
    }
    | {"Literal", "Final", "TypeAlias", "List", "Dict", "Tuple", "Set", "TypedDict", "NoReturn", "Generator"},
    "functools": {"reduce", "partial", "cache", "lru_cache"},
}
"""What may be used of a module that also runs or rewrites functions."""
CALLS = set(
    "open eval exec compile globals locals vars dir getattr setattr delattr input breakpoint super help".split()
)
INSIDE = set(
    "os sys gc load save from_file numpy compile format format_map get_type_hints ForwardRef getrepr grad_fn "
    "next_functions detect_anomaly set_detect_anomaly lineno filename "
    "tb traceback frame frames tb_frame tb_next f_back f_code f_locals f_globals gi_frame gi_code "
    "cr_frame cr_code ag_frame ag_code co_code func_code code locals mro".split()
)
"""Attributes that lead out of a value."""
OF_TORCH = set(
    "no_grad enable_grad set_grad_enabled is_grad_enabled inference_mode manual_seed Generator dtype device Size "
    "Tensor finfo iinfo is_tensor is_floating_point set_default_dtype get_default_dtype testing autograd nn functional "
    "linalg special grad gradcheck gradgradcheck jacobian hessian vjp jvp assert_close FloatTensor "
    "LongTensor BoolTensor".split()
)
"""Of torch, besides its operations and dtypes."""
OF_PYTEST = {"value", "type", "match", "message", "category"}
"""Of what pytest.raises and pytest.warns have caught."""
SHUT = {"initial_seed", "get_state", "set_state", "clone_state", "graphsafe_get_state", "graphsafe_set_state"}
"""Which run it is."""
PURE = (math, itertools, random, statistics, fractions, collections, collections.abc)
VALUES = (torch.Tensor, str, list, dict, set, frozenset, tuple, int, float, complex, range, bytes, Exception)
VALUES += (torch.Generator, torch.dtype, torch.finfo, torch.iinfo, torch.device, fractions.Fraction, random.Random)
VALUES += (collections.Counter, collections.deque, collections.OrderedDict, collections.defaultdict)
INNER = (
    types.FrameType,
    types.CodeType,
    types.FunctionType,
    types.GeneratorType,
    types.TracebackType,
    types.MethodType,
)
INNER += (types.ModuleType, type, pytest.ExceptionInfo, pytest.WarningsRecorder, functools.partial)
OF_TUPLES = {"_asdict", "_fields", "_replace"}
OF_ANSWERS = {"advantages", "returns"}
"""Names that compute_gae's docstring gives to the parts of its answer; the other three return a tensor."""
PLAIN = {"__init__", "__call__", "__post_init__", "__name__"}
"""Methods of a helper class, and the name of the file: with no module or object in front of them they lead nowhere."""
BASES = {"NamedTuple", "Exception", "object"}
"""What a class may be made from: one made from a tensor or a number sees what is done to it."""
ENCODING = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
MAX_LETTERS = 60_000
"""Of a test file: the reference's has 9,000."""
AROUND = {"setup_function", "teardown_function", "setup_module", "teardown_module"}
"""What pytest runs around tests."""
Names = dict[str, Any]


def problem(source: str, function: str) -> str:
    """One sentence about the first thing that no test of this function needs; "" if there is none.

    The bodies of the other functions' tests do not run, so they are not looked at; nor is a file that is no Python. The
    text is read as UTF-8: Python must not read another one.
    """
    if len(source) > MAX_LETTERS:
        return f"my_tests.py has more than {MAX_LETTERS:,} letters: what is long to read is not run"
    lines = re.split("\r\n?|\n", source)
    for number, line in enumerate(lines, 1):
        found = ENCODING.match(line) if number < 3 else None
        if found and found[1].lower().replace("_", "-") not in ("utf-8", "utf8"):
            return f"my_tests.py, line {number}: the encoding {found[1]}. A test file is UTF-8: save it as that"
        if "\ufffd" in line:
            return f"my_tests.py, line {number}: a letter that is not in UTF-8. A test file is UTF-8: save it as that"
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ""
    except (RecursionError, MemoryError):
        return "my_tests.py has an expression in which too much is nested: what is that deep is not run"
    names = dict(_imported(tree))
    nodes = list(_nodes(tree, function))
    own = set(_own_names(tree))
    finds = [(node, _found(node) or _found_unknown(node, own)) for node in nodes]
    for node, found in finds + [(node, _found_as_value(node, names)) for node in nodes]:
        if found:
            return f"my_tests.py, line {getattr(node, 'lineno', 1)}: {found}. {_reason(found)}"
    return ""


def _reason(found: str) -> str:
    if found.endswith(".fixture") or found == "import of fixture from pytest":
        return "Fixtures are not known here: call a plain function, or use pytest.mark.parametrize"
    if found.startswith("import of "):
        return "A file of tests imports torch, pytest and modules that only compute, such as math and random"
    if found.startswith("def "):
        return "It is not run around a test here: call a plain function"
    return "A test looks at what a function returns, and at nothing else"


def overlooked(source: str, left_out: str) -> str:
    """One sentence about the first test of a file that is not run; "" if there is none.

    Args:
        left_out: what running the file has shown.
    """
    starts = tuple(f"test_{name}" for name in FUNCTIONS.values())
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            return f"my_tests.py, line {node.lineno}: {node.name} is not run: a test is a function here, in no class"
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test") and not node.name.startswith(starts):
            return f"my_tests.py, line {node.lineno}: {node.name} is not run: begin its name with {', '.join(starts)}"
    return f"{left_out} is not run: a test is a function, and its name begins with {', '.join(starts)}" * bool(left_out)


def _nodes(tree: ast.Module, function: str) -> Iterator[ast.AST]:
    """All of a file but the bodies of the other functions' tests, which nothing in it can call."""
    others = tuple(f"test_{name}" for name in FUNCTIONS.values() if name != function)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in tree.body:
        is_other = isinstance(node, ast.FunctionDef) and node.name.startswith(others)
        if is_other and node.name not in used and not node.decorator_list:
            node.body = []
    return (node for node in ast.walk(tree) if node is not tree)


def _imported(tree: ast.AST) -> Iterator[tuple[str, Any]]:
    """Each name of an allowed module, or of what is imported from one, and what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in MODULES:
                    module = alias.name if alias.asname else alias.name.partition(".")[0]
                    yield alias.asname or module, importlib.import_module(module)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module in MODULES:
            for alias in node.names:
                yield alias.asname or alias.name, getattr(importlib.import_module(node.module), alias.name, None)


def _found(node: ast.AST) -> str:
    if isinstance(node, ast.Import):
        return next((f"import of {alias.name}" for alias in node.names if alias.name not in MODULES), "")
    if isinstance(node, ast.ImportFrom) and (found := _found_in_import(node)):
        return found
    if isinstance(node, ast.FunctionDef) and node.name in AROUND:
        return f"def {node.name}"
    if hidden := next((name for name in _identifiers(node) if name.startswith("__") and name not in PLAIN), ""):
        return f"use of {hidden}"
    if isinstance(node, ast.Name) and node.id in CALLS:
        return f"use of {node.id}"
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return "" if _may_be_set(node) else f"assignment to .{node.attr}"
    if isinstance(node, ast.Call) and (_is_type(node.func) and len(node.args) > 1 or _is_type_of(node.func)):
        return "a class made by type"
    if isinstance(node, ast.ClassDef):
        bases = [ast.unparse(base) for base in (*node.bases, *node.keywords)]
        if strange := next((base for base in bases if base.rpartition(".")[2] not in BASES), ""):
            return f"a class made from {strange}"
    for name in [node.attr] if isinstance(node, ast.Attribute) else getattr(node, "kwd_attrs", []):
        if _is_closed(name):
            return f"use of .{name}"
    return ""


@functools.cache
def known() -> frozenset[str]:
    """The attributes that values, operations of torch and modules that only compute have: what a test may ask for."""
    found = {*OF_TORCH, *OF_PYTEST, *OF_TUPLES, *OF_ANSWERS}.union(*PARTS.values())
    results = [kind for kind in vars(torch.return_types).values() if isinstance(kind, type)]
    for place in (*VALUES, *PURE, torch._C._VariableFunctions, torch.linalg, torch.special):
        found |= {name for name in dir(place) if not isinstance(getattr(place, name, None), ModuleType)}
    found |= {name for name in dir(torch.nn.functional) if callable(getattr(torch.nn.functional, name))}
    found |= {name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)}
    found |= {name for kind in results for name in dir(kind)}
    found |= {name.rpartition(".")[2] for name in MODULES}
    return frozenset(name for name in found - SHUT if not name.startswith("_") or name in OF_TUPLES)


@functools.cache
def foreign() -> frozenset[str]:
    """The attributes of modules, functions, frames and the like, which no file may take for its own."""
    places = [*INNER, torch, builtins, *map(importlib.import_module, sorted(MODULES))]
    return frozenset({*sys.stdlib_module_names}.union(*map(dir, places)) - known())


def _own_names(tree: ast.AST) -> Iterator[str]:
    """What a file may have given a name to: fields of its classes, and of tuples whose fields are named in texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\w+", node.value)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        else:
            yield from _identifiers(node)


def _found_unknown(node: ast.AST, own: Container[str]) -> str:
    """An attribute that no value has which a test needs: what is not known leads anywhere."""
    names = [node.attr] if isinstance(node, ast.Attribute) else getattr(node, "kwd_attrs", [])
    for name in names:
        if name not in known() and name not in PLAIN and (name not in own or name in foreign()):
            return f"use of .{name}"
    return ""


def _may_be_set(node: ast.Attribute) -> bool:
    """A leaf's gradient, or what a helper class keeps: `self` may be any object, so no name that a tensor has."""
    is_own = isinstance(node.value, ast.Name) and node.value.id == "self" and not _is_closed(node.attr)
    return node.attr in ("grad", "requires_grad") or (is_own and not hasattr(torch.Tensor, node.attr))


def _is_type(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "type"


def _is_type_of(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _is_type(node.func)


def _identifiers(node: ast.AST) -> Iterator[str]:
    """The names that a node itself holds."""
    if not isinstance(node, (ast.Constant, ast.Attribute, ast.ImportFrom)):
        yield from (value for _, value in ast.iter_fields(node) if isinstance(value, str))


def _found_as_value(node: ast.AST, names: Names) -> str:
    """A module, or `type`, that is handed on under a name which nobody can follow; a module inside of another."""
    for child in ast.iter_child_nodes(node):
        found = _meaning(child, names)
        if isinstance(found, ModuleType):
            if not isinstance(node, ast.Attribute):
                return f"use of the module {found.__name__} as a value"
            if _is_foreign(found, node.attr):
                return f"use of {found.__name__}.{node.attr}"
        if found is type and not (isinstance(node, ast.Call) and child is node.func):
            return "use of type as a value"
    return ""


def _meaning(node: ast.AST, names: Names) -> Any:
    """What an expression such as `torch.nn` stands for; None where only running it would tell."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return names.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute) and isinstance(inside := _meaning(node.value, names), ModuleType):
        return getattr(inside, node.attr, None)
    return None


def _found_in_import(node: ast.ImportFrom) -> str:
    where = node.module or ""
    if node.level:
        names = [alias.name for alias in node.names if alias.name != FUNCTIONS.get(where)]
        return f"import of {names[0]} from {where or 'beside it'}" if names else ""
    if where not in MODULES:
        return f"import of {where}"
    module = importlib.import_module(where)
    is_torch = where.partition(".")[0] == "torch"
    closed = [
        alias.name
        for alias in node.names
        if _is_closed(alias.name) or _is_foreign(module, alias.name) or is_torch and alias.name not in known()
    ]
    return f"import of {closed[0]} from {where}" if closed else ""


def _is_closed(name: str) -> bool:
    return name in INSIDE or (name.startswith("_") and name not in OF_TUPLES) or name == "*"


def _is_foreign(module: ModuleType, name: str) -> bool:
    """Whether this name of an allowed module is one of those that it keeps for itself."""
    inner = getattr(module, name, None)
    if isinstance(inner, ModuleType):
        return inner.__name__ not in MODULES
    return name not in PARTS.get(module.__name__, {name})
