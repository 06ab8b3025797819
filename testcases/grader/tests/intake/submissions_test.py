"""Whatever an LMS exports: every student is found once, and of what each handed in, the lessons and what they need."""

import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from testcases.grader.intake import Submission, find, from_folder, read_submission
from testcases.grader.status import NEAR, NEWER, SECOND, SYNTAX
from testcases.harness import named_cases
from testcases.harness.catalog import TUTORIAL

GAE, LOSS = "lesson04_gae/gae.py", "lesson05_ppo_loss/ppo_loss.py"


def put(folder: Path, *names: str) -> Path:
    """Each file holds its own name, so that it can be told where it came from; archives are made of their names."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n", "utf-8")
    return folder


def zipped(path: Path, *names: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, f"# {path.name}: {name}\n")
    return path


def read(folder: Path) -> dict[str, Submission]:
    hand_ins = find(folder)
    assert len({one.file_name.lower() for one in hand_ins}) == len(hand_ins)
    return {one.student: read_submission(one) for one in hand_ins}


def only(folder: Path) -> Submission:
    (submission,) = read(folder).values()
    return submission


def test_a_plain_folder_of_students(tmp_path: Path):
    put(tmp_path, f"ann/{GAE}", f"Bo Lee/tutorial/{GAE}", ".gitkeep", "__MACOSX/ann/gae.py", "Thumbs.db")
    zipped(tmp_path / "cy.zip", GAE)
    found = read(tmp_path)
    assert set(found) == {"ann", "Bo Lee", "cy"} and all(GAE in one.files for one in found.values())
    assert [one.folder for one in found.values()] == ["tutorial", ".", "."]


def test_canvas_files_of_one_student_are_one_submission(tmp_path: Path):
    put(tmp_path, "leebo_22_9911_gae.py", "leebo_LATE_22_9912_ppo_loss-1.py", "leebo_22_9913_helpers.py")
    zipped(tmp_path / "roeann_23_9914_homework-2.zip", f"homework/{GAE}")
    zipped(tmp_path / "roeann_23_9915_rest.zip", f"rest/{LOSS}")
    found = read(tmp_path)
    assert set(found) == {"leebo_22", "roeann_23"}
    beside = {"lesson04_gae/helpers.py", "lesson05_ppo_loss/helpers.py"}
    assert set(found["leebo_22"].files) == {GAE, LOSS, *beside} and found["leebo_22"].status == "graded"
    assert set(found["roeann_23"].files) == {GAE, LOSS}
    assert "handed in late, as Canvas says" in found["leebo_22"].notes


def test_of_two_attempts_in_one_canvas_folder_the_later_counts(tmp_path: Path):
    put(tmp_path, "leebo_22_9911_gae.py", "leebo_22_9911_gae-1.py")
    assert only(tmp_path).files[GAE] == b"# leebo_22_9911_gae-1.py\n"


def test_moodle_with_folders_and_without(tmp_path: Path):
    put(tmp_path, f"Ann Lee_12_assignsubmission_file_/{GAE}", "Ann Lee_12_assignsubmission_onlinetext_/text.html")
    put(tmp_path, "Bo Roe_13_assignsubmission_file_gae.py", "Bo Roe_13_assignsubmission_file_ppo_loss.py")
    put(tmp_path, f"Cy Poe_14_assignsubmission_file/{GAE}")
    found = read(tmp_path)
    assert {name.partition("_")[0] for name in found} == {"Ann Lee", "Bo Roe", "Cy Poe"} and len(found) == 3
    assert [set(one.files) for one in found.values()] == [{GAE}, {GAE, LOSS}, {GAE}]


METADATA = """\
---
submission_1:
  :submitters:
  - :name: Ann Lee
    :sid: '007'
    :email: ann@x.org
  :created_at: 2026-11-20 10:00:00 Z
  :score: 1.0
submission_2:
  :submitters:
  - :name: Bo Roe
    :sid: ''
    :email: bo@x.org
  - :name: "Cy Poe"
    :email: cy@x.org
  :history:
  - :id: 3
    :submitters:
    - :name: nobody
"""


def test_gradescope_says_who_they_are(tmp_path: Path):
    put(tmp_path, f"submission_1/{GAE}", f"submission_2/{LOSS}", f"submission_3/{GAE}")
    (tmp_path / "submission_metadata.yml").write_text(METADATA, "utf-8")
    found = read(tmp_path)
    assert set(found) == {"Ann Lee", "Bo Roe", "Cy Poe", "submission_3"}
    assert found["Ann Lee"].aliases == ("ann@x.org", "007", "submission_1")
    assert set(found["Bo Roe"].files) == set(found["Cy Poe"].files) == {LOSS}
    assert "handed in by 2 people together" in found["Cy Poe"].notes


@pytest.mark.parametrize("text", ["", "\xff" * 1000, "a: [", "submission_1:\n  :submitters:\n    :name: x\n" * 3])
def test_a_strange_list_of_gradescope_changes_nothing(tmp_path: Path, text: str):
    put(tmp_path, f"submission_1/{GAE}")
    (tmp_path / "submission_metadata.yml").write_text(text, "utf-8")
    assert [set(one.files) for one in read(tmp_path).values()] == [{GAE}]


def test_a_folder_of_one_submission_is_refused(tmp_path: Path):
    put(tmp_path, f"tutorial/{GAE}")
    with pytest.raises(ValueError, match="one subfolder"):
        find(tmp_path)


# What of a submission is taken


def test_modules_of_ones_own_and_old_given_files_are_taken(tmp_path: Path):
    here = ("tutorial/my_loss.py", "tutorial/shapes.py", f"tutorial/{GAE}", "tutorial/lesson04_gae/my_helpers.py")
    put(tmp_path / "ann", *here, "tutorial/lesson09_ppo_trainer/scoring.py", "tutorial/lesson04_gae/a b.py", "t/x.py")
    wanted = {GAE, "my_loss.py", "shapes.py", "lesson04_gae/my_helpers.py", "lesson09_ppo_trainer/scoring.py"}
    assert set(only(tmp_path).files) == wanted


def test_imports_of_what_is_there_are_no_doubt(tmp_path: Path):
    lines = "import torch.nn, __main__, mine, tutorial.lesson04_gae\nfrom . import x\nfrom lesson04_gae import mine\n"
    (put(tmp_path / "ann", GAE, "lesson04_gae/mine.py") / GAE).write_text(
        lines + "try:\n    import no_such\nexcept ImportError:\n    pass\n", "utf-8"
    )
    assert not only(tmp_path).doubts


def test_a_thousand_modules_are_too_many(tmp_path: Path):
    put(tmp_path / "ann", GAE, *(f"lesson04_gae/m{number}.py" for number in range(1000)))
    submission = only(tmp_path)
    assert GAE in submission.files and len(submission.files) <= 200
    assert any("one module too many" in note for note in submission.notes)


JUNK = ("venv/lib/torch/gae.py", "env/x.py", "node_modules/x.py", ".git/x.o", "a/__pycache__/x.pyc")


@pytest.mark.parametrize("form", ["folder", "zip", "tar"])
@pytest.mark.parametrize("junk", JUNK)
def test_junk_of_any_size_uses_up_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, junk: str):
    names = [*(junk.replace("x.", f"{number}x.").replace("gae", f"g{number}") for number in range(40)), GAE]
    monkeypatch.setattr("testcases.grader.intake.archives.MAX_ENTRIES", 20)
    monkeypatch.setattr("testcases.grader.intake.archives.MAX_LISTED", 20)
    monkeypatch.setattr("testcases.grader.intake.archives.MAX_UNPACKED", 60_000)
    if form == "folder":
        put(tmp_path / "ann", *names)
    elif form == "zip":
        zipped(tmp_path / "ann.zip", *names)
    else:
        with tarfile.open(tmp_path / "ann.tgz", "w:gz") as archive:
            for name in names:
                info = tarfile.TarInfo(name)
                info.size = 10 if name == GAE else 10_000
                archive.addfile(info, io.BytesIO(bytes(info.size)))
    submission = only(tmp_path)
    assert (submission.status, set(submission.files)) == ("graded", {GAE}), submission.notes


def test_six_thousand_files_beside_the_work(tmp_path: Path):
    put(tmp_path / "ann", GAE, *(f"data/{number}.txt" for number in range(6000)))
    assert set(only(tmp_path).files) == {GAE}


def test_several_archives_in_one_folder_are_one_submission(tmp_path: Path):
    zipped(tmp_path / "ann" / "hw9.zip", f"x/{GAE}")
    zipped(tmp_path / "ann" / "hw10.zip", f"x/{GAE}", f"x/{LOSS}")
    (tmp_path / "ann" / "broken.zip").write_bytes(b"PK no")
    submission = only(tmp_path)
    assert submission.files[GAE] == b"# hw10.zip: x/lesson04_gae/gae.py\n" and LOSS in submission.files
    assert submission.status == "graded" and submission.folder == "hw9.zip/x, hw10.zip/x"
    assert any("handed in more than once" in note for note in submission.notes)
    assert any(note.startswith("broken.zip") for note in submission.notes)


def test_solutions_in_an_archive_are_nobodys_work(tmp_path: Path):
    mark = "def td_errors():\n    # region solution\n    return 1\n    # endregion\n"
    with zipfile.ZipFile(zipped(tmp_path / "ann" / "solutions.zip", "x"), "w") as archive:
        archive.writestr(GAE, mark)
    with zipfile.ZipFile(zipped(tmp_path / "bo.zip", "x"), "w") as archive:
        archive.writestr(f"solutions/{GAE}", mark)
    found = read(tmp_path)
    assert [(one.status, one.files) for one in found.values()] == [("empty", {})] * 2


@pytest.mark.parametrize("name", ["anna.py", "gae.py", "notes.txt", "anna.rar"])
def test_what_cannot_be_read_is_no_mark_of_0(tmp_path: Path, name: str):
    put(tmp_path, name)
    submission = only(tmp_path)
    assert submission.status == "unreadable" and "expected a folder or an archive" in " ".join(submission.notes)


def test_a_damaged_file_is_not_missing(tmp_path: Path):
    """Its name is there, and its bytes are not what the archive says of them."""
    (tmp_path / "one").mkdir()
    with zipfile.ZipFile(tmp_path / "one" / "work.zip", "w") as archive:
        archive.writestr("tutorial/lesson04_gae/gae.py", "x = 1234567\n")
        archive.writestr("tutorial/lesson05_ppo_loss/ppo_loss.py", "y = 1\n")
    path = tmp_path / "one" / "work.zip"
    path.write_bytes(path.read_bytes().replace(b"x = 1234567", b"x = 7654321"))
    found = from_folder(tmp_path / "one", "one")
    assert found.status == "graded" and "damaged" in found.damaged["lesson04_gae/gae.py"]


@pytest.mark.parametrize(
    "name",
    ["gae (1).py", "GAE.py", "gae.PY", "Copy of gae.py", "gae - Copy.py", "gae.py.txt", "gae_v2.py", "gae.ipynb"],
)
def test_a_name_that_is_almost_right_is_proposed_and_not_guessed(tmp_path: Path, name: str):
    put(tmp_path / "ann", name)
    found = only(tmp_path)
    assert not found.files and found.status == "empty"
    assert [(doubt.kind, doubt.text) for doubt in found.doubts] == [
        (NEAR, f"no {GAE}; there is {name}: was it renamed?")
    ]


@pytest.mark.parametrize("stub, kind", [("", NEAR), ("mine = 0\n", SECOND)])
def test_a_name_that_is_almost_right_beside_what_nobody_worked_on_is_proposed(tmp_path: Path, stub: str, kind: str):
    """A browser adds (1) because the file that was handed out is there already."""
    here, near = tmp_path / "ann" / "tutorial" / GAE, f"tutorial/{GAE[:-3]} (1).py"
    put(tmp_path / "ann", f"tutorial/{GAE}", near)
    here.write_text(stub or (TUTORIAL / GAE).read_text("utf-8"), "utf-8")
    assert [doubt.kind for doubt in only(tmp_path).doubts] == [kind]


def test_what_the_course_brings_is_no_second_copy(tmp_path: Path):
    """Its applications have files of the same names as lessons."""
    names = (f"{part}/{{}}" for part in ("solutions/demo", "testcases/lesson12_capstone"))
    put(tmp_path / "ann", "tutorial/lesson12_capstone/stages.py", *(name.format("stages.py") for name in names))
    assert not only(tmp_path).doubts


def test_a_comment_that_is_typed_beside_the_work_is_not_told(tmp_path: Path):
    put(tmp_path, f"Ann Lee_12_assignsubmission_file/{GAE}", "Ann Lee_12_assignsubmission_onlinetext/onlinetext.html")
    put(tmp_path, "Bo Roe_13_assignsubmission_onlinetext/onlinetext.html")
    told = ["expected Python files" in " ".join(one.notes) for one in read(tmp_path).values()]
    assert told == [False, True]


def test_a_notebook_of_the_course_is_nobodys_lesson(tmp_path: Path):
    put(tmp_path / "ann", "notebooks/04_gae.ipynb", f"tutorial/{LOSS}")
    assert not only(tmp_path).doubts


def test_a_file_that_a_lesson_names_goes_with_it(tmp_path: Path):
    put(tmp_path / "ann", f"tutorial/{GAE}", "tutorial/lesson04_gae/notes.txt", "tutorial/lesson04_gae/other.txt")
    (tmp_path / "ann" / "tutorial" / GAE).write_text("open('notes.txt')\n", "utf-8")
    (hand_in,) = find(tmp_path)
    assert set(read_submission(hand_in).files) == {GAE, "lesson04_gae/notes.txt"}


def test_an_archive_beside_what_nobody_touched_is_what_was_handed_in(tmp_path: Path):
    stub = (TUTORIAL / GAE).read_text("utf-8")
    for name, text in (("ann", stub), ("bob", "mine = 1\n")):
        (put(tmp_path / name, f"tutorial/{GAE}") / f"tutorial/{GAE}").write_text(text, "utf-8")
        with zipfile.ZipFile(tmp_path / name / "resubmission.zip", "w") as archive:
            archive.writestr(f"tutorial/{GAE}", "again = 2\n")
    ann, bob = (from_folder(tmp_path / name, name) for name in ("ann", "bob"))
    assert ann.files[GAE] == b"again = 2\n" and not ann.doubts
    assert any("since it is as it was handed out" in note for note in ann.notes)
    assert bob.files[GAE] == b"mine = 1\n" and [doubt.kind for doubt in bob.doubts] == [SECOND]
    assert "resubmission.zip" in bob.doubts[0].text


@named_cases(
    "text, kind, says",
    {
        "type-parameters": ("def _shown[T](x: T) -> T:\n    return x\n", NEWER, "Python 3.12"),
        "with-defaults": ("x = 1\nclass _Box[T = int]:\n    pass\n", NEWER, "line 2: defaults of type parameters"),
        "type-statement": ("type Row = list[int]\n", NEWER, "the type statement"),
        "f-string": ("x = {'a': 1}\ny = f'{x['a']}'\n", NEWER, "quotes inside of an f-string"),
        "no-python": ("def f(:\n    pass\n", SYNTAX, "line 1: SyntaxError"),
        "tabs": ("if 1:\n\tx = 1\n        y = 2\n", SYNTAX, "line 3"),
        "nul": ("x = 1\0\n", SYNTAX, ""),
        "not-installed": ("import os, no.such\n", SYNTAX, "line 1: imports no, which is not installed here"),
    },
)
def test_what_python_cannot_read_is_told_with_the_python_that_could(tmp_path: Path, text: str, kind: str, says: str):
    (put(tmp_path, GAE) / GAE).write_text(text, "utf-8")
    found = from_folder(tmp_path, "ann")
    if sys.version_info < (3, 12) or kind == SYNTAX:
        assert [doubt.kind for doubt in found.doubts] == [kind] and says in found.doubts[0].text
        assert f"{sys.version_info[0]}.{sys.version_info[1]}" in found.doubts[0].text
        assert bool(found.newer) == (kind == NEWER)
