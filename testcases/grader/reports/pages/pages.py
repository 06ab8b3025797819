"""Static HTML: a page for each student, and one for the instructor.

Every text is escaped by the templates. The pages hold no script and load nothing, and their policy allows neither. A
student's page names no other student.
"""

import base64
import hashlib
import statistics
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ppo_by_hand.core.files import write_text
from testcases.harness.student import stories

from ... import status
from ...marking import TITLE, Assignment
from ..marks import ExerciseMarks, MarkSheet, clean, points
from .analysis import Look, items, mistakes
from .code import elsewhere, listings, own_modules

TEMPLATES = Path(__file__).parent / "templates"
WORDS = {
    status.PASSED: "passed",
    status.WRONG: "wrong answer",
    status.ERROR: "raised an error",
    status.TIMEOUT: "too slow",
    status.MEMORY: "too much memory",
    status.CRASH: "crashed",
    status.OUTPUT: "answer too large",
    status.NOT_STARTED: "not started",
    status.MISSING: "missing",
    status.BLOCKED: "waits for another exercise",
    status.NOT_ASKED: "not asked: its time was over",
    status.TAMPER: "tampering suspected",
    status.GRADER: "grader error: no verdict",
}
TONES = {status.PASSED: "good", **dict.fromkeys(status.ABSENT, "pale")}
ALARMS = (status.TAMPER, status.GRADER)


def student_page(sheet: MarkSheet, title: str = TITLE) -> str:
    template = _environment().get_template("student.html")
    return template.render(sheet=sheet, first=_first(sheet), heading=clean(title), **_style())


def write_student(folder: Path, sheet: MarkSheet, title: str = TITLE) -> Path:
    return write_text(folder / f"{sheet.page}.html", student_page(sheet, title))


def write_code(folder: Path, sheet: MarkSheet, title: str = TITLE) -> Path:
    """For the instructor: the code beside the course's."""
    template = _environment().get_template("code.html")
    text = template.render(sheet=sheet, listings=list(listings(sheet)), heading=clean(title), **_style())
    return write_text(folder / f"{sheet.page}.html", text)


def write_class(
    folder: Path, sheets: Sequence[MarkSheet], matching: Sequence[tuple], assignment: Assignment, urgent: Sequence[Look]
) -> Path:
    """The class page; `matching` holds what did not fit the roster, `urgent` who needs a look."""
    analysis = items(sheets)
    percents = [sheet.percent for sheet in sheets if sheet.percent is not None]
    template = _environment().get_template("class.html")
    text = template.render(
        sheets=sheets,
        assignment=assignment,
        given=sum(sheet.adjustments.given or any(one.given for one in sheet.exercises) for sheet in sheets),
        items=analysis,
        mistakes=mistakes(analysis),
        matching=matching,
        percents=percents,
        mean=statistics.fmean(percents) if percents else None,
        median=statistics.median(percents) if percents else None,
        urgent=urgent,
        unsafe=any(status.UNSAFE in sheet.flags for sheet in sheets),
        **_style(),
    )
    return write_text(folder / "index.html", text)


def _first(sheet: MarkSheet) -> ExerciseMarks | None:
    """Where to go on: the first exercise that was tried and did not pass, else the first that is open."""
    open_ones = [item for item in sheet.exercises if item.status not in (status.PASSED, status.GRADER)]
    return next((item for item in open_ones if item.status not in TONES), open_ones[0] if open_ones else None)


def _bar(score: float, possible: float) -> Markup:
    """A bar as SVG: width by attribute, since the policy forbids inline styles."""
    percent = 100 * score / possible if possible else 0.0
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{:.0f} percent">'
        '<rect class="back" width="100" height="10"/><rect class="score" width="{:.1f}" height="10"/></svg>'
    ).format(percent, percent)


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
        number=points,
        bar=_bar,
        words=WORDS,
        tones=TONES,
        alarm_statuses=ALARMS,
        stories=stories,
        listings=listings,
        elsewhere=elsewhere,
        own_modules=own_modules,
    )
    return environment


@cache
def _style() -> dict[str, Markup]:
    """The style sheet, and the policy that allows this one and no other."""
    css = (TEMPLATES / "style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return {"css": Markup(css), "policy": Markup(policy)}
