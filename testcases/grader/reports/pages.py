"""Static HTML: a page for each student, and one for the instructor.

Every text is escaped by the templates. The pages hold no script and load nothing, and their policy allows neither. A
student's page names no other student.
"""

import base64
import hashlib
import statistics
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ppo_by_hand.core.files import write_text
from testcases.harness.catalog import stories

from .. import status
from ..marking.assignment import Assignment
from ..text import clean
from .sheets import Sheet, number
from .table import Mark

TEMPLATES = Path(__file__).parent / "templates"
TONES = {status.PASSED: "good", **dict.fromkeys(status.ABSENT, "pale")}
ALARMS = (status.TAMPER, status.GRADER)


def write_student(folder: Path, mark: Mark, title: str) -> Path:
    assert mark.sheet
    text = _rendered("student.html", mark=mark, sheet=mark.sheet, heading=clean(title))
    return write_text(folder / f"{mark.sheet.page}.html", text)


def write_class(path: Path, marks: Sequence[Mark], assignment: Assignment) -> Path:
    """The instructor's page: what to look at, the most urgent first, the mistakes by frequency, as students heard of
    them, how many passed each exercise, and everybody."""
    sheets = [mark.sheet for mark in marks if mark.sheet]
    exercises: dict[tuple[str, str], Counter[str]] = {}
    mistakes = Counter[tuple[str, str, str]]()
    for one in (one for sheet in sheets for one in sheet.exercises if sheet.status in (status.GRADED, status.GRADER)):
        exercises.setdefault((one.lesson, one.name), Counter())[one.status] += 1
        mistakes.update((one.lesson, one.name, cause) for cause in set(one.causes))
    urgent = [(mark, kind, why) for mark in marks for kind, why in mark.looks]
    rank = {kind: number for number, kind in enumerate(status.LOOKS)}
    urgent.sort(key=lambda one: (rank.get(one[1], 0), one[0].shown.casefold(), one[0].folder))
    shares = [100 * mark.mark / assignment.total for mark in marks if mark.mark is not None and assignment.total]
    text = _rendered(
        "class.html",
        marks=marks,
        sheets=sheets,
        assignment=assignment,
        exercises=exercises,
        mistakes=sorted(mistakes.items(), key=lambda one: (-one[1], one[0])),
        median=statistics.median(shares) if shares else None,
        urgent=urgent,
        unsafe=any(status.UNSAFE in sheet.flags for sheet in sheets),
    )
    return write_text(path, text)


def write_files(folder: Path, sheet: Sheet) -> None:
    """All that was graded, as files again: a program that compares submissions reads these."""
    own = (folder / sheet.page).resolve()
    for file in sheet.files:
        if (path := (own / file["path"]).resolve()).is_relative_to(own):
            write_text(path, file["text"])


def _rendered(template: str, **shown: Any) -> str:
    """A page with its style sheet, and with a policy that allows this one and no other."""
    css = (TEMPLATES / "style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return _environment().get_template(template).render(css=Markup(css), policy=Markup(policy), **shown)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        number=number,
        words=status.STATUSES,
        tones=TONES,
        alarm_statuses=ALARMS,
        alarms=status.LOOKS[:3],
        stories=stories,
    )
    return environment
