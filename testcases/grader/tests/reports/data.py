"""Results and reports for the tests of the reports."""

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from testcases.grader.marking import Row
from testcases.grader.reports import write_reports
from testcases.grader.reports.marks import sheets

CAUSE = {"name": "dones_ignored", "why": "the carry crosses a done", "read": "The recursion"}


def exercise(score: int = 2, maximum: int = 2, status: str = "passed", **more: Any) -> dict[str, Any]:
    test = {"id": "basic_test.py::test_x", "score": score, "max_score": maximum, "status": status}
    found = {"score": score, "max_score": maximum, "status": status, "likely_cause": None, "message": ""}
    return {**found, "told": more.get("message", ""), "tests": [test], **more}


def result(student: str = "ann", exercises: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    exercises = exercises or {"td_errors": exercise(), "compute_gae": exercise(1, 4, "wrong", likely_cause=CAUSE)}
    score, maximum = (sum(one[key] for one in exercises.values()) for key in ("score", "max_score"))
    found = {
        **{key: [] for key in ("aliases", "doubts", "changes", "files", "notes")},
        **dict.fromkeys(("content", "suite"), ""),
        "student": student,
        "status": "graded",
        "system": "folder",
        "exported": [student],
        "score": score,
        "max_score": maximum,
        "secret": "0123456789abcdef",
        "sandbox": "bwrap",
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


def report(out: Path, roster_file: Path | None = None, missing: float | None = None) -> list[Path]:
    """All reports."""
    return write_reports(out, batch_rows(out), roster_file, missing=missing).files


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


CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
LINK = r"#lesson-\d+|(\.\./)?(students|code)/[a-z0-9-]+\.html|\.\./index\.html"
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
