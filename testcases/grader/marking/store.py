"""The results files, one a submission: each there whole or not at all."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_json

from ..status import GRADER
from .assignment import Assignment


def suites_of(fingerprint_of: Callable[[str], str], limits: str, assignment: Assignment) -> dict[str, str]:
    """Lesson -> a hash of all that its marks depend on but the submission."""
    found = {}
    for lesson in assignment.lessons:
        asked = [name for name in assignment.names if name.startswith(f"{lesson}.")]
        found[lesson] = hashlib.sha256("\n".join([fingerprint_of(lesson), limits, *asked]).encode()).hexdigest()
    return found


def read_result(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("lessons"), dict) else None


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
