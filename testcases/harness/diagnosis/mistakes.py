"""The mistakes that may be made in an exercise, and what each of them answers to a question.

The lesson names those from which a student learns something. What can be done to the arguments and the answer of every
function is made here: an argument ignored, negated, inverted, swapped, shifted, detached; an answer negated or halved.
"""

import ast
import functools
import inspect
import itertools
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from ..catalog import SOLUTIONS, region_of, region_text
from ..execution.executor import InProcess
from ..execution.messages import Call, Outcome
from ..oracle.mutations import wrong_answers
from ..oracle.reference import examples, kept, key_of, remembered, shared_reference
from .code import code_in, definitions_in, words_of
from .values import CHEAP, Mistake, Shows, Sign

SECONDS = 0.25
"""A changed reference may run for ever; the reference itself never needs as much."""


class Bench:
    """The reference's exercise in modules of its own, in which its code is another for the time of a question."""

    def __init__(self, lesson: str, exercise: str) -> None:
        self.lesson, self.exercise = lesson, exercise
        self._executor = InProcess(SOLUTIONS)
        self._function = inspect.unwrap(self._executor.function(lesson, exercise))
        self._right = self._function.__code__
        self.region = region_text(lesson, exercise)
        lines, place = region_of(lesson, exercise)
        node = definitions_in("\n".join(lines), exercise)[-1]
        self._around = (
            lines[node.lineno - 1 : place.first],
            lines[place.first].partition("#")[0],
            lines[place.last + 1 : node.end_lineno],
        )
        """The lines before the region, its indent, and those behind it."""
        self.examples = examples(lesson, exercise)
        self._answers: dict[tuple[bytes, tuple[Mistake, ...]], Outcome] = {}

    @functools.cached_property
    def mistakes(self) -> tuple[Mistake, ...]:
        """First those that the lesson names."""
        own = [one for one in wrong_answers(self.lesson) if one.exercise == self.exercise]
        # A test that a student writes is read as a text, so that other code in its place changes nothing.
        by_file = self.exercise.startswith("test_")
        named = (Mistake(None if by_file else one.change.apply, wrong=one) for one in own)
        return (*named, *_made_of(self))

    @kept
    def words(self, *mistakes: Mistake) -> Counter[str]:
        """How many more there are of each in the changed code; below 0: fewer."""
        words = words_of(self._changed(mistakes) or self.region)
        words.subtract(words_of(self.region))
        return words

    @kept
    def exists(self, *mistakes: Mistake) -> bool:
        """Whether the changes can be made, one after the other, and give Python."""
        return mistakes[0].change is None or self._code(*mistakes) is not None

    def ask(self, call: Call, *mistakes: Mistake) -> Outcome:
        """What the exercise answers with these mistakes, kept for the next student."""
        return remembered(self._answers, (key_of(call), mistakes), lambda: self._asked(call, mistakes))

    def with_mistakes(self, *mistakes: Mistake) -> Callable[[Call], Outcome]:
        """What answers a question with these mistakes."""
        return lambda call: self.ask(call, *mistakes)

    def _asked(self, call: Call, mistakes: Sequence[Mistake]) -> Outcome:
        if mistakes and mistakes[0].change is None and mistakes[0].wrong:
            return shared_reference().changed(self.lesson, mistakes[0].wrong).run(call)
        code = self._code(*mistakes) if mistakes else self._right
        if code is None:
            return shared_reference().run(call)
        try:
            self._function.__code__ = code
            return self._executor.run(replace(call, seconds=SECONDS if call.seconds <= CHEAP else call.seconds))
        finally:
            self._function.__code__ = self._right

    @kept
    def _code(self, *mistakes: Mistake) -> CodeType | None:
        changed = self._changed(mistakes)
        with suppress(SyntaxError, StopIteration):
            code = None if changed is None else self._compiled(changed)
            return code if code and code.co_freevars == self._right.co_freevars else None
        return None

    def _changed(self, mistakes: Sequence[Mistake]) -> str | None:
        """The region with all the changes, in whichever order they apply."""
        for order in itertools.permutations(mistakes):
            with suppress(LookupError, SyntaxError):
                return functools.reduce(lambda text, one: _change_of(one)(text), order, self.region)
        return None

    def _compiled(self, region: str) -> CodeType:
        before, indent, after = self._around
        text = [*before, textwrap.indent(textwrap.dedent(region), indent), *after]
        holder = ["class Holder:"] if "." in self.exercise else []
        return code_in("\n".join([*holder, *text]), self._function.__name__)


def _change_of(mistake: Mistake) -> Callable[[str], str]:
    if mistake.change is None:
        raise LookupError("it is read as a file")
    return mistake.change


@functools.cache
def bench_of(lesson: str, exercise: str) -> Bench:
    return Bench(lesson, exercise)


# What can be done to every exercise


def _made_of(bench: Bench) -> Iterator[Mistake]:
    parameters = shared_reference().parameters(bench.lesson, bench.exercise)
    direct = [asked for asked in bench.examples if not asked.scenario]
    given = {
        name: [asked.arguments.get(name, one.default) for asked in direct]
        for name, one in parameters.items()
        if name != "self"
    }
    given = {name: values for name, values in given.items() if values}
    for name, values in given.items():
        for shows, line, *about in _of_argument(name, values, parameters[name].default):
            yield _before(line, Sign(shows, (name, *about)))
    shaped = [name for name, values in given.items() if any(isinstance(one, Tensor) for one in values)]
    for one, other in itertools.combinations(shaped, 2):
        if all(_layout(a) == _layout(b) for a, b in zip(given[one], given[other], strict=True)):
            yield _before(f"{one}, {other} = {other}, {one}", Sign(Shows.SWAPPED, (one, other)))
    answers = [shared_reference().run(asked).value for asked in direct[:1]]
    for shows, form in ANSWERS if answers and is_float(answers[0]) else ():
        yield Mistake(functools.partial(_returning, form), sign=Sign(shows))


def _of_argument(name: str, values: Sequence[Any], default: Any) -> Iterator[tuple[Any, ...]]:
    """What it shows, the line that does it, and what more there is to say."""
    some = next((one for one in values if one is not None and one is not inspect.Parameter.empty), None)
    if default is None and any(one is not None for one in values):
        yield Shows.IGNORED, f"{name} = None"
    if isinstance(some, Tensor) and some.dim() and some.shape[-1] > 1:
        yield Shows.LATE, f"{name} = torch.cat([{name}[..., :1], {name}[..., :-1]], dim=-1)"
        yield Shows.EARLY, f"{name} = torch.cat([{name}[..., 1:], {name}[..., -1:]], dim=-1)"
    if is_flags(some):
        yield Shows.INVERTED, f"{name} = ~{name}.bool()"
        yield Shows.IGNORED, f"{name} = torch.{'ones' if 'mask' in name else 'zeros'}_like({name})"
    elif is_float(some):
        yield Shows.NEGATED, f"{name} = -{name}"
        yield Shows.DETACHED, f"{name} = {name}.detach()"
    elif isinstance(some, bool):
        yield Shows.INVERTED, f"{name} = not {name}"
        yield Shows.IGNORED, f"{name} = {default if isinstance(default, bool) else True}", default
    elif isinstance(some, float):
        for number in dict.fromkeys((default, 1.0, 0.0)) if isinstance(default, float) else (1.0, 0.0):
            yield Shows.IGNORED, f"{name} = {number}", number
        yield Shows.NEGATED, f"{name} = -{name}"
        yield Shows.INVERSE, f"{name} = 1 / {name}"
        yield Shows.SQUARED, f"{name} = {name} ** 2"
    elif isinstance(some, int):
        yield Shows.MORE, f"{name} = {name} + 1"
        yield Shows.LESS, f"{name} = {name} - 1"


ANSWERS = (
    (Shows.ANSWER_NEGATED, "-({})"),
    (Shows.ANSWER_HALVED, "({}) * 0.5"),
    (Shows.ANSWER_DOUBLED, "({}) * 2"),
    (Shows.ANSWER_DETACHED, "({}).detach()"),
)


def _before(line: str, sign: Sign) -> Mistake:
    return Mistake(lambda region: f"{line}\n{region}", sign=sign)


def _returning(form: str, region: str) -> str:
    """The region with something done to each answer."""

    class Returns(ast.NodeTransformer):
        def visit_Return(self, node: ast.Return) -> ast.Return:
            text = form.format(ast.unparse(node.value)) if node.value else "None"
            return ast.copy_location(ast.Return(ast.parse(text, mode="eval").body), node)

    return ast.unparse(ast.fix_missing_locations(Returns().visit(ast.parse(region))))


def is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def is_flags(value: Any) -> bool:
    """True and False, or 0 and 1 as numbers."""
    if not isinstance(value, Tensor):
        return False
    return value.dtype == torch.bool or (value.numel() > 1 and {*value.unique().tolist()} == {0.0, 1.0})


def _layout(value: Any) -> Any:
    return (value.shape, value.dtype) if isinstance(value, Tensor) else None
