"""What the tests of the grader share."""

import pytest

from testcases import needs


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """What needs the sandbox is skipped where there is none; the rest is not."""
    if why := needs.no_sandbox():
        pytest.skip(why)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No file takes longer than the hostile submissions, so it is the first of a run."""
    items.sort(key=lambda item: "/hostile_test.py" not in item.nodeid)
