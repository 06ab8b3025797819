"""One edit of the student's own function with which every test passes, or a few: each the one that makes most numbers
right after those before it. Where these lead to no right answer, the first of them is one of several causes.
"""

import ast
import heapq
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

from torch import Tensor

from ..catalog import read_lesson
from ..execution.executor import InProcess
from ..execution.messages import Outcome
from .code import bare_function, code_in, definitions_in, in_a_class, words_of
from .edits import Place, Slot, additions_to, places_in
from .mistakes import SECONDS
from .parts import LEAST, same_outcome, share_of_outcome
from .values import Repair, Seen, Step

MOST_EDITS, MOST_ADDED, MOST_STEPS, MOST_PASSED, MOST_ENDLESS = 220, 50, 3, 3, 3
"""Edits that are tried, those that add a part of the reference, those that are made one after the other, the runs of
all tests, and edits without an end."""
MOST_WRONG, MOST_RIGHT = 6, 12
"""Examples that are asked."""
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
UNSAFE = {"os", "shutil", "rmtree", "unlink", "rename", "replace_file", "open", "save", "save_pretrained"}
"""A function that touches files is not edited: nobody knows which files an edit of it would touch."""


class OwnCode:
    """A student's function in a view of its own, and what is tried in it, so that the questions which it has wrong
    become right.

    Where fewer than two questions are wrong, nearly all agrees by chance: then only what takes something away is tried.

    Args:
        given: the reference's function, whose lines above the region stand in the stub.
        surplus: how many more there are of each word in it than in the reference's.
        seen: the failing question first, then the examples.
        passes: whether all tests pass with an edit.
        most: edits that may be tried.

    Raises:
        LookupError: it is no plain function that runs, or one that touches files.
    """

    def __init__(
        self,
        subject: InProcess,
        given: ast.FunctionDef,
        surplus: Counter[str],
        seen: Sequence[Seen],
        passes: Callable[[InProcess], bool],
        most: int,
    ) -> None:
        self._given, self._surplus, self._passes, self._most = given, surplus, passes, most
        lesson, exercise = seen[0][0].lesson, seen[0][0].exercise
        self._executor = subject.with_texts({})
        self._function = inspect.unwrap(self._executor.function(lesson, exercise))
        source = subject.text(lesson, read_lesson(lesson).file_of(exercise))
        if not inspect.isfunction(self._function):
            raise LookupError(exercise)
        self._code, self._tree = self._function.__code__, bare_function(source, exercise)
        # Nothing is read off code that does not run.
        definition: Any = definitions_in(source, exercise)[-1]
        if self._code.co_firstlineno != min(one.lineno for one in [definition, *definition.decorator_list]):
            raise LookupError(exercise)
        if UNSAFE & {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(self._tree)}:
            raise LookupError(exercise)
        checks = {ast.unparse(one) for one in given.body}
        own = [one for one in self._tree.body if ast.unparse(one) not in checks] or self._tree.body
        self._first_line = own[0].lineno
        self._written = "\n".join(map(ast.unparse, self._tree.body)).replace("`", "'")
        is_right = [same_outcome(*one[1:]) for one in seen]
        self._wrong = [one for one, right in zip(seen, is_right, strict=True) if not right][:MOST_WRONG]
        self._good = [one for one, right in zip(seen, is_right, strict=True) if right][:MOST_RIGHT]
        self._base = [share_of_outcome(right, mine) for _, right, mine in self._wrong]
        self._passed = self._endless = 0
        self._switches = list[Any]()
        """Conditions that only switch on or off what is wrong."""
        self._better: list[tuple[list[float], Place]] = []
        """Edits that make more numbers right and none wrong, and the shares of the numbers that then are right."""

    def once(self) -> Repair | None:
        for place in self._edits()[: self._most]:
            if self._endless >= MOST_ENDLESS:
                return None
            if self._switches and self._condition_of(place) in self._switches:
                continue
            with _edited(place):
                is_repair = self._is_repair(place)
            if is_repair and not self._only_switches(place):
                return Repair(step_of(place, self._written))
        return None

    def _condition_of(self, place: Place) -> Any:
        """The statement or expression whose condition an edit changes, or None."""
        old = held_at(place)
        conditional = (one for one in ast.walk(self._tree) if isinstance(one, (ast.If, ast.IfExp)))
        return next((one for one in conditional if any(part is old for part in ast.walk(one.test))), None)

    def _only_switches(self, place: Place) -> bool:
        """Whether all is right as well without what a condition guards, or always with it: then it is not at fault."""
        condition, better = self._condition_of(place), [*self._better]
        for always in (False, True) if condition else ():
            switch: Place = (condition, "test", None), ast.Constant(always)
            with _edited(switch):
                if self._is_repair(switch):
                    self._switches.append(condition)
        self._better = better  # A switch is no edit of the student's idea.
        return condition is not None and condition in self._switches

    def climb(self) -> Repair | None:
        """After `once`: the best edit, if with the best ones after it every test passes, or if it makes questions
        right."""
        steps, made = list[Step](), 0
        with ExitStack() as edited:
            while self._better and len(steps) < MOST_STEPS:
                shares, place = max(self._better, key=lambda one: sum(one[0]))
                made = made or sum(old < new == 1 for old, new in zip(self._base, shares, strict=True))
                steps.append(step_of(place, self._written))
                edited.enter_context(_edited(place))
                # What is still most wrong is asked first.
                order = sorted(range(len(shares)), key=shares.__getitem__)
                self._wrong, self._base = [self._wrong[i] for i in order], [shares[i] for i in order]
                self._better, self._most = [], self._most // 3
                if self.once():
                    return Repair(steps[0], is_all=False)
        return Repair(steps[0], is_all=False) if made >= LEAST else None

    def _edits(self) -> list[Place]:
        """First those that bring the words nearest to the reference's."""
        found = self._nearest(places_in(self._tree, self._kinds()), MOST_EDITS)
        if len(self._wrong) >= LEAST:
            signs = [sign for sign, text in SIGNS.items() if self._surplus[text] < 0]
            found += self._nearest(additions_to(self._tree, _missing(self._given, self._surplus), signs), MOST_ADDED)
        return [place for _, place in sorted(found, key=lambda one: one[0])]

    def _nearest(self, places: Iterator[Place], most: int) -> list[tuple[int, Place]]:
        found, known = [], dict[int, Counter[str]]()
        for place in places:
            old, new = held_at(place), place[1]
            if _line_of(old) < self._first_line:
                continue
            words = _words_between(old, new, known)
            if len(self._wrong) >= LEAST or max(words.values(), default=0) <= 0:
                left = sum(abs(self._surplus[word] + count) - abs(self._surplus[word]) for word, count in words.items())
                found.append((left, place))
        return heapq.nsmallest(most, found, key=lambda one: one[0])

    def _kinds(self) -> dict[str, Any]:
        """What is held under each name: only what is of one kind is taken for each other."""
        held: dict[str, Any] = {}

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "return" and frame.f_code is self._code:
                held.update(frame.f_locals)

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            self._answer(self._code, self._wrong[0])
        finally:
            sys.setprofile(before)
        tensors = {name: one for name, one in held.items() if isinstance(one, Tensor)}
        plain = {name: type(one) for name, one in held.items() if isinstance(one, (int, float, list))}
        return plain | {name: (one.dim(), one.is_floating_point()) for name, one in tensors.items()}

    def _is_repair(self, place: Place) -> bool:
        """Whether everything is right with the tree as it is now; if it is only better, its edit is kept."""
        with suppress(SyntaxError, ValueError, TypeError, StopIteration):
            code = code_in(in_a_class(self._tree), self._function.__name__)
            if code.co_freevars == self._code.co_freevars:
                return self._makes_right(code, place)
        return False

    def _makes_right(self, code: CodeType, place: Place) -> bool:
        shares = [share_of_outcome(self._wrong[0][1], self._answer(code, self._wrong[0]))]
        if shares[0] <= self._base[0] and shares[0] < 1:
            return False
        shares += [share_of_outcome(one[1], self._answer(code, one)) for one in self._wrong[1:]]
        if any(map(float.__lt__, shares, self._base)):
            return False
        if not all(same_outcome(one[1], self._answer(code, one)) for one in self._good):
            return False
        if min(shares) < 1:
            self._better.append((shares, place))
            return False
        self._passed += 1
        with self._changed(code) as executor:
            return self._passed <= MOST_PASSED and self._passes(executor)

    @contextmanager
    def _changed(self, code: CodeType) -> Iterator[InProcess]:
        """In this block an executor of the file with this code."""
        try:
            self._function.__code__ = code
            yield self._executor
        finally:
            self._function.__code__ = self._code

    def _answer(self, code: CodeType, seen: Seen) -> Outcome:
        with self._changed(code) as executor:
            outcome = executor.run(replace(seen[0], seconds=min(seen[0].seconds, SECONDS)))
        self._endless += outcome.error is not None and outcome.error.kind == "timeout"
        return outcome


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
