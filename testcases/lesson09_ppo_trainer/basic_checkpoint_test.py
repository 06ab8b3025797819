"""Lesson 9, by hand: what a checkpoint holds, and what loading it leaves of the run before."""

import pytest
import torch

from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    assert_leaves_global_random_alone,
    named,
    scenario,
)
from tutorial.lesson09_ppo_trainer import PPOTrainer

NO, YES = False, True

SAVED = scenario("saved_of", of=PPOTrainer.save_checkpoint)
LOADED = scenario("loaded_of", of=PPOTrainer.load_checkpoint)

# A trainer in the middle of a run; the file it leaves is read by the reference's load_checkpoint.
IN_THE_MIDDLE = {"updates_done": 3, "learning_rate": 0.025, "scores_in_history": [0.0, 2.0, 4.0], "coefficient": 0.125}
# Weights k / 8 + 2 minus a step of 0.1; Adam's momentum is a tenth of the gradient 2.
TRAINED = {
    **IN_THE_MIDDLE,
    "actor": torch.arange(9).double().reshape(3, 3) / 8 + 1.9,
    "critic": [0.9, 1.025, 1.15],
    "momentum": [0.2, 0.2],
}


@named("given", {"path": {}, "text-of-a-folder-that-is-missing": {"as_path": NO, "folder": "runs/today/checkpoint"}})
@pytest.mark.points(3)
def test_save_checkpoint_keeps_what_the_next_update_needs(given):
    # 5 - 2 prompts are waiting.
    answer = SAVED(marks=(2.0,), learning_rate=0.1, **given)
    assert_equal(answer, **TRAINED, atol=1e-5)
    assert len(answer["prompts_waiting"]) == 3, "the 3 prompts that are waiting"
    assert answer["files"] == ["trainer.pt"], "one file, trainer.pt"
    assert_equal(answer, parts_in_training_mode=3)
    assert_leaves_global_random_alone(answer)
    assert_equals_reference(answer)


def test_save_checkpoint_replaces_an_older_one():
    answer = SAVED(marks=(1.0, 4.0), beside="notes.txt", kl_target=6.0)
    assert_equal(answer, coefficient=0.25, updates_done=3, scores_in_history=[0.0, 4.0, 8.0])
    assert answer["files"] == ["notes.txt", "trainer.pt"], "one file, trainer.pt, beside the user's notes.txt"
    assert_equals_reference(answer)


@named(
    "fails, error",
    {"while-writing": ("writing", "no space left on device"), "while-renaming": ("renaming", "the disk is gone")},
)
@pytest.mark.points(3)
def test_save_checkpoint_that_is_interrupted_leaves_the_old_one(fails, error):
    # The disk fails while the second checkpoint (KL coefficient 1 / 16) is written: the first (3 / 16) must be whole.
    answer = SAVED(marks=(3.0, 1.0), fails=fails)
    assert answer["error"] == error, "the OSError to come through"
    assert not answer["written_elsewhere"], "the unfinished file in the directory itself"
    assert_equal(answer, coefficient=0.1875, scores_in_history=[0.0, 3.0, 6.0])
    assert_equals_reference(answer)


@named("given", {"path": {}, "text": {"as_path": NO}, "adaptive-kl-coef": {"kl_target": 6.0, "kl_coef": 0.7}})
@pytest.mark.points(4)
def test_load_checkpoint_restores_what_the_next_update_needs(given):
    answer = LOADED(mark=2.0, learning_rate=0.1, **given)
    assert_equal(answer, **TRAINED, atol=1e-5)
    assert len(answer["prompts_waiting"]) == 3, "the 3 prompts that were waiting"
    assert_equal(answer, parts_in_training_mode=3)
    assert_equals_reference(answer)


AT_THE_START = {"updates_done": 0, "learning_rate": 0.1, "scores_in_history": [], "coefficient": 0.05}


@named("mark, expected, waiting", {"in-the-middle": (2.0, IN_THE_MIDDLE, 3), "at-the-start": (0.0, AT_THE_START, 0)})
@pytest.mark.points(2)
def test_load_checkpoint_leaves_nothing_of_another_run(mark, expected, waiting):
    # The trainer that loads is in the middle of a run of its own; all of that has to go.
    answer = LOADED(mark=mark, mark_before=3.0, learning_rate=0.1)
    assert_equal(answer, **expected)
    assert len(answer["prompts_waiting"]) == waiting, f"{waiting} prompts waiting, as there were"
    assert_equals_reference(answer)


@named("wrapped", {"one-process": NO, "wrapped": YES})
@pytest.mark.points(2)
def test_load_checkpoint_leaves_optimizer_and_models_together(wrapped):
    # One step with gradient 1 after loading: it has to move the weights that the trainer uses.
    answer = LOADED(mark=1.0, learning_rate=0.5, wrapped=wrapped)
    assert (answer["actor_one_step_later"] < answer["actor"] - 0.01).all(), "an optimizer step that moves the actor"
    assert_equals_reference(answer)
