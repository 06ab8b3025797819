"""Write the pages that are made from texts, docstrings and code into book/made: python -m book.stage."""

from pathlib import Path

from .generated import exercises, messages, mistakes, reference

MADE = Path(__file__).with_name("made")


def stage() -> None:
    """Bring them up to date. A page that says the same is left alone, so that Sphinx need not read it again."""
    MADE.mkdir(exist_ok=True)
    made = {
        name: text for module in (exercises, messages, mistakes, reference) for name, text in module.pages().items()
    }
    for name, text in made.items():
        path = MADE / name
        if not path.is_file() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    for path in MADE.glob("*.md"):
        if path.name not in made:
            path.unlink()


if __name__ == "__main__":
    stage()
