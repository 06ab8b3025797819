"""JUnit XML, one file a submission: a suite for each lesson, a case for each test, points as properties."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from .records import Exercise, Record
from .tables import write_text
from .text import clean

SKIPPED = ("not-started", "missing", "blocked")
FAILURES = ("wrong",)


def xml(record: Record) -> str:
    """The document. Statuses other than passed, wrong and the skipped ones are errors."""
    root = ElementTree.Element("testsuites", name=record.shown, time=f"{record.seconds:.3f}")
    _properties(
        root, score=record.score, max_score=record.max_score, sandbox=record.sandbox or "unknown", status=record.status
    )
    for lesson in record.lessons:
        suite = ElementTree.SubElement(root, "testsuite", name=lesson.name)
        _properties(suite, points=lesson.score, max_points=lesson.max_score)
        statuses = [_case(suite, exercise, test) for exercise in lesson.exercises for test in exercise.tests]
        _count(suite, statuses)
    if not record.lessons:
        suite = ElementTree.SubElement(root, "testsuite", name="grader")
        case = ElementTree.SubElement(suite, "testcase", classname="grader", name="results", time="0")
        ElementTree.SubElement(case, "error", type="grader-error", message=clean(" ".join(record.notes), 500))
        _count(suite, ["grader-error"])
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root.iter("testsuite"))))
    ElementTree.indent(root)
    return "<?xml version='1.0' encoding='utf-8'?>\n" + ElementTree.tostring(root, "unicode") + "\n"


def write(folder: Path, record: Record) -> Path:
    return write_text(folder / f"{record.page}.xml", xml(record))


def _case(suite: ElementTree.Element, exercise: Exercise, test: tuple[str, float, float, str]) -> str:
    name, score, max_score, status = test
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"{exercise.lesson}.{exercise.name}", name=name, time="0"
    )
    _properties(case, points=score, max_points=max_score, status=status)
    if status == "passed":
        return status
    tag = "skipped" if status in SKIPPED else "failure" if status in FAILURES else "error"
    cause = f"likely cause: {exercise.cause.name}: {exercise.cause.why}" if exercise.cause else f"status: {status}"
    element = ElementTree.SubElement(case, tag, type=status, message=cause)
    if tag != "skipped":
        element.text = exercise.message
    return status


def _properties(parent: ElementTree.Element, **values: object) -> None:
    properties = ElementTree.SubElement(parent, "properties")
    for name, value in values.items():
        ElementTree.SubElement(properties, "property", name=name, value="" if value is None else str(value))


def _count(suite: ElementTree.Element, statuses: list[str]) -> None:
    failures = sum(status in FAILURES for status in statuses)
    skipped = sum(status in SKIPPED for status in statuses)
    passed = sum(status == "passed" for status in statuses)
    suite.set("tests", str(len(statuses)))
    suite.set("failures", str(failures))
    suite.set("skipped", str(skipped))
    suite.set("errors", str(len(statuses) - failures - skipped - passed))
    suite.set("time", "0")
