"""What the book adds to Sphinx: contents, folds of notebooks, links, and a line that joins the pages of a lesson."""

import json
import re
import zlib
from fnmatch import filter as matching
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from . import links
from .playgrounds import RECORDED

HERE = Path(__file__).parent
LONG_CODE, LONG_CELL, LONG_FORMULA = 25, 40, 60
"""Lines that a notebook folds away; characters of a cell that is read as prose; of a formula too wide for a phone."""
ANSWER = re.compile(r"<details>\s*<summary>.*?</summary>\s*", re.DOTALL)
CHECK = "check"
"""The tag of a cell that checks what an answer claims."""
LESSON = re.compile(r"(?:tutorial/lesson|notebooks/|book/made/reference_lesson|book/playgrounds/)(\d\d)_")
ABOUT = {
    "Text": "tutorial/lesson{}_*/README",
    "Notebook": "notebooks/{}_*",
    "Playground": "book/playgrounds/{}_*",
    "Reference": "book/made/reference_lesson{}_*",
    "Hints": "tutorial/lesson{}_*/hints",
    "More": "tutorial/lesson{}_*/more",
}
SCRIPTS = ("recorded", "arithmetic", "controls", "playgrounds")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write_recorded)
    app.connect("source-read", add_contents)
    app.connect("source-read", fold_cells)
    app.connect("doctree-read", fit_a_phone)
    app.connect("doctree-read", links.link_projects)
    app.connect("doctree-read", links.number_glossary)
    app.connect("doctree-resolved", links.link_names)
    app.connect("doctree-resolved", links.link_terms)
    app.connect("html-page-context", relate)
    sources = b"".join(path.read_bytes() for path in sorted(HERE.glob("*.*")))
    return {"parallel_read_safe": True, "parallel_write_safe": True, "env_version": zlib.crc32(sources)}


def write_recorded(app: Sphinx) -> None:
    """The recorded runs of a playground as a script, since a page opened from disk may not read other files."""
    path = Path(app.outdir) / "_static" / "playgrounds" / "recorded.js"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"const recorded = {RECORDED.read_text('utf-8').strip()};\n", "utf-8")


def add_contents(app: Sphinx, docname: str, source: list[str]) -> None:
    """The first page of the book is not README.md, which speaks to people who have the files before them."""
    if docname == app.config.root_doc:
        source[0] = "\n".join((HERE / name).read_text("utf-8") for name in ("welcome.md", "contents.md"))


def fold_cells(app: Sphinx, docname: str, source: list[str]) -> None:
    """Prepare a notebook's cells for MyST-NB."""
    if app.env.doc2path(docname).suffix == ".ipynb":
        notebook = json.loads(source[0])
        source[0] = json.dumps(notebook | {"cells": opened_together(notebook["cells"])})


def opened_together(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cells, code and figure of each folded answer inside its fold; what is long, or checks, is out of sight."""
    placed: list[dict[str, Any]] = []
    for cell in cells:
        text, tags = "".join(cell["source"]), cell["metadata"].setdefault("tags", [])
        fold = ANSWER.match(text)
        if cell["cell_type"] == "code" and (text.count("\n") >= LONG_CODE or CHECK in tags):
            tags.append("remove-cell" if CHECK in tags else "hide-input")
        for output in cell.get("outputs", []):  # MyST-NB takes width and height from there, but no alternative text
            if alt := output.get("metadata", {}).get("image/png", {}).get("alt"):
                cell["metadata"]["mystnb"] = {"image": {"alt": alt}}
        if fold and placed and placed[-1]["cell_type"] == "code":
            shown = placed.pop()
            shown["metadata"]["tags"].append("hide-input")
            summary, rest = {"source": fold[0], "id": f"{cell['id']}-fold"}, {"source": text[fold.end() :]}
            placed += [cell | summary, shown, cell | rest]
        else:
            placed.append(cell)
    return placed


def fit_a_phone(app: Sphinx, doctree: nodes.document) -> None:
    """A cell with a sentence stays wide enough to read, long formulas scroll, and no line begins with a full stop."""
    for entry in doctree.findall(nodes.entry):
        words = [text for text in entry.findall(nodes.Text) if not isinstance(text.parent, nodes.math)]
        if sum(map(len, words)) > LONG_CELL:
            entry["classes"].append("prose")
    for formula in list(doctree.findall(nodes.math)):
        if len(formula.astext()) > LONG_FORMULA:
            formula["classes"].append("long-formula")
        after = formula.next_node(descend=False, siblings=True)
        if isinstance(after, nodes.Text) and (stops := re.match(r"[.,;:!?)]+", after)):
            after.parent.replace(after, nodes.Text(after[stops.end() :]))
            together = nodes.inline("", "", classes=["formula-and-stop"])
            formula.replace_self(together)
            together += [formula, nodes.Text(stops[0])]


def relate(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """What the line above a page's title leads to; and the scripts of a playground."""
    if doctree is None or not (lesson := LESSON.match(pagename)):
        return
    pages = [(label, page) for label, pattern in ABOUT.items() for page in _found(app, pattern.format(lesson[1]))]
    context["lesson_number"] = int(lesson[1])
    context["related"] = [
        (label, None if page == pagename else app.builder.get_relative_uri(pagename, page)) for label, page in pages
    ]
    if pagename.startswith("book/playgrounds/"):
        for name in SCRIPTS:
            app.add_js_file(f"playgrounds/{name}.js", loading_method="defer")


def _found(app: Sphinx, pattern: str) -> list[str]:
    return sorted(matching(app.env.found_docs, pattern))
