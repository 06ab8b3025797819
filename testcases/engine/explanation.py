"""Which of a lesson's wrong answers explains what a student's code gave."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from .bench import CHEAP, Suspect
from .changes import WrongAnswer, suspects, wrong_answers
from .compare import same_outcome
from .contract import lesson as read_lesson
from .diagnosis import MAX_FAILED, Search, bench_of
from .evaluate import Evaluator, LocalEvaluator
from .plain import Outcome, Request
from .reading import section_for
from .signs import Seen
from .trusted import Reference, examples, kept
from .where import where

NEAR = 0.75
NOT_EXPLAINED = ("load", "missing", "signature", "timeout", "too large")


@dataclass(frozen=True)
class Diagnosis:
    """What is said about a wrong answer: a listed cause, else general ones, else where it differs."""

    listed: WrongAnswer | None = None
    general: tuple[Suspect, ...] = ()
    where: str = ""

    def lines(self, exercise: str) -> list[str]:
        if self.listed:
            other = self.listed.exercise
            place = "" if other == exercise else f"in {other}, which {exercise} uses: "
            return [f"Likely cause: {place}{self.listed.name}: {self.listed.why}"]
        if self.general:
            texts = " Or ".join(f"{suspect.text}." for suspect in self.general).replace("?.", "?")
            return [f"Likely cause: this is what `{exercise}` gives {texts}".removesuffix(".")]
        return [f"Where it differs: {self.where}"] if self.where else []

    def advice(self, asked: Request, said: Sequence[str] = ()) -> list[str]:
        """What to read, where the report has `said` this, and how to ask for a hint."""
        heading = self.listed.read if self.listed else section_for(asked.lesson, asked.exercise, "\n".join(said))
        return [
            f'Read: tutorial/{asked.lesson}/README.md, "{heading}"',
            f"Hint: make hint LESSON={read_lesson(asked.lesson).number} EXERCISE={asked.exercise}",
        ]


class Explanation:
    """Holds one subject's answers against those of the wrong answers; whatever has been asked is kept."""

    def __init__(self, subject: Evaluator, reference: Reference) -> None:
        self._subject, self._reference = subject, reference
        self._failed: dict[tuple[str, str], list[tuple[Request, Outcome]]] = {}

    def diagnose(self, request: Request, outcome: Outcome, neighbours: bool = True) -> Diagnosis:
        """In layers: each is asked only where those before it found nothing.

        First a listed wrong answer that agrees with the student on every example: one of the exercise, else (with
        `neighbours`) one of another that the exercise calls. Then general causes that agree as well. Failing them, the
        listed one of the exercise that agrees best. At last, where the answers differ.
        """
        if outcome.error and outcome.error.kind in NOT_EXPLAINED:
            return Diagnosis()
        listed = self._listed(request, outcome, neighbours)
        failed = self._failed.setdefault((request.lesson, request.exercise), [])
        failed[:] = [*failed, (request, outcome)][-MAX_FAILED:]
        if listed:
            return Diagnosis(listed)
        if suspects(request.lesson):  # In a hunt, what is found by search would be the answer.
            return Diagnosis(self._closest(request, outcome))
        right = self._reference.evaluate(request)
        with suppress(Exception):  # A changed reference may fail in any way; what cannot be told is left out.
            if general := self._search(request.lesson, request.exercise).causes(request, right, outcome):
                return Diagnosis(general=tuple(general))
        if listed := self._closest(request, outcome):
            return Diagnosis(listed)
        with suppress(Exception):
            return Diagnosis(where=self._where((request, right, outcome), neighbours))
        return Diagnosis()

    def _where(self, failing: Seen, neighbours: bool) -> str:
        key = failing[0].lesson, failing[0].exercise
        if neighbours and (text := self._of_a_neighbour(*failing)):
            return text
        seen = list(zip(examples(*key), self._reference.right_answers_to(*key), self._answers_to(*key), strict=True))
        asked = lambda other: (self._reference.evaluate(other), self._subject.evaluate(other))  # noqa: E731
        return self._kept(*failing) or where(seen, failing, asked)

    def _kept(self, request: Request, right: Outcome, outcome: Outcome) -> str:
        """Whether the answer is another one where the files have just been loaded, and nothing was asked before."""
        if not isinstance(self._subject, LocalEvaluator) or request.seconds > CHEAP:
            return ""
        first = self._subject.afresh().evaluate(request)
        if same_outcome(first, outcome):
            return ""
        told = "right" if same_outcome(first, right) else "another one"
        return f"it depends on the call before: asked first, the answer is {told}. Is something kept between two calls?"

    def _of_a_neighbour(self, request: Request, right: Outcome, mine: Outcome) -> str:
        """Whether the reference's version of one other exercise is enough to mend this very answer."""
        if not isinstance(self._subject, LocalEvaluator):
            return ""
        lesson, used = request.lesson, self._reference.used_by(request.lesson, request.exercise) - {request.exercise}
        for other in (name for name in read_lesson(lesson).exercises if name in used):
            if not self._is_right(lesson, other):
                answer = self._subject.with_reference(lesson, lesson, other).evaluate(request)
                is_right = same_outcome(right, answer)
                if is_right or (mine.error and not answer.error):
                    end = "is right" if is_right else "does not raise"
                    return (
                        f"`{other}` is wrong: with a right one, this call of `{request.exercise}` {end}. Fix it first"
                    )
        return ""

    @kept
    def _search(self, lesson: str, exercise: str) -> Search:
        right = self._reference.right_answers_to(lesson, exercise)
        return Search(bench_of(lesson, exercise), right, self._answers_to(lesson, exercise))

    def _listed(self, request: Request, outcome: Outcome, neighbours: bool) -> WrongAnswer | None:
        """The wrong answer of the list that gives this answer, and agrees with the student on every example."""
        right = self._reference.evaluate(request)
        for wrong in self._agreeing_with(request.lesson, request.exercise, neighbours):
            theirs = self._reference.changed(request.lesson, wrong).evaluate(request)
            # A neighbour's wrong answer that leaves this one right explains nothing, however close it is.
            if same_outcome(outcome, theirs) and not same_outcome(right, theirs) and self._explains_all(wrong, request):
                return wrong
        return None

    def _explains_all(self, wrong: WrongAnswer, request: Request) -> bool:
        """Whether it gives what was given to the last questions, too, that failed."""
        changed = self._reference.changed(request.lesson, wrong)
        failed = self._failed.get((request.lesson, request.exercise), [])
        return all(same_outcome(mine, changed.evaluate(asked)) for asked, mine in failed)

    def _closest(self, request: Request, outcome: Outcome) -> WrongAnswer | None:
        """The nearest to the student of those that reproduce the failing request."""
        best, most = None, 0.0
        for wrong, share in self._shares_of(request.lesson, request.exercise).items():
            if share > most:
                theirs = self._reference.changed(request.lesson, wrong).evaluate(request)
                if same_outcome(outcome, theirs):
                    best, most = wrong, share
        return best

    @kept
    def _shares_of(self, lesson: str, exercise: str) -> dict[WrongAnswer, float]:
        """Of the examples that the student or the wrong answer gets wrong, the share with one value; NEAR at least."""
        own = [wrong for wrong in wrong_answers(lesson) if wrong.exercise == exercise]
        shares = {wrong: self._share(lesson, exercise, wrong) for wrong in own}
        return {wrong: share for wrong, share in shares.items() if share >= NEAR}

    def _share(self, lesson: str, exercise: str, wrong: WrongAnswer) -> float:
        theirs = self._reference.answers_of(lesson, wrong, exercise)
        either = agreed = 0
        right_answers = self._reference.right_answers_to(lesson, exercise)
        for mine, their, right in zip(self._answers_to(lesson, exercise), theirs, right_answers, strict=True):
            if not all(same_outcome(answer, right, values_only=True) for answer in (mine, their)):
                either += 1
                agreed += same_outcome(mine, their, values_only=True)
        return agreed / max(1, either)

    @kept
    def _agreeing_with(self, lesson: str, exercise: str, neighbours: bool) -> list[WrongAnswer]:
        """Wrong answers that agree with the subject on every example.

        First those of a neighbour in which the subject has made just this mistake, then those of the exercise itself.
        """
        # Who is right on every example cannot have gone wrong in a neighbour that the examples go through.
        neighbours = neighbours and not self._is_right(lesson, exercise)
        used = self._reference.used_by(lesson, exercise) if neighbours else {exercise}
        suspected = {other for other in used if other == exercise or not self._is_right(lesson, other)}
        listed = [wrong for wrong in wrong_answers(lesson) if wrong.exercise in suspected]

        def place(wrong: WrongAnswer) -> int:
            return 1 if wrong.exercise == exercise else 0 if self._agrees(lesson, wrong, wrong.exercise) else 2

        return sorted((wrong for wrong in listed if self._agrees(lesson, wrong, exercise)), key=place)

    @kept
    def _is_right(self, lesson: str, exercise: str) -> bool:
        """Whether the subject answers every example of an exercise as the reference does."""
        right = self._reference.right_answers_to(lesson, exercise)
        return all(map(same_outcome, self._answers_to(lesson, exercise), right))

    def _agrees(self, lesson: str, wrong: WrongAnswer, exercise: str) -> bool:
        """Whether subject and wrong answer give the same on every example; most are told apart by the first."""
        answers = self._answers_to(lesson, exercise)
        return bool(answers) and all(
            same_outcome(mine, self._reference.answer_of(lesson, wrong, exercise, i)) for i, mine in enumerate(answers)
        )

    @kept
    def _answers_to(self, lesson: str, exercise: str) -> list[Outcome]:
        """The subject's, on all examples."""
        return [self._subject.evaluate(asked) for asked in examples(lesson, exercise)]


class NoExplanation(Explanation):
    """For whoever asks only whether a test passes."""

    def diagnose(self, request: Request, outcome: Outcome, neighbours: bool = True) -> Diagnosis:
        return Diagnosis()
