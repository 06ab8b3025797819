"""Exports as four systems lay them out: every student is found, none twice, and the roster knows whose each is."""

import io
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from testcases.grader.commands import Given, plan
from testcases.grader.intake import find, told
from testcases.grader.intake import read_submission as read
from testcases.grader.marking import everything
from testcases.grader.reports.marks import MarkSheet, Raw, roster
from testcases.grader.status import CLOSED, SECOND
from testcases.harness import named_cases

GAE = "def td_errors(): ...\n"
TREE = {"tutorial/lesson04_gae/gae.py": GAE}
COURSE = {**TREE, "Makefile": "", "README.md": "", "solutions/lesson04_gae/gae.py": GAE, "tiny_models/x.py": ""}
CLONE = {**COURSE, ".git/HEAD": "ref: refs/heads/main"}
CANVAS = (
    'Student,ID,SIS User ID,SIS Login ID,Section,HW (77)\n    Points Possible,,,,,20\n"Lee, Ann",11,s1,al,A,\n'
    '"Smith, Bob",12,s2,bs,A,\n"Öz, Cem",13,s3,co,A,\n"Student, Test",99,,abc,A,\n'
)
WORKSHEET = (
    "Identifier,Full name,Email address,Grade,Last modified (grade)\nParticipant 21,Ann Lee,a@x.edu,,-\n"
    "Participant 22,Bob Smith,b@x.edu,,-\nParticipant 23,Cem Öz,c@x.edu,,-\n"
)
ANONYMOUS = "Identifier,Grade,Last modified (grade)\nParticipant 21,,-\nParticipant 22,,-\nParticipant 23,,-\n"
NAMES = "First name,Last name\nAnn,Lee\nBob,Smith\nCem,Öz\n"
EMAILS = "name,email\nAnn Lee,a@x.edu\nBob Smith,b@x.edu\nCem Öz,c@x.edu\nDan Day,d@x.edu\n"
CLASSROOM = "identifier,github_username,github_id,name\na@x.edu,ann,1,\nb@x.edu,bob-s,2,\nc@x.edu,cemoz,3,\n"
GRADES = "github_username,student_repository_name\nann,hw2-ann\nbob-s,hw2-bob-s\ncemoz,hw2-cemoz\n"
ANN, BOB, CEM = (f"{name}_assignsubmission_file" for name in ("Ann Lee_21", "Bob Smith_22", "Cem Öz_23"))
LOGINS = ("ann", "bob-s", "cemoz")
LISTED = "submission_metadata.yml"


def metadata(*groups: str) -> str:
    """Gradescope's list, of submissions with their authors."""
    text = "---\n"
    for number, group in enumerate(groups, 1):
        text += f"submission_{number}:\n  :submitters:\n"
        for name in group.split(", "):
            text += f"  - :name: {name}\n    :sid: '{number}'\n    :email: {name[0].lower()}@x.edu\n"
        text += "  :created_at: 2026-11-20 22:10:11.938405000 Z\n  :history:\n"
        text += "  - :id: 1\n    :created_at: 2020-01-01 00:00:00 Z\n"
    return text


def packed(files: Mapping[str, str]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


def each(pattern: str, names: Iterable[str], files: Mapping[str, str]) -> dict[str, str | bytes]:
    return {f"{pattern.format(name)}/{path}": text for name in names for path, text in files.items()}


ZIP, WHOLE, ONE = packed(TREE), packed(COURSE), {"gae.py": GAE}
THREE = metadata("Ann Lee", "Bob Smith", "Cem Öz")
CANVAS_FILES = {"leeann_11_5_gae.py": GAE, "smithbob_12_6_gae.py": GAE, "özcem_13_7_gae.py": GAE}
EXPORTS: dict[str, tuple[Mapping[str, str | bytes], str, str]] = {
    "canvas": (CANVAS_FILES, CANVAS, "ggg"),
    "canvas-by-name": (CANVAS_FILES, NAMES, "ggg"),
    "canvas-zips": (
        {"leeann_11_5_a.zip": ZIP, "smithbob_LATE_12_6_a.zip": ZIP, "özcem_13_7_a-2.zip": WHOLE},
        *(CANVAS, "ggg"),
    ),
    "canvas-several-files": (
        {**CANVAS_FILES, "leeann_11_6_my.py": "", "leeann_11_8_a.pdf": "", "smithbob_12_9_gae-1.py": GAE},
        *(CANVAS, "ggg"),
    ),
    "canvas-underscores": (
        {"lee_roeann_14_5_gae.py": GAE, "leeann_11_6_7_gae.py": "", "leeann_11_8_gae.py": GAE},
        *(CANVAS + '"Lee_Roe, Ann",14,s4,ar,A,\n', "gg"),
    ),
    "canvas-anonymous": (
        {"anon_Ab3xZ_5_gae.py": GAE, "anon_LATE_q9Yt2_6_gae.py": GAE, "anon_00000_7_gae.py": GAE},
        *("", "ggg"),
    ),
    "canvas-broken": (
        {"leeann_11_5_a.tar.gz": "", "smithbob_12_6_gae.py": GAE, "özcem_13_7_a.rar": "Rar!", "özcem_13_7_a.ipynb": ""},
        *(CANVAS, "ugu"),
    ),
    "moodle": ({f"{ANN}_/gae.py": GAE, f"{BOB}_/a.zip": ZIP, f"{CEM}_/a.zip": WHOLE}, WORKSHEET, "ggg"),
    "moodle-4.1": ({f"{ANN}/gae.py": GAE, f"{BOB}/a.zip": ZIP, f"{CEM}/tutorial.zip": ZIP}, WORKSHEET, "ggg"),
    "moodle-flat": (
        {f"{ANN}_gae.py": GAE, f"{ANN}_my.py": "", f"{BOB}_a.zip": ZIP, f"{CEM}_note.pdf": ""},
        *(WORKSHEET, "ggu"),
    ),
    "moodle-anonymous": (each("Participant {0}_{0}_assignsubmission_file_", "12 34 56".split(), TREE), "", "ggg"),
    "moodle-numbers": (each("Participant {0}_{0}_assignsubmission_file_", "21 22 23".split(), TREE), ANONYMOUS, "ggg"),
    "moodle-text": (
        {f"{ANN}_/gae.py": GAE, f"{ANN[:-4]}onlinetext_/onlinetext.html": "", f"{CEM[:-4]}onlinetext_/a.html": ""},
        *(WORKSHEET, "ge"),
    ),
    "moodle-flat-text": ({f"{ANN}_gae.py": GAE, f"{BOB[:-4]}onlinetext.html": ""}, NAMES, "gu"),
    "moodle-by-name": (each("{}_", (ANN, BOB, CEM), ONE), NAMES, "ggg"),
    "gradescope": ({**each("submission_{}", "123", TREE), LISTED: THREE}, "", "ggg"),
    "gradescope-flat": ({**each("submission_{}", "123", ONE), LISTED: THREE}, EMAILS, "ggg"),
    "gradescope-zips": ({**{f"submission_{i}/a.zip": WHOLE for i in "123"}, LISTED: THREE}, EMAILS, "ggg"),
    "gradescope-whole": ({**each("submission_{}", "123", CLONE), LISTED: THREE}, EMAILS, "ggg"),
    "gradescope-without-list": (each("submission_{}", "123", TREE), "", "ggg"),
    "gradescope-together": (
        {**each("submission_{}", "12", TREE), LISTED: metadata("Ann Lee, Bob Smith", "Cem Öz")},
        *(EMAILS, "ggg"),
    ),
    "github": (each("hw2-{}", LOGINS, CLONE), CLASSROOM, "ggg"),
    "github-behind": (each("{}-hw2", LOGINS, CLONE), CLASSROOM, "ggg"),
    "github-longer-logins": (
        each("hw2-{}", ("ann", "ann-1", "ann-1-x"), CLONE),
        *(CLASSROOM.replace("bob-s", "ann-1").replace("cemoz", "ann-1-x"), "ggg"),
    ),
    "github-zips": ({f"hw2-{one}-main.zip": WHOLE for one in LOGINS}, CLASSROOM, "ggg"),
    "github-logins": (each("{}", LOGINS, COURSE), CLASSROOM, "ggg"),
    "github-grades": (each("hw2-{}", LOGINS, CLONE), GRADES, "ggg"),
    "github-beside-others": (
        {**each("hw2-{}", LOGINS, CLONE), ".git/config": "", "README.md": "", "grades.csv": "", "assignment.toml": ""},
        *(CLASSROOM, "ggg"),
    ),
    "canvas-typed": ({**CANVAS_FILES, "leeann_11_text.html": "", "studenttest_99_link.html": ""}, CANVAS, "ggug"),
    "folders-without-spaces": (
        {**each("{}", ("\u674e\u96f7", "AnnLee"), TREE), "De_la_Cruz Eva/gae.py": GAE},
        *("First name,Last name\n\u96f7,\u674e\nAnn,Lee\nEva,De la Cruz\n", "ggg"),
    ),
    "folders-with-numbers": (
        each("{}", ("Ann Lee s1", "s2 Ann Lee", "lee-ann-al3"), TREE),
        *("name,id number,login\nAnn Lee,s1,\nAnn Lee,s2,\nAnn Lee,,al3\n", "ggg"),
    ),
    "folders": ({**each("{}", LOGINS[:2], TREE), "cemoz.zip": WHOLE}, CLASSROOM, "ggg"),
}
"""Name -> files, roster, and the first letter of each submission's status."""


def lay_out(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data if isinstance(data, bytes) else data.encode())


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_everybody_is_found_once(tmp_path: Path, name: str):
    files, people, statuses = EXPORTS[name]
    lay_out(tmp_path / "in", files)
    found = [read(hand_in) for hand_in in find(tmp_path / "in")]
    assert "".join(one.status[0] for one in found) == statuses, [(one.student, one.notes) for one in found]
    assert {one.system.lower() for one in found} <= {name.partition("-")[0], "folder", "archive", "repository", "file"}
    if people:
        (tmp_path / "class.csv").write_text(people, "utf-8")
        matching = plan.who_is_who(found, Given(tmp_path, tmp_path / "class.csv", everything())).matching
        assert matching and len(matching.person_of) >= len(found), matching
        assert "submission without roster row" not in [kind for kind, *_ in matching.problems], matching.problems


TWO = each("{}", ("ann", "bob"), ONE)


def below(folder: str, files: Mapping[str, str | bytes]) -> dict[str, str | bytes]:
    return {f"{folder}/{path}": data for path, data in files.items()}


@named_cases(
    "files",
    {
        "files-of-canvas": {
            f"hw/{name}_gae.py": GAE for name in ("leeann_11_9010", "smithbob_12_9020", "evee_13_9030")
        },
        "folders": below("hw", TWO),
        "a-list-of-gradescope": {"submission_1/gae.py": GAE, LISTED: metadata("Ann Lee")},
    },
)
@pytest.mark.parametrize("kind", ["folder", "zip", "zip-in-a-folder"])
def test_what_one_person_hands_in_is_nobody_elses(tmp_path: Path, kind: str, files: Mapping[str, str | bytes]):
    """Not even where nothing else lies there, as when one late submission is graded alone."""
    inside = below("Eve E", files)
    if kind != "folder":
        inside = {"Eve E.zip" if kind == "zip" else "Eve E/hw.zip": packed(files)}
    lay_out(tmp_path / "in", inside)
    assert [one.student for one in find(tmp_path / "in")] == ["Eve E"]
    assert "There is only one, Eve E, so if it holds the work of several people" in told(tmp_path / "in")


def test_a_table_that_is_taken_for_the_instructors_is_named(tmp_path: Path):
    lay_out(tmp_path / "in", {**TWO, "Ann Lee - homework.xlsx": "", "roster.csv": ""})
    said = "but Ann Lee - homework.xlsx, roster.csv: whoever handed such a file in has no row"
    assert told(tmp_path / "in").endswith(said)


@pytest.mark.parametrize("name", ["homework.7z", "homework.rar"])
def test_an_archive_that_is_not_read_is_looked_at_beside_what_is(tmp_path: Path, name: str):
    lay_out(tmp_path, {"ann/gae.py": GAE, f"ann/{name}": "", f"bob{Path(name).suffix}": ""})
    ann, bob = map(read, find(tmp_path))
    assert [doubt.kind for doubt in ann.doubts] == [CLOSED] and "unpack it" in ann.doubts[0].text
    assert bob.student == "bob" and bob.status == "unreadable" and "unpack it" in bob.notes[0]


def test_a_file_beside_a_lesson_is_read_in_a_flat_export_too(tmp_path: Path):
    lay_out(tmp_path, {"leeann_11_5_gae.py": GAE + "open('words.json')", "leeann_11_6_words.json": "{}"})
    assert read(find(tmp_path)[0]).files["lesson04_gae/words.json"] == b"{}"


def test_a_copy_that_a_browser_has_numbered_is_a_doubt(tmp_path: Path):
    lay_out(tmp_path, {"ann/gae.py": GAE, "ann/gae (1).py": GAE + "x = 1", "bob/gae.py": GAE, "bob/gae (1).py": GAE})
    ann, bob = map(read, find(tmp_path))
    assert [doubt.kind for doubt in ann.doubts] == [SECOND] and bob.doubts == []


@pytest.mark.parametrize("name", ["homework.7z", "homework.rar", "gae.ipynb"])
def test_what_is_not_read_is_named(tmp_path: Path, name: str):
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / name).write_bytes(b"7z")
    (found,) = map(read, find(tmp_path))
    assert found.status == "empty" and any(name in note for note in found.notes)


def test_two_people_of_one_name_are_told_apart_by_their_numbers_or_not_at_all():
    people = roster.Roster([roster.Person(2, name="Ann Lee", id="11"), roster.Person(3, name="Bob Day")])
    sheets = [
        MarkSheet(Raw("leeann_12"), "1", 0, 0, system="Canvas"),
        MarkSheet(Raw("daybob_13"), "2", 0, 0, system="Canvas"),
    ]
    assert {page: person.row for page, person in roster.match(sheets, people).person_of.items()} == {"2": 3}


@named_cases(
    "system, student, files, wanted",
    {
        "right": ("Canvas", "leeann_11", ["leeann_11_5_gae.py"], 2),
        "first-name-first": ("Canvas", "annlee_11", [], 2),
        "a-number-in-a-file": ("Canvas", "leeann_11", ["leeann_11_5_2026_hw.zip"], 2),
        "a-number-of-another": ("Canvas", "evil_11", ["evil_11_13_5_hw.zip"], None),
        "a-name-of-another": ("Canvas", "leeann_11", ["leeann_11_13_5_hw.zip"], None),
        "a-group-and-its-first": ("Canvas", "group7_11", ["group7_11_5_gae.py"], None),
        "right-on-moodle": ("Moodle", "Ann Lee_21_assignsubmission_file", [], 2),
        "of-a-group": ("Moodle", "Group A-Ann Lee_21_assignsubmission_file_", [], 2),
        "blind": ("Moodle", "Participant_21_assignsubmission_file", [], 2),
        "a-team-of-that-number": ("Moodle", "Team A_21_assignsubmission_file", [], None),
    },
)
def test_a_number_counts_with_its_name(system: str, student: str, files: list[str], wanted: int | None):
    people = [("Lee, Ann", "11", "21"), ("Lee, Ann_11", "13", "")]
    lines = [roster.Person(row, name=name, id=id, identifier=one) for row, (name, id, one) in enumerate(people, 2)]
    lines = [replace(one, name="Ann Lee", id="") for one in lines[:1]] if system == "Moodle" else lines
    sheet = MarkSheet(Raw(student), "1", 0, 0, system=system, exported=tuple(map(Raw, files)))
    matching = roster.match([sheet], roster.Roster(lines))
    assert {page: person.row for page, person in matching.person_of.items()} == ({"1": wanted} if wanted else {})
    assert wanted or 2 in [one.row for one in matching.unclear]


def test_work_of_several_people_is_each_ones(tmp_path: Path):
    names = ["Cem Oez", "Ann Lee", "Bob Roe"]
    lay_out(tmp_path, {"submission_1/gae.py": GAE, "submission_2/gae.py": GAE, LISTED: metadata(", ".join(names))})
    found = [read(one) for one in find(tmp_path) if "handed in by 3 people together" in one.notes]
    assert sorted(one.student for one in found) == sorted(names) and {len(one.files) for one in found} == {1}
