"""Links that the texts do not write: from a name to its reference, a term to the glossary, a project's issue to it."""

import re
import tomllib
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

from testcases.harness.catalog import TUTORIAL, lesson_names, read_lesson

from .stage import slugify

logger = logging.getLogger(__name__)
GLOSSARY = "tutorial/glossary"
REFERENCE = re.compile(r"(?<![\w/.-])((?:[A-Za-z][\w.-]*/)?[A-Za-z][\w.-]*(?: assignment\d)?)#(\d+)\b")
"""Issue or pull request of a project, such as trl#407 or alibaba/ROLL#447."""
PROJECTS = Path(__file__).with_name("projects.toml")
OWN = re.compile(r"(?:tutorial/lesson|notebooks/|book/playgrounds/)(\d\d)")
APART = (nodes.reference, nodes.literal, nodes.title, nodes.literal_block, nodes.math, nodes.raw)
"""Inside these nothing is linked."""
ORDINARY = set("action clip done freeze head margin moments process return score state value".split())
"""Terms that are words of everyday English or code as well: a link would often be wrong."""


def link_projects(app: Sphinx, doctree: nodes.document) -> None:
    """trl#407 becomes a link to the issue; a project that projects.toml lacks is reported."""
    for text in [text for text in doctree.findall(nodes.Text) if "#" in text and not _inside(text, APART)]:
        pieces: list[nodes.Node] = []
        end = 0
        for match in REFERENCE.finditer(text):
            name = _repository(match[1])
            if name is None:
                where = text.parent
                logger.warning("unknown project %r: add it to projects.toml", match[1], location=where, type="book")
                continue
            url = f"https://github.com/{name}/issues/{match[2]}"
            pieces += [nodes.Text(text[end : match.start()]), nodes.reference("", match[0], refuri=url, internal=False)]
            end = match.end()
        text.parent.replace(text, [*pieces, nodes.Text(text[end:])])


@cache
def _names() -> dict[str, str]:
    return {name.lower(): full for name, full in tomllib.loads(PROJECTS.read_text("utf-8")).items()}


def _repository(name: str) -> str | None:
    """Owner and name of the project that a text calls so; None where nobody has written it down."""
    known = _names().get(name.lower())
    return known or (name if re.fullmatch(r"[\w.-]+/[\w.-]+", name) else None)


def link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """`compute_gae` in a text leads to its reference."""
    if not docname.startswith(("tutorial/", "notebooks/", "book/p")) or docname == GLOSSARY:
        return
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext().removesuffix("()")
        page = _pages().get(name)
        if page in app.env.all_docs and not _inside(literal, (nodes.reference, nodes.title)):
            anchor = re.sub(r"\W", "", name.partition(".")[0].lower())
            link = nodes.reference("", "", internal=True, refuri=_uri(app, docname, page, anchor), classes=["name"])
            literal.replace_self(link)
            link += literal


@cache
def _pages() -> dict[str, str]:
    """Public name or exercise -> the page with its reference."""
    pages: dict[str, str] = {}
    for lesson in lesson_names():
        about = read_lesson(lesson)
        for name in [*about.names, *about.exercises]:
            if "." not in about.names.get(name, ""):
                pages.setdefault(name, f"book/made/reference_{lesson}")
    return pages


def link_terms(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """The first use of a term that another lesson explains, at most one in a paragraph."""
    if not (own := OWN.match(docname)) or GLOSSARY not in app.env.all_docs:
        return
    known = {alias: entry for alias, entry in _terms().items() if entry[0] != str(int(own[1]))}
    for paragraph in doctree.findall(nodes.paragraph):
        texts = [] if _inside(paragraph, (nodes.table,)) else paragraph.findall(nodes.Text)
        for text in [text for text in texts if not _inside(text, APART)]:
            if match := next((match for match in _any_term().finditer(text) if match[1] in known), None):
                _, anchor, title = entry = known[match[1]]
                uri, known = _uri(app, docname, GLOSSARY, anchor), {a: one for a, one in known.items() if one != entry}
                link = nodes.reference("", match[0], internal=True, refuri=uri, reftitle=title, classes=["term"])
                text.parent.replace(text, [nodes.Text(text[: match.start()]), link, nodes.Text(text[match.end() :])])
                break


@cache
def _any_term() -> re.Pattern[str]:
    """One for all pages, since it takes long to compile."""
    return re.compile(r"(?<![\w-])(" + "|".join(sorted(_terms(), key=len, reverse=True)) + r")(s?)(?![\w-])")


@cache
def _terms() -> dict[str, tuple[str, str, str]]:
    """Every way to write a term -> its lesson, its anchor in the glossary, and what it says."""
    terms = {}
    for line in (TUTORIAL / "glossary.md").read_text("utf-8").splitlines():
        row = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(row) != 4 or row[0] == "term" or set(row[0]) <= set("-"):
            continue
        term, chinese, what, lesson = row
        plain = re.sub(r"\s*\(.*?\)", "", term)
        for alias in [*plain.split(", "), *re.findall(r"\(([A-Z]\w*)\)", term)]:
            if len(alias) > 2 and alias not in ORDINARY:
                terms[alias] = lesson, anchor_of(term), f"{chinese}: {what.replace('`', '')}"
    return terms


def anchor_of(term: str) -> str:
    return "term-" + slugify(term.replace("`", ""))


def number_glossary(app: Sphinx, doctree: nodes.document) -> None:
    """In the glossary: an anchor at each term, the language of its Chinese name, and its lesson as a link."""
    lessons = {str(read_lesson(name).number): f"{name}/README.md" for name in lesson_names()}
    lessons["map"] = "README.md"
    for row in doctree.findall(nodes.row) if app.env.docname == GLOSSARY else ():
        cells = [cell for cell in row.children if isinstance(cell, nodes.entry)]
        if len(cells) == 4 and not isinstance(row.parent, nodes.thead):
            row["ids"].append(anchor_of(cells[0].astext()))
            cells[1]["classes"].append("language-zh")  # becomes its lang attribute
            page = lessons.get(cells[3].astext())
            for text in list(cells[3].findall(nodes.Text)) if page else ():
                uri = page.replace(".md", ".html")
                text.parent.replace(text, nodes.reference("", text.astext(), internal=True, refuri=uri))


def _uri(app: Sphinx, docname: str, page: str, anchor: str) -> str:
    return f"{app.builder.get_relative_uri(docname, page)}#{anchor}"


def _inside(node: nodes.Node, kinds: tuple[type, ...]) -> bool:
    while (node := node.parent) is not None:
        if isinstance(node, kinds):
            return True
    return False
