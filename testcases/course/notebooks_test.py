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
ANSWERS = re.compile(r"</summary>(.*?)</details>", re.DOTALL)
EACH = pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in PATHS if path.stem != OWN], ids=lambda path: path.stem)
def test_it_runs_without_error_or_warning(path: Path) -> None:
    before = path.read_bytes()
    notebooks.run(path, ForkedKernels)
    assert path.read_bytes() == before


def questions(path: Path) -> list[int]:
    """The places of the code that answers a question."""
    cells = notebooks.read(path).cells
    return [place for place, cell in enumerate(cells) if cell.cell_type == "code" and asks(cells[place - 1])]


def asks(cell: dict[str, Any]) -> bool:
    return cell["cell_type"] == "markdown" and "**Predict.**" in cell["source"]


@EACH
def test_what_follows_a_question_does_not_tell_its_answer(path: Path) -> None:
    """Neither an assertion nor a message of the code; its figure opens with the answer, and a check comes after it."""
    cells = notebooks.read(path).cells
    for place in questions(path):
        code, answer = cells[place], cells[place + 1]
        assert not re.search(r"^\s*assert ", code.source, re.MULTILINE), f"cell {place}: check it behind the answer"
        assert answer.source.startswith("<details>"), f"cell {place + 1}: the answer is folded"


@EACH
def test_a_folded_answer_has_an_answer(path: Path) -> None:
    for cell in notebooks.read(path).cells:
        for answer in ANSWERS.findall(cell.source):
            assert len(answer.split()) >= 5


@EACH
def test_in_the_book_figure_and_answer_open_together(path: Path) -> None:
    placed = opened_together(notebooks.read(path).cells)
    for number, cell in enumerate(placed):
        if asks(cell):
            summary, code, rest = placed[number + 1 : number + 4]
            assert ANSWER.fullmatch(summary["source"]) and "</details>" in rest["source"]
            assert code["outputs"] and "hide-input" in code["metadata"]["tags"]
    checks = [cell for cell in placed if CHECK in cell["metadata"].get("tags", [])]
    assert checks and all("remove-cell" in cell["metadata"]["tags"] for cell in checks)


@EACH
def test_it_is_stored_executed_clean_and_small(path: Path) -> None:
    import nbformat

    notebook = notebooks.read(path)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert any("image/png" in output.get("data", {}) for cell in code for output in cell.outputs), "no figure stored"
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    assert notebook == notebooks.stripped(notebooks.read(path)), "run make notebooks"
    assert path.stat().st_size < 1_000_000


@EACH
def test_its_figures_have_alt_text_and_its_titles_are_asserted(path: Path) -> None:
    notebook = notebooks.read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    figures = [output for cell in code for output in cell.outputs if "image/png" in output.get("data", {})]
    described = sum("alt" in output.metadata.get("image/png", {}) for output in figures)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert prose.count("*Figure:") + described >= len(figures), "show(figure, alt): each figure needs its text"
    assertions = sum(len(re.findall(r"^\s*assert ", cell.source, re.MULTILINE)) for cell in code)
    assert assertions >= len(figures), "each figure's title is a finding that an assertion checks"


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


@pytest.mark.parametrize("path", notebooks.all_notebooks(), ids=lambda path: path.stem)
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
