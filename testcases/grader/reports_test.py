"""Reports: nothing is lost, nobody's text runs, and each system can read its file."""

from __future__ import annotations

import csv
import io
import json
import re
import stat
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from testcases.engine.contract import SOLUTIONS, regions
from testcases.engine.stubs import all_stubs
from testcases.grader.batch import Row
from testcases.grader.reports import (
    analysis,
    classroom,
    figures,
    gradescope,
    junit,
    pages,
    roster,
    sheets,
    similarity,
    tables,
    write_reports,
)
from testcases.grader.reports.text import cell, clean, clean_lines, slug
from testcases.grader.results import STATUSES

CAUSE = {"name": "dones_ignored", "why": "the carry crosses a done", "read": "The recursion"}
EVIL = [
    pytest.param("<script>alert(1)</script>", id="markup"),
    pytest.param('"><img src=x onerror=alert(1)>', id="attribute"),
    pytest.param("{{ 7 * 7 }}{% raw %}", id="template"),
    pytest.param("</pre></title><!--", id="closes-the-tag"),
    pytest.param('=HYPERLINK("http://x","y")', id="formula"),
    pytest.param("  +1+cmd|' /C calc'!A0", id="formula-after-spaces"),
    pytest.param("@SUM(A1)", id="at"),
    pytest.param("-2+3", id="minus"),
    pytest.param("\t=1", id="tab"),
    pytest.param("\r=1", id="carriage-return"),
    pytest.param("\u200b=1", id="formula-after-an-invisible-letter"),
    pytest.param("\uff1d1+1", id="full-width-formula"),
    pytest.param("../../etc/passwd", id="path"),
    pytest.param("C:\\evil\\name.html", id="windows-path"),
    pytest.param("\x1b[2J\x1b]0;title\x07 \x9b31m", id="terminal"),
    pytest.param("ann\u202egnp.exe\u2066", id="direction-override"),
    pytest.param("a\ud800b", id="half-a-character"),
    pytest.param("a\x00b", id="nul"),
    pytest.param('a,b;"c"\nd\u2028e', id="separators"),
    pytest.param("N" * 100_000, id="very-long"),
    pytest.param("", id="empty"),
    pytest.param("Points Possible", id="canvas-points-row"),
    pytest.param("]]></failure><error/>", id="xml"),
]
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def exercise(score: int = 2, maximum: int = 2, status: str = "passed", **more: Any) -> dict[str, Any]:
    test = {"id": "basic_test.py::test_x", "score": score, "max_score": maximum, "status": status}
    found = {"score": score, "max_score": maximum, "status": status, "likely_cause": None, "message": ""}
    return {**found, "tests": [test], **more}


def result(student: str = "ann", exercises: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    exercises = exercises or {"td_errors": exercise(), "compute_gae": exercise(1, 4, "wrong", likely_cause=CAUSE)}
    score, maximum = (sum(one[key] for one in exercises.values()) for key in ("score", "max_score"))
    found = {
        "student": student,
        "aliases": [],
        "status": "graded",
        "score": score,
        "max_score": maximum,
        "secret": "0123456789abcdef",
        "sandbox": "bwrap",
        "content": "",
        "suite": "",
        "notes": [],
        "seconds": 1.5,
        "lessons": {"lesson04_gae": {"score": score, "max_score": maximum, "exercises": exercises}},
    }
    return {**found, **more}


def put(out: Path, *results: dict[str, Any]) -> Path:
    (out / "results").mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(results):
        (out / "results" / f"r{i:04}.json").write_text(json.dumps(data), "utf-8")
    return out


def batch_rows(out: Path) -> list[Row]:
    """What the batch says of each results file."""
    return [Row(path.stem, path.stem, 0, 0, "graded") for path in sorted((out / "results").glob("*.json"))]


def report(out: Path, roster_file: Path | None = None) -> list[Path]:
    """All reports, of a batch in which no two submissions are compared."""
    (out / "in").mkdir(exist_ok=True)
    return write_reports(out, batch_rows(out), out / "in", roster_file)


def load_one(out: Path, data: dict[str, Any]) -> sheets.MarkSheet:
    (sheet,) = sheets.load(put(out, data), batch_rows(out))
    return sheet


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8"), newline="")))


def grid(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8"), newline="")))


class Page(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.comments: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        self.text += data


TAGS = set(
    "html head meta title style body h1 h2 h3 p strong em code div span table tr td th a ul li svg rect pre details "
    "summary img bdi br".split()
)


def check_page(path: Path) -> Page:
    text = path.read_text("utf-8")
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert not page.open and not page.comments
    assert not CONTROL.search(text)
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        for link in (attributes.get("href"), attributes.get("src")):
            assert link is None or re.fullmatch(r"#lesson-\d+|(students|figures)/[a-z0-9-]+\.(html|svg)", link), link
    policies = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1 and policies[0] and "default-src 'none'" in policies[0]
    assert "unsafe" not in policies[0] and "script-src" not in policies[0]
    return page


# Text


@pytest.mark.parametrize("text", EVIL)
def test_clean_text_has_no_control_character_and_is_short(text: str):
    assert not CONTROL.search(clean(text)) and len(clean(text)) <= 200
    assert "\n" not in clean(text)
    assert not CONTROL.search(clean_lines(text))
    clean_lines(text).encode("utf-8")


def test_clean_keeps_names_of_all_scripts():
    for name in ("Zoë Šimić", "李雷", "محمد", "می\u200cخواهم", "O'Neil-Smith", "👩🏽‍🎓"):
        assert clean(name) == name


@pytest.mark.parametrize(
    "value, shown",
    [
        pytest.param(-1.5, -1.5, id="a-negative-number-stays-a-number"),
        pytest.param(3, 3, id="an-integer"),
        pytest.param(None, "", id="none"),
        pytest.param("ann", "ann", id="a-name"),
        pytest.param("a=b", "a=b", id="a-sign-inside"),
        pytest.param("=1", "'=1", id="equals"),
        pytest.param("+1", "'+1", id="plus"),
        pytest.param("-1", "'-1", id="minus-as-text"),
        pytest.param("@a", "'@a", id="at"),
        pytest.param("  =1", "'  =1", id="after-spaces"),
        pytest.param("\u00a0=1", "'\u00a0=1", id="after-a-hard-space"),
        pytest.param("\tx", "' x", id="tab"),
        pytest.param("\rx", "' x", id="carriage-return"),
        pytest.param("\x01=1", "'?=1", id="after-a-control-character"),
        pytest.param("\u202e=1", "'?=1", id="after-a-direction-override"),
    ],
)
def test_cell(value: object, shown: object):
    assert cell(value) == shown and type(cell(value)) is type(shown)


@pytest.mark.parametrize("text", EVIL)
def test_a_page_name_is_a_plain_file_name(text: str):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{8}", slug(text, text))
    assert slug(text, "r1") != slug(text, "r2")


# All reports, for hostile text


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a small batch."""
    monkeypatch.setattr(pages.figures, "draw", lambda *_: [])


def test_hostile_text_is_harmless_in_a_figure(tmp_path: Path):
    exercises = {
        text: exercise(0, 2, "wrong", likely_cause={"name": f"${text}$", "why": text, "read": text})
        for text in (case.values[0] for case in EVIL)
        if isinstance(text, str)
    }
    found = [load_one(tmp_path, result(exercises=exercises))]
    for path in figures.draw(tmp_path, found, analysis.items(found)):
        assert {element.tag.rpartition("}")[2] for element in ElementTree.parse(path).iter()}.isdisjoint(
            {"script", "a"}
        )


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("text", EVIL)
def test_hostile_text_is_harmless_in_every_report(tmp_path: Path, text: str):
    cause = {"name": text, "why": text, "read": text}
    bad = exercise(
        0,
        2,
        "error",
        message=text,
        likely_cause=cause,
        tests=[{"id": text, "score": 0, "max_score": 2, "status": "error"}],
    )
    out = put(tmp_path, result(text, {text or "x": bad}, notes=[text]), result("bob"))
    written = report(out)
    assert all(path.resolve().is_relative_to(out.resolve()) for path in written)
    for path in written:
        if path.suffix == ".html":
            check_page(path)
        elif path.suffix == ".xml":
            ElementTree.parse(path)
        elif path.suffix == ".json":
            json.loads(path.read_text("utf-8"))
        elif path.suffix == ".csv":
            rows = grid(path)
            assert len({len(row) for row in rows}) == 1
            for value in (value for row in rows for value in row):
                assert not re.match(r"\s*[=+\-@\uff1d]", value), value
                assert "\n" not in value and not CONTROL.search(value)
    assert len(read_csv(out / "gradebook.csv")) == 2
    assert sum("points possible" in row[0].strip().lower()[:15] for row in grid(out / "canvas.csv")) == 1


def test_a_page_shows_the_text_that_it_escapes(tmp_path: Path):
    evil = '<b>bold</b> & "x"'
    bad = exercise(0, 2, "wrong", message=evil)
    out = put(tmp_path, result(evil, {"td_errors": bad}))
    report(out)
    (path,) = (out / "report" / "students").iterdir()
    assert check_page(path).text.count(evil) == 3  # title, heading, message


# Reading the results


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="cut-off"),
        pytest.param("[]", id="another-type"),
        pytest.param("{}", id="no-keys"),
        pytest.param("[" * 100_000, id="nested"),
        pytest.param(json.dumps(result(score=float("nan"))), id="nan"),
        pytest.param(json.dumps(result(score=-1)), id="negative"),
        pytest.param(json.dumps(result(score="58")), id="points-as-text"),
        pytest.param(json.dumps(result(score=True)), id="points-as-bool"),
        pytest.param(json.dumps(result(score=99)), id="more-than-there-are"),
        pytest.param(json.dumps(result(score=0)), id="does-not-add-up"),
        pytest.param(json.dumps(result(student=["ann"])), id="student-is-a-list"),
        pytest.param(json.dumps(result(lessons=[])), id="lessons-is-a-list"),
        pytest.param(json.dumps(result(notes="x")), id="notes-is-a-text"),
        pytest.param("\udcff", id="not-utf-8"),
    ],
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


@pytest.mark.usefixtures("no_figures")
def test_a_submission_whose_results_are_lost_has_a_row_and_an_old_result_has_none(tmp_path: Path):
    out = put(tmp_path, result("ann"), result("of the batch before"))
    rows = [Row("ann", "r0000", 3, 6, "graded"), Row("=1+1", "_1_1", 3, 6, "graded")]
    (out / "in").mkdir()
    write_reports(out, rows, out / "in")
    lost, ann = read_csv(out / "gradebook.csv")
    assert (lost["student"], lost["score"], lost["status"]) == ("'=1+1", "", "grader-error")
    assert (ann["student"], ann["score"], ann["status"]) == ("ann", "3", "graded")
    assert len(grid(out / "canvas.csv")) == 3 and len(list((out / "report" / "students").iterdir())) == 2


def test_an_unknown_status_is_a_grader_error(tmp_path: Path):
    sheet = load_one(tmp_path, result(exercises={"td_errors": exercise(0, 2, "<script>")}))
    assert sheet.status == "grader-error" and "<script>" in sheet.notes[0]


@pytest.mark.usefixtures("no_figures")
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


@pytest.mark.usefixtures("no_figures")
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


# The size of the class


@pytest.mark.parametrize("count", [0, 1])
def test_no_class_and_a_class_of_one(tmp_path: Path, count: int):
    out = put(tmp_path, *[result()] * count)
    report(out)
    assert len(read_csv(out / "gradebook.csv")) == count
    assert len(grid(out / "canvas.csv")) == 2 + count
    page = check_page(out / "report" / "index.html")
    assert ("There is nothing here yet" in page.text) == (count == 0)


@pytest.mark.usefixtures("no_figures")
def test_names_that_differ_in_case_only_stay_apart(tmp_path: Path):
    out = put(tmp_path, result("Ann"), result("ann", {"td_errors": exercise(0, 6, "wrong")}), result("ANN"))
    report(out)
    assert sorted((row["student"], row["score"]) for row in read_csv(out / "gradebook.csv")) == [
        ("ANN", "3"),
        ("Ann", "3"),
        ("ann", "0"),
    ]
    assert len({path.name.lower() for path in (out / "report" / "students").iterdir()}) == 3


@pytest.mark.usefixtures("no_figures")
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


# Pages


@pytest.mark.usefixtures("no_figures")
def test_a_student_page_tells_points_cause_and_reading_and_no_other_student(tmp_path: Path):
    out = put(tmp_path, result("ann"), result("bob"))
    report(out)
    (ann,) = (out / "report" / "students").glob("ann-*")
    text = " ".join(check_page(ann).text.split())
    assert "3 / 6 points, 50%" in text
    assert "Go on here: compute_gae" in text and CAUSE["why"] in text and CAUSE["read"] in text
    assert "bob" not in text and "index.html" not in ann.read_text("utf-8")


@pytest.mark.usefixtures("no_figures")
def test_a_student_page_does_not_tell_the_secret_or_the_cause_twice(tmp_path: Path):
    message = f"expected [1]\ngot [2]\nLikely cause: dones_ignored: {CAUSE['why']}\nHint: make hint"
    wrong = exercise(0, 2, "wrong", message=message, likely_cause=CAUSE)
    report(put(tmp_path, result(exercises={"a": wrong, "b": wrong}, secret="987654321")))
    (path,) = (tmp_path / "report" / "students").iterdir()
    text = check_page(path).text
    assert text.count("got [2]") == 2 and text.count(CAUSE["why"]) == 3 and "987654321" not in text


@pytest.mark.usefixtures("no_figures")
def test_the_page_of_what_cannot_be_read_says_why_and_nothing_else(tmp_path: Path):
    missing = {"td_errors": exercise(0, 2, "missing", message="there is no file")}
    report(put(tmp_path, result("ann", missing, notes=["<broken> archive"], status="unreadable")))
    (path,) = (tmp_path / "report" / "students").iterdir()
    text = check_page(path).text
    assert "cannot be read" in text and "<broken> archive" in text and "td_errors" not in text


@pytest.mark.usefixtures("no_figures")
def test_a_lesson_that_nobody_touched_is_one_line(tmp_path: Path):
    exercises = {f"e{i}": exercise(0, 2, "missing", message="no gae.py; there is <Gae>.py") for i in range(3)}
    out = put(tmp_path, result(exercises=exercises), result("bob", {**exercises, "e0": exercise(0, 2, "not-started")}))
    report(out)
    for student, times in (("ann", 1), ("bob", 2)):
        (path,) = (out / "report" / "students").glob(f"{student}-*")
        page = check_page(path)
        assert page.text.count("there is <Gae>.py") == times and "e0" in page.text and "e2" in page.text


def test_the_class_page_counts_passes_and_misconceptions(tmp_path: Path):
    late = {"td_errors": exercise(0, 2, "not-started"), "compute_gae": exercise(0, 4, "grader-error")}
    out = put(tmp_path, result("ann"), result("bob"), result("eve", late))
    report(out)
    text = " ".join(check_page(out / "report" / "index.html").text.split())
    assert "td_errors 2 (67%)100% 67%" in text  # of all, of those who tried
    assert "compute_gae 0 (0%)0% 25%" in text  # the one without a verdict is no failure
    assert "2lesson04_gae compute_gaedones_ignored" in text
    for name in ("scores", "exercises", "misconceptions"):
        ElementTree.parse(out / "report" / "figures" / f"{name}.svg")


# Tables and rosters


def named(*students: str) -> list[sheets.MarkSheet]:
    lesson = sheets.LessonMarks("l", 3, 6, ())
    return [
        sheets.MarkSheet(student, slug(student, f"{i}{student}"), 3, 6, "bwrap", lessons=(lesson,))
        for i, student in enumerate(students)
    ]


def roster_of(tmp_path: Path, text: str | bytes) -> roster.Roster:
    path = tmp_path / "roster.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return roster.read(path)


def matched(found: list[sheets.MarkSheet], people: roster.Roster) -> dict[str, str]:
    matching = roster.match(found, people)
    return {sheet.student: matching.person_of[sheet.page].name for sheet in found if sheet.page in matching.person_of}


def test_canvas_header_and_points_row(tmp_path: Path):
    people = roster_of(tmp_path, "student,name,id,sis_id,login,section\nann,Ann Lee,17,S1,alee,A\n")
    found = named("ann")
    head, points, ann = grid(tables.canvas(tmp_path / "c.csv", found, roster.match(found, people), "PPO (42)"))
    assert "Student" in head[0] and "ID" in head[1] and len(head) >= 4
    assert head[-2:] == ["Section", "PPO (42)"]
    assert points[0].strip() == "Points Possible" and points[-1] == "6"
    assert ann == ["Ann Lee", "17", "S1", "alee", "A", "3"]


def test_moodle_keeps_the_case_of_an_email_and_has_a_grade_wherever_it_has_feedback(tmp_path: Path):
    people = roster_of(tmp_path, "student,email,id number\nann,Ann.Lee@Example.org,007\nbob,bob@example.org,8\n")
    found = [*named("ann"), sheets.MarkSheet("bob", "bob-1")]
    head, *rows = grid(tables.moodle(tmp_path / "m.csv", found, roster.match(found, people)))
    assert head[:2] == ["Email address", "ID number"]
    assert rows == [["Ann.Lee@Example.org", "007", "", "ann", "3", "l 3/6"]]  # bob has no verdict: no row


def test_a_moodle_worksheet_is_filled_in_and_otherwise_unchanged(tmp_path: Path):
    text = (
        "\ufeffIdentifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (grade),Feedback comments\n"
        "Participant 12,Ann Lee,A@x.org,Submitted,,100.00,-,\n"
        "Participant 13,Bob Ray,b@x.org,No submission,5.00,100.00,-,old\n"
    )
    people = roster_of(tmp_path, text)
    assert people.is_moodle_worksheet
    found = named("Ann Lee_12_assignsubmission_file_")
    path = tables.moodle_worksheet(tmp_path / "w.csv", found, people, roster.match(found, people))
    head, ann, bob = grid(path)
    assert head == text.splitlines()[0].lstrip("\ufeff").split(",")
    assert ann == ["Participant 12", "Ann Lee", "A@x.org", "Submitted", "50.0", "100.00", "-", "l 3/6"]
    assert bob == ["Participant 13", "Bob Ray", "b@x.org", "No submission", "5.00", "100.00", "-", "old"]


@pytest.mark.parametrize(
    "student, person",
    [
        pytest.param("ann", "Ann Lee", id="folder"),
        pytest.param("blee", "Bo Lee", id="login"),
        pytest.param("S3", "Cy Roe", id="sis-id"),
        pytest.param("cy@x.org", "Cy Roe", id="email"),
        pytest.param("Lee, Bo", "Bo Lee", id="last-name-first"),
        pytest.param("bo lee", "Bo Lee", id="name-in-other-case"),
        pytest.param("leebo_LATE_22_9911_gae.zip", "Bo Lee", id="canvas-download"),
        pytest.param("jose nunez", "José Núñez", id="accents"),
        pytest.param("leebo_22", "Bo Lee", id="canvas-flat"),
        pytest.param("ppo-by-hand-blee", "Bo Lee", id="github-suffix"),
        pytest.param("blee-ppo-by-hand", "Bo Lee", id="github-prefix"),
        pytest.param("ppo-blee-alee", None, id="two-logins"),
        pytest.param("nobody", None, id="nobody"),
        pytest.param("", None, id="no-name"),
    ],
)
def test_matching(tmp_path: Path, student: str, person: str | None):
    people = roster_of(
        tmp_path,
        "student,name,id,sis_id,login,email\nann,Ann Lee,21,S1,alee,\n,Bo Lee,22,S2,blee,\n,Cy Roe,23,S3,,cy@x.org\n"
        ",José Núñez,24,S4,,\n",
    )
    assert matched(named(student), people) == ({student: person} if person else {})


def test_nobody_is_lost_and_nobody_is_guessed(tmp_path: Path):
    people = roster_of(tmp_path, "student,name\nANN,Ann Lee\nbob,Bob One\nbob,Bob Two\ncy,Cy Roe\n\ndee,Dee Poe\n")
    found = named("ann", "Ann", "bob", "cy", "eve")
    matching = roster.match(found, people)
    assert matched(found, people) == {"cy": "Cy Roe"}
    problems = {(kind, line, name) for kind, line, name, _ in matching.problems}
    assert problems == {
        *(("submission without roster row", None, name) for name in ("ann", "Ann", "bob", "eve")),
        *(
            ("roster row without submission", line, name)
            for line, name in ((2, "Ann Lee"), (3, "Bob One"), (4, "Bob Two"), (7, "Dee Poe"))
        ),
    }


@pytest.mark.usefixtures("no_figures")
def test_the_gradebook_has_everybody(tmp_path: Path):
    out, path = put(tmp_path / "out", result("ann"), result("eve"), result("bo")), tmp_path / "roster.csv"
    path.write_text("name,student\nAnn Lee,ann\nBo One,Bo\nBo Two,BO\n=cy,cy\n", "utf-8")
    report(out, path)
    rows = [(row["student"], row["name"], row["score"], row["status"]) for row in read_csv(out / "gradebook.csv")]
    assert rows == [
        ("ann", "Ann Lee", "3", "graded"),
        ("bo", "", "3", "graded"),
        ("eve", "", "3", "graded"),
        ("Bo", "Bo One", "0", "no-submission"),
        ("BO", "Bo Two", "0", "no-submission"),
        ("cy", "'=cy", "0", "no-submission"),
    ]
    notes = [row["notes"] for row in read_csv(out / "gradebook.csv")]
    assert notes[0] == "" and notes[2] == "not on the roster" and "nothing handed in" in notes[3]
    assert "several lines of the roster (3, 4)" in notes[1]
    assert len(grid(out / "canvas.csv")) == 3


def test_the_exact_name_wins_over_one_in_other_case(tmp_path: Path):
    people = roster_of(tmp_path, "student,name\nann,Small\nANN,Large\n")
    assert matched(named("ANN", "ann"), people) == {"ann": "Small", "ANN": "Large"}


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    "text, complaint",
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"x,y\n1,2\n", "expected a header", id="no-known-column"),
        pytest.param(b"\x00\xff\xfe\x01", "expected a header", id="binary"),
        pytest.param(b'name\n"' + b"x" * 200_000, "cannot be read", id="a-cell-without-end"),
        pytest.param(None, "cannot be read", id="no-such-file"),
    ],
)
def test_a_bad_roster_is_reported_and_stops_nothing(tmp_path: Path, text: bytes | None, complaint: str):
    out, path = put(tmp_path / "out", result("ann")), tmp_path / "roster.csv"
    if text is not None:
        path.write_bytes(text)
    report(out, path)
    problems = read_csv(out / "roster_report.csv")
    assert complaint in problems[0]["what_to_do"]
    assert problems[1]["problem"] == "submission without roster row"
    assert len(read_csv(out / "gradebook.csv")) == 1


@pytest.mark.parametrize(
    "data",
    [
        pytest.param("name;login\nZoë Ng;zng\n".encode(), id="semicolons"),
        pytest.param("\ufeffname,login\nZoë Ng,zng\n".encode(), id="bom"),
        pytest.param("name\tlogin\nZoë Ng\tzng\n".encode("utf-16"), id="utf-16-tabs"),
        pytest.param("name,login\nZoë Ng,zng\n".encode("cp1252"), id="windows"),
        pytest.param("First name,Last name,Username\nZoë,Ng,zng\n".encode(), id="first-and-last"),
        pytest.param(
            "Student,ID,SIS Login ID,Section,A (1)\n    Points Possible,,,,5\nZoë Ng,1,zng,S,\n".encode(), id="canvas"
        ),
    ],
)
def test_rosters_as_other_programs_write_them(tmp_path: Path, data: bytes):
    assert matched(named("zng"), roster_of(tmp_path, data)) == {"zng": "Zoë Ng"}


# Gradescope, JUnit, GitHub Classroom


def test_gradescope_fields(tmp_path: Path):
    data = gradescope.results(load_one(tmp_path, result()))
    assert data["score"] == 3 and type(data["execution_time"]) is float
    assert [(t["number"], t["score"], t["max_score"], t["status"]) for t in data["tests"]] == [
        ("1.1", 2, 2, "passed"),
        ("1.2", 1, 4, "failed"),
    ]
    assert CAUSE["why"] in data["tests"][1]["output"] and data["tests"][1]["tags"] == ["wrong"]
    for key in ("output_format", "test_output_format", "test_name_format"):
        assert data[key] == "text"
    assert data["visibility"] == "visible" and data["stdout_visibility"] == "hidden"


def test_gradescope_gets_no_score_without_a_verdict(tmp_path: Path):
    mixed = load_one(tmp_path, result(exercises={"a": exercise(), "td_errors": exercise(0, 2, "grader-error")}))
    for sheet in (sheets.MarkSheet("ann", "ann"), mixed):
        data = gradescope.results(sheet)
        assert "score" not in data and data["tests"] == [] and "GRADER ERROR" in data["output"]


def test_the_autograder_zip(tmp_path: Path):
    path = gradescope.make_autograder_zip(tmp_path / "autograder.zip")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for name in ("setup.sh", "run_autograder"):
            info = archive.getinfo(name)
            assert info.create_system == 3 and stat.S_IMODE(info.external_attr >> 16) & 0o111 == 0o111
            assert archive.read(name).startswith(b"#!/usr/bin/env bash\n") and b"\r" not in archive.read(name)
        assert "course/Makefile" in names and "course/testcases/grader/reports/templates/base.html" in names
        assert not [name for name in names if "__pycache__" in name or ".venv" in name or ".git/" in name]
    assert path.read_bytes() == gradescope.make_autograder_zip(tmp_path / "again.zip").read_bytes()


FAKE_PYTHON = """\
#!/bin/sh
case "$2" in *.gradescope) exec {python} "$@" ;; esac
printf '%s\\n' "$*" >> {folder}/calls
case "{refuses} $*" in "yes "*"--sandbox none"*) ;; yes*) exit 2 ;; esac
[ -e {folder}/result.json ] || exit 1
mkdir -p "$5/results" && cp {folder}/result.json "$5/results/submission.json"
ls -l "$3/submission" > {folder}/seen
"""


@pytest.mark.parametrize("refuses", [False, True], ids=["sandboxed", "refused"])
@pytest.mark.parametrize("works", [True, False], ids=["verdict", "grader-fails"])
def test_run_autograder_always_writes_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool, works: bool
):
    for folder in ("submission/lesson04_gae", "source/course", "results", "venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "submission" / "link").symlink_to("/etc/passwd")
    python = tmp_path / "venv/bin/python"
    words = {"python": sys.executable, "folder": tmp_path, "refuses": "yes" if refuses else "no"}
    python.write_text(FAKE_PYTHON.format(**words))
    python.chmod(0o755)
    if works:
        data = result("submission", sandbox="none" if refuses else "bwrap")
        (tmp_path / "result.json").write_text(json.dumps(data))
    (tmp_path / "run").write_text(gradescope.RUN.replace("/autograder", str(tmp_path)))
    monkeypatch.setenv("PYTHONPATH", str(gradescope.ROOT))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    subprocess.run(["bash", str(tmp_path / "run")], timeout=60)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [("--sandbox none" in call) for call in calls] == ([False, True] if refuses else [False])
    written = json.loads((tmp_path / "results" / "results.json").read_text("utf-8"))
    if works:
        assert written["score"] == 3 and ("NOT SANDBOXED" in written["output"]) == refuses
        assert "link -> /etc/passwd" in (tmp_path / "seen").read_text()
    else:
        assert "score" not in written and written["tests"] == [] and "GRADER ERROR" in written["output"]


def test_junit_reads_back(tmp_path: Path):
    exercises = {
        "td_errors": exercise(),
        "compute_gae": exercise(0, 4, "wrong", message="a\x1b[2J\x00<b>\ud800]]>", likely_cause=CAUSE),
        "late": exercise(0, 1, "not-started"),
        "loop": exercise(0, 1, "timeout"),
    }
    root = ElementTree.fromstring(junit.xml(load_one(tmp_path, result(exercises=exercises))).encode())
    counts = {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    (suite,) = root.findall("testsuite")
    cases = suite.findall("testcase")
    assert [case.get("classname") for case in cases] == [f"lesson04_gae.{name}" for name in exercises]
    points = [case.find("properties/property[@name='points']") for case in cases]
    assert [point.get("value") for point in points if point is not None] == ["2", "0", "0", "0"]
    failure = cases[1].find("failure")
    assert failure is not None and failure.text == "a?[2J?<b>?]]>" and CAUSE["why"] in failure.get("message", "")


def test_junit_without_a_verdict_is_an_error():
    root = ElementTree.fromstring(junit.xml(sheets.MarkSheet("ann", "ann", notes=("broken",))).encode())
    assert (root.get("tests"), root.get("errors")) == ("1", "1")


def test_classroom_workflow_runs_make_check(capsys: pytest.CaptureFixture[str]):
    yaml = pytest.importorskip("yaml")
    assert classroom.main(["workflow"]) == 0
    data = yaml.safe_load(capsys.readouterr().out)
    (job,) = data["jobs"].values()
    steps = {step["name"]: step for step in job["steps"] if "name" in step}
    assert "make check" in steps["Grade"]["run"] and steps["Grade"]["id"] == "check"
    assert steps["Autograding Reporter"]["with"]["runners"] == "check"
    assert "CHECK_RESULTS" in steps["Autograding Reporter"]["env"]


def test_classroom_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    import base64

    bad = exercise(1, 4, "wrong", message="::error::x\n##[group]\n" + "y" * 1000)
    out = put(tmp_path, result(exercises={"td_errors": exercise(), "compute_gae": bad}, notes=["::set-env name=x::y"]))
    target = tmp_path / "output"
    target.touch()
    monkeypatch.setenv("GITHUB_OUTPUT", str(target))
    assert classroom.main(["points", str(out)]) == 0
    (line,) = target.read_text().splitlines()
    data = json.loads(base64.b64decode(line.removeprefix("result=")))
    assert (data["version"], data["status"], data["max_score"]) == (3, "fail", 6)
    assert [(test["score"], test["status"]) for test in data["tests"]] == [(2, "pass"), (1, "fail")]
    assert len(data["tests"][1]["output"]) <= 500
    shown = capsys.readouterr().out + data["tests"][1]["output"]
    assert not re.search(r"^\s*::|##\[", shown, re.MULTILINE)
    (out / "results" / "r0000.json").write_text("{", "utf-8")
    assert classroom.main(["points", str(out)]) == 1
    assert json.loads(base64.b64decode(target.read_text().splitlines()[1].removeprefix("result=")))["status"] == "error"


# Similarity

OWN = """\
    horizon = rewards.shape[-1]
    bootstrap = values[..., 1:].masked_fill(dones.bool(), 0.0)
    pieces, running = [], torch.zeros_like(rewards[..., 0])
    alive = (~dones.bool()).to(rewards.dtype)
    for step in range(horizon - 1, -1, -1):
        surprise = rewards[..., step] + gamma * bootstrap[..., step] - values[..., step]
        running = surprise + gamma * lam * alive[..., step] * running
        pieces.insert(0, running)
    advantages = torch.stack(pieces, dim=-1) if pieces else torch.zeros_like(rewards)
    return AdvantagesAndReturns(advantages, advantages + values[..., :-1])
"""
RENAMED = (
    OWN.replace("horizon", "T")
    .replace("running", "acc")
    .replace("surprise", "d")
    .replace("pieces", "buffer")
    .replace("bootstrap", "nxt")
    .replace("    alive", "    # my own idea\n    alive")
)
OTHER = """\
    steps = rewards.size(-1)
    out = torch.empty_like(rewards)
    carry = 0.0
    t = steps
    while t > 0:
        t = t - 1
        stop = dones[..., t].bool()
        ahead = torch.where(stop, torch.zeros_like(values[..., t + 1]), values[..., t + 1])
        delta = rewards[..., t] + gamma * ahead - values[..., t]
        if isinstance(carry, float):
            carry = delta
        else:
            carry = torch.where(stop, delta, delta + gamma * lam * carry)
        out[..., t] = carry
    returns = out + values[..., :steps]
    return AdvantagesAndReturns(advantages=out, returns=returns)
"""
GAE = "lesson04_gae/gae.py"


def submit(folder: Path, name: str, body: str | None, text: str | bytes | None = None) -> None:
    stub = all_stubs()[GAE]
    line = '    raise NotImplementedError("lesson04: compute_gae")\n'
    assert line in stub
    target = folder / name / GAE
    target.parent.mkdir(parents=True)
    content = text if text is not None else stub if body is None else stub.replace(line, body)
    target.write_bytes(content if isinstance(content, bytes) else content.encode())


def solution_body() -> str:
    path = SOLUTIONS / GAE
    lines = path.read_text("utf-8").splitlines()
    region = next(region for region in regions(path) if region.exercise == "compute_gae")
    return "\n".join(lines[region.first + 1 : region.last]) + "\n"


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> similarity.Report:
    folder = tmp_path_factory.mktemp("submissions")
    submit(folder, "ann", OWN)
    submit(folder, "bob", RENAMED)
    submit(folder, "cy", OTHER)
    for name in ("dee", "eve", "stub", "stub2"):
        submit(folder, name, solution_body() if "stub" not in name else None)
    submit(folder, "fay", OWN.replace("range(", "range((("))  # a copy that no longer compiles
    submit(folder, "binary", None, b"\xff\xfe\x00" * 100)
    (folder / "empty").mkdir()
    (folder / "broken.zip").write_bytes(b"PK no")
    return similarity.look(folder)


def test_the_stub_and_what_is_empty_are_nobodys_own():
    stub = all_stubs()[GAE]
    assert similarity.own_text(stub, stub).strip() == ""
    assert similarity.own_text("\n    " + stub + "mine = 1\n", stub) == "mine = 1\n"


def test_a_copy_is_flagged_in_spite_of_new_names(looked: similarity.Report):
    pairs = {frozenset((pair.first, pair.second)): pair for pair in looked.pairs}
    assert set(pairs) == {frozenset(pair) for pair in (("ann", "bob"), ("ann", "fay"), ("bob", "fay"))}
    pair = pairs[frozenset(("ann", "bob"))]
    assert min(pair.first_percent, pair.second_percent) > 80 and pair.files == (
        f"{GAE} {max(pair.first_percent, pair.second_percent):.0f}%",
    )
    assert looked.notes == ()


@pytest.mark.usefixtures("no_figures")
def test_similarity_is_a_flag_and_never_a_mark(tmp_path: Path):
    out, submissions = put(tmp_path / "out", result("ann"), result("bob"), result("cy")), tmp_path / "in"
    for name, body in (("ann", OWN), ("bob", RENAMED), ("cy", OTHER)):
        submit(submissions, name, body)
    write_reports(out, batch_rows(out), submissions)
    assert [row["score"] for row in read_csv(out / "gradebook.csv")] == ["3", "3", "3"]
    (row,) = read_csv(out / "similarity.csv")
    assert (row["first"], row["second"], row["files"].split()[0]) == ("ann", "bob", GAE)
    assert "resemble" in (out / "report" / "index.html").read_text("utf-8")
    for path in (out / "report" / "students").iterdir():
        assert "resemble" not in path.read_text("utf-8")


def arrays(prints: dict[str, dict[str, set[int]]]) -> dict[str, dict[str, Any]]:
    return {
        name: {file: np.array(sorted(own), dtype=np.int64) for file, own in part.items()}
        for name, part in prints.items()
    }


def test_one_copied_file_among_many_own_ones_is_seen():
    prints = {f"s{i}": {"own": set(range(i * 10_000, i * 10_000 + 5_000)), "f": set()} for i in range(1, 4)}
    prints["s1"]["f"] = prints["s3"]["f"] = set(range(200))
    ((a, b, of_a, _, shared, files),) = similarity.compare(arrays(prints))
    assert (a, b, round(of_a), shared, files) == ("s1", "s3", 4, 200, ("f 100%",))


def test_what_many_submissions_have_is_no_evidence():
    common, own = set(range(1000)), set(range(5000, 5400))
    prints = {f"s{i:02}": {"f": common | {10_000 + 500 * i + j for j in range(300)}} for i in range(40)}
    prints["s00"]["f"] |= own
    prints["s01"]["f"] |= own
    assert similarity.compare(arrays(prints)) == []  # 400 of 700 passages: 57 percent
    prints["s01"]["f"] -= {10_500 + j for j in range(300)}
    assert arrays(prints)["s01"]["f"].size == 1400
    ((a, b, of_a, of_b, shared, files),) = similarity.compare(arrays(prints))
    assert (a, b, shared, files) == ("s00", "s01", 400, ("f 100%",))
    assert (round(of_a), round(of_b)) == (57, 100)


@pytest.mark.parametrize("count", [0, 1])
def test_similarity_of_no_class_and_of_one(count: int):
    assert similarity.compare(arrays({f"s{i}": {"f": set(range(500))} for i in range(count)})) == []
    assert similarity.compare(arrays({"a": {}, "b": {"f": set()}})) == []


def test_similarity_of_many_groups_of_eight():
    prints = {f"s{i:03}": {"f": {7_000 * (i % 15) + j for j in range(700)}} for i in range(120)}
    found = similarity.compare(arrays(prints))
    assert len(found) == 15 * 8 * 7 / 2
    assert all(int(a[1:]) % 15 == int(b[1:]) % 15 for a, b, *_ in found)


def test_a_file_that_takes_too_long_costs_no_other_its_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def slow(text: str) -> Any:
        while "slow" in text:
            pass
        return known(text)

    known = similarity.fingerprints
    monkeypatch.setattr(similarity, "FILE_SECONDS", 0.3)
    monkeypatch.setattr(similarity, "fingerprints", slow)
    for name, body in (("ann", OWN), ("bob", OWN), ("eve", OWN + "    slow = 1\n")):
        submit(tmp_path, name, body)
    found = similarity.look(tmp_path)
    assert [(pair.first, pair.second) for pair in found.pairs] == [("ann", "bob")]
    assert found.notes == (f"similarity: {GAE} of eve left out (TooSlow)",)
