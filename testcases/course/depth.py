"""The two depths of the course's own check, and the last lines of both: python -m pytest -p testcases.course.depth.

`make test` leaves out what is marked slow, unless it is marked smoke, and all cases but the first of a test that is
marked sampled; `make test-all` leaves out nothing. What cannot run on a machine is skipped, and said with what enables
it.
"""

from collections import Counter
from typing import Any

import pytest

LEFT_OUT = pytest.StashKey[int]()
SENT = "left_out"


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = 0
    config.pluginmanager.register(_Counts(config))


class _Counts:
    """One process of pytest; the processes of pytest-xdist all leave out the same and tell the first one."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Before pytest's own, which leaves out by marks."""
        for item in items:
            if item.get_closest_marker("sampled") and any(item.callspec.indices.values()):  # type: ignore[attr-defined]
                item.add_marker("slow")

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.config.stash[LEFT_OUT] += len(items)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput[SENT] = self.config.stash[LEFT_OUT]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get(SENT, 0)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """After pytest's own last line."""
        terminal = config.pluginmanager.getplugin("terminalreporter")
        if terminal is None or hasattr(config, "workeroutput"):
            return
        for line in last_lines(terminal.stats.get("skipped", []), config.stash[LEFT_OUT]):
            terminal.write_line(line)


def last_lines(skipped: list[Any], left_out: int) -> list[str]:
    """How many were skipped, why, and what enables them; and how many were left out."""
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    lines = [f"skipped {number}: {reason}" for reason, number in reasons.most_common()]
    return [*lines, f"left out {left_out}: make test-all runs them as well"] if left_out else lines
