"""Figures: those that texts write as HTML for code hosts, those of notebooks, and the text that stands for each."""

import json
import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from . import translation

logger = logging.getLogger(__name__)
PICTURE = re.compile(r"<picture>.*?</picture>|<img\b[^>]*>", re.DOTALL)
DESCRIBED = re.compile(r"\*Figure: (.*?)\*\s*(?:\n\s*\n|\n*</details>|\Z)", re.DOTALL)


def convert(app: Sphinx, doctree: nodes.document) -> None:
    """`<picture>` and `<img>` become images that Sphinx copies; a source for dark mode is shown in dark mode only."""
    for raw in list(doctree.findall(nodes.raw)):
        if not PICTURE.search(raw.astext()):
            continue
        pieces: list[nodes.Node] = []
        end = 0
        for match in PICTURE.finditer(raw.astext()):
            pieces.append(nodes.raw("", raw.astext()[end : match.start()], format="html"))
            pieces += _images(app, match[0], raw)
            end = match.end()
        raw.replace_self([*pieces, nodes.raw("", raw.astext()[end:], format="html")])


class _Attributes(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attributes}))


def _images(app: Sphinx, html: str, raw: nodes.raw) -> list[nodes.Node]:
    parser = _Attributes()
    parser.feed(html)
    dark = next((at["srcset"] for tag, at in parser.found if tag == "source" and "dark" in at.get("media", "")), None)
    image = next((at for tag, at in parser.found if tag == "img"), {})
    shown = [(image.get("src", ""), ["only-light"] if dark else [])] + ([(dark, ["only-dark"])] if dark else [])
    return [_image(app, uri, image, classes, raw) for uri, classes in shown]


def _image(app: Sphinx, uri: str, attributes: dict[str, str], classes: list[str], raw: nodes.raw) -> nodes.image:
    docname = app.env.docname
    relative, absolute = app.env.relfn2path(uri, docname)
    node = nodes.image(uri=relative, candidates={"*": relative}, alt=attributes.get("alt", ""), classes=classes)
    node.source, node.line = raw.source, raw.line
    if "width" in attributes:
        node["width"] = attributes["width"]
    if not Path(absolute).is_file():
        logger.warning("image file not readable: %s", uri, location=raw, type="book")
    else:
        app.env.images.add_file(docname, relative)
        app.env.note_dependency(posixpath.join(app.srcdir, relative))
    return node


def describe(app: Sphinx, doctree: nodes.document) -> None:
    """Give the figures of notebooks their alternative text; report every image that has none."""
    docname = app.env.docname
    path = app.env.doc2path(docname)
    images = list(doctree.findall(nodes.image))
    if path.suffix == ".ipynb":
        drawn = [image for image in images if "jupyter_execute" in image["uri"]]
        for image, (alt, width) in zip(drawn, figures(path), strict=False):
            image["alt"] = translation.of_figure(alt, app.config.language)
            if width:
                image["width"] = f"{width}px"
                image.attributes.pop("height", None)
    for image in images:
        if not image.get("alt", "").strip():
            logger.warning("a figure without alternative text: %s", image["uri"], location=lined(image), type="book")


def lined(node: nodes.Node) -> nodes.Node:
    """The nearest node around it whose line is known."""
    while not node.line and node.parent is not None:
        node = node.parent
    return node


def figures(path: Path) -> list[tuple[str, int | None]]:
    """Alternative text and width of each stored figure: from its metadata, or the next "*Figure: ...*" in the prose."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    prose = ["".join(cell["source"]) if cell["cell_type"] == "markdown" else "" for cell in cells]
    found: list[tuple[str, int | None]] = []
    for number, cell in enumerate(cells):
        told = [" ".join(text.split()) for text in DESCRIBED.findall("\n\n".join(prose[number + 1 : number + 3]))]
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                about = output["metadata"].get("image/png", {})
                alt = about.get("alt") or (told.pop(0) if told else "")
                found.append((alt, about.get("width")))
    return found
