"""Exports as four platforms lay them out: everybody is found once, with the newest attempt, and known by an id.

Canvas's names are those of its content_zipper.rb, Moodle's of its assign/locallib.php, Gradescope's of an export with
submission_metadata.yml, GitHub's those of `gh classroom clone`.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from testcases.grader.intake.exports import find, told
from testcases.grader.intake.submissions import Submission, read_submission
from testcases.grader.status import CLOSED, OLDER, SECOND
from testcases.grader.tests.running import packed, put
from testcases.harness.suite.asserts import named

GAE, TREE = "def td_errors(): ...\n", "tutorial/lesson04_gae/gae.py"
ZIP, LISTED = packed({TREE: GAE}), "submission_metadata.yml"
METADATA = """\
---
submission_1:
  :submitters:
  - :name: Ann Lee
    :sid: '007'
    :email: ann@x.edu
  :created_at: 2026-11-20 22:10:11.938405000 Z
  :score: 1.0
submission_2:
  :submitters:
  - :name: |-
      Bob
        :email: ann@x.edu
    :sid: ''
    :email: bob@x.edu
  - :name: "Öz, Cem"
    :email: c@x.edu
  :history:
  - :id: 1
    :submitters:
    - :name: nobody
"""
ANN, BOB = (f"{name}_assignsubmission_file" for name in ("Ann Lee_21", "Bob Smith_22"))


def files(*names: str) -> dict[str, str | bytes]:
    """What stands in each follows from its name."""
    known = {"gae.py": GAE, ".zip": ZIP, LISTED: METADATA}
    return {name: next((text for end, text in known.items() if name.endswith(end)), "") for name in names}


def read(folder: Path) -> dict[str, Submission]:
    hand_ins = find(folder)
    assert len({one.file_name.lower() for one in hand_ins}) == len({one.student for one in hand_ins}) == len(hand_ins)
    return {one.student: read_submission(one) for one in hand_ins}


@named(
    "system, wanted, names",
    {
        "canvas": (
            "Canvas",
            "leeann_11 graded 11, smithbob_12 graded 12, özcem_13 unreadable 13",
            ["leeann_11_5_gae.py", "smithbob_LATE_12_6_hw.zip", "özcem_13_7_hw.tar.gz", "özcem_13_8_a.pdf"],
        ),
        "canvas-several-files": (
            "Canvas",
            "leeann_11 graded 11",
            ["leeann_11_5_gae.py", "leeann_11_6_my.py", "leeann_11_7_a.pdf", "leeann_11_8_b.zip"],
        ),
        "canvas-underscores": (
            "Canvas",
            "lee_roeann_14 graded 14, leeann_11 graded 11",
            ["lee_roeann_14_5_gae.py", "leeann_11_6_7_gae.py", "leeann_11_8_gae.py"],
        ),
        "canvas-anonymous": (
            "Canvas",
            "anon_Ab3xZ graded Ab3xZ, anon_q9Yt2 graded q9Yt2",
            ["anon_Ab3xZ_5_gae.py", "anon_LATE_q9Yt2_6_gae.py"],
        ),
        "canvas-typed": ("Canvas", "leeann_11 empty 11", ["leeann_11_text.html"]),
        "moodle": (
            "Moodle",
            "Ann Lee_21 graded Participant 21, Bob Smith_22 graded Participant 22, Cem_23 empty Participant 23",
            [f"{ANN}_/gae.py", f"{BOB}/hw.zip", "Cem_23_assignsubmission_onlinetext_/onlinetext.html"],
        ),
        "moodle-flat": (
            "Moodle",
            "Ann Lee_21 graded Participant 21, Bob Smith_22 graded Participant 22",
            [f"{ANN}_gae.py", f"{ANN}_my.py", f"{BOB}_a.zip", f"{BOB[:-4]}onlinetext.html"],
        ),
        "moodle-blind": (
            "Moodle",
            "Participant 12_34 graded Participant 34",
            [f"Participant 12_34_assignsubmission_file_/{TREE}"],
        ),
        "gradescope": (
            "Gradescope",
            "submission_1 graded ann@x.edu, submission_2 Bob   :email: ann@x.edu graded bob@x.edu, "
            "submission_2 Öz, Cem graded c@x.edu",
            [f"submission_1/{TREE}", "submission_1/.git/HEAD", "submission_2/gae.py", LISTED],
        ),
        "gradescope-without-list": ("folder", "submission_1 graded ", [f"submission_1/{TREE}"]),
        "github": (
            "GitHub",
            "hw2-al graded , hw2-bob-s graded ",
            [f"hw2-{name}/{path}" for name in ("al", "bob-s") for path in (TREE, ".git/HEAD", "tiny_models/x.py")]
            + ["grades.csv", ".git/config", "README.md"],
        ),
        "folders": (
            "folder",
            "De la Cruz, Eva graded , ann graded ",
            [f"ann/{TREE}", "De la Cruz, Eva/gae.py", "__MACOSX/ann/x", "Thumbs.db"],
        ),
        "zips": ("archive", "ann graded , İ b graded ", ["ann.zip", "İ b.zip"]),
    },
)
def test_everybody_is_found_once(tmp_path: Path, system: str, wanted: str, names: list[str]):
    found = read(put(tmp_path, files(*names)))
    got = ", ".join(f"{name} {one.status} {(*one.ids, '')[0]}" for name, one in found.items())
    assert got == wanted, [one.notes for one in found.values()]
    assert {one.system for one in found.values()} == {system}


def test_of_canvas_attempts_the_newest_counts_and_the_others_are_named(tmp_path: Path):
    texts = {f"leeann_11_{number}_gae{more}.py": f"{GAE}# {more}" for number, more in ((9, "-2"), (5, ""), (12, "-1"))}
    (ann,) = read(put(tmp_path, {**texts, "leeann_11_13_rest-1.zip": packed({"a.txt": ""})})).values()
    assert ann.files["lesson04_gae/gae.py"].endswith(b"# -2")
    (doubt,) = ann.doubts
    assert doubt.kind == OLDER and "leeann_11_5_gae.py, leeann_11_12_gae-1.py" in doubt.text


@pytest.mark.parametrize("text", ["", "\xff" * 1000, "a: [", "- 1", "submission_1:\n  :submitters: 3\n", "a: &a [*a]"])
def test_a_strange_list_of_gradescope_changes_nothing(tmp_path: Path, text: str):
    assert list(read(put(tmp_path, {"submission_1/gae.py": GAE, LISTED: text}))) == ["submission_1"]


@named(
    "within",
    {
        "files-of-canvas": files("hw/leeann_11_9010_gae.py", "hw/smithbob_12_9020_gae.py"),
        "folders": files("hw/ann/gae.py", "hw/bob/gae.py"),
        "a-list-of-gradescope": files("submission_1/gae.py", LISTED),
    },
)
@pytest.mark.parametrize("name", ["", "Eve E.zip", "Eve E/hw.zip"])
def test_what_one_person_hands_in_is_nobody_elses(tmp_path: Path, name: str, within: Mapping[str, str]):
    """Not even where nothing else lies there, as when one late submission is graded alone."""
    put(tmp_path, {name: packed(within)} if name else {f"Eve E/{path}": text for path, text in within.items()})
    assert [one.student for one in find(tmp_path)] == ["Eve E"]
    assert "is a submission: there is only one, Eve E" in told(tmp_path, find(tmp_path))


def test_names_that_differ_in_capitals_only_stay_apart(tmp_path: Path):
    (one, two) = read(put(tmp_path, files("Ann/gae.py", "ann.zip")))
    assert one[:5] == "Ann ~" and two[:5] == "ann ~" and one[5:] != two[5:]


def test_a_folder_of_one_submission_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="one subfolder"):
        find(put(tmp_path, files(TREE)))


@pytest.mark.parametrize("name", ["homework.7z", "homework.rar"])
def test_an_archive_that_is_not_read_is_looked_at_beside_what_is(tmp_path: Path, name: str):
    put(tmp_path, files("ann/gae.py", f"ann/{name}", f"bob{Path(name).suffix}", f"cem/{name}"))
    ann, bob, cem = read(tmp_path).values()
    assert [doubt.kind for doubt in ann.doubts] == [CLOSED] and "unpack it" in ann.doubts[0].text
    assert bob.student == "bob" and bob.status == "unreadable" and "unpack it" in bob.notes[0]
    assert cem.status == "empty" and any(name in note for note in cem.notes)


def test_several_archives_of_one_person_are_one_submission(tmp_path: Path):
    more = packed({TREE: GAE, "lesson05_ppo_loss/ppo_loss.py": "x"})
    put(tmp_path, {"ann/hw9.zip": packed({TREE: GAE + "# 9"}), "ann/hw10.zip": more, "ann/no.zip": b"PK"})
    (ann,) = read(tmp_path).values()
    assert set(ann.files) == {"lesson04_gae/gae.py", "lesson05_ppo_loss/ppo_loss.py"} and ann.status == "graded"
    assert [doubt.kind for doubt in ann.doubts] == [SECOND] and any(note.startswith("no.zip") for note in ann.notes)
