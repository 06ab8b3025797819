"""The suites themselves: each exercise has all that it needs, no stub passes, and no small change goes unseen. And
nothing for nothing: an answer that is constant, an input or always an error earns 0 in every exercise."""

from collections.abc import Iterator

import pytest

from testcases.course.complete import lacking
from testcases.course.mutants import mutants_of, recorded, survivors, version
from testcases.course.students import LESSONS
from testcases.harness.catalog import read_lesson
from testcases.harness.diagnosis.explain import NoExplanation
from testcases.harness.execution.messages import Call
from testcases.harness.oracle.mutations import NamedChange, instead, right_answers, suspects, wrong_answers
from testcases.harness.oracle.reference import examples, shared_reference, with_change
from testcases.harness.report.errors import NotStarted
from testcases.harness.student.hint import hints
from testcases.harness.suite.anti_gaming import not_earned
from testcases.harness.suite.runner import cases, cases_of, entries
from testcases.harness.suite.session import Engine

MUTANTS = 8
"""Of a lesson, in each run; python -m testcases.course.mutants 4 tries all of lesson 4."""

EXERCISES = [
    pytest.param(lesson, exercise, id=f"{read_lesson(lesson).short}-{exercise}")
    for lesson in LESSONS
    for exercise in read_lesson(lesson).exercises
]


@pytest.mark.parametrize("lesson, exercise", EXERCISES)
def test_exercise_is_complete(lesson: str, exercise: str):
    assert not list(lacking(lesson, exercise))


@pytest.mark.parametrize("lesson", LESSONS)
def test_all_belongs_to_an_exercise(lesson: str):
    named = {*hints(lesson), *(one.exercise for one in (*wrong_answers(lesson), *right_answers(lesson)))}
    assert named <= {*read_lesson(lesson).exercises}
    assert {case.node for case in cases(lesson)} == {entry.node for entry in entries(lesson)}
    assert all(isinstance(entry.points, int) and entry.points >= 1 for entry in entries(lesson))


@pytest.mark.parametrize("lesson, exercise", EXERCISES)
def test_stub_is_not_started_and_passes_nothing(lesson: str, exercise: str, stubs):
    if exercise in suspects(lesson):
        with Engine(stubs).active():
            for entry in (entry for entry in entries(lesson) if entry.exercise == exercise):
                verdicts = [case.run() for case in cases(lesson) if case.entry == entry]
                assert any(verdicts), f"{entry.node} passes the file as it is handed out"
        return
    with pytest.raises(NotStarted):
        Engine(stubs).require_started(lesson, exercise)


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_only_recorded_mutants_survive(lesson: str):
    allowed = {one for found in recorded()[lesson]["survivors"].values() for one in found}
    tried = list(survivors(lesson, most=MUTANTS))
    assert {str(mutant) for mutant, survives in tried if survives} == allowed & {str(mutant) for mutant, _ in tried}


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_record_of_mutants_is_as_new_as_the_solution(lesson: str):
    found = recorded().get(lesson, {"version": None, "survivors": {}})
    is_new = found["version"] == version(lesson) and found["tried"] == len(mutants_of(lesson))
    assert is_new, f"run python -m testcases.course.mutants {lesson}"
    assert "" not in found["survivors"], f"say why these survive, or close the hole: {found['survivors']['']}"


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


def points_of(lesson: str, answer: NamedChange, seed: int = 0) -> dict[str, int]:
    """The tests of the exercise that give points to this answer."""
    engine = Engine(with_change(lesson, answer), seed=seed, explanation=NoExplanation, seconds=2.0)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["smaller_square", "clipped_value_alone", "clipped_below_only", "smaller_of_the_means"]
)
def test_equal_code_earns_equal_points_whatever_is_drawn(name: str):
    """These are right for some numbers: on the policy, or where nothing is clipped."""
    (answer,) = (one for one in wrong_answers("lesson05_ppo_loss") if one.name == name)
    earned = [points_of("lesson05_ppo_loss", answer, seed) for seed in range(8)]
    assert all(found == earned[0] for found in earned), earned
