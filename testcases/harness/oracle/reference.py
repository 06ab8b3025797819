"""The reference, the reference with one change in it, and what both answer to the lesson's examples."""

import functools
import importlib
import inspect
import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..catalog import SOLUTIONS, exists
from ..execution.executor import InProcess, ModuleSet, solutions_changed
from ..execution.messages import Call, Outcome, leaves
from ..execution.wire import pack
from .mutations import NamedChange, changed_source

EXAMPLE_SEED = 20240
"""Seed of the examples that tell wrong answers apart; a suite draws its own."""
MAX_ANSWERS = 20_000
MAX_BYTES = 200_000_000
"""Of the answers that are kept."""


def kept(method: Any) -> Any:
    """A method that is run once for the same arguments; its answers live as long as the object."""

    @functools.wraps(method)
    def ask(self: Any, *key: Any) -> Any:
        known = self.__dict__.setdefault(f"answers of {method.__qualname__}", {})
        if key not in known:
            known[key] = method(self, *key)
        return known[key]

    return ask


class Remembering(InProcess):
    """Answers each question once, however many students are asked it: what is answered is kept, so far as there is
    room."""

    def __init__(self, modules_of: Callable[[str], ModuleSet]) -> None:
        super().__init__(modules_of)
        self._answers: OrderedDict[bytes, tuple[Outcome, int]] = OrderedDict()
        self._size = 0

    def run(self, call: Call) -> Outcome:
        key = packed(call)[1]
        if key in self._answers:
            self._answers.move_to_end(key)
            return self._answers[key][0]
        outcome = super().run(call)
        size = len(key) + _size_of(outcome.value) + _size_of(outcome.gradients)
        self._answers[key] = outcome, size
        self._size += size
        while len(self._answers) > MAX_ANSWERS or self._size > MAX_BYTES:
            self._size -= self._answers.popitem(last=False)[1][1]
        return outcome


class Reference(Remembering):
    """Whose answers are right."""

    def __init__(self) -> None:
        modules = ModuleSet(SOLUTIONS)
        super().__init__(lambda lesson: modules)

    @kept
    def parameters(self, lesson: str, exercise: str) -> dict[str, inspect.Parameter]:
        """Name -> parameter of the exercise's function."""
        return dict(inspect.signature(self.function(lesson, exercise)).parameters)

    @kept
    def right_answers_to(self, lesson: str, exercise: str) -> list[Outcome]:
        """The right outcomes of all examples of an exercise."""
        return [self.run(asked) for asked in examples(lesson, exercise)]

    @kept
    def changed(self, lesson: str, answer: NamedChange) -> InProcess:
        """The reference with a change in it.

        Raises:
            LookupError: it does not apply.
        """
        path, source = changed_source(lesson, answer)
        return Remembering(lambda _: ModuleSet(SOLUTIONS, [lesson], {path: source}))


@functools.cache
def shared_reference() -> Reference:
    """One for all of this process."""
    return Reference()


def packed(call: Call) -> tuple[tuple[Any, bytes], bytes]:
    """Header and body of a call, and the two as one key; kept with it, since two are asked."""
    kept = vars(call)
    if "packed" not in kept:
        header, body = pack(call)
        kept["packed"] = (header, body), json.dumps(header).encode() + b"\0" + body
    return kept["packed"]


def _size_of(value: Any) -> int:
    return sum(100 + getattr(leaf, "nbytes", 0) for _, leaf in leaves(value))


def with_change(lesson: str, answer: NamedChange) -> InProcess:
    path, source = changed_source(lesson, answer)
    return solutions_changed(lesson, {path: source})


def examples(lesson: str, exercise: str, seed: int = EXAMPLE_SEED) -> tuple[Call, ...]:
    """The examples of an exercise; those that tell wrong answers apart are always the same."""
    return tuple(call for call in drawn(lesson, seed) if call.exercise == exercise)


@functools.lru_cache(maxsize=64)
def drawn(lesson: str, seed: int) -> tuple[Call, ...]:
    """All examples of a lesson from one seed: what `examples` in its examples.py gives."""
    home = f"testcases.{lesson}.examples"
    return tuple(importlib.import_module(home).examples(seed)) if exists(home) else ()
