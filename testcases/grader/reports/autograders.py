"""Gradescope's autograder and its results.json, and the points that GitHub Classroom's workflow hands over.

python -m testcases.grader.reports.autograders zip PATH             write Gradescope's autograder zip
python -m testcases.grader.reports.autograders results OUT TARGET   what the zip calls after grading
python -m testcases.grader.reports.autograders classroom OUT        what ready/github-classroom.yml calls after grading
"""

import argparse
import base64
import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_json
from testcases.harness.catalog import ROOT

from ..marking.assignment import asked_for, carried
from ..status import GRADER, PASSED
from ..text import clean_lines
from .sheets import Exercise, Sheet, only

FILES = ("Makefile", "pyproject.toml", "requirements.lock", "LICENSE")
CARRIED = (*FILES, "ppo_by_hand", "solutions", "testcases", "tiny_models")
"""What grading needs of the course."""
READY = ROOT / "testcases" / "grader" / "ready" / "gradescope"
MAX_OUTPUT = 500
"""Letters of a message in GitHub's summary."""


def results(sheet: Sheet) -> dict[str, Any]:
    """What Gradescope's `results.json` holds: one test for each exercise.

    Where the grader failed there is no score at all, not even of a test: Gradescope then tells that the autograder
    failed, and gives no 0.
    """
    is_final = sheet.status != GRADER
    lines = [f"{sheet.all_points} points" if is_final else "GRADER ERROR: this is not a mark. Tell your instructor."]
    lines += [*sheet.flags, *(note for note in sheet.notes if not note.startswith(sheet.flags))]
    found: dict[str, Any] = {
        "output": "\n".join(lines),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_test(exercise) for exercise in sheet.exercises if is_final],
    }
    return {**found, "score": sheet.all_points.score} if is_final else found


def _test(exercise: Exercise) -> dict[str, Any]:
    parts = (("formula", exercise.formula), ("safety", exercise.safety))
    lines = [f"status: {exercise.status} ({', '.join(f'{name} {part}' for name, part in parts if part.most)})"]
    lines += [f"likely cause: {cause}" for cause in exercise.causes]
    lines += [f"read: {exercise.read}"] if exercise.read else []
    lines += ["", exercise.told] if exercise.told else []
    return {
        "name": f"{exercise.lesson} {exercise.name}",
        "score": round(exercise.points.score, 4),
        "max_score": round(exercise.points.most, 4),
        "status": "passed" if exercise.status == PASSED else "failed",
        "output": "\n".join(lines),
        "visibility": "visible",
    }


def make_zip(path: Path, what_counts: str = "") -> None:
    """Gradescope's zip: setup.sh and run_autograder at its root, the course beside them, and its assignment.toml."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for script in READY.iterdir():
            info = zipfile.ZipInfo(script.name)
            info.create_system, info.external_attr = 3, 0o100755 << 16  # A program, on Unix.
            archive.writestr(info, script.read_bytes())
        archive.writestr("course/assignment.toml", what_counts)
        for file in (file for name in CARRIED for file in (ROOT / name, *(ROOT / name).rglob("*"))):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, f"course/{file.relative_to(ROOT).as_posix()}")


def points(sheet: Sheet) -> dict[str, Any]:
    """Version 3 of GitHub's reporter: one test for each exercise. Without a verdict the status is "error", not 0."""
    tests = [
        {
            "name": f"{exercise.lesson} {exercise.name}",
            "status": {PASSED: "pass", GRADER: "error"}.get(exercise.status, "fail"),
            "score": round(exercise.points.score, 2),
            "message": _quiet(": ".join([exercise.status, *exercise.causes[:1]])),
            "output": _quiet(exercise.told)[:MAX_OUTPUT],
            "test_code": "",
            "task_id": 0,
            "filename": exercise.lesson,
            "line_no": 0,
            "duration": 0,
        }
        for exercise in sheet.exercises
    ]
    all_points = sheet.all_points
    status = "error" if sheet.status == GRADER else "pass" if all_points.score == all_points.most else "fail"
    return {"version": 3, "status": status, "max_score": all_points.most, "tests": tests}


def hand_over(sheet: Sheet, target: Path) -> int:
    """Append the step's output, in base64, to the file that GitHub names; 0 if there is a verdict."""
    with target.open("a", encoding="utf-8") as file:
        file.write(f"result={base64.b64encode(json.dumps(points(sheet)).encode()).decode()}\n")
    return int(sheet.status == GRADER)


def _quiet(text: str) -> str:
    """Text in which GitHub's log finds no command."""
    return clean_lines(text).replace("::", ": :").replace("##[", "# #[")


def main() -> int:
    parser = argparse.ArgumentParser(description="What Gradescope and GitHub Classroom need.")
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("zip", help="write Gradescope's autograder zip")
    made.add_argument("path", type=Path)
    made.add_argument("--assignment", default="", help="TOML file that says what counts")
    for name in ("results", "classroom"):
        commands.add_parser(name, help="hand one graded submission over").add_argument("out", type=Path)
    commands.choices["results"].add_argument("target", type=Path)
    options = parser.parse_args()
    if options.command == "classroom":
        return hand_over(only(options.out, carried()), Path(os.environ["GITHUB_OUTPUT"]))
    if options.command == "results":
        write_json(options.target, results(only(options.out, carried())))
        return 0
    try:
        asked = asked_for(options.assignment)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    make_zip(options.path, Path(options.assignment).read_text("utf-8-sig") if options.assignment else "")
    print(f"wrote {options.path}: upload it as the assignment's autograder, of {asked.total:g} points")
    return 0


if __name__ == "__main__":
    sys.exit(main())
