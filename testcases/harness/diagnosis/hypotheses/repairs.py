"""One-edit variants of a student's own function: one that makes wrong answers right shows the line to change.

What `code_mutants` does to the reference finds a mistake that can be made in the reference's code. Who writes in
another way, or more than is due, has it in a line of their own.
"""

import ast
import copy
import inspect
import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, Self

from ...catalog import lesson as read_lesson
from ...execution import LocalEvaluator, Outcome, Request
from ...report import same_outcome
from .brackets import CUT, GROWN, MISSING, TOO_MANY
from .code_mutants import NO_REPAIR, UNSAFE, Place, Slot, code_with, edits_in, readable, slots, tree_with, words_of_edit
from .mutation_bench import SECONDS, Bench, Code, bare_function, compiled, definitions_in

MOST_ENDLESS, SHOWN = 3, 60
UNDONE = {
    "before the loop that belongs inside it": "in the loop that belongs before it",
    "after the loop that belongs inside it": "in the loop that belongs after it",
    "comes too early": "comes too late",
    "comes too late": "comes too early",
    "a value detached that must carry the gradient": "a value that is to be detached",
    "always done, whatever its condition says": "done under a condition, and always due",
    "a value replaced where it must be added to": "a value added to where it must be replaced",
    "the second case done always": "a condition too many",
    "without its first entry in place of its last": "without its last entry in place of its first",
    "without its last entry in place of its first": "without its first entry in place of its last",
    "a slice without one of its bounds": "a bound of a slice too many",
    " left out": " too many",
    MISSING: TOO_MANY,
    TOO_MANY: MISSING,
    CUT: GROWN,
    GROWN: CUT,
}
"""What an edit makes of right code, and what wrong code has that it makes right."""
IN_THE_LOOP = "steps at the end of the loop that belong behind it"
ROUNDED_DOWN = "a quotient rounded down that is to be rounded up"
MEANT = {
    "argmax": ("`argmax` says 0 where none is True, too", "(({}) != 0).long().cumsum(-1).eq(0).sum(-1, keepdim={})"),
    "squeeze": ("`squeeze()` drops every dimension of size 1: say which", "({}).squeeze(-1)"),
}
"""By the method that people write: what it does otherwise, and what they mean."""
PAIR = re.compile(
    r"(`[\w.]+`|another value|an intermediate value) (in place of|where) (`[\w.]+`|an intermediate value)"
)


@dataclass(frozen=True)
class Repair:
    """An edit of a student's function."""

    line: int
    shown: str
    """The student's own code there."""
    kind: str
    """What is wrong with it."""
    slot: Slot
    new: Any
    of: "OwnCode"
    """The function that it changes: of a second edit, the one with the first, whose tree has nodes of its own."""

    def is_right(self, request: Request, right: Outcome) -> bool:
        """Whether the function gives this answer with it."""
        return same_outcome(right, self.of.answer(self, request))

    @property
    def is_idiom(self) -> bool:
        return self.kind in (ROUNDED_DOWN, *(kind for kind, _ in MEANT.values()))


class OwnCode(Code):
    """A student's function in a view of its own.

    Raises:
        LookupError: it is no plain function, or one that touches files: nobody knows which a variant of it would touch.
    """

    def __init__(self, subject: LocalEvaluator, bench: Bench) -> None:
        self.lesson, self.exercise, self._endless = bench.lesson, bench.exercise, 0
        # Shared with what is made of it by `after`.
        self._words: dict[tuple[Any, ...], Counter[str]] = {}
        self._answers: dict[tuple[CodeType, int], tuple[Request, Outcome]] = {}
        self._evaluator = subject.afresh()
        self._function = inspect.unwrap(self._evaluator.function(self.lesson, self.exercise))
        source = subject.text(self.lesson, read_lesson(self.lesson).file_of(self.exercise))
        if not inspect.isfunction(self._function):
            raise LookupError(self.exercise)
        self._code, self.module = self._function.__code__, sys.modules[self._function.__module__]
        self.tree = bare_function(source, self.exercise)
        # Nothing is read off code that does not run.
        definition: Any = definitions_in(source, self.exercise)[-1]
        if self._code.co_firstlineno != min(one.lineno for one in [definition, *definition.decorator_list]):
            raise LookupError(self.exercise)
        given = {ast.unparse(one) for one in bench.tree.body if not bench.contains(one)}
        own = [one for one in self.tree.body if ast.unparse(one) not in given] or self.tree.body
        self.region = own[0].lineno - 1, own[-1].end_lineno or own[-1].lineno
        if UNSAFE & {getattr(node, "id", getattr(node, "attr", "")) for node in self.nodes()}:
            raise LookupError(self.exercise)

    @property
    def is_tired(self) -> bool:
        """Whether too many variants did not end."""
        return self._endless >= MOST_ENDLESS

    def after(self, repair: Repair) -> Self:
        """The same function with this edit."""
        other = copy.copy(self)
        tree = tree_with(self, repair.slot, repair.new)
        # What stays is the same node, so that its words are known; none may stand in two places.
        if max(Counter(node for node in ast.walk(tree) if hasattr(node, "lineno")).values()) > 1:
            tree = copy.deepcopy(tree)
        with suppress(SyntaxError):  # Else nothing is changed, as in `code_with`.
            compiled(tree)
            other.tree = tree
        return other

    def answer(self, repair: Repair, request: Request) -> Outcome:
        """Kept by the code: two edits give the same, whichever is made first."""
        code = code_with(self, repair.slot, repair.new)
        key = code, id(request)
        if key not in self._answers:  # They keep the request, so that its number is no other's.
            self._answers[key] = request, self._with(code, request)
        outcome = self._answers[key][1]
        self._endless += outcome.error is not None and outcome.error.kind == "timeout"
        return outcome

    def _with(self, code: CodeType, request: Request) -> Outcome:
        try:
            self._function.__code__ = code
            return self._evaluator.evaluate(replace(request, seconds=min(request.seconds, SECONDS)))
        finally:
            self._function.__code__ = self._code

    @contextmanager
    def changed_by(self, repair: Repair) -> Iterator[LocalEvaluator]:
        """In this block an evaluator of the file with this edit."""
        try:
            self._function.__code__ = code_with(self, repair.slot, repair.new)
            yield self._evaluator
        finally:
            self._function.__code__ = self._code

    def repairs(
        self, surplus: Counter[str], most: int, only_less: bool = False, keeps_arguments: bool = False
    ) -> list[Repair]:
        """The first so many: those that bring the words nearest to the reference's, of each of which there are so many
        less there.

        Args:
            only_less: none that adds a word.
            keeps_arguments: none that takes an argument away from a call, such as the one that raised TypeError: the
                argument is there for a reason, and is to be passed in another way.
        """
        found = []
        places = itertools.chain(_tails(self), _idioms(self), edits_in(self, readable(self)))
        for place, words in self._with_words(one for one in places if one[1] not in NO_REPAIR):
            if (only_less and max(words.values(), default=0) > 0) or (keeps_arguments and _drops_argument(*place[2:])):
                continue
            left = sum(abs(surplus[word] + count) - abs(surplus[word]) for word, count in words.items())
            found.append(((left, not isinstance(place[3], list)), place))  # A whole step, of two that are as near.
        return [_repair(self, *place) for _, place in sorted(found, key=lambda one: one[0])[:most]]

    def _with_words(self, places: Iterable[Place]) -> Iterator[tuple[Place, Counter[str]]]:
        """Each edit and its words, kept by the node that it changes: another edit elsewhere leaves them as they are."""
        seen: Counter[tuple[Any, ...]] = Counter()
        for place in places:
            _, kind, slot, new = place
            edit = (*slot, kind, getattr(new, "id", getattr(new, "attr", None)))
            key = (*edit, seen[edit])
            seen[edit] += 1
            if key not in self._words:
                self._words[key] = words_of_edit(slot, new)
            yield place, self._words[key]


def _repair(own: OwnCode, nodes: list[ast.AST], kind: str, slot: Slot, new: Any) -> Repair:
    node = nodes[0] if nodes else _in(slot)
    return Repair(getattr(node, "lineno", 0), _shown(node), _undone(kind), slot, new, own)


def _idioms(own: OwnCode) -> Iterator[Place]:
    """What people write and what they mean by it."""
    for slot, node in slots(own):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
            left = ast.UnaryOp(ast.USub(), node.left)
            yield [node], ROUNDED_DOWN, slot, ast.UnaryOp(ast.USub(), ast.BinOp(left, ast.FloorDiv(), node.right))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            kind, meant = MEANT.get(node.func.attr, ("", ""))
            if kind and (node.func.attr != "squeeze" or not node.args):
                keeps = any(one.arg == "keepdim" for one in node.keywords)
                text = meant.format(ast.unparse(node.func.value), keeps)
                yield [node], kind, slot, ast.parse(text, mode="eval").body


def _tails(own: OwnCode) -> Iterator[Place]:
    """The last steps of a loop, put behind it."""
    for parent in [own.tree, *own.nodes()]:
        for field in ("body", "orelse"):
            block: Any = getattr(parent, field, None)
            for i, loop in enumerate(block if isinstance(block, list) else ()):
                if isinstance(loop, ast.For) and own.contains(loop):
                    for count in range(2, len(loop.body)):
                        shorter = copy.copy(loop)
                        shorter.body = loop.body[:-count]
                        new = [*block[:i], shorter, *loop.body[-count:], *block[i + 1 :]]
                        yield [loop.body[-count]], IN_THE_LOOP, (parent, field, None), new


def _drops_argument(slot: Slot, new: Any) -> bool:
    """Whether a call has fewer arguments after an edit."""
    old = _in(slot)
    if not (isinstance(old, ast.Call) and isinstance(new, ast.Call)):
        return False
    return len([*new.args, *new.keywords]) < len([*old.args, *old.keywords])


def _in(slot: Slot) -> ast.AST:
    parent, field, index = slot
    held = getattr(parent, field)
    return held if index is None else held[index]


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node).partition("\n")[0].replace("`", "'")
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 4]} ..."


def _undone(kind: str) -> str:
    if found := PAIR.search(kind):
        kind = kind.replace(found[0], f"{found[3]} {found[2]} {found[1]}")
    old = next((old for old in UNDONE if old in kind), "")
    return kind.replace(old, UNDONE[old]) if old else kind
