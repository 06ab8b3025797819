"""Wrong answers: a suite rejects every one that is listed, and its message names it."""

from functools import cache

import pytest

from testcases.course.students import LESSONS, answer_row
from testcases.harness.catalog import headings
from testcases.harness.diagnosis.explain import NoExplanation
from testcases.harness.oracle.mutations import WrongAnswer, wrong_answers
from testcases.harness.oracle.reference import with_change
from testcases.harness.report.failures import MAX_LINES, CheckFailed
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine

SAMPLE = 40
"""One in so many of the wrong answers is asked what it hears; each is rejected."""
OF_MODELS = ("lesson07", "lesson08", "lesson09", "lesson11", "lesson12")
"""Their questions need a model, so `make test` asks them to the first wrong answer of each exercise alone."""


@cache
def _first(lesson: str, exercise: str) -> WrongAnswer:
    return next(wrong for wrong in wrong_answers(lesson) if wrong.exercise == exercise)


def _is_slow(lesson: str, wrong: WrongAnswer) -> bool:
    return lesson.startswith(OF_MODELS) and wrong != _first(lesson, wrong.exercise)


WRONG = [
    answer_row(lesson, wrong, *[pytest.mark.slow] * _is_slow(lesson, wrong))
    for lesson in LESSONS
    for wrong in wrong_answers(lesson)
]


@pytest.mark.parametrize("lesson, wrong", WRONG)
def test_a_suite_rejects_the_wrong_answer(lesson: str, wrong: WrongAnswer):
    with Engine(with_change(lesson, wrong), explanation=NoExplanation).active():
        verdicts = (case.run() for case in cases_of(lesson, wrong.exercise))
        first = next(filter(None, verdicts), None)
    assert isinstance(first, CheckFailed), f"no test of {wrong.exercise} rejects it: {first!r}"


@pytest.mark.parametrize("lesson, wrong", WRONG[::SAMPLE])
def test_the_wrong_answer_is_named(lesson: str, wrong: WrongAnswer):
    """By the first test that fails, in as many lines as a report may have. Where it raises, its exception speaks."""
    with Engine(with_change(lesson, wrong)).active():
        verdicts = (case.run() for case in cases_of(lesson, wrong.exercise))
        first = next(one for one in verdicts if isinstance(one, CheckFailed))
    assert len(str(first).splitlines()) <= MAX_LINES, str(first)
    assert first.error or first.cause == wrong.name, f"it names {first.cause}:\n{first}"


@pytest.mark.parametrize("lesson", LESSONS)
def test_wrong_answer_says_why_and_where(lesson: str):
    for wrong in wrong_answers(lesson):
        assert "\n" not in wrong.why and 20 <= len(wrong.why) <= 160, f"{wrong.name}: one line of explanation"
        if headings(lesson):
            assert wrong.read in headings(lesson), f"{wrong.name}: the README has no heading {wrong.read!r}"
    names = [wrong.name for wrong in wrong_answers(lesson)]
    assert len(names) == len(set(names)), "two wrong answers of one name"
