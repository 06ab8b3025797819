"""What may be wrong with an answer that no listed wrong answer gives: altered questions, one-edit variants, pairs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import cache

from .bench import CHEAP, Bench, Suspect
from .compare import same_outcome
from .plain import Outcome, Request
from .suspects import altered_questions, altered_twice
from .trusted import kept
from .variants import one_edit_variants

LAYERS: tuple[Callable[[Bench], Iterator[Suspect]], ...] = (altered_questions, one_edit_variants, altered_twice)
MAX_ASKED = 1_000
MAX_ASKED_OF_SCENARIOS = 400
"""Suspects of a layer. Counted, so that the same code is told the same on each machine."""
MAX_SECONDS = 4.0
"""Of work, for one layer: what it has not asked by then is left out."""
MAX_SEARCHES = 2
MAX_NAMED = 2
MAX_FAILED = 4
"""Failed questions, beside the examples, that a cause has to explain as well."""


# What all students of this process share about one exercise is made when it is first asked for.


@cache
def bench_of(lesson: str, exercise: str) -> Bench:
    return Bench(lesson, exercise)


@cache
def suspects_of(bench: Bench, layer: int) -> list[Suspect]:
    most = MAX_ASKED_OF_SCENARIOS if bench.is_slow else MAX_ASKED
    return list(itertools.islice(LAYERS[layer](bench), most))


@cache
def seconds_of(bench: Bench, index: int) -> float:
    """That an example takes. It decides only which one tells most suspects apart, never what is told."""
    started = time.perf_counter()
    bench.ask(Suspect(""), bench.examples[index])
    return time.perf_counter() - started


class Search:
    """One student's answers to the examples of an exercise, held against all suspects.

    A suspect explains an answer if it gives the same there, where the reference does not, and on every example as
    well, where the student is right too.
    """

    def __init__(self, bench: Bench, right: list[Outcome], mine: list[Outcome]) -> None:
        self._bench, self._mine = bench, mine
        wrong = [i for i, pair in enumerate(zip(right, mine, strict=True)) if not same_outcome(*pair)]
        # What is wrong in value too tells more than what is wrong in gradient only.
        in_value = [i for i in wrong if not same_outcome(right[i], mine[i], values_only=True)]
        self._wrong = sorted(in_value or wrong, key=lambda i: seconds_of(bench, i))
        # Many changes raise an error of the same type: alone it explains nothing.
        self._tells = any(not mine[i].error for i in wrong)
        self._failed: list[tuple[Request, Outcome]] = []
        self._searches = 0

    def causes(self, request: Request, right: Outcome, mine: Outcome) -> list[Suspect]:
        """At most MAX_NAMED; first those that agree in value and gradient, then those that agree in value only.

        Where no example is wrong, one question is all there is to go by: a cause counts only if it is the only one.
        """
        for values_only, layer in itertools.product((False, True), range(len(LAYERS))):
            found = self._found(layer, request, right, mine, values_only)
            if found:
                break
        self._failed = [*self._failed, (request, mine)][-MAX_FAILED:]
        return found[:MAX_NAMED] if self._wrong or len(found) == 1 else []

    def _found(self, layer: int, request: Request, right: Outcome, mine: Outcome, values_only: bool) -> list[Suspect]:
        ask = self._bench.ask
        if same_outcome(right, mine, values_only) or (mine.error and not self._tells):
            return []
        if self._wrong:
            chosen = self._agreeing_in(layer, values_only)
        elif self._searches < MAX_SEARCHES * len(LAYERS) and not values_only:
            self._searches += 1
            # The examples tell most suspects apart, and their answers are kept for the next student.
            is_slow = request.seconds > CHEAP
            chosen = self._agreeing_in(layer, False) if is_slow else suspects_of(self._bench, layer)
        else:
            return []
        found, texts = [], set()
        for suspect in _in_time(chosen):
            if not self._bench.may_give(suspect, request, mine):
                continue
            theirs = ask(suspect, request)
            if same_outcome(mine, theirs, values_only) and not same_outcome(right, theirs, values_only):
                agrees = self._wrong or self._agrees(suspect, False)
                agrees = agrees and all(same_outcome(ask(suspect, one[0]), one[1], values_only) for one in self._failed)
                if suspect.text not in texts and agrees:
                    texts.add(suspect.text)
                    found.append(suspect)
        return found

    @kept
    def _agreeing_in(self, layer: int, values_only: bool) -> list[Suspect]:
        """Those that agree with the student on every example; most are told apart by the first that is wrong."""
        chosen = suspects_of(self._bench, layer) if values_only else self._agreeing_in(layer, True)
        return [suspect for suspect in _in_time(chosen) if self._agrees(suspect, values_only)]

    def _agrees(self, suspect: Suspect, values_only: bool) -> bool:
        first, *others = [*self._wrong, *(i for i in range(len(self._mine)) if i not in self._wrong)]
        if values_only and not self._bench.may_give(suspect, self._bench.examples[first], self._mine[first]):
            return False
        answers = ((self._mine[i], self._bench.ask_example(suspect, i)) for i in (first, *others))
        return all(same_outcome(mine, theirs, values_only) for mine, theirs in answers)


def _in_time(chosen: list[Suspect]) -> Iterator[Suspect]:
    """As many as there is time for."""
    started = time.process_time()
    for one in chosen:
        if time.process_time() - started > MAX_SECONDS:
            return
        yield one
