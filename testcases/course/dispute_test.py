"""`make dispute`: what a student sends holds their code and both answers, and nothing of the reference's source."""

import shutil
from pathlib import Path

import pytest

from testcases.grader.marking import Batch, asked_for, decisions, new
from testcases.grader.sandbox import Limits
from testcases.harness.catalog import SOLUTIONS, TUTORIAL
from testcases.harness.catalog import lesson as read_lesson
from testcases.harness.execution import student
from testcases.harness.student import read_dispute, written
from testcases.harness.suite import Engine

BATCH = Batch("none", new(), 1, Limits(), asked_for())
LESSON, EXERCISE, FILE = "lesson04_gae", "compute_gae", "lesson04_gae/gae.py"
WRONG = """    deltas = td_errors(rewards, values, dones, gamma)
    # ``` a fence in the code must not end the block
    return AdvantagesAndReturns(deltas, deltas)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A student's tree: td_errors solved, compute_gae wrong, all else a stub."""
    folder = tmp_path / "tutorial"
    shutil.copytree(TUTORIAL / LESSON, folder / LESSON)
    text = (folder / FILE).read_text("utf-8").replace('    raise NotImplementedError("lesson04: compute_gae")\n', WRONG)
    solved = "return rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]"
    text = text.replace('raise NotImplementedError("lesson04: td_errors")', solved)
    (folder / FILE).write_text(text, "utf-8")
    return folder


def test_a_dispute_is_written_and_read_back(folder: Path, tmp_path: Path):
    text = written(Engine(student(folder)), LESSON, EXERCISE, folder)
    path = tmp_path / "ada.md"
    path.write_text(text, "utf-8")
    dispute = read_dispute(path.name, path.read_bytes())
    assert (dispute.lesson, dispute.exercise, dispute.path) == (LESSON, EXERCISE, FILE)
    assert dispute.code == (folder / FILE).read_text("utf-8").rstrip()
    for part in ("## The failure", "## The question", "## Expected", "## Got", "torch.tensor(", '"torch"'):
        assert part in text
    region = (SOLUTIONS / FILE).read_text("utf-8").partition("def compute_gae")[2]
    secret = region.partition("# region solution\n")[2].partition("# endregion")[0].splitlines()
    assert not [line for line in secret[1:] if len(line.strip()) > 12 and line in text]
    (tmp_path / "not-one.md").write_text("# A letter", "utf-8")
    lines = list(decisions(tmp_path, BATCH))
    since = "whoever sent it may have changed the code since"
    assert lines[0].startswith(f"ada.md: compute_gae: {since}: reproduces: test_compute_gae"), lines
    assert lines[1:] == ["not-one.md: not-one.md is no file that make dispute has written"]


@pytest.mark.parametrize(
    "exercise, says", [("td_errors", "passes: there is nothing"), ("n_step_advantages", "is not started")]
)
def test_nothing_to_dispute(folder: Path, exercise: str, says: str):
    with pytest.raises(LookupError, match=says):
        written(Engine(student(folder)), LESSON, exercise, folder)


def test_there_is_no_such_exercise(folder: Path):
    with pytest.raises(LookupError, match="has no exercise 'gae'; it has td_errors"):
        read_lesson(LESSON).exercise("gae")


def test_a_folder_of_disputes_is_one(tmp_path: Path):
    with pytest.raises(NotADirectoryError, match="DISPUTES"):
        list(decisions(tmp_path / "nowhere", BATCH))
