"""Right answers: the suites pass every right way but the solution's, the basic ones every published formula."""

from typing import Any

import pytest

from testcases import contract_test
from testcases.course.students import LESSONS, answer_row
from testcases.harness.execution.messages import Call
from testcases.harness.oracle.mutations import NamedChange, published_answers, right_answers
from testcases.harness.oracle.reference import shared_reference, with_change
from testcases.harness.report.compare import Rules, first_difference
from testcases.harness.suite.anti_gaming import not_earned
from testcases.harness.suite.questions import plain
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine

PUBLISHED = [answer_row(lesson, one) for lesson in LESSONS for one in published_answers(lesson)]
RIGHT = [answer_row(lesson, one) for lesson in LESSONS for one in right_answers(lesson)]


class Noting(Engine):
    """Notes whether a test has asked for the seed: one that does not need not be run with another."""

    has_drawn = False

    def __getattribute__(self, name: str) -> Any:
        if name == "seed":
            self.has_drawn = True
        return super().__getattribute__(name)


@pytest.mark.slow
@pytest.mark.parametrize("lesson, right", RIGHT)
def test_right_answer_passes_both_suites(lesson: str, right: NamedChange, monkeypatch: pytest.MonkeyPatch):
    """All cases with the first seed; those that draw fresh inputs with four others."""
    engine, chosen = Noting(with_change(lesson, right)), cases_of(lesson, right.exercise)
    for engine.seed in range(5):
        drawing = []
        with engine.active():
            for case in chosen:
                engine.has_drawn = False
                verdict = case.run()
                assert verdict is None, f"{case.node}[{case.label}] with seed {engine.seed}\n{verdict}"
                drawing += [case] * engine.has_drawn
        chosen = drawing
        monkeypatch.setattr(contract_test, "check_common_questions", lambda entry: None)  # they are made of seed 0's


@pytest.mark.parametrize("lesson, published", PUBLISHED)
def test_published_formula_earns_all_basic_points(lesson: str, published: NamedChange):
    """It passes the basic suite, and five times, on fresh plain examples, each of these tests is found to be earned."""
    engine = Engine(with_change(lesson, published))
    chosen = [case for case in cases_of(lesson, published.exercise) if case.entry.is_basic]
    for engine.seed in range(5):
        passed: dict[str, list[Call]] = {}
        with engine.active():
            for case in chosen:
                verdict = case.run()
                assert verdict is None, f"{case.node}[{case.label}] with seed {engine.seed}\n{verdict}"
                passed.setdefault(case.node, []).extend(engine.answered)
            assert not not_earned(engine, lesson, published.exercise, passed), f"with seed {engine.seed}"
            for asked in plain(engine.examples(lesson, published.exercise)):
                right, got = shared_reference().run(asked), engine.ask(asked)
                wrong = got.error or first_difference(right.value, got.value, Rules(single=True))
                assert wrong is None, (asked, right, got)
