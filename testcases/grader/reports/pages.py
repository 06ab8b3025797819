"""Static HTML: a page for each student, and one for the instructor.

Every text is escaped by the templates. The pages hold no script and load nothing, and their policy allows neither. A
student's page names no other student.
"""

import base64
import hashlib
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ppo_by_hand.core.files import write_text
from testcases.harness.catalog import stories

from .. import status
from ..intake.selection import course_files
from ..marking.assignment import Assignment
from ..text import clean
from .sheets import Sheet, number
from .table import Mark

TEMPLATES = Path(__file__).parent / "templates"
TONES = {status.PASSED: "good", **dict.fromkeys(status.ABSENT, "pale")}
ALARMS = (status.TAMPER, status.GRADER)
ORDER = (
    status.NO_VERDICT,
    status.TAMPER,
    status.UNWRITTEN,
    status.LOAD,
    status.ENCODING,
    status.NOT_GRADED,
    status.CLOSED,
    status.KILLED,
    status.OWNER,
    status.NOT_FOUND,
    status.CONFLICT,
    status.SECOND,
    status.NEAR,
    status.OLDER,
    status.LONG,
    status.GIVEN,
)
"""What an instructor should look at, the most urgent first."""
TO_DO = {
    status.SECOND: " (remove what does not count, and run again)",
    status.NEAR: " (if it was meant, rename it, and run again)",
}


def statuses(sheets: Iterable[Sheet]) -> dict[tuple[str, str], Counter[str]]:
    """Of each exercise, how many submissions have which."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for one in (one for sheet in sheets for one in sheet.exercises):
        found.setdefault((one.lesson, one.name), Counter())[one.status] += 1
    return found


def mistakes(sheets: Iterable[Sheet]) -> list[tuple[int, str, str, str]]:
    """Count, lesson, exercise and cause, as students heard it, the most frequent first."""
    heard = (one for sheet in sheets for one in sheet.exercises if one.status != status.GRADER)
    found = Counter((one.lesson, one.name, cause) for one in heard for cause in set(one.causes))
    return sorted(((count, *of) for of, count in found.items()), key=lambda row: (-row[0], *row[1:]))


def looks(marks: Iterable[Mark]) -> list[tuple[Mark, str, str]]:
    """Whatever a person has to see, what and why, the most urgent first."""
    found = [(mark, kind, why + TO_DO.get(kind, "")) for mark in marks for kind, why in mark.looks]
    rank = {kind: number for number, kind in enumerate(ORDER)}
    return sorted(found, key=lambda one: (rank.get(one[1], len(rank)), one[0].shown.casefold(), one[0].folder))


def write_student(folder: Path, mark: Mark, title: str) -> Path:
    assert mark.sheet
    named = {"mark": mark, "sheet": mark.sheet, "heading": clean(title)}
    text = _environment().get_template("student.html").render(**named, **_style())
    return write_text(folder / f"{mark.sheet.page}.html", text)


def write_class(path: Path, marks: Sequence[Mark], assignment: Assignment) -> Path:
    """The instructor's page."""
    sheets = [mark.sheet for mark in marks if mark.sheet]
    asked = [sheet for sheet in sheets if sheet.status in (status.GRADED, status.GRADER)]
    shares = [100 * mark.mark / assignment.total for mark in marks if mark.mark is not None and assignment.total]
    text = (
        _environment()
        .get_template("class.html")
        .render(
            marks=marks,
            sheets=sheets,
            assignment=assignment,
            exercises=statuses(asked),
            mistakes=mistakes(asked),
            median=statistics.median(shares) if shares else None,
            mean=statistics.fmean(shares) if shares else None,
            urgent=looks(marks),
            unsafe=any(status.UNSAFE in sheet.flags for sheet in sheets),
            **_style(),
        )
    )
    return write_text(path, text)


def write_files(folder: Path, sheet: Sheet) -> None:
    """All that was graded, as files again: a program that compares submissions reads these."""
    own = (folder / sheet.page).resolve()
    for file in sheet.files:
        if (path := (own / file["path"]).resolve()).is_relative_to(own):
            write_text(path, file["text"])


def _own_modules(sheet: Sheet) -> list[str]:
    """The files that the course does not have."""
    return [file["path"] for file in sheet.files if file["path"] not in course_files()]


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
        alarms=ORDER[:3],
        stories=stories,
        own_modules=_own_modules,
    )
    return environment


@cache
def _style() -> dict[str, Markup]:
    """The style sheet, and the policy that allows this one and no other."""
    css = (TEMPLATES / "style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return {"css": Markup(css), "policy": Markup(policy)}
