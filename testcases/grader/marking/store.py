"""The results files: one a submission, each there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..status import GRADER
from .assignment import Assignment


@dataclass
class Row:
    """One line of the gradebook."""

    student: str
    file_name: str
    score: int
    max_score: int
    status: str
    notes: list[str] = field(default_factory=list)


def suite_of(course: str, assignment: Assignment) -> str:
    """A hash of all that a mark depends on but the submission: the course, and which exercises are asked."""
    return hashlib.sha256("\n".join([course, *assignment.names]).encode()).hexdigest()


def read_result(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("lessons"), dict) else None


def write_result(path: Path, result: dict[str, Any]) -> None:
    """The file is there whole, or not at all, even if the machine stops."""
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("w", encoding="utf-8", newline="") as file:
        file.write(json.dumps(result, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def has_grader_error(result: dict[str, Any]) -> bool:
    return any(
        test["status"] == GRADER
        for lesson in result["lessons"].values()
        for exercise in lesson["exercises"].values()
        for test in exercise["tests"]
    )


def row_of(file_name: str, result: dict[str, Any]) -> Row:
    status = "grader-error" if has_grader_error(result) else result["status"]
    return Row(result["student"], file_name, result["score"], result["max_score"], status, list(result["notes"]))
