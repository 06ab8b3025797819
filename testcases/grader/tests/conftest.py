"""What the tests of the grader share."""

import pytest

from testcases.grader.sandbox.sandbox import NoSandbox, check_sandbox


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """What needs the sandbox is skipped where there is none; the rest is not."""
    try:
        check_sandbox("bwrap")
    except NoSandbox as why:
        pytest.skip(str(why))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No file takes longer than the hostile submissions, so it is the first of a run."""
    items.sort(key=lambda item: "/hostile_test.py" not in item.nodeid)
