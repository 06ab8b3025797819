"""Two mistakes at once: pairs of listed wrong answers."""

import ast
import functools
import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from ...catalog import region_text
from ...oracle import Change, WrongAnswer, wrong_answers
from .mutation_bench import Bench, Hypothesis, words_of


def _own(bench: Bench) -> list[tuple[WrongAnswer, Change]]:
    return [
        (wrong, wrong.change)
        for wrong in wrong_answers(bench.lesson)
        if wrong.exercise == bench.exercise and isinstance(wrong.change, Change)
    ]


def listed_once(bench: Bench) -> Iterator[Hypothesis]:
    """The listed wrong answers themselves: one of them may explain a part of what is wrong."""
    region = region_text(bench.lesson, bench.exercise)
    for wrong, change in _own(bench):
        changed = change.apply(region)
        code = functools.cache(functools.partial(bench.code_of, changed))
        yield Hypothesis(f"{wrong.name}: {wrong.why}", code=code, words=_words(region, changed), listed=(wrong.name,))


def listed_twice(bench: Bench) -> Iterator[Hypothesis]:
    """The changes of two listed wrong answers, one after the other, where both apply."""
    region, own = region_text(bench.lesson, bench.exercise), _own(bench)
    for (one, first), (other, second) in itertools.combinations(own, 2):
        changed = _both(region, first, second)
        if changed is not None:
            code = functools.cache(functools.partial(bench.code_of, changed))
            said, words = f"two mistakes: (1) {one.why}; (2) {other.why}", _words(region, changed)
            yield Hypothesis(said, code=code, words=words, listed=(one.name, other.name), lead="with ")


def _both(region: str, first: Change, second: Change) -> str | None:
    for one, other in ((first, second), (second, first)):
        with suppress(LookupError, SyntaxError):
            changed = other.apply(one.apply(region))
            ast.parse(changed)
            return changed
    return None


_known_words = functools.lru_cache(words_of)


def _words(region: str, changed: str) -> Counter[str]:
    words = words_of(changed)
    words.subtract(_known_words(region))
    return words
