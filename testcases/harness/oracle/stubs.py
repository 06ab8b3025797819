"""The stubs that students fill in, made from the solutions."""

import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..catalog import SOLUTIONS, lesson_names, read_lesson, regions
from .mutations import region_text, suspects

PACKAGE = '"""Your lessons: fill in each `raise NotImplementedError(...)`, then run `pytest`."""\n'
RUNS = {
    f"{name}/__init__.py": f'''"""Found in `solutions/{name}`, not copied: whole runs, here on your own lessons."""

from solutions.{name} import __path__ as __path__
'''
    for name in ("demo", "contest")
}


def emptied(path: Path, exercises: Iterable[str]) -> str:
    """The text of a solution file with each region of these exercises replaced by an error that names the exercise, or
    by the suspect that is handed out."""
    lines = path.read_text("utf-8").splitlines()
    lesson = read_lesson(path.parent.name)
    for region in reversed(regions(path)):
        if region.exercise in exercises:
            marker = lines[region.first]
            indent = marker[: len(marker) - len(marker.lstrip())]
            text = f'raise NotImplementedError("{lesson.short}: {region.exercise}")'
            if suspect := suspects(lesson.name).get(region.exercise):
                text = suspect.change.apply(region_text(lesson.name, region.exercise))
            lines[region.first : region.last + 1] = textwrap.indent(text, indent).splitlines()
    return "\n".join(lines) + "\n"


def stub(path: Path) -> str:
    """A solution file as it is handed out."""
    text = emptied(path, [region.exercise for region in regions(path)])
    # Only in a command to run or a path to open; imports between lessons are relative.
    return text.replace("solutions.lesson", "tutorial.lesson").replace("solutions/lesson", "tutorial/lesson")


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by their path below a folder."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")


def stubs_of(lesson: str) -> dict[str, str]:
    """Path below `tutorial/` -> text, for one lesson."""
    folder = SOLUTIONS / lesson
    paths = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    return {path.relative_to(SOLUTIONS).as_posix(): stub(path) for path in paths}


def all_stubs() -> dict[str, str]:
    """Path below `tutorial/` -> text, for the whole tree."""
    files = {"__init__.py": PACKAGE, **RUNS}
    for lesson in lesson_names():
        files.update(stubs_of(lesson))
    return files
