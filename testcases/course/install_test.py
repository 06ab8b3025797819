"""`make setup`, with a Python that only writes down what it is asked: no network, and nothing is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from testcases.harness.catalog.lessons import ROOT

PYTHON = """#!/bin/sh
echo "$@" >> "$ASKED"
case "$*" in
  "-m venv --clear "*) rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
  "-m pip install "*) test -z "$BROKEN" || { echo "ERROR: $BROKEN"; exit 1; } ;;
  "-c import venv"*) exit 0 ;;
  "-c import sys"*) test -z "$OLD" ;;
  --version) echo "Python 3.8.10" ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with a space in its name that holds what make needs, and the Python."""
    folder = tmp_path / "my course"
    folder.mkdir()
    for name in ("Makefile", "requirements.lock", "requirements-lab.lock"):
        shutil.copy(ROOT / name, folder)
    (folder / "python").write_text(PYTHON, "utf-8")
    (folder / "python").chmod(0o755)
    return folder


def make(clone: Path, target: str = "setup", **environment: str) -> tuple[int, str, list[str]]:
    """Exit status, what was printed, and what Python was asked to do since the last call."""
    asked = clone / "asked"
    asked.write_text("")
    around = {"PATH": "/usr/bin:/bin", "ASKED": str(asked), "OLD": "", "BROKEN": "", **environment}
    command = ["make", "--no-print-directory", "PYTHON=./python", target]
    done = subprocess.run(command, cwd=clone, env=around, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr, asked.read_text().splitlines()


def test_a_second_call_installs_nothing(clone: Path):
    status, _, asked = make(clone)
    assert status == 0 and any(line.startswith("-m pip install") for line in asked)
    assert make(clone)[2] == []


def test_after_an_interrupted_installation_the_next_call_starts_clean(clone: Path):
    status, said, _ = make(clone, BROKEN="[Errno 28] No space left on device")
    assert status != 0 and "No space left on device" in said
    assert "error: pip could not fill .venv, and its last lines above say why" in said
    (clone / ".venv" / "half").touch()
    status, _, asked = make(clone)
    assert status == 0 and "-m venv --clear .venv" in asked and not (clone / ".venv" / "half").exists()


def test_the_lab_is_added_to_the_same_environment(clone: Path):
    make(clone)
    asked = make(clone, ".venv/.ready-lab")[2]
    assert any("-c requirements.lock -r requirements-lab.lock" in line for line in asked)
    assert not any("--clear" in line for line in asked)
    assert make(clone, ".venv/.ready-lab")[2] == [] and make(clone)[2] == []


def test_an_old_python_hears_which_one_is_needed(clone: Path):
    status, said, asked = make(clone, OLD="1")
    assert status != 0 and "error: expected Python 3.11 or newer, got Python 3.8.10" in said
    assert not any("pip" in line for line in asked)
