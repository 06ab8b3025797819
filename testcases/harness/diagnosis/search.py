"""What may be wrong with an answer that no listed wrong answer gives: altered questions, one-edit variants, pairs."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from ..execution import Outcome, Request, copy_plain, tensors_in
from ..oracle import calls_made, cost_of, kept
from ..report import alike, same_outcome
from .causes import Repaired
from .evidence import Kind, Part, Seen, is_evidence, parts_of
from .hypotheses import (
    Bench,
    Hypothesis,
    OwnCode,
    Repair,
    altered_questions,
    altered_twice,
    distance,
    is_float,
    listed_once,
    listed_twice,
    one_edit_variants,
)

LAYERS: tuple[Callable[[Bench], Iterator[Hypothesis]], ...] = (
    altered_questions,
    one_edit_variants,
    altered_twice,
    listed_twice,
    listed_once,
)
PAIRS = range(LAYERS.index(altered_twice), LAYERS.index(listed_once))
MAX_HYPOTHESES = 2_000
MAX_CALLS = (2**17, 5 * 2**15, 2**14, 2**14, 2**13)
"""To which the questions of each layer may lead, some two million in a second. Counted, so that the same code is told
the same on each machine."""
MAX_PARTLY, MOST_PARTS, LEAST_ASKED = 2**14, 8, 20
"""The same, and the wrong examples, where a cause may explain a part of what is wrong; however slow a question is, as
many hypotheses are asked."""
SHARE = 3
"""A cause of fewer than one in so many wrong examples may agree with them by chance."""
MAX_REPAIR, LEAST_REPAIRS = 2**18, 96
"""Calls to which the edits of a student's code may lead, and how many are tried however slow a question is."""
LEAST_WRONG, MAX_PASSED = 2, 3
"""Wrong examples below which an edit of the code is hardly tested, and edits with which a whole suite is run."""
MOST_TWICE, MOST_IN_SCENARIOS = 24, 128
"""Edits that are tried two at a time, and how many of these pairs where a question is a whole scenario."""
NEARBY, MAX_NEARBY = 3, 2**17
"""Questions near the failed one, on which a cause of this one has to agree; calls to which pairs may lead there."""
MAX_SEARCHES = 2
MAX_NAMED = 2
MAX_FAILED = 4
"""Failed questions, beside the examples, that a cause has to explain as well."""


# What all students of this process share about one exercise is made when it is first asked for.


@cache
def bench_of(lesson: str, exercise: str) -> Bench:
    return Bench(lesson, exercise)


@cache
def hypotheses_of(bench: Bench, layer: int) -> list[Hypothesis]:
    return list(itertools.islice(LAYERS[layer](bench), MAX_HYPOTHESES))


class Failed:
    """A question that failed, the student's answer to it, and which causes give that answer."""

    def __init__(self, request: Request, mine: Outcome, part: Part | None = None) -> None:
        self.request, self.mine, self.part = request, mine, part

    @kept
    def is_given_by(self, cause: Any, ask: Callable[[Any, Request], Outcome], values_only: bool = False) -> bool:
        return same_outcome(self.mine, ask(cause, self.request), values_only)

    def is_shown_by(self, theirs: Outcome) -> bool:
        """Whether an answer with the same values has the same gradient, if it is one that is shown."""
        name = self.part.name if self.part and self.part.kind is Kind.SLOPE else None
        return name is None or alike(self.mine.gradients.get(name), theirs.gradients.get(name))

    @kept
    def cost(self, bench: Bench) -> int:
        with calls_made() as calls:
            bench.ask(Hypothesis(""), self.request)
        return cost_of(calls)


class Search:
    """One student's answers to the examples of an exercise, held against all hypotheses.

    A hypothesis explains an answer if it gives the same there, where the reference does not, and on every example as
    well, where the student is right too.

    Args:
        costs: of each example.
        words: how many more there are of each in the student's code than in the reference's.
        listed: gives the answer of a listed wrong one, by its name, to the example of a number.
    """

    def __init__(
        self,
        bench: Bench,
        right: list[Outcome],
        mine: list[Outcome],
        costs: Sequence[int],
        words: Counter[str],
        listed: Callable[[str, int], Outcome],
    ) -> None:
        self._bench, self._right, self._mine, self._words, self._listed = bench, right, mine, words, listed
        wrong = [i for i, pair in enumerate(zip(right, mine, strict=True)) if not same_outcome(*pair)]
        # What is wrong in value too tells more than what is wrong in gradient only.
        in_value = [i for i in wrong if not same_outcome(right[i], mine[i], values_only=True)]
        self._wrong = sorted(in_value or wrong, key=costs.__getitem__)
        self._cost = min((costs[i] for i in self._wrong), default=0)
        # Many changes raise an error of the same type, or give NaN or 0: alone that explains nothing.
        self._tells = any(is_evidence(right[i], mine[i]) for i in wrong)
        self._failed: list[Failed] = []
        self._searches = self._looked_near = 0

    def causes(self, failed: Failed, right: Outcome, pairs: bool = False) -> tuple[list[Hypothesis], bool]:
        """At most MAX_NAMED; first those that agree in value and gradient, then those that agree in value only; and
        whether it is the value only.

        Where no example is wrong, one question is all there is to go by: a cause counts only if it is the only one.
        """
        layers = PAIRS if pairs else range(PAIRS.start)
        for values_only, layer in itertools.product((False, True), layers):
            found = self._found(layer, failed, right, values_only)
            if found:
                break
        self._failed = [*self._failed, failed][-MAX_FAILED:] if not pairs else self._failed
        return (found if self._wrong or len(found) == 1 else []), values_only

    def _found(self, layer: int, failed: Failed, right: Outcome, values_only: bool) -> list[Hypothesis]:
        request, mine = failed.request, failed.mine
        if same_outcome(right, mine, values_only) or not (self._tells or is_evidence(right, mine)):
            return []
        if self._wrong:
            chosen = self._agreeing_in(layer, values_only)
        elif self._searches < MAX_SEARCHES * len(LAYERS) and not values_only:
            self._searches += 1
            chosen = self._most_likely(layer, failed.cost(self._bench))
        else:
            return []
        found: dict[str, Hypothesis] = {}
        for hypothesis in chosen:
            if (
                len(found) < MAX_NAMED
                and hypothesis.text not in found
                and self._bench.may_give(hypothesis, request, mine)
            ):
                given = (one.is_given_by(hypothesis, self._bench.ask, values_only) for one in (failed, *self._failed))
                if not (all(given) and (self._wrong or self._agrees(hypothesis, False))):
                    continue
                if not values_only or failed.is_shown_by(self._bench.ask(hypothesis, request)):
                    found[hypothesis.text] = hypothesis
        own = [hypothesis for hypothesis in found.values() if not hypothesis.place]
        pair = [hypothesis for hypothesis in found.values() if hypothesis.listed][:1]
        return pair or own or list(found.values())

    @kept
    def partly(self, ask: Callable[[Request], Outcome]) -> tuple[Hypothesis, int, int] | None:
        """The cause that explains most of the wrong examples, in value if that is wrong; how many, and of how many.

        At least two, or the only one: the numbers of an example are drawn, so chance does not give them. Its options
        are not: a cause of a few has to agree where one of them is another (`ask` gives the student's answer).
        """
        wrong = [i for i in self._wrong if is_evidence(self._right[i], self._mine[i])]
        best: tuple[Hypothesis, int, int] | None = None
        if not wrong:
            return None
        wrong = wrong[:MOST_PARTS]
        for layer in (LAYERS.index(listed_once), LAYERS.index(listed_twice)):
            most = max(MAX_PARTLY // self._cost, LEAST_ASKED if layer == LAYERS.index(listed_once) else 0)
            for hypothesis in self._sorted(layer)[:most]:
                half = len(wrong) // 2 + 1 if len(hypothesis.listed) > 1 else 0
                least = max(best[1] + 1 if best else min(2, len(wrong)), half)
                explained = self._explained(hypothesis, wrong, least - 1)
                if (count := len(explained)) >= least:
                    if count == len(wrong) or self._persists(hypothesis, explained, len(wrong), ask):
                        best = hypothesis, count, len(wrong)
            if best and best[1] == len(wrong):
                break
        return best

    def nearby(self, request: Request, shown: Part | None, ask: Callable[[Request], Outcome]) -> list[Hypothesis]:
        """What gives the wrong part of this answer that is shown, and of the answers to nearly the same question, where
        the student's other mistakes may not show; at most MAX_NAMED, of which nothing tells which it is.

        Two listed ones only where no single one does; where several pairs do, what they have in common.
        """
        if self._looked_near >= MAX_SEARCHES:  # For two tests of an exercise: those whose reports are shown.
            return []
        if request.scenario and not self._wrong:  # Who is right in all examples may be wrong in what a scenario calls.
            return []
        self._looked_near += 1
        counts = [one for one in _with_other_options(request) if _count_of(one) != _count_of(request)]
        questions = [request, *(_moved(request, seed) for seed in range(NEARBY)), *counts, *_in_other_forms(request)]
        answers = [(one, self._bench.ask(Hypothesis(""), one)) for one in questions]
        if answers[0][1].error:
            return []
        seen = [(one, parts_of(right), ask(one)) for one, right in answers if not right.error]
        _, due, first = seen[0]
        among = (part for part in due if shown is None or shown.holds(part))
        part = next((part for part in among if not alike(due[part], parts_of(first).get(part))), None)
        if part is None or any(mine.error or part not in right for _, right, mine in seen):
            return []
        told = [(one, right[part], parts_of(mine).get(part)) for one, right, mine in seen]
        moved = len(told) > NEARBY and all(not alike(mine, told[0][2]) for _, _, mine in told[1 : NEARBY + 1])
        if not (moved and all(_tells(*pair) and not alike(*pair) for _, *pair in told)):
            return []
        gives = partial(self._gives, part, told)
        singles = [one for one in self._sorted(LAYERS.index(listed_once)) if gives(one)]
        if singles:
            nearest = [one for one in singles if self._distance(one) == self._distance(singles[0])]
            return nearest if len(nearest) <= MAX_NAMED else []
        most = MAX_NEARBY // max(1, self._cost)
        pairs = [one for one in self._sorted(LAYERS.index(listed_twice))[:most] if gives(one)]
        if len(pairs) == 1:
            return pairs
        common = {name for name in pairs[0].listed if all(name in one.listed for one in pairs)} if pairs else set()
        return [one for one in self._sorted(LAYERS.index(listed_once)) if {*one.listed} == common][:1]

    def _gives(self, part: Any, told: Sequence[tuple[Request, Any, Any]], hypothesis: Hypothesis) -> bool:
        """Whether it gives a part of these answers; of most the value of the first says no."""
        request, _, mine = told[0]
        if not request.scenario:
            try:
                given = parts_of(Outcome(self._bench.value_of(hypothesis, request)))
            except Exception:
                return False
            if part in given and not alike(mine, given[part]):
                return False
        return all(alike(mine, parts_of(self._bench.ask(hypothesis, one)).get(part)) for one, _, mine in told)

    def _persists(
        self, hypothesis: Hypothesis, explained: list[int], most: int, ask: Callable[[Request], Outcome]
    ) -> bool:
        """Whether it is not of a few by chance, and still agrees where an option that has a say is another."""
        if SHARE * len(explained) < most:
            return False
        asked = [self._bench.examples[i] for i in explained]
        # Of two, the second is often one among several that these questions do not tell apart.
        for other in (form for one in asked for form in _in_other_forms(one)) if len(hypothesis.listed) > 1 else ():
            right, mine = self._bench.ask(Hypothesis(""), other), ask(other)
            if not (right.error or same_outcome(mine, self._bench.ask(hypothesis, other), True)):
                return False
        moved = [other for one in asked[:2] for other in _with_other_options(one)]
        for other in moved:
            theirs, mine = self._bench.ask(hypothesis, other), ask(other)
            right = self._bench.ask(Hypothesis(""), other)
            if not (right.error or mine.error) and is_evidence(right, mine) and same_outcome(mine, theirs, True):
                return True
        # Of flags and counts there are few: they may be equal by chance.
        are_flags = all(not one.is_floating_point() for i in explained for one in tensors_in(self._mine[i].value))
        is_call = self._bench.examples[explained[0]].scenario is None
        return not moved and not (are_flags and is_call)

    def _explained(self, hypothesis: Hypothesis, wrong: list[int], least: int) -> list[int]:
        """Those that it explains; none where these are no more than `least`, or the first half has none.

        Of a pair, which has to explain more than half, the first quarter and one more.
        """
        patience, found = len(wrong) // max(2, 2 * len(hypothesis.listed)), list[int]()
        for place, i in enumerate(wrong):
            if len(found) + len(wrong) - place <= least or (not found and place > patience):
                return []
            mine = self._mine[i]
            given = self._bench.may_give(hypothesis, self._bench.examples[i], mine)
            # Where the value is right, all that keeps it gives it: then the gradient has to be given.
            in_value = not same_outcome(self._right[i], mine, values_only=True)
            if given and same_outcome(mine, self._answer_of(hypothesis, i), values_only=in_value):
                found.append(i)
        return found

    def _answer_of(self, hypothesis: Hypothesis, i: int) -> Outcome:
        """To an example; a single listed one may have been asked already."""
        if len(hypothesis.listed) == 1:
            return self._listed(hypothesis.listed[0], i)
        return self._bench.ask_example(hypothesis, i)

    @kept
    def _agreeing_in(self, layer: int, values_only: bool) -> list[Hypothesis]:
        """Those that agree with the student on every example; most are told apart by the first that is wrong."""
        chosen = self._most_likely(layer, self._cost) if values_only else self._agreeing_in(layer, True)
        return [hypothesis for hypothesis in chosen if self._agrees(hypothesis, values_only)]

    @kept
    def _most_likely(self, layer: int, cost: int) -> list[Hypothesis]:
        """As many as may be asked a question of this cost."""
        return self._sorted(layer)[: MAX_CALLS[layer] // cost]

    @kept
    def _sorted(self, layer: int) -> list[Hypothesis]:
        """First those whose words are most like the student's."""
        return sorted(hypotheses_of(self._bench, layer), key=self._distance)

    def _distance(self, hypothesis: Hypothesis) -> int:
        """From the student's code. One without code of its own is nearer for each name in its text that stands in the
        student's code more or less often than in the reference's; where none does, two of them may be swapped."""
        if hypothesis.code:
            return distance(self._words, hypothesis.words)
        if not any(self._words.values()):
            return -hypothesis.is_swap
        return -sum(self._words[name] != 0 for name in hypothesis.names)

    def _agrees(self, hypothesis: Hypothesis, values_only: bool) -> bool:
        first, *others = [*self._wrong, *(i for i in range(len(self._mine)) if i not in self._wrong)]
        if values_only and not self._bench.may_give(hypothesis, self._bench.examples[first], self._mine[first]):
            return False
        answers = ((self._mine[i], self._bench.ask_example(hypothesis, i)) for i in (first, *others))
        return all(same_outcome(mine, theirs, values_only) for mine, theirs in answers)


def repaired_by(
    own: OwnCode,
    surplus: Counter[str],
    most: int,
    failing: Seen,
    answers: Sequence[Seen],
    passes: Callable[[Repair], bool],
) -> Repaired | None:
    """The first repair with which the exercise passes its tests, else two that do, else the one that makes most of the
    wrong examples right, if there are several.

    Where fewer than two examples are wrong, nearly all agrees by chance: then only what takes something away is tried.
    """
    wrong = [one for one in answers if not same_outcome(*one[1:])][:MOST_PARTS]
    good = [one for one in answers if same_outcome(*one[1:])]
    is_told = len(wrong) >= LEAST_WRONG
    raised = failing[2].error.type_name if failing[2].error else ""
    found: list[Repaired] = []

    def fixes(repair: Repair, seen: Sequence[Seen]) -> list[bool]:
        return [repair.is_right(*one[:2]) for one in seen]

    def tried(code: OwnCode, most: int) -> list[Repair]:
        return code.repairs(surplus, most, only_less=not is_told, keeps_arguments=raised == "TypeError")

    repairs, asked = tried(own, most), 0
    after = ((own.after(first), first) for first in (repairs[:MOST_TWICE] if wrong else ()))
    twice = ((code, (first, second)) for code, first in after for second in tried(code, MOST_TWICE))
    pairs = itertools.islice(twice, min(most // 4, MOST_IN_SCENARIOS) if failing[0].scenario else most // 4)
    for code, edits in itertools.chain(((own, (one,)) for one in repairs), pairs):
        if own.is_tired or code.is_tired:
            break
        if fixes(edits[-1], [failing])[0]:
            count = sum(fixes(edits[-1], wrong))
            if count >= min(2, len(wrong)) and SHARE * count >= len(wrong) and all(fixes(edits[-1], good)):
                if count == len(wrong) and asked < MAX_PASSED:
                    asked += 1
                    if passes(edits[-1]):
                        return Repaired(edits, count, count, is_whole=True)
                if is_told:  # Beside those that are counted here, a test fails.
                    found.append(Repaired(edits, count, max(len(wrong), count + 1), is_whole=False))
    return max(found, key=lambda one: one.count, default=None)


def _tells(right: Any, mine: Any) -> bool:
    """Whether agreement with a wrong part says something."""
    return is_evidence(Outcome(right), Outcome(mine))


def _count_of(asked: Request) -> list[Any]:
    return [value for value in asked.arguments.values() if type(value) is int]


def _moved(asked: Request, seed: int) -> Request:
    """Nearly the same question: each number that is no count, flag or bound is another by a few percent."""
    generator = torch.Generator().manual_seed(seed)

    def moved(value: Any) -> Any:
        if is_float(value) and set(value.unique().tolist()) != {0.0, 1.0}:
            return value * (1 + torch.rand(value.shape, generator=generator, dtype=value.dtype) / 16)
        return value

    arguments = {name: copy_plain(value, moved) for name, value in asked.arguments.items()}
    for name, value in arguments.items():
        if type(value) is float and value not in (0.0, 1.0):
            arguments[name] = value * (1 - (seed + 1) / 64)
    return replace(asked, arguments=arguments)


def _in_other_forms(asked: Request) -> Iterator[Request]:
    """The question with its rows in the reverse order, and with the last of its columns once more."""
    tensors = [*tensors_in([*asked.arguments.values()])]
    rows = {len(one) for one in tensors if one.dim() > 1}
    if len(rows) == 1 and rows != {1}:
        yield _with_each(asked, lambda one: one.flip(0) if one.dim() and {len(one)} == rows else one)
    if not asked.scenario and any(one.dim() for one in tensors):
        yield _with_each(asked, lambda one: torch.cat([one, one[..., -1:]], dim=-1) if one.dim() else one)


def _with_each(asked: Request, changed: Callable[[Tensor], Tensor]) -> Request:
    arguments = {name: copy_plain(value, changed) for name, value in asked.arguments.items()}
    return replace(asked, arguments=arguments, grad_of=(), grad_weights=None)


def _with_other_options(asked: Request) -> Iterator[Request]:
    """The question with one of its numbers, that is no tensor, a bit larger or smaller."""
    for name, value in asked.arguments.items():
        if type(value) is float or (type(value) is int and not asked.scenario):
            others = (value + 1, value - 1) if type(value) is int else (1.3 * value + 1e-3, 0.7 * value)
            for other in others:
                arguments = {**asked.arguments, name: other}
                yield replace(asked, arguments=arguments, grad_of=(), grad_weights=None)
