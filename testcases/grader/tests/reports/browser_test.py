"""The pages in a browser: light and dark, by keyboard, for a reader of screens, and without a broken line."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from testcases import needs
from testcases.grader.marking import from_dict
from testcases.grader.reports import write_reports
from testcases.grader.tests.reports.data import CAUSE, batch_rows, exercise, put, result

MISSING = [name for name in ("playwright", "axe_playwright_python") if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; make book installs them"),
]
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
BROKEN = """() => [...document.querySelectorAll("td.number, th, .points, .badge, h3 code, .total strong, td.name a")]
    .filter(one => one.getBoundingClientRect().height > 1.9 * parseFloat(getComputedStyle(one).lineHeight))
    .map(one => one.outerHTML)"""
"""What has more than one line,"""
CUT = BROKEN.replace("td.number, th, .points, .badge, h3 code, .total strong, td.name a", "td a:not(.name a), .points")
"""and on a phone, where words of a heading may stand below each other."""
CODE = "def compute_gae(rewards):\n" + "    rewards = rewards  # a long line\n" * 40 + "    return " + "x" * 300 + "\n"


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of a class with all that a page can have, on a scale on which hardly a number is whole."""
    out = tmp_path_factory.mktemp("marks")
    exercises = {"td_errors": exercise(), "compute_gae": exercise(1, 3, "tamper-suspected", likely_cause=CAUSE)}
    doubts = [{"kind": "an archive that is not read", "text": "expected a folder, got homework.7z"}]
    files = [{"path": "lesson04_gae/gae.py", "text": CODE, "cut": 0}]
    people = ("siobhan-maria-o'brien", "ann")
    every = [result(one, exercises, doubts=doubts, files=files, notes=["late"]) for one in people]
    put(out, *every, result("Cem", status="unreadable"))
    names = ["lesson04_gae.td_errors", "lesson04_gae.compute_gae"]
    write_reports(out, batch_rows(out), None, assignment=from_dict({"exercises": names, "points": 7}))
    return out / "report"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if why := needs.no_chromium():
        pytest.skip(why)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(needs.CHROMIUM), args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.mark.parametrize("size, scheme", [(DESK, "light"), (DESK, "dark"), (PHONE, "dark")])
def test_pages_pass_the_accessibility_check_and_no_number_is_broken(
    marks: Path, browser: Any, size: dict[str, int], scheme: str
):
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page(viewport=size, color_scheme=scheme)
    found = []
    for path in (marks / "index.html", *sorted(marks.glob("students/*.html"))[:2], *marks.glob("code/s*.html")):
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        results = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        found += [f"{path.name}: {one['id']}: {node['html'][:200]}" for one in results for node in one["nodes"]]
        found += [f"{path.name}: more than one line: {one}" for one in page.evaluate(BROKEN if size is DESK else CUT)]
        found += [f"{path.name}: wider than the window"] * page.evaluate("document.body.scrollWidth > innerWidth")
    page.close()
    assert found == []


def test_what_opens_and_what_scrolls_is_reached_by_keyboard(marks: Path, browser: Any):
    page = browser.new_page(viewport=DESK)
    page.goto(next(marks.glob("students/ann*.html")).as_uri())
    shut = page.locator("details:not([open])").count()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('details:not([open]) > summary')"):
            page.keyboard.press("Enter")
    assert shut and page.locator("details:not([open])").count() == 0
    page.locator("pre.code").press("End")
    page.close()
