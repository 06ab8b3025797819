"""Runs `make check` for the tests, and reads what it wrote."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from testcases.engine.contract import ROOT, SOLUTIONS
from testcases.grader import sandbox

TARGET = "lesson04_gae/gae.py"
SECRET = "hedgehogs carry 128 bits"


def check(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "testcases.grader", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=400, env={**os.environ, **environment}, check=False
    )


def grade(folder: Path, out: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return check(str(folder), "--out", str(out), "--jobs", "2", *arguments, **environment)


def results(out: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((out / "results").glob("*.json"))}


def gradebook(out: Path) -> list[dict[str, str]]:
    with open(out / "gradebook.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def without_times(out: Path) -> dict[str, dict[str, Any]]:
    return {name: {**result, "seconds": 0} for name, result in results(out).items()}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def workers(out: Path) -> list[int]:
    """Processes of a run that are still there."""
    found, mark = [], sandbox.run_of(out / ".work" / "course").encode()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            pass
    return found


def solved(folder: Path, *lessons: str) -> Path:
    ignore = shutil.ignore_patterns("__pycache__")
    for lesson in lessons:
        shutil.copytree(SOLUTIONS / lesson, folder / lesson, ignore=ignore, dirs_exist_ok=True)
    return folder


def row(out: Path, student: str) -> dict[str, str]:
    return next(row for row in gradebook(out) if row["student"] == student)
