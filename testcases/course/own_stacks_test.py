"""Whole stacks of a student's own, each exercise written in another way: the capstone accepts the right ones, and names
the lesson that is wrong."""

import itertools
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from testcases.course.students import reference, solved_folder
from testcases.harness.catalog.lessons import END, REGION, SOLUTIONS, lesson_names, regions
from testcases.harness.execution import executor
from testcases.harness.oracle.mutations import NamedChange, right_answers, wrong_answers
from testcases.harness.suite.runner import cases
from testcases.harness.suite.session import Engine

CAPSTONE = "lesson12_capstone"
pytestmark = pytest.mark.slow


def changed(folder: Path, lesson: str, changes: Sequence[NamedChange]) -> None:
    """Write these changes, one of an exercise, into a solved folder."""
    for path in sorted((SOLUTIONS / lesson).glob("*.py")):
        lines = path.read_text("utf-8").splitlines()
        for region in sorted(regions(path), key=lambda one: -one.first):
            chosen = [one.change for one in changes if one.exercise == region.exercise]
            for change in chosen:
                text = textwrap.dedent("\n".join(lines[region.first + 1 : region.last]))
                indent = lines[region.first].partition(REGION)[0]
                lines[region.first + 1 : region.last] = textwrap.indent(change.apply(text), indent).splitlines()
        assert lines.count(END) == 0
        (folder / lesson / path.name).write_text("\n".join(lines) + "\n", "utf-8")


def stack_of(style: int, tmp_path: Path) -> Path:
    """A student who has written every exercise in the way of this number."""
    folder = solved_folder(tmp_path)
    for lesson in lesson_names():
        ways: dict[str, list[NamedChange]] = {}
        for right in right_answers(lesson):
            ways.setdefault(right.exercise, []).append(right)
        changed(folder, lesson, [own[style % len(own)] for own in ways.values()])
    return folder


def with_one(tmp_path: Path, *names: str) -> Path:
    """A solved folder with these answers of the bank."""
    folder = solved_folder(tmp_path)
    for lesson in lesson_names():
        changed(folder, lesson, [one for one in (*right_answers(lesson), *wrong_answers(lesson)) if one.name in names])
    return folder


def failures(folder: Path) -> list[str]:
    with Engine(executor.student(folder), reference=reference()).active():
        return [f"{case.node}[{case.label}]\n{verdict}" for case in cases(CAPSTONE) if (verdict := case.run())]


@pytest.mark.slow
@pytest.mark.parametrize("style", range(3))
def test_the_capstone_accepts_a_stack_of_another_style(style: int, tmp_path: Path) -> None:
    assert failures(stack_of(style, tmp_path)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [("inverse_of_the_distribution", "ended_rows_leave_the_batch"), ("row_by_row", "samplers_of_torch")],
    ids=" and ".join,
)
def test_the_capstone_accepts_other_random_draws(names: tuple[str, str], tmp_path: Path) -> None:
    """Two exercises a stack: a suite that refuses one of them refuses both."""
    assert failures(with_one(tmp_path, *names)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong, named",
    {
        "objective_returned": "Lesson 5 is not: compute_ppo_loss.",
        "response_without_lam": "Lesson 4 is not: compute_response_gae.",
    }.items(),
)
def test_a_wrong_lesson_below_other_random_draws_is_named(wrong: str, named: str, tmp_path: Path) -> None:
    folder = with_one(tmp_path, "inverse_of_the_distribution", wrong)
    found = failures(folder)
    assert found and all(named in one for one in found), found
    assert all("Likely cause" in one for one in found), found


def test_stacks_of_all_styles_differ() -> None:
    own = {lesson: {right.exercise for right in right_answers(lesson)} for lesson in lesson_names()}
    assert all(own[lesson] for lesson in own if lesson != "lesson10_bug_hunt")
    assert len([*itertools.chain(*own.values())]) > 50
