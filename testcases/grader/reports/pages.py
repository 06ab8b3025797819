"""Static HTML: a page for each student, and one for the instructor.

Every text is escaped by the templates. The pages hold no script and load nothing, and their policy allows neither. A
student's page names no other student.
"""

import base64
import hashlib
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
NO_VERDICT, NOT_GRADED, KILLED = "no verdict", "not graded", "killed"
ORDER = (
    NO_VERDICT,
    status.TAMPER,
    status.UNWRITTEN,
    status.LOAD,
    status.ENCODING,
    NOT_GRADED,
    status.CLOSED,
    KILLED,
    status.OWNER,
    status.NOT_FOUND,
    status.CONFLICT,
    status.SECOND,
    status.OTHER_FOLDER,
    status.NEAR,
    status.OLDER,
    status.LONG,
    status.UNLOOKED,
    status.CHANGED,
    status.GIVEN,
)
"""What an instructor should look at, the most urgent first."""
TO_DO = {
    status.SECOND: " (remove what does not count, and run again)",
    status.NEAR: " (if it was meant, rename it, and run again)",
}


@dataclass(frozen=True)
class Look:
    """One thing to look at."""

    kind: str
    name: str
    why: str
    page: str = ""


@dataclass
class Item:
    """One exercise over all submissions. A submission without a verdict on it counts nowhere but in the statuses."""

    lesson: str
    exercise: str
    statuses: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.statuses.total() - self.statuses[status.GRADER]

    @property
    def passed(self) -> int:
        return self.statuses[status.PASSED]


def items(sheets: Iterable[Sheet]) -> list[Item]:
    """One item for each exercise, in the order of the results."""
    found: dict[tuple[str, str], Item] = {}
    for sheet in sheets:
        for one in sheet.exercises:
            item = found.setdefault((one.lesson, one.name), Item(one.lesson, one.name))
            item.statuses[one.status] += 1
            if one.status != status.GRADER:
                item.causes.update(set(one.causes))
    return list(found.values())


def mistakes(items: Iterable[Item]) -> list[tuple[int, str, str, str]]:
    """Count, lesson, exercise and cause, as students heard it, the most frequent first."""
    rows = [(count, item.lesson, item.exercise, cause) for item in items for cause, count in item.causes.items()]
    return sorted(rows, key=lambda row: (-row[0], *row[1:]))


def looks(marks: Iterable[Mark], unwritten: Mapping[str, str]) -> list[Look]:
    """Whatever a person has to see, the most urgent first.

    Args:
        unwritten: page -> which of a submission's reports could not be written, and why.
    """
    found = []
    for mark in marks:
        page = mark.sheet.page if mark.sheet else ""
        seen = [*mark.looks, *(_reasons(mark.sheet) if mark.sheet else ())]
        seen += [(status.UNWRITTEN, unwritten[page])] if page in unwritten else []
        found += [Look(kind, mark.shown, why + TO_DO.get(kind, ""), page) for kind, why in seen]
    return sorted(found, key=lambda one: (ORDER.index(one.kind), one.name.casefold(), one.page))


def _reasons(sheet: Sheet) -> Iterator[tuple[str, str]]:
    said = " | ".join(sheet.notes[:3])
    if sheet.status == status.GRADER:
        yield NO_VERDICT, said or ", ".join(sheet.flags)
    elif sheet.status != status.GRADED:
        yield NOT_GRADED, f"{sheet.status}: {said}"
    for kind, wanted in ((status.TAMPER, (status.TAMPER,)), (KILLED, status.KILLED)):
        if hit := [f"{one.name} ({one.status})" for one in sheet.exercises if one.status in wanted]:
            yield kind, ", ".join(hit)
    for doubt in sheet.doubts:
        if doubt.kind in ORDER:
            yield doubt.kind, doubt.text


def write_student(folder: Path, mark: Mark, title: str) -> Path:
    assert mark.sheet
    named = {"mark": mark, "sheet": mark.sheet, "heading": clean(title)}
    text = _environment().get_template("student.html").render(**named, **_style())
    return write_text(folder / f"{mark.sheet.page}.html", text)


def write_class(path: Path, marks: Sequence[Mark], assignment: Assignment, urgent: Sequence[Look]) -> Path:
    """The instructor's page."""
    sheets = [mark.sheet for mark in marks if mark.sheet]
    analysis = items(sheet for sheet in sheets if sheet.status in (status.GRADED, status.GRADER))
    shares = [100 * mark.mark / assignment.total for mark in marks if mark.mark is not None and assignment.total]
    text = (
        _environment()
        .get_template("class.html")
        .render(
            marks=marks,
            sheets=sheets,
            assignment=assignment,
            items=analysis,
            mistakes=mistakes(analysis),
            median=statistics.median(shares) if shares else None,
            mean=statistics.fmean(shares) if shares else None,
            urgent=urgent,
            unsafe=any(status.UNSAFE in sheet.flags for sheet in sheets),
            **_style(),
        )
    )
    return write_text(path, text)


def write_files(folder: Path, sheet: Sheet) -> None:
    """All that was graded, as files again: a program that compares submissions reads these."""
    own = (folder / sheet.page).resolve()
    for file in sheet.files:
        if (path := (own / file.path).resolve()).is_relative_to(own):
            write_text(path, file.text)


def _own_modules(sheet: Sheet) -> list[str]:
    """The files that the course does not have."""
    return [file.path for file in sheet.files if file.path not in course_files()]


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
