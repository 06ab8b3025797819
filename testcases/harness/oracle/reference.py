"""The reference, the reference with one change in it, and what both answer to the lesson's examples."""

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ..catalog import SOLUTIONS
from ..execution.executor import InProcess, solutions_changed
from ..execution.messages import Call, Outcome
from .mutations import NamedChange, changed_source

EXAMPLE_SEED = 20240
"""Seed of the examples that tell wrong answers apart; a suite draws its own."""
MAX_ANSWERS = 5_000
"""They are small: 3,700 of them, those of ten lessons on two seeds, take 1 MB, and their questions 11 MB."""


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
    """Answers each question once, however many students are asked it; the last MAX_ANSWERS answers are kept."""

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        super().__init__(SOLUTIONS, own=bool(texts), texts=texts)
        self._answers: dict[bytes, Outcome] = {}

    def run(self, call: Call) -> Outcome:
        return remembered(self._answers, key_of(call), lambda: super(Remembering, self).run(call))


def remembered(answers: dict[Any, Outcome], key: Any, ask: Callable[[], Outcome]) -> Outcome:
    """What was answered to the same question, or is now; of MAX_ANSWERS the oldest makes room."""
    if key not in answers:
        if len(answers) == MAX_ANSWERS:
            del answers[next(iter(answers))]
        answers[key] = ask()
    return answers[key]


def key_of(call: Call) -> bytes:
    """The same for equal questions, to the last bit and the layout in memory; kept with the call, since many are asked
    it."""
    kept = vars(call)
    if "key" not in kept:
        kept["key"] = b"\0".join(_bytes_of([*kept.values()]))
    return kept["key"]


def _bytes_of(value: Any) -> Iterator[bytes]:
    if isinstance(value, Tensor):
        yield f"{value.dtype} {tuple(value.shape)} {value.stride()}".encode()
        numbers = value.detach().contiguous()
        yield (numbers.view(torch.int16) if value.dtype == torch.bfloat16 else numbers).numpy().tobytes()
    elif isinstance(value, (list, tuple, dict)):
        parts = value.items() if isinstance(value, dict) else value
        yield f"{type(value).__name__} of {len(value)}".encode()
        for part in parts:
            yield from _bytes_of(part)
    else:
        yield repr(value).encode()


class Reference(Remembering):
    """Whose answers are right."""

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
        return Remembering({path: source})


@functools.cache
def shared_reference() -> Reference:
    """One for all of this process."""
    return Reference()


def with_change(lesson: str, answer: NamedChange) -> InProcess:
    path, source = changed_source(lesson, answer)
    return solutions_changed({path: source})


def examples(lesson: str, exercise: str, seed: int = EXAMPLE_SEED) -> tuple[Call, ...]:
    """The examples of an exercise; those that tell wrong answers apart are always the same."""
    return tuple(call for call in drawn(lesson, seed) if call.exercise == exercise)


@functools.lru_cache(maxsize=64)
def drawn(lesson: str, seed: int) -> tuple[Call, ...]:
    """All examples of a lesson from one seed: what `examples` in its examples.py gives."""
    return tuple(importlib.import_module(f"testcases.{lesson}.examples").examples(seed))
