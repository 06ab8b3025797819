"""What may stand in the place of a piece of code: one edit each, told by its two texts alone."""

import ast
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

Slot = tuple[ast.AST, str, int | None]
"""A node, one of its fields, and the number in it if that is a list."""
Place = tuple[Slot, Any]
"""Where an edit is made, and the node that then stands there."""

OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq, ast.GtE, ast.LtE),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
NAMES = {
    "minimum": ("maximum",), "maximum": ("minimum",), "min": ("max",), "max": ("min",), "sum": ("mean", "max"),
    "mean": ("sum", "max", "median"), "exp": ("expm1",), "expm1": ("exp",), "log": ("log1p", "log2"),
    "log2": ("log",), "log1p": ("log",), "softmax": ("log_softmax",), "log_softmax": ("softmax",),
    "zeros_like": ("ones_like",), "ones_like": ("zeros_like",), "zeros": ("ones",), "any": ("all",), "all": ("any",),
    "cumsum": ("cumprod",), "argmax": ("argmin",), "sqrt": ("rsqrt",), "rsqrt": ("sqrt", "reciprocal"),
    "square": ("abs",), "logsigmoid": ("sigmoid", "softplus"), "logsumexp": ("sum", "amax"), "append": ("extend",),
    "triu": ("tril",), "var": ("std",), "std": ("var",), "amax": ("amin",), "amin": ("amax",), "floor": ("ceil",),
    "ceil": ("floor",), "copy": ("deepcopy",), "repeat": ("repeat_interleave",), "nanmean": ("mean",),
    "nansum": ("sum",),
}  # fmt: skip
WITH_DIM = "sum mean std var max min any all stack cat squeeze argmax flip sort".split()
"""What takes all dimensions, or the first, unless it is told which."""


def edits_of(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of one node."""
    return EDITS.get(type(node), lambda node: iter(()))(node)


def changed(node: ast.AST, **fields: Any) -> Any:
    """A copy with other fields; `copy.copy` takes ten times as long."""
    other = type(node).__new__(type(node))
    vars(other).update(vars(node), **fields)
    return other


def _of_operation(node: ast.BinOp) -> Iterator[ast.AST]:
    for operator in OPERATORS.get(type(node.op), ()):
        yield changed(node, op=operator())
    yield node.left
    yield node.right
    if isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv, ast.Pow)):
        yield changed(node, left=node.right, right=node.left)
    if isinstance(node.op, ast.FloorDiv):  # rounded up
        yield ast.UnaryOp(ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), node.left), node.op, node.right))
    yield from _factor_moved(node)


def _factor_moved(node: ast.BinOp) -> Iterator[ast.AST]:
    """`a + k * b` or `k * a + b` for `k * (a + b)`, and the reverse."""
    scales, adds = (ast.Mult, ast.Div), (ast.Add, ast.Sub)
    for name, other in (("left", "right"), ("right", "left")):
        inner, factor = getattr(node, name), getattr(node, other)
        if not isinstance(inner, ast.BinOp) or (isinstance(node.op, ast.Div) and name == "right"):
            continue
        if isinstance(node.op, scales) and isinstance(inner.op, adds):
            yield changed(inner, left=changed(node, **{name: inner.left}))
            yield changed(inner, right=changed(node, **{name: inner.right}))
        elif isinstance(node.op, adds) and isinstance(inner.op, scales):
            yield changed(inner, left=changed(node, **{name: inner.left, other: factor}))
            if isinstance(inner.op, ast.Mult):
                yield changed(inner, right=changed(node, **{name: inner.right, other: factor}))


def _of_comparison(node: ast.Compare) -> Iterator[ast.AST]:
    for operator in OPERATORS.get(type(node.ops[0]), ()) if len(node.ops) == 1 else ():
        yield changed(node, ops=[operator()])


def _of_constant(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield changed(node, value=not node.value)
    elif isinstance(node.value, int):
        for value in dict.fromkeys((node.value + 1, node.value - 1, -node.value or 1)):
            yield changed(node, value=value)
    elif isinstance(node.value, float):
        others = (1e-4, 1e-5, 1e-6, 1e-7, 1e-12) if 0 < node.value < 1e-3 else (1.0, 2 * node.value, node.value / 2)
        for value in (0.0, *others, 10 * node.value, node.value / 10, -node.value):
            if value != node.value:
                yield changed(node, value=value)


def _of_slice(node: ast.Slice) -> Iterator[ast.AST]:
    for bound in ("lower", "upper", "step"):
        value = getattr(node, bound)
        if value is not None:
            yield changed(node, **{bound: None})
            if bound != "step":
                for operator in (ast.Add(), ast.Sub()):
                    yield changed(node, **{bound: ast.BinOp(value, operator, ast.Constant(1))})
    ends = [ast.unparse(one) if one else None for one in (node.lower, node.upper)]
    last = ast.UnaryOp(ast.USub(), ast.Constant(1))
    if ends == [None, "-1"]:
        yield changed(node, lower=ast.Constant(1), upper=None)
    elif ends == ["1", None]:
        yield changed(node, lower=None, upper=last)
    if node.lower is None:
        yield changed(node, lower=ast.Constant(1))
    if node.upper is None:
        yield changed(node, upper=last)
    # The same slice one step too far on, or back: `[n - 1 : -1]` for `[n:]`, and the reverse.
    if node.lower and (ends[1] is None or ends[1].lstrip("-").isdigit()) and (end := int(ends[1] or 0)) <= 0:
        one = ast.Constant(1)
        yield changed(node, lower=ast.BinOp(node.lower, ast.Sub(), one), upper=ast.Constant(end - 1))
        if end:
            upper = ast.Constant(end + 1) if end < -1 else None
            yield changed(node, lower=ast.BinOp(node.lower, ast.Add(), one), upper=upper)


def _of_call(node: ast.Call) -> Iterator[ast.AST]:
    field = "attr" if isinstance(node.func, ast.Attribute) else "id"
    if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Constant):
        yield node.func.value
    for argument in node.args[:2]:
        if not isinstance(argument, ast.Starred):
            yield argument
    for other in NAMES.get(getattr(node.func, field, ""), ()):
        yield changed(node, func=changed(node.func, attr=other) if field == "attr" else _of_torch(other))
    args, keywords = node.args, node.keywords
    for i in range(len(args) - 1):
        yield changed(node, args=[*args[:i], args[i + 1], args[i], *args[i + 2 :]])
    for i, keyword in enumerate(keywords):
        renamed = [[changed(keyword, arg=other)] for other in NAMES.get(keyword.arg or "", ())]  # min= for max=
        for instead in ([], *renamed):
            yield changed(node, keywords=[*keywords[:i], *instead, *keywords[i + 1 :]])
    if args:
        yield changed(node, args=args[:-1])
    if getattr(node.func, field, "") in WITH_DIM and not any(isinstance(one, ast.Constant) for one in args):
        for dims in () if keywords else ({"dim": -1}, {"dim": 1}, {"dim": 1, "keepdim": True}):
            yield changed(node, keywords=[ast.keyword(name, ast.Constant(one)) for name, one in dims.items()])


def _of_torch(name: str) -> ast.expr:
    """The file need not have imported it by its name."""
    home = "torch" if hasattr(torch, name) else "torch.nn.functional"
    return ast.parse(f"{home}.{name}", mode="eval").body


def _of_tuple(node: ast.Tuple) -> Iterator[ast.AST]:
    for i in range(len(node.elts) - 1):
        yield changed(node, elts=[*node.elts[:i], node.elts[i + 1], node.elts[i], *node.elts[i + 2 :]])


EDITS: dict[type, Callable[[Any], Iterator[ast.AST]]] = {
    ast.BinOp: _of_operation,
    ast.UnaryOp: lambda node: iter((node.operand,)),
    ast.Compare: _of_comparison,
    ast.Constant: _of_constant,
    ast.Slice: _of_slice,
    ast.Call: _of_call,
    ast.Tuple: _of_tuple,
}


# Edits of a whole function


def places_in(tree: ast.FunctionDef, kinds: Mapping[str, Any]) -> Iterator[Place]:
    """Every edit of a function that may repair it: of one node, of a slice, and one name for another of its kind."""
    names = names_in(tree)
    for slot, node in slots_of(tree):
        more = (*_methods(slot, node, kinds), *_names(slot, node, names, kinds), *_one_off(slot, node))
        for new in (*edits_of(node), *more):
            is_minus_0 = isinstance(slot[0], ast.UnaryOp) and getattr(new, "value", None) == 0
            if new is not node and not is_minus_0:
                yield slot, new


def additions_to(tree: ast.FunctionDef, parts: Sequence[ast.expr], signs: Sequence[type]) -> Iterator[Place]:
    """Edits that put small parts of another function into this one: in place of a value, or beside it.

    Args:
        signs: what may join them, such as `ast.Sub`.
    """
    names = names_in(tree)
    known = [one for one in parts if all(node.id in names for node in ast.walk(one) if isinstance(node, ast.Name))]
    for slot, node in slots_of(tree):
        if isinstance(node, ast.expr) and _is_value(slot, node) and not isinstance(slot[0], ast.Subscript):
            # A copy, since a second edit may be within the first.
            if not isinstance(node, (ast.Call, ast.BinOp)):
                yield from ((slot, copy.deepcopy(one)) for one in known)
            yield from ((slot, ast.BinOp(node, sign(), copy.deepcopy(one))) for one in known for sign in signs)


def names_in(tree: ast.FunctionDef) -> list[str]:
    """Those that a function is given or sets."""
    nodes = [node for _, node in slots_of(tree)]
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    given = [one.arg for one in ast.walk(tree.args) if isinstance(one, ast.arg) and one.arg != "self"]
    return [*given, *sorted(stored - {*given})]


def slots_of(tree: ast.FunctionDef) -> Iterator[tuple[Slot, ast.AST]]:
    """Each node of a function's body, and what holds it."""
    for parent in ast.walk(tree):
        if parent is tree.args or isinstance(parent, ast.arg):
            continue
        for field, value in ast.iter_fields(parent):
            if parent is tree and field != "body":
                continue
            for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(node, ast.AST):
                    yield (parent, field, index), node


def _is_value(slot: Slot, node: ast.AST) -> bool:
    """Whether a node is a value that something else may stand for."""
    is_read = isinstance(getattr(node, "ctx", None) or ast.Load(), ast.Load)
    is_plain = isinstance(node, (ast.Name, ast.Call, ast.BinOp, ast.Subscript, ast.Constant))
    return is_read and is_plain and slot[1] != "func" and not isinstance(slot[0], (ast.For, ast.Attribute))


METHODS = {"detach": True, "exp": True, "log": True, "mean": True, "bool": False}
"""Whether a method is one of fractions."""


def _methods(slot: Slot, node: ast.AST, kinds: Mapping[str, Any]) -> Iterator[ast.AST]:
    """A method that is missing at a value, a sign, a `not` at flags, or the reverse of a list."""
    if not isinstance(node, ast.expr) or isinstance(node, ast.Constant) or not _is_value(slot, node):
        return
    if isinstance(slot[0], (ast.keyword, ast.Slice)):
        return
    kind = kinds.get(getattr(node, "id", ""))
    if kind in (None, list) and isinstance(node, ast.Name) and isinstance(slot[0], ast.Call):
        yield ast.Subscript(node, ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1))), ast.Load())
    if not isinstance(kind, type):
        of_kind = (name for name, of_fractions in METHODS.items() if kind is None or kind[-1:] == (of_fractions,))
        yield from (ast.Call(ast.Attribute(node, name, ast.Load()), [], []) for name in of_kind)
        yield ast.UnaryOp(ast.Invert(), node)
    yield ast.UnaryOp(ast.USub(), node)


def _names(slot: Slot, node: ast.AST, names: list[str], kinds: Mapping[str, Any]) -> Iterator[ast.AST]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names and slot[1] != "func":
        same = (other for other in names if other != node.id and kinds.get(other) == kinds.get(node.id))
        yield from (changed(node, id=other) for other in same)


def _one_off(slot: Slot, node: ast.AST) -> Iterator[ast.AST]:
    """The index before, or behind."""
    parent, field, _ = slot
    if isinstance(node, ast.Name) and (field == "slice" or (isinstance(parent, ast.Tuple) and field == "elts")):
        for sign in (ast.Sub(), ast.Add()):
            yield ast.BinOp(node, sign, ast.Constant(1))
