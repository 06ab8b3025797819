"""Links that the texts do not write: from a name to its reference, a term to the glossary, a project's issue to it."""

import re
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

from testcases.harness.catalog import TUTORIAL, lesson_names
from testcases.harness.catalog import lesson as read_lesson

from .chinese import missing
from .generated.mistakes import repository
from .generated.texts import REFERENCE, slugify, table_rows

logger = logging.getLogger(__name__)
GLOSSARY = "tutorial/glossary"
APART = (nodes.reference, nodes.literal, nodes.title, nodes.literal_block, nodes.math, nodes.raw)
"""Inside these nothing is linked."""
ORDINARY = set("action clip done freeze head margin moments process return score state value".split())
"""Terms that are words of everyday English or code as well: a link would often be wrong."""
FOLDERS = {"notebooks": "book/made/pictures", "playgrounds": "book/playgrounds/README"}


def link_projects(app: Sphinx, doctree: nodes.document) -> None:
    """trl#407 becomes a link to the issue; a project that projects.toml lacks is reported."""
    for text in [text for text in doctree.findall(nodes.Text) if "#" in text and not _inside(text, APART)]:
        pieces: list[nodes.Node] = []
        end = 0
        for match in REFERENCE.finditer(text):
            name = repository(match[1])
            if name is None:
                where = text.parent
                logger.warning("unknown project %r: add it to projects.toml", match[1], location=where, type="book")
                continue
            url = f"https://github.com/{name}/issues/{match[2]}"
            pieces += [nodes.Text(text[end : match.start()]), nodes.reference("", match[0], refuri=url, internal=False)]
            end = match.end()
        if pieces:
            text.parent.replace(text, [*pieces, nodes.Text(text[end:])])


def link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """`compute_gae` in a text leads to its reference."""
    if not docname.startswith(("tutorial/", "notebooks/", "book/p")) or docname == GLOSSARY:
        return
    for literal in list(doctree.findall(nodes.literal)):
        page = _pages().get(literal.astext().removesuffix("()"))
        if page and page in app.env.all_docs and not _inside(literal, (nodes.reference, nodes.title)):
            anchor = re.sub(r"\W", "", literal.astext().partition(".")[0].lower())
            reference = nodes.reference(
                "", "", internal=True, refuri=_uri(app, docname, page, anchor), classes=["name"]
            )
            literal.replace_self(reference)
            reference += literal


@cache
def _pages() -> dict[str, str]:
    """Public name or exercise -> the page with its reference."""
    pages = {}
    for lesson in lesson_names():
        about = read_lesson(lesson)
        for name in [*about.names, *about.exercises]:
            if "." not in about.names.get(name, ""):
                pages.setdefault(name, f"book/made/reference_{lesson}")
    return pages


def link_terms(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """The first use of a term that another lesson explains, at most one in a paragraph; the glossary's own links."""
    if docname == GLOSSARY:
        _link_lessons(app, doctree)
    own = re.match(r"(?:tutorial/lesson|notebooks/|book/playgrounds/)(\d\d)", docname)
    if own is None:
        return
    terms = _terms() if GLOSSARY in app.env.all_docs else {}
    waiting = {alias: entry for alias, entry in terms.items() if entry["lesson"] != str(int(own[1]))}
    for paragraph in doctree.findall(nodes.paragraph):
        if waiting and not _inside(paragraph, (nodes.table,)):
            _link_first(app, paragraph, docname, waiting)


def _link_first(app: Sphinx, paragraph: nodes.paragraph, docname: str, waiting: dict[str, dict[str, str]]) -> None:
    for text in [text for text in paragraph.findall(nodes.Text) if not _inside(text, APART)]:
        match = next((match for match in _any_term().finditer(text) if match[1] in waiting), None)
        if match is None:
            continue
        entry = waiting[match[1]]
        uri = _uri(app, docname, GLOSSARY, entry["anchor"])
        reference = nodes.reference(
            "", match[0], internal=True, refuri=uri, reftitle=f"{entry['chinese']}: {entry['what']}", classes=["term"]
        )
        text.parent.replace(text, [nodes.Text(text[: match.start()]), reference, nodes.Text(text[match.end() :])])
        for alias in [alias for alias, other in waiting.items() if other["anchor"] == entry["anchor"]]:
            del waiting[alias]
        return


@cache
def _any_term() -> re.Pattern[str]:
    """One for all pages: each is long to compile."""
    return re.compile(r"(?<![\w-])(" + "|".join(sorted(_terms(), key=len, reverse=True)) + r")(s?)(?![\w-])")


@cache
def _terms() -> dict[str, dict[str, str]]:
    """Every way to write a term -> its entry."""
    terms = {}
    rows = table_rows((TUTORIAL / "glossary.md").read_text("utf-8"))
    for term, chinese, what, lesson in (row for row in rows if len(row) == 4):
        if term == "term" or set(term) <= set("-"):
            continue
        entry = {"anchor": anchor_of(term), "chinese": chinese, "what": what.replace("`", ""), "lesson": lesson}
        plain = re.sub(r"\s*\(.*?\)", "", term)
        for alias in [*plain.split(", "), *re.findall(r"\(([A-Z]\w*)\)", term)]:
            if len(alias) > 2 and alias not in ORDINARY:
                terms[alias] = entry
    return terms


def anchor_of(term: str) -> str:
    return "term-" + slugify(term.replace("`", ""))


def _link_lessons(app: Sphinx, doctree: nodes.document) -> None:
    """In the glossary: an anchor at each term, and the number of its lesson as a link."""
    lessons = {str(read_lesson(name).number): f"tutorial/{name}/README" for name in lesson_names()}
    lessons["map"] = "tutorial/README"
    for row in doctree.findall(nodes.row):
        cells = [cell for cell in row.children if isinstance(cell, nodes.entry)]
        if len(cells) != 4 or isinstance(row.parent, nodes.thead):
            continue
        row["ids"].append(anchor_of(cells[0].astext()))
        page = lessons.get(cells[3].astext())
        for text in list(cells[3].findall(nodes.Text)) if page in app.env.all_docs else ():
            uri = _uri(app, GLOSSARY, page)
            text.parent.replace(text, nodes.reference("", text.astext(), internal=True, refuri=uri))


def mark_chinese(app: Sphinx, doctree: nodes.document) -> None:
    """The second column of the glossary, whose characters the book's font has to have."""
    for row in doctree.findall(nodes.row) if app.env.docname == GLOSSARY else ():
        cells = [cell for cell in row.children if isinstance(cell, nodes.entry)]
        if len(cells) == 4 and not isinstance(row.parent, nodes.thead):
            cells[1]["classes"].append("language-zh")  # becomes its lang attribute
            if lacking := missing(cells[1].astext()):
                message = "the book's font lacks %s: see book/chinese.py"
                logger.warning(message, lacking, location=cells[1], type="book")


def link_folders(app: Sphinx, doctree: nodes.document) -> None:
    """A link to a folder of the repository leads to the page that lists what is in it, or is only text."""
    for link in list(doctree.findall(addnodes.pending_xref)):
        path = Path(app.env.relfn2path(link["reftarget"], app.env.docname)[1])
        if link.get("refdomain") is not None:
            continue
        if path.is_dir() and path.name in FOLDERS:
            link["refdomain"], link["reftarget"], link["reftargetid"] = "doc", FOLDERS[path.name], None
        elif path.is_dir():
            link.replace_self(link.children)
        else:
            app.env.note_reread()  # what is missing now may be there at the next build


def _uri(app: Sphinx, docname: str, page: str, anchor: str = "") -> str:
    uri = app.builder.get_relative_uri(docname, page)
    return f"{uri}#{anchor}" if anchor and "#" not in uri else uri


def _inside(node: nodes.Node, kinds: tuple[type, ...]) -> bool:
    parent = node.parent
    while parent is not None:
        if isinstance(parent, kinds):
            return True
        parent = parent.parent
    return False
