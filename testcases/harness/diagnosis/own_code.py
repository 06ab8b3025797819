"""One edit of the student's own function, or two, with which every test passes: less is not claimed.

The second is tried after those first ones that make most numbers right.
"""

import ast
import heapq
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import CodeType
from typing import Any

from ..catalog import read_lesson
from ..execution.executor import InProcess
from ..execution.messages import Outcome
from ..report.alike import same_outcome
from .code import bare_function, code_in, definitions_in, in_a_class, words_of
from .edits import Place, Slot, additions_to, places_in
from .mistakes import SECONDS
from .parts import share_of_outcome
from .values import Repair, Seen, Step

MOST_EDITS, MOST_ADDED, MOST_FIRST, MOST_SECOND, MOST_PASSED, MOST_ENDLESS = 220, 50, 4, 30, 3, 3
"""Edits that are tried, those that add a part of the reference, those after which a second is tried, of how many, the
runs of all tests, and those without an end."""
MOST_WRONG, MOST_RIGHT = 6, 12
"""Examples that are asked."""
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
UNSAFE = {"os", "shutil", "rmtree", "unlink", "rename", "replace_file", "open", "save", "save_pretrained"}
"""A function that touches files is not edited: nobody knows which files an edit of it would touch."""


class OwnCode:
    """A student's function in a view of its own.

    Args:
        given: the reference's function, whose lines above the region stand in the stub.

    Raises:
        LookupError: it is no plain function that runs, or one that touches files.
    """

    def __init__(self, subject: InProcess, lesson: str, exercise: str, given: ast.FunctionDef) -> None:
        self._executor = subject.afresh()
        self._function = inspect.unwrap(self._executor.function(lesson, exercise))
        source = subject.text(lesson, read_lesson(lesson).file_of(exercise))
        if not inspect.isfunction(self._function):
            raise LookupError(exercise)
        self._code, self.tree = self._function.__code__, bare_function(source, exercise)
        # Nothing is read off code that does not run.
        definition: Any = definitions_in(source, exercise)[-1]
        if self._code.co_firstlineno != min(one.lineno for one in [definition, *definition.decorator_list]):
            raise LookupError(exercise)
        if UNSAFE & {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(self.tree)}:
            raise LookupError(exercise)
        self._given = given
        checks = {ast.unparse(one) for one in given.body}
        own = [one for one in self.tree.body if ast.unparse(one) not in checks] or self.tree.body
        self.first_line = own[0].lineno
        self._endless = 0

    def edits(self, tree: ast.FunctionDef, surplus: Counter[str], only_less: bool) -> list[Place]:
        """First those that bring the words nearest to the reference's.

        Args:
            only_less: none that adds a word.
        """
        found = self._nearest(places_in(tree), MOST_EDITS, surplus, only_less)
        if not only_less:
            signs = [sign for sign, text in SIGNS.items() if surplus[text] < 0]
            added = additions_to(tree, _missing(self._given, surplus), signs)
            found += self._nearest(added, MOST_ADDED, surplus, only_less)
        return [place for _, place in sorted(found, key=lambda one: one[0])]

    def _nearest(
        self, places: Iterator[Place], most: int, surplus: Counter[str], only_less: bool
    ) -> list[tuple[int, Place]]:
        found, known = [], dict[int, Counter[str]]()
        for place in places:
            old, new = held_at(place), place[1]
            if _line_of(old) < self.first_line:
                continue
            words = _words_between(old, new, known)
            if not (only_less and max(words.values(), default=0) > 0):
                left = sum(abs(surplus[word] + count) - abs(surplus[word]) for word, count in words.items())
                found.append((left, place))
        return heapq.nsmallest(most, found, key=lambda one: one[0])

    @contextmanager
    def changed(self, code: CodeType) -> Iterator[InProcess]:
        """In this block an executor of the file with this code."""
        try:
            self._function.__code__ = code
            yield self._executor
        finally:
            self._function.__code__ = self._code

    def answer(self, code: CodeType, seen: Seen) -> Outcome:
        with self.changed(code) as executor:
            outcome = executor.run(replace(seen[0], seconds=min(seen[0].seconds, SECONDS)))
        self._endless += outcome.error is not None and outcome.error.kind == "timeout"
        return outcome

    @property
    def is_tired(self) -> bool:
        """Whether too many edits did not end."""
        return self._endless >= MOST_ENDLESS

    def code_of(self, tree: ast.FunctionDef) -> CodeType | None:
        with suppress(SyntaxError, ValueError, TypeError, StopIteration):
            code = code_in(in_a_class(tree), self._function.__name__)
            return code if code.co_freevars == self._code.co_freevars else None
        return None


def held_at(place: Place) -> Any:
    """What stands where an edit is made."""
    (parent, field, index), _ = place
    held = getattr(parent, field)
    return held if index is None else held[index]


@contextmanager
def _edited(place: Place) -> Iterator[None]:
    """In this block the tree has the edit in it."""
    slot, new = place
    old = held_at(place)
    ast.fix_missing_locations(new if hasattr(new, "lineno") else ast.copy_location(new, old))
    _put(slot, new)
    try:
        yield
    finally:
        _put(slot, old)


def _put(slot: Slot, node: Any) -> None:
    parent, field, index = slot
    if index is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[index] = node


def _missing(given: ast.FunctionDef, surplus: Counter[str]) -> list[ast.expr]:
    """The names, numbers and entries of the reference's function that the student's has too few of."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(given):
        is_number = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
        is_read = isinstance(node, (ast.Name, ast.Subscript)) and isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.expr) and (is_number or is_read):
            text = ast.unparse(node)
            if all(surplus[word] < 0 for word in words_of(text)):
                found[text] = node
    return [*found.values()]


class Search:
    """What is tried in a student's function, so that the questions which it has wrong become right.

    Where fewer than two questions are wrong, nearly all agrees by chance: then only what takes something away is tried.

    Args:
        surplus: how many more there are of each word in it than in the reference's.
        passes: whether all tests pass with an edit.
        most: edits that may be tried.
    """

    def __init__(
        self,
        own: OwnCode,
        surplus: Counter[str],
        failing: Seen,
        answers: Sequence[Seen],
        passes: Callable[[InProcess], bool],
        most: int,
    ) -> None:
        self._own, self._surplus, self._passes, self._most, self._passed = own, surplus, passes, most, 0
        wrong = [one for one in answers if not same_outcome(*one[1:]) and one[0] is not failing[0]]
        self._wrong = [failing, *wrong][:MOST_WRONG]
        self._good = [one for one in answers if same_outcome(*one[1:])][:MOST_RIGHT]
        self._only_less = len(self._wrong) < 2
        self._base = [share_of_outcome(right, mine) for _, right, mine in self._wrong]
        self._written = "\n".join(map(ast.unparse, own.tree.body)).replace("`", "'")
        self._better: list[tuple[float, Place]] = []
        """Edits that make more numbers right and none wrong."""

    def once(self) -> Repair | None:
        for place in self._edits()[: self._most]:
            if self._own.is_tired:
                return None
            step = step_of(place, self._written)
            with _edited(place):
                if self._is_repair(place):
                    return Repair((step,))
        return None

    def twice(self) -> Repair | None:
        """After `once`, which finds the first edits."""
        for _, first in sorted(self._better, key=lambda one: -one[0])[:MOST_FIRST]:
            step = step_of(first, self._written)
            with _edited(first):
                for second in self._edits()[: min(MOST_SECOND, self._most // MOST_FIRST)]:
                    if self._own.is_tired:
                        return None
                    other = step_of(second, self._written)
                    if other.old not in self._written:
                        continue  # An edit of the first edit: the student has no such code.
                    with _edited(second):
                        if self._is_repair():
                            return Repair((step, other))
        return None

    def _edits(self) -> list[Place]:
        return self._own.edits(self._own.tree, self._surplus, self._only_less)

    def _is_repair(self, first: Place | None = None) -> bool:
        """Whether everything is right with the tree as it is now; if it is only better, a first edit is kept."""
        code = self._own.code_of(self._own.tree)
        if code is None:
            return False
        shares = [share_of_outcome(self._wrong[0][1], self._own.answer(code, self._wrong[0]))]
        if shares[0] <= self._base[0] and shares[0] < 1:
            return False
        shares += [share_of_outcome(one[1], self._own.answer(code, one)) for one in self._wrong[1:]]
        if min(shares) < 1:
            if first and all(map(float.__ge__, shares, self._base)) and self._keeps_right(code):
                self._better.append((sum(shares) - sum(self._base), first))
            return False
        if not self._keeps_right(code) or self._passed >= MOST_PASSED:
            return False
        self._passed += 1
        with self._own.changed(code) as executor:
            return self._passes(executor)

    def _keeps_right(self, code: CodeType) -> bool:
        return all(same_outcome(one[1], self._own.answer(code, one)) for one in self._good)


def step_of(place: Place, written: str) -> Step:
    """A name or a number alone says little, so it is shown with what it stands in, if the student has written that."""
    (parent, _, _), new = place
    old = held_at(place)
    is_alone = isinstance(old, (ast.Name, ast.Constant)) and isinstance(parent, (ast.expr, ast.keyword, ast.Slice))
    if not is_alone or _shown(parent) not in written:
        return Step(_line_of(old), _shown(old), _shown(new))
    before = _shown(parent)
    with _edited(place):
        return Step(_line_of(old), before, _shown(parent))


def _words_between(old: ast.AST, new: ast.AST, known: dict[int, Counter[str]]) -> Counter[str]:
    """Those that an edit adds, and, below 0, those that it takes away; of the old code they are kept in `known`."""
    words = words_of(ast.unparse(new))
    if id(old) not in known:
        known[id(old)] = words_of(ast.unparse(old))
    words.subtract(known[id(old)])
    return words


def _line_of(node: ast.AST) -> int:
    return next((one.lineno for one in ast.walk(node) if hasattr(one, "lineno")), 0)


def _shown(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0].replace("`", "'")
