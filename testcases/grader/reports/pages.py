"""Static HTML: a page for each student, and one for the instructor.

Every text is escaped by the templates. The pages hold no script, and their policy allows none: nothing is loaded but
the figures beside the class page. A student's page names no other student.
"""

from __future__ import annotations

import base64
import hashlib
import statistics
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from . import figures
from .analysis import items, misconceptions
from .records import NOT_SANDBOXED, Exercise, Record
from .similarity import Report
from .tables import write_text

TEMPLATES = Path(__file__).parent / "templates"
WORDS = {
    "passed": "passed",
    "wrong": "wrong answer",
    "error": "raised an error",
    "timeout": "too slow",
    "memory": "too much memory",
    "crash": "crashed",
    "output-limit": "answer too large",
    "not-started": "not started",
    "missing": "missing",
    "blocked": "waits for another exercise",
    "tamper-suspected": "tampering suspected",
    "grader-error": "grader error: no verdict",
}
TONES = {"passed": "good", "not-started": "pale", "missing": "pale", "blocked": "pale"}
ALARMS = ("tamper-suspected", "grader-error")


def write_student(folder: Path, record: Record) -> Path:
    """The page of one student."""
    text = _environment().get_template("student.html").render(record=record, first=_first(record), **_style())
    return write_text(folder / f"{record.page}.html", text)


def write_class(folder: Path, records: Sequence[Record], similar: Report, matching: Sequence[tuple] = ()) -> list[Path]:
    """The class page and its figures; `matching` holds what did not fit the roster."""
    analysis = items(records)
    drawn = figures.draw(folder / "figures", records, analysis)
    percents = [record.percent for record in records if record.final and record.percent is not None]
    text = (
        _environment()
        .get_template("class.html")
        .render(
            records=records,
            items=analysis,
            misconceptions=misconceptions(analysis),
            similar=similar,
            matching=matching,
            figures={path.stem for path in drawn},
            percents=percents,
            mean=statistics.fmean(percents) if percents else None,
            median=statistics.median(percents) if percents else None,
            alarms=[record for record in records if record.status != "graded" or set(record.flags) - {NOT_SANDBOXED}],
            unsafe=any(NOT_SANDBOXED in record.flags for record in records),
            **_style(),
        )
    )
    return [write_text(folder / "index.html", text), *drawn]


def _first(record: Record) -> Exercise | None:
    """Where to go on: the first exercise that was tried and did not pass, else the first that is open."""
    open_ones = [item for item in record.exercises if item.status not in ("passed", "grader-error")]
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
    environment.globals.update(bar=_bar, words=WORDS, tones=TONES, alarm_statuses=ALARMS)
    return environment


@cache
def _style() -> dict[str, Markup]:
    """The style sheet, and the policy that allows this one and no other."""
    css = (TEMPLATES / "style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src 'self'; base-uri 'none'; form-action 'none'"
    return {"css": Markup(css), "policy": Markup(policy)}
