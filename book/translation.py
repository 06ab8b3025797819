"""What Sphinx leaves out of a translation: the questions of folds, a search in Chinese, the figures of notebooks."""

import base64
import io
import re
from functools import cache
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from docutils import nodes
from sphinx.search.en import SearchEnglish
from sphinx.transforms import SphinxTransform

LOCALE = Path(__file__).parent / "locale"
DRAWN = Path(__file__).parent / "made" / "figures"
"""By language: what the texts of its reader's path show. `make book` draws it (translate.py)."""
SUMMARY = re.compile(r"(<summary>(?:\d+\. )?)(.*?)(</summary>)", re.DOTALL)
MARKDOWN = {"code": "`", "b": "**"}
HAN = "\u2e80-\u9fff\uf900-\ufaff"
WORD = re.compile(rf"[{HAN}]+|(?:(?![{HAN}])\w)+")
NUMBER = re.compile(r"\d+(?:\.\d+)?")


class Summary(nodes.General, nodes.TextElement):
    """The question of a fold: one message of the catalogue."""


class Summaries(SphinxTransform):
    """Take the questions of folds out of their HTML, before messages are collected and replaced (at 10 and 20)."""

    default_priority = 5

    def apply(self, **kwargs: Any) -> None:
        for raw in [node for node in self.document.findall(nodes.raw) if SUMMARY.search(node.astext())]:
            before, opened, asked, closed, after = SUMMARY.split(raw.astext(), maxsplit=1)
            markdown = re.sub(r"</?(code|b)>", lambda tag: MARKDOWN[tag[1]], " ".join(asked.split()))
            question = Summary(markdown, "", nodes.raw("", asked, format="html"))
            pieces = [
                nodes.raw("", before + opened, format="html"),
                question,
                nodes.raw("", closed + after, format="html"),
            ]
            for piece in pieces:
                piece.source, piece.line = raw.source, raw.line or 1
            raw.replace_self(pieces)


class Chinese(SearchEnglish):
    """Latin words as in English; Chinese, which has no spaces, by its characters and by each two that are neighbors.

    Sphinx's own asks for a `ChineseStemmer` that it does not write, and indexes no Chinese without jieba.
    """

    lang = "zh"
    js_splitter_code = r"""
function splitQuery(query) {
  return (query.match(/[HAN]+|(?:(?![HAN])[\p{L}\p{N}_])+/gu) || []).flatMap(word =>
    /[HAN]/.test(word) && word.length > 1 ? [...word].slice(1).map((next, i) => word[i] + next) : [word]);
}
""".replace("HAN", r"\u2e80-\u9fff\uf900-\ufaff")

    def split(self, text: str) -> list[str]:
        found = []
        for word in WORD.findall(text):
            han = re.match(f"[{HAN}]", word)
            found += [*word, *map("".join, zip(word, word[1:], strict=False))] if han else [word]
        return found


def visit(self: Any, node: Summary) -> None:
    """A fold's own tags stand in the HTML around its question."""


@cache
def catalogue(language: str, domain: str) -> Catalog:
    """What stands in a catalogue; empty where the language has none."""
    path = LOCALE / language / "LC_MESSAGES" / f"{domain}.po"
    return read_po(io.BytesIO(path.read_bytes())) if path.is_file() else Catalog(language)


def of_figure(text: str, language: str) -> str:
    """A text of a figure in a language, its numbers in their order; the text itself where nobody translated it."""
    entry = catalogue(language, "figures").get(NUMBER.sub("{}", text))
    return str(entry.string).format(*NUMBER.findall(text)) if entry and entry.string else text


def stored_figures(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The data of each output of a notebook that has a picture."""
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    return [data for data in outputs if "image/png" in data]


def with_figures(cells: list[dict[str, Any]], language: str, name: str) -> list[dict[str, Any]]:
    """A notebook's cells, each stored figure replaced by the language's, where it has been drawn."""
    for number, data in enumerate(stored_figures(cells)):
        path = DRAWN / language / "notebooks" / f"{name}-{number}.png"
        if path.is_file():
            data["image/png"] = base64.b64encode(path.read_bytes()).decode()
    return cells
