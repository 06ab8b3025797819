"""Whose a submission is: nobody is lost, nobody is guessed, and nobody is somebody else."""

from pathlib import Path

import pytest

from testcases.grader.reports import people
from testcases.grader.reports.sheets import Sheet
from testcases.grader.tests.reports.data import grid, put, report, result
from testcases.harness.suite.asserts import named

CANVAS = (
    'Student,ID,SIS Login ID,Section\n"Lee, Ann",11,al,A\n"Lee, Ann_11",13,x,A\n"Öz, Cem",12,co,B\n"Öz, Cem",14,c2,B\n'
)
MOODLE = (
    "Identifier,Full name,Email address,Grade,Maximum Grade,Last modified (grade),Feedback comments\n"
    "Participant 21,Ann Lee,Ann@x.edu,,50,-,\nParticipant 22,Cem Öz,c@x.edu,7,50,-,old\n"
)
NAMES = "First name,Last name,Login\nAnn,Lee,al3\nBob,Smith,bob-x\n雷,李,x\n"


def who(tmp_path: Path, text: str, *sheets: Sheet) -> list[str]:
    """The id of each, or why there is none."""
    (tmp_path / "class.csv").write_text(text, "utf-8")
    found = people.match(sheets, people.read(tmp_path / "class.csv"))
    return [person.key if person else why for person, why in found.values()]


def one(system: str, folder: str, name: str = "", *ids: str) -> Sheet:
    return Sheet(folder, "1", system=system, name=name, ids=ids)


@named(
    "text, sheet, wanted",
    {
        "canvas": (CANVAS, one("Canvas", "leeann_11", "leeann", "11"), "11"),
        "canvas-first-name-first": (CANVAS, one("Canvas", "annlee_11", "annlee", "11"), "11"),
        "canvas-another-name": (CANVAS, one("Canvas", "evil_11", "evil", "11"), people.ANOTHER),
        "canvas-number-in-a-name": (CANVAS, one("Canvas", "lee_11_ann_13", "leeann_11", "13"), "13"),
        "canvas-not-on-the-list": (CANVAS, one("Canvas", "leeann_99", "leeann", "99"), people.NOBODY),
        "moodle": (MOODLE, one("Moodle", "x", "Ann Lee", "Participant 21"), "Participant 21"),
        "moodle-group": (MOODLE, one("Moodle", "x", "Group A-Ann Lee", "Participant 21"), "Participant 21"),
        "moodle-another-name": (MOODLE, one("Moodle", "x", "Team A", "Participant 21"), people.ANOTHER),
        "gradescope-address": (MOODLE, one("Gradescope", "x", "", "ann@x.edu"), "Participant 21"),
        "gradescope-another": (MOODLE, one("Gradescope", "Ann Lee", "Ann Lee", "eve@x.edu"), people.NOBODY),
        "folder-name": (NAMES, one("folder", "Ann Lee"), "al3"),
        "folder-turned": (NAMES, one("folder", "Lee, Ann"), "al3"),
        "folder-without-spaces": (NAMES, one("folder", "李雷"), "x"),
        "folder-login": (NAMES, one("folder", "AL3"), "al3"),
        "folder-two-of-one-name": (CANVAS, one("folder", "Cem Öz"), "fits several lines of the list (4, 5)"),
        "folder-nobody": (NAMES, one("folder", "Ann"), people.NOBODY),
    },
)
def test_whose_it_is(tmp_path: Path, text: str, sheet: Sheet, wanted: str):
    assert who(tmp_path, text, sheet) == [wanted]


def test_a_repository_is_whose_login_is_all_of_its_name_but_the_title(tmp_path: Path):
    repositories = [Sheet(f"hw-2-{name}", name, system="GitHub") for name in ("al3", "bob-x", "eve-x")]
    assert who(tmp_path, NAMES, *repositories) == ["al3", "bob-x", people.NOBODY]
    assert who(tmp_path, NAMES, repositories[0]) == [people.NOBODY]


def test_two_submissions_of_one_person_are_nobodys(tmp_path: Path):
    found = who(tmp_path, NAMES, Sheet("al3", "1"), Sheet("Ann Lee", "2"), Sheet("bob-x", "3"))
    assert (
        found[:2] == ["2 submissions fit line 2 of the list: remove those that do not count"] * 2
        and found[2] == "bob-x"
    )


def test_a_worksheet_is_filled_in_and_otherwise_unchanged(tmp_path: Path):
    (tmp_path / "worksheet.csv").write_text(MOODLE, "utf-8")
    ann = result("Ann Lee_21", system="Moodle", name="Ann Lee", ids=["Participant 21"])
    report(put(tmp_path, ann), roster=tmp_path / "worksheet.csv")
    head, lee, cem = grid(tmp_path / "moodle.csv")
    assert head == MOODLE.splitlines()[0].split(",") and cem == MOODLE.splitlines()[2].split(",")
    assert lee == ["Participant 21", "Ann Lee", "Ann@x.edu", "25", "50", "-", "lesson04_gae 3/6"]


@named(
    "data, says",
    {
        "empty": (b"", "it is empty"),
        "no-column": (b"a,b\n1,2\n", "expected columns such as name, id"),
        "another-encoding": ("name\nMüller\n".encode("cp1252"), "expected UTF-8"),
        "twice": (b"name,id\nAnn,1\nBob,2\nCem,1\n", "line 4: '1' is in line 2 as well"),
        "nobody": (b"name,id,section\nAnn,1,\n,,A\n", "line 3: expected a name or an id"),
    },
)
def test_a_list_that_is_not_understood_is_refused_in_one_sentence(tmp_path: Path, data: bytes, says: str):
    (tmp_path / "class.csv").write_bytes(data)
    with pytest.raises(ValueError, match="^class.csv") as caught:
        people.read(tmp_path / "class.csv")
    assert says in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("comma", [",", ";", "\t"])
def test_lists_as_other_programs_write_them(tmp_path: Path, encoding: str, comma: str):
    (tmp_path / "class.csv").write_bytes("Name,E-mail\r\nZoë,z@x\r\n".replace(",", comma).encode(encoding))
    assert [(one.name, one.email) for one in people.read(tmp_path / "class.csv").people] == [("Zoë", "z@x")]


def test_the_identifier_of_a_github_classroom_is_a_name(tmp_path: Path):
    (tmp_path / "class.csv").write_text("identifier,github_username,github_id,name\nAnn Lee,al3,1,\n", "utf-8")
    (person,) = people.read(tmp_path / "class.csv").people
    assert (person.name, person.login, person.key) == ("Ann Lee", "al3", "al3")
