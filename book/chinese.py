"""The book's Chinese in a font of its own: without one it is boxes in the PDF, and on many machines.

Write the font anew after a new term or translation:
python -m book.chinese DroidSansFallbackFull.ttf (Debian: fonts-droid-fallback).
"""

import argparse
import re
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

from testcases.harness.catalog import TUTORIAL

FONT = Path(__file__).parent / "static" / "chinese.woff"
CHINESE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]")


def missing(text: str) -> str:
    """Its Chinese characters that the font lacks."""
    return "".join(sorted(set(CHINESE.findall(text)) - _drawn()))


@cache
def _drawn() -> set[str]:
    return set(map(chr, TTFont(FONT).getBestCmap()))


def install() -> None:
    """Let matplotlib draw with it, which reads no WOFF."""
    from matplotlib import font_manager

    with tempfile.NamedTemporaryFile(suffix=".ttf", delete=False) as file:
        font = TTFont(FONT)
        font.flavor = None
        font.save(file)
    font_manager.fontManager.addfont(file.name)


def _texts() -> str:
    """The glossary, the translations, the labels of Sphinx, and that of the button that copies."""
    folders = [Path(__file__).parent, Path(find_spec("sphinx").origin).parent]
    catalogues = [path for folder in folders for path in folder.glob("locale/zh_CN/LC_MESSAGES/*.po")]
    return "复制到剪贴板" + "".join(path.read_text("utf-8") for path in (TUTORIAL / "glossary.md", *catalogues))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m book.chinese")
    parser.add_argument("font", type=Path)
    options = subset.Options(flavor="woff", layout_features=[], hinting=False)
    font = subset.load_font(parser.parse_args().font, options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text="".join(CHINESE.findall(_texts())))
    subsetter.subset(font)
    subset.save_font(font, FONT, options)


if __name__ == "__main__":
    main()
