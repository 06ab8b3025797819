"""STACK in a notebook: the student's own lesson in place of the course's, and what it says before it is written."""

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from testcases.course import notebooks, students
from testcases.harness.catalog.lessons import SOLUTIONS, lesson_names

LOADED: list[ModuleType] = []


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [*sys.path])  # blocks.py puts the course in front
    yield students.course_copy(tmp_path)
    while LOADED:  # A notebook keeps its lessons until its process ends; this one runs other tests.
        LOADED.pop()._for_good.close()


def blocks_of(course: Path) -> ModuleType:
    """`blocks.py` as the notebooks of this course load it."""
    spec = importlib.util.spec_from_file_location("blocks", course / "notebooks" / "blocks.py")
    blocks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(blocks)
    LOADED.append(blocks)
    return blocks


def test_solutions_are_the_modules_of_the_course(course: Path) -> None:
    import solutions.lesson04_gae

    assert blocks_of(course).lessons("solutions", "lesson04_gae") == [solutions.lesson04_gae]


def test_the_own_lesson_is_the_students_and_the_others_stay_the_courses(course: Path, stub_folder: Path) -> None:
    import solutions.lesson01_masked_sequences

    shutil.rmtree(course / "tutorial")
    shutil.copytree(stub_folder, course / "tutorial")  # nothing is written but lesson 4
    shutil.copy(SOLUTIONS / "lesson04_gae" / "gae.py", course / "tutorial" / "lesson04_gae" / "gae.py")
    gae, masked = blocks_of(course).lessons("tutorial", "lesson04_gae", "lesson01_masked_sequences")
    assert gae.td_errors.__code__.co_filename == str(course / "tutorial" / "lesson04_gae" / "gae.py")
    assert masked is solutions.lesson01_masked_sequences


@pytest.mark.parametrize("own", lesson_names())
def test_a_lesson_that_is_not_written_is_named_with_its_file_and_exercises(
    course: Path, stub_folder: Path, own: str
) -> None:
    shutil.copytree(stub_folder / own, course / "tutorial" / own, dirs_exist_ok=True)
    blocks = blocks_of(course)
    with pytest.raises(blocks.NotFinished) as caught:
        blocks.lessons("tutorial", own)
    lines = str(caught.value).splitlines()
    assert lines[0] == 'STACK = "tutorial" draws your own code, and these exercises are not written yet:'
    assert all(line.startswith(f"  tutorial/{own}/") for line in lines[1:-1]) and len(lines) > 2
    assert lines[-1] == 'Write them, or put STACK = "solutions".'


def test_another_stack_is_refused(course: Path) -> None:
    with pytest.raises(ValueError, match="STACK: expected .*, got 'mine'"):
        blocks_of(course).lessons("mine", "lesson04_gae")


@pytest.mark.parametrize("path", notebooks.all_notebooks(), ids=lambda path: path.stem)
def test_each_notebook_takes_its_own_lesson(path: Path) -> None:
    setup = notebooks.read(path).cells[1].source
    assert f'STACK = "solutions"  # or "tutorial": your own lesson{"s" if path.name.startswith("12") else ""}' in setup
    assert f'STACK, "lesson{path.stem}"' in " ".join(setup.split())


@pytest.mark.slow
def test_a_notebook_runs_on_the_students_lesson(course: Path) -> None:
    path = course / "notebooks" / "04_gae.ipynb"
    text = path.read_text("utf-8").replace('STACK = \\"solutions\\"', 'STACK = \\"tutorial\\"')
    path.write_text(text, "utf-8")
    notebooks.run(path)
    students.replace_body(course / "tutorial", 'raise NotImplementedError("lesson04: td_errors")')
    with pytest.raises(RuntimeError, match="not written yet:\n  tutorial/lesson04_gae/gae.py: td_errors"):
        notebooks.run(path)
