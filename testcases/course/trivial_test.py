"""Nothing for nothing: an answer that is constant, an input or always an error earns 0 in every exercise."""

from collections.abc import Iterator

import pytest

from testcases.harness.catalog import lesson_names, read_lesson
from testcases.harness.diagnosis.explain import NoExplanation
from testcases.harness.execution.messages import Call
from testcases.harness.oracle.mutations import NamedChange, instead
from testcases.harness.oracle.reference import examples, shared_reference, with_change
from testcases.harness.suite.anti_gaming import not_earned
from testcases.harness.suite.runner import cases_of, entries
from testcases.harness.suite.session import Engine

EXERCISES = [(lesson, exercise) for lesson in lesson_names() for exercise in read_lesson(lesson).exercises]


def trivial_answers(lesson: str, exercise: str) -> Iterator[NamedChange]:
    """The arguments stay checked: only the region is replaced."""
    parameters = shared_reference().parameters(lesson, exercise)
    given = [name for name in parameters if name != "self"]
    lines = ["raise ValueError('expected')"]
    if all(asked.scenario for asked in examples(lesson, exercise)):
        lines += ["return 0.0", *(f"return {name}" for name in given[:1])]  # live objects: no scenario takes them
    else:
        right = shared_reference().right_answers_to(lesson, exercise)[0].value
        lines += ["return 0.0" if isinstance(right, (int, float)) else "return torch.zeros(())"]
        lines += [f"return torch.zeros_like({given[0]})", *(f"return {name}" for name in given[:2])]
    for line in lines:
        yield NamedChange(exercise, line, "", "", instead(f"import torch\n{line}"))


@pytest.mark.slow
@pytest.mark.parametrize("lesson, exercise", EXERCISES)
def test_trivial_answers_earn_nothing(lesson: str, exercise: str):
    for answer in trivial_answers(lesson, exercise):
        assert not points_of(lesson, answer), answer.name


def points_of(lesson: str, answer: NamedChange) -> dict[str, int]:
    """The tests of the exercise that give points to this answer."""
    engine = Engine(with_change(lesson, answer), explanation=NoExplanation, seconds=2.0)
    failed: set[str] = set()
    passed: dict[str, list[Call]] = {}
    with engine.active():
        for case in cases_of(lesson, answer.exercise):
            if case.node in failed:
                continue
            try:
                verdict = case.run()
            except Exception as error:
                verdict = AssertionError(str(error))
            if verdict is None:
                passed.setdefault(case.node, []).extend(engine.answered)
            else:
                failed.add(case.node)
        passed = {node: asked for node, asked in passed.items() if node not in failed}
        why = not_earned(engine, lesson, answer.exercise, passed) if failed else {}
    points = {entry.node: entry.points for entry in entries(lesson)}
    return {node: points[node] for node in passed if node not in why}


ALL_BUT_ONE = """
import solutions.lesson10_bug_hunt.diagnosis as reference
found = reference.diagnose(log)
return "healthy" if found == "critic_frozen" else found
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "body, points",
    [('return "healthy"', 0), ('return "critic_frozen"', 0), (ALL_BUT_ONE, 14)],
    ids=["healthy", "one-fault", "seven-of-eight"],
)
def test_a_name_earns_its_points_beside_another_one(body: str, points: int):
    answer = NamedChange("diagnose", body, "", "", instead(body))
    assert sum(points_of("lesson10_bug_hunt", answer).values()) == points
