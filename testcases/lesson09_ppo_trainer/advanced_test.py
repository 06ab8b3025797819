"""Lesson 9, in general: against the reference, and a checkpoint that was half written."""

import pytest

from testcases.harness.suite.asserts import (
    assert_equals_reference,
    assert_leaves_global_random_alone,
    examples_of,
    scenario,
)
from tutorial.lesson09_ppo_trainer import PPOTrainer

# torch adds 1e-6 to the norm by which it clips; clipping by hand is as good.
CLIPPED_BY_HAND = 1e-5


@pytest.mark.points(4)
def test_optimizer_step_agrees_with_the_reference():
    for answer in examples_of(PPOTrainer.optimizer_step):
        assert_equals_reference(answer, atol=CLIPPED_BY_HAND)


@pytest.mark.points(4)
def test_training_step_agrees_with_the_reference():
    for answer in examples_of(PPOTrainer.training_step):
        assert_leaves_global_random_alone(answer)
        assert_equals_reference(answer, atol=CLIPPED_BY_HAND)


def test_load_checkpoint_takes_no_half_written_file():
    with pytest.raises(FileNotFoundError, match=r"trainer\.pt"):
        scenario("loaded_of", of=PPOTrainer.load_checkpoint)(mark=1.0, content="unfinished")
