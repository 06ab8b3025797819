"""Which block of an earlier lesson makes the capstone fail, and the likely cause."""

from __future__ import annotations

from .compare import same_outcome
from .contract import lesson as read_lesson
from .contract import lesson_names
from .evaluate import LocalEvaluator, stub_of
from .explanation import Explanation
from .plain import Outcome, Request
from .trusted import Reference, examples, kept
from .views import View


class Upstream:
    """The student's earlier lessons, each held against the reference on its own examples when it is first asked for."""

    def __init__(self, subject: object, reference: Reference) -> None:
        self._subject, self._reference = subject, reference

    def lines(self, request: Request) -> list[str]:
        """The end of a report: lesson, cause, what to read. Empty where the exercise itself is wrong, or alone."""
        if not isinstance(self._subject, LocalEvaluator):
            return []
        view = self._subject.view(request.lesson)
        if len(view.own) < 2:
            return []
        alone = self._alone(view)
        if not same_outcome(alone.evaluate(request), self._reference.evaluate(request)):
            return []
        fault = self._fault(view, request)
        if fault is None:
            return [
                "It is right on the reference's other lessons: one of yours is wrong in a way that no example shows."
            ]
        asked, outcome = fault
        diagnosis = Explanation(alone, self._reference).diagnose(asked, outcome)
        return [
            f"This exercise is right. Lesson {read_lesson(asked.lesson).number} is not: {asked.exercise}.",
            *(diagnosis.lines(asked.exercise) or [f"Run: pytest testcases/{asked.lesson}"]),
            *diagnosis.advice(asked),
        ]

    @kept
    def _alone(self, view: View) -> LocalEvaluator:
        """The student's lessons, each on the reference's others."""
        return LocalEvaluator(lambda lesson: View(view.folder, [lesson]))

    def _fault(self, view: View, request: Request) -> tuple[Request, Outcome] | None:
        """A wrong answer to an example of the first earlier exercise whose mistake this answer feels."""
        assert isinstance(self._subject, LocalEvaluator)
        mine = self._subject.evaluate(request)
        for lesson in (name for name in lesson_names() if name in view.own and name != request.lesson):
            for exercise in read_lesson(lesson).exercises:
                if fault := self._fault_in(view, lesson, exercise):
                    mended = self._subject.with_reference(request.lesson, lesson, exercise)
                    if not same_outcome(mine, mended.evaluate(request)):
                        return fault
        return None

    @kept
    def _fault_in(self, view: View, lesson: str, exercise: str) -> tuple[Request, Outcome] | None:
        """The first example of an exercise that is answered otherwise than by the reference."""
        for asked in examples(lesson, exercise):
            outcome = self._alone(view).evaluate(asked)
            if stub_of(outcome):
                return None
            if not same_outcome(outcome, self._reference.evaluate(asked)):
                return asked, outcome
        return None
