"""What the tests of the grader share."""

import pytest

from testcases import needs


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """What needs the sandbox is skipped where there is none; the rest is not."""
    if why := needs.no_sandbox():
        pytest.skip(why)
