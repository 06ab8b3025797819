"""The commands themselves: what takes a core for long and is no test, and what all have in common."""

import os
import re
import subprocess
import sys

import pytest

from testcases.harness.catalog.lessons import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("command", ["mypy", "book.figures --check"])
def test_it_finds_nothing(command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command.split()], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


TARGETS = re.findall(r"^(\w[\w-]*):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize(
    "target", [*TARGETS, "demo PRESET=hub", "demo PRESET=small RESUME=1", "contest TUNE=1 SEEDS=3"]
)
def test_what_make_would_run_is_a_script_that_a_shell_can_read(target: str) -> None:
    """A comma in an argument of make's $(if) cuts a command in two, and nothing but running it shows that."""
    run = ["make", "-n", *target.split(), "LESSON=4"]
    written = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    read = subprocess.run(["sh", "-n"], input=written, capture_output=True, text=True)
    assert written and read.returncode == 0, read.stderr + written


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["basic", "advanced"])
def test_a_mark_chooses_the_suites_of_its_kind(kind: str) -> None:
    """As README, map and lessons say, also where a lesson's suite is in several files."""
    command = [sys.executable, "-m", "pytest", "testcases/lesson02_reward_model", "testcases/lesson10_bug_hunt"]
    command += ["-m", kind, "--collect-only", "--subject=solutions", "-p", "no:randomly"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    chosen = [line for line in done.stdout.splitlines() if line.startswith("testcases/")]
    of_a_file = [line.split("/")[2] for line in chosen if "/lesson" in line]
    of_all = {line.partition("[")[0].partition("::")[2] for line in chosen if "/contract_test.py" in line}
    assert done.returncode == 0 and of_a_file and all(file.startswith(kind) for file in of_a_file), done.stdout
    assert len({line.split("/")[1] for line in chosen if "/lesson" in line}) == 2, done.stdout + done.stderr
    assert ("test_agrees_with_the_reference" in of_all) == (kind == "advanced") and of_all


@pytest.mark.parametrize("command", ["ppo_by_hand configs", "testcases.harness.student.progress"])
def test_a_reader_who_leaves_is_no_error(command: str) -> None:
    """As `head` does. Few lines are printed at the end of the process only, many before it."""
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = subprocess.run([sys.executable, "-m", *command.split()], cwd=ROOT, stdout=writes, stderr=subprocess.PIPE)
    finally:
        os.close(writes)
    assert (done.returncode, done.stderr) == (0, b"")
