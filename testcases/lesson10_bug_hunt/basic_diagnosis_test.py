"""Lesson 10, the diagnosis: logs of runs that this run's seed draws, so that each fault is known or not."""

import pytest

from testcases.harness.suite.asserts import assert_equal
from testcases.harness.suite.session import current
from tutorial.lesson10_bug_hunt import diagnose

from .runs import clear_run


def expect(fault: str) -> None:
    """Two runs with this fault."""
    for number in range(2):
        assert_equal(diagnose(log=clear_run(fault, 1000 * current().seed + number)), fault)


@pytest.mark.points(2)
def test_diagnose_knows_a_healthy_run():
    expect("healthy")


@pytest.mark.points(2)
def test_diagnose_sees_log_probs_of_another_policy():
    expect("sampling_mismatch")


@pytest.mark.points(2)
def test_diagnose_sees_a_wrong_reference():
    expect("wrong_reference")


@pytest.mark.points(2)
def test_diagnose_sees_that_nothing_is_clipped():
    expect("ratio_stays_one")


@pytest.mark.points(2)
def test_diagnose_sees_a_collapse():
    expect("entropy_collapse")


@pytest.mark.points(2)
def test_diagnose_sees_a_critic_that_does_not_learn():
    expect("critic_frozen")


@pytest.mark.points(2)
def test_diagnose_sees_growing_responses():
    expect("length_rewarded")


@pytest.mark.points(2)
def test_diagnose_sees_steps_that_are_too_large():
    expect("step_too_large")
