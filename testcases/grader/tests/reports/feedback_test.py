"""What students get back, in the layout that Moodle takes and in a repository."""

import re
import zipfile
from pathlib import Path

import pytest

from testcases.grader.reports.pages import feedback
from testcases.grader.tests.reports.data import CAUSE, check_page, exercise, load_one, put, report, result


def back(out: Path, name: str) -> dict[str, bytes]:
    with zipfile.ZipFile(out / "feedback" / name) as archive:
        assert archive.testzip() is None
        return {one: archive.read(one) for one in archive.namelist()}


def test_everybody_has_a_folder(tmp_path: Path):
    report(put(tmp_path, result("ann"), result("bob", status="empty")))
    folders = sorted((tmp_path / "feedback" / "students").iterdir())
    assert [sorted(path.name for path in folder.iterdir()) for folder in folders] == [
        ["FEEDBACK.md", "feedback.html"]
    ] * 2
    for folder in folders:
        check_page(folder / "feedback.html")
    texts = [(folder / "FEEDBACK.md").read_text("utf-8") for folder in folders]
    assert "**3 of 6 points**" in texts[0] and CAUSE["why"] in texts[0] and "not a mark of 0" in texts[1]
    assert "bob" not in texts[0] and not (tmp_path / "feedback/moodle.zip").exists()
    report(put(tmp_path / "again", result("cem")))
    assert len(list((tmp_path / "again/feedback/students").iterdir())) == 1


# As Moodle reads a path: fullname_id_plugintype_pluginname, with a "_" behind it in older exports.
MOODLE = re.compile(r"[^_/]+_\d+_assignsubmission_file_?/feedback\.html")


@pytest.mark.parametrize("name", ["Ann Lee_12_assignsubmission_file_", "Zoë Ω_7_assignsubmission_file"])
def test_moodle(tmp_path: Path, name: str):
    report(put(tmp_path, result(name, system="Moodle", exported=[name]), result("bob")))
    (path,) = back(tmp_path, "moodle.zip")
    assert path == f"{name}/feedback.html" and MOODLE.fullmatch(path)


def test_a_repository_gets_a_file_to_commit(tmp_path: Path):
    report(put(tmp_path, result("hw2-annlee", system="repository"), result("..", system="repository")))
    files = sorted(path.relative_to(tmp_path).as_posix() for path in (tmp_path / "feedback/github").rglob("*.md"))
    assert files == ["feedback/github/_/FEEDBACK.md", "feedback/github/hw2-annlee/FEEDBACK.md"]


def test_the_same_marks_give_the_same_bytes(tmp_path: Path):
    name = "Ann Lee_12_assignsubmission_file_"
    for out in (tmp_path / "a", tmp_path / "b"):
        report(put(out, result(name, system="Moodle")))
    first, second = ((tmp_path / out / "feedback/moodle.zip").read_bytes() for out in "ab")
    assert first == second


def test_no_text_of_a_student_is_markup(tmp_path: Path):
    evil = "</pre><script>x</script>\n# Heading\n![x](http://x)\n```\n\x1b[2J"
    bad = exercise(0, 2, "wrong", message=evil)
    sheet = load_one(tmp_path, result("# <b>ann</b>", {"td_errors": bad}, notes=[evil]))
    text = feedback.markdown(sheet, "A *title*")
    lines = [line for line in text.splitlines() if any(word in line for word in ("script", "Heading", "![x]", "```"))]
    assert len(lines) == 5 and all(line.startswith("    ") for line in lines) and "\x1b" not in text
    assert text.startswith("# A \\*title\\*\n")
