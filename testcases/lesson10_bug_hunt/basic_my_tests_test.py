"""Lesson 10, the student's own tests: run on right and wrong implementations that this run draws, and on a second draw.

The second counts to the advanced suite, as its name says.
"""

import pytest

from tutorial.lesson10_bug_hunt import test_compute_gae as of_gae
from tutorial.lesson10_bug_hunt import test_compute_ppo_loss as of_ppo_loss
from tutorial.lesson10_bug_hunt import test_compute_rewards as of_rewards
from tutorial.lesson10_bug_hunt import test_response_mask as of_mask

from .grading import grade


@pytest.mark.points(16)
def test_test_compute_gae_accepts_the_right_and_refuses_the_wrong():
    grade(of_gae)


@pytest.mark.points(6)
def test_test_compute_gae_agrees_with_the_reference():
    grade(of_gae, draw=1)


@pytest.mark.points(16)
def test_test_compute_ppo_loss_accepts_the_right_and_refuses_the_wrong():
    grade(of_ppo_loss)


@pytest.mark.points(6)
def test_test_compute_ppo_loss_agrees_with_the_reference():
    grade(of_ppo_loss, draw=1)


@pytest.mark.points(16)
def test_test_compute_rewards_accepts_the_right_and_refuses_the_wrong():
    grade(of_rewards)


@pytest.mark.points(6)
def test_test_compute_rewards_agrees_with_the_reference():
    grade(of_rewards, draw=1)


@pytest.mark.points(16)
def test_test_response_mask_accepts_the_right_and_refuses_the_wrong():
    grade(of_mask)


@pytest.mark.points(6)
def test_test_response_mask_agrees_with_the_reference():
    grade(of_mask, draw=1)
