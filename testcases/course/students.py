"""Students to test the suites on: a folder with everything solved, and ways to spoil it."""

import dataclasses
import re
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from testcases.harness.catalog.lessons import ROOT, SOLUTIONS
from testcases.harness.oracle.reference import Reference
from testcases.harness.oracle.stubs import all_stubs, write_files
from testcases.harness.suite.memo import Remembering
from tiny_models import presets

LESSON, FILE = "lesson04_gae", "gae.py"
HANGS = 900
"""Seconds after which a process that a check has started is taken to hang: on a busy machine a run takes minutes."""
POCKET = dataclasses.replace(
    presets.PRESETS["tiny"],
    name="pocket",
    demonstrations=2048,
    preference_pairs=256,
    held_out_pairs=16,
    ppo_updates=7,
    ppo_batch_size=8,
    evaluation_responses=16,
)
"""A preset for runs of seconds."""
REGION = re.compile(r" *# region solution\n.*?# endregion\n", re.DOTALL)


@cache
def reference() -> Reference:
    """Asked the same about each student and each answer, so it remembers; whoever is tested never does."""
    return Reference(Remembering)


def solved_folder(tmp_path: Path) -> Path:
    """A student who has solved everything."""
    folder = tmp_path / "tutorial"
    stubs = all_stubs()
    solved = {path: (SOLUTIONS / path).read_text("utf-8") for path in stubs if path.startswith("lesson")}
    write_files(folder, stubs | solved)
    return folder


def course_copy(folder: Path) -> Path:
    """A course whose notebooks may be run and saved, with everything solved; what is only read is linked."""
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*", "__pycache__"))
    for name in ("solutions", "testcases", "tiny_models", "ppo_by_hand", "book"):
        (folder / name).symlink_to(ROOT / name)
    solved_folder(folder)
    return folder


def own_course(folder: Path) -> Path:
    """A course of one's own, with everything solved: what its commands keep is kept in it."""
    skipped = shutil.ignore_patterns("__pycache__", "course", "benchmarks")
    for name in ("solutions", "testcases", "tiny_models", "ppo_by_hand", "tutorial"):
        shutil.copytree(ROOT / name, folder / name, ignore=skipped)
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copyfile(ROOT / name, folder / name)
    solved_folder(folder)
    return folder


def replace_body(folder: Path, body: str) -> None:
    """Put another body into td_errors; the others call it through the reference's own code."""
    path = folder / LESSON / FILE
    source = path.read_text("utf-8")
    start = source.index("def td_errors(")
    indented = "\n".join(f"    {line}" for line in body.splitlines()) + "\n"
    path.write_text(source[:start] + REGION.sub(lambda _: indented, source[start:], count=1), "utf-8")


def independent(folder: Path) -> None:
    """Let the other exercises not use td_errors, so that they show nothing of its fault."""
    path = folder / LESSON / FILE
    deltas = "rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]"
    path.write_text(
        path.read_text("utf-8").replace("deltas = td_errors(rewards, values, dones, gamma)", f"deltas = {deltas}"),
        "utf-8",
    )


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", f"testcases/{LESSON}", f"--subject={folder}", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANGS, check=False)


def pytest_in(folder: Path, *options: str) -> Counter[str]:
    """How many tests of each status."""
    done = run_pytest(folder, *options)
    assert not done.stderr, done.stderr
    last = done.stdout.strip().splitlines()[-1]
    return Counter(
        {status: int(number) for number, status in re.findall(r"(\d+) (passed|failed|waiting|not started)", last)}
    )
