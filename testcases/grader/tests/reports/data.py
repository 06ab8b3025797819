"""Results and reports for the tests of the reports."""

import csv
import html
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from testcases.grader.intake.exports import HandIn
from testcases.grader.marking.assignment import Assignment, everything
from testcases.grader.reports import people, write_reports
from testcases.grader.reports.people import csv_rows
from testcases.grader.tests.running import tree

CAUSE = "dones_ignored: the carry crosses a done"


def exercise(score: int = 2, most: int = 2, status: str = "passed", **more: Any) -> dict[str, Any]:
    """One of which the basic suite gives one point, and the advanced suite the rest."""
    tests = [
        {"id": "basic_test.py::test_x", "score": min(score, 1), "max_score": 1, "status": status},
        {"id": "advanced_test.py::test_y", "score": max(score - 1, 0), "max_score": most - 1, "status": status},
    ]
    found = {"score": score, "max_score": most, "status": status, "causes": [], "tests": tests}
    return {**found, **dict.fromkeys(("read", "told", "unloaded"), ""), **more}


def result(student: str = "ann", exercises: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    read = 'tutorial/lesson04_gae/README.md, "The recursion"'
    wrong = exercise(1, 4, "wrong", causes=[CAUSE], read=read)
    exercises = exercises or {"td_errors": exercise(), "compute_gae": wrong}
    points = {key: sum(one[key] for one in exercises.values()) for key in ("score", "max_score")}
    found = {
        **{key: [] for key in ("ids", "doubts", "files", "notes")},
        **dict.fromkeys(("content", "code", "name", "folder"), ""),
        **points,
        "student": student,
        "status": "graded",
        "system": "folder",
        "secret": "0123456789abcdef",
        "sandbox": "bwrap",
        "seconds": 1.5,
        "lessons": {"lesson04_gae": {**points, "exercises": exercises}},
    }
    return {**found, **more}


def kept(out: Path, *results: dict[str, Any]) -> Path:
    """What a run has left in OUT."""
    (out / "results").mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(results):
        (out / "results" / f"r{number:04}.json").write_text(json.dumps(data), "utf-8")
    return out


def report(
    out: Path, asked: Assignment | None = None, roster: Path | None = None, regraded: dict[str, str] | None = None
) -> Any:
    """All reports of what is in `results/`."""
    hand_ins = [HandIn(path.stem, path.stem) for path in sorted((out / "results").glob("*.json"))]
    known = people.kept(out, roster)
    people.keep(out, roster)
    return write_reports(out, hand_ins, asked or everything(), known, regraded or {})


def edit(out: Path, key: str, **cells: str) -> bytes:
    """As a spreadsheet saves it."""
    head, *rows = [row for _, row in csv_rows(out / "marks.csv")]
    head += [name for name in cells if name not in head]
    rows = [[*row, *[""] * (len(head) - len(row))] for row in rows]
    (row,) = [row for row in rows if key in (row[0], row[2])]
    for name, value in cells.items():
        row[head.index(name)] = value
    with open(out / "marks.csv", "w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows([head, *rows])
    return (out / "marks.csv").read_bytes()


def grid(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))


def looks(out: Path) -> str:
    """The first part of the class page."""
    return (out / "report/index.html").read_text("utf-8").partition("Mistakes by")[0].partition("Look at these")[2]


def looked_at(out: Path) -> list[tuple[str, str]]:
    """Who is to be looked at, and for what."""
    return re.findall(r"<bdi>(.*?)</bdi>.*?<span class=\"badge \w+\">(.*?)</span>", looks(out), re.DOTALL)


CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
TAGS = set(
    "html head meta title style body main h1 h2 h3 p strong em code div span table tr td th a ul li meter pre "
    "details summary img bdi br".split()
)


def check_reports(out: Path) -> None:
    """Each submission has a page and a line; no page and no cell does anything; a second run writes the same."""
    assert not report(out)[1]
    folders = [row[0] for row in grid(out / "marks.csv")[1:]]
    pages = list((out / "report/students").iterdir())
    assert len(folders) == len(set(folders)) == len(pages) == len(list((out / "results").iterdir()))
    for page in out.rglob("*.html"):
        check_page(page)
    for path in out.glob("*.csv"):
        rows = grid(path)
        assert len({len(row) for row in rows}) == 1
        split = csv.reader(path.read_text("utf-8").splitlines(), delimiter=";")  # As Excel does in half of Europe.
        for value in (value for row in (*rows, *split) for value in row):
            assert not re.match(r"\s*[=+\-@\uff1d]", value), value
            assert "\n" not in value and not CONTROL.search(value)
    written = tree(out)
    report(out)
    assert tree(out) == written


def check_page(path: Path) -> str:
    """What can be read on a page of which nothing comes from a student but text."""
    text, page = path.read_text("utf-8"), HTMLParser()
    tags: list[tuple[str, dict[str, str | None]]] = []
    page.handle_starttag = lambda tag, attributes: tags.append((tag, dict(attributes)))  # type: ignore[method-assign]
    page.feed(text)
    assert {tag for tag, _ in tags} <= TAGS and "<!--" not in text and not CONTROL.search(text)
    for tag, attributes in tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
        for link in filter(None, (attributes.get("href"), attributes.get("src"))):
            assert re.fullmatch(r"students/[A-Za-z0-9._~-]+\.html", link), link
    (policy,) = [a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy and "default-src 'none'" in policy and "unsafe" not in policy and "script-src" not in policy
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", text)).split())
