"""Fixtures of the course's own checks, and the order of the tests of `make test`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from testcases.harness.catalog import lesson_of
from testcases.harness.execution import executor
from testcases.harness.execution.calling import GlobalState
from testcases.harness.oracle.mutations import all_stubs, write_files


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes run the tests, each takes a file. Start with the longest, the tables of wrong and right
    answers, then with what is slow; end with the lessons' suites. So no process waits for another's last file."""
    if hasattr(config, "workerinput"):
        items.sort(
            key=lambda item: (
                "[lesson" not in item.name,
                not item.get_closest_marker("slow"),
                bool(lesson_of(item.nodeid)),
            )
        )


@pytest.fixture(autouse=True)
def process_state() -> Iterator[None]:
    """A test finds torch's global generator at one seed; the settings and seeds that it changes are restored."""
    state = GlobalState()
    yield
    state.restore()


@pytest.fixture(scope="session", autouse=True)
def offline() -> Iterator[None]:
    """No test asks the network, here or in a process that it starts; the Hub's library reads the variable only once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(constants, "HF_HUB_OFFLINE", True)
        yield


@pytest.fixture(scope="session")
def stub_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh copy of the untouched stubs."""
    folder = tmp_path_factory.mktemp("student") / "tutorial"
    write_files(folder, all_stubs())
    return folder


@pytest.fixture(scope="session")
def stubs(stub_folder: Path) -> executor.InProcess:
    return executor.InProcess(stub_folder)
