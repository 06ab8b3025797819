"""marks.csv: what an instructor writes into it wins, comes back, and is never lost. Whose a submission is: nobody is
lost, nobody is guessed, and nobody is somebody else."""

import resource
from pathlib import Path
from typing import Any

import pytest

from testcases.grader.marking.assignment import Assignment, from_dict
from testcases.grader.reports import people, table
from testcases.grader.reports.imports import canvas_doubts
from testcases.grader.reports.people import ANOTHER, NOBODY
from testcases.grader.reports.sheets import Sheet
from testcases.grader.tests.reports.data import edit, exercise, grid, kept, looks, report, result
from testcases.grader.tests.running import check, put
from testcases.grader.tests.running import table as lines
from testcases.grader.text import guarded, unguarded
from testcases.harness.suite.asserts import named

LIST = "Student,ID,SIS Login ID,Section,HW (77)\n    Points Possible,,,,20\n" + "".join(
    f'"{name}",{number},{name[:2].lower()},A,\n'
    for number, name in ((11, "Lee, Ann"), (12, "Smith, Bob"), (13, "Öz, Cem"))
)


def canvas(name: str, number: int, **more: Any) -> dict[str, Any]:
    return result(f"{name}_{number}", system="Canvas", name=name, ids=[str(number)], **more)


ANN, BOB, CEM = canvas("leeann", 11, code="a"), canvas("smithbob", 12, code="b"), canvas("özcem", 13)


@pytest.fixture
def roster(tmp_path: Path) -> Path:
    (tmp_path / "roster.csv").write_text(LIST, "utf-8")
    return tmp_path / "roster.csv"


def line(out: Path, key: str) -> dict[str, str]:
    (found,) = [row for row in lines(out) if key in (row["folder"], row["id"])]
    return found


def imported(out: Path) -> list[tuple[str, str]]:
    """Name and mark of everybody who is in Canvas's file."""
    return [(row[0], row[-1]) for row in grid(out / "canvas.csv")[2:]]


def test_a_score_wins_everywhere_and_comes_back(tmp_path: Path, roster: Path):
    names = ["lesson04_gae.td_errors", "lesson04_gae.compute_gae"]
    asked = from_dict({"exercises": names, "points": 20, "title": "HW"})
    report(kept(tmp_path, ANN, BOB), asked, roster)
    assert list(lines(tmp_path)[0]) == list(table.COLUMNS)
    assert line(tmp_path, "leeann_11")["points"] == "10"  # 3 of 6
    edited = edit(tmp_path, "leeann_11", score="4,5", reason="an index", comment="=1+1\nis 2", points="99", TA="Zoë")
    for _ in range(2):
        report(tmp_path, asked)
        assert (tmp_path / "marks.last.csv").read_bytes() == edited
        found = line(tmp_path, "leeann_11")
        assert [found[name] for name in ("points", "score", "reason", "ta")] == ["10", "4,5", "an index", "Zoë"]
        assert found["comment"] == "'=1+1\nis 2" and "a mark by hand" in found["flags"]
        assert grid(tmp_path / "canvas.csv")[0][-1] == "HW (77)" and grid(tmp_path / "canvas.csv")[1][-1] == "20"
        assert imported(tmp_path) == [("Lee, Ann", "4.5"), ("Smith, Bob", "10")]
        page = tmp_path / "report/students/r0000.html"
        told = "4.5", "/ 20", "Your instructor gave this mark; the tests gave 10", "=1+1\nis 2"
        assert [text for text in told if text not in page.read_text("utf-8")] == []
        assert "4.5, points of the tests: 10; an index" in looks(tmp_path)
        assert "HW: 20 points" in (tmp_path / "report/index.html").read_text("utf-8")
    edit(tmp_path, "leeann_11", score="")
    report(tmp_path, asked)
    assert imported(tmp_path)[0] == ("Lee, Ann", "10") and "a mark by hand" not in looks(tmp_path)


def test_a_table_that_cannot_be_written_whole_is_still_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    report(kept(tmp_path, ANN))
    edited, write = edit(tmp_path, "leeann_11", score="5"), table.write
    all_of_it = resource.getrlimit(resource.RLIMIT_FSIZE)

    def on_a_full_disk(*given: Any) -> None:
        """There is room for a copy of the old table, and not for the new one."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(edited), all_of_it[1]))
        try:
            write(*given)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, all_of_it)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="File too large"):
        patch.setattr(table, "write", on_a_full_disk)
        report(kept(tmp_path, ANN, BOB))
    assert (tmp_path / "marks.csv").read_bytes() == (tmp_path / "marks.last.csv").read_bytes() == edited
    report(tmp_path)
    assert line(tmp_path, "leeann_11")["score"] == "5" and len(lines(tmp_path)) == 2


@pytest.mark.parametrize("text", ["=1+1", "'=1", "'tis fine", "@a", "-", "a;=b", "\t=1", " =1", "ü\n+1", "''"])
def test_what_somebody_writes_is_no_formula_and_comes_back_as_it_was(text: str):
    assert unguarded(guarded(text)) == text and guarded(text)[:1] not in tuple("=+-@\t\r")


def test_a_score_for_code_that_has_changed_since_is_looked_at_until_it_is_given_anew(tmp_path: Path):
    report(kept(tmp_path, ANN))
    edit(tmp_path, "leeann_11", score="5")
    report(kept(tmp_path, canvas("leeann", 11, code="another", exercises={"td_errors": exercise()})))
    for _ in range(2):
        report(tmp_path)
        assert "the code has changed since the score 5 was given" in looks(tmp_path)
        assert line(tmp_path, "leeann_11")["score"] == "5" and imported(tmp_path) == [("leeann", "5")]
    edit(tmp_path, "leeann_11", reason="I looked again")
    report(tmp_path)
    assert "the code has changed" not in looks(tmp_path)


def test_a_score_whose_line_is_gone_is_looked_at(tmp_path: Path):
    """As in a table that is cut off, or removed."""
    report(kept(tmp_path, ANN, BOB))
    edit(tmp_path, "leeann_11", score="5")
    report(tmp_path)
    (tmp_path / "marks.csv").unlink()
    report(tmp_path)
    assert looks(tmp_path).count("its line is gone from marks.csv, and with it the score 5") == 1
    (tmp_path / ".marks.json").write_text('{"leeann_11": ""}')  # What nobody has written is nothing.
    report(tmp_path)


def test_regrade_is_done_once_and_only_for_what_was_asked_before_the_run(tmp_path: Path):
    report(kept(tmp_path, ANN, BOB))
    edit(tmp_path, "leeann_11", regrade="x")
    edit(tmp_path, "smithbob_12", regrade="x")
    report(tmp_path, regraded={"leeann_11": "x"})
    assert (line(tmp_path, "leeann_11")["regrade"], line(tmp_path, "smithbob_12")["regrade"]) == ("", "x")


def test_an_id_that_the_instructor_writes_says_whose_it_is(tmp_path: Path, roster: Path):
    report(kept(tmp_path, result("homework"), BOB), roster=roster)
    assert "no line of the list fits it" in looks(tmp_path) and imported(tmp_path) == [("Smith, Bob", "3")]
    edit(tmp_path, "homework", id="11")
    for _ in range(3):  # The list is kept: later runs need none.
        report(tmp_path)
        assert line(tmp_path, "homework")["student"] == "Lee, Ann" and "whose is it?" not in looks(tmp_path)
        assert imported(tmp_path) == [("Lee, Ann", "3"), ("Smith, Bob", "3")]
    edit(tmp_path, "homework", id="12")
    report(tmp_path)
    assert looks(tmp_path).count("2 lines have the id 12") == 2 and not (tmp_path / "canvas.csv").exists()
    edit(tmp_path, "homework", id="1.1E+01")
    report(tmp_path)
    assert "the id 1.1E+01 of marks.csv is on no line" in looks(tmp_path) and imported(tmp_path) == [
        ("Smith, Bob", "3")
    ]


def test_a_list_that_comes_later_says_whose_it_is(tmp_path: Path):
    report(kept(tmp_path, ANN))
    (tmp_path / "later.csv").write_text('Student,SIS Login ID\n"Lee, Ann",an\n', "utf-8")
    report(tmp_path, roster=tmp_path / "later.csv")
    assert line(tmp_path, "leeann_11")["id"] == "an" and "whose is it?" not in looks(tmp_path)


def test_who_handed_in_nothing_has_a_line_and_no_mark_unless_somebody_gives_one(tmp_path: Path, roster: Path):
    report(kept(tmp_path, ANN), roster=roster)
    cem = line(tmp_path, "13")
    assert (cem["student"], cem["folder"], cem["points"], cem["flags"]) == ("Öz, Cem", "", "", "nothing handed in")
    assert imported(tmp_path) == [("Lee, Ann", "3")]
    edit(tmp_path, "13", score="6", reason="on paper")
    report(tmp_path)
    assert imported(tmp_path) == [("Lee, Ann", "3"), ("Öz, Cem", "6")]
    report(kept(tmp_path, ANN, CEM))
    assert line(tmp_path, "özcem_13")["score"] == "6" and len(lines(tmp_path)) == 3


def test_a_line_whose_submission_is_gone_stays_if_somebody_wrote_into_it(tmp_path: Path):
    report(kept(tmp_path, ANN, BOB, CEM))
    edit(tmp_path, "leeann_11", score="6")
    edit(tmp_path, "özcem_13", folder="?zcem_13", comment="good")  # What a spreadsheet makes of it.
    for name in ("r0000", "r0001"):
        (tmp_path / f"results/{name}.json").unlink()
    report(tmp_path)
    assert [row["folder"] for row in lines(tmp_path)] == ["özcem_13", "leeann_11"]
    assert line(tmp_path, "özcem_13")["comment"] == "good" and line(tmp_path, "leeann_11")["score"] == "6"
    assert "no such submission" in looks(tmp_path) and grid(tmp_path / "canvas.csv")[-1][-1] == "6"


@named(
    "text",
    {
        "a-folder-is-called-as-an-id": "name,login\nAnn Lee,al3\nBob Smith,bob-x\n",
        "two-people-have-one-name": "name\nBob Smith\nBob Smith\n",
    },
)
def test_no_name_makes_a_table_that_the_next_run_refuses(tmp_path: Path, text: str):
    """The first run finds two submissions of one person, who has a line of his own until one of them is removed."""
    (tmp_path / "names.csv").write_text(text, "utf-8")
    report(kept(tmp_path, result("al3"), result("Ann Lee")), roster=tmp_path / "names.csv")
    written = (tmp_path / "marks.csv").read_bytes()
    report(tmp_path)
    assert (tmp_path / "marks.csv").read_bytes() == written and len(lines(tmp_path)) == 4


HEAD, MARKS, CLASS = ",".join(table.COLUMNS), "marks.csv", "class.csv"


@named(
    "file, text, says",
    {
        "a-column-less": (MARKS, HEAD.replace(",regrade", ""), "expected the columns folder, student"),
        "a-column-twice": (MARKS, HEAD + ",score", "each once"),
        "another-encoding": (MARKS, (HEAD + "\nMüller,,,,,,,,\n").encode("cp1252"), "expected UTF-8"),
        "a-formula": (MARKS, HEAD + "\nann,,,,=B2+1,,,,\n", "line 2: score: expected a number from 0, got '=B2+1'"),
        "a-thousand-or-one": (
            MARKS,
            HEAD + '\nann,,,,"1,000",,,,\n',
            "a number from 0, without a comma before three digits",
        ),
        "below-0": (MARKS, HEAD + "\nann,,,,-1,,,,\n", "got '-1'"),
        "no-number": (MARKS, HEAD + "\nann,,,,nan,,,,\n", "got 'nan'"),
        "twice": (MARKS, HEAD + "\n'=ann,,,,1,,,,\n=ann,,,,2,,,,\n", "line 3: '=ann' has line 2 as well"),
        "twice-by-id": (MARKS, HEAD + "\n,,7,,1,,,,\n,,7,,2,,,,\n", "line 3: '7' has line 2 as well"),
        "nobody": (MARKS, HEAD + "\n,,,3,,,,,\n", "line 2: expected a folder or an id"),
        "a-comma-too-many": (MARKS, HEAD + "\nann,,,,1,a, b,,,,\n", "expected 9 cells, got 11"),
        "a-quote-that-is-open": (MARKS, HEAD + '\nann,,,,1,"a,,,\n', "cannot be read as a CSV file"),
        "a-list-that-is-empty": (CLASS, "", "it is empty"),
        "a-list-without-columns": (CLASS, "a,b\n1,2\n", "expected columns such as name, id"),
        "a-list-with-somebody-twice": (CLASS, "name,id\nAnn,1\nBob,2\nCem,1\n", "line 4: '1' is in line 2 as well"),
        "a-list-with-a-comma-too-many": (CLASS, "name,id\nLee, Ann,17\n", "line 2: expected 2 cells, got 3"),
        "a-list-with-nobody": (CLASS, "name,id,section\nAnn,1,\n,,A\n", "line 3: expected a name or an id"),
    },
)
def test_a_table_or_list_that_is_not_understood_is_refused_and_left_alone(
    tmp_path: Path, file: str, text: str | bytes, says: str
):
    data = text.encode() if isinstance(text, str) else text
    (kept(tmp_path, ANN) / file).write_bytes(data)
    with pytest.raises(ValueError, match=f"^{file}") as caught:
        report(tmp_path)
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert (tmp_path / file).read_bytes() == data


CANVAS = (
    'Student,ID,SIS Login ID,Section\n"Lee, Ann",11,al,A\n"Lee, Ann_11",13,x,A\n"Öz, Cem",12,co,B\n"Öz, Cem",14,c2,B\n'
)
MOODLE = (
    "Identifier,Full name,Email address,Grade,Maximum Grade,Last modified (grade),Feedback comments\n"
    "Participant 21,Ann Lee,Ann@x.edu,,50,-,\nParticipant 22,Cem Öz,c@x.edu,7,50,-,old\n"
)
NAMES = "Name,Login\nAnn Lee,al3\nBob Smith,bob-x\n雷 李,x\n"
IN_TWO = "LastName,FirstName,ID,Section\n    Points Possible,,,\nLee,Ann,11,A\nStudent,Test,99,A\n"
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
        "folder-name-in-two": (IN_TWO, [one("folder", "Ann Lee"), one("folder", "Test Student")], ["11", NOBODY]),
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


@pytest.mark.parametrize("columns", [7, 6])
def test_a_worksheet_is_filled_in_and_otherwise_unchanged(tmp_path: Path, columns: int):
    """With the last column, for feedback, and without: an assignment may have none."""
    sheet = [line.split(",")[:columns] for line in MOODLE.splitlines()]
    (tmp_path / "worksheet.csv").write_text("\n".join(map(",".join, sheet)), "utf-8")
    ann = result("Ann Lee_21", system="Moodle", name="Ann Lee", ids=["Participant 21"])
    report(kept(tmp_path, ann), roster=tmp_path / "worksheet.csv")
    head, lee, cem = grid(tmp_path / "moodle.csv")
    assert head == sheet[0] and cem == sheet[2]
    assert lee == ["Participant 21", "Ann Lee", "Ann@x.edu", "25", "50", "-", "lesson04_gae 3/6"][:columns]


@named(
    "head, possible, title, wanted",
    {
        "as-canvas-has-it": ("Student,ID,HW (77)", "20.0", "hw", ""),
        "other-points": ("Student,ID,HW (77)", "100", "HW", "points: HW (77) has 100 points in Canvas, but"),
        "no-such-assignment": ("Student,ID,HW (77)", "20", "HW2", "title: no assignment in ROSTER is called 'HW2', so"),
    },
)
def test_what_an_import_into_canvas_would_do(tmp_path: Path, head: str, possible: str, title: str, wanted: str):
    # The second line is in a gradebook with an assignment whose marks are posted by hand.
    put(tmp_path, {"class.csv": f'{head}\n,,Manual Posting\n    Points Possible,,{possible}\n"Lee, Ann",11,\n'})
    told = canvas_doubts(people.read(tmp_path / "class.csv"), Assignment(title, points=20))
    assert [wanted in one for one in told] == [True] * bool(wanted), told


def test_a_dry_run_tells_what_would_be_graded_and_imported(tmp_path: Path):
    for name in ("gae_final", "mine", "masked"):
        put(tmp_path, {f"in/leeann_11_91_{name}.py": ""})
    put(tmp_path, {f"in/evileve_99_92_{'long' * 40}.py": ""})
    put(tmp_path, {"class.csv": 'Student,ID,HW (77)\n    Points Possible,,100\n"Lee, Ann",11,\n"Roe, Bo",12,\n,13,\n'})
    weights = "[weights]\nlesson01 = 1\nlesson04 = 2\nlesson05 = 1\n"
    put(tmp_path, {"hw.toml": f'title = "HW"\nlessons = [1, 4, 5]\npoints = 20\n{weights}'})
    given = "--roster", str(tmp_path / "class.csv"), "--assignment", str(tmp_path / "hw.toml"), "--dry", "1"
    lines = check(str(tmp_path / "in"), *given).stdout.splitlines()
    near = "no work in lesson04_gae/gae.py; there is gae_final.py: was it renamed?"
    assert any("whose? no line of the list fits it" in one for one in lines), lines
    assert any(f"1 files in ., no lesson05_ppo_loss/ppo_loss.py, {near}" in one for one in lines), lines
    assert lines[0].endswith("20 points: lesson01_masked_sequences 5, lesson04_gae 10, lesson05_ppo_loss 5"), lines
    assert lines[-3] == "1 of the 3 people on the list have handed in, not Roe, Bo; 13", lines
    assert lines[-2].startswith("points: HW (77) has 100"), lines
