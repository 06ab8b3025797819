"""Exports as four platforms lay them out: everybody is found once, with the newest attempt, and known by an id.

Canvas's names are those of its content_zipper.rb, Moodle's of its assign/locallib.php, Gradescope's of an export with
submission_metadata.yml, GitHub's those of `gh classroom clone`.
"""

from pathlib import Path

import pytest

from testcases.grader.intake.exports import find
from testcases.grader.intake.submissions import Submission, read_submission
from testcases.grader.status import CLOSED, OLDER
from testcases.grader.tests.running import TARGET, packed, put
from testcases.grader.text import clean

GAE, TREE, LISTED = "def td_errors(): ...\n", f"tutorial/{TARGET}", "submission_metadata.yml"
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
"""
ANN, BOB = (f"{name}_assignsubmission_file" for name in ("Ann Lee_21", "Bob Smith_22"))


def files(*names: str) -> dict[str, str | bytes]:
    """What stands in each follows from its name."""
    known = {"gae.py": GAE, ".zip": packed({TREE: GAE}), LISTED: METADATA}
    return {name: next((text for end, text in known.items() if name.endswith(end)), "") for name in names}


def read(folder: Path) -> dict[str, Submission]:
    hand_ins = find(folder)
    assert len({one.file_name.lower() for one in hand_ins}) == len({one.student for one in hand_ins}) == len(hand_ins)
    return {one.student: read_submission(one) for one in hand_ins}


LAYOUTS = {
    "canvas": (
        "leeann_11_5_gae/gae.py|smithbob_LATE_12_6_hw.zip|özcem_13_7_hw.tar.gz|özcem_13_8_a.pdf",
        "leeann_11 graded 11|smithbob_12 graded 12|özcem_13 unreadable 13",
    ),
    "canvas-several-files": (
        "leeann_11_5_gae.py|leeann_11_6_my.py|leeann_11_7_a.pdf|leeann_11_8_b.zip",
        "leeann_11 graded 11",
    ),
    "canvas-underscores": (
        "lee_roeann_14_5_gae.py|leeann_11_6_7_gae.py|leeann_11_8_gae.py",
        "lee_roeann_14 graded 14|leeann_11 graded 11",
    ),
    "canvas-anonymous": (
        "anon_Ab3xZ_5_gae.py|anon_LATE_q9Yt2_6_gae.py",
        "anon_Ab3xZ graded Ab3xZ|anon_q9Yt2 graded q9Yt2",
    ),
    "moodle": (
        f"{ANN}_/gae.py|{BOB}/hw.zip|{BOB[:-4]}onlinetext_/onlinetext.html",
        "Ann Lee_21 graded Participant 21|Bob Smith_22 graded Participant 22",
    ),
    "moodle-flat": (
        f"{ANN}_gae.py|{ANN}_my.py|{BOB}_a.zip|{BOB[:-4]}onlinetext.html",
        "Ann Lee_21 graded Participant 21|Bob Smith_22 graded Participant 22",
    ),
    "moodle-blind": (f"Participant 12_34_assignsubmission_file_/{TREE}", "Participant 12_34 graded Participant 34"),
    "gradescope": (
        f"submission_1/{TREE}|submission_1/.git/HEAD|submission_2/gae.py|{LISTED}",
        "submission_1 graded ann@x.edu|submission_2 Bob   :email: ann@x.edu graded bob@x.edu"
        "|submission_2 Öz, Cem graded c@x.edu",
    ),
    "github": (
        f"hw2-al/{TREE}|hw2-al/.git/HEAD|hw2-al/tiny_models/x.py|hw2-bo/gae.py|hw2-bo/.git/HEAD"
        "|grades.csv|.git/config|README.md",
        "hw2-al graded |hw2-bo graded ",
    ),
    "folder": (
        f"ann/{TREE}|.bo/{TREE}|De la Cruz, Eva/gae.py|submission_1/gae.py|__MACOSX/ann/x|Thumbs.db|.cache/gae.py",
        ".bo graded |De la Cruz, Eva graded |ann graded |submission_1 graded ",
    ),
}
"""The system, the names in its export, and who is found: name, status, and the surest id."""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_everybody_is_found_once(tmp_path: Path, layout: str):
    names, wanted = LAYOUTS[layout]
    found = read(put(tmp_path, files(*names.split("|"))))
    got = "|".join(f"{name} {one.status} {(*one.ids, '')[0]}" for name, one in found.items())
    assert got == wanted, [one.notes for one in found.values()]
    assert not [one.name for one in found.values() if one.name.startswith("Participant")]
    assert {one.system.lower() for one in found.values()} == {layout.partition("-")[0]}


def test_of_canvas_attempts_the_newest_counts_and_the_others_are_named(tmp_path: Path):
    texts = {f"leeann_11_{number}_gae{more}.py": f"{GAE}# {more}" for number, more in ((12, "-2"), (5, ""), (9, "-1"))}
    (ann,) = read(put(tmp_path, {**texts, "leeann_11_13_rest-1.zip": packed({"a.txt": ""})})).values()
    assert ann.files[TARGET].endswith(b"# -2")
    (doubt,) = ann.doubts
    assert doubt.kind == OLDER and "leeann_11_5_gae.py, leeann_11_9_gae-1.py" in doubt.text


@pytest.mark.parametrize("text", ["\xff" * 1000, "a: [", "- 1", "submission_1:\n  :submitters: 3\n"])
def test_a_strange_list_of_gradescope_is_refused(tmp_path: Path, text: str):
    put(tmp_path, {"submission_1/gae.py": GAE, LISTED: text})
    with pytest.raises(ValueError, match="^submission_metadata.yml: expected the list that Gradescope exports"):
        find(tmp_path)


def test_nobody_gets_lost_between_two_exports_or_for_want_of_an_author(tmp_path: Path):
    put(tmp_path, files("ann_5_7_gae.py", "ann_5_assignsubmission_file_gae.py", "submission_1/gae.py"))
    put(tmp_path, {LISTED: "submission_1:\n  :submitters: []\n"})
    assert sorted(one.system for one in find(tmp_path)) == ["Canvas", "Moodle", "folder"]


def test_names_stay_apart_wherever_they_are_cut_and_in_whatever_case(tmp_path: Path):
    """The names of two who handed in together, and of two folders, which are equal as far as anybody sees them."""
    authors = "".join(f"  - :name: Wei Lee\n    :email: {one}@x.edu\n" for one in "ab")
    put(tmp_path, {LISTED: f"submission_1:\n  :submitters:\n{authors}", "submission_1/gae.py": GAE})
    put(tmp_path, files("Ann/gae.py", "ann.zip", *(f"{'n' * 210}{one}/gae.py" for one in "ab")))
    found = find(tmp_path)
    assert len({clean(one.student).casefold() for one in found}) == len({one.file_name.lower() for one in found}) == 6


def test_an_archive_that_is_not_read_is_looked_at_beside_what_is(tmp_path: Path):
    put(tmp_path, files("ann/gae.py", "ann/homework.7z", "bob.rar", "cem/homework.rar"))
    ann, bob, cem = read(tmp_path).values()
    assert [doubt.kind for doubt in ann.doubts] == [CLOSED] and "unpack it" in ann.doubts[0].text
    assert bob.student == "bob" and bob.status == "unreadable" and "unpack it" in bob.notes[-1]
    assert cem.status == "unreadable" and any("homework.rar" in note for note in cem.notes)
