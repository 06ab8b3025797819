"""Why an answer is wrong: the layers in order, each asked only where those before it found nothing.

First the exercise that this one calls, if the fault is there, and what an exception says. Then a mistake that gives all
that is wrong; an edit of the student's own code with which every test passes; a mistake that gives most, or two of
them. Then what the answer shows by itself, a mistake that gives some of it, and what it depends on. Else nothing:
silence is better than a guess.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from ..catalog.lessons import lesson as read_lesson
from ..execution.executor import Executor, InProcess
from ..execution.messages import Call, Outcome
from ..execution.modules import Missing
from ..oracle.mutations import suspects
from ..oracle.reference import Reference, calls_made, examples, kept
from ..report.compare import alike, same_outcome
from ..report.failures import CheckFailed
from .code import bare_function, definitions_in, distance, function_in, words_of
from .depends import facts
from .exceptions import cause_of_error, names_in
from .invariants import broken
from .mistakes import Bench, bench_of
from .own_code import OwnCode, repaired
from .parts import Answers, On, agree, is_evidence, parts_of
from .signs import digits_lost, has_16_bits, sign_of
from .values import Cause, Diagnosis, Invariant, Mistake, Named, Part, Repair, Seen, Sign, Twice

FirstFailure = Callable[[Executor, str, str], CheckFailed | None]
"""Runs the tests of an exercise, or of a whole lesson where none is named, and gives the first that fails."""
faults: deque[Exception] = deque(maxlen=8)
"""The last ones of the diagnosis itself: a student never sees them, the course's own check does."""
NOT_EXPLAINED = ("load", "missing", "signature", "timeout", "too large")
MAX_SEARCHES, MAX_FAILED = 2, 8
"""For so many tests of an exercise all is tried; so many of those that failed before have to be explained as well."""
CALLS = 200_000
"""So many calls of Python or C may each search lead to, as often as one question leads to fewer."""
LEAST_CALLS, MOST_PAIRS, FEW = 150, 120, 10
MOST_RIGHT = 3


@contextmanager
def left_out() -> Iterator[None]:
    """What cannot be told in this block is left out: a student's answer may be anything."""
    try:
        yield
    except Exception as error:
        faults.append(error)


class Explanation:
    """Holds one subject's answers against those of the mistakes; whatever has been asked is kept."""

    def __init__(self, subject: Executor, reference: Reference, first_failure: FirstFailure) -> None:
        self._subject, self._reference, self._first_failure = subject, reference, first_failure
        self._failed: dict[tuple[str, str], list[Seen]] = {}
        self._found: dict[tuple[str, str], list[tuple[Cause, ...]]] = {}
        self._searches: Counter[tuple[str, str]] = Counter()
        self._costs: dict[tuple[str, str, str | None], int] = {}

    def diagnose(self, call: Call, outcome: Outcome, neighbors: bool = True, part: Part | None = None) -> Diagnosis:
        """Why this answer is wrong.

        Args:
            neighbors: look for the fault in the exercises that this one calls, too.
            part: of the answer, which is shown.
        """
        if outcome.error and outcome.error.kind in NOT_EXPLAINED:
            return Diagnosis()
        found = Diagnosis()
        with left_out():
            found = self._explained((call, self._reference.run(call), outcome), part, neighbors)
        with left_out():
            found = replace(found, twice=self._twice(call.lesson, call.exercise))
        return found

    def _explained(self, seen: Seen, part: Part | None, neighbors: bool) -> Diagnosis:
        asked, right, mine = seen
        key = asked.lesson, asked.exercise
        if suspects(asked.lesson):
            return Diagnosis(self._in_a_hunt(seen, part))
        if same_outcome(right, mine):  # Too near to the right answer for any mistake to tell.
            return Diagnosis((sign,) if (sign := self._sign(seen)) else ())
        earlier = self._failed.setdefault(key, [])
        if known := self._known(seen):
            earlier[:] = [*earlier, seen][-MAX_FAILED:]
            return Diagnosis(known)
        if neighbors and (inside := self._inside(seen)):
            return inside
        if mine.error and (sign := cause_of_error(mine.error, asked, self._names(*key))):
            return Diagnosis((sign,))
        causes = self._search(seen, part)
        earlier[:] = [*earlier, seen][-MAX_FAILED:]
        if causes:
            self._found.setdefault(key, []).append(causes)
        return Diagnosis(causes)

    def _known(self, seen: Seen) -> tuple[Cause, ...]:
        """What explained an earlier failure of the exercise, if it explains this one."""
        asked, _, mine = seen
        bench = bench_of(asked.lesson, asked.exercise)
        for causes in self._found.get((asked.lesson, asked.exercise), ()):
            for one in causes:
                if isinstance(one, Repair) and one.is_all:
                    return causes
                if isinstance(one, Named) and same_outcome(mine, bench.ask(asked, *one.mistakes)):
                    return causes
        return ()

    def _search(self, seen: Seen, part: Part | None) -> tuple[Cause, ...]:
        """The layers, from the surest on."""
        asked, right, mine = seen
        key = asked.lesson, asked.exercise
        self._searches[key] += 1
        if self._searches[key] > MAX_SEARCHES:
            return ()
        bench, cost = bench_of(*key), self._cost(asked)
        candidates = self._candidates(bench, seen, part, cost)
        if lost := self._of_16_bits(seen):
            candidates = [one for one in candidates if not self._is_of_more(bench, one)]
        for one in candidates:
            if self._is_whole(bench, (one,), seen):
                return (Named((one,)),)
        sign, repair = lost or self._sign(seen), None
        with left_out():
            repair = self._repaired(seen, cost)
        if repair and repair.is_all:
            return (sign, repair) if sign else (repair,)
        answers = self._answers(*key)
        if CALLS // cost < FEW:
            return (sign,) if sign else ()
        near, share = self._nearest_to(bench, candidates, answers, On.MOST)
        if near and share == 1:
            return (Named((near,)),)
        if pair := self._pair(seen, cost):
            return (Named((near,) if near in pair else pair),)
        if near:
            return (Named((near,), is_all=False),)
        if sign or mine.error:
            return (sign,) if sign else ()
        some, _ = self._nearest_to(bench, candidates, answers, On.SOME)
        if some:
            return (Named((some,), is_all=False),)
        with left_out():
            if found := next(facts(asked, part, *self._wrong_and_good(*key), self._both), None):
                return (found,)
        return (repair,) if repair else ()

    def _in_a_hunt(self, seen: Seen, part: Part | None) -> tuple[Cause, ...]:
        """Of a repair of lesson 10: what is found by search would be the answer, so it is a place at most."""
        asked, right, mine = seen
        key = asked.lesson, asked.exercise
        bench = bench_of(*key)
        named = [one for one in self._candidates(bench, seen, part, self._cost(asked)) if one.wrong]
        for one in named if not same_outcome(right, mine) else ():
            if self._is_whole(bench, (one,), seen):
                return (Named((one,)),)
        near, _ = self._nearest_to(bench, named, self._answers(*key), On.MOST)
        if near:
            return (Named((near,)),)
        with left_out():
            if mine.error and (sign := cause_of_error(mine.error, asked, self._names(*key))):
                return (sign,)
            if sign := self._sign(seen):
                return (sign,)
            if found := next(facts(asked, part, *self._wrong_and_good(*key), self._both), None):
                return (found,)
        if suspect := suspects(asked.lesson).get(asked.exercise):
            questions = [asked, *self._wrong_and_good(*key)[0]]
            return (Invariant(text),) if (text := broken(suspect, questions, self._both)) else ()
        return ()

    # The exercise that this one calls

    def _inside(self, seen: Seen) -> Diagnosis | None:
        """Whether another exercise, which this one calls, is at fault: with a right one this answer is right."""
        asked, right, mine = seen
        lesson = asked.lesson
        for other in read_lesson(lesson).exercises:
            if (
                other == asked.exercise
                or not self._uses(lesson, asked.exercise, other)
                or self._is_right(lesson, other)
            ):
                continue
            if isinstance(self._subject, InProcess):
                try:
                    answer = self._with_right(lesson, other).run(asked)
                except Missing:  # There is nothing to put the right one in place of.
                    continue
                if not (same_outcome(right, answer) or (mine.error and not answer.error)):
                    continue
                found = self._of_example(lesson, other)
            else:
                found = self._of_example(lesson, other)
                if found.listed is None or not same_outcome(
                    mine, self._reference.changed(lesson, found.listed).run(asked)
                ):
                    continue
            return replace(found, inside=found.inside or other, twice=None)
        return None

    def _uses(self, lesson: str, exercise: str, other: str) -> bool:
        """Whether the reference or the student calls another exercise."""
        is_called = re.search(rf"\b{re.escape(other)}\(", function_in(self._text(lesson, exercise), exercise))
        return bool(is_called) or other in self._reference.used_by(lesson, exercise)

    @kept
    def _with_right(self, lesson: str, other: str) -> InProcess:
        assert isinstance(self._subject, InProcess)
        return self._subject.with_reference(lesson, other)

    @kept
    def _of_example(self, lesson: str, exercise: str) -> Diagnosis:
        """Why the subject is wrong in an exercise, from the first of its examples that is."""
        seen = (one for one in self._answers(lesson, exercise).seen if not same_outcome(one[1], one[2]))
        asked, _, mine = next(seen)
        return self.diagnose(asked, mine)

    # What the mistakes answer

    def _candidates(self, bench: Bench, seen: Seen, part: Part | None, cost: int) -> list[Mistake]:
        """Those that give this answer. A question that costs much is asked of those that give all examples."""
        every, answers = self._sorted(bench.lesson, bench.exercise), self._answers(bench.lesson, bench.exercise)
        most = CALLS // cost
        if most < FEW:
            alike = (agree(functools.partial(_of_example, bench, one), answers, On.ALL) for one in every)
            every = [one for one, is_alike in zip(every, alike, strict=True) if is_alike and answers.wrong_ones]
            most = 2
        return [one for one in every[:most] if self._gives(bench, one, seen, part)]

    def _gives(self, bench: Bench, mistake: Mistake, seen: Seen, part: Part | None) -> bool:
        """Whether it gives the answer, or its values where these are wrong: gradients are lost elsewhere as well."""
        asked, right, mine = seen
        theirs = bench.ask(asked, mistake)
        if part and part.is_slope and not alike(parts_of(mine).get(part), parts_of(theirs).get(part)):
            return False
        in_value = not same_outcome(right, mine, values_only=True)
        return same_outcome(mine, theirs, values_only=in_value) and not same_outcome(right, theirs)

    def _is_whole(self, bench: Bench, mistakes: tuple[Mistake, ...], seen: Seen) -> bool:
        """Whether they give every answer, of the examples and of the tests that failed before."""
        answers = self._answers(bench.lesson, bench.exercise)
        if not same_outcome(seen[2], bench.ask(seen[0], *mistakes)):
            return False
        # What nothing but one question tells agrees by chance, unless somebody has named it.
        if not (answers.wrong_ones or all(one.wrong for one in mistakes)):
            return False
        if not mistakes[0].wrong and not is_evidence(*seen[1:]) and len(answers.wrong_ones) < 2:
            return False
        earlier = self._failed.get((bench.lesson, bench.exercise), ())
        if not all(same_outcome(mine, bench.ask(asked, *mistakes)) for asked, _, mine in earlier):
            return False
        return agree(lambda i: bench.ask_example(i, *mistakes), answers, On.ALL) == 1

    def _of_16_bits(self, seen: Seen) -> Sign | None:
        """That 16 bits are too few: numbers so rough agree by chance, so that no mistake in anything else is named."""
        with left_out():
            if not seen[2].error and has_16_bits(seen[0]):
                return digits_lost(*seen, self._both)
        return None

    @kept
    def _is_of_more(self, bench: Bench, mistake: Mistake) -> bool:
        """Whether it is wrong in longer numbers as well."""
        right = self._reference.right_answers_to(bench.lesson, bench.exercise)
        wide = [i for i, asked in enumerate(bench.examples) if not has_16_bits(asked)]
        return not all(same_outcome(right[i], bench.ask_example(i, mistake)) for i in wide)

    def _nearest_to(
        self, bench: Bench, candidates: Sequence[Mistake], answers: Answers, on: On
    ) -> tuple[Mistake | None, float]:
        """The one that gives most of the answers, and their share."""
        shares = [(one, agree(functools.partial(_of_example, bench, one), answers, on)) for one in candidates]
        best = max(shares, key=lambda one: one[1], default=(None, 0.0))
        return best if best[1] else (None, 0.0)

    def _pair(self, seen: Seen, cost: int) -> tuple[Mistake, ...]:
        """Two mistakes that together give every answer."""
        asked, _, mine = seen
        bench = bench_of(asked.lesson, asked.exercise)
        for pair in self._pairs(asked.lesson, asked.exercise, cost):
            if same_outcome(mine, bench.ask(asked, *pair)) and self._is_whole(bench, pair, seen):
                return pair
        return ()

    def _pairs(self, lesson: str, exercise: str, cost: int) -> Iterable[tuple[Mistake, ...]]:
        """First those whose words are most like the student's; there are many, so they are asked for one test alone."""
        if self._searches[lesson, exercise] > 1:
            return ()
        return self._every_pair(lesson, exercise)[: min(MOST_PAIRS, CALLS // cost)]

    @kept
    def _every_pair(self, lesson: str, exercise: str) -> list[tuple[Mistake, ...]]:
        bench, words = bench_of(lesson, exercise), self._words(lesson, exercise)
        answers = self._answers(lesson, exercise)
        each = [one for one in bench.mistakes if one.change and bench.exists(one)]
        # One that is wrong where the student is right is rarely undone by another.
        for i in answers.right_ones[:MOST_RIGHT]:
            right = answers.seen[i][1]
            each = [one for one in each if same_outcome(right, bench.ask_example(i, one))]
        both = {one: bench.words(one) for one in each}
        pairs = [pair for pair in itertools.combinations(each, 2) if pair[0].wrong or pair[1].wrong]
        return sorted(pairs, key=lambda pair: distance(words, both[pair[0]] + both[pair[1]]))

    @kept
    def _sorted(self, lesson: str, exercise: str) -> list[Mistake]:
        """The mistakes, the named ones first, each kind in the order of its words."""
        bench = bench_of(lesson, exercise)
        return sorted(
            (one for one in bench.mistakes if bench.exists(one)),
            key=lambda one: (one.wrong is None, self._distance(lesson, exercise, one)),
        )

    def _distance(self, lesson: str, exercise: str, mistake: Mistake) -> int:
        if mistake.change is None:
            return 0
        return distance(self._words(lesson, exercise), bench_of(lesson, exercise).words(mistake))

    # What the student's code shows

    def _repaired(self, seen: Seen, cost: int) -> Repair | None:
        asked = seen[0]
        key = asked.lesson, asked.exercise
        own = self._own_code(*key)
        if own is None or self._searches[key] > 1:  # A search takes long, and an exercise has dozens of tests.
            return None
        answers = self._answers(*key).seen
        return repaired(own, self._words(*key), seen, answers, functools.partial(self._passes, *key), CALLS // cost)

    def _passes(self, lesson: str, exercise: str, executor: InProcess) -> bool:
        return self._first_failure(executor, lesson, exercise) is None

    @kept
    def _own_code(self, lesson: str, exercise: str) -> OwnCode | None:
        with suppress(LookupError):
            if isinstance(self._subject, InProcess):
                file = read_lesson(lesson).file_of(exercise)
                given = bare_function(self._reference.text(lesson, file), exercise)
                return OwnCode(self._subject, lesson, exercise, given)
        return None

    def _sign(self, seen: Seen) -> Sign | None:
        asked = seen[0]
        with left_out():
            wrong, _ = self._wrong_and_good(asked.lesson, asked.exercise)
            return None if seen[2].error else sign_of(seen, wrong, self._both)
        return None

    def _text(self, lesson: str, exercise: str) -> str:
        return self._subject.text(lesson, read_lesson(lesson).file_of(exercise))

    def _names(self, lesson: str, exercise: str) -> set[str]:
        return names_in(self._text(lesson, exercise))

    @kept
    def _twice(self, lesson: str, exercise: str) -> Twice | None:
        """Of a method whose class is defined more than once, those of the class."""
        owner = exercise.rpartition(".")[0]
        with suppress(SyntaxError, ValueError):
            for name in filter(None, (owner, exercise)):
                if len(found := definitions_in(self._text(lesson, exercise), name)) > 1:
                    return Twice(name, tuple(one.lineno for one in found))
        return None

    @kept
    def _words(self, lesson: str, exercise: str) -> Counter[str]:
        """How many more there are of each in the subject's code than in the reference's; none where it has no text."""
        file = read_lesson(lesson).file_of(exercise)
        own, right = (
            words_of(function_in(one.text(lesson, file), exercise)) for one in (self._subject, self._reference.executor)
        )
        own.subtract(right if own else ())
        return own

    # Answers

    @kept
    def _answers(self, lesson: str, exercise: str) -> Answers:
        """The subject's, on all examples."""
        asked, right = examples(lesson, exercise), self._reference.right_answers_to(lesson, exercise)
        return Answers([(one, due, self._subject.run(one)) for one, due in zip(asked, right, strict=True)])

    @kept
    def _is_right(self, lesson: str, exercise: str) -> bool:
        """Whether the subject answers every example of an exercise as the reference does."""
        return not self._answers(lesson, exercise).wrong_ones

    def _wrong_and_good(self, lesson: str, exercise: str) -> tuple[list[Call], list[Call]]:
        """The examples that the subject has wrong, and those that it has right."""
        seen = self._answers(lesson, exercise).seen
        wrong = [asked for asked, right, mine in seen if not same_outcome(right, mine)]
        return wrong, [asked for asked, right, mine in seen if same_outcome(right, mine)]

    def _both(self, asked: Call) -> tuple[Outcome, Outcome]:
        return self._reference.run(asked), self._subject.run(asked)

    def _cost(self, asked: Call) -> int:
        """In calls that the right answer takes: the same on each machine."""
        key = asked.lesson, asked.exercise, asked.scenario
        if key not in self._costs:
            with calls_made() as calls:
                InProcess.run(self._reference.executor, asked)  # Never what is remembered: that runs nothing.
            self._costs[key] = max(LEAST_CALLS, calls.total())
        return self._costs[key]


def _of_example(bench: Bench, mistake: Mistake, index: int) -> Outcome:
    return bench.ask_example(index, mistake)


class NoExplanation(Explanation):
    """For whoever asks only whether a test passes."""

    def diagnose(self, call: Call, outcome: Outcome, neighbors: bool = True, part: Part | None = None) -> Diagnosis:
        return Diagnosis()
