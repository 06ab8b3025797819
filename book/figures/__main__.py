"""Write every figure of the texts: python -m book.figures [--check]."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from .style import as_svg

TUTORIAL = Path(__file__).resolve().parents[2] / "tutorial"
TEXTS = {"course_map": TUTORIAL / "figures"}
"""Module -> folder of its figures."""
TEXTS |= {path.name: path / "figures" for path in sorted(TUTORIAL.glob("lesson[0-9][0-9]_*"))}


def drawn() -> Iterator[tuple[Path, str]]:
    """Path and SVG of every figure."""
    here = Path(__file__).parent
    for module, folder in TEXTS.items():
        if (here / f"{module}.py").is_file():
            for name, draw in importlib.import_module(f"book.figures.{module}").FIGURES.items():
                yield folder / f"{name}.svg", as_svg(*draw())


def main() -> None:
    parser = argparse.ArgumentParser(prog="make figures")
    parser.add_argument("--check", action="store_true", help="only say which figures differ from their code")
    check = parser.parse_args().check
    stale = [(path, svg) for path, svg in drawn() if not path.is_file() or path.read_text("utf-8") != svg]
    for path, svg in stale:
        print(("differs from its code: " if check else "wrote ") + path.relative_to(TUTORIAL.parent).as_posix())
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(svg, "utf-8")
    sys.exit(bool(check and stale))


if __name__ == "__main__":
    main()
