"""Who needs a look before marks are published, the most urgent first; nobody else is in the list."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...marking import FILES, Assignment
from ...status import CLOSED, NEAR, NEWER, SECOND, SYNTAX, TAMPER
from ..marks import MarkSheet

NO_VERDICT, NOT_GRADED, UNKNOWN = "no verdict", "not graded", "whose is it?"
LATE, OVERRIDE = "late by a file's time", "an override is not applied"
TO_DO = {SECOND: " (remove what does not count, and run again)", NEAR: " (ACCEPT= takes it as meant)"}
ORDER = (NO_VERDICT, TAMPER, NEWER, SYNTAX, NOT_GRADED, CLOSED, SECOND, NEAR, UNKNOWN, LATE, OVERRIDE)


@dataclass(frozen=True)
class Look:
    """One thing to look at."""

    kind: str
    name: str
    why: str
    page: str = ""


def looks(
    sheets: Iterable[MarkSheet], unknown: Mapping[str, str], problems: Iterable[str], assignment: Assignment
) -> list[Look]:
    """
    Args:
        unknown: page -> why the roster has nobody for it.
        problems: what could not be decided.
    """
    found = [Look(OVERRIDE, "", problem) for problem in problems]
    for sheet in sheets:
        for kind, why in _reasons(sheet, unknown, assignment) if sheet.adjustments.counts else ():
            found.append(Look(kind, sheet.shown, why, sheet.page))
    return sorted(found, key=lambda one: (ORDER.index(one.kind), one.name.casefold(), one.page))


def _reasons(sheet: MarkSheet, unknown: Mapping[str, str], assignment: Assignment) -> Iterable[tuple[str, str]]:
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
    by_file = bool(assignment.due and assignment.due.handed_in == FILES and not sheet.handed_in)
    if by_file and sheet.adjustments.days_late:
        yield LATE, sheet.lateness
