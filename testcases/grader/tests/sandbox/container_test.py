"""`make check` as root of a container, who may mount nothing: an ordinary user's way, or what is missing in words."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testcases.grader.tests.running import LONGEST, TARGET, results
from testcases.harness.catalog import ROOT, SOLUTIONS

LIKE = Path(__file__).with_name("docker_like.py")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64" or os.geteuid() != 0 or not shutil.which("setpriv"),
        reason="a container is simulated by root, with setpriv, on Linux with an x86 processor",
    ),
]


def check(folder: Path, *how: str) -> subprocess.CompletedProcess[str]:
    (folder / "in/ann" / TARGET).parent.mkdir(parents=True)
    shutil.copyfile(SOLUTIONS / TARGET, folder / "in/ann" / TARGET)
    (folder / "asked.toml").write_text('exercises = ["lesson04.td_errors"]\n')
    told = [str(folder / "in"), "--out", str(folder / "out"), "--assignment", str(folder / "asked.toml"), "--jobs", "1"]
    command = [sys.executable, str(LIKE), *how, sys.executable, "-m", "testcases.grader", *told]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST, check=False)


def test_root_who_may_not_mount_grades_as_an_ordinary_user(bubblewrap: None, tmp_path: Path):
    done = check(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(tmp_path / "out").values()
    assert result["score"] == result["max_score"] > 0 and result["sandbox"] == "bwrap"


def test_where_there_are_no_namespaces_the_message_says_so(bubblewrap: None, tmp_path: Path):
    """And not that some right is missing which nobody needs."""
    done = check(tmp_path, "seccomp")
    assert done.returncode == 2 and not (tmp_path / "out").exists()
    assert "What is missing here are user namespaces" in done.stderr and "seccomp=unconfined" in done.stderr
    assert "unshare failed" not in done.stderr and "apt install" not in done.stderr
