"""Write what is made from texts, docstrings and code, translated figures too, into book/made: python -m book.stage."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from testcases.harness.catalog import ROOT

from .generated import exercises, messages, mistakes, reference
from .generated.texts import TOP

MADE = Path(__file__).with_name("made")
PICTURES = """# The lessons in pictures

One notebook for each lesson, with its figures as they were computed. Make each prediction before you open the answer
below it. `make lab` runs them on your machine, with sliders; the [playgrounds](../playgrounds/README.md) move in this
book.
"""


def pictures() -> dict[str, str]:
    """The page that a link to the folder of notebooks leads to."""
    lines = [PICTURES]
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        first = "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"])
        lines.append(f"- [{first.splitlines()[0].removeprefix('# ')}]({TOP}notebooks/{path.name})")
    return {"pictures.md": "\n".join([*lines, ""])}


PAGES: tuple[Callable[[], dict[str, str]], ...] = (
    *(module.pages for module in (exercises, messages, mistakes, reference)),
    pictures,
)
"""Each gives file name -> Markdown."""


def stage() -> None:
    """Bring them up to date. A page that says the same is left alone, so that Sphinx need not read it again."""
    MADE.mkdir(exist_ok=True)
    made = {MADE / name: text for make in PAGES for name, text in make().items()}
    for path, text in made.items():
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    for path in MADE.glob("*.md"):
        if path not in made:
            path.unlink()


if __name__ == "__main__":
    stage()
    if language := os.environ.get("BOOK_LANGUAGE"):
        from .translate import draw_what_is_stale

        draw_what_is_stale(language)
