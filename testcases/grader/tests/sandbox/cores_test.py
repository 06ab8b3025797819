"""A core for each sandbox."""

import os
from pathlib import Path

import pytest

from testcases.grader.sandbox.cores import Core


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_sandboxes_have_cores_of_their_own_while_there_are_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3})
    one, two, three = (Core(tmp_path) for _ in range(3))
    assert {one.number, two.number} == {0, 3} and three.number in (0, 3)
    one.close()
    again = Core(tmp_path)
    assert again.number == one.number
    again.close()
    two.close()
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    assert Core(tmp_path).number is None
