"""A student who writes each formula as it is published earns all points of the formula, in `make check` and pytest."""

import re
import textwrap
from pathlib import Path

import pytest

from testcases.course.students import run_pytest, solved_folder
from testcases.grader.tests.running import TARGET, grade, results
from testcases.harness.catalog.lessons import SOLUTIONS, region_text
from testcases.harness.catalog.points import entries
from testcases.harness.oracle.mutations import published_answers

LESSON = "lesson04_gae"
OWN = {one.exercise: one for one in reversed(published_answers(LESSON))}
RIGHT = "Your formula is right; this is about"


def published(folder: Path) -> Path:
    """Lesson 4 with the first published way of each exercise that has one, and the solution of the others."""
    text = (SOLUTIONS / TARGET).read_text("utf-8")
    for exercise, one in OWN.items():
        old = region_text(LESSON, exercise)
        before, after = (textwrap.indent(code, "    ") for code in (old, one.change.apply(old)))
        assert text.count(before) == 1
        text = text.replace(before, after)
    (folder / LESSON).mkdir(parents=True, exist_ok=True)
    (folder / TARGET).write_text(text, "utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.xdist_group("grader-batches")
def test_published_formulas_earn_all_basic_points_in_make_check(bubblewrap: None, tmp_path: Path):
    published(tmp_path / "in" / "lee")
    done = grade(tmp_path / "in", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    found = results(tmp_path / "out")["lee"]["lessons"][LESSON]["exercises"]
    basic = {entry.test for entry in entries(LESSON) if entry.is_basic}
    lost = [
        test["id"] for exercise in found.values() for test in exercise["tests"] if test["score"] < test["max_score"]
    ]
    assert lost and not basic.intersection(lost)
    for exercise in OWN:
        assert found[exercise]["told"].startswith(RIGHT), found[exercise]["told"]


def test_pytest_says_that_the_formula_is_right(tmp_path: Path):
    done = run_pytest(published(solved_folder(tmp_path)))
    points = sum(entry.points for entry in entries(LESSON) if entry.is_basic)
    assert re.search(rf"\(formula {points}/{points}, safe \d+/\d+\)", done.stdout), done.stdout
    assert f"{RIGHT} NaN or infinity among the numbers." in done.stdout
    assert all(line.endswith(".") for line in done.stdout.splitlines() if line.startswith(RIGHT))
