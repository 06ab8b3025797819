"""What the book adds to Sphinx: formulas, links between its parts, and the checks that make a build fail."""

import os
import re
import shutil
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish
from sphinx.util import logging

from . import links, mathml, navigation, pictures, playgrounds, translation

logger = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_search_language(_English)
    app.add_search_language(translation.Chinese)
    app.add_node(translation.Summary, html=(translation.visit, translation.visit))
    app.add_transform(translation.Summaries)
    app.add_html_math_renderer("mathml", (_visit_math, None), (_visit_math_block, None))
    app.connect("source-read", navigation.add_contents)
    app.connect("source-read", navigation.check_notebook)
    app.connect("source-read", navigation.fold_cells)
    app.connect("doctree-read", navigation.check_titles)
    app.connect("doctree-read", navigation.check_html)
    app.connect("doctree-read", navigation.check_code)
    app.connect("doctree-read", navigation.mark_prose)
    app.connect("doctree-read", pictures.convert)
    app.connect("doctree-read", pictures.describe)
    app.connect("doctree-read", _check_math)
    app.connect("doctree-read", _keep_stops)
    app.connect("doctree-read", links.link_projects)
    app.connect("doctree-read", links.link_folders)
    app.connect("doctree-read", links.mark_chinese)
    app.connect("doctree-resolved", links.link_names)
    app.connect("doctree-resolved", links.link_terms)
    app.connect("html-page-context", navigation.relate)
    app.connect("html-page-context", navigation.make_accessible, priority=900)
    app.connect("html-page-context", playgrounds.add_scripts)
    app.connect("builder-inited", playgrounds.write_recorded)
    app.connect("builder-inited", _write_font)
    app.connect("build-finished", _copy_first_page)
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": zlib.crc32(sources)}


class _English(SearchEnglish):
    """Each word is stemmed once, not once a page."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.stem = cache(self.stem)  # type: ignore[method-assign]


def _visit_math(self: Any, node: nodes.math) -> None:
    # A browser does not break a line inside a formula, and a phone has room for about this much.
    kind = "long-formula" if len(node.astext()) > 60 else "formula-and-stop"
    self.body.append(f'<span class="{kind}">{mathml.mathml(node.astext(), block=False)}{node.get("after", "")}</span>')
    raise nodes.SkipNode


def _visit_math_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{mathml.mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def _check_math(app: Sphinx, doctree: nodes.document) -> None:
    """A formula that does not typeset fails the build here, where its line is known."""
    for node in list(doctree.findall(lambda node: isinstance(node, (nodes.math, nodes.math_block)))):
        try:
            mathml.mathml(node.astext(), isinstance(node, nodes.math_block))
        except mathml.NotTypeset as error:
            logger.warning("formula: expected %s, got %r", error, node.astext(), location=node, type="book")
            node.replace_self(nodes.literal(text=node.astext()))


def _keep_stops(app: Sphinx, doctree: nodes.document) -> None:
    """A browser may break a line between a formula and a full stop behind it, so the stop goes where the formula is."""
    for node in list(doctree.findall(nodes.math)):
        text = node.next_node(descend=False, siblings=True)
        if isinstance(text, nodes.Text) and (stops := re.match(r"[.,;:!?)]+", text)):
            node["after"] = stops[0]
            text.parent.replace(text, nodes.Text(text[stops.end() :]))


def _write_font(app: Sphinx) -> None:
    if app.builder.format == "html":
        path = Path(app.outdir) / "_static" / "math.woff"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            mathml.write_font(path)


def _copy_first_page(app: Sphinx, error: Exception | None) -> None:
    """A static host opens index.html."""
    if error is None and app.builder.name == "html":
        shutil.copy(Path(app.outdir) / "README.html", Path(app.outdir) / "index.html")
        (Path(app.outdir) / ".nojekyll").touch()
        os.utime(app.outdir)
