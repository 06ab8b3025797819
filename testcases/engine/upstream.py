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
        fault = self._fault(view, request.lesson)
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

    @kept
    def _fault(self, view: View, capstone: str) -> tuple[Request, Outcome] | None:
        """The first example of the earlier lessons that is answered otherwise than by the reference."""
        alone = self._alone(view)
        for lesson in (name for name in lesson_names() if name in view.own and name != capstone):
            for exercise in read_lesson(lesson).exercises:
                for asked in examples(lesson, exercise):
                    outcome = alone.evaluate(asked)
                    if stub_of(outcome):
                        break
                    if not same_outcome(outcome, self._reference.evaluate(asked)):
                        return asked, outcome
        return None
