"""From the points of the tests to the mark: weights, the instructor's overrides."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...marking import Assignment
from ...status import EMPTY, GRADED, GRADER
from .overrides import FILE, Override
from .roster import Matching, Person, Roster
from .sheets import ExerciseMarks, LessonMarks, MarkSheet, Raw, tidy
from .text import cell, clean, slug


@dataclass
class Class:
    """The sheets, and who is who."""

    sheets: list[MarkSheet]
    roster: Roster | None = None
    matching: Matching | None = None
    problems: list[str] = field(default_factory=list)

    def person_of(self, sheet: MarkSheet) -> Person | None:
        return self.matching.person_of.get(sheet.page) if self.matching else None


def apply(found: Class, assignment: Assignment, overrides: Sequence[Override] = ()) -> Class:
    """The sheets with their marks; what cannot be decided is in the problems."""
    problems = [*found.problems]
    found = _with_absent(found, assignment, overrides)
    of_page = _by_page(found, overrides, problems)
    sheets = []
    for sheet in found.sheets:
        mine = of_page.get(sheet.page, [])
        sheet = _given_exercises(_weighed(sheet, assignment), mine)
        person = found.person_of(sheet)
        sheets.append(replace(_given_mark(sheet, assignment, mine), name=person.name if person else ""))
    return replace(found, sheets=sheets, problems=problems)


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


def _by_page(found: Class, overrides: Sequence[Override], problems: list[str]) -> dict[str, list[Override]]:
    """The overrides of each sheet; one that fits nobody, or two people, is a problem.

    The roster's people come first, by its names for them: what a submission calls itself is its author's choice.
    """
    by_page: dict[str, list[Override]] = {}
    for one in overrides:
        people = _people(found, one.student)
        fitting = [sheet for sheet in found.sheets if found.person_of(sheet) in people]
        if not people:
            fitting = [sheet for sheet in found.sheets if one.student in _names(sheet)]
        is_clear = len(fitting) == 1
        why = "could be several people or submissions" if len(people) > 1 or fitting else "is the name of no submission"
        if is_clear and one.exercise and not fitting[0].lessons:
            is_clear, why = False, "has no submission with exercises: only the whole can be given a mark"
        if is_clear and len(people) < 2:
            by_page.setdefault(fitting[0].page, []).append(one)
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


def _given_mark(sheet: MarkSheet, assignment: Assignment, overrides: Sequence[Override]) -> MarkSheet:
    """The instructor's word is the last."""
    whole = [one for one in overrides if not one.exercise]
    comments = tuple(one.comment for one in whole if one.comment)
    sheet = replace(sheet, adjustments=replace(sheet.adjustments, tests=sheet.score, comments=comments))
    scores = [one.score for one in whole if one.score is not None]
    if not scores:
        return sheet
    adjusted = replace(sheet.adjustments, given=True)
    most = sheet.max_score if sheet.max_score is not None else tidy(assignment.total)
    return replace(sheet, adjustments=adjusted, status=GRADED, score=tidy(scores[0]), max_score=most)
