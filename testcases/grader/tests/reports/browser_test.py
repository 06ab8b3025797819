"""The pages in a browser: light and dark, on a phone, for a reader of screens, and without a broken line."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from testcases import needs
from testcases.grader.marking.assignment import from_dict
from testcases.grader.tests.reports.data import CAUSE, exercise, put, report, result

MISSING = [name for name in ("playwright", "axe_playwright_python") if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; make book installs them"),
]
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
BROKEN = """() => [...document.querySelectorAll("td.number, .points, .badge, .total strong")]
    .filter(one => one.getBoundingClientRect().height > 1.9 * parseFloat(getComputedStyle(one).lineHeight)
        || one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display != "inline")
    .map(one => one.outerHTML)"""
"""What has more than one line, or more than its place."""
CODE = "def compute_gae(rewards):\n" + "    rewards = rewards  # a long line\n" * 40 + "    return " + "x" * 300 + "\n"


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
    tmp_path: Path, browser: Any, size: dict[str, int], scheme: str
):
    """On a scale on which hardly a number is whole."""
    from axe_playwright_python.sync_playwright import Axe

    exercises = {"td_errors": exercise(), "compute_gae": exercise(1, 3, "tamper-suspected", causes=[CAUSE], told="x")}
    files = [{"path": "lesson04_gae/gae.py", "text": CODE, "cut": 0}]
    ann = result("ann", exercises, files=files, doubts=[{"kind": "a near name", "text": "gae (1).py"}])
    asked = from_dict({"exercises": ["lesson04.td_errors", "lesson04.compute_gae"], "points": 7})
    report(put(tmp_path, ann, result("Cem", status="unreadable")), asked)
    page, found = browser.new_page(viewport=size, color_scheme=scheme), []
    for path in (tmp_path / "report").rglob("*.html"):
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        seen = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        found += [f"{path.name}: {one['id']}: {node['html'][:200]}" for one in seen for node in one["nodes"]]
        found += [f"{path.name}: broken: {one}" for one in page.evaluate(BROKEN) if size is DESK]
        found += [f"{path.name}: wider than the window"] * page.evaluate("document.body.scrollWidth > innerWidth")
    page.close()
    assert found == []
