"""What the generated pages read from the lessons' texts."""

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

from mdit_py_plugins.anchors.index import slugify

from testcases.harness.catalog import ROOT, TUTORIAL

HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)\s]+)(\))")
REFERENCE = re.compile(r"(?<![\w/.-])((?:[A-Za-z][\w.-]*/)?[A-Za-z][\w.-]*(?: assignment\d)?)#(\d+)\b")
"""Issue or pull request of a project, such as trl#407 or alibaba/ROLL#447."""
TOP = "../../"
"""From a generated page, in book/made, to the top of the repository."""
FIRST_LINE = re.compile(r"\A# (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """A heading and the lines below it, up to the next heading of any level."""

    title: str
    level: int
    lines: tuple[str, ...]
    anchor: str


def lesson_texts() -> list[Path]:
    return sorted(TUTORIAL.glob("lesson[0-9][0-9]_*/README.md"))


def title_of(path: Path) -> str:
    """The first heading of a text."""
    match = FIRST_LINE.search(path.read_text("utf-8"))
    if match is None:
        raise ValueError(f"{path.relative_to(ROOT)}:1: expected a heading '# ...' in the first line")
    return match[1]


def sections(text: str) -> list[Section]:
    """The text in pieces; anchors as code hosts and MyST make them from headings."""
    found: list[tuple[str, int, list[str]]] = [("", 0, [])]
    fenced = False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        if not fenced and (match := HEADING.match(line)):
            found.append((match[2], len(match[1]), []))
        else:
            found[-1][2].append(line)
    counts: dict[str, int] = {}
    made = []
    for title, level, lines in found[1:]:
        slug = slugify(title.replace("`", "").replace("*", ""))
        number = counts[slug] = counts.get(slug, -1) + 1
        made.append(Section(title, level, tuple(lines), f"{slug}-{number}" if number else slug))
    return made


def with_parts(chosen: Section, among: list[Section]) -> str:
    """A section and its subsections, as text without the first heading."""
    lines = list(chosen.lines)
    for section in among[among.index(chosen) + 1 :]:
        if section.level <= chosen.level:
            break
        lines += [f"{'#' * section.level} {section.title}", *section.lines]
    return "\n".join(lines)


def moved(text: str, folder: str) -> str:
    """The text with its relative links as they read from a generated page."""

    def link(match: re.Match[str]) -> str:
        return match[1] + TOP + posixpath.normpath(posixpath.join(folder, match[2])) + match[3]

    return LINK.sub(link, text)


def table_rows(text: str) -> list[list[str]]:
    """The cells of every table row."""
    rows = [line.strip().strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows]
