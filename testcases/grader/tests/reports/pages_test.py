"""Results as they are read back, classes of every size, and what a page tells whom."""

import json
from pathlib import Path

import pytest

from testcases.grader.marking import Row
from testcases.grader.reports import write_reports
from testcases.grader.reports.marks import sheets
from testcases.grader.reports.pages import analysis, code, student_page
from testcases.grader.status import STATUSES
from testcases.grader.tests.reports.data import (
    CAUSE,
    batch_rows,
    check_page,
    exercise,
    grid,
    load_one,
    put,
    read_csv,
    report,
    result,
)
from testcases.harness import named_cases


@named_cases(
    "text",
    {
        "empty": "",
        "cut-off": "{",
        "another-type": "[]",
        "no-keys": "{}",
        "nested": "[" * 100_000,
        "nan": json.dumps(result(score=float("nan"))),
        "negative": json.dumps(result(score=-1)),
        "points-as-text": json.dumps(result(score="58")),
        "points-as-bool": json.dumps(result(score=True)),
        "more-than-there-are": json.dumps(result(score=99)),
        "does-not-add-up": json.dumps(result(score=0)),
        "student-is-a-list": json.dumps(result(student=["ann"])),
        "lessons-is-a-list": json.dumps(result(lessons=[])),
        "notes-is-a-text": json.dumps(result(notes="x")),
        "not-utf-8": "\udcff",
    },
)
def test_a_broken_results_file_is_a_grader_error_and_never_0_points(tmp_path: Path, text: str):
    out = put(tmp_path, result("ann"))
    mine = text.replace('"student": "ann"', '"student": "bob"')
    (out / "results" / "bob.json").write_text(mine, "utf-8", "surrogateescape")
    report(out)
    ann, bob = read_csv(out / "gradebook.csv")
    assert (ann["student"], ann["score"], ann["status"]) == ("ann", "3", "graded")
    assert (bob["student"], bob["score"], bob["status"]) == ("bob", "", "grader-error")
    assert "grade again" in bob["notes"]
    assert "bob" not in (out / "canvas.csv").read_text("utf-8")
    assert "bob" not in (out / "moodle.csv").read_text("utf-8")


def test_a_submission_whose_results_are_lost_has_a_row_and_an_old_result_has_none(tmp_path: Path):
    out = put(tmp_path, result("ann"), result("of the batch before"))
    rows = [Row("ann", "r0000", 3, 6, "graded"), Row("=1+1", "_1_1", 3, 6, "graded")]
    write_reports(out, rows)
    lost, ann = read_csv(out / "gradebook.csv")
    assert (lost["student"], lost["score"], lost["status"]) == ("'=1+1", "", "grader-error")
    assert (ann["student"], ann["score"], ann["status"]) == ("ann", "3", "graded")
    assert len(grid(out / "canvas.csv")) == 3 and len(list((out / "report" / "students").iterdir())) == 2


def test_an_unknown_status_is_a_grader_error(tmp_path: Path):
    sheet = load_one(tmp_path, result(exercises={"td_errors": exercise(0, 2, "<script>")}))
    assert sheet.status == "grader-error" and "<script>" in sheet.notes[0]


def test_every_status_is_shown_in_words(tmp_path: Path):
    exercises = {f"e{i}": exercise(0, 2, status) for i, status in enumerate(STATUSES[1:])}
    out = put(tmp_path, result(exercises=exercises))
    report(out)
    text = check_page(next((out / "report" / "students").iterdir())).text
    for words in ("wrong answer", "too slow", "crashed", "tampering suspected", "no verdict", "waits for another"):
        assert words in text
    (row,) = read_csv(out / "gradebook.csv")
    assert row["status"] == "grader-error" and "tamper-suspected in 1 exercise" in row["flags"]
    assert len(grid(out / "canvas.csv")) == 2 and len(grid(out / "moodle.csv")) == 1


def test_empty_and_unsandboxed_submissions_are_told_apart(tmp_path: Path):
    missing = {"td_errors": exercise(0, 2, "missing")}
    ann, bob = result("ann", missing, status="empty"), result("bob", sandbox="none")
    out = put(tmp_path, ann, bob, result("eve", missing, notes=["broken"], status="unreadable"))
    report(out)
    ann, bob, eve = read_csv(out / "gradebook.csv")
    assert (ann["status"], bob["status"], eve["status"]) == ("empty", "graded", "unreadable")
    assert (ann["flags"], bob["flags"]) == ("", "NOT SANDBOXED")
    for sheet in sheets.load(out, batch_rows(out)):
        place = out / "report" / "students" / f"{sheet.page}.html"
        assert ("NOT SANDBOXED" in check_page(place).text) == (sheet.student == "bob")
    assert "NOT SANDBOXED" in check_page(out / "report" / "index.html").text
    assert "NOT SANDBOXED" in (out / "moodle.csv").read_text("utf-8")


@pytest.mark.parametrize("count", [0, 1])
def test_no_class_and_a_class_of_one(tmp_path: Path, count: int):
    out = put(tmp_path, *[result()] * count)
    report(out)
    assert len(read_csv(out / "gradebook.csv")) == count
    assert len(grid(out / "canvas.csv")) == 2 + count
    page = check_page(out / "report" / "index.html")
    assert ("There is nothing here yet" in page.text) == (count == 0)


def test_names_that_differ_in_case_only_stay_apart(tmp_path: Path):
    out = put(tmp_path, result("Ann"), result("ann", {"td_errors": exercise(0, 6, "wrong")}), result("ANN"))
    report(out)
    assert sorted((row["student"], row["score"]) for row in read_csv(out / "gradebook.csv")) == [
        ("ANN", "3"),
        ("Ann", "3"),
        ("ann", "0"),
    ]
    assert len({path.name.lower() for path in (out / "report" / "students").iterdir()}) == 3


def test_a_large_class_has_a_row_and_a_page_each(tmp_path: Path):
    out = put(tmp_path, *(result(f"student {i}") for i in range(100)))
    report(out)
    assert len(list((out / "report" / "students").iterdir())) == 100
    assert len(grid(out / "gradebook.csv")) == 101


def test_two_runs_write_the_same_and_remove_what_is_old(tmp_path: Path):
    out = put(tmp_path, result("ann"), result("bob"))
    (out / "report").mkdir()
    (out / "report" / "mine.txt").write_text("keep")

    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in out.rglob("*") if path.is_file()}

    report(out)
    first = files()
    report(out)
    assert files() == first
    (out / "results" / "r0001.json").unlink()
    report(out)
    assert len(list((out / "report" / "students").iterdir())) == 1
    assert (out / "report" / "mine.txt").exists()


def test_a_student_page_tells_points_cause_and_reading_and_no_other_student(tmp_path: Path):
    out = put(tmp_path, result("ann"), result("bob"))
    report(out)
    (ann,) = (out / "report" / "students").glob("ann-*")
    text = " ".join(check_page(ann).text.split())
    assert "3 / 6 points, 50%" in text
    assert "Go on here: compute_gae" in text and CAUSE["why"] in text and CAUSE["read"] in text
    assert "bob" not in text and "index.html" not in ann.read_text("utf-8")


def test_a_repaired_suspect_tells_the_story_of_the_real_bug_and_another_does_not(tmp_path: Path):
    data = result(exercises={"bounded_error": exercise(), "credit_packed": exercise(0, 2, "wrong")})
    data["lessons"] = {"lesson10_bug_hunt": next(iter(data["lessons"].values()))}
    page = student_page(load_one(tmp_path, data))
    assert "The real bug, ray-project/ray#2233" in page and "ROLL#447" not in page


def test_a_student_page_does_not_tell_the_secret_or_the_cause_twice(tmp_path: Path):
    message = f"expected [1]\ngot [2]\nLikely cause: dones_ignored: {CAUSE['why']}\nHint: make hint"
    wrong = exercise(0, 2, "wrong", message=message, likely_cause=CAUSE, told="expected [1]\ngot [2]")
    report(put(tmp_path, result(exercises={"a": wrong, "b": wrong}, secret="987654321")))
    (path,) = (tmp_path / "report" / "students").iterdir()
    text = check_page(path).text
    assert text.count("got [2]") == 2 and text.count(CAUSE["why"]) == 3 and "987654321" not in text


def test_the_page_of_what_cannot_be_read_says_why_and_nothing_else(tmp_path: Path):
    missing = {"td_errors": exercise(0, 2, "missing", message="there is no file")}
    report(put(tmp_path, result("ann", missing, notes=["<broken> archive"], status="unreadable")))
    (path,) = (tmp_path / "report" / "students").iterdir()
    text = check_page(path).text
    assert "cannot be read" in text and "<broken> archive" in text and "td_errors" not in text


def test_a_lesson_that_nobody_touched_is_one_line(tmp_path: Path):
    exercises = {f"e{i}": exercise(0, 2, "missing", message="no gae.py; there is <Gae>.py") for i in range(3)}
    out = put(tmp_path, result(exercises=exercises), result("bob", {**exercises, "e0": exercise(0, 2, "not-started")}))
    report(out)
    for student, times in (("ann", 1), ("bob", 2)):
        (path,) = (out / "report" / "students").glob(f"{student}-*")
        page = check_page(path)
        assert page.text.count("there is <Gae>.py") == times and "e0" in page.text and "e2" in page.text


def test_the_class_page_counts_passes_and_mistakes(tmp_path: Path):
    late = {"td_errors": exercise(0, 2, "not-started"), "compute_gae": exercise(0, 4, "grader-error")}
    out = put(tmp_path, result("ann"), result("bob"), result("eve", late))
    report(out)
    text = " ".join(check_page(out / "report" / "index.html").text.split())
    assert "td_errors 2 (67%)100% 67%" in text  # of all, of those who tried
    assert "compute_gae 0 (0%)0% 25%" in text  # the one without a verdict is no failure
    assert "2lesson04_gae compute_gaedones_ignored" in text


CODE = """import torch


def td_errors(rewards):
    return (
        rewards
    )


class Row:
    def compute_gae(self):
        pass


def compute_gae(rewards):
    return "<b>"
"""


def test_a_page_shows_the_code_that_was_graded_and_where_it_failed(tmp_path: Path):
    files = [{"path": "lesson04_gae/gae.py", "text": CODE, "cut": 0}]
    exercises = {"td_errors": exercise(0, 2, "wrong"), "compute_gae": exercise(2, 2)}
    sheet = load_one(tmp_path, result("ann", exercises, files=files))
    (listing,) = code.listings(sheet)
    assert [line.number for line in listing.lines if line.failed] == [4, 5, 6, 7]
    assert [(line.number, line.told) for line in listing.lines if line.told] == [(4, "td_errors: wrong")]
    report(tmp_path)
    (page,) = (tmp_path / "report/students").glob("*.html")
    (beside,) = (tmp_path / "report/code").glob("*.html")
    text, both = page.read_text("utf-8"), beside.read_text("utf-8")
    assert "The code that was graded" in text and "&#34;&lt;b&gt;&#34;" in text and "td_errors: wrong" in text
    assert "The course" in both and "# region solution" in both and "# region solution" not in text
    check_page(page)
    check_page(beside)
    (whole,) = (tmp_path / "code").rglob("*.py")
    assert whole.read_text("utf-8") == CODE and whole.parts[-2:] == ("lesson04_gae", "gae.py")


def test_no_file_of_a_submission_is_written_outside_of_its_folder(tmp_path: Path):
    files = [
        {"path": path, "text": "x", "cut": 0} for path in ("../../a.py", "/tmp/lesson04_b.py", "lesson04_gae/c.py")
    ]
    report(put(tmp_path, result("ann", files=files)))
    assert [path.name for path in tmp_path.rglob("*.py")] == ["c.py"] and not Path("/tmp/lesson04_b.py").exists()


@pytest.mark.parametrize("name", ["nothing", "Row.nothing", "Row.compute_gae"])
def test_an_exercise_is_found_in_any_text(name: str):
    rows = code._rows(CODE.splitlines(), name)
    assert list(rows) == ([10, 11] if name == "Row.compute_gae" else [])


def test_who_needs_a_look_comes_by_urgency_and_nobody_else(tmp_path: Path):
    doubt = {"kind": "a second copy", "text": "graded hw1; hw2 has another gae.py"}
    failed = {"td_errors": exercise(0, 2, "grader-error")}
    sound = {"td_errors": exercise()}
    put(tmp_path, result("ann", sound), result("bob", sound, doubts=[doubt]), result("cem", failed))
    put(tmp_path / "more", result("dan", {}, status="empty", lessons={}, score=0, max_score=0))
    found = [one for out in (tmp_path, tmp_path / "more") for one in sheets.load(out, batch_rows(out))]
    told = analysis.looks(found, {found[0].page: "no line"}, ["overrides.csv, line 2: not applied"])
    assert [(look.kind, look.name) for look in told] == [
        ("no verdict", "cem"),
        ("not graded", "dan"),
        ("a second copy", "bob"),
        ("whose is it?", "ann"),
        ("an override is not applied", ""),
    ]
    assert told[2].why.endswith("(remove what does not count, and run again)")
