"""JUnit XML, one file per submission: a suite for each lesson, a case for each test, points as properties."""

from pathlib import Path
from xml.etree import ElementTree

from ppo_by_hand.core.files import write_text

from ...status import ABSENT, GRADER, PASSED, WRONG
from ..marks import ExerciseMarks, MarkSheet, TestMark, clean, points


def xml(sheet: MarkSheet) -> str:
    """The document. Statuses other than passed, wrong and the skipped ones are errors."""
    root = ElementTree.Element("testsuites", name=sheet.shown, time=f"{sheet.seconds:.3f}")
    sandbox = sheet.sandbox or "unknown"
    _properties(root, score=sheet.score, max_score=sheet.max_score, sandbox=sandbox, status=sheet.status)
    for lesson in sheet.lessons:
        suite = ElementTree.SubElement(root, "testsuite", name=lesson.name)
        _properties(suite, points=points(lesson.score), max_points=points(lesson.max_score))
        statuses = [_case(suite, exercise, test) for exercise in lesson.exercises for test in exercise.tests]
        _count(suite, statuses)
    if not sheet.lessons:
        suite = ElementTree.SubElement(root, "testsuite", name="grader")
        case = ElementTree.SubElement(suite, "testcase", classname="grader", name="results", time="0")
        ElementTree.SubElement(case, "error", type=GRADER, message=clean(" ".join(sheet.notes), 500))
        _count(suite, [GRADER])
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root.iter("testsuite"))))
    ElementTree.indent(root)
    return "<?xml version='1.0' encoding='utf-8'?>\n" + ElementTree.tostring(root, "unicode") + "\n"


def write(folder: Path, sheet: MarkSheet) -> Path:
    return write_text(folder / f"{sheet.page}.xml", xml(sheet))


def _case(suite: ElementTree.Element, exercise: ExerciseMarks, test: TestMark) -> str:
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"{exercise.lesson}.{exercise.name}", name=test.id, time="0"
    )
    _properties(case, points=points(test.score), max_points=points(test.max_score), status=test.status)
    status = test.status
    if status == PASSED:
        return status
    tag = "skipped" if status in ABSENT else "failure" if status == WRONG else "error"
    cause = exercise.likely_cause
    why = f"likely cause: {cause.name}: {cause.why}" if cause else f"status: {status}"
    element = ElementTree.SubElement(case, tag, type=status, message=why)
    if tag != "skipped":
        element.text = exercise.told
    return status


def _properties(parent: ElementTree.Element, **values: object) -> None:
    properties = ElementTree.SubElement(parent, "properties")
    for name, value in values.items():
        ElementTree.SubElement(properties, "property", name=name, value="" if value is None else str(value))


def _count(suite: ElementTree.Element, statuses: list[str]) -> None:
    failures = sum(status == WRONG for status in statuses)
    skipped = sum(status in ABSENT for status in statuses)
    passed = sum(status == PASSED for status in statuses)
    suite.set("tests", str(len(statuses)))
    suite.set("failures", str(failures))
    suite.set("skipped", str(skipped))
    suite.set("errors", str(len(statuses) - failures - skipped - passed))
    suite.set("time", "0")
