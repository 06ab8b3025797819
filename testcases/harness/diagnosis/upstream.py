"""The capstone on a student's own lessons: what is right there, and which earlier lesson is to blame where it is not.

Another right sampler draws other tokens than the reference's, so there is no one right number of a run. The right
answer is that of the reference's lesson 12 on the student's lessons, if these pass their own suites.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ..catalog.lessons import SOLUTIONS, course_lessons, lesson_names
from ..catalog.lessons import lesson as read_lesson
from ..execution.executor import InProcess, stub_of
from ..execution.messages import Call, Outcome
from ..execution.modules import ModuleSet
from ..oracle.reference import Reference, examples, kept
from ..report.compare import same_outcome
from .explain import Explanation, FirstFailure
from .sentences import advice_of, lines_of
from .values import Diagnosis, Part


@dataclass(frozen=True)
class Fault:
    """A mistake in an earlier lesson."""

    lesson: str
    exercise: str
    asked: Call | None = None
    """A question that is answered wrongly, where there is one."""
    outcome: Outcome | None = None


class Upstream:
    """The student's earlier lessons, each held against the reference when it is first asked for.

    Args:
        first_failure: gives the report of the first test of a lesson's suite that an executor fails, if there is one.
    """

    def __init__(self, subject: object, reference: Reference, first_failure: FirstFailure) -> None:
        self._subject, self._reference, self._first_failure = subject, reference, first_failure
        self._sound: set[str] = set()

    def right_answer(self, call: Call, outcome: Outcome) -> Outcome:
        """The reference's; on a student's own lessons that of the reference's code on those, if they are right."""
        right = self._reference.run(call)
        view = self._stack_of(call)
        if view is None or same_outcome(outcome, right):
            return right
        # Whoever is wrong on the reference's lessons hears that first.
        if not self._is_right_alone(view, call) or self._fault(view, call):
            return right
        on_own = self._of_the_reference_in(view).run(call)
        return right if on_own.error else on_own

    def diagnose(self, call: Call, part: Part | None) -> Diagnosis | None:
        """The cause of a wrong answer as it is on the reference's lessons; None where nothing is wrong there."""
        view = self._stack_of(call)
        if view is None or self._is_right_alone(view, call):
            return None
        return self._explained_alone.diagnose(call, self._alone(view).run(call), part=part)

    def lines(self, call: Call) -> list[str]:
        """The end of a report: lesson, cause, what to read. Empty where the exercise itself is wrong, or alone."""
        view = self._stack_of(call)
        if view is None or not self._is_right_alone(view, call):
            return []
        fault = self._fault(view, call)
        if fault is None:
            return ["It is right on the reference's other lessons, and yours pass their own tests."]
        first = f"This exercise is right. Lesson {read_lesson(fault.lesson).number} is not: {fault.exercise}."
        run = [f"Run: pytest testcases/{fault.lesson}"]
        if fault.asked is None or fault.outcome is None:
            return [first, *run]
        diagnosis = self._explained_alone.diagnose(fault.asked, fault.outcome)
        return [first, *(lines_of(diagnosis, fault.exercise) or run), *advice_of(diagnosis, fault.asked)]

    def _stack_of(self, call: Call) -> ModuleSet | None:
        """The view of a student's whole stack; None where the other lessons are the reference's."""
        view = self._subject.modules(call.lesson) if isinstance(self._subject, InProcess) else None
        return view if view is not None and len(view.own) > 1 else None

    @kept
    def _alone(self, view: ModuleSet) -> InProcess:
        """The student's lessons, each on the reference's others."""
        return InProcess(lambda lesson: ModuleSet(view.folder, [lesson]))

    @cached_property
    def _explained_alone(self) -> Explanation:
        assert isinstance(self._subject, InProcess)
        capstone = course_lessons()[-1]
        return Explanation(self._alone(self._subject.modules(capstone)), self._reference, self._first_failure)

    def _is_right_alone(self, view: ModuleSet, call: Call) -> bool:
        return same_outcome(self._alone(view).run(call), self._reference.run(call))

    @kept
    def _of_the_reference_in(self, view: ModuleSet, *lessons: str) -> InProcess:
        """The student's stack with the reference's files for these lessons; for the last one where none is named."""
        files = [path for name in lessons or (max(view.own),) for path in (SOLUTIONS / name).glob("*.py")]
        texts = {f"{path.parent.name}/{path.name}": path.read_text("utf-8") for path in files}
        mended = ModuleSet(view.folder, view.own, texts)
        return InProcess(lambda lesson: mended)

    def _fault(self, view: ModuleSet, call: Call) -> Fault | None:
        """The first mistake of a lesson that this answer depends on."""
        felt = [*self._felt(view, call)]
        found = (self._fault_by_example(view, call, lesson) for lesson in felt)
        fault = next(filter(None, found), None) or next(filter(None, (self._fails(view, one) for one in felt)), None)
        if fault is None:
            self._sound.update(felt)
        return fault

    def _felt(self, view: ModuleSet, call: Call) -> Iterator[str]:
        """The earlier lessons without which, on the reference's instead, the answer is another one; but those that are
        known to pass their own suites. None where it is the same without them all: mostly one question, not eleven."""
        assert isinstance(self._subject, InProcess)
        mine = self._subject.run(call)
        own = [one for one in lesson_names() if one in view.own and one not in {call.lesson, *self._sound}]

        def is_felt(*lessons: str) -> bool:
            return not same_outcome(mine, self._of_the_reference_in(view, *lessons).run(call))

        if own and is_felt(*own):
            yield from filter(is_felt, own)

    def _fault_by_example(self, view: ModuleSet, call: Call, lesson: str) -> Fault | None:
        """A wrong answer to an example of the first exercise whose mistake this answer feels."""
        assert isinstance(self._subject, InProcess)
        mine = self._subject.run(call)
        for exercise in read_lesson(lesson).exercises:
            if fault := self._fault_in(view, lesson, exercise):
                mended = self._subject.with_reference(lesson, exercise)
                if not same_outcome(mine, mended.run(call)):
                    return fault
        return None

    @kept
    def _fault_in(self, view: ModuleSet, lesson: str, exercise: str) -> Fault | None:
        """The first example of an exercise that is answered otherwise than by the reference."""
        for asked in examples(lesson, exercise):
            outcome = self._alone(view).run(asked)
            if stub_of(outcome):
                return None
            if not same_outcome(outcome, self._reference.run(asked)):
                return Fault(lesson, exercise, asked, outcome)
        return None

    @kept
    def _fails(self, view: ModuleSet, lesson: str) -> Fault | None:
        """The first test of its own suite that a lesson of the student's fails."""
        failed = self._first_failure(self._alone(view), lesson, "")
        return Fault(lesson, failed.exercise, failed.call, failed.outcome) if failed else None
