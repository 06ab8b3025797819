"""Results as they are read back, and what a page tells whom."""

import json
from pathlib import Path
from typing import Any

import pytest

from testcases.grader.marking.assignment import everything
from testcases.grader.reports import pages, write_reports
from testcases.grader.reports.people import People
from testcases.grader.status import STATUSES
from testcases.grader.tests.reports.data import (
    CAUSE,
    check_page,
    check_reports,
    exercise,
    grid,
    kept,
    looked_at,
    looks,
    report,
    result,
)
from testcases.grader.tests.running import table

EVIL = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}{% raw %}",
    "</pre></title><!--",
    '=HYPERLINK("http://x","y")',
    'x;=HYPERLINK(1);"=2',
    "\t=1",
    "\u200b=1",  # After an invisible letter.
    "\uff1d1+1",  # In full width.
    "../../etc/passwd",
    "\x1b[2J\x1b]0;title\x07 \x9b31m",
    "ann\u202egnp.exe\u2066",
    "a\ud800b\x00",
    'a,b;"c"\nd\u2028e',
    "N" * 100_000,
    "Points Possible",  # Canvas takes a row of this name for another thing.
    "",
)


@pytest.mark.parametrize("system", ["folder", "Canvas"])
def test_hostile_text_is_harmless_in_every_report(tmp_path: Path, system: str):
    """Wherever a submission can bring it, and where somebody has edited a results file."""
    results = []
    for text in EVIL:
        test = {"id": text, "score": 0, "max_score": 2, "status": "error"}
        bad = exercise(0, 2, "error", told=text, causes=[text], read=text, tests=[test])
        about = {"name": text, "ids": [text], "notes": [text], "system": system}
        results.append(result(text, {text or "x": bad}, **about))
    out = kept(tmp_path, *results)
    check_reports(out)
    canvas = [row[0].strip().lower() for row in grid(out / "canvas.csv")]
    assert len(canvas) == len(EVIL) + 2 and sum("points possible" in name[:15] for name in canvas) == 1


def test_a_broken_results_file_is_a_grader_error_and_never_0_points(tmp_path: Path):
    texts = (
        "{",
        "[]",
        '{"student": "ann"}',
        json.dumps(result(lessons=[])),
        json.dumps(result(notes=3)),
        json.dumps(result(exercises={"td_errors": exercise(3, 2)})),
        json.dumps(result(exercises={"td_errors": exercise(status="<script>")})),
        "[" * 100_000,
        "\udcff",
    )
    out = kept(tmp_path, result("ann"))
    for number, text in enumerate(texts):
        (out / "results" / f"s{number}.json").write_text(text, "utf-8", "surrogateescape")
    report(out)
    found = [(row["folder"], row["points"], row["flags"]) for row in table(out)]
    assert found == [("ann", "3", ""), *((f"s{number}", "", "no verdict") for number in range(len(texts)))]
    assert looks(out).count("grade again") == len(texts)
    assert [row[0] for row in grid(out / "canvas.csv")[2:]] == ["ann"]


MISSING = {name: exercise(0, 2, "missing", told="there is <Gae>.py") for name in ("one", "another", "a-third")}
FILES = [
    {"path": "lesson04_gae/gae.py", "text": 'def f():\n    return "<b>"\n', "cut": 0},
    {"path": "lesson04_gae/util.py", "text": "there = 1", "cut": 7_000},
    {"path": "../../out.py", "text": "x", "cut": 0},
]
SUSPECTS = {"bounded_error": exercise(), "credit_packed": exercise(0, 2, "wrong")}
UNLOADED = {**exercise(0, 2, "timeout"), "unloaded": "why"}
"""Which is looked at once, as a file that does not load, and not for each exercise."""
TWO = {
    "td_errors": exercise(0, 2, "wrong", causes=["gamma is 1.", "And: the last value is lost."]),
    "gae_ends": UNLOADED,
}
DOUBTS = [{"kind": kind, "text": "why"} for kind in ("an older attempt", "does not load", "a second copy")]
CLASS = (
    result("ann", files=FILES),
    result("bob", sandbox="none", doubts=DOUBTS),
    result("cem", MISSING, status="empty"),
    result("dan", MISSING, status="unreadable", notes=["<broken>"]),
    result("eve", {f"e{number}": exercise(0, 2, status) for number, status in enumerate(STATUSES)}),
    result("fay", lessons={"lesson04_gae": {"exercises": MISSING}, "lesson10_bug_hunt": {"exercises": SUSPECTS}}),
    result("gus", TWO),
    result("hal", {"td_errors": exercise(0, 2, "grader-error"), "compute_gae": exercise(0, 4, "timeout")}),
)
SHOWN = {
    "ann": f"3 / 6 points|1 / 4 wrong answer formula 1 / 1, safety 0 / 3|{CAUSE}"
    '|The recursion|return "<b>"|lesson04_gae/util.py|there = 1|7,000 more letters',
    "bob": "NOT SANDBOXED",
    "cem": "There is no file of the course in this submission.",
    "dan": "cannot be read|<broken>",
    "eve": "|".join(STATUSES.values()),
    "fay": "one, another, a-third there is <Gae>.py|The real bug, ray-project/ray#2233",
    "gus": "gamma is 1.|And: the last value is lost.",
    "hal": "too slow|No verdict: the grader failed on some exercises",
    "class": "NOT SANDBOXED|td_errors 2 (67%)|compute_gae 0 (0%)|grader error, no verdict 1"
    f"|2lesson04_gae compute_gae{CAUSE}|1lesson04_gae td_errorsAnd: the last value is lost.|td_errorsgamma is 1.",
}
"""What stands on each page."""
HIDDEN = {"ann": "NOT SANDBOXED|bob|0123456789abcdef", "cem": "a-third", "dan": "a-third", "fay": "ROLL#447"}


def test_each_page_tells_what_it_has_to_tell_and_nothing_else(tmp_path: Path):
    report(kept(tmp_path, *CLASS))
    pages = sorted((tmp_path / "report/students").iterdir())
    shown = {one["student"]: check_page(path) for one, path in zip(CLASS, pages, strict=True)}
    shown["class"] = check_page(tmp_path / "report/index.html")
    for page, texts in SHOWN.items():
        assert not [text for text in texts.split("|") if text not in shown[page]], shown[page]
    for page, texts in HIDDEN.items():
        assert not [text for text in texts.split("|") if text in shown[page]], shown[page]
    assert shown["ann"].count(CAUSE) == 1 and shown["fay"].count("there is <Gae>.py") == 1
    assert {path.name for path in tmp_path.rglob("*.py")} == {"gae.py", "util.py"}


def test_who_needs_a_look_comes_by_urgency_and_without_a_verdict_there_is_no_mark(tmp_path: Path):
    report(kept(tmp_path, *CLASS))
    assert looked_at(tmp_path) == [
        *(("eve", "no verdict"), ("hal", "no verdict"), ("eve", "tamper-suspected"), ("bob", "does not load")),
        *(("cem", "not graded"), ("dan", "not graded"), ("eve", "killed"), ("hal", "killed")),
        *(("bob", "a second copy"), ("bob", "an older attempt")),
    ]
    assert all(f"({status})" in looks(tmp_path) for status in ("crash", "memory", "timeout", "not-asked"))
    found = {row["folder"]: (row["points"], row["flags"]) for row in table(tmp_path)}
    assert found["bob"] == ("3", "NOT SANDBOXED | an older attempt | does not load | a second copy")
    assert found["cem"] == found["dan"] == ("", "not graded")
    assert found["eve"] == ("", "no verdict | tamper-suspected | killed")
    assert [row[0] for row in grid(tmp_path / "canvas.csv")[2:]] == ["ann", "bob", "fay", "gus"]


def test_what_is_old_is_removed_and_nothing_else(tmp_path: Path):
    report(kept(tmp_path, result("ann", files=FILES)))
    (tmp_path / "report/students/mine.html").touch()
    (tmp_path / "code/mine").mkdir()
    write_reports(tmp_path, [], everything(), People(), {})
    left = [path.name for folder in ("report/students", "code") for path in (tmp_path / folder).iterdir()]
    assert left == ["mine.html", "mine"] and not table(tmp_path)


def test_a_page_that_cannot_be_written_is_named_and_the_others_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write = pages.write_student

    def fails(folder: Path, mark: Any, title: str) -> Path:
        if mark.folder == "bob":
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        return write(folder, mark, title)

    monkeypatch.setattr(pages, "write_student", fails)
    _, problems = report(kept(tmp_path, result("ann"), result("bob"), result("cem")))
    assert len(list((tmp_path / "report/students").iterdir())) == 2
    assert len(problems) == 1 and problems[0].startswith("bob: its page could not be written: Unicode")
    assert looked_at(tmp_path) == [("bob", "a report is missing")]
