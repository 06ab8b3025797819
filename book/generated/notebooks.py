"""The page that a link to the folder of notebooks leads to."""

import json
from pathlib import Path

from testcases.engine.catalog import ROOT

from .texts import TOP

INTRODUCTION = """# The lessons in pictures

One notebook for each lesson, with its figures as they were computed. Make each prediction before you open the answer
below it. `make lab` runs them on your machine, with sliders; the [playgrounds](../playgrounds/README.md) move in this
book.
"""


def pages() -> dict[str, str]:
    lines = [INTRODUCTION]
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        lines.append(f"- [{_title(path)}]({TOP}notebooks/{path.name})")
    return {"pictures.md": "\n".join([*lines, ""])}


def _title(path: Path) -> str:
    first = "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"])
    return first.splitlines()[0].removeprefix("# ")
