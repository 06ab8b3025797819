"""The suites themselves: they pass the solutions, reject every stub and wrong answer, and name the wrong answer."""

from __future__ import annotations

import pytest

from testcases.engine.changes import RightAnswer, WrongAnswer, region_text, right_answers, wrong_answers
from testcases.engine.compare import same_outcome
from testcases.engine.contract import TESTCASES, TUTORIAL, lesson_names
from testcases.engine.contract import lesson as read_lesson
from testcases.engine.failures import MAX_LINES, CheckFailed, NotStarted
from testcases.engine.points import entries, suites
from testcases.engine.reading import headings
from testcases.engine.runner import cases
from testcases.engine.session import Engine, shared_reference
from testcases.engine.trusted import examples
from testcases.selfcheck import complete
from testcases.selfcheck.mutants import EQUIVALENT, survivors
from testcases.selfcheck.same_code import code_of, normalized

LESSONS = [name for name in lesson_names() if suites(name)]
EXERCISES = [
    pytest.param(name, exercise, id=f"{read_lesson(name).short}-{exercise}")
    for name in LESSONS
    for exercise in read_lesson(name).exercises
]
WRONG = [
    pytest.param(name, one, id=f"{read_lesson(name).short}-{one.exercise}-{one.name}")
    for name in LESSONS
    for one in wrong_answers(name)
]

RIGHT = [
    pytest.param(name, one, id=f"{read_lesson(name).short}-{one.exercise}-{one.name}")
    for name in LESSONS
    for one in right_answers(name)
]


@pytest.mark.parametrize("lesson, right", RIGHT)
def test_right_answer_passes_both_suites(lesson: str, right: RightAnswer):
    for seed in range(5):
        with Engine(shared_reference().changed(lesson, right), seed=seed).active():
            for case in cases(lesson):
                if case.entry and case.entry.exercise == right.exercise:
                    verdict = case.run()
                    assert verdict is None, f"{case.node}[{case.label}] with seed {seed}\n{verdict}"


@pytest.mark.parametrize("lesson, exercise", EXERCISES)
def test_right_answers_differ_from_the_reference_and_each_other(lesson: str, exercise: str):
    known = {normalized(region_text(lesson, exercise)): "the reference"}
    for right in right_answers(lesson):
        if right.exercise == exercise:
            other = known.setdefault(normalized(code_of(lesson, right)), right.name)
            assert other == right.name, f"{right.name} is {other} but for names and layout"


@pytest.mark.parametrize("lesson, one", WRONG)
def test_basic_suite_rejects_and_names_the_wrong_answer(lesson: str, one: WrongAnswer):
    named = []
    with Engine(shared_reference().changed(lesson, one)).active():
        for case in cases(lesson):
            if case.entry is None or case.entry.exercise != one.exercise or not case.entry.is_basic:
                continue
            verdict = case.run()
            if verdict is None:
                continue
            assert isinstance(verdict, CheckFailed), f"{case.node}[{case.label}]: {verdict!r}"
            assert len(str(verdict).splitlines()) <= MAX_LINES, str(verdict)
            assert verdict.cause == one.name, f"{case.node}[{case.label}] names {verdict.cause}:\n{verdict}"
            named.append(case.label)
    assert named, f"no basic test of {one.exercise} rejects it"


@pytest.mark.parametrize("lesson, one", WRONG)
def test_wrong_answer_can_be_told_from_the_others(lesson: str, one: WrongAnswer):
    answers = shared_reference().answers_of(lesson, one, one.exercise)
    for other in wrong_answers(lesson):
        if other.exercise == one.exercise and other is not one:
            alike = all(map(same_outcome, answers, shared_reference().answers_of(lesson, other, one.exercise)))
            assert not alike, f"{one.name} and {other.name} agree on every example"
    right = [shared_reference().evaluate(asked) for asked in examples(lesson, one.exercise)]
    assert not all(map(same_outcome, answers, right)), f"{one.name} is right on every example"


@pytest.mark.parametrize("lesson", LESSONS)
def test_wrong_answer_says_why_and_where(lesson: str):
    for one in wrong_answers(lesson):
        assert one.exercise in read_lesson(lesson).exercises, f"{one.name}: no exercise {one.exercise}"
        assert "\n" not in one.why and 20 <= len(one.why) <= 160, f"{one.name}: one line of explanation"
        if headings(lesson):
            assert one.read in headings(lesson), f"{one.name}: the README has no heading {one.read!r}"
    names = [one.name for one in wrong_answers(lesson)]
    assert len(names) == len(set(names)), "two wrong answers of one name"


@pytest.mark.parametrize("lesson, exercise", EXERCISES)
def test_exercise_is_complete(lesson: str, exercise: str):
    assert not complete.sentence(lesson, exercise)


@pytest.mark.parametrize("lesson", LESSONS)
def test_all_belongs_to_an_exercise(lesson: str):
    assert not list(complete.left_over(lesson))
    assert {case.node for case in cases(lesson)} == {entry.node for entry in entries(lesson)}
    assert all(isinstance(entry.points, int) and entry.points >= 1 for entry in entries(lesson))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("lesson", LESSONS)
def test_solutions_pass(lesson: str, seed: int):
    with Engine(shared_reference().evaluator, seed=seed).active():
        for case in cases(lesson):
            verdict = case.run()
            assert verdict is None, f"{case.node}[{case.label}]\n{verdict}"


@pytest.mark.parametrize("lesson, exercise", EXERCISES)
def test_stub_is_not_started_and_passes_nothing(lesson: str, exercise: str, stubs):
    with pytest.raises(NotStarted):
        Engine(stubs).require_started(lesson, exercise)


@pytest.mark.parametrize("lesson", [name for name in LESSONS if (TESTCASES / name / EQUIVALENT).is_file()])
def test_only_equivalent_mutants_survive(lesson: str):
    text = (TESTCASES / lesson / EQUIVALENT).read_text("utf-8")
    allowed = {line for line in text.splitlines() if line and not line.startswith("#")}
    assert {str(mutant) for mutant, survives in survivors(lesson) if survives} == allowed


@pytest.mark.parametrize("lesson", LESSONS)
def test_text_says_how_to_test_and_what_people_get_wrong(lesson: str):
    if not headings(lesson):
        pytest.skip("the lesson's text is not written yet")
    text = (TUTORIAL / lesson / "README.md").read_text("utf-8")
    assert f"pytest testcases/{lesson}" in text
    assert any(heading == "What people get wrong" for heading in headings(lesson))
