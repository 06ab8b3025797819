"""The commands, README.md and its pictures: what make does, installs and says, and what takes a core for long."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from book.figures.lesson00_one_screen import FAILURE
from testcases.course.students import LESSON, replace_body, run, solved_folder
from testcases.harness.catalog import ROOT

LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[\w-]+)?\)")
APART = [path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md"]


@pytest.mark.slow
def test_the_picture_of_a_failure_is_what_pytest_says(tmp_path: Path):
    folder = solved_folder(tmp_path)
    replace_body(folder, "return rewards + gamma * values[..., 1:] - values[..., :-1]")
    some = "-m", "basic", "-k", "td_errors_by_hand", "-p", "no:randomly"
    assert FAILURE in run(ROOT, "pytest", f"testcases/{LESSON}", f"--subject={folder}", *some).stdout


@pytest.mark.parametrize("path", APART, ids=lambda path: path.name)
def test_every_link_of_a_page_outside_of_the_book_leads_to_something(path: Path):
    missing = [link for link in LINK.findall(path.read_text("utf-8")) if not (path.parent / link).exists()]
    assert not missing


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


@pytest.mark.slow
@pytest.mark.parametrize("command", ["mypy", "book.figures --check"])
def test_it_finds_nothing(command: str) -> None:
    done = run(ROOT, *command.split())
    assert done.returncode == 0, done.stdout + done.stderr


TARGETS = re.findall(r"^(\w[\w-]*):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("target", [*TARGETS, "demo PRESET=hub", "demo PRESET=small RESUME=1", "contest SEEDS=3"])
def test_what_make_would_run_is_a_script_that_a_shell_can_read(target: str) -> None:
    """A comma in an argument of make's $(if) cuts a command in two, and nothing but running it shows that."""
    run = ["make", "-n", *target.split(), "LESSON=4"]
    written = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    read = subprocess.run(["sh", "-n"], input=written, capture_output=True, text=True)
    assert written and read.returncode == 0, read.stderr + written


@pytest.mark.parametrize(
    "name, found",
    [*dict.fromkeys(["4", "04", "lesson04", "lesson04_gae"], "testcases/lesson04_gae").items(), ("99", "")],
)
def test_make_watch_knows_a_lesson_by_the_names_that_make_hint_knows(name: str, found: str):
    run = ["make", "-n", "watch", f"LESSON={name}"]
    written = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert f"test -n '{found}' ||" in written and f"-m pytest {found}'" in written
