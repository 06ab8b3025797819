"""Gradescope: `results.json`, and the autograder zip to upload.

python -m testcases.grader.reports.gradescope zip PATH              write the autograder zip
python -m testcases.grader.reports.gradescope run SUBMISSION RESULTS    what the zip's run_autograder calls
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from .records import NOT_SANDBOXED, Exercise, Record, load
from .tables import write_text
from .text import clean, clean_lines

ROOT = Path(__file__).resolve().parents[3]
GRADER_FILES = ("Makefile", "pyproject.toml", "requirements.lock", "LICENSE", "README.md")
GRADER_FOLDERS = ("solutions", "testcases", "tiny_models", "tutorial")
LEFT_OUT = ("__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache", "adversarial", "runs")
LIMIT_SECONDS = 30 * 60
MAX_BYTES, MAX_FILES = 50 * 2**20, 2_000

SETUP = """\
#!/usr/bin/env bash
# Builds the image, once. Needs Python 3.11 or newer; Ubuntu 22.04 has it beside its own.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends bubblewrap make python3 python3-venv
python=python3
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  apt-get install -y --no-install-recommends python3.11 python3.11-venv
  python=python3.11
fi
cd /autograder/source/course
make setup PYTHON="$python"
"""

RUN = """\
#!/usr/bin/env bash
# Grades one submission. results.json is there whatever happens.
cd /autograder/source/course
.venv/bin/python -m testcases.grader.reports.gradescope run /autograder/submission /autograder/results/results.json
"""


def results(record: Record) -> dict[str, Any]:
    """What `results.json` holds: one test for each exercise.

    Without any verdict there is no score at all: Gradescope then tells that the autograder failed, and gives no 0.
    """
    found: dict[str, Any] = {
        "execution_time": float(record.seconds),
        "output": _summary(record),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": {"sandbox": record.sandbox, "seed": record.seed, "status": record.status},
        "tests": [
            _test(exercise, f"{i}.{j}")
            for i, lesson in enumerate(record.lessons, start=1)
            for j, exercise in enumerate(lesson.exercises, start=1)
        ],
    }
    if record.score is not None:
        found["score"] = record.score
    return found


def write(folder: Path, record: Record) -> Path:
    return write_text(folder / f"{record.page}.json", json.dumps(results(record), indent=1) + "\n")


def make_autograder_zip(path: Path) -> Path:
    """The zip to upload: setup.sh and run_autograder at its root, the course beside them.

    The same tree gives the same bytes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "setup.sh", SETUP.encode(), 0o755)
        _add(archive, "run_autograder", RUN.encode(), 0o755)
        for file in _grader_files():
            _add(archive, f"course/{file.relative_to(ROOT).as_posix()}", file.read_bytes(), 0o644)
    os.replace(beside, path)
    return path


def run(submission: Path, target: Path) -> int:
    """Grade one submission by `make check` and write its results.json, whatever happens; 0 if there is a verdict."""
    reason = "the grader gave no result"
    with tempfile.TemporaryDirectory() as folder:
        inside, out = Path(folder) / "in", Path(folder) / "out"
        try:
            left = _copy(submission, inside / "submission")
            sandbox = _sandbox()
            command = ["make", "--no-print-directory", "check", f"SUBMISSIONS={inside}", f"OUT={out}", "JOBS=1"]
            command += [f"SANDBOX={sandbox}"] if sandbox else []
            done = subprocess.run(command, cwd=ROOT, timeout=LIMIT_SECONDS, capture_output=True)
            sys.stderr.write(clean_lines(done.stderr.decode("utf-8", "replace")) + "\n")
            records = load(out)
            if len(records) == 1 and records[0].lessons:
                found = results(records[0])
                found["output"] = "\n".join([*left, found["output"]])
                write_text(target, json.dumps(found, indent=1) + "\n")
                return int(not records[0].final)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
    broken = Record("submission", "submission", notes=(clean(reason, 500),))
    write_text(target, json.dumps(results(broken), indent=1) + "\n")
    return 1


def _test(exercise: Exercise, number: str) -> dict[str, Any]:
    lines = [f"status: {exercise.status}"]
    if exercise.status == "grader-error":
        lines.append("The fault is the grader's, not yours: this is no mark. Tell your instructor.")
    if exercise.cause:
        lines.append(f"likely cause: {exercise.cause.why or exercise.cause.name}")
        lines += [f"read: {exercise.cause.read} (README.md of {exercise.lesson})"] if exercise.cause.read else []
    if exercise.message:
        lines += ["", exercise.message]
    return {
        "name": f"{exercise.lesson} {exercise.name}",
        "number": number,
        "score": exercise.score,
        "max_score": exercise.max_score,
        "status": "passed" if exercise.status == "passed" else "failed",
        "output": "\n".join(lines),
        "tags": [exercise.status],
        "visibility": "visible",
        "extra_data": {"status": exercise.status, "likely_cause": exercise.cause.name if exercise.cause else None},
    }


def _summary(record: Record) -> str:
    lines = [] if record.score is None else [f"{record.score:g} of {record.max_score:g} points"]
    if not record.final:
        lines.insert(0, "GRADER ERROR: this is not a mark. Tell your instructor.")
    lines += [*record.flags, *(note for note in record.notes if note not in record.flags)]
    return "\n".join(lines)


def _grader_files() -> list[Path]:
    found = [ROOT / name for name in GRADER_FILES if (ROOT / name).is_file()]
    for folder in GRADER_FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            inner = file.relative_to(ROOT).parts
            if file.is_file() and not file.is_symlink() and not set(inner) & set(LEFT_OUT) and inner[-1][0] != ".":
                found.append(file)
    return found


def _add(archive: zipfile.ZipFile, name: str, data: bytes, mode: int) -> None:
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3  # Unix: without it the mode below is not read
    info.external_attr = (stat.S_IFREG | mode) << 16
    archive.writestr(info, data)


def _copy(source: Path, target: Path) -> list[str]:
    """Copy regular files only, within limits; say what was left out."""
    target.mkdir(parents=True)
    notes, size, count = [], 0, 0
    for folder, folders, files in os.walk(source, followlinks=False):
        folders[:] = sorted(name for name in folders if name[0] != "." and not (Path(folder) / name).is_symlink())
        for name in sorted(files):
            path = Path(folder) / name
            info = path.lstat()
            if not stat.S_ISREG(info.st_mode):
                notes.append(f"left out, since it is no regular file: {clean(path.relative_to(source))}")
                continue
            size, count = size + info.st_size, count + 1
            if size > MAX_BYTES or count > MAX_FILES:
                return [*notes, f"more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB: the rest was left out"]
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy, follow_symlinks=False)
    return notes


def _sandbox() -> str:
    """Empty where bubblewrap works; "none" where it is missing or the container refuses it."""
    try:
        bwrap = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "true"]
        allowed = subprocess.run(bwrap, timeout=30, capture_output=True).returncode == 0
    except (OSError, subprocess.SubprocessError):
        allowed = False
    if not allowed:
        print(f"{NOT_SANDBOXED}: bubblewrap is missing here, or this container refuses it", file=sys.stderr)
    return "" if allowed else "none"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("zip", help="write the autograder zip").add_argument("path", type=Path)
    one = commands.add_parser("run", help="grade one submission inside Gradescope")
    one.add_argument("submission", type=Path)
    one.add_argument("results", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "zip":
        print(f"wrote {make_autograder_zip(options.path)}: upload it as the assignment's autograder")
        return 0
    return run(options.submission, options.results)


if __name__ == "__main__":
    sys.exit(main())
