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
INTERRUPTED = scenario("interrupted_save_of", of=PPOTrainer.save_checkpoint)
LOADED = scenario("loaded_of", of=PPOTrainer.load_checkpoint)
REFUSED = scenario("refused_load_of", of=PPOTrainer.load_checkpoint)
MODE_AFTER_SAVING = scenario("parts_in_training_mode_after", of=PPOTrainer.save_checkpoint)
MODE_AFTER_LOADING = scenario("parts_in_training_mode_after", of=PPOTrainer.load_checkpoint)

# A trainer in the middle of a run; the file it leaves is read by the reference's load_checkpoint.
IN_THE_MIDDLE = {"updates_done": 3, "learning_rate": 0.025, "scores_in_history": [0.0, 2.0, 4.0], "coefficient": 0.125}
# Weights k / 8 + 2 minus a step of 0.1; Adam's momentum is a tenth of the gradient 2.
TRAINED = {
    **IN_THE_MIDDLE,
    "actor": torch.arange(9).double().reshape(3, 3) / 8 + 1.9,
    "critic": [0.9, 1.025, 1.15],
    "momentum": [0.2, 0.2],
}


@named("as_path", {"path": YES, "text": NO})
@pytest.mark.points(2)
def test_save_checkpoint_keeps_what_the_next_update_needs(as_path):
    # 5 - 2 prompts are waiting.
    answer = SAVED(marks=(2.0,), learning_rate=0.1, as_path=as_path)
    assert_equal(answer, **TRAINED, atol=1e-5)
    assert len(answer["prompts_waiting"]) == 3, "the 3 prompts that are waiting"
    assert_leaves_global_random_alone(answer)
    assert_equals_reference(answer)


def test_save_checkpoint_makes_the_folder_and_leaves_one_file():
    answer = SAVED(marks=(1.0,), folder="runs/today/checkpoint")
    assert answer["files"] == ["trainer.pt"], "one file, trainer.pt, in a folder that was missing"
    assert_equals_reference(answer)


def test_save_checkpoint_leaves_the_model_in_its_mode():
    assert_equal(MODE_AFTER_SAVING(method="save_checkpoint"), 3)


def test_save_checkpoint_replaces_an_older_one():
    answer = SAVED(marks=(1.0, 4.0), beside="notes.txt", kl_target=6.0)
    assert_equal(answer, coefficient=0.25, updates_done=3, scores_in_history=[0.0, 4.0, 8.0])
    assert answer["files"] == ["notes.txt", "trainer.pt"], "one file, trainer.pt, beside the user's notes.txt"
    assert_equals_reference(answer)


@named(
    "while_renaming, error",
    {"while-writing": (NO, "no space left on device"), "while-renaming": (YES, "the disk is gone")},
)
@pytest.mark.points(2)
def test_save_checkpoint_that_is_interrupted_leaves_the_old_one(while_renaming, error):
    # The disk fails while the second checkpoint (KL coefficient 1 / 16) is written: the first (3 / 16) must be whole.
    answer = INTERRUPTED(first=3.0, second=1.0, while_renaming=while_renaming)
    assert answer["error"] == error, "the OSError to come through"
    assert not answer["written_elsewhere"], "the unfinished file in the directory itself"
    assert_equal(answer, coefficient=0.1875, scores_in_history=[0.0, 3.0, 6.0], coefficient_saved_later=0.0625)
    assert_equals_reference(answer)


@named("as_path", {"path": YES, "text": NO})
def test_load_checkpoint_restores_what_the_next_update_needs(as_path):
    answer = LOADED(mark=2.0, learning_rate=0.1, as_path=as_path)
    assert_equal(answer, **TRAINED, atol=1e-5)
    assert len(answer["prompts_waiting"]) == 3, "the 3 prompts that were waiting"
    assert_equals_reference(answer)


def test_load_checkpoint_restores_the_adaptive_kl_coef():
    answer = LOADED(mark=4.0, kl_target=6.0, kl_coef=0.7)
    assert_equal(answer, coefficient=0.25)
    assert_equals_reference(answer)


AT_THE_START = {"updates_done": 0, "learning_rate": 0.1, "scores_in_history": [], "coefficient": 0.05}


@named("mark, expected, waiting", {"in-the-middle": (2.0, IN_THE_MIDDLE, 3), "at-the-start": (0.0, AT_THE_START, 0)})
def test_load_checkpoint_leaves_nothing_of_another_run(mark, expected, waiting):
    # The trainer that loads is in the middle of a run of its own; all of that has to go.
    answer = LOADED(mark=mark, mark_before=3.0, learning_rate=0.1)
    assert_equal(answer, **expected)
    assert len(answer["prompts_waiting"]) == waiting, f"{waiting} prompts waiting, as there were"
    assert_equals_reference(answer)


def test_load_checkpoint_restores_the_random_states():
    # The new trainer is at the start of its random numbers: after loading it must draw what the saved one would have,
    # and so must torch's, Python's and numpy's global generators, which are at another place by then.
    assert_equals_reference(LOADED(mark=3.0, seed=1, with_global_draws=True))


def test_load_checkpoint_leaves_the_model_in_its_mode():
    assert_equal(MODE_AFTER_LOADING(method="load_checkpoint"), 3)


@named("wrapped", {"one-process": NO, "wrapped": YES})
def test_load_checkpoint_leaves_optimizer_and_models_together(wrapped):
    # One step with gradient 1 after loading: it has to move the weights that the trainer uses.
    answer = LOADED(mark=1.0, learning_rate=0.5, wrapped=wrapped)
    assert (answer["actor_one_step_later"] < answer["actor"] - 0.01).all(), "an optimizer step that moves the actor"
    assert_equals_reference(answer)


@pytest.mark.parametrize("content", ["2 wide", "4 wide", "of other names"])
def test_load_checkpoint_refuses_models_of_another_shape(content):
    with pytest.raises(ValueError):
        LOADED(mark=1.0, content=content)


def test_load_checkpoint_that_is_refused_leaves_the_run_as_it_was():
    # kl_coef 3 / 16 and history of the run that goes on; the file of the other, wider models has 1 / 16 and 0, 1, 2.
    answer = REFUSED(mark=1.0, mark_before=3.0, width=4)
    assert_equal(answer, error="ValueError", coefficient=0.1875, scores_in_history=[0.0, 3.0, 6.0])
    assert_equals_reference(answer)
