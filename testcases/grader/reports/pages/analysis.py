"""How the class did on each exercise, which mistakes it has, and who needs a look before marks are published."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...status import ABSENT, CLOSED, ENCODING, GRADER, LONG, NEAR, NEWER, PASSED, SECOND, SYNTAX, TAMPER
from ..marks import MarkSheet

NO_VERDICT, NOT_GRADED, UNKNOWN = "no verdict", "not graded", "whose is it?"
OVERRIDE = "an override is not applied"
UNWRITTEN = "a report is missing"
TO_DO = {SECOND: " (remove what does not count, and run again)", NEAR: " (if it was meant, rename it, and run again)"}
ORDER = (
    NO_VERDICT,
    TAMPER,
    UNWRITTEN,
    NEWER,
    SYNTAX,
    ENCODING,
    NOT_GRADED,
    CLOSED,
    SECOND,
    NEAR,
    LONG,
    UNKNOWN,
    OVERRIDE,
)


@dataclass
class Item:
    """One exercise over all submissions. A submission without a verdict on it counts nowhere but in the statuses."""

    lesson: str
    exercise: str
    partly: int = 0
    """Not passed, but some points."""
    points: float = 0.0
    possible: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    causes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(name, why) of each likely cause."""

    @property
    def passed(self) -> int:
        return self.statuses[PASSED]

    @property
    def absent(self) -> int:
        return sum(self.statuses[status] for status in ABSENT)

    @property
    def failed(self) -> int:
        """Tried, no points."""
        return self.total - self.passed - self.partly - self.absent

    @property
    def total(self) -> int:
        return self.statuses.total() - self.statuses[GRADER]

    @property
    def share(self) -> float | None:
        """Share of all submissions with a verdict that passed."""
        return self.passed / self.total if self.total else None

    @property
    def share_of_tried(self) -> float | None:
        tried = self.total - self.absent
        return self.passed / tried if tried else None

    @property
    def mean(self) -> float | None:
        """Mean share of the points."""
        return self.points / self.possible if self.possible else None


def items(sheets: Iterable[MarkSheet]) -> list[Item]:
    """One item for each exercise, in the order of the results."""
    found: dict[tuple[str, str], Item] = {}
    for sheet in sheets:
        for exercise in sheet.exercises:
            item = found.setdefault((exercise.lesson, exercise.name), Item(exercise.lesson, exercise.name))
            item.statuses[exercise.status] += 1
            if exercise.status == GRADER:
                continue
            item.points += exercise.score
            item.possible += exercise.max_score
            item.partly += exercise.score > 0 and exercise.status not in (PASSED, *ABSENT)
            if exercise.likely_cause:
                item.causes[exercise.likely_cause.name, exercise.likely_cause.why] += 1
    return list(found.values())


def mistakes(items: Iterable[Item]) -> list[tuple[int, str, str, str, str]]:
    """Count, lesson, exercise, name and why of each mistake, the most frequent first."""
    rows = [
        (count, item.lesson, item.exercise, name, why) for item in items for (name, why), count in item.causes.items()
    ]
    return sorted(rows, key=lambda row: (-row[0], *row[1:]))


@dataclass(frozen=True)
class Look:
    """One thing to look at."""

    kind: str
    name: str
    why: str
    page: str = ""


def looks(
    sheets: Iterable[MarkSheet],
    unknown: Mapping[str, str],
    problems: Iterable[str],
    unwritten: Mapping[str, str] | None = None,
) -> list[Look]:
    """The most urgent first; nobody else is in the list.

    Args:
        unknown: page -> why the roster has nobody for it.
        problems: what could not be decided.
        unwritten: page -> which of its reports could not be written, and why.
    """
    found = [Look(OVERRIDE, "", problem) for problem in problems]
    for sheet in sheets:
        if why := (unwritten or {}).get(sheet.page):
            found.append(Look(UNWRITTEN, sheet.shown, why, sheet.page))
        for kind, why in _reasons(sheet, unknown):
            found.append(Look(kind, sheet.shown, why, sheet.page))
    return sorted(found, key=lambda one: (ORDER.index(one.kind), one.name.casefold(), one.page))


def _reasons(sheet: MarkSheet, unknown: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    if not sheet.final:
        yield NO_VERDICT, " | ".join(sheet.notes[:3]) or ", ".join(sheet.flags)
    elif sheet.mark is None:
        yield NOT_GRADED, f"{sheet.status}: " + " | ".join(sheet.notes[:3])
    if tampered := [one.name for one in sheet.exercises if one.status == TAMPER]:
        yield TAMPER, ", ".join(tampered)
    for doubt in sheet.doubts:
        if doubt.kind in ORDER:
            yield doubt.kind, doubt.text + TO_DO.get(doubt.kind, "")
    if sheet.page in unknown:
        yield UNKNOWN, unknown[sheet.page]
