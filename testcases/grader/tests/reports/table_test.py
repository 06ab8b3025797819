"""marks.csv: what an instructor writes into it wins, comes back, and is never lost."""

import csv
from pathlib import Path
from typing import Any

import pytest

from testcases.grader.marking.assignment import from_dict
from testcases.grader.reports import table
from testcases.grader.reports.people import csv_rows
from testcases.grader.tests.reports.data import grid, looks, put, read_csv, report, result
from testcases.grader.text import guarded, unguarded
from testcases.harness.suite.asserts import named

LIST = "Student,ID,SIS Login ID,Section,HW (77)\n    Points Possible,,,,20\n" + "".join(
    f'"{name}",{number},{name[:2].lower()},A,\n'
    for number, name in ((11, "Lee, Ann"), (12, "Smith, Bob"), (13, "Öz, Cem"))
)


def canvas(name: str, number: int, **more: Any) -> dict[str, Any]:
    return result(f"{name}_{number}", system="Canvas", name=name, ids=[str(number)], **more)


ANN, BOB = canvas("leeann", 11, code="a"), canvas("smithbob", 12, code="b")


def edit(out: Path, key: str, **cells: str) -> None:
    """As a spreadsheet saves it."""
    head, *rows = [row for _, row in csv_rows(out / "marks.csv")]
    head += [name for name in cells if name not in head]
    rows = [[*row, *[""] * (len(head) - len(row))] for row in rows]
    (row,) = [row for row in rows if key in (row[0], row[2])]
    for name, value in cells.items():
        row[head.index(name)] = value
    with open(out / "marks.csv", "w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows([head, *rows])


def line(out: Path, key: str) -> dict[str, str]:
    (found,) = [row for row in read_csv(out / "marks.csv") if key in (row["folder"], row["id"])]
    return found


def test_a_score_wins_everywhere_and_comes_back(tmp_path: Path):
    report(put(tmp_path, ANN, BOB))
    assert list(read_csv(tmp_path / "marks.csv")[0]) == list(table.COLUMNS)
    assert line(tmp_path, "leeann_11")["points"] == "3"
    edit(tmp_path, "leeann_11", score="4,5", reason="an index", comment="Well done.\n=really", points="99", TA="Zoë")
    edited = (tmp_path / "marks.csv").read_bytes()
    for _ in range(2):
        report(tmp_path)
        assert (tmp_path / "marks.last.csv").read_bytes() == edited
        found = line(tmp_path, "leeann_11")
        assert (found["points"], found["score"], found["reason"]) == ("3", "4,5", "an index")
        assert found["comment"] == "Well done.\n=really" and found["ta"] == "Zoë" and "a mark by hand" in found["flags"]
        assert {row[0]: row[-1] for row in grid(tmp_path / "canvas.csv")[2:]} == {"leeann": "4.5", "smithbob": "3"}
        (page,) = (tmp_path / "report/students").glob("leeann*")
        assert all(text in page.read_text("utf-8") for text in ("4.5 / 6", "Your instructor gave", "=really"))
        assert "4.5, points of the tests: 3; an index" in looks(tmp_path)
    edit(tmp_path, "leeann_11", score="")
    report(tmp_path)
    assert grid(tmp_path / "canvas.csv")[2][-1] == "3" and "a mark by hand" not in looks(tmp_path)


def test_a_disk_that_is_full_takes_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    report(put(tmp_path, ANN))
    edit(tmp_path, "leeann_11", score="6")
    edited = (tmp_path / "marks.csv").read_bytes()
    write = table.write_text

    def fails(path: Path, *given: Any, **named: Any) -> Path:
        if path.name == "marks.csv":
            raise OSError(28, "No space left on device")
        return write(path, *given, **named)

    monkeypatch.setattr(table, "write_text", fails)
    with pytest.raises(OSError):
        report(tmp_path)
    assert (tmp_path / "marks.csv").read_bytes() == edited


def test_a_score_for_code_that_has_changed_since_is_looked_at_until_it_is_given_anew(tmp_path: Path):
    report(put(tmp_path, ANN))
    edit(tmp_path, "leeann_11", score="5")
    report(put(tmp_path, {**ANN, "code": "another"}))
    for _ in range(2):
        report(tmp_path)
        assert "the code has changed since the score 5 was given" in looks(tmp_path)
        assert line(tmp_path, "leeann_11")["score"] == "5" and grid(tmp_path / "canvas.csv")[2][-1] == "5"
    edit(tmp_path, "leeann_11", reason="I looked again")
    report(tmp_path)
    assert "the code has changed" not in looks(tmp_path)


def test_what_a_run_has_changed_is_looked_at(tmp_path: Path):
    report(put(tmp_path, ANN))
    more = canvas("leeann", 11, exercises={"td_errors": result()["lessons"]["lesson04_gae"]["exercises"]["td_errors"]})
    report(put(tmp_path, more))
    assert "points of the tests in the last table: 3, now: 2" in looks(tmp_path)


def test_regrade_is_done_once_and_only_for_what_was_asked_before_the_run(tmp_path: Path):
    report(put(tmp_path, ANN, BOB))
    edit(tmp_path, "leeann_11", regrade="x")
    asked = table.read(tmp_path).regrade()
    assert asked == {"leeann_11": "x"}
    edit(tmp_path, "smithbob_12", regrade="x")
    report(tmp_path, regraded=asked)
    assert (line(tmp_path, "leeann_11")["regrade"], line(tmp_path, "smithbob_12")["regrade"]) == ("", "x")


def test_an_id_that_the_instructor_writes_says_whose_it_is(tmp_path: Path):
    roster = tmp_path / "roster.csv"
    roster.write_text(LIST, "utf-8")
    report(put(tmp_path, result("homework"), BOB), roster=roster)
    assert "no line of the list fits it" in looks(tmp_path)
    assert [row[0] for row in grid(tmp_path / "canvas.csv")[2:]] == ["Smith, Bob"]
    edit(tmp_path, "homework", id="11")
    for _ in range(3):  # The list is kept: later runs need none.
        report(tmp_path)
        assert line(tmp_path, "homework")["student"] == "Lee, Ann" and "whose is it?" not in looks(tmp_path)
        assert [row[:2] for row in grid(tmp_path / "canvas.csv")[2:]] == [["Lee, Ann", "11"], ["Smith, Bob", "12"]]
    edit(tmp_path, "homework", id="12")
    report(tmp_path)
    assert looks(tmp_path).count("2 lines have the id 12") == 2 and not (tmp_path / "canvas.csv").exists()


def test_who_handed_in_nothing_has_a_line_and_no_mark_unless_somebody_gives_one(tmp_path: Path):
    roster = tmp_path / "roster.csv"
    roster.write_text(LIST, "utf-8")
    report(put(tmp_path, ANN), roster=roster)
    cem = line(tmp_path, "13")
    assert (cem["student"], cem["folder"], cem["points"], cem["flags"]) == ("Öz, Cem", "", "", "nothing handed in")
    assert [row[0] for row in grid(tmp_path / "canvas.csv")[2:]] == ["Lee, Ann"]
    edit(tmp_path, "13", score="6", reason="on paper")
    report(tmp_path)
    assert [(row[0], row[-1]) for row in grid(tmp_path / "canvas.csv")[2:]] == [("Lee, Ann", "3"), ("Öz, Cem", "6")]
    report(put(tmp_path, ANN, canvas("özcem", 13)))
    assert line(tmp_path, "özcem_13")["score"] == "6" and len(read_csv(tmp_path / "marks.csv")) == 3


def test_a_line_whose_submission_is_gone_stays_if_somebody_wrote_into_it(tmp_path: Path):
    report(put(tmp_path, ANN, BOB, canvas("özcem", 13)))
    edit(tmp_path, "leeann_11", score="6")
    edit(tmp_path, "özcem_13", folder="?zcem_13", comment="good")  # What a spreadsheet makes of it.
    for name in ("r0000", "r0001"):
        (tmp_path / f"results/{name}.json").unlink()
    report(tmp_path)
    assert [row["folder"] for row in read_csv(tmp_path / "marks.csv")] == ["özcem_13", "leeann_11"]
    assert line(tmp_path, "özcem_13")["comment"] == "good" and line(tmp_path, "leeann_11")["score"] == "6"
    assert "no such submission" in looks(tmp_path) and grid(tmp_path / "canvas.csv")[-1][-1] == "6"


HEAD = ",".join(table.COLUMNS)


@named(
    "text, says",
    {
        "a-column-less": (HEAD.replace(",regrade", ""), "expected the columns folder, student"),
        "a-column-twice": (HEAD + ",score", "each once"),
        "another-encoding": ((HEAD + "\nMüller,,,,,,,,\n").encode("cp1252"), "expected UTF-8"),
        "a-formula": (HEAD + "\nann,,,,=B2+1,,,,\n", "line 2: score: expected a number from 0, got '=B2+1'"),
        "a-word": (HEAD + "\nann,,,,good,,,,\n", "got 'good'"),
        "below-0": (HEAD + "\nann,,,,-1,,,,\n", "got '-1'"),
        "no-number": (HEAD + "\nann,,,,nan,,,,\n", "got 'nan'"),
        "twice": (HEAD + "\nann,,,,1,,,,\nbob,,,,,,,,\nann,,,,2,,,,\n", "line 4: 'ann' has line 2 as well"),
        "twice-in-disguise": (HEAD + "\n'=ann,,,,1,,,,\n=ann,,,,2,,,,\n", "line 3: '=ann' has line 2 as well"),
        "nobody": (HEAD + "\n,,,3,,,,,\n", "line 2: expected a folder or an id"),
        "a-comma-too-many": (HEAD + "\nann,,,,1,a, b,,,,\n", "expected 9 cells, got 11"),
        "a-quote-that-is-open": (HEAD + '\nann,,,,1,"a,,,\n', "cannot be read as a CSV file"),
        "empty": ("", "it is empty"),
        "a-spreadsheet": (b"PK\3\4\xff\xfe", "expected UTF-8"),
    },
)
def test_a_table_that_is_not_understood_is_refused_and_left_alone(tmp_path: Path, text: str | bytes, says: str):
    data = text.encode() if isinstance(text, str) else text
    put(tmp_path, ANN)
    (tmp_path / "marks.csv").write_bytes(data)
    with pytest.raises(ValueError, match="^marks.csv") as caught:
        report(tmp_path)
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert (tmp_path / "marks.csv").read_bytes() == data


def test_what_somebody_writes_is_no_formula_and_comes_back_as_it_was(tmp_path: Path):
    texts = ("=1+1", "'=1", "'tis fine", "@a", "-", "a;=b", "\t=1", "ü\n+1", "''")
    for text in texts:
        assert unguarded(guarded(text)) == text and guarded(text)[:1] not in tuple("=+-@\t\r")
    report(put(tmp_path, ANN))
    for text in texts:
        edit(tmp_path, "leeann_11", comment=guarded(text))
        report(tmp_path)
        assert unguarded(line(tmp_path, "leeann_11")["comment"]) == text.strip()


def test_points_follow_the_assignment(tmp_path: Path):
    names = ["lesson04_gae.td_errors", "lesson04_gae.compute_gae"]
    asked = from_dict({"exercises": names, "points": 20, "title": "HW"})
    roster = tmp_path / "roster.csv"
    roster.write_text(LIST, "utf-8")
    report(put(tmp_path, ANN), asked, roster)
    assert line(tmp_path, "leeann_11")["points"] == "10"  # 4 of 8
    assert [row[-1] for row in grid(tmp_path / "canvas.csv")] == ["HW (77)", "20", "10"]
    text = (tmp_path / "report/index.html").read_text("utf-8")
    assert "HW: 20 points" in text and "10 / 20" in text
