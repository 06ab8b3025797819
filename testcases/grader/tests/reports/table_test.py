"""marks.csv: what an instructor writes into it wins, comes back, and is never lost."""

from pathlib import Path
from typing import Any

import pytest

from testcases.grader.marking.assignment import from_dict
from testcases.grader.reports import table
from testcases.grader.tests.reports.data import edit, exercise, grid, kept, looks, report, result
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


@pytest.mark.parametrize("text", ["=1+1", "'=1", "'tis fine", "@a", "-", "a;=b", "\t=1", " =1", "ü\n+1", "''"])
def test_what_somebody_writes_is_no_formula_and_comes_back_as_it_was(text: str):
    assert unguarded(guarded(text)) == text and guarded(text)[:1] not in tuple("=+-@\t\r")


def test_a_disk_that_is_full_takes_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    report(kept(tmp_path, ANN))
    edited, write = edit(tmp_path, "leeann_11", score="6"), table.write_text

    def fails(path: Path, *given: Any, **named: Any) -> Path:
        if path.name == "marks.csv":
            raise OSError(28, "No space left on device")
        return write(path, *given, **named)

    monkeypatch.setattr(table, "write_text", fails)
    with pytest.raises(OSError):
        report(tmp_path)
    assert (tmp_path / "marks.csv").read_bytes() == edited


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


HEAD, MARKS, CLASS = ",".join(table.COLUMNS), "marks.csv", "class.csv"


@named(
    "file, text, says",
    {
        "a-column-less": (MARKS, HEAD.replace(",regrade", ""), "expected the columns folder, student"),
        "a-column-twice": (MARKS, HEAD + ",score", "each once"),
        "another-encoding": (MARKS, (HEAD + "\nMüller,,,,,,,,\n").encode("cp1252"), "expected UTF-8"),
        "a-formula": (MARKS, HEAD + "\nann,,,,=B2+1,,,,\n", "line 2: score: expected a number from 0, got '=B2+1'"),
        "below-0": (MARKS, HEAD + "\nann,,,,-1,,,,\n", "got '-1'"),
        "no-number": (MARKS, HEAD + "\nann,,,,nan,,,,\n", "got 'nan'"),
        "twice": (MARKS, HEAD + "\n'=ann,,,,1,,,,\n=ann,,,,2,,,,\n", "line 3: '=ann' has line 2 as well"),
        "nobody": (MARKS, HEAD + "\n,,,3,,,,,\n", "line 2: expected a folder or an id"),
        "a-comma-too-many": (MARKS, HEAD + "\nann,,,,1,a, b,,,,\n", "expected 9 cells, got 11"),
        "a-quote-that-is-open": (MARKS, HEAD + '\nann,,,,1,"a,,,\n', "cannot be read as a CSV file"),
        "a-list-that-is-empty": (CLASS, "", "it is empty"),
        "a-list-without-columns": (CLASS, "a,b\n1,2\n", "expected columns such as name, id"),
        "a-list-in-another-encoding": (CLASS, "name\nMüller\n".encode("cp1252"), "expected UTF-8"),
        "a-list-with-somebody-twice": (CLASS, "name,id\nAnn,1\nBob,2\nCem,1\n", "line 4: '1' is in line 2 as well"),
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
