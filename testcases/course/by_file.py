"""A plugin for pytest-xdist: `python -m pytest -n 3 -p testcases.course.by_file`, as in `make test`."""

import re
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

ANSWER = re.compile(r"\[(lesson\d\d-[\w.]+)")
"""Lesson and exercise, in the id of a test of a table of answers."""


class ByFile(LoadScopeScheduling):
    """One process runs all tests of a file, which share what they have started, such as a run of the trainer.

    Of a table of answers it runs all those to an exercise, which share the reference's.
    """

    def _split_scope(self, nodeid: str) -> str:
        answer = ANSWER.search(nodeid)
        return answer[1] if answer else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    return ByFile(config, log)
