"""The book's order, and from every page the way to the others about the same lesson."""

import json
import re
from pathlib import PurePosixPath
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from testcases.harness.catalog import lesson as read_lesson
from testcases.harness.catalog import lesson_names

from . import pictures, translation

logger = logging.getLogger(__name__)
APPENDIX = ("tutorial/lesson*/more", "tutorial/lesson*/hints")
CONTENTS = {
    "Learn": ["tutorial/README", "tutorial/lesson*/README"],
    "In pictures": ["book/made/pictures", "notebooks/*"],
    "Playgrounds": ["book/playgrounds/README", "book/playgrounds/[0-9]*"],
    "Look up": [
        "tutorial/glossary",
        *(f"book/made/{name}" for name in ("exercises", "mistakes", "messages", "reference")),
        *APPENDIX,
    ],
    "Use and teach": [
        "book/pages/*",
        "testcases/conformance/README",
        "testcases/grader/schema",
        "CONTRIBUTING",
        "CHANGELOG",
    ],
}
LESSON = re.compile(r"(?:tutorial/lesson|notebooks/|book/made/reference_lesson|book/playgrounds/)(\d\d)_")
LONG_CODE = 25
ANSWER = re.compile(r"<details>\s*<summary>.*?</summary>\s*", re.DOTALL)
CHECK = "check"
"""The tag of a cell that checks what an answer claims."""
LONG_CELL = 40
TAG = re.compile(r"<([\w-]+)[^>]*>")
TAGS = set("a b br code details div img kbd noscript p picture source sub summary sup".split())
KINDS = (
    ("Text", r"tutorial/lesson\w+/README"),
    ("Notebook", "notebooks/"),
    ("Playground", "book/playgrounds/"),
    ("Reference", "book/made/reference_lesson"),
    ("Hints", r"tutorial/lesson\w+/hints"),
    ("More", r"tutorial/lesson\w+/more"),
)


def contents(app: Sphinx) -> dict[str, list[str]]:
    """All pages on the site; in print those to read, or with the tag `reference` the others."""
    if not app.tags.has("pdf"):
        return CONTENTS
    reading = CONTENTS | {"Look up": ["tutorial/glossary"], "Appendix": [*APPENDIX]}
    del reading["Use and teach"]
    if not app.tags.has("reference"):
        return reading
    look_up = [name for name in CONTENTS["Look up"] if name not in (*APPENDIX, "tutorial/glossary")]
    return {"Look up": look_up, "Use and teach": CONTENTS["Use and teach"]}


def add_contents(app: Sphinx, docname: str, source: list[str]) -> None:
    """The table of contents is written here, since README.md is read on code hosts as well."""
    if docname != app.config.root_doc:
        return
    for caption, pages in contents(app).items():
        # Only pages below pages are deep: without a depth every page's sidebar begins as a copy of all headings.
        depth = 2 if "book/made/reference" in pages else 1
        options = [":hidden:", ":glob:", f":maxdepth: {depth}", f":caption: {caption}"]
        lines = ["", "```{toctree}", *options, "", *pages, "```", ""]
        source[0] += "\n".join(lines)


def check_notebook(app: Sphinx, docname: str, source: list[str]) -> None:
    """Nothing is executed here, so a notebook that was stored without outputs would show none."""
    path = app.env.doc2path(docname)
    if path.suffix == ".ipynb":
        code = [cell for cell in json.loads(source[0])["cells"] if cell["cell_type"] == "code"]
        if code and not any(cell["outputs"] for cell in code):
            logger.warning("a notebook without outputs: run make notebooks", location=(docname, 1), type="book")


def fold_cells(app: Sphinx, docname: str, source: list[str]) -> None:
    """A figure opens together with the answer to the question before it; what is long, or checks, is out of sight."""
    if app.env.doc2path(docname).suffix == ".ipynb":
        notebook = json.loads(source[0])
        cells = translation.with_figures(notebook["cells"], app.config.language, PurePosixPath(docname).name)
        source[0] = json.dumps(notebook | {"cells": opened_together(cells)})


def opened_together(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cells with the code and figure of each folded answer inside its fold."""
    placed: list[dict[str, Any]] = []
    for cell in cells:
        text, tags = "".join(cell["source"]), cell["metadata"].setdefault("tags", [])
        fold = ANSWER.match(text)
        if cell["cell_type"] == "code" and (text.count("\n") >= LONG_CODE or CHECK in tags):
            tags.append("remove-cell" if CHECK in tags else "hide-input")
        if fold and placed and placed[-1]["cell_type"] == "code":
            shown = placed.pop()
            shown["metadata"]["tags"].append("hide-input")
            summary, rest = {"source": fold[0], "id": f"{cell['id']}-fold"}, {"source": text[fold.end() :]}
            placed += [cell | summary, shown, cell | rest]
        else:
            placed.append(cell)
    return placed


def mark_prose(app: Sphinx, doctree: nodes.document) -> None:
    """On a phone a cell with a sentence is kept wide enough to read; the table then scrolls."""
    for entry in doctree.findall(nodes.entry):
        words = [text for text in entry.findall(nodes.Text) if not isinstance(text.parent, nodes.math)]
        if sum(map(len, words)) > LONG_CELL:
            entry["classes"].append("prose")


def check_html(app: Sphinx, doctree: nodes.document) -> None:
    """`<student>` outside of code is taken for HTML, and nobody sees it; within HTML a backtick is a backtick."""
    for raw in doctree.findall(nodes.raw):
        if raw.get("format") == "html" and "`" in raw.astext():
            logger.warning("a backtick within HTML: write <code>", location=pictures.lined(raw), type="book")
        for tag in TAG.findall(raw.astext()) if raw.get("format") == "html" else ():
            if tag not in TAGS:
                logger.warning("<%s> is no HTML: write `<%s>`", tag, tag, location=pictures.lined(raw), type="book")


def check_code(app: Sphinx, doctree: nodes.document) -> None:
    """A line that begins with `* `, in the middle of some code, ends the code: its two backticks are left as text."""
    for text in doctree.findall(nodes.Text):
        if "`" in text and not isinstance(text.parent, (nodes.FixedTextElement, nodes.literal, nodes.raw)):
            logger.warning("a backtick without its other: %r", str(text)[-60:], location=text.parent, type="book")


def check_titles(app: Sphinx, doctree: nodes.document) -> None:
    """A text has one title: a second one would stand in the table of contents beside the lessons."""
    for section in [node for node in doctree.children if isinstance(node, nodes.section)][1:]:
        logger.warning("a second title, %r: use ##", section[0].astext(), location=section[0], type="book")


def relate(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """What the line below a page's title leads to."""
    match = LESSON.match(pagename)
    if match is None or doctree is None:
        return
    about = [name for name in sorted(app.env.found_docs) if (other := LESSON.match(name)) and other[1] == match[1]]
    related = []
    for label, pattern in KINDS:
        for name in about:
            if re.match(pattern, name):
                uri = None if name == pagename else app.builder.get_relative_uri(pagename, name)
                related.append((label, uri))
    text = next((name for name in about if name.startswith("tutorial/")), "")
    if text and _has_exercises(int(match[1])):
        uri = app.builder.get_relative_uri(pagename, text)
        related.insert(1, ("Exercises", f"{uri if text != pagename else ''}#the-exercises"))
    context["related"] = related
    context["lesson_number"] = int(match[1])


def make_accessible(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Headings of the sidebar have a level, and an empty cell above a column of names is no heading."""
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')
    if "body" in context:
        context["body"] = re.sub(r'<th class="head[^"]*">(<p></p>)?</th>', "<td></td>", context["body"])


def _has_exercises(number: int) -> bool:
    return any(read_lesson(name).number == number and read_lesson(name).exercises for name in lesson_names())
