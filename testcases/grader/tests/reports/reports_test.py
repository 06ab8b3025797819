"""Reports: nothing is lost, and nobody's text runs."""

import csv
import json
import re
from pathlib import Path

import pytest

from testcases.grader.reports.marks import cell, clean, clean_lines, slug
from testcases.grader.tests.reports.data import CONTROL, check_page, exercise, grid, put, read_csv, report, result
from testcases.harness import named_cases

EVIL = [
    pytest.param("<script>alert(1)</script>", id="markup"),
    pytest.param('"><img src=x onerror=alert(1)>', id="attribute"),
    pytest.param("{{ 7 * 7 }}{% raw %}", id="template"),
    pytest.param("</pre></title><!--", id="closes-the-tag"),
    pytest.param('=HYPERLINK("http://x","y")', id="formula"),
    pytest.param("  +1+cmd|' /C calc'!A0", id="formula-after-spaces"),
    pytest.param('x;=HYPERLINK(1);"=2', id="formula-after-a-semicolon"),
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
]


@pytest.mark.parametrize("text", EVIL)
def test_clean_text_has_no_control_character_and_is_short(text: str):
    assert not CONTROL.search(clean(text)) and len(clean(text)) <= 200
    assert "\n" not in clean(text)
    assert not CONTROL.search(clean_lines(text))
    clean_lines(text).encode("utf-8")


def test_clean_keeps_names_of_all_scripts():
    for name in ("Zoë Šimić", "李雷", "محمد", "می\u200cخواهم", "O'Neil-Smith", "👩🏽‍🎓"):
        assert clean(name) == name


@named_cases(
    "value, shown",
    {
        "a-negative-number-stays-a-number": (-1.5, -1.5),
        "an-integer": (3, 3),
        "none": (None, ""),
        "a-name": ("ann", "ann"),
        "a-sign-inside": ("a=b", "a=b"),
        "equals": ("=1", "'=1"),
        "plus": ("+1", "'+1"),
        "minus-as-text": ("-1", "'-1"),
        "at": ("@a", "'@a"),
        "after-spaces": ("  =1", "'  =1"),
        "after-a-hard-space": ("\u00a0=1", "'\u00a0=1"),
        "tab": ("\tx", "' x"),
        "carriage-return": ("\rx", "' x"),
        "after-a-control-character": ("\x01=1", "'?=1"),
        "after-a-semicolon": ("b07 ;=1+1;", "b07 ;'=1+1;"),
        "after-a-semicolon-and-a-quote": ('x; "@a', "x; \"'@a"),
        "after-a-comma": ("a, -1", "a, '-1"),
        "after-a-tab-inside": ("a\t=1", "a =1"),
        "after-a-direction-override": ("\u202e=1", "'?=1"),
    },
)
def test_cell(value: object, shown: object):
    assert cell(value) == shown and type(cell(value)) is type(shown)


@pytest.mark.parametrize("text", EVIL)
def test_a_page_name_is_a_plain_file_name(text: str):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-f]{8}", slug(text, text))
    assert slug(text, "r1") != slug(text, "r2")


@pytest.mark.parametrize("text", EVIL)
def test_hostile_text_is_harmless_in_every_report(tmp_path: Path, text: str):
    cause = {"name": text, "why": text, "read": text}
    test = {"id": text, "score": 0, "max_score": 2, "status": "error"}
    bad = exercise(0, 2, "error", message=text, likely_cause=cause, tests=[test])
    out = put(tmp_path, result(text, {text or "x": bad}, notes=[text]), result("bob"))
    written = report(out)
    assert all(path.resolve().is_relative_to(out.resolve()) for path in written)
    for path in written:
        if path.suffix == ".html":
            check_page(path)
        elif path.suffix == ".json":
            json.loads(path.read_text("utf-8"))
        elif path.suffix == ".csv":
            rows = grid(path)
            assert len({len(row) for row in rows}) == 1
            split = csv.reader(path.read_text("utf-8").splitlines(), delimiter=";")  # As Excel does in half of Europe.
            for value in (value for row in (*rows, *split) for value in row):
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
