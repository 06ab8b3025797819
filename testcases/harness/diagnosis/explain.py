"""Which of a lesson's wrong answers explains what a student's code gave."""

import functools
import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache

from ..catalog import lesson as read_lesson
from ..execution import Evaluator, LocalEvaluator, Outcome, Request
from ..oracle import Change, Reference, WrongAnswer, cost_of, examples, kept, region_text, suspects, wrong_answers
from ..report import CheckFailed, same_outcome
from .by_part import Parts, Share, agreement, reaches
from .causes import Cause, Diagnosis, InParts, Invariant, Listed, Location, Partial, Repaired, Twice
from .evidence import Evidence, Part, Place, Seen, Sign, broken, cause_of_error, cause_shown, facts, names_in, where
from .hypotheses import CHEAP, Hypothesis, OwnCode, Repair, definitions_in, distance, function_in, words_of
from .search import LEAST_REPAIRS, MAX_FAILED, MAX_REPAIR, MAX_SEARCHES, Failed, Search, bench_of, repaired_by

FirstFailure = Callable[[Evaluator, str, str], CheckFailed | None]
"""Runs the tests of an exercise, or of a whole lesson where none is named, and gives the first that fails."""
NEAR = 0.75
faults: deque[Exception] = deque(maxlen=8)
"""The last ones of the diagnosis itself: a student never sees them, the course's own check does."""
NOT_EXPLAINED = ("load", "missing", "signature", "timeout", "too large")


@contextmanager
def left_out() -> Iterator[None]:
    """What cannot be told in this block is left out: a student's answer may be anything."""
    try:
        yield
    except Exception as error:
        faults.append(error)


@cache
def words_changed(lesson: str, wrong: WrongAnswer) -> Counter[str]:
    """How many more there are of each in a wrong answer's code than in the reference's."""
    region = region_text(lesson, wrong.exercise)
    words = words_of(wrong.change.apply(region) if isinstance(wrong.change, Change) else region)
    words.subtract(words_of(region))
    return words


class Explanation:
    """Holds one subject's answers against those of the wrong answers; whatever has been asked is kept."""

    def __init__(self, subject: Evaluator, reference: Reference, first_failure: FirstFailure) -> None:
        self._subject, self._reference, self._first_failure = subject, reference, first_failure
        self._failed: dict[tuple[str, str], list[Failed]] = {}
        self._afresh: Counter[tuple[str, str]] = Counter()
        self._searched: dict[tuple[str, str], list[Repaired | None]] = {}

    def diagnose(
        self, request: Request, outcome: Outcome, neighbors: bool = True, part: Part | None = None
    ) -> Diagnosis:
        """The cause, and whether the file defines the function more than once: then the last one is meant."""
        twice = None
        with left_out():
            twice = self._twice(request.lesson, request.exercise)
        return replace(self._cause_of(request, outcome, neighbors, part), twice=twice)

    def _cause_of(self, request: Request, outcome: Outcome, neighbors: bool, part: Part | None) -> Diagnosis:
        """In layers: each is asked only where those before it found nothing. `part`: of the answer, which is shown.

        First a listed wrong answer that agrees with the student on every example: one of the exercise, else (with
        `neighbors`) one of another that the exercise calls. Then general causes that agree as well. Failing them, the
        listed one of the exercise that agrees best. Then what the answer shows by itself, and where it differs.
        """
        if outcome.error and outcome.error.kind in NOT_EXPLAINED:
            return Diagnosis()
        right, failed = self._reference.evaluate(request), Failed(request, outcome, part)
        earlier = self._failed.setdefault((request.lesson, request.exercise), [])
        # A neighbor's wrong answer that leaves this one right explains nothing, however close it is.
        listed = None if same_outcome(right, outcome) else self._listed(failed, earlier, neighbors)
        earlier[:] = [*earlier, failed][-MAX_FAILED:]
        if listed:
            return Diagnosis((Listed(listed),))
        seen = request, right, outcome
        if suspects(request.lesson):
            return Diagnosis(self._in_a_hunt(seen, failed))
        near, several, repaired = self._closest(failed), tuple[InParts, ...](), None
        with left_out():
            general, values_only = self._search(request.lesson, request.exercise).causes(failed, right)
            if general and not (values_only and near and near.is_whole):
                return Diagnosis(tuple(general))
        with left_out():
            several, is_whole = self._by_part(seen, part, leads=not near)
            if is_whole and (any(one.is_here for one in several) or not near):
                return Diagnosis(several)
        with left_out():
            search = self._search(request.lesson, request.exercise)
            general, values_only = search.causes(failed, right, pairs=True)
            # One mistake that explains nearly all is surer than it with another, or than what has the values only.
            if near and (near.is_whole or any(near.wrong.name in one.listed for one in general)):
                return Diagnosis((near,))
            # Of a pair, only this question tells the second one where the first explains all the others.
            if general and not any(one.is_here and one.count == one.most for one in several):
                return Diagnosis(tuple(general))
        is_told = any(one.is_here for one in several)
        with left_out():
            # Two mistakes, each known by its part, are no edit or two.
            repaired = None if is_told and len(several) > 1 else self._repaired(failed, right)
        if is_told and not (repaired and repaired.is_whole):
            return Diagnosis(several)
        first = self._of_this(seen, part, near, repaired, neighbors)
        if (repaired and repaired.is_whole) or any(isinstance(one, Location) and one.is_elsewhere for one in first):
            return Diagnosis(first)  # Nothing else is wrong here.
        said = [one.listed for cause in first if isinstance(cause, Partial) for one in cause.of]
        # What leaves half of the wrong answers unexplained is no help beside what this one shows.
        most = (one for one in several if (one.wrong.name,) not in said and (not first or 2 * one.count > one.most))
        return Diagnosis((*first, *most))

    def _in_a_hunt(self, seen: Seen, failed: Failed) -> tuple[Cause, ...]:
        """Of a repair of lesson 10: what is found by search would be the answer, so it is a place at most."""
        request, right, _ = seen
        near, shown = self._closest(failed), list[Cause]()
        with left_out():
            shown = self._shown(seen) or self._depends(seen, failed.part, search=False)
        with left_out():
            repaired = None if near or shown else self._repaired(failed, right)
            if repaired and self._is_own(request, repaired):
                shown = [Sign.NOT_YET(repaired.repairs[0].line, repaired.repairs[0].shown)]
        if not (near or shown) and (suspect := suspects(request.lesson).get(request.exercise)):
            questions = [request, *self._wrong_of(request.lesson, request.exercise)]
            return (Invariant(text),) if (text := broken(suspect, questions, self._both)) else ()
        return (*([near] if near else []), *shown)

    def _of_this(
        self, seen: Seen, part: Part | None, near: Listed | None, repaired: Repaired | None, neighbors: bool
    ) -> tuple[Cause, ...]:
        """Of an answer that no cause gives: a repair, the nearest listed one, what it shows, where it differs."""
        outcome, shown = seen[2], list[Cause]()
        if near and not (repaired and repaired.is_whole):
            return (near,)
        with left_out():
            shown = self._kept(*seen) or self._shown(seen)
        if repaired and (repaired.is_whole or not shown):
            return (*shown, repaired)
        with left_out():
            if not shown and neighbors and (other := self._of_a_neighbor(*seen)):
                return (Location((other,)),)
        with left_out():
            shown = shown or self._depends(seen, part)
        with left_out():
            if not shown and outcome.value is not None and (told := self._where(seen)):
                return (Location(tuple(told)),)
        return tuple(shown)

    def _shown(self, seen: Seen) -> list[Cause]:
        """What an exception, or the answer, shows by itself."""
        asked, _, mine = seen
        if mine.error:
            found = cause_of_error(mine.error, asked, self._names(asked.lesson, asked.exercise))
        else:
            wrong, words = self._wrong_of(asked.lesson, asked.exercise), self._text(asked.lesson, asked.exercise)
            found = cause_shown(seen, wrong, self._both, words)
        return [found] if found else []

    def _depends(self, seen: Seen, part: Part | None, search: bool = True) -> list[Cause]:
        """What explains a part of what is wrong, and what the code depends on and must not."""
        asked, right, mine = seen
        if mine.error or mine.value is None or mine.used_global_random > right.used_global_random:
            return []
        wrong = self._wrong_of(asked.lesson, asked.exercise)
        known = {id(one) for one in wrong}
        good = [one for one in examples(asked.lesson, asked.exercise) if id(one) not in known]
        found: list[Cause] = list(itertools.islice(facts(asked, part, wrong, good, self._both), 2))
        finder = self._search(asked.lesson, asked.exercise) if search else None
        most_of, is_leading = finder.partly(self._subject.evaluate) if finder else None, False
        if most_of:
            hypothesis, count, most = most_of
            theirs = bench_of(asked.lesson, asked.exercise).ask(hypothesis, asked)
            is_leading = count >= max(2, NEAR * most) and reaches(right, theirs, part)
        # What explains nearly all questions is surer than what explains those like this one.
        if finder and not is_leading and (near := finder.nearby(asked, part, self._subject.evaluate)):
            given = functools.partial(self._given_by, near[0])
            known_too = set(facts(asked, part, wrong, good, given)) if found else set()
            return [Partial(tuple(near)), *[one for one in found if one not in known_too][:1]]
        if most_of:
            # Where the value is given, its gradient may be another one, of NaN for example.
            is_given = reaches(right, theirs, part) and same_outcome(mine, theirs, values_only=True)
            is_here = is_leading or is_given or bool(agreement(right, mine, theirs, part))
            cause = Partial((hypothesis,), count, most, is_here)
            if is_here:
                return [cause, *found[:1]]
            return [*found[:1], cause] if 2 * count > most else found
        return found

    def _text(self, lesson: str, exercise: str) -> str:
        """The student's function."""
        return function_in(self._subject.text(lesson, read_lesson(lesson).file_of(exercise)), exercise)

    @kept
    def _twice(self, lesson: str, exercise: str) -> Twice | None:
        """Of a method whose class is defined more than once, those of the class."""
        text = self._subject.text(lesson, read_lesson(lesson).file_of(exercise))
        owner = exercise.rpartition(".")[0]
        with suppress(SyntaxError, ValueError):
            for name in filter(None, (owner, exercise)):
                if len(found := definitions_in(text, name)) > 1:
                    return Twice(name, tuple(one.lineno for one in found))
        return None

    def _names(self, lesson: str, exercise: str) -> set[str]:
        return names_in(self._subject.text(lesson, read_lesson(lesson).file_of(exercise)))

    @kept
    def _wrong_of(self, lesson: str, exercise: str) -> list[Request]:
        """The examples that the subject has wrong."""
        every = zip(
            examples(lesson, exercise),
            self._reference.right_answers_to(lesson, exercise),
            self._answers_to(lesson, exercise),
            strict=True,
        )
        return [asked for asked, right, mine in every if not same_outcome(right, mine)]

    def _both(self, asked: Request) -> tuple[Outcome, Outcome]:
        return self._reference.evaluate(asked), self._subject.evaluate(asked)

    def _given_by(self, hypothesis: Hypothesis, asked: Request) -> tuple[Outcome, Outcome]:
        bench = bench_of(asked.lesson, asked.exercise)
        return bench.ask(Hypothesis(""), asked), bench.ask(hypothesis, asked)

    def _where(self, failing: Seen) -> list[Evidence]:
        key = failing[0].lesson, failing[0].exercise
        seen = list(zip(examples(*key), self._reference.right_answers_to(*key), self._answers_to(*key), strict=True))
        return where(seen, failing, self._both)

    def _kept(self, request: Request, right: Outcome, outcome: Outcome) -> list[Cause]:
        """Whether the answer is another one where the files have just been loaded, and nothing was asked before."""
        key = request.lesson, request.exercise
        if not isinstance(self._subject, LocalEvaluator) or request.seconds > CHEAP or self._afresh[key] == MAX_FAILED:
            return []
        self._afresh[key] += 1
        first = self._subject.afresh().evaluate(request)
        if same_outcome(first, outcome):
            return []
        return [Sign.KEPT() + (Sign.RIGHT_AT_FIRST if same_outcome(first, right) else Sign.OTHER_AT_FIRST)()]

    def _of_a_neighbor(self, request: Request, right: Outcome, mine: Outcome) -> Evidence | None:
        """Whether the reference's version of one other exercise makes this very answer right."""
        if not isinstance(self._subject, LocalEvaluator):
            return None
        lesson, used = request.lesson, self._reference.used_by(request.lesson, request.exercise) - {request.exercise}
        for other in (name for name in read_lesson(lesson).exercises if name in used):
            if not self._is_right(lesson, other):
                answer = self._subject.with_reference(lesson, lesson, other).evaluate(request)
                is_right = same_outcome(right, answer)
                if is_right or (mine.error and not answer.error):
                    return (Place.OTHER_RIGHT if is_right else Place.OTHER_RAISES)(other, request.exercise)
        return None

    @kept
    def _search(self, lesson: str, exercise: str) -> Search:
        right = self._reference.right_answers_to(lesson, exercise)
        costs = self._costs(lesson, exercise)
        mine, words = self._answers_to(lesson, exercise), self._words(lesson, exercise)
        named = {wrong.name: wrong for wrong in wrong_answers(lesson) if wrong.exercise == exercise}

        def listed(name: str, i: int) -> Outcome:
            return self._reference.answer_of(lesson, named[name], exercise, i)

        return Search(bench_of(lesson, exercise), right, mine, costs, words, listed)

    def _repaired(self, failed: Failed, right: Outcome) -> Repaired | None:
        """The one edit of the student's own code with which this answer is right, and most others.

        Searched for twice at most: a search takes a second, and an exercise has dozens of tests.
        """
        lesson, exercise = failed.request.lesson, failed.request.exercise
        if same_outcome(right, failed.mine) or (own := self._own_code(lesson, exercise)) is None:
            return None
        seen, searched = (failed.request, right, failed.mine), self._searched.setdefault((lesson, exercise), [])
        for known in filter(None, searched):
            if known.repairs[-1].is_right(*seen[:2]):
                return known
        if len(searched) < MAX_SEARCHES:
            answers = zip(
                examples(lesson, exercise),
                self._reference.right_answers_to(lesson, exercise),
                self._answers_to(lesson, exercise),
                strict=True,
            )
            most = max(MAX_REPAIR // min(self._costs(lesson, exercise), default=1), LEAST_REPAIRS)
            words = self._words(lesson, exercise)
            searched.append(repaired_by(own, words, most, seen, list(answers), self._passes))
            return searched[-1]
        return None

    def _passes(self, repair: Repair) -> bool:
        """Whether the exercise passes all its tests with this edit: only then a student is told so."""
        with repair.of.changed_by(repair) as evaluator:
            return self._first_failure(evaluator, repair.of.lesson, repair.of.exercise) is None

    def _is_own(self, asked: Request, repaired: Repaired) -> bool:
        """Whether the student wrote the line: of a line that was handed out, a word would end the hunt."""
        lesson, exercise = asked.lesson, asked.exercise
        file, wrong = read_lesson(lesson).file_of(exercise), suspects(lesson)[exercise]
        given = {line.strip() for line in self._reference.changed(lesson, wrong).text(lesson, file).splitlines()}
        lines = self._subject.text(lesson, file).splitlines()
        return all(lines[one.line - 1].strip() not in given for one in repaired.repairs)

    @kept
    def _own_code(self, lesson: str, exercise: str) -> OwnCode | None:
        with suppress(LookupError):
            if isinstance(self._subject, LocalEvaluator):
                return OwnCode(self._subject, bench_of(lesson, exercise))
        return None

    @kept
    def _words(self, lesson: str, exercise: str) -> Counter[str]:
        """How many more there are of each in the subject's code than in the reference's; none where it has no text."""
        file = read_lesson(lesson).file_of(exercise)
        own, right = (
            words_of(function_in(one.text(lesson, file), exercise))
            for one in (self._subject, self._reference.evaluator)
        )
        own.subtract(right if own else ())
        return own

    def _ask(self, wrong: WrongAnswer, request: Request) -> Outcome:
        return self._reference.changed(request.lesson, wrong).evaluate(request)

    def _listed(self, failed: Failed, earlier: list[Failed], neighbors: bool) -> WrongAnswer | None:
        """The wrong answer of the list that gives this answer and the last that failed, and agrees on every example."""
        agreeing = self._agreeing_with(failed.request.lesson, failed.request.exercise, neighbors)
        gives = (wrong for wrong in agreeing if all(one.is_given_by(wrong, self._ask) for one in (failed, *earlier)))
        return next(gives, None)

    def _by_part(self, seen: Seen, part: Part | None, leads: bool) -> tuple[tuple[InParts, ...], bool]:
        """The listed ones that give parts of what is wrong, first those of this answer; and whether that is all.

        One that gives none of this answer has to be in a fourth of the others: in fewer, it may agree by chance. With
        `leads`, one that explains nearly all the others and has this one wrong too is of this answer as well: the
        student's other steps hide its very number, as a mask at the end may.
        """
        asked, right, mine = seen
        parts, chosen = self._parts_of(asked.lesson, asked.exercise)
        theirs = {one.wrong: self._ask(one.wrong, asked) for one in chosen}
        fits = {wrong: agreement(right, mine, their, part) for wrong, their in theirs.items()}
        told = []
        for one in (one for one in chosen if fits[one.wrong] is not None):
            named, count, most = parts.told(one)
            is_leading = leads and count >= NEAR * most and reaches(right, theirs[one.wrong], part)
            is_here = bool(fits[one.wrong]) or is_leading
            if is_here or 4 * count >= most:
                told.append(InParts(one.wrong, is_here, named, count, most))
        return tuple(sorted(told, key=lambda one: not one.is_here)), bool(told) and parts.are_whole(chosen)

    @kept
    def _parts_of(self, lesson: str, exercise: str) -> tuple[Parts, list[Share]]:
        """Of the subject's answers, and the listed ones that give some of the wrong and none of the right otherwise."""
        parts = Parts(self._reference.right_answers_to(lesson, exercise), self._answers_to(lesson, exercise))
        words, shares = self._words(lesson, exercise), list[Share]()
        # Where nothing is right, nothing speaks against any of them.
        for wrong in wrong_answers(lesson) if parts.wrong and parts.has_good else ():
            if wrong.exercise == exercise:
                answer = functools.partial(self._reference.answer_of, lesson, wrong, exercise)
                shares += filter(None, [parts.share_of(wrong, answer)])
        return parts, parts.chosen(shares, lambda wrong: distance(words, words_changed(lesson, wrong)))

    def _closest(self, failed: Failed) -> Listed | None:
        """The nearest to the student of those that reproduce the failing request."""
        lesson, exercise = failed.request.lesson, failed.request.exercise
        own = [wrong for wrong in wrong_answers(lesson) if wrong.exercise == exercise]
        # Somebody waits for the first report: it asks for few shares; the later ones are spared many answers by them.
        is_first = len(self._failed[lesson, exercise]) == 1
        near = [one for one in own if is_first or self._share(lesson, exercise, one) >= NEAR]
        given = {one: self._share(lesson, exercise, one) for one in near if failed.is_given_by(one, self._ask)}
        given = {one: share for one, share in given.items() if share >= NEAR}
        if not given:
            return None
        wrong = max(given, key=given.__getitem__)
        mine, right = self._answers_to(lesson, exercise), self._reference.right_answers_to(lesson, exercise)
        differ = [i for i, pair in enumerate(zip(mine, right, strict=True)) if not same_outcome(*pair, True)]
        theirs = (self._reference.answer_of(lesson, wrong, exercise, i) for i in differ)
        count = sum(same_outcome(mine[i], their, True) for i, their in zip(differ, theirs, strict=True))
        return Listed(wrong, count, len(differ), given[wrong] == 1)

    @kept
    def _share(self, lesson: str, exercise: str, wrong: WrongAnswer) -> float:
        """Of the examples that the student or the wrong answer gets wrong, the share with one value; 0 if it is small.

        Many changes raise an error of one type: it makes none of them near.
        """
        if all(mine.error for mine in self._answers_to(lesson, exercise)):
            return 0.0
        mine, right = self._answers_to(lesson, exercise), self._reference.right_answers_to(lesson, exercise)
        is_wrong = [not same_outcome(*pair, values_only=True) for pair in zip(mine, right, strict=True)]
        agreed, differ, left = 0, 0, sum(is_wrong)
        for i in self._order(lesson, exercise):
            their = self._reference.answer_of(lesson, wrong, exercise, i)
            if is_wrong[i] or not same_outcome(their, right[i], values_only=True):
                same = same_outcome(mine[i], their, values_only=True)
                agreed, differ = agreed + same, differ + (not same)
            left -= is_wrong[i]
            if agreed + left < NEAR * (agreed + left + differ):
                return 0.0  # It is far, whatever comes.
        return agreed / max(1, agreed + differ)

    def _agreeing_with(self, lesson: str, exercise: str, neighbors: bool) -> Iterator[WrongAnswer]:
        """Wrong answers that agree with the subject on every example.

        First those of a neighbor in which the subject has made just this mistake, then those of the exercise itself.
        """
        # Who is right on every example cannot have gone wrong in a neighbor that the examples go through.
        neighbors = neighbors and not self._is_right(lesson, exercise)
        used = self._reference.used_by(lesson, exercise) - {exercise} if neighbors else ()
        suspected = {other for other in used if not self._is_right(lesson, other)}
        others = [
            one for one in wrong_answers(lesson) if one.exercise in suspected and self._agrees(lesson, one, exercise)
        ]
        same = [wrong for wrong in others if self._agrees(lesson, wrong, wrong.exercise)]
        yield from same
        own = [wrong for wrong in wrong_answers(lesson) if wrong.exercise == exercise]
        words = self._words(lesson, exercise)
        nearest = sorted(own, key=lambda wrong: distance(words, words_changed(lesson, wrong)))
        yield from (wrong for wrong in nearest if self._agrees(lesson, wrong, exercise))
        yield from (wrong for wrong in others if wrong not in same)

    @kept
    def _is_right(self, lesson: str, exercise: str) -> bool:
        """Whether the subject answers every example of an exercise as the reference does."""
        right = self._reference.right_answers_to(lesson, exercise)
        return all(map(same_outcome, self._answers_to(lesson, exercise), right))

    @kept
    def _agrees(self, lesson: str, wrong: WrongAnswer, exercise: str) -> bool:
        """Whether subject and wrong answer give the same on every example; most are told apart by the first."""
        mine = self._answers_to(lesson, exercise)
        agree = (
            same_outcome(mine[i], self._reference.answer_of(lesson, wrong, exercise, i))
            for i in self._order(lesson, exercise)
        )
        return bool(mine) and all(agree)

    @kept
    def _order(self, lesson: str, exercise: str) -> list[int]:
        """The numbers of the examples; first those that the subject has wrong, which tell most, the cheapest of them
        first."""
        right, costs = self._reference.right_answers_to(lesson, exercise), self._costs(lesson, exercise)
        is_right = [*map(same_outcome, self._answers_to(lesson, exercise), right)]
        return sorted(range(len(right)), key=lambda i: (is_right[i], costs[i]))

    @kept
    def _costs(self, lesson: str, exercise: str) -> list[int]:
        """Of the examples; nobody asks for them where the subject has all of them right."""
        if self._is_right(lesson, exercise):
            return [1] * len(examples(lesson, exercise))
        # Most calls of a question without a scenario are the guards around it, and the search goes without.
        guards = [1 if asked.scenario else 4 for asked in examples(lesson, exercise)]
        calls = self._reference.calls_of(lesson, exercise)
        return [cost_of(one) // most for one, most in zip(calls, guards, strict=True)]

    @kept
    def _answers_to(self, lesson: str, exercise: str) -> list[Outcome]:
        """The subject's, on all examples."""
        return [self._subject.evaluate(asked) for asked in examples(lesson, exercise)]


class NoExplanation(Explanation):
    """For whoever asks only whether a test passes."""

    def diagnose(
        self, request: Request, outcome: Outcome, neighbors: bool = True, part: Part | None = None
    ) -> Diagnosis:
        return Diagnosis()
