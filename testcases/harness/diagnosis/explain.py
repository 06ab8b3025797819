"""Why an answer is wrong: the layers in order, each asked only where those before it found nothing.

First the exercise that this one calls, if the fault is there, and what an exception says. Then `_search`: the idea, if
a mistake gives all that is wrong or the answer shows it by itself, and the line, if one edit of the student's own code
makes it right; else less sure things. At last nothing, since silence is better than a guess.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from ..catalog import read_lesson
from ..execution.errors import Missing
from ..execution.executor import Executor, InProcess
from ..execution.messages import Call, Outcome, fields_of, identical
from ..oracle.mutations import suspects
from ..oracle.reference import Reference, examples, kept
from ..report.failures import CheckFailed
from .code import bare_function, definitions_in, distance, exercises_named_in, words_of
from .cost import calls_made
from .depends import broken, facts, has_effect, with_other_numbers
from .exceptions import cause_of_error, names_in
from .mistakes import Bench, bench_of
from .own_code import OwnCode
from .parts import Answers, On, agree, is_evidence, same_outcome, says_much, share_of_outcome
from .signs import has_16_bits, sign_of
from .values import Cause, Diagnosis, Invariant, Mistake, Named, Repair, Seen, Shows, Sign, Twice

FirstFailure = Callable[[Executor, str, str], CheckFailed | None]
"""Runs the tests of an exercise, or of a whole lesson where none is named, and gives the first that fails."""
faults: deque[Exception] = deque(maxlen=8)
"""The last ones of the diagnosis itself: a student never sees them, the course's own check does."""
NOT_EXPLAINED = ("load", "missing", "signature", "timeout", "too large")
MAX_SEARCHES, MAX_FAILED = 2, 8
"""For so many tests of an exercise all is tried; so many of those that failed before have to be explained as well."""
CALLS = 100_000
"""So many calls of Python or C may a search lead to, as often as one question leads to fewer."""
MOST_TRIED, FEW, FOR_THE_LINE, LEAST_NAMED = 270, 10, 20, 3
"""A search tries so many mistakes, and twice as many edits of the student's code; in a run's second wrong exercise half
as many, in its third a third: who has many mistakes runs the tests again anyway. Where fewer than LEAST_NAMED can be
tried, one of them is no choice."""
TOO_MANY = CALLS // FEW + 1
"""Calls of a question that is asked in few forms; of how many more, nothing depends."""
CALLS_OF_ONE = CALLS // 8
"""So many calls may one mistake lead to, over all examples."""
MOST_RIGHT, MOST_SLOW, MORE = 3, 4, 0.1
"""Examples that are asked first of all mistakes, and where each costs much; the share that a second mistake adds."""


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

    def diagnose(self, call: Call, outcome: Outcome) -> Diagnosis:
        """Why this answer is wrong, be it by an exercise that this one calls."""
        if outcome.error and outcome.error.kind in NOT_EXPLAINED:
            return Diagnosis()
        found = Diagnosis()
        with left_out():
            found = self._explained((call, self._reference.run(call), outcome))
        with left_out():
            found = replace(found, twice=self._twice(call.lesson, call.exercise))
        return found

    def _explained(self, seen: Seen) -> Diagnosis:
        asked, right, mine = seen
        key = asked.lesson, asked.exercise
        if same_outcome(right, mine):  # Too near to the right answer for any mistake to tell.
            is_right = identical(fields_of(right.value)[0], fields_of(mine.value)[0])  # then the test is wrong
            return Diagnosis((sign,) if not is_right and (sign := self._sign(seen)) else ())
        earlier = self._failed.setdefault(key, [])
        if known := self._known(seen):
            earlier[:] = [*earlier, seen][-MAX_FAILED:]
            return Diagnosis(known)
        if self._cost(asked) < TOO_MANY and (inside := self._inside(seen)):
            return inside
        if mine.error and (sign := cause_of_error(mine.error, asked, names_in(self._text(*key)))):
            return Diagnosis((sign,))
        causes = self._of_what_is_shown(self._search(seen), seen) or self._invariant(seen)
        earlier[:] = [*earlier, seen][-MAX_FAILED:]
        if causes:
            self._found.setdefault(key, []).append(causes)
        return Diagnosis(causes)

    def _known(self, seen: Seen) -> tuple[Cause, ...]:
        """What explained an earlier failure of the exercise, if it explains this one."""
        asked, _, mine = seen
        bench = bench_of(asked.lesson, asked.exercise)
        for causes in self._found.get((asked.lesson, asked.exercise), ()):
            first, last = causes[0], causes[-1]
            explains = isinstance(last, Repair) and last.is_all  # With it every test passed.
            if same_outcome(mine, bench.ask(asked, *first.mistakes)) if isinstance(first, Named) else explains:
                return causes
        return ()

    def _search(self, seen: Seen) -> tuple[Cause, ...]:
        """The order: an idea that explains all, with the line of the student's own code, since a line without an idea
        is a riddle; then two mistakes; then what explains most; then what explains some."""
        asked, _, mine = seen
        key = asked.lesson, asked.exercise
        self._searches[key] += 1
        bench, is_first = bench_of(*key), self._searches[key] == 1
        most = min(MOST_TRIED, CALLS // self._cost(asked)) // len(self._searches)
        if self._searches[key] > MAX_SEARCHES:
            return self._of_one_question(bench, seen, most)
        sign = self._sign(seen)
        candidates, wholes = list[Mistake](), list[Mistake]()
        # Numbers of 16 bits agree by chance.
        for one in () if sign and has_16_bits(asked) else self._candidates(bench, seen, most):
            candidates.append(one)
            if self._is_whole(bench, (one,), seen):
                wholes.append(one)
                if self._answers(*key).wrong_ones:
                    break  # The others are asked only where none gives all, or where no example tells them apart.
        whole = Named((wholes[0],)) if len(wholes) == 1 else None
        idea: Cause | None = whole or sign
        found: tuple[Cause, ...] = (idea,) if idea else ()
        # A search takes long, and an exercise has dozens of tests.
        own = self._own_code(seen, 2 * most, bool(whole)) if is_first and most >= FEW else None
        if own and (line := own.once()):
            if not found and line.step.only_adds:  # Then the line alone gives no idea.
                found = tuple(one for one in self._fact(seen) if getattr(one, "shows", None) is Shows.IGNORED)
            return (*found, line)
        if len(wholes) > 1:
            return found
        if whole or (most < FEW and not suspects(asked.lesson)):
            return found or self._of_one_question(bench, seen, most) or self._of_some_numbers(bench, seen, most)
        near, share = self._nearest_to(bench, [(one,) for one in candidates], On.MOST)
        if share == 1:
            return (Named(near),)
        pairs = self._giving_pairs(seen, candidates, most) if is_first and most >= FEW else []
        if pair := next((pair for pair in pairs if self._is_whole(bench, pair, seen)), ()):
            pair = next(((one,) for one in pair if self._is_whole(bench, (one,), seen)), pair)
            return (Named(near if {*near} & {*pair} else pair),)
        # Of two it is said only where somebody has named both.
        listed = [pair for pair in pairs if pair[0].wrong and pair[1].wrong]
        if near := near or self._nearest_to(bench, listed, On.MOST)[0]:
            return (Named(near, is_all=False),)
        if idea or mine.error:
            return found
        # What has no effect is a fact, and asked for as such.
        every = [(one,) for one in self._sorted(*key)[:most] if not (one.sign and one.sign.shows is Shows.IGNORED)]
        if some := self._nearest_to(bench, [*listed, *every], On.SOME)[0]:
            return (Named(some, is_all=False),)
        if alone := self._of_one_question(bench, seen, most):
            return alone
        return self._fact(seen) or ((place,) if own and (place := own.climb()) else ())

    def _of_what_is_shown(self, causes: tuple[Cause, ...], seen: Seen) -> tuple[Cause, ...]:
        """What a call has changed or drawn is shown before its answer: then only causes of that. Of two mistakes first
        the one that gives more of this answer."""
        asked, right, mine = seen
        bench, is_of_answer = bench_of(asked.lesson, asked.exercise), _effects(right) == _effects(mine)

        def fits(one: Cause) -> bool:
            if isinstance(one, Named):
                return is_of_answer or _effects(bench.ask(asked, *one.mistakes)) == _effects(mine)
            return is_of_answer or not isinstance(one, Sign) or one.shows is Shows.CHANGED

        def sorted_in(one: Cause) -> Cause:
            if not isinstance(one, Named) or len(one.mistakes) < 2:
                return one
            given = sorted(one.mistakes, key=lambda each: -share_of_outcome(mine, bench.ask(asked, each)))
            return replace(one, mistakes=tuple(given))

        return tuple(sorted_in(one) for one in causes if fits(one))

    def _invariant(self, seen: Seen) -> tuple[Cause, ...]:
        """What a repair of a suspect breaks."""
        asked = seen[0]
        if suspect := suspects(asked.lesson).get(asked.exercise):
            questions = [asked, *self._wrong_and_good(asked.lesson, asked.exercise)[0]]
            return (Invariant(text),) if (text := broken(suspect, questions, self._both)) else ()
        return ()

    # The exercise that this one calls

    def _inside(self, seen: Seen) -> Diagnosis | None:
        """Whether another exercise, which this one calls, is at fault: with a right one this answer is right."""
        asked, right, mine = seen
        called = self._called(asked.lesson, asked.exercise) if isinstance(self._subject, InProcess) else []
        for other in (one for one in called if self._answers(asked.lesson, one).wrong_ones):
            with suppress(Missing):  # There is nothing to put the right one in place of.
                answer = self._with_right(asked.lesson, other).run(asked)
                if same_outcome(right, answer) or (mine.error and not answer.error):
                    found = self._of_example(asked.lesson, other)
                    return replace(found, inside=found.inside or other, twice=None)
        return None

    @kept
    def _called(self, lesson: str, exercise: str) -> list[str]:
        """The other exercises that the reference or the student calls."""
        both = self._reference, self._subject
        used = {other for one in both for other in exercises_named_in(one, lesson, exercise)}
        return [other for other in read_lesson(lesson).exercises if other in used]

    @kept
    def _with_right(self, lesson: str, other: str) -> InProcess:
        assert isinstance(self._subject, InProcess)
        found = self._subject.with_texts({})
        found.lend(lesson, other)
        return found

    @kept
    def _of_example(self, lesson: str, exercise: str) -> Diagnosis:
        """Why the subject is wrong in an exercise, from the first of its examples that is."""
        seen = (one for one in self._answers(lesson, exercise).seen if not same_outcome(one[1], one[2]))
        asked, _, mine = next(seen)
        return self.diagnose(asked, mine)

    # What the mistakes answer

    def _candidates(self, bench: Bench, seen: Seen, most: int) -> Iterator[Mistake]:
        """Those that give this answer. A question that costs much is asked of one that gives all examples."""
        every = iter(self._sorted(bench.lesson, bench.exercise))
        if most < FEW:
            answers = self._answers(bench.lesson, bench.exercise)
            alike = (one for one in every if agree(bench.with_mistakes(one), answers, On.ALL))
            # Where no example is wrong, several agree, and only what somebody has named is believed.
            every, most = (alike, 1) if answers.wrong_ones else ((one for one in alike if one.wrong), MOST_SLOW)
        given = (one for one in itertools.islice(every, most) if self._gives(bench, one, seen))
        return (one for one in given if not self._is_refuted((one,), seen))

    def _gives(self, bench: Bench, mistake: Mistake, seen: Seen) -> bool:
        """Whether it gives the answer, or its values where these are wrong: gradients are lost elsewhere as well."""
        asked, right, mine = seen
        theirs = bench.ask(asked, mistake)
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
        return agree(bench.with_mistakes(*mistakes), answers, On.ALL) == 1

    def _nearest_to(
        self, bench: Bench, several: Iterable[tuple[Mistake, ...]], on: On
    ) -> tuple[tuple[Mistake, ...], float]:
        """Those that give most of the answers, and their share; two only where each adds to the other. Where one of two
        gives as much without the other, two more that give these very numbers are others by chance."""
        answers = self._answers(bench.lesson, bench.exercise)
        shares = [(one, agree(bench.with_mistakes(*one), answers, on)) for one in several]
        shares = sorted((one for one in shares if one[1]), key=lambda one: -one[1])
        found, share = next((one for one in shares if len(one[0]) == 1 or self._is_more(bench, one[0])), ((), 0.0))
        if len(found) > 1 and share == shares[0][1] and found != (first := shares[0][0]):
            found = max(first[:1], first[1:], key=lambda one: agree(bench.with_mistakes(*one), answers, On.SOME))
        return found, share

    def _of_one_question(self, bench: Bench, seen: Seen, most: int) -> tuple[Cause, ...]:
        """The one named mistake that gives this answer, and is right wherever the student is: of several mistakes each
        has a question that shows it alone."""
        if most < LEAST_NAMED or suspects(bench.lesson) or not says_much(*seen[1:]):
            return ()
        possible = self._possible(bench.lesson, bench.exercise, most)
        found = [one for one in possible if self._gives(bench, one, seen)]
        if not seen[0].scenario:  # Worked by hand, numbers may be those of two ideas.
            right, mine = self._both(other := with_other_numbers(seen[0]))
            found = [one for one in found if right.error or same_outcome(mine, bench.ask(other, one), values_only=True)]
        return (Named((found[0],), is_all=False),) if len(found) == 1 else ()

    def _of_some_numbers(self, bench: Bench, seen: Seen, most: int) -> tuple[Cause, ...]:
        """The named mistake that gives more of the wrong numbers than each other, where a question costs much."""
        if most < LEAST_NAMED or seen[2].error:
            return ()
        answers = self._answers(bench.lesson, bench.exercise)
        named = self._named(bench.lesson, bench.exercise, most)
        shares = [(agree(bench.with_mistakes(one), answers, On.SOME), one) for one in named]
        best = max((share for share, _ in shares), default=0.0)
        found = [one for share, one in shares if share == best > 0]
        return (Named((found[0],), is_all=False),) if len(found) == 1 else ()

    @kept
    def _possible(self, lesson: str, exercise: str, most: int) -> list[Mistake]:
        """The named mistakes that are right wherever the student is."""
        bench, answers = bench_of(lesson, exercise), self._answers(lesson, exercise)
        right_ones = [answers.seen[i] for i in answers.right_ones]
        return [
            one
            for one in self._named(lesson, exercise, most)
            if all(same_outcome(due, bench.ask(asked, one)) for asked, due, _ in right_ones)
        ]

    def _named(self, lesson: str, exercise: str, most: int) -> list[Mistake]:
        """Twice as many as of all mistakes: each of them is somebody's idea."""
        return [one for one in self._sorted(lesson, exercise) if one.wrong][: 2 * most]

    def _giving_pairs(self, seen: Seen, candidates: Sequence[Mistake], most: int) -> list[tuple[Mistake, ...]]:
        """Two mistakes that together give the values of this answer: first those of which one gives it alone, then
        those whose words are most like the student's."""
        asked, right, mine = seen
        bench = bench_of(asked.lesson, asked.exercise)
        words, answers = self._words(bench.lesson, bench.exercise), self._answers(bench.lesson, bench.exercise)
        each = [one for one in bench.mistakes if one.change and bench.exists(one)]
        # One that is wrong where the student is right is rarely undone by another.
        for i in answers.right_ones[:MOST_RIGHT]:
            example, due, _ = answers.seen[i]
            each = [one for one in each if same_outcome(due, bench.ask(example, one))]
        both = {one: bench.words(one) for one in each}
        pairs = [pair for pair in itertools.combinations(each, 2) if pair[0].wrong or pair[1].wrong]
        pairs.sort(key=lambda pair: (not {*pair} & {*candidates}, distance(words, both[pair[0]] + both[pair[1]])))
        in_value = not same_outcome(right, mine, values_only=True)
        given = [pair for pair in pairs[: most // 2] if same_outcome(mine, bench.ask(asked, *pair), in_value)]
        return [pair for pair in given if not self._is_refuted(pair, seen)]

    def _is_more(self, bench: Bench, pair: tuple[Mistake, ...]) -> bool:
        """Whether two mistakes give more of the numbers than either of them."""
        answers = self._answers(bench.lesson, bench.exercise)
        both, *alone = (agree(bench.with_mistakes(*one), answers, On.SOME) for one in (pair, pair[:1], pair[1:]))
        return both > max(alone) + MORE

    def _is_refuted(self, mistakes: Sequence[Mistake], seen: Seen) -> bool:
        """Whether it says of an argument that it has no effect, and it has one."""
        ignored = [one.sign.about[0] for one in mistakes if one.sign and one.sign.shows is Shows.IGNORED]
        return any(has_effect(seen[0], name, self._both) for name in ignored)

    @kept
    def _sorted(self, lesson: str, exercise: str) -> list[Mistake]:
        """The mistakes, the named ones first, each kind in the order of its words; of a suspect no others."""
        bench, hunt = bench_of(lesson, exercise), suspects(lesson)
        return sorted(
            (one for one in bench.mistakes if bench.exists(one) and (one.wrong or not hunt)),
            key=lambda one: (one.wrong is None, distance(self._words(lesson, exercise), bench.words(one))),
        )

    # What the student's code shows

    def _own_code(self, seen: Seen, most: int, only_line: bool) -> OwnCode | None:
        """For the edits with which every test passes; or, where the mistake is known, for the line that has it: there
        the examples tell, of a few edits."""
        lesson, exercise = key = seen[0].lesson, seen[0].exercise
        # Of a suspect the line that a search finds would be the answer.
        if suspects(lesson) or not isinstance(self._subject, InProcess):
            return None

        def passes(executor: InProcess) -> bool:
            return only_line or self._first_failure(executor, *key) is None

        others = [one for one in self._answers(*key).seen if one[0] is not seen[0]]
        with suppress(LookupError):
            given = bare_function(self._reference.text(lesson, read_lesson(lesson).file_of(exercise)), exercise)
            most = FOR_THE_LINE if only_line else most
            return OwnCode(self._subject, given, self._words(*key), [seen, *others], passes, most)
        return None

    def _sign(self, seen: Seen) -> Sign | None:
        asked = seen[0]
        with left_out():
            wrong, _ = self._wrong_and_good(asked.lesson, asked.exercise)
            return None if seen[2].error else sign_of(seen, wrong, self._both)
        return None

    def _fact(self, seen: Seen) -> tuple[Cause, ...]:
        """What the student's answer depends on, and must not, or must."""
        with left_out():
            wrong_and_good = self._wrong_and_good(seen[0].lesson, seen[0].exercise)
            return (*itertools.islice(facts(seen[0], *wrong_and_good, self._both), 1),)
        return ()

    def _text(self, lesson: str, exercise: str) -> str:
        return self._subject.text(lesson, read_lesson(lesson).file_of(exercise))

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
        own, right = Counter[str](), Counter[str]()
        with suppress(LookupError, SyntaxError, ValueError, RecursionError):
            file = read_lesson(lesson).file_of(exercise)
            texts = (
                ast.unparse(bare_function(one.text(lesson, file), exercise)) for one in (self._subject, self._reference)
            )
            own, right = map(words_of, texts)
        own.subtract(right)
        return own

    # Answers

    @kept
    def _answers(self, lesson: str, exercise: str) -> Answers:
        """The subject's, on all examples, or on the first of those that cost much."""
        asked, right = examples(lesson, exercise), self._reference.right_answers_to(lesson, exercise)
        if asked:
            asked = asked[: max(MOST_SLOW, CALLS_OF_ONE // self._cost(asked[0]))]
        return Answers([(one, due, self._subject.run(one)) for one, due in zip(asked, right, strict=False)])

    def _wrong_and_good(self, lesson: str, exercise: str) -> tuple[list[Call], list[Call]]:
        """The examples that the subject has wrong, and those that it has right."""
        answers = self._answers(lesson, exercise)
        wrong, good = ([answers.seen[i][0] for i in found] for found in (answers.wrong_ones, answers.right_ones))
        return wrong, good

    def _both(self, asked: Call) -> tuple[Outcome, Outcome]:
        return self._reference.run(asked), self._subject.run(asked)

    def _cost(self, asked: Call) -> int:
        """In calls that the right answer takes: the same on each machine."""
        key = asked.lesson, asked.exercise, asked.scenario
        if key not in self._costs:
            # Never what is remembered, since that runs nothing.
            self._costs[key] = calls_made(lambda: InProcess.run(self._reference, asked), most=TOO_MANY)
        return self._costs[key]


def _effects(outcome: Outcome) -> tuple[object, ...]:
    """What a call does beside its answer."""
    return outcome.changed, outcome.left_behind, outcome.used_global_random


class NoExplanation(Explanation):
    """For whoever asks only whether a test passes."""

    def diagnose(self, call: Call, outcome: Outcome) -> Diagnosis:
        return Diagnosis()
