"""How far a student has come: kept in `.progress/` at the root, shown after each run and by `make progress`.

python -m testcases.engine.progress
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .contract import ROOT, lesson_names
from .contract import lesson as read_lesson
from .points import Entry, entries

FOLDER = ROOT / ".progress"
STATE = FOLDER / "tests.json"
BAR = 24

Results = Mapping[str, Mapping[str, str]]
"""Test function -> parameters -> "passed", "failed", "not started", "blocked" or "not earned"."""


def read(path: Path) -> dict[str, Any]:
    """A state file; empty where there is none, or where it cannot be read."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(path: Path, state: Mapping[str, Any]) -> None:
    """Atomically, so that an interrupted run leaves the old state."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ignore = FOLDER / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", "utf-8")
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(state, indent=1), "utf-8")
    temporary.replace(path)


def update(results: Results, whole: bool) -> None:
    """Put a run's results into the state; with `whole` a function's former parameters are forgotten."""
    state = read(STATE)
    for function, cases in results.items():
        state[function] = dict(cases) if whole else {**state.get(function, {}), **cases}
    write(STATE, state)


def status(entry: Entry, results: Results) -> str:
    """Of one test function: "passed" if all its cases passed, else the worst of them; "not run" without any."""
    cases = set(results.get(entry.node, {}).values())
    for worst in ("failed", "blocked", "not started", "not earned", "passed"):
        if worst in cases:
            return worst
    return "not run"


def exercise_status(lesson: str, exercise: str, results: Results) -> str:
    """Of all tests of an exercise together."""
    found = {status(entry, results) for entry in entries(lesson) if entry.exercise == exercise}
    for worst in ("failed", "blocked", "not started", "not run", "not earned"):
        if worst in found:
            return worst
    return "passed" if found else "not run"


def is_complete(lesson: str, results: Results) -> bool:
    """Every test of the lesson has passed."""
    found = entries(lesson)
    return bool(found) and all(status(entry, results) == "passed" for entry in found)


def bar(lesson: str, results: Results) -> str:
    """One line: "lesson04_gae  ######......  12/20 points  left: compute_gae (failed)"."""
    found = entries(lesson)
    total = sum(entry.points for entry in found)
    earned = sum(entry.points for entry in found if status(entry, results) == "passed")
    filled = BAR * earned // total if total else 0
    exercises = dict.fromkeys(entry.exercise for entry in found)
    left = [(name, exercise_status(lesson, name, results)) for name in exercises]
    left = [(name, state) for name, state in left if state != "passed"]
    width = max(map(len, lesson_names()))
    line = f"{lesson:{width}}  {'#' * filled}{'.' * (BAR - filled)}  {earned:3}/{total} points"
    if not left:
        return f"{line}  done"
    shown = ", ".join(f"{name} ({state})" for name, state in left[:3])
    return f"{line}  {len(left)} left: {shown}{', ...' if len(left) > 3 else ''}"


def bars(lessons: Iterable[str], results: Results) -> list[str]:
    """One line a lesson, for those that have points."""
    return [bar(lesson, results) for lesson in lessons if entries(lesson)]


def next_step(lessons: Iterable[str], results: Results) -> str:
    """The first exercise of these lessons that is not done, and where it is; empty if there is none."""
    for lesson in lessons:
        for name in dict.fromkeys(entry.exercise for entry in entries(lesson)):
            if exercise_status(lesson, name, results) != "passed":
                file = read_lesson(lesson).file_of(name)
                return f"Next: {name}, in tutorial/{lesson}/{file}. Read tutorial/{lesson}/README.md first."
    return ""


def main() -> None:
    argparse.ArgumentParser(prog="make progress", description="Show how far you have come.").parse_args()
    state = read(STATE)
    if not state:
        print("Nothing has been run yet. Start with:  pytest testcases/" + lesson_names()[0])
    for line in bars(lesson_names(), state):
        print(line)
    print("\n" + (next_step(lesson_names(), state) or "All lessons are done."))


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # Whoever read this, such as `head`, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
