"""Why an answer is wrong: the layers in order, each asked only where those before it found nothing.

First the exercise that this one calls, if the fault is there, and what an exception says. Then a mistake that gives all
that is wrong; an edit of the student's own code with which every test passes; a mistake that gives most, or parts, or
two of them. Then what the answer shows by itself, and what it depends on. Else nothing: silence is better than a guess.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

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
from .neighbors import discrete, like, unlike
from .own_code import OwnCode, repaired
from .parts import Answers, On, Share, agree, fits, is_evidence, is_fraction, parts_of, reaches
from .signs import sign_of
from .values import Cause, Diagnosis, Invariant, Kind, Mistake, Named, Part, Repair, Seen, Sign, Twice

FirstFailure = Callable[[Executor, str, str], CheckFailed | None]
"""Runs the tests of an exercise, or of a whole lesson where none is named, and gives the first that fails."""
faults: deque[Exception] = deque(maxlen=8)
"""The last ones of the diagnosis itself: a student never sees them, the course's own check does."""
NOT_EXPLAINED = ("load", "missing", "signature", "timeout", "too large")
MAX_SEARCHES, MAX_FAILED = 2, 8
"""For so many tests of an exercise all is tried; so many of those that failed before have to be explained as well."""
CALLS = 200_000
"""So many calls of Python or C may each search lead to, as often as one question leads to fewer."""
LEAST_CALLS, MOST_PAIRS = 150, 120
QUARTER, MOST_RIGHT = 4, 3


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
        if neighbors and (inside := self._inside(seen)):
            return inside
        if mine.error and (sign := cause_of_error(mine.error, asked, self._names(*key))):
            return Diagnosis((sign,))
        known = self._known(seen)
        causes = known or self._search(seen, part)
        earlier = self._failed.setdefault(key, [])
        earlier[:] = [*earlier, seen][-MAX_FAILED:]
        if causes and not known:
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
        candidates = [one for one in self._nearest(*key, cost) if self._gives(bench, one, seen, part)]
        for one in candidates:
            if self._is_whole(bench, (one,), seen):
                return (Named((one,)),)
        sign, repair = self._sign(seen), None
        with left_out():
            repair = self._repaired(seen, cost)
        if repair and repair.is_all:
            return (sign, repair) if sign else (repair,)
        answers = self._answers(*key)
        near = self._most(bench, candidates, answers)
        if near and near.share == 1:
            return (Named((near.mistake,)),)
        parts = self._parts(seen, part, leads=not near)
        if parts and parts[1] and (parts[2] or not near):
            return parts[0]
        if pair := self._pair(seen, cost):
            if near and near.mistake in pair:
                return (Named((near.mistake,)),)
            return (Named(pair),)
        if near:
            return (Named((near.mistake,), is_all=False),)
        if parts and parts[2]:
            return parts[0]
        if sign:
            return (sign,)
        if mine.error:
            return parts[0] if parts else ()
        if nearby := self._nearby(asked, part, cost):
            return (Named(nearby, is_all=False),)
        with left_out():
            if found := next(facts(asked, part, *self._wrong_and_good(*key), self._both), None):
                return (found,)
        if parts:
            return parts[0]
        return (repair,) if repair else ()

    def _in_a_hunt(self, seen: Seen, part: Part | None) -> tuple[Cause, ...]:
        """Of a repair of lesson 10: what is found by search would be the answer, so it is a place at most."""
        asked, right, mine = seen
        key = asked.lesson, asked.exercise
        bench = bench_of(*key)
        named = [
            one for one in self._nearest(*key, self._cost(asked)) if one.wrong and self._gives(bench, one, seen, part)
        ]
        for one in named if not same_outcome(right, mine) else ():
            if self._is_whole(bench, (one,), seen):
                return (Named((one,)),)
        near = self._most(bench, named, self._answers(*key))
        if near:
            return (Named((near.mistake,)),)
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
            is_used = other != asked.exercise and other in self._reference.used_by(lesson, asked.exercise)
            if not is_used or self._is_right(lesson, other):
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

    @kept
    def _with_right(self, lesson: str, other: str) -> InProcess:
        assert isinstance(self._subject, InProcess)
        return self._subject.with_reference(lesson, lesson, other)

    @kept
    def _of_example(self, lesson: str, exercise: str) -> Diagnosis:
        """Why the subject is wrong in an exercise, from the first of its examples that is."""
        seen = (one for one in self._answers(lesson, exercise).seen if not same_outcome(one[1], one[2]))
        asked, _, mine = next(seen)
        return self.diagnose(asked, mine)

    # What the mistakes answer

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
        return agree(mistakes[0], lambda i: bench.ask_example(i, *mistakes), answers, On.ALL) is not None

    def _most(self, bench: Bench, candidates: Sequence[Mistake], answers: Answers) -> Share | None:
        shares = [agree(one, functools.partial(_of_example, bench, one), answers, On.MOST) for one in candidates]
        return max(filter(None, shares), key=lambda one: one.share, default=None)

    def _parts(self, seen: Seen, part: Part | None, leads: bool) -> tuple[tuple[Named, ...], bool, bool] | None:
        """The mistakes that give parts of what is wrong, first those of this answer; whether that is all, and whether
        any is of this answer.

        One that gives none of this answer has to be in a fourth of the others: in fewer, it may agree by chance. With
        `leads`, one that explains nearly all the others and has this one wrong too is of this answer as well: the
        student's other steps hide its very number, as a mask at the end may.
        """
        asked, right, mine = seen
        bench, answers = bench_of(asked.lesson, asked.exercise), self._answers(asked.lesson, asked.exercise)
        chosen = self._chosen(asked.lesson, asked.exercise)
        most = len({i for i, _ in answers.wrong})
        here, others = list[Mistake](), list[Mistake]()
        for one in chosen:
            theirs, count = bench.ask(asked, one.mistake), len({i for i, _ in one.explained})
            given = fits(right, mine, theirs, part)
            if given is None:
                continue
            if given or (leads and QUARTER * count >= 3 * most and reaches(right, theirs, part)):
                here.append(one.mistake)
            elif QUARTER * count >= most:
                others.append(one.mistake)
        if not here and not others:
            return None
        explained = set().union(*(one.explained for one in chosen))
        told = here or others
        is_all = explained == answers.wrong and len(chosen) == len(told)
        # What the first leaves may have other reasons, unless the second explains all of it.
        return (Named(tuple(told if is_all else told[:1]), is_all=is_all and len(told) > 1),), is_all, bool(here)

    @kept
    def _chosen(self, lesson: str, exercise: str) -> list[Share]:
        """The mistakes that give some of the subject's wrong parts, and none of the right ones otherwise."""
        answers, bench = self._answers(lesson, exercise), bench_of(lesson, exercise)
        # Where nothing is right, nothing speaks against any of them.
        if not (answers.wrong and answers.has_good):
            return []
        cost = max((self._cost(asked) for asked in bench.examples), default=1)
        shares = (
            agree(one, functools.partial(_of_example, bench, one), answers, On.PARTS)
            for one in self._nearest(lesson, exercise, cost)
        )
        return answers.chosen([*filter(None, shares)], lambda one: self._distance(lesson, exercise, one))

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
            each = [one for one in each if not answers.is_contradicted(i, parts_of(bench.ask_example(i, one)))]
        both = {one: bench.words(one) for one in each}
        pairs = [pair for pair in itertools.combinations(each, 2) if pair[0].wrong or pair[1].wrong]
        return sorted(pairs, key=lambda pair: distance(words, both[pair[0]] + both[pair[1]]))

    def _nearest(self, lesson: str, exercise: str, cost: int) -> list[Mistake]:
        """The mistakes, as many as may be asked: the named ones first, each kind in the order of its words."""
        bench = bench_of(lesson, exercise)
        every = sorted(
            (one for one in bench.mistakes if bench.exists(one)),
            key=lambda one: (one.wrong is None, self._distance(lesson, exercise, one)),
        )
        return every[: max(10, CALLS // cost)]

    def _distance(self, lesson: str, exercise: str, mistake: Mistake) -> int:
        if mistake.change is None:
            return 0
        return distance(self._words(lesson, exercise), bench_of(lesson, exercise).words(mistake))

    def _nearby(self, asked: Call, shown: Part | None, cost: int) -> tuple[Mistake, ...]:
        """What gives the wrong part of this answer that is shown, and of the answers to questions like it, where the
        student's other mistakes may not show. Two only where no single one does.

        The questions differ in masks, flags and ids, too; where they can't, nothing is said.
        """
        bench = bench_of(asked.lesson, asked.exercise)
        told = self._told_nearby(asked, shown)
        if not told:
            return ()

        def gives(*mistakes: Mistake) -> bool:
            return all(alike(mine, parts_of(bench.ask(one, *mistakes)).get(part)) for one, part, mine in told)

        singles = [one for one in self._nearest(asked.lesson, asked.exercise, cost * len(told)) if gives(one)]
        if singles:
            named = [one for one in singles if one.wrong] or singles
            first = self._distance(asked.lesson, asked.exercise, named[0])
            nearest = [one for one in named if self._distance(asked.lesson, asked.exercise, one) == first]
            return (nearest[0],) if len(nearest) == 1 else ()
        pairs = [pair for pair in self._pairs(asked.lesson, asked.exercise, cost * QUARTER) if gives(*pair)]
        if len(pairs) == 1:
            return pairs[0]
        common = [one for one in pairs[0] if all(one in pair for pair in pairs)] if pairs else []
        return tuple(common[:1])

    def _told_nearby(self, asked: Call, shown: Part | None) -> list[tuple[Call, Part, Any]]:
        """Questions like this one, the part that is looked at, and what the student has in it."""
        right, mine = map(parts_of, self._both(asked))
        among = (part for part in right if part.kind is not Kind.EFFECT and (shown is None or shown.holds(part)))
        part = next((part for part in among if part in mine and not alike(right[part], mine[part])), None)
        if part is None or not is_fraction(mine[part]):
            return []
        told = [(asked, part, mine[part])]

        def is_told(other: Call) -> bool:
            due, got = map(parts_of, self._both(other))
            if part not in due or part not in got:
                return False
            told.append((other, part, got[part]))
            return is_evidence(Outcome(due[part]), Outcome(got[part])) and not alike(got[part], mine[part])

        if not all(map(is_told, [*like(asked)])):
            return []
        for other in unlike(asked):
            is_told(other)
        for others in discrete(asked).values():
            before = len(told)
            for other in others:
                is_told(other)
            if others and len(told) == before:
                return []
        return told

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
            code = function_in(self._text(asked.lesson, asked.exercise), asked.exercise)
            return None if seen[2].error else sign_of(seen, wrong, self._both, code)
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
        with calls_made() as calls:
            InProcess.run(self._reference.executor, asked)  # Never what is remembered: that runs nothing.
        return max(LEAST_CALLS, calls.total())


def _of_example(bench: Bench, mistake: Mistake, index: int) -> Outcome:
    return bench.ask_example(index, mistake)


class NoExplanation(Explanation):
    """For whoever asks only whether a test passes."""

    def diagnose(self, call: Call, outcome: Outcome, neighbors: bool = True, part: Part | None = None) -> Diagnosis:
        return Diagnosis()
