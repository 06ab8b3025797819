"""The text of functions, and the code that is made of it."""

import ast
import copy
import functools
import re
import sys
import warnings
from collections import Counter
from contextlib import suppress
from types import CodeType
from typing import Any

from ..catalog import read_lesson
from ..execution.executor import Executor

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions_in(text: str, exercise: str) -> list[ast.stmt]:
    """Where a file defines a function or method, in the order in which Python comes to it: the last one counts.

    An assignment, such as `compute_gae = second_try`, stands for the function that it names. One that wraps the
    function defined before, such as `f = torch.compile(f)`, defines none.

    Raises:
        SyntaxError: the file is no Python.
    """
    owner, _, name = exercise.rpartition(".")
    body = _parsed(text).body
    if owner:
        body = [one for holder in definitions_in(text, owner)[-1:] for one in getattr(holder, "body", ())]
    found: list[ast.stmt] = []
    for one in body:
        if isinstance(one, Function) and one.name == name:
            found.append(one)
        elif isinstance(one, ast.Assign) and name in {getattr(target, "id", "") for target in one.targets}:
            used = [node.id for node in ast.walk(one.value) if isinstance(node, ast.Name)]
            named = [other for other in body if getattr(other, "name", "") in used and other.lineno < one.lineno]
            found += [] if name in used else named[-1:] or [one]
        elif isinstance(one, ast.ImportFrom) and name in {other.asname or other.name for other in one.names}:
            found.append(one)
    return found


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module:
    """A file is asked for one exercise after the other; whoever edits the tree copies it."""
    return ast.parse(text)


def definition(text: str, name: str) -> Function | None:
    """The definition of a dotted name in a text that counts; None where there is none, or it is another's."""
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for node in definitions_in(text, name)[-1:]:
            if isinstance(node, Function) and node.name == name.rpartition(".")[2]:
                return node
    return None


def exercises_named_in(subject: Executor, lesson: str, exercise: str) -> list[str]:
    """The exercises of the lesson that the subject's text of this one names, or those that it names; also by way of a
    function, method or other name that the same file has of its own."""
    read = read_lesson(lesson)
    found, waiting = [exercise], [exercise]
    while waiting:
        name = waiting.pop()
        named = _names_behind(subject.text(lesson, read.file_of(name)), name)
        for other in read.exercises:
            owner, _, last = other.rpartition(".")
            if other not in found and (owner if last == "forward" else last) in named:
                found.append(other)
                waiting.append(other)
    return found[1:]


def _names_behind(text: str, exercise: str) -> set[str]:
    """The names in the definition of an exercise, and in whatever its file defines under these names."""
    node, names = definition(text, exercise), set[str]()
    tree = _parsed(text).body if node else []
    own = [*tree, *(one for holder in tree if isinstance(holder, ast.ClassDef) for one in holder.body)]
    waiting: list[ast.stmt] = [node] if node else []
    while waiting:
        new = {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(waiting.pop())} - names
        names |= new
        waiting += [one for one in own if not new.isdisjoint(_bound_by(one))]
    return names


def _bound_by(one: ast.stmt) -> set[str]:
    if isinstance(one, ast.Assign):
        return {getattr(target, "id", "") for target in one.targets}
    return {one.name} if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) else set()


def bare_function(text: str, exercise: str) -> ast.FunctionDef:
    """The tree of a function or method of a file, without decorators, annotations and docstring.

    Raises:
        LookupError: there is none of the name.
        SyntaxError: the file is no Python.
    """
    for node in definitions_in(text, exercise)[-1:]:
        if isinstance(node, ast.FunctionDef):
            bare = copy.deepcopy(node)
            bare.decorator_list, bare.returns = [], None
            for one in ast.walk(bare.args):
                if isinstance(one, ast.arg):
                    one.annotation = None
            bare.body = bare.body[1:] if ast.get_docstring(node) is not None else bare.body
            return bare
    raise LookupError(exercise)


def words_of(code: str) -> Counter[str]:
    """How often each name, number and sign stands in a piece of code, without comments, brackets, dots and commas."""
    return Counter(re.findall(r"\d+\.\d+|\w+|\*\*|//|[<>=!]=|[^\w\s()\[\],.:]", re.sub("#.*", "", code)))


def distance(words: Counter[str], others: Counter[str]) -> int:
    """Between what two pieces of code have otherwise than the reference; 0 where the second has nothing otherwise."""
    return sum(abs(words[word] - count) - abs(words[word]) for word, count in others.items())


def in_a_class(tree: ast.FunctionDef) -> ast.Module:
    """A bare function in a class, so that `super()` finds its cell."""
    holder = ast.copy_location(ast.ClassDef("Holder", [], [], [tree], []), tree)
    if sys.version_info >= (3, 12):
        holder.type_params = []
    return ast.Module([holder], [])


def code_in(whole: ast.Module | str, name: str) -> CodeType:
    """Of the only function there, at the top or in a class.

    Raises:
        SyntaxError: it is no Python.
    """
    with warnings.catch_warnings():  # An edit may be odd, such as a number with an index.
        warnings.simplefilter("ignore")
        code: Any = compile(whole, "<changed>", "exec", dont_inherit=True)
    while code.co_name != name:
        code = next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name in ("Holder", name))
    return code
