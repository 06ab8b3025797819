"""Lesson 9, in general: each exercise against the reference, and end to end."""

import pytest
import torch

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import (
    assert_equals_reference,
    assert_leaves_global_random_alone,
    examples_of,
    scenario,
)
from tutorial.lesson09_ppo_trainer import PPOTrainer

RESUMED = scenario("resumed_of", of=PPOTrainer.load_checkpoint)

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


WORLD = {
    "actor": normal(5, 5, seed=20),
    "critic": normal(5, seed=21),
    "reference": normal(5, 5, seed=22),
    "reward": normal(5, seed=23),
    "batch_size": 6,
    "num_minibatches": 2,
    "num_epochs": 2,
    "max_new_tokens": 5,
    "adam_epsilon": 0.1,
}


def test_load_checkpoint_takes_no_half_written_file():
    with pytest.raises(FileNotFoundError, match=r"trainer\.pt"):
        scenario("loaded_of", of=PPOTrainer.load_checkpoint)(mark=1.0, content="unfinished")


@pytest.mark.points(2)
def test_load_checkpoint_makes_the_resumed_run_equal_the_undisturbed_one():
    settings = {**WORLD, "learning_rate": 0.2, "kl_target": 0.5, "kl_horizon": 30, "num_updates": 5}
    answer = RESUMED(prompts=((2,), (3,), (4,), (2, 2)), saved_after=(1, 3), **settings)
    assert_equals_reference(answer, atol=CLIPPED_BY_HAND)
    for name in ("actor", "critic", "momentum", "coefficient", "history", "next_draw_sampling", "prompts_waiting"):
        assert all(
            str(answer[f"{run}_{name}"]) == str(answer[f"undisturbed_{name}"])
            and bool(torch.as_tensor(answer[f"{run}_{name}"] == answer[f"undisturbed_{name}"]).all())
            for run in ("resumed_after_1", "resumed_after_3")
        ), "a resumed run with the very numbers of the undisturbed one, to the last bit"
