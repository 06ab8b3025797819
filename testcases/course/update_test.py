"""`make update` brings the new version and loses nothing that was written."""

import subprocess
from pathlib import Path

import pytest

from testcases.update import Refused, update

FILE = "one = 1\n\n\n\n\ntwo = 2\n"


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    folder = tmp_path / "course"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for name in ("untouched", "mine", "both", "same_lines", "removed", "removed_but_mine"):
        (folder / f"{name}.py").write_text(FILE)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    subprocess.run(["git", "clone", "-q", str(folder), str(tmp_path / "clone")], check=True)
    return folder


def test_what_one_has_written_stays_and_the_rest_is_new(course: Path) -> None:
    clone = course.parent / "clone"
    for name in ("untouched", "both", "same_lines"):
        (course / f"{name}.py").write_text(FILE.replace("one = 1", "one = 'new'"))
    for name in ("removed", "removed_but_mine"):
        (course / f"{name}.py").unlink()
    (course / "added.py").write_text("added\n")
    (course / "notes.md").write_text("the course's\n")
    git(course, "add", "-A")
    git(course, "commit", "-qm", "second")
    (clone / "mine.py").write_text("mine\n")
    (clone / "both.py").write_text(FILE.replace("two = 2", "two = 'mine'"))
    (clone / "same_lines.py").write_text(FILE.replace("one = 1", "one = 'mine'"))
    (clone / "removed_but_mine.py").write_text("mine\n")
    (clone / "notes.md").write_text("my notes\n")
    (clone / "runs").mkdir()
    (clone / "runs" / "policy").write_text("trained\n")

    found = update(clone)
    assert found is not None
    assert sorted(found.new) == ["added.py", "removed.py", "untouched.py"] and found.joined == ["both.py"]
    assert sorted(found.conflicts) == ["notes.md", "removed_but_mine.py", "same_lines.py"]
    assert "same_lines.py is yours still; the new version lies beside it as same_lines.py.new" in "\n".join(
        found.lines()
    )
    texts = {path.name: path.read_text() for path in clone.iterdir() if path.is_file()}
    assert "'new'" in texts["untouched.py"] and "removed.py" not in texts and texts["added.py"] == "added\n"
    assert "'new'" in texts["both.py"] and "'mine'" in texts["both.py"]
    assert texts["mine.py"] == texts["removed_but_mine.py"] == "mine\n" and texts["notes.md"] == "my notes\n"
    assert "'mine'" in texts["same_lines.py"] and "<<<<" not in texts["same_lines.py"]
    assert "'new'" in texts["same_lines.py.new"] and texts["notes.md.new"] == "the course's\n"
    assert (clone / "runs" / "policy").read_text() == "trained\n"
    assert update(clone) is None


def test_a_clone_that_cannot_be_updated_says_why(course: Path) -> None:
    clone = course.parent / "clone"
    with pytest.raises(Refused, match="upstream branch"):
        update(course)
    (clone / "mine.py").write_text("mine\n")
    git(clone, "commit", "-qam", "mine")
    (course / "untouched.py").write_text("new\n")
    git(course, "commit", "-qam", "second")
    with pytest.raises(Refused, match="no commits of your own"):
        update(clone)
    assert (clone / "untouched.py").read_text() == FILE
