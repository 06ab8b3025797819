"""The search for causes where many answers are marked."""

from testcases.harness.diagnosis.explain import Explanation, FirstFailure
from testcases.harness.diagnosis.values import Diagnosis
from testcases.harness.execution.executor import Executor
from testcases.harness.execution.messages import Call, Outcome
from testcases.harness.oracle.reference import Reference

SEARCHES = 2
"""How often the cause of a wrong exercise is looked for."""


class Sparing(Explanation):
    """One cause an exercise is enough: each search runs all wrong answers, which costs more than the test.

    Where live objects are made for each call, only those of the exercise itself: a neighbor has a row of its own.
    """

    def __init__(self, subject: Executor, reference: Reference, first_failure: FirstFailure) -> None:
        super().__init__(subject, reference, first_failure)
        self._tried: dict[tuple[str, str], int] = {}

    def diagnose(self, call: Call, outcome: Outcome, neighbors: bool = True) -> Diagnosis:
        key = call.lesson, call.exercise
        if self._tried.get(key, 0) >= SEARCHES:
            return Diagnosis()
        found = super().diagnose(call, outcome, neighbors and not call.scenario)
        self._tried[key] = SEARCHES if found.is_found else self._tried.get(key, 0) + 1
        return found
