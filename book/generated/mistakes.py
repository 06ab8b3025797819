"""What people get wrong, from all texts, on one page; and every project's issue that a text refers to."""

import re
import tomllib
from functools import cache
from pathlib import Path

from testcases.harness.catalog.lessons import ROOT

from .texts import REFERENCE, TOP, lesson_texts, moved, sections, title_of, with_parts

TITLE = "What people get wrong"
ELSEWHERE = "The rest of this list is in [more.md](more.md#what-people-get-wrong-the-rest)."
PROJECTS = Path(__file__).with_name("projects.toml")
INTRODUCTION = f"""# {TITLE}

Here are the mistakes of all lessons on one page, so that you can search it for the symptom that you have. A name with a
number is an issue or a pull request of a real project in which somebody found this mistake. The [last
section](#by-project) lists all of them by project.
"""


def pages() -> dict[str, str]:
    parts, mentioned = [INTRODUCTION], {}
    for lesson in lesson_texts():
        folder = lesson.parent.relative_to(ROOT).as_posix()
        for path in filter(Path.is_file, (lesson, lesson.with_name("more.md"))):
            found = sections(path.read_text("utf-8"))
            for section in found:
                link = f"{TOP}{folder}/{path.name}#{section.anchor}"
                where = f"[lesson {int(lesson.parent.name[6:8])}]({link})"
                for name, number in REFERENCE.findall("\n".join([section.title, *section.lines])):
                    mentioned.setdefault((repository(name) or name).lower(), {}).setdefault((name, int(number)), where)
                if section.title == TITLE:
                    parts.append(f"## [{title_of(path)}]({link})\n")
                if section.title.startswith(TITLE):
                    parts.append(moved(with_parts(section, found), folder).replace(ELSEWHERE, ""))
    return {"mistakes.md": "\n".join([*parts, _by_project(mentioned)])}


def _by_project(mentioned: dict[str, dict[tuple[str, int], str]]) -> str:
    lines = ["## By project", "", "| project | issue or pull request, and where it is explained |", "|---|---|"]
    for project, references in sorted(mentioned.items()):
        ordered = sorted(references.items(), key=lambda item: item[0][1])
        cells = ", ".join(f"{name}#{number} ({where})" for (name, number), where in ordered)
        lines.append(f"| {project} | {cells} |")
    return "\n".join([*lines, ""])


@cache
def _names() -> dict[str, str]:
    return {name.lower(): full for name, full in tomllib.loads(PROJECTS.read_text("utf-8")).items()}


def repository(name: str) -> str | None:
    """Owner and name of the project that a text calls so; None where nobody has written it down."""
    known = _names().get(name.lower())
    return known or (name if re.fullmatch(r"[\w.-]+/[\w.-]+", name) else None)
