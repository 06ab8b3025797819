"""What README.md and its pictures say."""

import json
import re
from pathlib import Path

import pytest

from book.figures.lesson00_one_screen import COMMANDS, FAILURE, RECORDED
from testcases.course import records
from testcases.course.students import replace_body, run_pytest, solved_folder
from testcases.harness.catalog.lessons import ROOT

LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[\w-]+)?\)")
APART = [path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md"]


@pytest.mark.slow
def test_the_picture_of_a_failure_is_what_pytest_says(tmp_path: Path):
    folder = solved_folder(tmp_path)
    replace_body(folder, "return rewards + gamma * values[..., 1:] - values[..., :-1]")
    said = run_pytest(folder, "-m", "basic", "-k", "td_errors_by_hand", "-p", "no:randomly").stdout
    assert FAILURE in said


def test_the_moving_picture_shows_the_runs_that_lesson_0_quotes():
    """To record it again: python -m book.figures.lesson00_one_screen."""
    runs = json.loads(RECORDED.read_text("utf-8"))
    shown = ["".join(f"{line}\n" for _, line in runs[command]) for command in COMMANDS]
    assert shown == [re.sub(r"(?m)^(?! +\d+ ).*\n", "", printed) for printed in records.printed("lesson00")]


@pytest.mark.parametrize("path", APART, ids=lambda path: path.name)
def test_every_link_of_a_page_outside_of_the_book_leads_to_something(path: Path):
    missing = [link for link in LINK.findall(path.read_text("utf-8")) if not (path.parent / link).exists()]
    assert not missing
