"""What a student can send besides code: names, parts of a class, archives. And what was left by others."""

import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testcases.grader.intake.exports import find
from testcases.grader.intake.selection import course_files
from testcases.grader.intake.submissions import from_folder, read_submission
from testcases.grader.marking.assignment import asked_for
from testcases.grader.marking.grade import Grader
from testcases.grader.marking.secret import secret_of
from testcases.grader.sandbox import bubblewrap as _bubblewrap
from testcases.grader.sandbox import staging
from testcases.grader.sandbox.limits import Limits
from testcases.grader.status import NOT_STARTED
from testcases.harness.catalog.lessons import TUTORIAL, lesson_names


def test_names_in_two_cases_and_twice(tmp_path: Path, recwarn: pytest.WarningsRecorder):
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "in" / "ann.zip", "w") as archive:
        for name, text in (("gae", "old"), ("GAE", "other"), ("gae", "new")):
            archive.writestr(f"lesson04_gae/{name}.py", f"# {text}\n")
        archive.writestr("Lesson04_gae/gae.py", "# another folder\n")
    (hand_in,) = find(tmp_path / "in")
    submission = read_submission(hand_in)
    assert submission.files["lesson04_gae/gae.py"] == b"# new\n"
    assert "lesson04_gae/gae.py is in it more than once: the last one was read" in submission.notes


@pytest.mark.parametrize(
    "where, inside",
    [
        ("lib/python3.11/site-packages/ppo_by_hand", "."),
        (".venv/src/ppo-by-hand/solutions", lesson_names()[0]),
        ("envs/other/lib/python3.12/site-packages/ppo_by_hand", "."),
    ],
)
def test_an_installed_course_is_not_seen(
    bubblewrap: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, inside: str
):
    place = tmp_path / where
    (place / inside).mkdir(parents=True)
    (place / "gae.py").write_text("the solution", "utf-8")
    for folder in (
        *list(tmp_path.parents)[:3],
        tmp_path,
        *(one for one in place.parents if tmp_path in one.parents),
        place,
    ):
        folder.chmod(0o755)
    folders = _bubblewrap.interpreter_folders()
    monkeypatch.setattr(_bubblewrap, "interpreter_folders", lambda: [*folders, str(tmp_path)])
    assert _bubblewrap.installed() == [str(place)]
    assert _bubblewrap.run_in_it(["cat", f"{place}/gae.py"]).returncode != 0
    monkeypatch.setattr(_bubblewrap, "installed", list)
    assert _bubblewrap.run_in_it(["cat", f"{place}/gae.py"]).stdout == "the solution"
    monkeypatch.setattr(_bubblewrap, "ROOT", place.parent)  # A course at a place such as /usr/src.
    assert _bubblewrap.run_in_it(["cat", f"{place}/gae.py"]).returncode != 0


def test_what_was_handed_out_earns_nothing():
    submission = from_folder(TUTORIAL, "unstarted")
    assert {path: submission.files[path] for path in course_files()} == staging.untouched()
    box: Any = SimpleNamespace(kind="bwrap", limits=Limits(), begin=lambda: None)
    grader = Grader(box, secret_of("s"), staging.untouched(), asked_for(lessons="4").exercises)
    result = grader.grade(submission)
    found = [one for lesson in result["lessons"].values() for one in lesson["exercises"].values()]
    assert {one["status"] for one in found} == {NOT_STARTED} and not result["score"]


@pytest.mark.parametrize("kind", ["bwrap", "none"])
def test_on_another_system_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch, kind: str):
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(_bubblewrap.NoSandbox, match="make check needs Linux, or a Linux container"):
        _bubblewrap.check_sandbox(kind)
