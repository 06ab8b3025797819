"""Both ways to run an answer give the same outcome: in the student's own process, and in a worker."""

from collections.abc import Iterator

import pytest

from testcases.course.students import LESSONS, answer_row
from testcases.grader.sandbox.sandbox import Limits, Sandbox
from testcases.grader.sandbox.worker_client import InSandbox
from testcases.harness.catalog import SOLUTIONS
from testcases.harness.diagnosis.parts import same_outcome
from testcases.harness.oracle.mutations import (
    NamedChange,
    changed_source,
    published_answers,
    right_answers,
    wrong_answers,
)
from testcases.harness.oracle.reference import examples, with_change

SAMPLE, ASKED = 40, 6
"""One in so many of the answers is asked so many of its examples."""
ANSWERS = [
    answer_row(lesson, one)
    for lesson in LESSONS
    for one in (*wrong_answers(lesson), *right_answers(lesson), *published_answers(lesson))
]


@pytest.fixture(scope="module")
def sandbox(bubblewrap: None) -> Iterator[Sandbox]:
    with Sandbox("bwrap", Limits()) as box:
        yield box


@pytest.mark.slow
@pytest.mark.parametrize("lesson, answer", ANSWERS[::SAMPLE])
def test_an_answer_has_the_same_outcome_at_home_and_in_a_worker(sandbox: Sandbox, lesson: str, answer: NamedChange):
    path, text = changed_source(lesson, answer)
    files = {file.relative_to(SOLUTIONS).as_posix(): file.read_bytes() for file in (SOLUTIONS / lesson).glob("*.py")}
    sandbox.spent = 0.0
    home, worker = with_change(lesson, answer), InSandbox(sandbox, {**files, path: text.encode()})
    for asked in examples(lesson, answer.exercise)[:ASKED]:
        here, there = home.run(asked), worker.run(asked)
        is_same = same_outcome(here, there)
        assert is_same, f"another answer in the worker: {there.error or 'a value'}"
        assert (here.error and here.error.message) == (there.error and there.error.message)
    worker.finish()
