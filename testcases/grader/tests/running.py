"""Runs `make check` for the tests, and reads what it wrote."""

import csv
import io
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testcases.grader.sandbox import sandbox
from testcases.grader.tests.forks import Fork
from testcases.harness.catalog import SOLUTIONS

TARGET = "lesson04_gae/gae.py"


def check(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`make check` without its start: the imports cost more than a small batch."""
    with tempfile.TemporaryDirectory(prefix="said-") as said:
        return start(Path(said), *arguments, **environment).ended()


def start(said: Path, *arguments: str, **environment: str) -> Fork:
    return Fork(said, _main, arguments, **environment)


def _main(arguments: Sequence[str]) -> None:
    from testcases.grader import __main__

    signal.signal(signal.SIGINT, signal.default_int_handler)  # As at a terminal.
    sys.argv = ["make check", *arguments]
    __main__.main()


ONE = "--lessons", "lesson04.td_errors"


def grade(folder: Path, out: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One exercise, `td_errors`: all others cost more than a small batch."""
    return check(str(folder), "--out", str(out), "--jobs", "1", *ONE, *arguments, **environment)


def results(out: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted((out / "results").glob("*.json"))}


def table(out: Path) -> list[dict[str, str]]:
    """The lines of marks.csv."""
    with open(out / "marks.csv", encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def times(out: Path) -> dict[str, int]:
    """When each result was written."""
    return {path.name: path.stat().st_mtime_ns for path in (out / "results").glob("*.json")}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def workers(out: Path) -> list[int]:
    """Processes of a run that are still there."""
    found, mark = [], sandbox.run_of(str(out / "results")).encode()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            pass
    return found


def packed(files: Mapping[str, str | bytes]) -> bytes:
    """A zip."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


def put(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def solved(folder: Path, *lessons: str) -> Path:
    ignore = shutil.ignore_patterns("__pycache__")
    for lesson in lessons:
        shutil.copytree(SOLUTIONS / lesson, folder / lesson, ignore=ignore, dirs_exist_ok=True)
    return folder
