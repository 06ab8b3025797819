"""Gradescope: `results.json`, and the autograder zip to upload.

python -m testcases.grader.reports.gradescope zip PATH             write the autograder zip: make gradescope
python -m testcases.grader.reports.gradescope results OUT TARGET   what the zip's run_autograder calls after grading
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

from .records import Exercise, Record, only
from .tables import write_text

ROOT = Path(__file__).resolve().parents[3]
CARRIED = ("Makefile", "pyproject.toml", "requirements.lock", "LICENSE", "solutions", "testcases", "tiny_models")
LEFT_OUT = {"__pycache__", "adversarial"}

SETUP = """\
#!/usr/bin/env bash
# Builds the image, once: the only moment with a network. Python is 3.11 or newer; Ubuntu 22.04 has it beside its own.
# PyPI's torch brings two gigabytes of CUDA: name PyTorch's CPU index in PIP_EXTRA_INDEX_URL here to save them.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends bubblewrap make python3 python3-venv
python=python3
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  apt-get install -y --no-install-recommends python3.11 python3.11-venv
  python=python3.11
fi
# The Python of the course lies apart from the solutions, which nobody but root can read.
make -C /autograder/source/course setup PYTHON="$python" VENV=/autograder/venv
chmod -R go-rwx /autograder/source
"""

RUN = """\
#!/usr/bin/env bash
# Grades one submission, without a network. results.json is there whatever the submission does.
chmod -R go-rwx /autograder/source /autograder/results
cd /autograder/source/course || exit 1
work=$(mktemp -d)
mkdir "$work/in"
cp -a /autograder/submission "$work/in/submission"
grade() {
  # The secret is made anew in each run: nothing is gained by handing in the answers of the last one.
  /autograder/venv/bin/python -m testcases.grader "$work/in" --out "$work/out" --jobs 1 "$@"
}
grade
# 2: bubblewrap may make no namespaces in this container. The marks then say NOT SANDBOXED.
if [ $? = 2 ]; then grade --sandbox none; fi
/autograder/venv/bin/python -m testcases.grader.reports.gradescope results "$work/out" /autograder/results/results.json
"""


def results(record: Record) -> dict[str, Any]:
    """What `results.json` holds: one test for each exercise.

    Where the grader failed there is no score at all, not even of a test: Gradescope then tells that the autograder
    failed, and gives no 0.
    """
    found: dict[str, Any] = {
        "execution_time": float(record.seconds),
        "output": _summary(record),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": {"sandbox": record.sandbox},
        "tests": [
            _test(exercise, f"{i}.{j}")
            for i, lesson in enumerate(record.lessons, start=1)
            for j, exercise in enumerate(lesson.exercises, start=1)
            if record.final
        ],
    }
    return {**found, "score": record.score} if record.final else found


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
        for file in _carried():
            _add(archive, f"course/{file.relative_to(ROOT).as_posix()}", file.read_bytes(), 0o644)
    os.replace(beside, path)
    return path


def hand_over(out: Path, target: Path) -> None:
    """Write the results.json of the one submission that was graded into `out`, or one that says that there is none."""
    write_text(target, json.dumps(results(only(out)), indent=1) + "\n")


def _test(exercise: Exercise, number: str) -> dict[str, Any]:
    lines = [f"status: {exercise.status}"]
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
    lines = ["GRADER ERROR: this is not a mark. Tell your instructor."]
    if record.final:
        lines = [f"{record.score:g} of {record.max_score:g} points"]
    lines += [*record.flags, *(note for note in record.notes if not note.startswith(record.flags))]
    return "\n".join(lines)


def _carried() -> list[Path]:
    """The files that grading needs, in order."""
    files = [file for name in CARRIED for file in (ROOT / name, *(ROOT / name).rglob("*")) if file.is_file()]
    return sorted(file for file in files if not LEFT_OUT & set(file.relative_to(ROOT).parts))


def _add(archive: zipfile.ZipFile, name: str, data: bytes, mode: int) -> None:
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3  # Unix: without it the mode below is not read
    info.external_attr = (stat.S_IFREG | mode) << 16
    archive.writestr(info, data)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Gradescope: results.json, and the autograder zip to upload.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("zip", help="write the autograder zip").add_argument("path", type=Path)
    one = commands.add_parser("results", help="write the results.json of one graded submission")
    one.add_argument("out", type=Path)
    one.add_argument("target", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "zip":
        print(f"wrote {make_autograder_zip(options.path)}: upload it as the assignment's autograder")
    else:
        hand_over(options.out, options.target)


if __name__ == "__main__":
    main()
