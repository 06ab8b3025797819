"""Products beside sums with brackets left out, or around too much."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Terms = list[tuple[ast.operator, Any]]
"""Of a sum, or of a product: what stands before each, and it; the first has nothing before it, whatever is said."""

SUM, PRODUCT = (ast.Add, ast.Sub), (ast.Mult, ast.Div)
MISSING = "at one term of its sum only: are brackets missing?"
TOO_MANY = "at more terms of a sum than its own: are there brackets too many?"
CUT = "the first term of a divisor as all of it: are brackets missing?"
GROWN = "a divisor that takes in the term after it: are there brackets too many?"


def sums_in(nodes: Iterable[ast.AST]) -> dict[str, Any]:
    """By its name: what a variable is that is a sum and is set once."""
    nodes = list(nodes)
    stored = Counter(one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    found: dict[str, Any] = {}
    for one in nodes:
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and _is(one.value, SUM):
            found[one.targets[0].id] = one.value
    return {name: value for name, value in found.items() if stored[name] == 1}


def rebracketed(node: Any, holder: Any, sums: dict[str, Any], named: Sequence[str]) -> Iterator[tuple[str, ast.expr]]:
    """A sum or product with other brackets: the kind, and what stands in its place.

    Args:
        holder: what the node is an operand of, if it is one.
        sums: the variables in whose place their value may stand.
        named: the names that a kind may have.
    """
    if _is(node, PRODUCT) and not (_is(holder, PRODUCT) and holder.left is node):
        is_subtracted = _is(holder, (ast.Sub,)) and holder.right is node
        for factor, is_divisor, new in _narrower(_parts(node, PRODUCT), is_subtracted, sums):
            yield CUT if factor is None else f"{_called(factor, is_divisor, named)} {MISSING}", new
    elif _is(node, SUM) and not (_is(holder, SUM) and holder.left is node):
        for factor, is_divisor, new in _wider(_parts(node, SUM)):
            yield GROWN if factor is None else f"{_called(factor, is_divisor, named)} {TOO_MANY}", new


def _is(node: Any, operators: tuple[type, ...]) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, operators)


def _parts(node: Any, operators: tuple[type, ...]) -> Terms:
    if _is(node, operators):
        return [*_parts(node.left, operators), (node.op, node.right)]
    return [(operators[0](), node)]


def _joined(terms: Terms) -> ast.expr:
    whole = terms[0][1]
    for operator, one in terms[1:]:
        whole = ast.BinOp(whole, operator, one)
    return whole


def _called(factor: ast.AST, is_divisor: bool, named: Sequence[str]) -> str:
    name = getattr(factor, "id", "")
    return f"`{name}`" if name in named else "a divisor" if is_divisor else "a factor"


def _narrower(
    factors: Terms, is_subtracted: bool, sums: dict[str, Any]
) -> Iterator[tuple[ast.AST | None, bool, ast.expr]]:
    """A product that reaches one term of a sum only; the factor there is None where the sum is the divisor."""
    for i, (operator, factor) in enumerate(factors):
        terms = _parts(sums.get(getattr(factor, "id", ""), factor), SUM)
        before, after = factors[:i], factors[i + 1 :]
        if len(terms) == 1:
            continue
        (_, first), *middle, (sign, last) = terms
        start = _joined([*before, (operator, first)])
        # After a minus each sign is read as it stands there.
        rest: Terms = [*middle, (sign, _joined([(sign, last), *after]))]
        rest = [(_opposite(one) if is_subtracted else one, term) for one, term in rest]
        is_divisor = bool(before) and isinstance(operator, ast.Div)
        beside, other = (before[-1], False) if before else (after[0], isinstance(after[0][0], ast.Div))
        yield None if is_divisor else beside[1], other, _joined([(sign, start), *rest])
        if not after and not is_divisor:
            end = sign, _joined([*before, (operator, last)])
            yield beside[1], other, _joined([(sign, first), *middle, end])
        elif not before:
            yield beside[1], other, _joined([(sign, _joined([(sign, first), *after])), *middle, (sign, last)])


def _opposite(operator: ast.operator) -> ast.operator:
    return ast.Sub() if isinstance(operator, ast.Add) else ast.Add()


def _wider(terms: Terms) -> Iterator[tuple[ast.AST | None, bool, ast.expr]]:
    """A product that takes in the terms beside it, one or all; the factor there is None where the divisor does."""
    for i, (sign, term) in enumerate(terms):
        if not _is(term, PRODUCT):
            continue
        is_divisor = isinstance(term.op, ast.Div)
        pairs = [(term.left, term.right)] if is_divisor else [(term.left, term.right), (term.right, term.left)]
        for inner, factor in pairs:  # `(... + inner) * factor`
            for k in sorted({0, i - 1} if i else ()):
                whole = ast.BinOp(_joined([*terms[k:i], (sign, inner)]), term.op, factor)
                yield factor, is_divisor, _joined([*terms[:k], (terms[k][0], whole), *terms[i + 1 :]])
        for factor, inner in pairs:  # `factor * (inner + ...)`
            for k in sorted({i + 2, len(terms)} if i + 1 < len(terms) else ()):
                whole = ast.BinOp(factor, term.op, _joined([(sign, inner), *terms[i + 1 : k]]))
                yield None if is_divisor else factor, False, _joined([*terms[:i], (sign, whole), *terms[k:]])
