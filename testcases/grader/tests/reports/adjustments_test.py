"""From points to marks: weights, overrides, lateness, attempts, in every report."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testcases.grader.commands import tables
from testcases.grader.marking import Assignment, Row, from_dict
from testcases.grader.reports import Reports, write_reports
from testcases.grader.reports.marks import adjustments, overrides, roster, sheets
from testcases.grader.tests.reports.data import batch_rows, exercise, grid, put, read_csv, result

pytestmark = pytest.mark.usefixtures("no_figures")
NAMES = ("lesson04_gae.td_errors", "lesson04_gae.compute_gae")
GAE = {"exercises": list(NAMES), "points": 20}
DUE = {**GAE, "due": "2026-11-20T11:00:00+00:00", "late": {"percent_per_day": 10, "grace_minutes": 30}}


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


def test_a_result_of_an_earlier_version_keeps_its_denominator(tmp_path: Path):
    """An exercise of then that is given now counts in the hand-ins of then."""
    older = result("ann", {"td_errors": exercise(2, 2), "given_now": exercise(0, 3)})
    (sheet,) = adjusted({"lessons": [4]}, older, out=tmp_path / "points").sheets
    assert (sheet.mark, sheet.max_score) == (2, 5)
    (sheet,) = adjusted({"lessons": [4], "points": 20}, older, out=tmp_path / "twenty").sheets
    assert (sheet.mark, sheet.max_score) == (8, 20)


def test_late_days_cost_and_are_told(tmp_path: Path):
    times = {
        "early": "2026-11-20T10:00:00+00:00",
        "grace": "2026-11-20T11:30:00Z",
        "late": "2026-11-21T12:00:00+01:00",
        "later": "2026-12-21 11:00:00 UTC",
        "unknown": "",
        "odd": "yesterday",
    }
    exercises = {"td_errors": exercise(2, 2), "compute_gae": exercise(2, 2)}
    found = write(put(tmp_path, *(result(name, exercises, handed_in=when) for name, when in times.items())), DUE)
    marks = {sheet.student: (sheet.mark, sheet.adjustments.days_late) for sheet in found.sheets}
    assert marks == dict(early=(20, 0), grace=(20, 0), late=(18, 1), later=(0, 31), unknown=(20, 0), odd=(20, 0))
    notes = {row["student"]: row["notes"] for row in read_csv(tmp_path / "gradebook.csv")}
    assert "the time of the hand-in is not known" in notes["unknown"] and "'yesterday' cannot be read" in notes["odd"]
    (page,) = (tmp_path / "report/students").glob("late-*.html")
    assert "1 day late: -2 points, from 20" in page.read_text("utf-8")
    assert "2 late" in (tmp_path / "report/index.html").read_text("utf-8")


def test_the_time_of_a_file_makes_nobody_late_unless_asked(tmp_path: Path):
    """A download or a clone makes all files new: Canvas's and GitHub's classes would all be late."""
    exercises, new = {"td_errors": exercise(2, 2), "compute_gae": exercise(2, 2)}, "2026-11-22T10:00:00+00:00"
    people = {f"s{i}": {"handed_in": "", "newest_file": new, "system": "Canvas"} for i in range(4)}
    people["s3"]["is_late"] = True
    every = [result(name, exercises, **told) for name, told in people.items()]
    found = adjusted(DUE, *every, out=tmp_path)
    assert [sheet.adjustments.days_late for sheet in found.sheets] == [0, 0, 0, 1] and not found.problems
    assert "Canvas says that it came late, not when" in " ".join(found.sheets[3].all_notes)
    assert not found.sheets[0].all_notes
    asked = {**DUE, "due": {"at": "2026-11-20T11:00:00+01:00", "handed_in": "files"}}
    found = adjusted(asked, *every, out=tmp_path)
    assert all(sheet.adjustments.days_late > 1 for sheet in found.sheets)
    assert found.problems == [
        "4 of 4 who handed in (Canvas) are late by the times of the files: look at the due date and at that source "
        "before you publish a mark"
    ]


def test_times_and_own_due_dates_from_columns(tmp_path: Path):
    path = tmp_path / "class.csv"
    path.write_text(
        'student,Submitted,Extension\nann,"Friday, 20 November 2026, 1:59 PM",\n'
        "bob,2026-11-25 10:00,2026-11-26T00:00\ncem,,soon\n",
        "utf-8",
    )
    exercises = {"td_errors": exercise(2, 2), "compute_gae": exercise(2, 2)}
    data = {**DUE, "due": {"at": "2026-11-20T11:00:00+01:00", "column": "extension", "handed_in": "SUBMITTED"}}
    out = put(tmp_path, *(result(name, exercises) for name in ("ann", "bob", "cem")))
    found = write(out, data, "", path)
    assert [(sheet.mark, sheet.adjustments.days_late) for sheet in found.sheets] == [(18, 1), (20, 0), (20, 0)]
    assert "the due date 'soon'" in " ".join(found.sheets[2].all_notes)
    for key in ("column", "handed_in"):
        asked = from_dict({**data, "due": {"at": "2026-11-20T11:00:00+01:00", key: "When"}})
        with pytest.raises(ValueError, match=f"due.{key}: expected a column 'When' in the roster, and it has student"):
            adjustments.check_columns(asked, roster.read(path))
        with pytest.raises(ValueError, match="there is no ROSTER"):
            adjustments.check_columns(asked, None)


def test_the_instructors_word_is_the_last(tmp_path: Path):
    failed = {"td_errors": exercise(0, 2, "grader-error"), "compute_gae": exercise(0, 2)}
    late = {"handed_in": "2026-11-21T12:00:00+01:00"}
    text = 'student;score;days_late;comment\nann;;0;"Was ill.\nGet well!"\nbob;12,5;;By hand.\n'
    text += "cem;7;;\ndan;;2;\nnobody;3;;\n"
    every = [result("ann", **late), result("bob", failed), result("cem", status="unreadable"), result("dan")]
    found = adjusted(DUE, *every, text=text, out=tmp_path)
    assert [sheet.mark for sheet in found.sheets] == [10, 12.5, 7, 6]
    assert found.sheets[0].comments == ("Was ill.\nGet well!",) and found.sheets[1].final
    assert found.problems == ["overrides.csv, line 6: 'nobody' is the name of no submission: not applied"]


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
        ("student,mark\nann,3", "expected the columns student, exercise, score, days_late, comment, got 'mark'"),
        ("exercise,score\n", "expected a column student"),
        ("student,score\n,3", "line 2: expected a student"),
        ("student,score\nann,three", "line 2: score: expected a number from 0, got 'three'"),
        ("student,score\nann,-1", "line 2: score: expected a number from 0, got '-1'"),
        ("student,days_late\nann,1.5", "line 2: days_late: expected whole days"),
        ("student,exercise,score\nann,gae,1", "line 2: 'gae' is no exercise of this assignment"),
        ("student,score\nann,1\nann,2", "line 3: 'ann' has a score in line 2"),
    ],
)
def test_overrides_that_are_wrong(tmp_path: Path, text: str, says: str):
    (tmp_path / "overrides.csv").write_text(text, "utf-8")
    with pytest.raises(ValueError) as caught:
        overrides.read(tmp_path, NAMES)
    assert str(caught.value).startswith("overrides.csv") and says in str(caught.value)


def attempts(out: Path, how: str, times: tuple[str, ...], roster_file: Path | None = None) -> Reports:
    scores = (2, 0, 1)
    results = [
        result("ann", {"td_errors": exercise(score, 2)}, handed_in=when)
        for score, when in zip(scores, times, strict=True)
    ]
    put(out, *results, result("bob"))
    return write(out, {**GAE, "points": 2, "exercises": [NAMES[0]], "attempts": how}, "", roster_file)


@pytest.mark.parametrize("how, mark", [("best", 2), ("last", 0)])
@pytest.mark.parametrize("with_roster", [False, True])
def test_one_attempt_counts(tmp_path: Path, how: str, mark: int, with_roster: bool):
    path = tmp_path / "class.csv"
    path.write_text("student\nann\nbob\n", "utf-8")
    times = ("2026-11-20T10:00:00", "2026-11-20T12:00:00+00:00", "2026-11-20T09:00:00")
    found = attempts(tmp_path, how, times, path if with_roster else None)
    assert not found.problems
    rows = [row for row in read_csv(tmp_path / "gradebook.csv") if row["student"] == "ann"]
    assert [row["score"] for row in rows if row["status"] == "graded"] == [str(mark)]
    assert [row["status"] for row in rows].count("other-attempt") == 2
    assert [line[-1] for line in grid(tmp_path / "canvas.csv")[2:]] == [str(mark), "1"]


def test_attempts_of_which_none_is_the_last(tmp_path: Path):
    found = attempts(tmp_path, "last", ("2026-11-20T10:00:00",) * 3)
    assert found.problems == ["ann: it is not known which of 3 attempts came last: none counts"]
    assert len(grid(tmp_path / "canvas.csv")) == 3


@pytest.mark.parametrize("system, wanted", [("folder", [True, True]), ("Blackboard", [False, True])])
def test_without_a_rule_the_last_counts_where_the_system_knows_both(tmp_path: Path, system: str, wanted: list[bool]):
    """Two folders may be of two people of one name; a login and its attempts are not."""
    asked = Assignment(exercises=(("lesson04_gae", "td_errors"),))
    found = sheets.load(put(tmp_path, result("ann", system=system)), [Row("ann", "r0000", 0, 0, "graded")])
    both = [replace(found[0], page=day, handed_in=f"2026-11-{day}T10:00:00") for day in ("20", "21")]
    again = adjustments.apply(adjustments.Class(both), asked)
    assert [sheet.adjustments.counts for sheet in again.sheets] == wanted


def test_ones_own_lessons_are_shown_on_the_same_scale():
    table = tables.exercises(result(), from_dict(GAE))
    assert list(table.columns[2].cells) == ["6.67/6.67", "3.33/13.33", "10/20"]
