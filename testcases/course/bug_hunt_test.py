"""Lesson 10's bank of implementations, and what tests of several kinds earn on it."""

from dataclasses import replace
from typing import Any

import pytest

from solutions.lesson10_bug_hunt import diagnose
from testcases.course.students import HANGS
from testcases.harness.catalog import ROOT
from testcases.harness.diagnosis.depends import broken
from testcases.harness.execution.executor import solutions_changed
from testcases.harness.execution.messages import Call, Outcome
from testcases.harness.oracle.mutations import NamedChange, right_answers, suspects, wrong_answers
from testcases.harness.oracle.reference import examples, shared_reference, with_change
from testcases.harness.report.failures import CheckFailed
from testcases.harness.suite.asserts import named
from testcases.harness.suite.runner import cases_of
from testcases.harness.suite.session import Engine
from testcases.lesson10_bug_hunt import grading
from testcases.lesson10_bug_hunt.grading import behind, grade
from testcases.lesson10_bug_hunt.runs import clear_run, run
from testcases.lesson10_bug_hunt.scenarios_behind import Behind

LESSON = "lesson10_bug_hunt"
EACH = pytest.mark.parametrize("function", grading.LESSONS)
HEAD = """
import torch
import pytest
from ..lesson01_masked_sequences import response_mask
from ..lesson04_gae import compute_gae
from ..lesson05_ppo_loss import compute_ppo_loss
from ..lesson06_kl_rewards import compute_rewards
"""
ONE = "compute_gae(torch.ones(1), torch.ones(2), torch.zeros(1))"
RIGHT = "compute_gae(torch.ones(1), torch.tensor([1.0, 3.0]), torch.zeros(1), 0.5, 0.5)[0]"
GAE = f"{HEAD}\ndef test_compute_gae():\n    "


def verdict(function: str, source: str | None = None, chosen: Any = None) -> list[bool]:
    """What the tests of a file refuse; the reference's own without one."""
    subject = shared_reference()
    if source is not None:
        subject = solutions_changed({f"{LESSON}/my_tests.py": source})
    outcome = subject.run(behind(Call(LESSON, f"test_{function}"), chosen))
    assert outcome.error is None, outcome.error
    return outcome.value["refused"]


@EACH
def test_no_implementation_raises_so_that_a_call_alone_catches_nothing(function: str):
    assert len(grading.right(function)) >= 2 and len({one.source for one in grading.wrong(function)}) >= 40
    lesson, chosen = grading.LESSONS[function], [*grading.right(function), *grading.wrong(function)]
    answering = Behind(function, grading.packed(chosen))
    for one in chosen:
        for asked in examples(lesson, function):
            given, names = [*asked.arguments.values()], [*asked.arguments]
            said = answering.answer({"call": lesson, "given": given, "tracked": [False] * len(given), "names": names})
            assert "parts" in said, (said, one.source)
        answering.answer({"next": False})


@EACH
def test_reference_tests_accept_all_right_and_refuse_all_wrong_ones(function: str):
    chosen = [*grading.right(function), *grading.wrong(function)]
    assert verdict(function, chosen=chosen) == [one.question is not None for one in chosen]


WEAK = {
    "compute_gae": ONE,
    "compute_ppo_loss": "compute_ppo_loss(torch.ones(2), torch.ones(2), torch.ones(2))",
    "compute_rewards": "compute_rewards(torch.ones(1), torch.ones(1, 2), torch.ones(1, 2), torch.ones(1, 2).bool())",
    "response_mask": "response_mask(torch.tensor([[5, 2, 6]]), (2,))",
}


@EACH
def test_tests_that_look_at_shapes_earn_less_than_a_tenth(function: str):
    call = WEAK[function]
    parts = "[*zip(first, second)]" if function == "compute_gae" else "[(first, second)]"
    body = f"first, second = {call}, {call}\n    assert type(first) is type(second)\n    assert all("
    body += f"part.shape == other.shape and part.dtype == other.dtype and part.dim() < 3 for part, other in {parts})"
    found = verdict(function, f"{HEAD}\ndef test_{function}():\n    {body}\n", grading.wrong(function))
    assert sum(found) < 0.1 * len(found)


@named(
    "body, says",
    {
        "another-function-as-oracle": ("from ..lesson04_gae import td_errors", "td_errors"),
        "the-solution": ("from solutions.lesson04_gae import compute_gae", "solutions.lesson04_gae cannot be imported"),
        "a-file-beside-it": ("from .helpers import oracle", "helpers cannot be imported"),
        "now-so-and-now-so": ("assert torch.initial_seed() < 6", "don't agree"),
    },
)
def test_a_file_that_breaks_a_rule_earns_nothing_and_reads_one_sentence(body: str, says: str):
    found = failure(f"{GAE}{body}\n", HANGS)
    assert found.share == 0.0 and says in str(found), str(found)


def failure(source: str, seconds: float) -> CheckFailed:
    """What the report of test_compute_gae says about a test file."""
    with Engine(solutions_changed({f"{LESSON}/my_tests.py": source}), seconds=seconds).active():
        with pytest.raises(CheckFailed) as caught:
            grade(Call(LESSON, "test_compute_gae"))
    return caught.value


@pytest.mark.slow
@named(
    "body, kind, says",
    {
        "another-number": (
            f"found = {RIGHT}.item()\n    assert found == 2, 'not two'",
            "a right implementation is refused",
            ["compute_gae([1] (float32), [1, 3] (float32), [0] (float32), 0.5, 0.5)", "1.5", "not two"],
        ),
        "in-a-helper": (
            f"helper({RIGHT})\n\ndef helper(found):\n    assert found.grad is not None",
            "a right implementation is refused",
            ["line 13\n    assert found.grad is not None"],
        ),
        "broke": ("assert y", "your test broke", ["NameError: name 'y'", "line 10\n    assert y"]),
        "endless": (
            "helper()\n\ndef helper():\n    while True:\n        pass",
            "took too long",
            ["stopped after 1 seconds at", "my_tests.py:1"],
        ),
    },
)
def test_a_report_says_whose_mistake_it_is_and_shows_the_line(body: str, kind: str, says: list[str]):
    found = failure(f"{GAE}{body}\n", seconds=1.0 if "while" in body else HANGS)
    assert found.kind == kind and found.share == 0.0, str(found)
    assert all(" ".join(part.split()) in " ".join(str(found).split()) for part in says), str(found)


@pytest.mark.parametrize(
    "mark, refused",
    [
        ("parametrize(('wanted',), [(1.5,)], ids=['right'])", False),
        ("parametrize(argnames='wanted, more', argvalues=[pytest.param(1.5, 0.0, id='a'), (1.0, 0.0)])", True),
    ],
)
def test_marks_are_those_of_pytest(mark: str, refused: bool):
    body = f"pass\n\n@pytest.mark.{mark}\ndef test_compute_gae_marked(wanted=0.0, more=0.0):\n"
    source = f"{GAE}{body}    assert {RIGHT}.item() == wanted + more\n"
    assert verdict("compute_gae", source, grading.right("compute_gae")[:1]) == [refused]


def test_half_of_the_mistakes_are_half_of_the_points_and_one_question():
    body = "assert compute_gae(torch.ones(1), torch.tensor([1.0, 3.0]), torch.zeros(1), 0.5, 0.5)[0].item() == 1.5\n"
    found = failure(GAE + body, HANGS)
    said = " ".join(str(found).split())
    assert 0.1 < found.share < 0.9 and any(question in said for question in grading.WRONG["compute_gae"])


def test_a_run_that_looks_like_another_fault_is_not_asked():
    assert "collapse" in diagnose(run("step_too_large", 265))
    assert diagnose(clear_run("step_too_large", 265)) == "step_too_large"


@named(
    "file, exercise, old, new, told",
    {
        "as-handed-out": ("pessimism", "pessimistic_gain", "torch.minimum", "torch.maximum", ""),
        "another-mistake": ("pessimism", "pessimistic_gain", "merits.sign()", "1.0", "while no ratio is out"),
        "none-broken": ("bounded", "bounded_error", ".where(free_error > held_error, free_error, held_error).mean()",
                        ".maximum(free_error.mean(), held_error.mean())", ""),
    },
)  # fmt: skip
def test_a_wrong_repair_without_a_known_cause_reads_an_invariant_that_it_breaks(
    file: str, exercise: str, old: str, new: str, told: str
):
    path = f"{LESSON}/{file}.py"
    source = (ROOT / "solutions" / path).read_text("utf-8").replace(old, new)
    with Engine(solutions_changed({path: source})).active():
        said = [str(verdict) for case in cases_of(LESSON, exercise) if (verdict := case.run())]
    assert said and told in said[0] and ("Must hold:" in said[0]) == bool(told)


SUSPECTS = suspects(LESSON)


@pytest.mark.slow
@pytest.mark.parametrize("exercise", SUSPECTS)
def test_right_repairs_keep_all_invariants_and_each_is_broken_by_a_wrong_one(exercise: str):
    def is_broken(invariant: Any, answer: NamedChange) -> bool:
        subject, alone = with_change(LESSON, answer), replace(SUSPECTS[exercise], invariants=(invariant,))

        def both(asked: Call) -> tuple[Outcome, Outcome]:
            return shared_reference().run(asked), subject.run(asked)

        return bool(broken(alone, examples(LESSON, exercise), both))

    right, wrong = ([one for one in of(LESSON) if one.exercise == exercise] for of in (right_answers, wrong_answers))
    for invariant in SUSPECTS[exercise].invariants:
        assert not any(is_broken(invariant, one) for one in right), invariant.__name__
        assert any(is_broken(invariant, one) for one in wrong), invariant.__name__
