"""GitHub Classroom: the step of ready/github-classroom.yml that hands the points over, after `make check`.

python -m testcases.grader.reports.classroom OUT
"""

import argparse
import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

from ..marking.assignment import carried
from ..status import GRADER, PASSED
from ..text import clean_lines
from .sheets import Sheet, only

MAX_OUTPUT = 500


def points(sheet: Sheet) -> dict[str, Any]:
    """The reporter's version 3: one test for each exercise. Without a verdict the status is "error", not 0 points."""
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


def write_output(out: Path, target: Path) -> int:
    """Append the step's output, in base64, to the file that GitHub names; 0 if there is a verdict."""
    sheet = only(out, carried())
    for exercise in sheet.exercises:
        print(f"| {exercise.points!s:>11} {exercise.status:17}{exercise.lesson} {exercise.name}")
    for note in (*sheet.flags, *sheet.notes):
        print(f"| {_quiet(note)}")
    text = json.dumps(points(sheet))
    with target.open("a", encoding="utf-8") as file:
        file.write(f"result={base64.b64encode(text.encode()).decode()}\n")
    return int(sheet.status == GRADER)


def _quiet(text: str) -> str:
    """Text in which GitHub's log finds no command."""
    return clean_lines(text).replace("::", ": :").replace("##[", "# #[")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    out, target = parser.parse_args().out, os.environ.get("GITHUB_OUTPUT")
    if not target:
        print("error: expected to run in a workflow, where GITHUB_OUTPUT names a file", file=sys.stderr)
        return 2
    return write_output(out, Path(target))


if __name__ == "__main__":
    sys.exit(main())
