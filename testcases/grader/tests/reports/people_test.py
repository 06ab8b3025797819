"""Whose a submission is: nobody is lost, nobody is guessed, and nobody is somebody else."""

from pathlib import Path

from testcases.grader.marking.assignment import Assignment
from testcases.grader.reports import people
from testcases.grader.reports.imports import canvas_doubts
from testcases.grader.reports.people import ANOTHER, NOBODY
from testcases.grader.reports.sheets import Sheet
from testcases.grader.tests.reports.data import grid, kept, report, result
from testcases.grader.tests.running import check, put
from testcases.harness.suite.asserts import named

CANVAS = (
    'Student,ID,SIS Login ID,Section\n"Lee, Ann",11,al,A\n"Lee, Ann_11",13,x,A\n"Öz, Cem",12,co,B\n"Öz, Cem",14,c2,B\n'
)
MOODLE = (
    "Identifier,Full name,Email address,Grade,Maximum Grade,Last modified (grade),Feedback comments\n"
    "Participant 21,Ann Lee,Ann@x.edu,,50,-,\nParticipant 22,Cem Öz,c@x.edu,7,50,-,old\n"
)
NAMES = "Name,Login\nAnn Lee,al3\nBob Smith,bob-x\n雷 李,x\n"
CLASSROOM = "identifier,github_username,github_id,name\nAnn Lee,al3,1,\n"
TWICE = "2 submissions fit line 2 of the list: remove those that do not count"


def one(system: str, folder: str, name: str = "", *ids: str) -> Sheet:
    return Sheet(folder, folder, system=system, name=name, ids=ids)


@named(
    "text, sheets, wanted",
    {
        "canvas": (CANVAS, [one("Canvas", "leeann_11", "leeann", "11")], ["11"]),
        "canvas-first-name-first": (CANVAS, [one("Canvas", "annlee_11", "annlee", "11")], ["11"]),
        "canvas-another-name": (CANVAS, [one("Canvas", "evil_11", "evil", "11")], [ANOTHER]),
        "canvas-number-in-a-name": (CANVAS, [one("Canvas", "lee_11_ann_13", "leeann_11", "13")], ["13"]),
        "canvas-not-on-the-list": (CANVAS, [one("Canvas", "leeann_99", "leeann", "99")], [NOBODY]),
        "moodle-group": (MOODLE, [one("Moodle", "x", "Group A-Ann Lee", "Participant 21")], ["Participant 21"]),
        "moodle-another-name": (MOODLE, [one("Moodle", "x", "Team A", "Participant 21")], [ANOTHER]),
        "gradescope-address": (MOODLE, [one("Gradescope", "x", "", "ann@x.edu")], ["Participant 21"]),
        "gradescope-another": (MOODLE, [one("Gradescope", "Ann Lee", "Ann Lee", "eve@x.edu")], [NOBODY]),
        "github": (NAMES, [one("GitHub", f"hw-2-{who}") for who in ("al3", "bob-x", "e")], ["al3", "bob-x", NOBODY]),
        "github-identifier": (CLASSROOM, [one("GitHub", "hw-2-al3"), one("folder", "Bo")], ["Ann Lee", NOBODY]),
        "folder-turned": (NAMES, [one("folder", "Lee, Ann")], ["al3"]),
        "folder-without-spaces": (NAMES, [one("folder", "李雷")], ["x"]),
        "folder-two-of-one-name": (CANVAS, [one("folder", "Cem Öz")], ["fits several lines of the list (4, 5)"]),
        "folder-nobody": (NAMES, [one("folder", "Ann")], [NOBODY]),
        "two-of-one-person": (
            NAMES,
            [one("folder", who) for who in ("al3", "Ann Lee", "bob-x")],
            [TWICE, TWICE, "bob-x"],
        ),
    },
)
def test_whose_it_is(tmp_path: Path, text: str, sheets: list[Sheet], wanted: list[str]):
    (tmp_path / "class.csv").write_text(text, "utf-8")
    found = people.match(sheets, people.read(tmp_path / "class.csv"))
    assert [person.key or why for person, why in found.values()] == wanted


def test_a_worksheet_is_filled_in_and_otherwise_unchanged(tmp_path: Path):
    (tmp_path / "worksheet.csv").write_text(MOODLE, "utf-8")
    ann = result("Ann Lee_21", system="Moodle", name="Ann Lee", ids=["Participant 21"])
    report(kept(tmp_path, ann), roster=tmp_path / "worksheet.csv")
    head, lee, cem = grid(tmp_path / "moodle.csv")
    assert head == MOODLE.splitlines()[0].split(",") and cem == MOODLE.splitlines()[2].split(",")
    assert lee == ["Participant 21", "Ann Lee", "Ann@x.edu", "25", "50", "-", "lesson04_gae 3/6"]


@named(
    "head, possible, title, wanted",
    {
        "as-canvas-has-it": ("Student,ID,HW (77)", "20.0", "hw", ""),
        "other-points": ("Student,ID,HW (77)", "100", "HW", "points: HW (77) has 100 points in Canvas, but"),
        "points-that-nobody-may-change": ("Student,ID,HW (77)", "(read only)", "HW", ""),
        "no-such-assignment": ("Student,ID,HW (77)", "20", "HW2", "title: no assignment in ROSTER is called 'HW2', so"),
    },
)
def test_what_an_import_into_canvas_would_do(tmp_path: Path, head: str, possible: str, title: str, wanted: str):
    put(tmp_path, {"class.csv": f'{head}\n    Points Possible,,{possible}\n"Lee, Ann",11,\n'})
    told = canvas_doubts(people.read(tmp_path / "class.csv"), Assignment(title, points=20))
    assert [wanted in one for one in told] == [True] * bool(wanted), told


def test_a_dry_run_tells_what_would_be_graded_and_imported(tmp_path: Path):
    for name in ("gae_final", "mine", "masked"):
        put(tmp_path, {f"in/leeann_11_91_{name}.py": ""})
    put(tmp_path, {"class.csv": 'Student,ID,HW (77)\n    Points Possible,,100\n"Lee, Ann",11,\n'})
    put(tmp_path, {"hw.toml": 'title = "HW"\nlessons = [1, 4, 5]\npoints = 20\n'})
    given = "--roster", str(tmp_path / "class.csv"), "--assignment", str(tmp_path / "hw.toml"), "--dry", "1"
    lines = check(str(tmp_path / "in"), *given).stdout.splitlines()
    near = "no work in lesson04_gae/gae.py; there is gae_final.py: was it renamed?"
    assert any(f"1 files in ., no lesson05_ppo_loss/ppo_loss.py, {near}" in one for one in lines), lines
    assert lines[-3] == "1 of the 1 people on the list have handed in" and lines[-2].startswith(
        "points: HW (77) has 100"
    )
