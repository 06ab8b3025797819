"""Where the capstone stands on a wrong block of an earlier lesson: which one, and its likely cause."""

from __future__ import annotations

from .compare import same_outcome
from .contract import lesson as read_lesson
from .contract import lesson_names
from .evaluate import LocalEvaluator
from .explanation import Explanation
from .plain import Outcome, Request
from .reading import section_for
from .session import stub_of
from .trusted import Reference, examples
from .views import View


class Upstream:
    """The student's earlier lessons, each held against the reference on its own examples when it is first asked for."""

    def __init__(self, subject: object, reference: Reference) -> None:
        self._subject, self._reference = subject, reference
        self._fault: tuple[Request, Outcome] | None = None
        self._searched = False

    def lines(self, request: Request) -> list[str]:
        """The end of a report: lesson, cause, what to read. Empty where the exercise itself is wrong, or alone."""
        if not isinstance(self._subject, LocalEvaluator):
            return []
        view = self._subject.view(request.lesson)
        if len(view.own) < 2:
            return []
        alone = LocalEvaluator(lambda lesson: View(view.folder, [lesson]))
        if not same_outcome(alone.evaluate(request), self._reference.evaluate(request)):
            return []
        if not self._searched:
            self._fault, self._searched = self._search(alone, sorted(view.own - {request.lesson})), True
        if self._fault is None:
            return [
                "It is right on the reference's other lessons: one of yours is wrong in a way that no example shows."
            ]
        asked, outcome = self._fault
        number = read_lesson(asked.lesson).number
        diagnosis = Explanation(alone, self._reference).diagnose(asked, outcome)
        cause, likely = diagnosis.listed, diagnosis.lines(asked.exercise)
        heading = cause.read if cause else section_for(asked.lesson, asked.exercise)
        return [
            f"This exercise is right. Lesson {number} is not: {asked.exercise}.",
            *(likely or [f"Run: pytest testcases/{asked.lesson}"]),
            f'Read: tutorial/{asked.lesson}/README.md, "{heading}"',
            f"Hint: make hint LESSON={number} EXERCISE={asked.exercise}",
        ]

    def _search(self, alone: LocalEvaluator, lessons: list[str]) -> tuple[Request, Outcome] | None:
        """The first example of the earlier lessons that is answered otherwise than by the reference."""
        for lesson in (name for name in lesson_names() if name in lessons):
            for exercise in read_lesson(lesson).exercises:
                for asked in examples(lesson, exercise):
                    outcome = alone.evaluate(asked)
                    if stub_of(outcome):
                        break
                    if not same_outcome(outcome, self._reference.evaluate(asked)):
                        return asked, outcome
        return None
