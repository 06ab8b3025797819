"""Results as they are read back, and what a page tells whom."""

import csv
import json
import re
from pathlib import Path

import pytest

from testcases.grader.status import STATUSES
from testcases.grader.tests.reports.data import (
    CAUSE,
    CONTROL,
    check_page,
    exercise,
    grid,
    put,
    read_csv,
    report,
    result,
)
from testcases.grader.text import cell, clean, clean_lines, slug
from testcases.harness.suite.asserts import named

EVIL = [
    pytest.param("<script>alert(1)</script>", id="markup"),
    pytest.param('"><img src=x onerror=alert(1)>', id="attribute"),
    pytest.param("{{ 7 * 7 }}{% raw %}", id="template"),
    pytest.param("</pre></title><!--", id="closes-the-tag"),
    pytest.param('=HYPERLINK("http://x","y")', id="formula"),
    pytest.param('x;=HYPERLINK(1);"=2', id="formula-after-a-semicolon"),
    pytest.param("\t=1", id="tab"),
    pytest.param("\u200b=1", id="formula-after-an-invisible-letter"),
    pytest.param("\uff1d1+1", id="full-width-formula"),
    pytest.param("../../etc/passwd", id="path"),
    pytest.param("\x1b[2J\x1b]0;title\x07 \x9b31m", id="terminal"),
    pytest.param("ann\u202egnp.exe\u2066", id="direction-override"),
    pytest.param("a\ud800b\x00", id="half-a-character"),
    pytest.param('a,b;"c"\nd\u2028e', id="separators"),
    pytest.param("N" * 100_000, id="very-long"),
    pytest.param("Points Possible", id="canvas-points-row"),
]


@pytest.mark.parametrize("text", EVIL)
def test_hostile_text_is_harmless_in_every_report(tmp_path: Path, text: str):
    assert not CONTROL.search(clean(text) + clean_lines(text)) and len(clean(text)) <= 200 and "\n" not in clean(text)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{8}", slug(text, text))
    test = {"id": text, "score": 0, "max_score": 2, "status": "error"}
    bad = exercise(0, 2, "error", told=text, causes=[text], read=text, tests=[test])
    out = put(tmp_path, result(text, {text or "x": bad}, notes=[text], name=text, ids=[text]), result("bob"))
    report(out)
    for page in out.rglob("*.html"):
        check_page(page)
    for path in out.glob("*.csv"):
        rows = grid(path)
        assert len({len(row) for row in rows}) == 1
        split = csv.reader(path.read_text("utf-8").splitlines(), delimiter=";")  # As Excel does in half of Europe.
        for value in (value for row in (*rows, *split) for value in row):
            assert not re.match(r"\s*[=+\-@\uff1d]", value), value
            assert "\n" not in value and not CONTROL.search(value)
    assert len(read_csv(out / "marks.csv")) == 2
    assert sum("points possible" in row[0].strip().lower()[:15] for row in grid(out / "canvas.csv")) == 1


@named(
    "value, shown",
    {
        "a-negative-number-stays-a-number": (-1.5, -1.5),
        "none": (None, ""),
        "a-sign-inside": ("a=b", "a=b"),
        "minus-as-text": ("-1", "'-1"),
        "after-a-hard-space": ("\u00a0=1", "'\u00a0=1"),
        "tab": ("\tx", "' x"),
        "after-a-control-character": ("\x01=1", "'?=1"),
        "after-an-apostrophe": ("'=1", "''=1"),
        "after-a-semicolon-and-a-quote": ('x; "@a', "x; \"'@a"),
        "a-name": (
            "Zo\u00eb \u674e\u96f7 \u0645\u06cc\u200c\u062e\u0648",
            "Zo\u00eb \u674e\u96f7 \u0645\u06cc\u200c\u062e\u0648",
        ),
    },
)
def test_cell(value: object, shown: object):
    assert cell(value) == shown and type(cell(value)) is type(shown)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"student": "ann"}',
        json.dumps(result(lessons=[])),
        json.dumps(result(notes=3)),
        json.dumps(result(student=["ann"])),
        json.dumps(result(exercises={"td_errors": exercise(3, 2)})),
        json.dumps(result(exercises={"td_errors": exercise(status="<script>")})),
        "[" * 100_000,
        "\udcff",
    ],
    ids=range(10),
)
def test_a_broken_results_file_is_a_grader_error_and_never_0_points(tmp_path: Path, text: str):
    out = put(tmp_path, result("ann"))
    (out / "results" / "bob.json").write_text(text, "utf-8", "surrogateescape")
    report(out)
    ann, bob = read_csv(out / "marks.csv")
    assert (ann["folder"], ann["points"], ann["flags"]) == ("ann", "3", "")
    assert (bob["folder"], bob["points"], bob["flags"]) == ("bob", "", "grader-error")
    assert "grade again" in (out / "report/index.html").read_text("utf-8")
    assert "bob" not in (out / "canvas.csv").read_text("utf-8")


def test_every_status_is_shown_in_words_and_no_verdict_is_no_mark(tmp_path: Path):
    out = put(tmp_path, result(exercises={f"e{i}": exercise(0, 2, status) for i, status in enumerate(STATUSES[1:])}))
    report(out)
    text = check_page(next((out / "report" / "students").iterdir())).text
    for words in ("wrong answer", "too slow", "crashed", "tampering suspected", "no verdict", "waits for another"):
        assert words in text
    (row,) = read_csv(out / "marks.csv")
    assert row["points"] == "" and "tamper-suspected in 1 exercise" in row["flags"]
    assert not (out / "canvas.csv").exists() and not (out / "moodle.csv").exists()


def test_what_was_not_graded_is_no_0_and_says_why(tmp_path: Path):
    missing = {"td_errors": exercise(0, 2, "missing")}
    bob, eve = result("bob", sandbox="none"), result("eve", missing, notes=["<broken>"], status="unreadable")
    report(put(tmp_path, result("ann", missing, status="empty"), bob, eve))
    rows = read_csv(tmp_path / "marks.csv")
    assert [(row["points"], row["flags"]) for row in rows] == [
        ("", "empty"),
        ("3", "NOT SANDBOXED"),
        ("", "unreadable"),
    ]
    pages = {path.stem[:3]: check_page(path).text for path in (tmp_path / "report/students").iterdir()}
    assert [name for name, text in pages.items() if "NOT SANDBOXED" in text] == ["bob"]
    assert "cannot be read" in pages["eve"] and "<broken>" in pages["eve"] and "td_errors" not in pages["eve"]
    assert "NOT SANDBOXED" in check_page(tmp_path / "report/index.html").text


@pytest.mark.parametrize("count", [0, 1])
def test_no_class_and_a_class_of_one(tmp_path: Path, count: int):
    report(put(tmp_path, *[result()] * count))
    assert len(read_csv(tmp_path / "marks.csv")) == count
    assert ("There is nothing here yet" in check_page(tmp_path / "report/index.html").text) == (count == 0)


def test_two_runs_write_the_same_and_remove_what_is_old(tmp_path: Path):
    out = put(tmp_path, result("ann"), result("bob"))
    report(out)
    (out / "report" / "mine.txt").write_text("keep")
    first = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    report(out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == first
    (out / "results" / "r0001.json").unlink()
    report(out)
    assert len(list((out / "report" / "students").iterdir())) == 1 and (out / "report" / "mine.txt").exists()


FILES = [{"path": "lesson04_gae/gae.py", "text": 'def f():\n    return "<b>"\n', "cut": 0}]


def test_a_student_page_has_points_cause_reading_code_and_no_other_student(tmp_path: Path):
    files = [*FILES, {"path": "lesson04_gae/util.py", "text": "there = 1", "cut": 7_000}]
    report(put(tmp_path, result("ann", files=files), result("bob")))
    (ann,) = (tmp_path / "report" / "students").glob("ann-*")
    text = " ".join(check_page(ann).text.split())
    assert "3 / 6 points" in text and "1 / 4 wrong answer formula 1 / 1, safety 0 / 3" in text
    assert "Go on here: compute_gae" in text and text.count(CAUSE) == 2 and "The recursion" in text
    assert 'return "<b>"' in text and "there = 1" in text and "7,000 more letters" in text
    assert "files of its own, which were graded too: lesson04_gae/util.py" in text
    assert "bob" not in text and "index.html" not in ann.read_text("utf-8") and "0123456789abcdef" not in text


def test_a_repaired_suspect_tells_the_story_of_the_real_bug_and_another_does_not(tmp_path: Path):
    data = result(exercises={"bounded_error": exercise(), "credit_packed": exercise(0, 2, "wrong")})
    data["lessons"] = {"lesson10_bug_hunt": next(iter(data["lessons"].values()))}
    report(put(tmp_path, data))
    page = next((tmp_path / "report/students").iterdir()).read_text("utf-8")
    assert "The real bug, ray-project/ray#2233" in page and "ROLL#447" not in page


def test_a_lesson_that_nobody_touched_is_one_line(tmp_path: Path):
    exercises = {f"e{i}": exercise(0, 2, "missing", told="no gae.py; there is <Gae>.py") for i in range(3)}
    report(put(tmp_path, result(exercises=exercises)))
    text = check_page(next((tmp_path / "report/students").iterdir())).text
    assert text.count("there is <Gae>.py") == 1 and "e0" in text and "e2" in text


def test_the_class_page_counts_passes_and_every_cause_that_students_heard(tmp_path: Path):
    late = {"td_errors": exercise(0, 2, "not-started"), "compute_gae": exercise(0, 4, "grader-error")}
    two = {"td_errors": exercise(0, 2, "wrong", causes=["gamma is 1.", "And: the last value is lost."])}
    report(put(tmp_path, result("ann"), result("bob"), result("eve", late), result("cem", two)))
    text = " ".join(check_page(tmp_path / "report" / "index.html").text.split())
    assert "td_errors 2 (50%)67% 50%" in text  # of all, of those who tried
    assert "compute_gae 0 (0%)0% 25%" in text  # the one without a verdict is no failure
    assert f"2lesson04_gae compute_gae{CAUSE}" in text
    assert "1lesson04_gae td_errorsAnd: the last value is lost." in text and "td_errorsgamma is 1." in text


def test_no_file_of_a_submission_is_written_outside_of_its_folder(tmp_path: Path):
    paths = ("../../a.py", "/tmp/lesson04_b.py", "lesson04_gae/c.py")
    report(put(tmp_path, result("ann", files=[{"path": path, "text": "x", "cut": 0} for path in paths])))
    assert [path.name for path in tmp_path.rglob("*.py")] == ["c.py"] and not Path("/tmp/lesson04_b.py").exists()


def test_who_needs_a_look_comes_by_urgency_and_nobody_else(tmp_path: Path):
    doubts = [{"kind": kind, "text": "why"} for kind in ("an older attempt", "does not load", "a second copy")]
    killed = {"td_errors": exercise(0, 2, "timeout"), "gae_ends": exercise(0, 2, "tamper-suspected")}
    report(
        put(
            tmp_path,
            result("ann", {"td_errors": exercise()}),
            result("bob", doubts=doubts),
            result("cem", {"td_errors": exercise(0, 2, "grader-error")}),
            result("dan", {}, status="empty", lessons={}),
            result("eve", killed),
        )
    )
    page = check_page(tmp_path / "report/index.html").text.partition("Mistakes by")[0].split()
    order = [word for word in " ".join(page).partition("why")[2].split() if word in ("ann", "bob", "cem", "dan", "eve")]
    assert order == ["cem", "eve", "bob", "dan", "eve", "bob", "bob"]
