"""The glossary's Chinese in a font of the book's own: without one it is boxes in the PDF, and on many machines.

Write the font anew after a new term: python -m book.chinese DroidSansFallbackFull.ttf (Debian: fonts-droid-fallback).
"""

import argparse
import re
from functools import cache
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

from testcases.engine.catalog import TUTORIAL

FONT = Path(__file__).parent / "static" / "chinese.woff"
CHINESE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")


def missing(text: str) -> str:
    """Its Chinese characters that the font lacks."""
    return "".join(sorted(set(CHINESE.findall(text)) - _drawn()))


@cache
def _drawn() -> set[str]:
    return set(map(chr, TTFont(FONT).getBestCmap()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m book.chinese")
    parser.add_argument("font", type=Path)
    options = subset.Options(flavor="woff", layout_features=[], hinting=False)
    font = subset.load_font(parser.parse_args().font, options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text="".join(CHINESE.findall((TUTORIAL / "glossary.md").read_text("utf-8"))))
    subsetter.subset(font)
    subset.save_font(font, FONT, options)


if __name__ == "__main__":
    main()
