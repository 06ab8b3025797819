"""`make test` and the rest of `make test-all` are everything, and nothing twice."""

import re
import subprocess
import sys
from pathlib import Path

from testcases.harness.catalog import ROOT

TESTS = """
import pytest

def test_plain(): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.slow
@pytest.mark.smoke
def test_slow_and_smoke(): pass

@pytest.mark.sampled
@pytest.mark.parametrize("a", [1, 2])
@pytest.mark.parametrize("b, c", [(3, 5), (4, 6)])
def test_sampled(a, b, c): pass
"""


def run(folder: Path, expression: str) -> tuple[set[str], str]:
    """The tests that run, and the last line."""
    options = ["-p", "testcases.course.depth", "--rootdir", str(folder), "-c", "/dev/null", "-v", "-m", expression]
    command = [sys.executable, "-m", "pytest", *options, str(folder), "-W", "ignore"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return set(re.findall(r"::(\S+) PASSED", done.stdout)), done.stdout.splitlines()[-1]


def test_the_two_depths_are_everything_and_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "any_test.py").write_text(TESTS, "utf-8")
    quick = re.search(r"^QUICK = (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert quick
    first, last_line = run(tmp_path, quick[1])
    assert first == {"test_plain", "test_slow_and_smoke", "test_sampled[3-5-1]"}
    assert last_line == "left out 4: make test-all runs them as well"
    rest, _ = run(tmp_path, f"not ({quick[1]})")
    assert not first & rest and len(first | rest) == 7
