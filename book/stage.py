"""Write what is made from texts, docstrings and code, translated figures too, into book/made: python -m book.stage."""

import os
from collections.abc import Callable
from pathlib import Path

from .generated import exercises, messages, mistakes, notebooks, reference

MADE = Path(__file__).with_name("made")
PAGES: tuple[Callable[[], dict[str, str]], ...] = (
    exercises.pages,
    messages.pages,
    mistakes.pages,
    notebooks.pages,
    reference.pages,
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
