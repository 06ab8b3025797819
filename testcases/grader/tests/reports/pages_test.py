"""Results as they are read back, and what a page tells whom."""

import csv
import json
import re
from pathlib import Path
from typing import Any

from testcases.grader.status import STATUSES
from testcases.grader.tests.reports.data import (
    CAUSE,
    CONTROL,
    check_page,
    exercise,
    grid,
    looks,
    put,
    read_csv,
    report,
    result,
)
from testcases.grader.text import clean, clean_lines, slug
from testcases.harness.suite.asserts import named

EVIL = {
    "markup": "<script>alert(1)</script>",
    "attribute": '"><img src=x onerror=alert(1)>',
    "template": "{{ 7 * 7 }}{% raw %}",
    "closes-the-tag": "</pre></title><!--",
    "formula": '=HYPERLINK("http://x","y")',
    "formula-after-a-semicolon": 'x;=HYPERLINK(1);"=2',
    "tab": "\t=1",
    "formula-after-an-invisible-letter": "\u200b=1",
    "full-width-formula": "\uff1d1+1",
    "path": "../../etc/passwd",
    "terminal": "\x1b[2J\x1b]0;title\x07 \x9b31m",
    "direction-override": "ann\u202egnp.exe\u2066",
    "half-a-character": "a\ud800b\x00",
    "separators": 'a,b;"c"\nd\u2028e',
    "very-long": "N" * 100_000,
    "canvas-points-row": "Points Possible",
}


@named("text", EVIL)
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
    "text",
    {
        "no-json": "{",
        "another-kind": "[]",
        "too-little": '{"student": "ann"}',
        "lessons": json.dumps(result(lessons=[])),
        "notes": json.dumps(result(notes=3)),
        "points": json.dumps(result(exercises={"td_errors": exercise(3, 2)})),
        "status": json.dumps(result(exercises={"td_errors": exercise(status="<script>")})),
        "deep": "[" * 100_000,
        "bytes": "\udcff",
    },
)
def test_a_broken_results_file_is_a_grader_error_and_never_0_points(tmp_path: Path, text: str):
    out = put(tmp_path, result("ann"))
    (out / "results" / "bob.json").write_text(text, "utf-8", "surrogateescape")
    report(out)
    found = [(row["folder"], row["points"], row["flags"]) for row in read_csv(out / "marks.csv")]
    assert found == [("ann", "3", ""), ("bob", "", "grader-error")]
    assert "grade again" in looks(out) and "bob" not in (out / "canvas.csv").read_text("utf-8")


def pages(out: Path) -> dict[str, str]:
    return {path.stem[:3]: check_page(path) for path in (out / "report/students").iterdir()}


def test_every_status_is_shown_in_words_and_no_verdict_is_no_mark(tmp_path: Path):
    missing = {"td_errors": exercise(0, 2, "missing")}
    report(
        put(
            tmp_path,
            result("ann", {f"e{i}": exercise(0, 2, status) for i, status in enumerate([*STATUSES][1:])}),
            result("bob", sandbox="none"),
            result("cem", missing, status="empty"),
            result("eve", missing, notes=["<broken>"], status="unreadable"),
        )
    )
    ann, *rest = [(row["points"], row["flags"]) for row in read_csv(tmp_path / "marks.csv")]
    assert ann[0] == "" and "tamper-suspected in 1 exercise" in ann[1]
    assert rest == [("3", "NOT SANDBOXED"), ("", "empty"), ("", "unreadable")]
    shown = pages(tmp_path)
    for words in ("wrong answer", "too slow", "crashed", "tampering suspected", "no verdict", "waits for another"):
        assert words in shown["ann"]
    assert [name for name, text in shown.items() if "NOT SANDBOXED" in text] == ["bob"]
    assert "cannot be read" in shown["eve"] and "<broken>" in shown["eve"] and "td_errors" not in shown["eve"]
    assert "NOT SANDBOXED" in check_page(tmp_path / "report/index.html")
    assert [row[0] for row in grid(tmp_path / "canvas.csv")[2:]] == ["bob"]


def test_two_runs_write_the_same_and_remove_what_is_old(tmp_path: Path):
    out = put(tmp_path, result("ann"), result("bob"))
    report(out)
    (out / "report" / "mine.txt").write_text("keep")
    first = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    report(out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == first
    for file in (out / "results").iterdir():
        file.unlink()
    report(out)
    assert not pages(out) and (out / "report" / "mine.txt").exists() and read_csv(out / "marks.csv") == []
    assert "There is nothing here yet" in check_page(out / "report/index.html")


def test_a_student_page_has_points_cause_reading_code_and_no_other_student(tmp_path: Path):
    files = [
        {"path": "lesson04_gae/gae.py", "text": 'def f():\n    return "<b>"\n', "cut": 0},
        {"path": "lesson04_gae/util.py", "text": "there = 1", "cut": 7_000},
        {"path": "../../out.py", "text": "x", "cut": 0},
    ]
    report(put(tmp_path, result("ann", files=files), result("bob")))
    text = pages(tmp_path)["ann"]
    assert "3 / 6 points" in text and "1 / 4 wrong answer formula 1 / 1, safety 0 / 3" in text
    assert text.count(CAUSE) == 1 and "The recursion" in text
    assert 'return "<b>"' in text and "there = 1" in text and "7,000 more letters" in text
    assert "These files of your own were graded as well: lesson04_gae/util.py" in text
    assert "bob" not in text and "0123456789abcdef" not in text
    assert {path.name for path in tmp_path.rglob("*.py")} == {"gae.py", "util.py"}


def test_a_lesson_that_nobody_touched_is_one_line_and_a_repaired_suspect_tells_its_story(tmp_path: Path):
    exercises = {f"e{i}": exercise(0, 2, "missing", told="no gae.py; there is <Gae>.py") for i in range(3)}
    data: dict[str, Any] = result(exercises=exercises)
    suspects = {"bounded_error": exercise(), "credit_packed": exercise(0, 2, "wrong")}
    data["lessons"]["lesson10_bug_hunt"] = {**data["lessons"]["lesson04_gae"], "exercises": suspects}
    report(put(tmp_path, data))
    text = pages(tmp_path)["ann"]
    assert text.count("there is <Gae>.py") == 1 and "e0" in text and "e2" in text
    assert "The real bug, ray-project/ray#2233" in text and "ROLL#447" not in text


def test_the_class_page_counts_passes_and_every_cause_that_students_heard(tmp_path: Path):
    late = {"td_errors": exercise(0, 2, "not-started"), "compute_gae": exercise(0, 4, "grader-error")}
    two = {"td_errors": exercise(0, 2, "wrong", causes=["gamma is 1.", "And: the last value is lost."])}
    report(put(tmp_path, result("ann"), result("bob"), result("eve", late), result("cem", two)))
    text = check_page(tmp_path / "report" / "index.html")
    assert "td_errors 2 (50%)" in text
    assert "compute_gae 0 (0%)" in text and "no verdict 1" in text
    assert f"2lesson04_gae compute_gae{CAUSE}" in text
    assert "1lesson04_gae td_errorsAnd: the last value is lost." in text and "td_errorsgamma is 1." in text


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
    assert re.findall(r"<bdi>(\w+)</bdi>", looks(tmp_path)) == ["cem", "eve", "bob", "dan", "eve", "bob", "bob"]
