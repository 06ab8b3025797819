"""Headless Chromium for the tests that open a page."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from testcases.course.students import HANGS

QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@contextmanager
def launched(chromium: str, flags: Sequence[str]) -> Iterator[Any]:
    """A browser without a stored profile, whose pages wait as long as a busy machine needs."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(flags))
        context = browser.new_context()
        context.set_default_timeout(1000 * HANGS)
        yield context
        browser.close()
