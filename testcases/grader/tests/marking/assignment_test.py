"""What counts: files that say it, files that say it wrong, and the points that come of it."""

import tomllib
from pathlib import Path

import pytest

from testcases.grader.marking.assignment import asked_for, course_points, everything, from_dict, from_file
from testcases.harness.catalog import electives

WHOLE = """
title = "Homework 2"
lessons = [1, "lesson04_gae"]
exercises = ["compute_ppo_loss"]
points = 20
[weights]
lesson01 = 1
lesson04_gae = 5
5 = 4
"""


def test_a_whole_file():
    found = from_dict(tomllib.loads(WHOLE))
    assert found.lessons == ("lesson01_masked_sequences", "lesson04_gae", "lesson05_ppo_loss")
    assert found.names[-1] == "lesson05_ppo_loss.compute_ppo_loss" and found.total == 20
    possible = {exercise: course_points()[exercise] for exercise in found.exercises}
    worth = {exercise: factor * possible[exercise] for exercise, factor in found.factors(possible).items()}
    of_lesson = [sum(points for (lesson, _), points in worth.items() if lesson == one) for one in found.lessons]
    assert of_lesson == pytest.approx([2, 10, 8])


def test_without_weights_the_tests_weigh():
    found = asked_for(lessons="4, 5", points="20")
    possible = {exercise: course_points()[exercise] for exercise in found.exercises}
    factors = set(found.factors(possible).values())
    assert len(factors) == 1 and factors.pop() * sum(possible.values()) == pytest.approx(20)
    assert asked_for().names == everything().names and set(asked_for().factors(possible).values()) == {1.0}


@pytest.mark.parametrize(
    "text, says",
    [
        ("leson = [4]", "leson: unknown key, expected one of title, lessons"),
        ("lessons = [14]", "lessons: expected one of the lessons 1, 2, 3"),
        ("lessons = 4", "lessons: expected a list, such as lessons = [...], got 4"),
        ("lessons = []", "lessons: expected at least one lesson or exercise"),
        ("points = 0", "points: expected a number above 0"),
        ('exercises = ["merge_moments"]', "such as lesson04.compute_gae, got 'merge_moments'"),
        ("lessons = [4]\n[weights]\n4 = -1", "weights: expected a table of numbers from 0"),
        ("lessons = [4]\n[weights]\n4 = 0", "and not all 0"),
        ("lessons = [4, 5]\n[weights]\n5 = 1", "weights: expected one for each of lesson04_gae, lesson05_ppo_loss"),
        ("lessons = [4]\n[weights]\n4 = 1\ntd_errors = 1", "weights: expected one for each of lesson04_gae"),
        ("points = = 3", "Invalid value"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tmp_path: Path, text: str, says: str):
    (tmp_path / "assignment.toml").write_text(text, "utf-8")
    with pytest.raises(ValueError, match="^assignment.toml: ") as caught:
        from_file(tmp_path / "assignment.toml")
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_an_elective_counts_only_where_it_is_named():
    assert not set(everything().lessons) & set(electives()) and electives()
    for name in electives():
        assert asked_for(lessons=name).lessons == (name,)
