"""Write every figure of the texts: python -m book.figures [--check]."""

import argparse
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from .style import as_svg

TUTORIAL = Path(__file__).resolve().parents[2] / "tutorial"
TEXTS = {"course_map": TUTORIAL / "figures"}
"""Module -> folder of its figures."""
TEXTS |= {path.name: path / "figures" for path in sorted(TUTORIAL.glob("lesson[0-9][0-9]_*"))}

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
HASHED = re.compile(r'id="\w+"|#\w{10,}')
"""Names that matplotlib makes from what they name."""


def drawn() -> Iterator[tuple[Path, str]]:
    """Path and SVG of every figure."""
    here = Path(__file__).parent
    for module, folder in TEXTS.items():
        if (here / f"{module}.py").is_file():
            for draw in importlib.import_module(f"book.figures.{module}").FIGURES:
                figure = draw()
                svg = figure if isinstance(figure, str) else as_svg(figure)
                yield folder / f"{draw.__name__.replace('_', '-')}.svg", svg


def same(svg: str, other: str) -> bool:
    """Whether a reader would see the same: equal but for numbers, and each number within half a pixel.

    Another machine's floating-point sums differ in the last digits.
    """
    svg, other = HASHED.sub("", svg), HASHED.sub("", other)
    parts, others = NUMBER.split(svg), NUMBER.split(other)
    numbers, other_numbers = (map(float, NUMBER.findall(text)) for text in (svg, other))
    return parts == others and all(abs(a - b) < 0.5 for a, b in zip(numbers, other_numbers, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(prog="make figures")
    parser.add_argument("--check", action="store_true", help="only say which figures differ from their code")
    check = parser.parse_args().check
    stale = [(path, svg) for path, svg in drawn() if not path.is_file() or not same(path.read_text("utf-8"), svg)]
    for path, svg in stale:
        print(("differs from its code: " if check else "wrote ") + path.relative_to(TUTORIAL.parent).as_posix())
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(svg, "utf-8")
    sys.exit(bool(check and stale))


if __name__ == "__main__":
    main()
