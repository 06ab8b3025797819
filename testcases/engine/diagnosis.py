"""What may be wrong with an answer that no listed wrong answer gives: altered questions, then one-edit variants."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from .bench import Bench, Suspect
from .compare import same_outcome
from .plain import Outcome, Request
from .suspects import altered_questions
from .trusted import examples
from .variants import one_edit_variants

LAYERS: tuple[Callable[[Bench], Iterator[Suspect]], ...] = (altered_questions, one_edit_variants)
MAX_ASKED = 1_000
MAX_ASKED_OF_SCENARIOS = 400
"""Suspects of a layer. Counted, so that the same code is told the same on each machine."""
MAX_SECONDS = 6.0
"""A layer that takes longer is left out; a busy machine takes a tenth of it."""
MAX_SEARCHES = 2
MAX_NAMED = 2


@dataclass
class Known:
    """What all students of this process share about one exercise."""

    bench: Bench
    suspects: dict[int, list[Suspect]] = field(default_factory=dict)

    def of_layer(self, layer: int) -> list[Suspect]:
        if layer not in self.suspects:
            most = MAX_ASKED_OF_SCENARIOS if examples(*self.key)[0].scenario else MAX_ASKED
            self.suspects[layer] = list(itertools.islice(LAYERS[layer](self.bench), most))
        return self.suspects[layer]

    @property
    def key(self) -> tuple[str, str]:
        return self.bench.lesson, self.bench.exercise


@cache
def known(lesson: str, exercise: str) -> Known:
    """Made when it is first asked for."""
    return Known(Bench(lesson, exercise))


class Search:
    """One student's answers to the examples of an exercise, held against all suspects.

    A suspect explains an answer if it gives the same there, where the reference does not, and on every example as
    well, where the student is right too.
    """

    def __init__(self, known: Known, right: list[Outcome], mine: list[Outcome]) -> None:
        self._known, self._right, self._mine = known, right, mine
        self._wrong = [i for i, pair in enumerate(zip(right, mine, strict=True)) if not same_outcome(*pair)]
        self._agreeing: dict[tuple[int, bool], list[tuple[int, Suspect]]] = {}
        self._searches = 0

    def causes(self, request: Request, right: Outcome, mine: Outcome) -> list[Suspect]:
        """At most MAX_NAMED; first those that agree in value and gradient, then those that agree in value only."""
        for values_only, layer in itertools.product((False, True), range(len(LAYERS))):
            found = self._found(layer, request, right, mine, values_only)
            if found:
                return found[:MAX_NAMED]
        return []

    def _found(self, layer: int, request: Request, right: Outcome, mine: Outcome, values_only: bool) -> list[Suspect]:
        ask = self._known.bench.ask
        if same_outcome(right, mine, values_only):
            return []
        if self._wrong:
            chosen = self._agreeing_in(layer, values_only)
        elif self._searches < MAX_SEARCHES * len(LAYERS) and not values_only:
            self._searches += 1
            chosen = list(enumerate(self._known.of_layer(layer)))
        else:
            return []
        found, texts = [], set()
        for number, suspect in _in_time(chosen):
            theirs = ask(suspect, request)
            if same_outcome(mine, theirs, values_only) and not same_outcome(right, theirs, values_only):
                if suspect.text not in texts and (self._wrong or self._agrees(layer, number, suspect, False)):
                    texts.add(suspect.text)
                    found.append(suspect)
        return found

    def _agreeing_in(self, layer: int, values_only: bool) -> list[tuple[int, Suspect]]:
        """Those that agree with the student on every example; most are told apart by the first that is wrong."""
        if (layer, values_only) not in self._agreeing:
            numbered = enumerate(self._known.of_layer(layer))
            self._agreeing[layer, values_only] = [
                (number, suspect)
                for number, suspect in _in_time(list(numbered))
                if self._agrees(layer, number, suspect, values_only)
            ]
        return self._agreeing[layer, values_only]

    def _agrees(self, layer: int, number: int, suspect: Suspect, values_only: bool) -> bool:
        rest = [i for i in range(len(self._mine)) if i not in self._wrong]
        ask = self._known.bench.ask_example
        return all(
            same_outcome(self._mine[i], ask((layer, number), suspect, i), values_only) for i in [*self._wrong, *rest]
        )


def _in_time(chosen: list[tuple[int, Suspect]]) -> Iterator[tuple[int, Suspect]]:
    """As many as there is time for."""
    started = time.monotonic()
    for one in chosen:
        if time.monotonic() - started > MAX_SECONDS:
            return
        yield one
