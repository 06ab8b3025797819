"""The results files, one per submission: each there whole or not at all."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_json

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


def suites_of(fingerprint_of: Callable[[str], str], limits: str, assignment: Assignment) -> dict[str, str]:
    """Lesson -> a hash of all that its marks depend on but the submission."""
    found = {}
    for lesson in assignment.lessons:
        asked = [name for name in assignment.names if name.startswith(f"{lesson}.")]
        found[lesson] = hashlib.sha256("\n".join([fingerprint_of(lesson), limits, *asked]).encode()).hexdigest()
    return found


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """What a regrade has changed, exercise by exercise, and why."""
    whole = {"content": "another hand-in", "secret": "another secret", "sandbox": "another sandbox"}
    reasons = [why for key, why in whole.items() if old.get(key) != new.get(key)]
    found = []
    for lesson, marks in new["lessons"].items():
        before = old["lessons"].get(lesson, {})
        why = [*reasons] or ["the lesson's suite, or what it uses, has changed"] * (
            before.get("suite") != marks.get("suite")
        )
        for name, one in marks["exercises"].items():
            was = before.get("exercises", {}).get(name, one)
            if (was["score"], was["max_score"]) != (one["score"], one["max_score"]):
                row = {"exercise": f"{lesson}.{name}", "old": was["score"], "new": one["score"]}
                found.append({**row, "why": ", ".join(why) or "graded again"})
    return found


def write_result(path: Path, result: dict[str, Any]) -> None:
    """The file is there whole, or not at all, even if the machine stops."""
    write_json(path, result, lasting=True)


def has_grader_error(result: dict[str, Any]) -> bool:
    return any(
        test["status"] == GRADER
        for lesson in result["lessons"].values()
        for exercise in lesson["exercises"].values()
        for test in exercise["tests"]
    )


def is_whole(result: dict[str, Any]) -> bool:
    """Whether each of its lessons was asked: a run that was ended leaves a result that is not."""
    return all(lesson.get("suite") for lesson in result["lessons"].values())


def row_of(file_name: str, result: dict[str, Any]) -> Row:
    status = "grader-error" if has_grader_error(result) else result["status"]
    return Row(result["student"], file_name, result["score"], result["max_score"], status, list(result["notes"]))
