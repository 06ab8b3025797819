"""Every notebook runs without an error or a warning, also on a student's own lesson, and reads well on a code host."""

import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from book.extension import ANSWER, CHECK, opened_together
from testcases.course import notebooks, students
from testcases.course.kernels import ForkedKernels
from testcases.harness.catalog import SOLUTIONS, lesson_names

PATHS = notebooks.all_notebooks()
OWN = "04_gae"
"""The notebook that is run on a student's own lesson; the others on the course's."""
ASSERTION = re.compile(r"^\s*assert ", re.MULTILINE)
ANSWERS = re.compile(r"</summary>(.*?)</details>", re.DOTALL)
EACH = pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in PATHS if path.stem != OWN], ids=lambda path: path.stem)
def test_it_runs_without_error_or_warning(path: Path) -> None:
    before = path.read_bytes()
    notebooks.run(path, ForkedKernels)
    assert path.read_bytes() == before


def asks(cell: dict[str, Any]) -> bool:
    return cell["cell_type"] == "markdown" and "**Predict.**" in cell["source"]


@EACH
def test_what_follows_a_question_does_not_tell_its_answer(path: Path) -> None:
    """Neither an assertion nor a message of the code; in the book its figure opens with the answer, and a check comes
    after it."""
    cells = notebooks.read(path).cells
    for place, cell in enumerate(cells):
        if cell.cell_type == "code" and asks(cells[place - 1]):
            assert not ASSERTION.search(cell.source), f"cell {place}: check it behind the answer"
            assert cells[place + 1].source.startswith("<details>"), f"cell {place + 1}: the answer is folded"
        assert all(len(answer.split()) >= 5 for answer in ANSWERS.findall(cell.source)), "a folded answer has an answer"
    placed = opened_together(cells)
    for number, cell in enumerate(placed):
        if asks(cell):
            summary, code, rest = placed[number + 1 : number + 4]
            assert ANSWER.fullmatch(summary["source"]) and "</details>" in rest["source"]
            assert code["outputs"] and "hide-input" in code["metadata"]["tags"]
    checks = [cell for cell in placed if CHECK in cell["metadata"].get("tags", [])]
    assert checks and all("remove-cell" in cell["metadata"]["tags"] for cell in checks)


@EACH
def test_it_is_stored_executed_clean_and_small_with_figures_that_are_described_and_asserted(path: Path) -> None:
    import nbformat

    notebook = notebooks.read(path)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    assert not any(output.output_type == "error" for output in outputs)
    figures = [output for output in outputs if "image/png" in output.get("data", {})]
    described = sum("alt" in output.metadata.get("image/png", {}) for output in figures)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert prose.count("*Figure:") + described >= len(figures) > 0, "show(figure, alt): each figure needs its text"
    assertions = sum(len(ASSERTION.findall(cell.source)) for cell in code)
    assert assertions >= len(figures), "each figure's title is a finding that an assertion checks"
    assert notebook == notebooks.stripped(notebooks.read(path)), "run make notebooks"
    assert path.stat().st_size < 1_000_000


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


@EACH
def test_each_notebook_takes_its_own_lesson(path: Path) -> None:
    setup = notebooks.read(path).cells[1].source
    assert f'STACK = "solutions"  # or "tutorial": your own lesson{"s" if path.name.startswith("12") else ""}' in setup
    assert f'STACK, "lesson{path.stem}"' in " ".join(setup.split())


@pytest.mark.slow
@pytest.mark.smoke
def test_a_notebook_runs_on_the_students_lesson_without_error_or_warning(course: Path) -> None:
    path = course / "notebooks" / f"{OWN}.ipynb"
    text = path.read_text("utf-8").replace('STACK = \\"solutions\\"', 'STACK = \\"tutorial\\"')
    path.write_text(text, "utf-8")
    notebooks.run(path, ForkedKernels)
    students.replace_body(course / "tutorial", 'raise NotImplementedError("lesson04: td_errors")')
    with pytest.raises(RuntimeError, match="not written yet:\n  tutorial/lesson04_gae/gae.py: td_errors"):
        notebooks.run(path, ForkedKernels)
