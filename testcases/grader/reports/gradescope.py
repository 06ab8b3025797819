"""Gradescope: `results.json`, and the autograder zip to upload.

python -m testcases.grader.reports.gradescope zip PATH             write the autograder zip
python -m testcases.grader.reports.gradescope results OUT TARGET   what the zip calls after grading
"""

import argparse
import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_json

from ..marking.assignment import asked_for, carried
from ..status import GRADER, PASSED
from .sheets import Exercise, Sheet, only

ROOT = Path(__file__).resolve().parents[3]
FILES = ("Makefile", "pyproject.toml", "requirements.lock", "LICENSE")
CARRIED = (*FILES, "ppo_by_hand", "solutions", "testcases", "tiny_models")

READY = ROOT / "testcases" / "grader" / "ready" / "gradescope"
SETUP, RUN = ((READY / name).read_text("utf-8") for name in ("setup.sh", "run_autograder"))


def results(sheet: Sheet) -> dict[str, Any]:
    """What `results.json` holds: one test for each exercise.

    Where the grader failed there is no score at all, not even of a test: Gradescope then tells that the autograder
    failed, and gives no 0.
    """
    is_final = sheet.status != GRADER
    found: dict[str, Any] = {
        "execution_time": float(sheet.seconds),
        "output": _summary(sheet),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": {"sandbox": sheet.sandbox},
        "tests": [
            _test(exercise, f"{i}.{j}")
            for i, lesson in enumerate(sheet.lessons, start=1)
            for j, exercise in enumerate(lesson.exercises, start=1)
            if is_final
        ],
    }
    return {**found, "score": sheet.all_points.score} if is_final else found


def make_autograder_zip(path: Path, what_counts: str = "") -> Path:
    """The zip to upload: setup.sh and run_autograder at its root, the course beside them, and its assignment.toml.

    The same tree gives the same bytes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "setup.sh", SETUP.encode(), 0o755)
        _add(archive, "run_autograder", RUN.encode(), 0o755)
        _add(archive, "course/assignment.toml", what_counts.encode(), 0o644)
        for file in _carried():
            _add(archive, f"course/{file.relative_to(ROOT).as_posix()}", file.read_bytes(), 0o644)
    os.replace(beside, path)
    return path


def _test(exercise: Exercise, number: str) -> dict[str, Any]:
    parts = (("formula", exercise.formula), ("safety", exercise.safety))
    lines = [f"status: {exercise.status} ({', '.join(f'{name} {part}' for name, part in parts if part.most)})"]
    lines += [f"likely cause: {cause}" for cause in exercise.causes]
    lines += [f"read: {exercise.read}"] if exercise.read else []
    lines += ["", exercise.told] if exercise.told else []
    return {
        "name": f"{exercise.lesson} {exercise.name}",
        "number": number,
        "score": round(exercise.points.score, 4),
        "max_score": round(exercise.points.most, 4),
        "status": "passed" if exercise.status == PASSED else "failed",
        "output": "\n".join(lines),
        "tags": [exercise.status],
        "visibility": "visible",
        "extra_data": {"status": exercise.status, "likely_causes": list(exercise.causes)},
    }


def _summary(sheet: Sheet) -> str:
    lines = ["GRADER ERROR: this is not a mark. Tell your instructor."]
    if sheet.status != GRADER:
        lines = [f"{sheet.all_points} points"]
    lines += [*sheet.flags, *(note for note in sheet.notes if not note.startswith(sheet.flags))]
    return "\n".join(lines)


def _carried() -> list[Path]:
    """The files that grading needs, in order."""
    files = [file for name in CARRIED for file in (ROOT / name, *(ROOT / name).rglob("*")) if file.is_file()]
    return sorted(file for file in files if "__pycache__" not in file.parts)


def _add(archive: zipfile.ZipFile, name: str, data: bytes, mode: int) -> None:
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3  # Unix: without it the mode below is not read
    info.external_attr = (stat.S_IFREG | mode) << 16
    archive.writestr(info, data)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Gradescope: results.json, and the autograder zip to upload.")
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("zip", help="write the autograder zip")
    made.add_argument("path", type=Path)
    for name in ("assignment", "lessons", "points"):
        made.add_argument(f"--{name}", default="")
    one = commands.add_parser("results", help="write the results.json of one graded submission")
    one.add_argument("out", type=Path)
    one.add_argument("target", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "results":
        write_json(options.target, results(only(options.out, carried())))
        return
    try:
        asked = asked_for(options.assignment, options.lessons, options.points)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    lines = [f"lessons = {json.dumps(options.lessons.replace(',', ' ').split())}"] if options.lessons else []
    lines += [f"points = {options.points}"] if options.points else []
    text = Path(options.assignment).read_text("utf-8-sig") if options.assignment else "\n".join(lines)
    path = make_autograder_zip(options.path, text)
    print(f"wrote {path}: upload it as the assignment's autograder, of {asked.total:g} points")


if __name__ == "__main__":
    main()
