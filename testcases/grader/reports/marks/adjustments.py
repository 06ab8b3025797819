"""From the points of the tests to the mark: weights, the instructor's overrides, lateness, attempts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo

from ...marking import BEST, EXPORT, FILES, Assignment, Due
from ...status import EMPTY, GRADED, GRADER
from .overrides import FILE, Override
from .roster import Matching, Person, Roster, are_attempts
from .sheets import ExerciseMarks, LessonMarks, MarkSheet, Raw, tidy
from .text import cell, clean, slug

TIMES = (
    "%Y-%m-%d %H:%M:%S %z",
    "%Y-%m-%d %H:%M:%S %Z",
    "%A, %d %B %Y, %I:%M %p",
    "%A, %d %B %Y, %H:%M",
    "%d %B %Y, %I:%M %p",
    "%d %B %Y, %H:%M",
    "%b %d, %Y %I:%M %p",
    "%m/%d/%Y %I:%M %p",
)
"""How Moodle, Gradescope and Canvas write a time, besides the ISO way."""
CANVAS = "Canvas"
FEW = 4
"""Submissions of a source from which on it is strange that most of them are late."""


@dataclass
class Class:
    """The sheets, and who is who."""

    sheets: list[MarkSheet]
    roster: Roster | None = None
    matching: Matching | None = None
    problems: list[str] = field(default_factory=list)

    def person_of(self, sheet: MarkSheet) -> Person | None:
        return self.matching.person_of.get(sheet.page) if self.matching else None

    def cell(self, sheet: MarkSheet, column: str) -> str:
        """What the roster says of this student."""
        person = self.person_of(sheet)
        if not person or not self.roster:
            return ""
        names = [name.strip().lower() for name in self.roster.header]
        place = names.index(column.strip().lower())
        row = self.roster.rows[person.row]
        return row[place].strip() if place < len(row) else ""


def check_columns(assignment: Assignment, roster: Roster | None) -> None:
    """Raises ValueError: the roster lacks a column that the assignment names."""
    due = assignment.due
    told = due.handed_in if due and due.handed_in not in (EXPORT, FILES) else ""
    wanted = {"column": due.column, "handed_in": told} if due else {}
    names = [name.strip().lower() for name in roster.header] if roster else []
    for key, column in wanted.items():
        if column and column.strip().lower() not in names:
            got = f"it has {clean(', '.join(roster.header))}" if roster else "there is no ROSTER"
            raise ValueError(f"due.{key}: expected a column {clean(column)!r} in the roster, and {got}")


def apply(found: Class, assignment: Assignment, overrides: Sequence[Override] = ()) -> Class:
    """The sheets with their marks; what cannot be decided is in the problems.

    Raises:
        ValueError: the roster lacks a column that the assignment names.
    """
    check_columns(assignment, found.roster)
    problems = [*found.problems]
    found = _with_absent(found, assignment, overrides)
    of_page = _by_page(found, assignment, overrides, problems)
    sheets = []
    for sheet in found.sheets:
        mine = of_page.get(sheet.page, [])
        sheet = _given_exercises(_weighed(sheet, assignment), mine)
        sheet = _late(sheet, found, assignment, mine)
        person = found.person_of(sheet)
        sheets.append(replace(_given_mark(sheet, assignment, mine), name=person.name if person else ""))
    problems += _too_many_late(sheets, assignment)
    made = replace(found, sheets=sheets, problems=problems)
    return _attempts(made, assignment)


def _weighed(sheet: MarkSheet, assignment: Assignment) -> MarkSheet:
    """On the scale of the assignment."""
    possible = {(one.lesson, one.name): one.max_score for one in sheet.exercises}
    factors = assignment.factors(possible)
    if all(factor == 1.0 for factor in factors.values()):
        return sheet
    lessons = [_lesson(lesson, factors) for lesson in sheet.lessons]
    return _added_up(sheet, lessons, assignment)


def _lesson(lesson: LessonMarks, factors: Mapping[tuple[str, str], float]) -> LessonMarks:
    exercises = []
    for exercise in lesson.exercises:
        factor = factors[exercise.lesson, exercise.name]
        tests = [replace(one, score=one.score * factor, max_score=one.max_score * factor) for one in exercise.tests]
        score, most = exercise.score * factor, exercise.max_score * factor
        exercises.append(replace(exercise, score=score, max_score=most, tests=tuple(tests)))
    return _lesson_of(lesson, exercises)


def _lesson_of(lesson: LessonMarks, exercises: Iterable[ExerciseMarks]) -> LessonMarks:
    exercises = tuple(exercises)
    score, most = (sum(getattr(one, key) for one in exercises) for key in ("score", "max_score"))
    return replace(lesson, exercises=exercises, score=score, max_score=most)


def _added_up(sheet: MarkSheet, lessons: Sequence[LessonMarks], assignment: Assignment) -> MarkSheet:
    if not lessons:
        return sheet
    score, most = (tidy(sum(getattr(one, key) for one in lessons)) for key in ("score", "max_score"))
    return replace(sheet, lessons=tuple(lessons), score=score, max_score=tidy(assignment.points or most))


def _with_absent(found: Class, assignment: Assignment, overrides: Sequence[Override]) -> Class:
    """With a sheet for everybody who handed in nothing and about whom the instructor has decided something."""
    if not found.matching:
        return found
    matching = replace(found.matching, person_of=dict(found.matching.person_of), absent=[], unclear=[])
    sheets = [*found.sheets]
    for person in (*found.matching.absent, *found.matching.unclear):
        if not any(person in _people(found, one.student) for one in overrides):
            (matching.unclear if person in found.matching.unclear else matching.absent).append(person)
            continue
        name, most = person.student or person.shown, tidy(assignment.total)
        page = slug(name, f"line {person.row} of the roster")
        sheets.append(MarkSheet(Raw(name), page, 0, most, notes=("nothing handed in",), status=EMPTY))
        matching.person_of[page] = person
    return replace(found, sheets=sheets, matching=matching)


def _people(found: Class, name: str) -> list[Person]:
    """Those of the roster who are called so."""
    return [person for person in (found.roster.people if found.roster else ()) if name in person.names]


def _by_page(
    found: Class, assignment: Assignment, overrides: Sequence[Override], problems: list[str]
) -> dict[str, list[Override]]:
    """The overrides of each sheet; one that fits nobody, or two people, is a problem.

    The roster's people come first, by its names for them: what a submission calls itself is its author's choice.
    """
    by_page: dict[str, list[Override]] = {}
    for one in overrides:
        people = _people(found, one.student)
        fitting = [sheet for sheet in found.sheets if found.person_of(sheet) in people]
        if not people:
            fitting = [sheet for sheet in found.sheets if one.student in _names(sheet)]
        is_clear = len(fitting) == 1 or _have_one_mark(found, fitting, assignment)
        why = "could be several people or submissions" if len(people) > 1 or fitting else "is the name of no submission"
        if is_clear and one.exercise and not fitting[0].lessons:
            is_clear, why = False, "has no submission with exercises: only the whole can be given a mark"
        if is_clear and len(people) < 2:
            for sheet in fitting:
                by_page.setdefault(sheet.page, []).append(one)
        else:
            problems.append(f"{FILE}, line {one.line}: {clean(one.student)!r} {why}: not applied")
    return by_page


def _names(sheet: MarkSheet) -> set[object]:
    """As it was found, and as our own tables show it."""
    return {sheet.student, sheet.shown, sheet.page, cell(sheet.student), *sheet.aliases}


def _given_exercises(sheet: MarkSheet, overrides: Sequence[Override]) -> MarkSheet:
    """The points that the instructor gives instead of the tests'."""
    given = {one.exercise: one for one in overrides if one.exercise}
    if not given:
        return sheet
    lessons = []
    for lesson in sheet.lessons:
        exercises = []
        for exercise in lesson.exercises:
            one = given.get(f"{exercise.lesson}.{exercise.name}", Override(0, ""))
            exercise = replace(exercise, comments=(*exercise.comments, *filter(None, [one.comment])))
            exercises.append(exercise if one.score is None else replace(exercise, score=one.score, given=True))
        lessons.append(_lesson_of(lesson, exercises))
    if not sheet.lessons or sheet.score is None:
        return sheet
    failed = any(one.status == GRADER and not one.given for lesson in lessons for one in lesson.exercises)
    status = GRADED if sheet.status == GRADER and not failed else sheet.status
    score = tidy(sum(lesson.score for lesson in lessons))
    return replace(sheet, lessons=tuple(lessons), score=score, status=status)


def _late(sheet: MarkSheet, found: Class, assignment: Assignment, overrides: Sequence[Override]) -> MarkSheet:
    """With what lateness costs. Whoever's time is not known is late only if the system itself says so, by one day."""
    adjusted = replace(sheet.adjustments, tests=sheet.score)
    decided = [one.days_late for one in overrides if one.days_late is not None]
    days = 0
    if decided:
        days = decided[0]
    elif due := assignment.due:
        until, why = _due_of(sheet, found, due)
        handed_in, unknown = _handed_in(sheet, found, due, until)
        why = why or unknown
        if until and handed_in and not why:
            days = assignment.days_late(handed_in, until)
        elif until and sheet.is_late and not handed_in:
            days, why = 1, f"{sheet.system} says that it came late, not when: counted as one day"
        elif sheet.system == CANVAS and unknown and not sheet.is_late:
            why = ""  # Canvas marks what is late, so this is not
        adjusted = replace(adjusted, notes=(*adjusted.notes, *filter(None, [why])))
    if not days:
        return replace(sheet, adjustments=adjusted)
    off = 0.0
    if sheet.score is not None and sheet.max_score:
        off = min(sheet.score, tidy(sheet.max_score * assignment.percent_off(days) / 100))
        sheet = replace(sheet, score=tidy(sheet.score - off))
    return replace(sheet, adjustments=replace(adjusted, days_late=days, late_points=tidy(off)))


def _due_of(sheet: MarkSheet, found: Class, due: Due) -> tuple[datetime | None, str]:
    text = found.cell(sheet, due.column) if due.column else ""
    zone = due.at.tzinfo if due.at else None
    own = time_of(text, zone) if text else None
    if text and not own:
        return None, f"the due date {clean(text)!r} in the roster cannot be read: not counted as late"
    until = own or due.at
    return until, "" if until else "there is no due date for this submission: not counted as late"


def time_said(sheet: MarkSheet, found: Class, due: Due) -> str:
    """When it was handed in, by what the assignment trusts: the roster, the export, or with "files" the files too."""
    if due.handed_in not in (EXPORT, FILES):
        return found.cell(sheet, due.handed_in)
    return sheet.handed_in or (sheet.newest_file if due.handed_in == FILES else "")


def _too_many_late(sheets: Sequence[MarkSheet], assignment: Assignment) -> list[str]:
    """A sentence where most are late by one source: then it is rather the source that is wrong."""
    due, found = assignment.due, []
    sources = {sheet.system for sheet in sheets} if due else set()
    for system in sorted(sources):
        mine = [sheet for sheet in sheets if sheet.system == system and sheet.lessons]
        late = sum(sheet.adjustments.days_late > 0 for sheet in mine)
        if len(mine) >= FEW and late > len(mine) / 2:
            known = {EXPORT: "what the export says", FILES: "the times of the files"}
            by = known.get(due.handed_in, f"the roster's column {clean(due.handed_in)!r}") if due else ""
            found.append(
                f"{late} of {len(mine)} who handed in ({system or 'folders'}) are late by {by}: look at the due date "
                "and at that source before you publish a mark"
            )
    return found


def _handed_in(sheet: MarkSheet, found: Class, due: Due, until: datetime | None) -> tuple[datetime | None, str]:
    text = time_said(sheet, found, due)
    handed_in = time_of(text, until.tzinfo if until else None)
    if handed_in:
        return handed_in, ""
    what = f"the time {clean(text)!r} cannot be read" if text.strip(" -") else "the time of the hand-in is not known"
    return None, f"{what}: not counted as late"


def time_of(text: str, zone: tzinfo | None) -> datetime | None:
    """In a zone: that of the due date, or this machine's, where the text names none."""
    text = re.sub(r"\.\d+(?=\s|$)", "", text.strip().replace("\u202f", " "))
    text = re.sub(r"\s+(Z|UTC|GMT)$", " +0000", text)
    found = None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        for form in TIMES:
            try:
                found = datetime.strptime(text, form)
                break
            except ValueError:
                continue
    if found and not found.tzinfo:
        found = found.replace(tzinfo=zone) if zone else found.astimezone()
    return found


def _given_mark(sheet: MarkSheet, assignment: Assignment, overrides: Sequence[Override]) -> MarkSheet:
    """The instructor's word is the last."""
    whole = [one for one in overrides if not one.exercise]
    comments = tuple(one.comment for one in whole if one.comment)
    sheet = replace(sheet, adjustments=replace(sheet.adjustments, comments=comments))
    scores = [one.score for one in whole if one.score is not None]
    if not scores:
        return sheet
    adjusted = replace(sheet.adjustments, given=True, days_late=0, late_points=0)
    most = sheet.max_score if sheet.max_score is not None else tidy(assignment.total)
    return replace(sheet, adjustments=adjusted, status=GRADED, score=tidy(scores[0]), max_score=most)


def _attempts(found: Class, assignment: Assignment) -> Class:
    """One of each student's submissions counts: the best, or the last."""
    problems = [*found.problems]
    chosen: dict[str, MarkSheet | None] = {}
    groups: dict[object, list[MarkSheet]] = {}
    for sheet in found.sheets:
        groups.setdefault(_student(found, sheet), []).append(sheet)
    for group in groups.values():
        if len(group) == 1 or not _have_one_mark(found, group, assignment):
            continue
        order = [_rank(sheet, assignment) for sheet in group]
        is_clear = assignment.attempts == BEST or order.count(max(order)) == 1
        if not is_clear:
            problems.append(f"{group[0].shown}: it is not known which of {len(group)} attempts came last: none counts")
        chosen.update({sheet.page: group[order.index(max(order))] if is_clear else None for sheet in group})
    sheets = [_attempt(sheet, chosen[sheet.page]) if sheet.page in chosen else sheet for sheet in found.sheets]
    return replace(found, sheets=sheets, problems=problems)


def _have_one_mark(found: Class, sheets: Sequence[MarkSheet], assignment: Assignment) -> bool:
    """Whether these are attempts of somebody: the assignment or the system says that there are such."""
    is_one = len({_student(found, sheet) for sheet in sheets}) == 1
    return is_one and bool(assignment.attempts or are_attempts(sheets))


def _student(found: Class, sheet: MarkSheet) -> object:
    person = found.person_of(sheet)
    return person.row if person else sheet.student


def _rank(sheet: MarkSheet, assignment: Assignment) -> tuple[float, ...]:
    time = time_of(sheet.handed_in or sheet.newest_file, None)
    stamp = time.timestamp() if time else -1.0
    return (-1.0 if sheet.mark is None else sheet.mark, stamp) if assignment.attempts == BEST else (stamp,)


def _attempt(sheet: MarkSheet, counting: MarkSheet | None) -> MarkSheet:
    note = "it is not known which attempt came last"
    if counting:
        note = f"another attempt counts: {counting.handed_in or counting.newest_file or counting.page}"
    note = "of several attempts this one counts" if counting is sheet else note
    adjusted = replace(sheet.adjustments, counts=counting is sheet, notes=(*sheet.adjustments.notes, note))
    return replace(sheet, adjustments=adjusted)
