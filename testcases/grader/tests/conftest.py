"""What the tests of the grader share."""

import pytest

from testcases import needs


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a small batch."""
    monkeypatch.setattr("testcases.grader.reports.pages.figures.draw", lambda *_: [])


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """What needs the sandbox is skipped where there is none; the rest is not."""
    if why := needs.no_sandbox():
        pytest.skip(why)
