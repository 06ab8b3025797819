"""The index of exercises: points, difficulty and minutes of each, with links to its text and its reference page."""

import re

from testcases.harness.catalog.lessons import ROOT, TUTORIAL, lesson_names, section_for
from testcases.harness.catalog.lessons import lesson as read_lesson
from testcases.harness.suite.runner import entries

from .texts import TOP, sections, table_rows, title_of

PLAYGROUNDS = ROOT / "book" / "playgrounds"
INTRODUCTION = """# Exercises

Here's every exercise of the course. You earn its points by passing its tests. The first number of minutes is for people
who use PyTorch every day, and the second for people to whom it's new. The first link leads to the explanation, and the
second to the reference, which has shapes, errors and the solution in a fold.
"""


def pages() -> dict[str, str]:
    parts = [INTRODUCTION]
    for lesson in lesson_names():
        if (TUTORIAL / lesson / "README.md").is_file():
            parts.append(_table(lesson))
    return {"exercises.md": "\n".join(parts)}


def _table(lesson: str) -> str:
    path = TUTORIAL / lesson / "README.md"
    text = path.read_text("utf-8")
    effort = {row[-4].strip("`"): row[-2:] for row in table_rows(text) if len(row) >= 4 and "●" in row[-2]}
    anchors = {section.title.replace("`", "").replace("*", ""): section.anchor for section in sections(text)}
    lines = [f"## [{title_of(path)}]({TOP}tutorial/{lesson}/README.md)", "", _elsewhere(lesson), ""]
    lines += ["| exercise | points | difficulty | minutes | look up |", "|---|---|---|---|---|"]
    for exercise in read_lesson(lesson).exercises:
        points = sum(entry.points for entry in entries(lesson) if entry.exercise == exercise)
        difficulty, minutes = effort.get(exercise, ["", ""])
        heading = section_for(lesson, exercise)
        link = f"{TOP}tutorial/{lesson}/README.md" + (f"#{anchors[heading]}" if heading in anchors else "")
        page = f"reference_{lesson}.md#{_anchor(exercise)}"
        lines.append(f"| [{exercise}]({link}) | {points} | {difficulty} | {minutes} | [reference]({page}) |")
    return "\n".join([*lines, ""])


def _elsewhere(lesson: str) -> str:
    """Where the same lesson can be seen and moved."""
    number = lesson[6:8]
    notebooks = [(f"notebooks/{path.name}", "notebook") for path in (ROOT / "notebooks").glob(f"{number}_*.ipynb")]
    moving = [(f"book/playgrounds/{path.name}", "playground") for path in PLAYGROUNDS.glob(f"{number}_*.md")]
    return " · ".join(f"[{name}]({TOP}{path})" for path, name in notebooks + moving)


def _anchor(exercise: str) -> str:
    """Of the heading on the reference page: that of the function, or of the class whose method it is."""
    return re.sub(r"\W", "", exercise.partition(".")[0].lower())
