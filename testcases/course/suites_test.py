"""The suites themselves: each exercise has all that it needs, no stub passes, and no small change goes unseen."""

import re

import pytest

from testcases.course import complete
from testcases.course.mutants import mutants_of, recorded, survivors, version
from testcases.course.students import LESSONS
from testcases.harness.catalog import TUTORIAL, course_lessons, headings, read_lesson
from testcases.harness.oracle.mutations import suspects
from testcases.harness.report.errors import NotStarted
from testcases.harness.suite.runner import cases, entries
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
    whole, path = [0.0, 0.0], [0.0, 0.0]
    for lesson in LESSONS:
        text = (TUTORIAL / lesson / "README.md").read_text("utf-8")
        minutes = re.findall(r"^\|.* [●○]{3} \| (\d+) / (\d+) \|$", text, re.MULTILINE)
        said = re.search(rf"\({lesson}/README.md\).* \| ([\d.]+) / ([\d.]+) \|$", page, re.MULTILINE)
        assert minutes and said, lesson
        for column in range(2):
            hours = sum(int(row[column]) for row in minutes) / 60
            assert abs(hours - float(said[column + 1])) <= 0.25, f"{lesson}: {hours:.2f} hours, the map says {said[0]}"
            whole[column] += 1.5 * hours * (lesson in course_lessons())
            path[column] += 1.5 * hours * (lesson[:8] not in ("lesson10", "lesson11", "lesson13"))
    low, high = (5 * round(hours / 5) for hours in whole)
    words = " ".join(page.split())
    assert f"The whole course takes {low} to {high} hours" in words
    assert "without electives takes {} to {} hours".format(*(5 * round(hours / 5) for hours in path)) in words
    assert f"the whole course {low} to {high}" in (TUTORIAL.parent / "README.md").read_text("utf-8")
