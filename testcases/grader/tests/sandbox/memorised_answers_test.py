"""A table of all that the suites ask in public, in the place of the worker's driver: it earns what a stub earns."""

from types import SimpleNamespace
from typing import Any

import pytest

from testcases.grader.marking.grade import Grader, Secret, plan
from testcases.harness.catalog import lesson_names, read_lesson
from testcases.harness.diagnosis.values import Diagnosis
from testcases.harness.execution.messages import Call, Outcome, StudentError, tensors_in
from testcases.harness.oracle.reference import Reference, drawn, key_of, shared_reference
from testcases.harness.suite.session import Engine

NO_CAUSES: Any = lambda *of: SimpleNamespace(diagnose=lambda *asked, **more: Diagnosis())  # noqa: E731
PUBLIC, EARLIER = 0, 2**100 + 1


class ByHeart:
    """Knows the right answer to each question that was ever asked. To another it says what it knows of the one that is
    most like it: the same arguments, but for their numbers.
    """

    def __init__(self, teacher: Reference) -> None:
        self.teacher, self.learns = teacher, True
        self.table: dict[bytes, Outcome] = {}
        self.alike: dict[Any, list[tuple[Call, Outcome]]] = {}
        self.unloaded: dict[str, StudentError] = {}

    def run(self, call: Call) -> Outcome:
        key = key_of(call)
        if self.learns and key not in self.table:
            self.table[key] = self.teacher.run(call)
            self.alike.setdefault(_kind(call), []).append((call, self.table[key]))
        return self.table.get(key) or self._guess(call)

    def text(self, lesson: str, file: str) -> str:
        return self.teacher.text(lesson, file)

    def _guess(self, call: Call) -> Outcome:
        known = self.alike.get(_kind(call), [])
        if not known:
            return Outcome(error=StudentError("raised", "KeyError", "not in the table"))
        return min(known, key=lambda one: _distance(one[0], call))[1]

    def settle(self, lesson: str, exercise: str) -> bool:
        return True

    def finish(self) -> None:
        pass


def _kind(call: Call) -> Any:
    shapes = [(name, *(tuple(tensor.shape) for tensor in tensors_in(value))) for name, value in call.arguments.items()]
    return call.exercise, call.scenario, call.grad_of, call.grad_through, str(shapes)


def _distance(one: Call, other: Call) -> float:
    """Of the numbers, and a little for each other difference."""
    total = 0.0
    for name, value in one.arguments.items():
        for a, b in zip(tensors_in(value), tensors_in(other.arguments[name]), strict=True):
            total += float((a.double() - b.double()).nan_to_num(0.0).abs().clamp(max=100).sum())
        total += 0.0 if list(tensors_in(value)) or value == other.arguments[name] else 0.5
    return total


def points_by_heart(lesson: str, exercises: list[str], secret: str = "fresh") -> dict[str, tuple[int, list[str]]]:
    """Of each exercise, what the table earns, and for what."""
    subject = ByHeart(shared_reference())
    asked = tuple((lesson, name) for name in exercises)
    tests = plan(asked)
    box = SimpleNamespace(kind="none")
    grader = Grader(box, Secret(secret))  # type: ignore[arg-type]
    files = {f"{lesson}/{read_lesson(lesson).file_of(name)}": b"by heart" for name in exercises}
    submission: Any = SimpleNamespace(files=files, others=[])
    found: dict[str, tuple[int, list[str]]] = {}
    for seed in (PUBLIC, EARLIER, grader.secret.seed(lesson, "")):
        subject.learns = seed in (PUBLIC, EARLIER)
        with Engine(subject, seed=seed, explanation=NO_CAUSES).active() as engine:
            for name in exercises:
                marks = grader._exercise(engine, submission, name, tests[lesson][name])
                earned = [test["id"] for test in marks["tests"] if test["score"]]
                found[name] = marks["score"], earned
                assert not subject.learns or marks["score"] == marks["max_score"], "the table is not complete"
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "lesson, exercises",
    [
        ("lesson01_masked_sequences", ["response_mask"]),
        ("lesson04_gae", ["td_errors"]),
        ("lesson07_actor_critic", ["make_reference"]),
        ("lesson09_ppo_trainer", ["PPOTrainer.save_checkpoint"]),
        ("lesson10_bug_hunt", ["test_response_mask"]),
        ("lesson11_scaling", ["keep_reference_adapter"]),
    ],
)
def test_a_table_earns_nothing(lesson: str, exercises: list[str]):
    assert points_by_heart(lesson, exercises) == dict.fromkeys(exercises, (0, []))


@pytest.mark.parametrize("lesson", lesson_names())
def test_all_bits_of_the_seed_count(lesson: str):
    one, other = ({key_of(asked) for asked in drawn(lesson, seed)} for seed in (7 + 2**126, 7 + 2**127))
    assert len(one & other) < len(one) / 3
