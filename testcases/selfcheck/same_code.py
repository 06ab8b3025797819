"""Whether two answers are the same code but for names, comments and layout."""

import ast
import inspect
import textwrap

from testcases.engine.oracle import Change, NamedChange, region_text


def code_of(lesson: str, answer: NamedChange) -> str:
    """The text of an answer: the changed region, or the function that stands in its place."""
    if isinstance(answer.change, Change):
        return answer.change.apply(region_text(lesson, answer.exercise))
    function = ast.parse(textwrap.dedent(inspect.getsource(answer.change))).body[0]
    assert isinstance(function, ast.FunctionDef)
    return ast.unparse(ast.Module(function.body, []))


def normalized(code: str) -> str:
    """The syntax tree as text: local names numbered in the order in which they appear, annotations and texts that are
    statements left out."""
    tree = _Bare().visit(ast.parse(code))
    local = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    local |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    local |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    numbers: dict[str, str] = {}
    for node in ast.walk(tree):
        for field in ("id", "arg", "name"):
            if not isinstance(node, ast.keyword) and getattr(node, field, None) in local:
                name = getattr(node, field)
                setattr(node, field, numbers.setdefault(name, f"name{len(numbers)}"))
    return ast.dump(tree)


class _Bare(ast.NodeTransformer):
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return ast.Assign([node.target], node.value, lineno=node.lineno) if node.value else None

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)
