"""The suites themselves: they pass the solutions, reject every stub and wrong answer, and name the wrong answer."""

import re
from collections.abc import Iterable, Sequence
from functools import cache

import pytest

from testcases.course import complete
from testcases.course.mutants import mutants_of, recorded, survivors, version
from testcases.course.students import reference
from testcases.harness.catalog.lessons import TUTORIAL, course_lessons, headings, lesson_names
from testcases.harness.catalog.lessons import lesson as read_lesson
from testcases.harness.catalog.points import suites
from testcases.harness.diagnosis.explain import NoExplanation
from testcases.harness.execution.executor import Executor, solutions
from testcases.harness.execution.messages import Call
from testcases.harness.oracle.mutations import (
    NamedChange,
    WrongAnswer,
    published_answers,
    right_answers,
    suspects,
    wrong_answers,
)
from testcases.harness.oracle.reference import with_change
from testcases.harness.report.compare import Rules, first_difference
from testcases.harness.report.failures import MAX_LINES, CheckFailed, NotStarted
from testcases.harness.suite.anti_gaming import not_earned
from testcases.harness.suite.questions import plain
from testcases.harness.suite.runner import Case, cases, cases_of, entries
from testcases.harness.suite.session import Engine

SAMPLE = 40
"""One in so many of the wrong answers is asked what it hears; each is rejected."""
MUTANTS = 8
"""Of a lesson, in each run; python -m testcases.course.mutants 4 tries all of lesson 4."""
LESSONS = [name for name in lesson_names() if suites(name)]
OF_MODELS = ("lesson07", "lesson08", "lesson09", "lesson11", "lesson12")
"""Their questions need a model, so `make test` asks them to the first wrong answer of each exercise alone."""


def _row(lesson: str, exercise: str, *what: NamedChange):
    """One row of a table of tests."""
    name = "-".join([read_lesson(lesson).short, exercise, *(change.name for change in what)])
    marks = []
    wrong = [change for change in what if isinstance(change, WrongAnswer)]
    if wrong and lesson.startswith(OF_MODELS) and wrong[0] != _wrong_answers(lesson, exercise)[0]:
        marks.append(pytest.mark.slow)
    return pytest.param(lesson, *(what or [exercise]), id=name, marks=marks)


@cache
def _wrong_answers(lesson: str, exercise: str) -> list[WrongAnswer]:
    return [wrong for wrong in wrong_answers(lesson) if wrong.exercise == exercise]


EXERCISES = [_row(lesson, exercise) for lesson in LESSONS for exercise in read_lesson(lesson).exercises]
WRONG = [_row(lesson, wrong.exercise, wrong) for lesson in LESSONS for wrong in wrong_answers(lesson)]
PUBLISHED = [_row(lesson, one.exercise, one) for lesson in LESSONS for one in published_answers(lesson)]
RIGHT = [_row(lesson, right.exercise, right) for lesson in LESSONS for right in right_answers(lesson)]


def _assert_passes(subject: Executor, chosen: Sequence[Case], seeds: Iterable[int] = range(5)) -> None:
    """All cases with the first seed; those that draw fresh inputs with the others. Questions are made of seed 0's."""
    engine = Engine(subject, reference=reference())
    for seed in seeds:
        drawing = []
        engine.seed, engine.thorough = seed, seed == 0
        with engine.active():
            for case in chosen:
                before = engine.draws
                verdict = case.run()
                assert verdict is None, f"{case.node}[{case.label}] with seed {seed}\n{verdict}"
                if engine.draws > before:
                    drawing.append(case)
        chosen = drawing


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_solutions_pass(lesson: str):
    """With seed 0 they pass the suites themselves, which run beside this."""
    _assert_passes(solutions(), cases(lesson), range(1, 3))


@pytest.mark.slow
@pytest.mark.parametrize("lesson, right", RIGHT)
def test_right_answer_passes_both_suites(lesson: str, right: NamedChange):
    _assert_passes(with_change(lesson, right), cases_of(lesson, right.exercise))


@pytest.mark.parametrize("lesson, published", PUBLISHED)
def test_published_formula_earns_all_basic_points(lesson: str, published: NamedChange):
    """It passes the basic suite, and five times, on fresh plain examples, each of these tests is found to be earned."""
    engine = Engine(with_change(lesson, published), reference=reference())
    chosen = [case for case in cases_of(lesson, published.exercise) if case.entry.is_basic]
    for engine.seed in range(5):
        passed: dict[str, list[Call]] = {}
        with engine.active():
            for case in chosen:
                verdict = case.run()
                assert verdict is None, f"{case.node}[{case.label}] with seed {engine.seed}\n{verdict}"
                passed.setdefault(case.node, []).extend(engine.answered)
            assert not not_earned(engine, lesson, published.exercise, passed), f"with seed {engine.seed}"
            for asked in plain(engine.examples(lesson, published.exercise)):
                right, got = reference().run(asked), engine.ask(asked)
                assert got.error is None and first_difference(right.value, got.value, Rules(single=True)) is None, (
                    asked,
                    right,
                    got,
                )


@pytest.mark.parametrize("lesson, wrong", WRONG)
def test_a_suite_rejects_the_wrong_answer(lesson: str, wrong: WrongAnswer):
    with Engine(with_change(lesson, wrong), reference=reference(), explanation=NoExplanation).active():
        verdicts = (case.run() for case in cases_of(lesson, wrong.exercise))
        first = next(filter(None, verdicts), None)
    assert isinstance(first, CheckFailed), f"no test of {wrong.exercise} rejects it: {first!r}"


@pytest.mark.parametrize("lesson, wrong", WRONG[::SAMPLE])
def test_the_wrong_answer_is_named(lesson: str, wrong: WrongAnswer):
    """By the first test that fails, in as many lines as a report may have. Where it raises, its exception speaks."""
    with Engine(with_change(lesson, wrong), reference=reference()).active():
        verdicts = (case.run() for case in cases_of(lesson, wrong.exercise))
        first = next(one for one in verdicts if isinstance(one, CheckFailed))
    assert len(str(first).splitlines()) <= MAX_LINES, str(first)
    assert first.error or first.cause == wrong.name, f"it names {first.cause}:\n{first}"


@pytest.mark.parametrize("lesson", LESSONS)
def test_wrong_answer_says_why_and_where(lesson: str):
    for wrong in wrong_answers(lesson):
        assert "\n" not in wrong.why and 20 <= len(wrong.why) <= 160, f"{wrong.name}: one line of explanation"
        if headings(lesson):
            assert wrong.read in headings(lesson), f"{wrong.name}: the README has no heading {wrong.read!r}"
    names = [wrong.name for wrong in wrong_answers(lesson)]
    assert len(names) == len(set(names)), "two wrong answers of one name"


@pytest.mark.parametrize("lesson, exercise", EXERCISES)
def test_exercise_is_complete(lesson: str, exercise: str):
    assert not complete.sentence(lesson, exercise)


@pytest.mark.parametrize("lesson", LESSONS)
def test_all_belongs_to_an_exercise(lesson: str):
    assert not list(complete.left_over(lesson))
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


@pytest.mark.parametrize("lesson", LESSONS)
def test_text_says_how_to_test_and_what_people_get_wrong(lesson: str):
    if not headings(lesson):
        pytest.skip("the lesson's text is not written yet")
    text = (TUTORIAL / lesson / "README.md").read_text("utf-8")
    assert f"pytest testcases/{lesson}" in text
    assert any(heading == "What people get wrong" for heading in headings(lesson))


def test_map_and_readme_say_the_hours_that_the_lessons_add_up_to():
    """The map's table, to a quarter of an hour; the whole course without electives, where reading takes half as long
    again."""
    page = (TUTORIAL / "README.md").read_text("utf-8")
    whole = [0.0, 0.0]
    for lesson in LESSONS:
        text = (TUTORIAL / lesson / "README.md").read_text("utf-8")
        minutes = re.findall(r"^\|.* [●○]{3} \| (\d+) / (\d+) \|$", text, re.MULTILINE)
        said = re.search(rf"\({lesson}/README.md\).* \| ([\d.]+) / ([\d.]+) \|$", page, re.MULTILINE)
        assert minutes and said, lesson
        for column in range(2):
            hours = sum(int(row[column]) for row in minutes) / 60
            assert abs(hours - float(said[column + 1])) <= 0.25, f"{lesson}: {hours:.2f} hours, the map says {said[0]}"
            whole[column] += 1.5 * hours * (lesson in course_lessons())
    low, high = (5 * round(hours / 5) for hours in whole)
    assert f"The whole course takes {low} to {high} hours" in " ".join(page.split())
    assert f"the whole course {low} to {high}" in (TUTORIAL.parent / "README.md").read_text("utf-8")
