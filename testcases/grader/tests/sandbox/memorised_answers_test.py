"""A table of all that the suites ask in public, in the place of the worker's driver: it earns what a stub earns."""

from types import SimpleNamespace
from typing import Any

import pytest

from testcases.grader.marking.grade import Grader, Secret, plan
from testcases.harness.catalog import lesson_names, read_lesson
from testcases.harness.diagnosis.explain import NoExplanation
from testcases.harness.execution.messages import Call, Outcome, StudentError, tensors_in
from testcases.harness.oracle.reference import Reference, drawn, key_of, shared_reference
from testcases.harness.suite.session import Engine

PUBLIC = 0


class ByHeart:
    """Knows the right answer to each public question. To another it says what it knows of one with the same shapes."""

    def __init__(self, teacher: Reference) -> None:
        self.teacher, self.learns = teacher, True
        self.table: dict[Any, Outcome] = {}
        self.unloaded: dict[str, StudentError] = {}

    def run(self, call: Call) -> Outcome:
        key, kind = key_of(call), _kind(call)
        if self.learns and key not in self.table:
            self.table[key] = self.table[kind] = self.teacher.run(call)
        nothing = Outcome(error=StudentError("raised", "KeyError", "not in the table"))
        return self.table.get(key) or self.table.get(kind, nothing)

    def text(self, lesson: str, file: str) -> str:
        return self.teacher.text(lesson, file)

    def refused(self, lesson: str, exercise: str) -> StudentError | None:
        return None

    def settle(self, lesson: str, exercise: str) -> bool:
        return True

    def finish(self) -> None:
        pass


def _kind(call: Call) -> Any:
    shapes = [(name, *(tuple(tensor.shape) for tensor in tensors_in(value))) for name, value in call.arguments.items()]
    return call.exercise, call.scenario, call.grad_of, call.grad_through, str(shapes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "lesson, exercise",
    [
        ("lesson01_masked_sequences", "response_mask"),
        ("lesson04_gae", "td_errors"),
        ("lesson09_ppo_trainer", "PPOTrainer.save_checkpoint"),
        ("lesson10_bug_hunt", "test_response_mask"),
    ],
)
def test_a_table_earns_nothing(lesson: str, exercise: str):
    subject = ByHeart(shared_reference())
    tests = plan(((lesson, exercise),))[lesson][exercise]
    grader = Grader(SimpleNamespace(kind="none"), Secret("fresh"))  # type: ignore[arg-type]
    file = f"{lesson}/{read_lesson(lesson).file_of(exercise)}"
    submission: Any = SimpleNamespace(files={file: b"by heart"}, others=[])
    for seed in (PUBLIC, grader.secret.seed(lesson, "")):
        subject.learns = seed == PUBLIC
        with Engine(subject, seed=seed, explanation=NoExplanation).active() as engine:
            marks = grader._exercise(engine, submission, exercise, tests)
        earned = [test["id"] for test in marks["tests"] if test["score"]]
        assert len(earned) == (len(tests) if subject.learns else 0), earned


@pytest.mark.parametrize("lesson", lesson_names())
def test_all_bits_of_the_seed_count(lesson: str):
    one, other = ({key_of(asked) for asked in drawn(lesson, seed)} for seed in (7 + 2**126, 7 + 2**127))
    assert len(one & other) < len(one) / 3
