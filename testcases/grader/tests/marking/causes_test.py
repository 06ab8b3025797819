"""The causes that a report names, and what to read, come to the result as values, without its words around them."""

import pytest

from testcases.grader.marking import grade
from testcases.harness.oracle.mutations import wrong_answers
from testcases.harness.oracle.reference import with_change
from testcases.harness.report.failures import CheckFailed
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine


@pytest.mark.parametrize(
    "lesson, exercise", [("lesson04_gae", "td_errors"), ("lesson10_bug_hunt", "test_response_mask")]
)
def test_a_failure_hands_on_its_cause_and_what_to_read(lesson: str, exercise: str):
    wrong = next(one for one in wrong_answers(lesson) if one.exercise == exercise)
    with Engine(with_change(lesson, wrong)).active():
        verdicts = ((case.entry, case.run()) for case in cases_of(lesson, exercise))
        result = next(grade._failed(*one) for one in verdicts if isinstance(one[1], CheckFailed))
    marks = grade._summary([result])
    idea = wrong.why.partition(";")[0].rstrip(".")
    assert [idea in cause for cause in marks["causes"]] == [True]
    assert marks["read"].startswith(f'tutorial/{lesson}/README.md, "') and idea not in " ".join(marks["told"].split())
