"""Results and reports for the tests of the reports."""

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from testcases.grader.intake.exports import HandIn
from testcases.grader.marking.assignment import Assignment, everything
from testcases.grader.reports import Reports, people, write_reports
from testcases.grader.reports.sheets import Sheet, sheet_of

CAUSE = "dones_ignored: the carry crosses a done"


def exercise(score: int = 2, most: int = 2, status: str = "passed", **more: Any) -> dict[str, Any]:
    """One of which the basic suite gives one point, and the advanced suite the rest."""
    names, points = ("basic_test.py::test_x", "advanced_test.py::test_y"), (min(score, 1), max(score - 1, 0))
    tests = [
        {"id": name, "score": got, "max_score": most_of_it, "status": status}
        for name, got, most_of_it in zip(names, points, (1, most - 1), strict=True)
    ]
    found = {"score": score, "max_score": most, "status": status, "causes": [], "read": "", "told": "", "tests": tests}
    return {**found, **more}


def result(student: str = "ann", exercises: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    read = 'tutorial/lesson04_gae/README.md, "The recursion"'
    wrong = exercise(1, 4, "wrong", causes=[CAUSE], read=read)
    exercises = exercises or {"td_errors": exercise(), "compute_gae": wrong}
    score, maximum = (sum(one[key] for one in exercises.values()) for key in ("score", "max_score"))
    found = {
        **{key: [] for key in ("ids", "doubts", "files", "notes")},
        **dict.fromkeys(("content", "code", "name", "folder"), ""),
        "student": student,
        "status": "graded",
        "system": "folder",
        "score": score,
        "max_score": maximum,
        "secret": "0123456789abcdef",
        "sandbox": "bwrap",
        "seconds": 1.5,
        "lessons": {"lesson04_gae": {"score": score, "max_score": maximum, "exercises": exercises, "suite": "s"}},
    }
    return {**found, **more}


def sheet(data: dict[str, Any], asked: Assignment | None = None) -> Sheet:
    return sheet_of(data, data["student"], asked or everything())


def put(out: Path, *results: dict[str, Any]) -> Path:
    (out / "results").mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(results):
        (out / "results" / f"r{i:04}.json").write_text(json.dumps(data), "utf-8")
    return out


def report(out: Path, asked: Assignment | None = None, roster: Path | None = None, **more: Any) -> Reports:
    """All reports of what is in `results/`."""
    hand_ins = [HandIn(path.stem, path.stem) for path in sorted((out / "results").glob("*.json"))]
    known = people.kept(out, roster)
    people.keep(out, roster)
    return write_reports(out, hand_ins, asked or everything(), known, **more)


def read_csv(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))


def grid(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))


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


CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
LINK = r"students/[a-z0-9-]+\.html"
TAGS = set(
    "html head meta title style body main h1 h2 h3 p strong em code div span table tr td th a ul li svg rect pre "
    "details summary img bdi br".split()
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
            assert link is None or re.fullmatch(LINK, link), link
    policies = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1 and policies[0] and "default-src 'none'" in policies[0]
    assert "unsafe" not in policies[0] and "script-src" not in policies[0]
    return page
