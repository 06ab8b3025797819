"""One edit of the student's own function, or two, that makes what is wrong right.

It climbs by the share of the numbers that become right, so a first draft with three mistakes is led to one of them. A
repair is claimed only if every failing test passes with it.
"""

import ast
import copy
import heapq
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import CodeType
from typing import Any

from ..catalog.lessons import lesson as read_lesson
from ..execution.executor import InProcess
from ..execution.messages import Outcome
from ..report.compare import same_outcome
from .code import bare_function, code_in, definitions_in, in_a_class, words_of
from .edits import Place, additions_to, places_in
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

    def edits(self, tree: ast.FunctionDef, surplus: Counter[str], only_less: bool, keeps: bool) -> list[Place]:
        """First those that bring the words nearest to the reference's.

        Args:
            only_less: none that adds a word.
            keeps: none that takes an argument away from a call, such as the one that raised TypeError.
        """
        found = self._nearest(places_in(tree), MOST_EDITS, surplus, only_less, keeps)
        if not only_less:
            signs = [sign for sign, text in SIGNS.items() if surplus[text] < 0]
            added = additions_to(tree, _missing(self._given, surplus), signs)
            found += self._nearest(added, MOST_ADDED, surplus, only_less, keeps)
        return [place for _, place in sorted(found, key=lambda one: one[0])]

    def _nearest(
        self, places: Iterator[Place], most: int, surplus: Counter[str], only_less: bool, keeps: bool
    ) -> list[tuple[tuple[int, bool], Place]]:
        found, known = [], dict[int, Counter[str]]()
        for place in places:
            (parent, field, index), new = place
            old = getattr(parent, field) if index is None else getattr(parent, field)[index]
            if _line_of(old) < self.first_line or (keeps and _drops_argument(old, new)):
                continue
            words = _words_between(old, new, known)
            if not (only_less and max(words.values(), default=0) > 0):
                left = sum(abs(surplus[word] + count) - abs(surplus[word]) for word, count in words.items())
                # Of two that are as near, a whole step.
                found.append(((left, not isinstance(new, list)), place))
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


@contextmanager
def _edited(place: Place) -> Iterator[None]:
    """In this block the tree has the edit in it."""
    (parent, field, index), new = place
    held = getattr(parent, field)
    old = held if index is None else held[index]
    for one in new if isinstance(new, list) else [new]:
        like = (old[0] if isinstance(old, list) else old) if old else parent
        if hasattr(one, "lineno") or not hasattr(like, "lineno"):
            ast.fix_missing_locations(one)
        else:
            ast.fix_missing_locations(ast.copy_location(one, like))
    if index is None:
        setattr(parent, field, new)
    else:
        held[index] = new
    try:
        yield
    finally:
        if index is None:
            setattr(parent, field, old)
        else:
            held[index] = old


def _missing(given: ast.FunctionDef, surplus: Counter[str]) -> list[ast.expr]:
    """The names, numbers and entries of the reference's function that the student's has too few of."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(given):
        is_number = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
        is_read = isinstance(node, (ast.Name, ast.Subscript)) and isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.expr) and (is_number or is_read):
            if all(surplus[word] < 0 for word in words_of(text_of(node))):
                found[text_of(node)] = node
    return [*found.values()]


def repaired(
    own: OwnCode,
    surplus: Counter[str],
    failing: Seen,
    answers: Sequence[Seen],
    passes: Callable[[InProcess], bool],
    most: int,
) -> Repair | None:
    """The first edit, or two, with which every test passes; else the one that makes most numbers right.

    Where fewer than two questions are wrong, nearly all agrees by chance: then only what takes something away is tried.
    """
    wrong = [failing, *(one for one in answers if not same_outcome(*one[1:]) and one[0] is not failing[0])][:MOST_WRONG]
    good = [one for one in answers if same_outcome(*one[1:])][:MOST_RIGHT]
    keeps = failing[2].error is not None and failing[2].error.type_name == "TypeError"
    search = _Search(own, surplus, wrong, good, passes, len(wrong) < 2, keeps, most)
    return search.found()


class _Search:
    def __init__(
        self,
        own: OwnCode,
        surplus: Counter[str],
        wrong: Sequence[Seen],
        good: Sequence[Seen],
        passes: Callable[[InProcess], bool],
        only_less: bool,
        keeps: bool,
        most: int,
    ) -> None:
        self.most = most
        """Edits that may be tried."""
        self.own, self.surplus, self.wrong, self.good = own, surplus, wrong, good
        self.passes, self.only_less, self.keeps, self.passed = passes, only_less, keeps, 0
        self.base = [share_of_outcome(right, mine) for _, right, mine in wrong]
        self.better: list[tuple[float, int, Place]] = []
        """Edits that make more numbers right and none wrong, best first."""

    def found(self) -> Repair | None:
        tree = self.own.tree
        for number, place in enumerate(self.own.edits(tree, self.surplus, self.only_less, self.keeps)[: self.most]):
            step = step_of(place)
            with _edited(place):
                if self.own.is_tired:
                    return None
                if self.is_repair(number, place):
                    return Repair((step,))
        self.better.sort(key=lambda one: (-one[0], one[1]))
        return self.twice(tree) or self.part()

    def is_repair(self, number: int, place: Place | None = None) -> bool:
        """Whether everything is right with the tree as it is now; if not, whether it is better is kept."""
        code = self.own.code_of(self.own.tree)
        if code is None:
            return False
        shares = [share_of_outcome(self.wrong[0][1], self.own.answer(code, self.wrong[0]))]
        if shares[0] <= self.base[0] and shares[0] < 1:
            return False
        shares += [share_of_outcome(one[1], self.own.answer(code, one)) for one in self.wrong[1:]]
        if min(shares) < 1:
            if place and all(map(float.__ge__, shares, self.base)) and self.is_kept(code):
                self.better.append((sum(shares) - sum(self.base), number, place))
            return False
        if not self.is_kept(code) or self.passed >= MOST_PASSED:
            return False
        self.passed += 1
        with self.own.changed(code) as executor:
            return self.passes(executor)

    def is_kept(self, code: CodeType) -> bool:
        """Whether what is right stays so."""
        return all(same_outcome(one[1], self.own.answer(code, one)) for one in self.good)

    def twice(self, tree: ast.FunctionDef) -> Repair | None:
        written = text_of(tree.body).replace("`", "'")
        for _, _, first in self.better[:MOST_FIRST]:
            step = step_of(first)
            with _edited(first):
                for number, second in enumerate(self.own.edits(tree, self.surplus, self.only_less, self.keeps)):
                    if number == min(MOST_SECOND, self.most // MOST_FIRST) or self.own.is_tired:
                        break
                    other = step_of(second)
                    if other.old not in written:
                        continue  # An edit of the first edit: the student has no such code.
                    with _edited(second):
                        if self.is_repair(number):
                            return Repair((step, other))
        return None

    def part(self) -> Repair | None:
        """The best edit, if it makes a whole question right that has numbers in it."""
        if self.only_less or not self.better or self.better[0][0] < 1:
            return None
        if len(self.better) > 1 and self.better[1][0] == self.better[0][0]:
            return None  # Nothing tells which of the two it is.
        return Repair((step_of(self.better[0][2]),), is_all=False)


def step_of(place: Place) -> Step:
    (parent, field, index), new = place
    held = getattr(parent, field)
    old = held if index is None else held[index]
    return step_between(old, new)


def step_between(old: Any, new: Any) -> Step:
    if isinstance(old, list) and isinstance(new, list):
        first = next((i for i, (one, other) in enumerate(zip(old, new, strict=False)) if one is not other), len(new))
        gone = old[min(first, len(old) - 1)]
        moved = new[first : first + 1] if len(new) >= len(old) else []
        return Step(_line_of(gone), _shown(gone), _shown(moved[0]) if moved else "")
    return Step(_line_of(old), _shown(old), _shown(new))


def _words_between(old: Any, new: Any, known: dict[int, Counter[str]]) -> Counter[str]:
    """Those that an edit adds, and, below 0, those that it takes away; of the old code they are kept in `known`."""
    olds, news = (one if isinstance(one, list) else [one] for one in (old, new))
    words = words_of("\n".join(text_of(one) for one in news if one not in olds))
    for one in olds:
        if one not in news:
            if id(one) not in known:
                known[id(one)] = words_of(text_of(one))
            words.subtract(known[id(one)])
    return words


def _drops_argument(old: Any, new: Any) -> bool:
    """Whether a call has fewer arguments after an edit."""
    if not (isinstance(old, ast.Call) and isinstance(new, ast.Call)):
        return False
    return len([*new.args, *new.keywords]) < len([*old.args, *old.keywords])


def _line_of(node: Any) -> int:
    node = node[0] if isinstance(node, list) and node else node
    return next((one.lineno for one in ast.walk(node) if hasattr(one, "lineno")), 0) if node else 0


def text_of(node: Any) -> str:
    """Of a node, or of several, however they are made."""
    if isinstance(node, list):
        return "\n".join(map(text_of, node))
    if isinstance(node, ast.stmt):  # of these alone the line is asked for
        node = ast.fix_missing_locations(copy.copy(node))
    return ast.unparse(node) if isinstance(node, ast.AST) else str(node)


def _shown(node: Any) -> str:
    return text_of(node).partition("\n")[0].replace("`", "'")
