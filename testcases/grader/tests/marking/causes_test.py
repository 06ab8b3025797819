"""The cause of a failure that lesson 10 reports by itself, and what to read, come to the result as values, too."""

from testcases.grader.marking import grade
from testcases.harness.oracle.mutations import wrong_answers
from testcases.harness.oracle.reference import with_change
from testcases.harness.report.failures import CheckFailed
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine

LESSON, EXERCISE = "lesson10_bug_hunt", "test_response_mask"


def test_a_students_test_hands_on_its_cause_and_what_to_read():
    wrong = next(one for one in wrong_answers(LESSON) if one.exercise == EXERCISE)
    with Engine(with_change(LESSON, wrong)).active():
        verdicts = ((case.entry, case.run()) for case in cases_of(LESSON, EXERCISE))
        result = next(grade._failed(*one) for one in verdicts if isinstance(one[1], CheckFailed))
    marks = grade._summary([result])
    idea = wrong.why.partition(";")[0].rstrip(".")
    assert [idea in cause for cause in marks["causes"]] == [True]
    assert marks["read"].startswith(f'tutorial/{LESSON}/README.md, "') and idea not in " ".join(marks["told"].split())
