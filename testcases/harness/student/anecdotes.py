"""The real bug behind each suspect, shown once it is repaired; from the lesson's stories.toml."""

import textwrap
import tomllib
from collections.abc import Iterable
from functools import cache

from ..catalog.lessons import TESTCASES
from .progress import exercise_status
from .results import Results


@cache
def stories(lesson: str) -> dict[str, dict[str, str]]:
    """By exercise: `source`, such as "huggingface/trl#1", and `story`."""
    path = TESTCASES / lesson / "stories.toml"
    return tomllib.loads(path.read_text("utf-8")) if path.is_file() else {}


def told(lessons: Iterable[str], before: Results, after: Results) -> list[str]:
    """The lines about each suspect that has passed now and had not before."""
    lines = []
    for lesson in lessons:
        for exercise, story in stories(lesson).items():
            passed = [exercise_status(lesson, exercise, state) == "passed" for state in (before, after)]
            if passed == [False, True]:
                lines += textwrap.wrap(f"{exercise}: found. {story['source']}. {story['story']}", 110) + [""]
    return lines
