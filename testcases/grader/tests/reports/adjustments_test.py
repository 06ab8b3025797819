"""From points to marks: weights and overrides, in every report."""

import json
from pathlib import Path
from typing import Any

import pytest

from testcases.grader.commands import tables
from testcases.grader.marking import from_dict
from testcases.grader.reports import Reports, write_reports
from testcases.grader.reports.marks import adjustments, overrides, sheets
from testcases.grader.tests.reports.data import batch_rows, exercise, grid, put, read_csv, result

NAMES = ("lesson04_gae.td_errors", "lesson04_gae.compute_gae")
GAE = {"exercises": list(NAMES), "points": 20}


def write(out: Path, data: dict[str, Any], text: str = "", roster_file: Path | None = None) -> Reports:
    (out / "overrides.csv").write_text(text, "utf-8")
    asked = from_dict(data)
    given = overrides.read(out, asked.names)
    return write_reports(out, batch_rows(out), roster_file, asked, given)


def adjusted(data: dict[str, Any], *results: dict[str, Any], text: str = "", out: Path) -> adjustments.Class:
    found = sheets.load(put(out, *results), batch_rows(out))
    (out / "overrides.csv").write_text(text, "utf-8")
    asked = from_dict(data)
    return adjustments.apply(adjustments.Class(found), asked, overrides.read(out, asked.names))


def test_every_report_follows_the_assignment(tmp_path: Path):
    (tmp_path / "class.csv").write_text(
        "Identifier,Email address,Grade,Maximum grade,Last modified (grade),"
        "Feedback comments\nParticipant 7,ann,,50,-,\n",
        "utf-8",
    )
    found = write(
        put(tmp_path, result("ann")),
        {**GAE, "title": "HW 2", "weights": {"td_errors": 3, "compute_gae": 1}},
        "student,exercise,score,comment\nann,compute_gae,2,Half right.\n",
        tmp_path / "class.csv",
    )
    assert found.sheets[0].mark == 17 and not found.problems  # 15 of 15, and 2 of 5 instead of 1.25
    (row,) = read_csv(tmp_path / "gradebook.csv")
    assert (row["score"], row["max_score"], row["percent"]) == ("17", "20", "85.0")
    assert row["comments"] == "compute_gae: Half right." and row["lesson04_gae"] == "17"
    canvas = grid(tmp_path / "canvas.csv")
    assert canvas[0][-1] == "HW 2" and canvas[1][-1] == "20" and canvas[2][-1] == "17"
    assert grid(tmp_path / "moodle.csv")[1][-2:] == ["17", "lesson04_gae 17/20; compute_gae: Half right."]
    assert read_csv(tmp_path / "moodle_worksheet.csv")[0]["Grade"] == "42.5"
    (gradescope,) = (tmp_path / "gradescope").glob("*.json")
    data = json.loads(gradescope.read_text("utf-8"))
    assert data["score"] == 17 and [test["max_score"] for test in data["tests"]] == [15, 5]
    (page,) = (tmp_path / "report/students").glob("*.html")
    text = page.read_text("utf-8")
    assert "17 / 20" in text and "HW 2" in text and "Half right." in text and "points by your instructor" in text
    text = (tmp_path / "report/index.html").read_text("utf-8")
    assert "HW 2: 20 points" in text and "1 with marks given by hand" in text


def test_the_instructors_word_is_the_last(tmp_path: Path):
    failed = {"td_errors": exercise(0, 2, "grader-error"), "compute_gae": exercise(0, 2)}
    text = 'student;score;comment\nann;;"Was ill.\nGet well!"\nbob;12,5;By hand.\n'
    text += "cem;7;\nnobody;3;\n"
    every = [result("ann"), result("bob", failed), result("cem", status="unreadable")]
    found = adjusted(GAE, *every, text=text, out=tmp_path)
    assert [sheet.mark for sheet in found.sheets] == [10, 12.5, 7]
    assert found.sheets[0].comments == ("Was ill.\nGet well!",) and found.sheets[1].final
    assert found.problems == ["overrides.csv, line 5: 'nobody' is the name of no submission: not applied"]


def test_an_override_follows_the_people_of_the_roster(tmp_path: Path):
    """Not a name that somebody gave to a submission. Whoever handed in nothing can have a mark, too."""
    people = tmp_path / "class.csv"
    people.write_text(
        "student,name,email\nsub1,Ann Lee,ann@x.edu\nsub2,Mal Lory,mal@x.edu\n,Cy Roe,cy@x.edu\n", "utf-8"
    )
    exercises = {"td_errors": exercise(0, 2), "compute_gae": exercise(0, 2)}
    put(tmp_path, result("sub1", exercises), result("sub2", exercises, aliases=["ann@x.edu"]))
    text = "student,exercise,score\nann@x.edu,,18\nCy Roe,,12\ncy@x.edu,td_errors,1\nDee,,3\n"
    found = write(tmp_path, GAE, text, people)
    assert {sheet.student: sheet.mark for sheet in found.sheets} == {"sub1": 18, "sub2": 0, "Cy Roe": 12}
    assert [problem.partition(": ")[0] for problem in found.problems] == [f"overrides.csv, line {n}" for n in (4, 5)]
    assert [row[-1] for row in grid(tmp_path / "canvas.csv")[2:]] == ["18", "12", "0"]
    twins = tmp_path / "twins.csv"
    twins.write_text("student,name\nsub1,Ann Lee\nsub2,Ann Lee\n", "utf-8")
    found = write(tmp_path, GAE, "student,score\nAnn Lee,9\n", twins)
    assert "could be several people" in found.problems[0] and not any(sheet.mark for sheet in found.sheets)


def test_points_by_hand_for_what_the_grader_failed_at(tmp_path: Path):
    failed = {"td_errors": exercise(0, 2, "grader-error"), "compute_gae": exercise(2, 2)}
    text = "student,exercise,score\nann,td_errors,5\n"
    (one,) = adjusted(GAE, result("ann", failed), text=text, out=tmp_path).sheets
    assert (one.status, one.mark, one.max_score) == ("graded", 15, 20)


def test_overrides_survive_and_are_only_offered(tmp_path: Path):
    overrides.offer(tmp_path)
    assert overrides.read(tmp_path, NAMES) == []
    (tmp_path / "overrides.csv").write_bytes("student,comment\r\nj\xfcrgen,gr\xfc\xdfe\r\n".encode("cp1252"))
    overrides.offer(tmp_path)
    (one,) = overrides.read(tmp_path, NAMES)
    assert (one.student, one.comment, one.line) == ("jürgen", "grüße", 2)


@pytest.mark.parametrize(
    "text, says",
    [
        ("student,mark\nann,3", "expected the columns student, exercise, score, comment, got 'mark'"),
        ("exercise,score\n", "expected a column student"),
        ("student,score\n,3", "line 2: expected a student"),
        ("student,score\nann,three", "line 2: score: expected a number from 0, got 'three'"),
        ("student,score\nann,-1", "line 2: score: expected a number from 0, got '-1'"),
        ("student,days_late\nann,1", "got 'days_late'"),
        ("student,exercise,score\nann,gae,1", "line 2: 'gae' is no exercise of this assignment"),
        ("student,score\nann,1\nann,2", "line 3: 'ann' has a score in line 2"),
    ],
)
def test_overrides_that_are_wrong(tmp_path: Path, text: str, says: str):
    (tmp_path / "overrides.csv").write_text(text, "utf-8")
    with pytest.raises(ValueError) as caught:
        overrides.read(tmp_path, NAMES)
    assert str(caught.value).startswith("overrides.csv") and says in str(caught.value)


def test_ones_own_lessons_are_shown_on_the_same_scale():
    table = tables.exercises(result(), from_dict(GAE))
    assert list(table.columns[2].cells) == ["6.67/6.67", "3.33/13.33", "10/20"]
