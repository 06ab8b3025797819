"""What of a submission is graded: a tutorial/, or what came from one, and never the course's solutions."""

from __future__ import annotations

import pytest

from testcases.grader.choosing import choose, course_files

GAE, LOSS = "lesson04_gae/gae.py", "lesson05_ppo_loss/ppo_loss.py"
COURSE = ("Makefile", "README.md", "testcases/points.toml", "tiny_models/vocab.py")
ALL = tuple(f"solutions/{path}" for path in course_files())
MARK = b"def f():\n    # region solution\n    return 1\n    # endregion\n"


def chosen(names: tuple[str, ...], origin: str = "anna") -> tuple[str, set[str], str]:
    """Folder, files and notes; a name that ends in "!" is of a file with region marks."""
    data = {name.rstrip("!"): MARK if name.endswith("!") else b"def f(): ...\n" for name in names}
    found = choose(data, data.__getitem__, origin)
    return found.folder, set(found.files.values()), " | ".join(found.notes)


def marked(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}!" for name in names)


@pytest.mark.parametrize(
    "names, folder, files",
    [
        pytest.param((GAE, LOSS), ".", {GAE, LOSS}, id="lessons-at-the-top"),
        pytest.param(("homework/final/" + GAE,), "homework/final", {"homework/final/" + GAE}, id="nested"),
        pytest.param(("tutorial/" + GAE, "old/tutorial/" + LOSS), "tutorial", {"tutorial/" + GAE}, id="the-nearest"),
        pytest.param((GAE, "old/copy/" + GAE, "old/copy/" + LOSS), ".", {GAE}, id="not-the-fullest"),
        pytest.param((GAE, "tutorial/" + LOSS), "tutorial", {"tutorial/" + LOSS}, id="tutorial-before-what-is-beside"),
        pytest.param(("w1/" + GAE, "w2/" + LOSS), "w1, w2", {"w1/" + GAE, "w2/" + LOSS}, id="parts-of-one-work"),
        pytest.param(("a/" + GAE, "b/" + GAE, "b/" + LOSS), "a", {"a/" + GAE}, id="copies-are-no-parts"),
        pytest.param(("gae.py",), ".", {"gae.py"}, id="one-file-alone"),
        pytest.param(("src/trainer.py",), "", set(), id="one-file-that-two-lessons-have"),
        pytest.param((*marked(GAE), *COURSE[:2]), ".", {GAE}, id="marks-alone-are-the-students"),
    ],
)
def test_the_students_work_is_taken(names: tuple[str, ...], folder: str, files: set[str]):
    assert chosen(names)[:2] == (folder, files)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param((*COURSE, *ALL, "tutorial/" + LOSS), id="whole-repository"),
        pytest.param(tuple(f"anna/ppo/{name}" for name in (*COURSE, *ALL, "tutorial/" + LOSS)), id="nested-repository"),
        pytest.param((*ALL, "tutorial/" + LOSS), id="without-neighbours"),
        pytest.param((*COURSE, *(f"answers/{path}" for path in course_files()), "tutorial/" + LOSS), id="renamed"),
        pytest.param((*marked(*course_files()), "tutorial/" + LOSS), id="marks-at-the-top"),
        pytest.param((*marked(*(f"a/{path}" for path in course_files())), "z/tutorial/" + LOSS), id="marks-before"),
        pytest.param((*COURSE, *course_files(), "tutorial/" + LOSS), id="at-the-top-of-a-repository"),
        pytest.param((*(f"tutorial/solutions/{path}" for path in course_files()), "tutorial/" + LOSS), id="inside"),
    ],
)
def test_of_a_repository_only_tutorial_is_graded_and_what_it_lacks_is_missing(names: tuple[str, ...]):
    folder, files, notes = chosen(names)
    assert folder.endswith("tutorial") and {name.rpartition("tutorial/")[2] for name in files} == {LOSS}, notes
    assert not any("solutions" in name for name in files) and notes


@pytest.mark.parametrize(
    "names, origin",
    [
        pytest.param(ALL, "anna", id="solutions"),
        pytest.param(tuple(f"my/SOLUTIONS/deep/{path}" for path in course_files()), "anna", id="deep-and-in-capitals"),
        pytest.param((*COURSE, "answers/" + GAE), "anna", id="a-renamed-copy-in-a-repository"),
        pytest.param(("README.md", "Makefile", *marked("answers/" + GAE)), "anna", id="marks-and-a-repository"),
        pytest.param((*COURSE, *marked(GAE)), "anna", id="marks-at-the-top-of-a-repository"),
        pytest.param(marked("Solutions (1)/" + GAE), "anna", id="marks-and-a-name"),
        pytest.param(marked(GAE), "solutions", id="the-submission-itself"),
        pytest.param(("solutions/gae.py",), "anna", id="one-file-of-it"),
    ],
)
def test_solutions_are_nobodys_work(names: tuple[str, ...], origin: str):
    folder, files, notes = chosen(names, origin)
    assert (folder, files) == ("", set())
    assert "not graded" in notes or names == ("solutions/gae.py",)
