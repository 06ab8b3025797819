"""One-edit variants of the reference's region: each is told by its kind, never by its text, which is the solution."""

import ast
import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from ...catalog import SOLUTIONS, regions
from ...catalog import lesson as read_lesson
from .brackets import rebracketed, sums_in
from .mutation_bench import Bench, Code, Hypothesis, compiled, parameters, words_of

Edit = tuple[str, ast.AST]
"""Its kind, and what stands in a node's place."""
Slot = tuple[ast.AST, str, int | None]
"""A node, one of its fields, and the number in it if that is a list."""
Place = tuple[list[ast.AST], str, Slot, Any]
"""The nodes that an edit concerns, its kind, where it is made, and what then stands there."""

MAX_FIELDS = 12
"""A record with more is a configuration, whose fields are altered one by one."""
UNSAFE = {"os", "shutil", "rmtree", "unlink", "rename", "replace_file", "open", "save", "save_pretrained"}
"""A region that touches files has no variants: nobody knows which files one of them would touch."""

BOUND, WAY = "a comparison that decides otherwise on the bound itself", "a comparison the wrong way round"
SIGN, QUOTIENT = "a wrong sign between two terms", "a product in place of a quotient, or the reverse"
TERM, FACTOR = "a term left out", "a factor or divisor left out"
LOGIC, INVERTED = "`and` in place of `or`, or the reverse", "a condition or mask inverted"
OFF_BY_ONE, CONSTANT = "a count, index or dimension off by one", "another constant"
SIZE = "the size of another dimension (`len` is that of the first)"
CASE_LOST, NOT_RESTORED = "a case left out", "nothing restored after an exception (try ... finally)"
ENDS_EARLY, NO_FIRST = "a loop that ends after its first turn", "a loop without its first turn"
NO_LAST, ABSOLUTE = "a loop without its last turn", "an absolute value taken where the sign counts"
NO_REPAIR = {CASE_LOST, NOT_RESTORED, ENDS_EARLY, NO_FIRST, NO_LAST, ABSOLUTE}
"""What nobody would make of code that is wrong."""
OPERATORS: dict[type, tuple[tuple[str, type], ...]] = {
    ast.Add: ((SIGN, ast.Sub),),
    ast.Sub: ((SIGN, ast.Add),),
    ast.Mult: ((QUOTIENT, ast.Div), ("a sum in place of a product", ast.Add)),
    ast.Div: ((QUOTIENT, ast.Mult), ("a quotient rounded down", ast.FloorDiv)),
    ast.FloorDiv: (("a quotient that is not rounded down", ast.Div),),
    ast.BitAnd: ((LOGIC, ast.BitOr),),
    ast.BitOr: ((LOGIC, ast.BitAnd),),
    ast.Lt: ((BOUND, ast.LtE), (WAY, ast.Gt)),
    ast.LtE: ((BOUND, ast.Lt), (WAY, ast.GtE)),
    ast.Gt: ((BOUND, ast.GtE), (WAY, ast.Lt)),
    ast.GtE: ((BOUND, ast.Gt), (WAY, ast.LtE)),
    ast.Eq: ((INVERTED, ast.NotEq), ("a comparison other than for equality", ast.GtE),
             ("a comparison other than for equality", ast.LtE)),
    ast.NotEq: ((INVERTED, ast.Eq),),
    ast.Is: ((INVERTED, ast.IsNot),),
    ast.IsNot: ((INVERTED, ast.Is),),
    ast.And: ((LOGIC, ast.Or),),
    ast.Or: ((LOGIC, ast.And),),
}  # fmt: skip
NAMES = {
    "minimum": ("maximum",), "maximum": ("minimum",), "min": ("max",), "max": ("min",), "sum": ("mean", "max"),
    "mean": ("sum", "max", "median"), "exp": ("expm1",), "expm1": ("exp",), "log": ("log1p", "log2"),
    "log1p": ("log",), "softmax": ("log_softmax",), "log_softmax": ("softmax",), "zeros_like": ("ones_like",),
    "ones_like": ("zeros_like",), "zeros": ("ones",), "any": ("all",), "all": ("any",), "cumsum": ("cumprod",),
    "argmax": ("argmin",), "sqrt": ("rsqrt",), "rsqrt": ("sqrt", "reciprocal"), "square": ("abs",),
    "logsigmoid": ("sigmoid", "softplus"), "logsumexp": ("sum", "amax"), "append": ("extend",), "triu": ("tril",),
    "var": ("std",), "std": ("var",), "amax": ("amin",), "amin": ("amax",), "floor": ("ceil",), "ceil": ("floor",),
}  # fmt: skip
NOWHERE = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
INSERTED = {"detach": "a value detached that must carry the gradient", "abs": ABSOLUTE}


def one_edit_variants(bench: Bench) -> Iterator[Hypothesis]:
    """All of them, from the edits of one operator to a variable in another's place."""
    names = {getattr(node, "id", getattr(node, "attr", "")) for node in bench.nodes()}
    if names & UNSAFE:
        return
    told = readable(bench)
    for place, kind, slot, new in edits_in(bench, told):
        code = functools.cache(functools.partial(code_with, bench, slot, new))
        yield Hypothesis(_text(bench, kind, place), code=code, words=words_of_edit(slot, new))


def edits_in(code: Code, told: Callable[[str], bool]) -> Iterator[Place]:
    """Every edit of the region; `told` says which names a kind may have."""
    return itertools.chain(
        *(edits(code, told) for edits in (_nodes, _brackets, _statements, _insertions, _other_names))
    )


def _text(bench: Bench, kind: str, place: list[ast.AST]) -> str:
    """The kind, and which arguments stand there, if only in what was made from them: they are known to everybody."""
    arguments = [name for name in parameters(bench.tree) if name != "self"]
    named = {name for one in place for name in _names_in(one)}
    near = [name for name in arguments if name in named]
    if not near:
        sources = {name for local in named for name in _origins(bench).get(local, ())}
        near = [name for name in arguments if name in sources]
    said = [f"`{name}`" for name in near]
    said_near = f" (near {' and '.join(said)})" if 0 < len(said) <= 2 and said[0] not in kind else ""
    what, colon, asked = kind.partition(": ")
    return f"with {what}{said_near}{colon}{asked}"


def _names_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


@functools.cache
def _origins(bench: Bench) -> dict[str, set[str]]:
    """The arguments from which each variable of the region is made."""
    known = {name: {name} for name in parameters(bench.tree)}
    for node in bench.nodes():
        if isinstance(node, ast.Assign):
            sources = {source for name in _names_in(node.value) for source in known.get(name, ())}
            for target in node.targets:
                for name in _names_in(target):
                    known.setdefault(name, set()).update(sources)
    return known


def slots(bench: Code) -> Iterator[tuple[Slot, ast.AST]]:
    """Each node of the region, and what holds it."""
    for parent in [bench.tree, *bench.nodes()]:
        for field, value in ast.iter_fields(parent):
            for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(node, ast.AST) and (parent is not bench.tree or bench.contains(node)):
                    yield (parent, field, index), node


def words_of_edit(slot: Slot, new: Any) -> Counter[str]:
    """Those that an edit adds, and those that it takes away."""
    parent, field, index = slot
    old = getattr(parent, field) if index is None else getattr(parent, field)[index]
    olds, news = (one if isinstance(one, list) else [one] for one in (old, new))
    gone, come = ([one for one in ones if one not in rest] for ones, rest in ((olds, news), (news, olds)))
    # An expression is written without its place, a statement is not.
    placed = (one if isinstance(one, ast.expr) else _placed(one, parent) for one in come)
    words = words_of("\n".join(map(ast.unparse, placed)))
    words.subtract(words_of("\n".join(map(_written, gone))))
    return words


@functools.lru_cache(maxsize=4096)
def _written(node: ast.AST) -> str:
    """Of a tree's own node, of which there are many edits."""
    return ast.unparse(node)


def _placed(node: ast.AST, holder: ast.AST, known: Container[int] = ()) -> ast.AST:
    """A copy at the place of another node; the node itself, which may be one of the tree, keeps its own.

    Args:
        known: the ids of nodes that have a place, and all below them.
    """
    placed = ast.copy_location(_changed(node), holder)
    todo: list[tuple[ast.AST, ast.AST]] = [(placed, NOWHERE)]
    while todo:
        node, place = todo.pop()
        if "lineno" in node._attributes:
            if not hasattr(node, "lineno"):
                ast.copy_location(node, place)
            place = node
        todo += [(child, place) for child in ast.iter_child_nodes(node) if id(child) not in known]
    return placed


def code_with(bench: Code, slot: Slot, new: Any) -> CodeType:
    """Of the function with something else in one slot."""
    try:
        return compiled(tree_with(bench, slot, new))
    except SyntaxError:  # Such as a `break` outside of its loop. Nothing is changed then, which explains nothing.
        return compiled(bench.tree)


def tree_with(bench: Code, slot: Slot, new: Any) -> Any:
    """The function's tree with something else in one slot: the nodes above it are copies, all others are shared."""
    holders = _holders(bench)
    place = functools.partial(_placed, holder=slot[0], known=holders)
    new = [*map(place, new)] if isinstance(new, list) else place(new)
    while True:
        holder, field, index = slot
        there = getattr(holder, field)
        changed = _changed(holder, **{field: new if index is None else [*there[:index], new, *there[index + 1 :]]})
        if holder is bench.tree:
            return changed
        slot, new = holders[id(holder)], changed


@functools.lru_cache(maxsize=256)
def _holders(bench: Code) -> dict[int, Slot]:
    """By the id of a node: what holds it."""
    return {id(node): slot for slot, node in slots(bench)}


def _nodes(bench: Code, told: Callable[[str], bool]) -> Iterator[Place]:
    for slot, node in slots(bench):
        is_factor = isinstance(slot[0], ast.BinOp) and isinstance(slot[0].op, (ast.Mult, ast.Div, ast.Pow))
        for kind, new in edits_of(node, told):
            if kind == OFF_BY_ONE:
                kind = CONSTANT if is_factor else SIZE if _is_size(bench, slot) else kind
            yield [node], kind, slot, new


def _brackets(code: Code, told: Callable[[str], bool]) -> Iterator[Place]:
    """A factor at one term of a sum only, or at more terms than its own."""
    sums, named = sums_in(code.nodes()), parameters(code.tree)
    for slot, node in slots(code):
        for kind, new in rebracketed(node, slot[0], sums, named):
            yield [node], kind, slot, new


def _is_size(bench: Code, slot: Slot) -> bool:
    """The index of `shape[1]`, or the 1 of `shape[-1]`."""
    holder = slot[0]
    if isinstance(holder, ast.UnaryOp):
        holder = _holders(bench)[id(holder)][0]
    return isinstance(holder, ast.Subscript) and getattr(holder.value, "attr", "") == "shape"


def edits_of(node: ast.AST, told: Callable[[str], bool] = lambda name: True) -> Iterator[Edit]:
    """What may stand in the place of one node; `told` says which names a kind may have."""
    return EDITS.get(type(node), lambda node, told: iter(()))(node, told)


def _changed(node: ast.AST, **fields: Any) -> Any:
    """A copy with other fields; `copy.copy` takes ten times as long."""
    other = type(node).__new__(type(node))
    vars(other).update(vars(node), **fields)
    return other


def _of_operation(node: ast.BinOp, told: Callable[[str], bool]) -> Iterator[Edit]:
    for kind, operator in OPERATORS.get(type(node.op), ()):
        yield kind, _changed(node, op=operator())
    lost = TERM if isinstance(node.op, (ast.Add, ast.Sub)) else FACTOR
    lost = "one of two conditions left out" if isinstance(node.op, (ast.BitAnd, ast.BitOr)) else lost
    lost = "an exponent left out" if isinstance(node.op, ast.Pow) else lost
    yield lost, node.left
    yield lost, node.right
    if isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv, ast.Pow)):
        yield "the two sides of a difference or quotient swapped", _changed(node, left=node.right, right=node.left)


def _of_sign(node: ast.UnaryOp, told: Callable[[str], bool]) -> Iterator[Edit]:
    yield "a minus sign left out" if isinstance(node.op, ast.USub) else INVERTED, node.operand


def _of_logic(node: ast.BoolOp, told: Callable[[str], bool]) -> Iterator[Edit]:
    for kind, operator in OPERATORS[type(node.op)]:
        yield kind, _changed(node, op=operator())
    for number in range(len(node.values)):
        rest = node.values[:number] + node.values[number + 1 :]
        yield "one of two conditions left out", rest[0] if len(rest) == 1 else _changed(node, values=rest)


def _of_comparison(node: ast.Compare, told: Callable[[str], bool]) -> Iterator[Edit]:
    for kind, operator in OPERATORS.get(type(node.ops[0]), ()) if len(node.ops) == 1 else ():
        yield kind, _changed(node, ops=[operator()])


def _of_constant(node: ast.Constant, told: Callable[[str], bool]) -> Iterator[Edit]:
    if isinstance(node.value, bool):
        yield "an option the other way round", _changed(node, value=not node.value)
    elif isinstance(node.value, int):
        for value in (node.value + 1, node.value - 1):
            yield OFF_BY_ONE, _changed(node, value=value)
        yield "-1 in place of another index or dimension", _changed(node, value=-node.value if node.value else -1)
    elif isinstance(node.value, float):
        others = (1e-4, 1e-5, 1e-6, 1e-7, 1e-12) if 0 < node.value < 1e-3 else (1.0, 2 * node.value, node.value / 2)
        for value in (0.0, *others, 10 * node.value, node.value / 10, -node.value):
            if value != node.value:
                yield CONSTANT, _changed(node, value=value)


def _of_slice(node: ast.Slice, told: Callable[[str], bool]) -> Iterator[Edit]:
    for bound in ("lower", "upper", "step"):
        value = getattr(node, bound)
        if value is not None:
            yield "a slice without one of its bounds", _changed(node, **{bound: None})
            if bound != "step":
                for operator in (ast.Add(), ast.Sub()):
                    yield "a slice off by one", _changed(node, **{bound: ast.BinOp(value, operator, ast.Constant(1))})
    ends = [one and ast.unparse(one) for one in (node.lower, node.upper)]
    if ends == [None, "-1"]:
        yield "a slice without its first entry in place of its last", _changed(node, lower=ast.Constant(1), upper=None)
    elif ends == ["1", None]:
        last = ast.UnaryOp(ast.USub(), ast.Constant(1))
        yield "a slice without its last entry in place of its first", _changed(node, lower=None, upper=last)
    if node.lower is None:
        yield "a slice off by one", _changed(node, lower=ast.Constant(1))
    if node.upper is None:
        yield "a slice off by one", _changed(node, upper=ast.UnaryOp(ast.USub(), ast.Constant(1)))


def _of_choice(node: ast.IfExp, told: Callable[[str], bool]) -> Iterator[Edit]:
    yield "the two cases of a condition swapped", _changed(node, body=node.orelse, orelse=node.body)
    yield CASE_LOST, node.body
    yield CASE_LOST, node.orelse


def _of_call(node: ast.Call, told: Callable[[str], bool]) -> Iterator[Edit]:
    field = "attr" if isinstance(node.func, ast.Attribute) else "id"
    name = getattr(node.func, field, "")
    what = f"`{name}`" if told(name) else "a function"
    if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Constant):
        yield f"{what} left out", node.func.value
    for argument in node.args[:2]:
        if not isinstance(argument, ast.Starred):
            yield f"{what} left out", argument
    for other in NAMES.get(name, ()):
        func = _changed(node.func, attr=other) if field == "attr" else _of_torch(other)
        yield f"`{other}` in place of `{name}`", _changed(node, func=func)
    args, keywords = node.args, node.keywords
    for i in range(len(args) - 1):
        swapped = [*args[:i], args[i + 1], args[i], *args[i + 2 :]]
        yield f"two arguments of {what} swapped", _changed(node, args=swapped)
    for i, keyword in enumerate(keywords):
        option = f"`{keyword.arg}`" if keyword.arg and told(keyword.arg) else "an option"
        yield f"{option} of {what} left out", _changed(node, keywords=keywords[:i] + keywords[i + 1 :])
    if args:
        yield f"the last argument of {what} left out", _changed(node, args=args[:-1])


def _of_torch(name: str) -> ast.expr:
    """The file need not have imported it by its name."""
    home = "torch" if hasattr(torch, name) else "torch.nn.functional"
    return ast.parse(f"{home}.{name}", mode="eval").body


def _of_dict(node: ast.Dict, told: Callable[[str], bool]) -> Iterator[Edit]:
    values = node.values
    for i in range(len(values) - 1):
        swapped = [*values[:i], values[i + 1], values[i], *values[i + 2 :]]
        yield "two entries of the answer swapped", _changed(node, values=swapped)
    for i in range(len(values)):
        rest = {"keys": node.keys[:i] + node.keys[i + 1 :], "values": values[:i] + values[i + 1 :]}
        yield "an entry left out", _changed(node, **rest)


def _of_tuple(node: ast.Tuple, told: Callable[[str], bool]) -> Iterator[Edit]:
    for i in range(len(node.elts) - 1):
        swapped = [*node.elts[:i], node.elts[i + 1], node.elts[i], *node.elts[i + 2 :]]
        yield "two parts swapped", _changed(node, elts=swapped)


def _of_generator(node: ast.comprehension, told: Callable[[str], bool]) -> Iterator[Edit]:
    for i in range(len(node.ifs)):
        yield "a condition left out", _changed(node, ifs=node.ifs[:i] + node.ifs[i + 1 :])


EDITS: dict[type, Callable[[Any, Callable[[str], bool]], Any]] = {
    ast.BinOp: _of_operation,
    ast.UnaryOp: _of_sign,
    ast.BoolOp: _of_logic,
    ast.Compare: _of_comparison,
    ast.Constant: _of_constant,
    ast.Slice: _of_slice,
    ast.IfExp: _of_choice,
    ast.Call: _of_call,
    ast.Dict: _of_dict,
    ast.Tuple: _of_tuple,
    ast.comprehension: _of_generator,
}


# ---- whole statements


def _statements(bench: Code, told: Callable[[str], bool]) -> Iterator[Place]:
    """A step left out, done twice, at another place, or in another loop."""
    for parent in [bench.tree, *bench.nodes()]:
        for field in ("body", "orelse"):
            block = getattr(parent, field, None)
            if not isinstance(block, list) or not block:
                continue
            for kind, place, changed in _of_block(block, parent is not bench.tree or bench.contains, told):
                yield place, kind, (parent, field, None), changed or [ast.Pass()]


def _of_block(block: list[ast.stmt], inside: Any, told: Callable[[str], bool]) -> Iterator[tuple[str, list, list]]:
    for i, one in enumerate(block):
        if callable(inside) and not inside(one):
            continue
        before, after = block[:i], block[i + 1 :]
        place = [one]
        if not isinstance(one, ast.Return):
            yield _step(one, told), place, [*before, *after]
        if after and not isinstance(after[0], ast.Return):
            yield "two steps in the other order", place, [*before, after[0], one, *after[1:]]
        if isinstance(one, (ast.Expr, ast.AugAssign)):
            for j in range(i - 1):
                yield "a step that comes too early", place, [*before[:j], one, *before[j:], *after]
            for j in range(2, len(after)):
                yield "a step that comes too late", place, [*before, *after[:j], one, *after[j:]]
        for kind, changed in STATEMENTS.get(type(one), lambda one: ())(one):
            yield kind, place, [*before, *changed, *after]


def _step(one: ast.stmt, told: Callable[[str], bool]) -> str:
    """What is left out, by the name of what it calls, if everybody may know it."""
    if isinstance(one, (ast.Continue, ast.Break)):
        return f"a `{type(one).__name__.lower()}` left out"
    if isinstance(one, (ast.If, ast.For, ast.While)):
        return "a condition with its step left out" if isinstance(one, ast.If) else "a loop left out"
    call = getattr(one, "value", None)
    name = getattr(call.func, "attr", getattr(call.func, "id", "")) if isinstance(call, ast.Call) else ""
    return f"a step left out: a call of `{name}`" if name and told(name) else "a step left out"


def _of_if(one: ast.If) -> Iterator[tuple[str, list[ast.stmt]]]:
    yield "a step that is always done, whatever its condition says", one.body
    yield INVERTED, [_changed(one, test=ast.UnaryOp(ast.Not(), one.test))]
    if one.orelse:
        yield "the second case done always", one.orelse


def _of_loop(one: ast.For) -> Iterator[tuple[str, list[ast.stmt]]]:
    for i, step in enumerate(one.body):
        rest = [*one.body[:i], *one.body[i + 1 :]] or [ast.Pass()]
        if not isinstance(step, (ast.Continue, ast.Break)):
            yield "a step before the loop that belongs inside it", [step, _changed(one, body=rest)]
            yield "a step after the loop that belongs inside it", [_changed(one, body=rest), step]
    yield ENDS_EARLY, [_changed(one, body=[*one.body, ast.Break()])]
    items = ast.Call(ast.Name("list", ast.Load()), [one.iter], [])
    later = ast.Subscript(items, ast.Slice(ast.Constant(1)), ast.Load())
    yield NO_FIRST, [_changed(one, iter=later)]
    turned = _changed(later, slice=ast.Slice(None, ast.UnaryOp(ast.USub(), ast.Constant(1))))
    yield NO_LAST, [_changed(one, iter=turned)]
    backwards = _changed(later, slice=ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1))))
    yield "a loop that runs in the other order", [_changed(one, iter=backwards)]


def _of_context(one: ast.With) -> Iterator[tuple[str, list[ast.stmt]]]:
    if not any(item.optional_vars for item in one.items):
        yield "a `with` left out", one.body


def _of_assignment(one: ast.AugAssign) -> Iterator[tuple[str, list[ast.stmt]]]:
    target = _changed(one.target)
    yield "a value replaced where it must be added to", [ast.Assign([target], one.value)]
    for kind, operator in OPERATORS.get(type(one.op), ()):
        yield kind, [_changed(one, op=operator())]


def _of_try(one: ast.Try) -> Iterator[tuple[str, list[ast.stmt]]]:
    yield NOT_RESTORED, [*one.body, *one.finalbody]


STATEMENTS: dict[type, Callable[[Any], Iterator[tuple[str, list[ast.stmt]]]]] = {
    ast.If: _of_if,
    ast.For: _of_loop,
    ast.With: _of_context,
    ast.AugAssign: _of_assignment,
    ast.Try: _of_try,
}


# ---- something put in, and one variable in another's place


def _insertions(bench: Code, told: Callable[[str], bool]) -> Iterator[Place]:
    """A method applied to a value that is read."""
    for slot, node in slots(bench):
        if slot[1] == "func" or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            continue
        if isinstance(node, (ast.Name, ast.Call, ast.BinOp)) and not isinstance(slot[0], (ast.For, ast.keyword)):
            for name, kind in INSERTED.items():
                call = ast.Call(ast.Attribute(node, name, ast.Load()), [], [])
                yield [node], kind, slot, call


def _other_names(bench: Code, told: Callable[[str], bool]) -> Iterator[Place]:
    """A variable, or a field, in the place of another one."""
    nodes = list(bench.nodes())
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names = [name for name in [*parameters(bench.tree), *sorted(stored)] if name != "self"]
    public = set(parameters(bench.tree))
    attributes: dict[str, set[str]] = {}
    for slot, node in slots(bench):
        if isinstance(node, ast.Attribute) and slot[1] != "func":
            attributes.setdefault(ast.unparse(node.value), set()).update({node.attr} | _beside(bench, node.attr))
    for slot, node in slots(bench):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names and slot[1] != "func":
            for other in names:
                if other != node.id:
                    both = {node.id, other} <= public
                    kind = f"`{other}` where `{node.id}` belongs" if both else _variable(node.id, other, public)
                    yield [], kind, slot, _changed(node, id=other)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and slot[1] != "func":
            for other in sorted(attributes.get(ast.unparse(node.value), set()) - {node.attr}):
                both = told(node.attr) and told(other)
                kind = f"`{other}` where `{node.attr}` belongs" if both else "one field where another belongs"
                yield [], kind, slot, _changed(node, attr=other)


def _beside(bench: Code, name: str) -> set[str]:
    """The fields of the dataclasses that the file knows, and that have one of this name."""
    records = [value for value in vars(bench.module).values() if isinstance(value, type)]
    fields = [set(getattr(one, "__dataclass_fields__", ())) | set(getattr(one, "_fields", ())) for one in records]
    few = [one for one in fields if name in one and len(one) <= MAX_FIELDS]
    return set().union(*few)


def _variable(name: str, other: str, public: set[str]) -> str:
    if other in public:
        return f"`{other}` where an intermediate value belongs"
    return f"another value where `{name}` belongs" if name in public else "one variable where another belongs"


@functools.cache
def _outside(lesson: str, exercise: str) -> frozenset[str]:
    """The words that a student can read: the file without its regions."""
    path = SOLUTIONS / lesson / read_lesson(lesson).file_of(exercise)
    lines = path.read_text("utf-8").splitlines()
    for region in regions(path):
        lines[region.first : region.last] = [""] * (region.last - region.first)
    return frozenset(re.findall(r"\w+", "\n".join(lines)))


def readable(bench: Code) -> Callable[[str], bool]:
    """Whether a name may be said: it stands in the stub, or it is torch's."""
    words = _outside(bench.lesson, bench.exercise)
    homes = (Tensor, torch, nn.Module, torch.optim.Optimizer, nn.functional)
    return lambda name: name in words or any(hasattr(home, name) for home in homes)
