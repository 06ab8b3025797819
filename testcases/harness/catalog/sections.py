"""Which section of a lesson's text explains an exercise, and the stories behind the suspects."""

import re
import tomllib
from functools import cache

from .lessons import TESTCASES, TUTORIAL

HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
DEFAULT = "The exercises"


def _lines(lesson: str) -> list[str]:
    """The lines of a lesson's README; none while it is not written."""
    path = TUTORIAL / lesson / "README.md"
    return path.read_text("utf-8").splitlines() if path.is_file() else []


@cache
def _outline(lesson: str) -> tuple[tuple[str, int, int], ...]:
    """Each heading without the marks of Markdown, its line, from 0, and its level."""
    found, fenced = [], False
    for number, line in enumerate(_lines(lesson)):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and (match := HEADING.match(line)):
            found.append((match[2].replace("`", "").replace("*", ""), number, len(match[1])))
    return tuple(found)


def headings(lesson: str) -> tuple[str, ...]:
    """The headings of a lesson's README, without the marks of Markdown; none while it is not written."""
    return tuple(text for text, _, _ in _outline(lesson))


def section_for(lesson: str, exercise: str, report: str = "") -> str:
    """The heading that names an exercise, or its class; of several the one that names what the report names, too."""
    for name in (exercise, exercise.rpartition(".")[2], exercise.partition(".")[0]):
        found = [heading for heading in headings(lesson) if re.search(rf"\b{re.escape(name)}\b", heading)]
        if found:
            others = [set(re.findall(r"\w+_\w+", heading)) - {name} for heading in found]
            said = set(re.findall(r"\w+_\w+", report))
            return next((one for one, named in zip(found, others, strict=True) if named & said), found[0])
    return DEFAULT


def section_of(lesson: str, exercise: str) -> str:
    """The section that explains an exercise, and where it is."""
    heading = section_for(lesson, exercise)
    starts = [number for text, number, _ in _outline(lesson) if text == heading]
    if not starts:
        return f"Read {TUTORIAL / lesson / 'README.md'}"
    ends = [number for _, number, level in _outline(lesson) if number > starts[0] and level < 4]
    lines = _lines(lesson)[starts[0] : ends[0] if ends else None]
    return "\n".join([*lines, f"(tutorial/{lesson}/README.md, line {starts[0] + 1})"])


@cache
def stories(lesson: str) -> dict[str, dict[str, str]]:
    """The real bug behind each suspect, by exercise: `source`, such as "huggingface/trl#1", and `story`."""
    path = TESTCASES / lesson / "stories.toml"
    return tomllib.loads(path.read_text("utf-8")) if path.is_file() else {}
