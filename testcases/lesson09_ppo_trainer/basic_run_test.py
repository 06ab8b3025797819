"""Lesson 9, by hand: updates and whole runs; what a checkpoint holds, and what loading it leaves of the run before."""

import math

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

LN2 = math.log(2)
# Certain: after 2 always 3, after 3 always the stop token (exp(-1000) is 0).
SURE = 1000.0
CHAIN = [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, SURE], [0.0, SURE, 0.0, 0.0]]
UNIFORM = [[0.0] * 4] * 4

UPDATE = scenario("update_of", of=PPOTrainer.training_step)
UPDATES = scenario("real_updates_of", of=PPOTrainer.training_step)
RUN = scenario("run_of", of=PPOTrainer.train)

# The prompts [2] and [3] get the certain responses [3, stop] and [stop]: log-probs 0. The reference is uniform over 4:
# each token has KL 2 ln 2 and, with coefficient 0.25 / ln 2, a penalty of 0.5. Scores 3.5 (0.5 + 2 + 1, with the
# prompt) and 3.
#   rewards [-0.5, 3], [2.5]; values [1, 0.5], [0.5]; gamma 1, lam 0.5: deltas -0.5 + 0.5 - 1 = -1, 2.5; 2
#   advantages [-1 + 0.5 * 2.5, 2.5] = [0.25, 2.5], [2]; returns [1.25, 3], [2.5]
WORLD = {
    "actor": CHAIN,
    "critic": [0.0, 0.0, 1.0, 0.5],
    "reference": UNIFORM,
    "reward": [0.0, 1.0, 0.5, 2.0],
    "prompts": ((2,), (3,)),
    "lam": 0.5,
    "kl_coef": 0.25 / LN2,
}
RAW = [[0.25, 2.5], [2.0, 0.0]]
# mean 4.75 / 3; squared deviations of -4, 2.75, 1.25 thirds; variance (16 + 7.5625 + 1.5625) / 9 / 2
WHITE = torch.tensor([[-4.0, 2.75], [1.25, 0.0]]).double() / 3 / math.sqrt(25.125 / 18 + 1e-8)


@named("whiten, advantages", {"whitened": (True, WHITE), "raw": (False, RAW)})
@pytest.mark.points(3)
def test_training_step_whitens_the_advantages_but_not_the_returns(whiten, advantages):
    assert_equal(
        UPDATE(**WORLD, whiten_advantages=whiten),
        given_rewards=[[-0.5, 3.0], [2.5, 0.0]],
        given_advantages=advantages,
        given_returns=[[1.25, 3.0], [2.5, 0.0]],
        given_values=[[1.0, 0.5], [0.5, 0.0]],
        given_log_probs=[[0.0, 0.0], [0.0, 0.0]],
    )


@named(
    "target, factor",
    {
        # error 0.1, 2 responses of the horizon 20: 1 + 0.1 * 2 / 20
        "a-tenth-too-far": (3 * LN2 / 1.1, 1.01),
        "the-error-is-clipped": (LN2, 1.02),
    },
)
def test_training_step_changes_the_kl_coef_after_the_epochs(target, factor):
    answer = UPDATE(**WORLD, kl_target=target, kl_horizon=20)
    assert_equal(
        answer, coefficient_in_the_epochs=0.25 / LN2, coefficient_after=factor * 0.25 / LN2, kl_coef=0.25 / LN2
    )


@pytest.mark.parametrize("updates_done, rate", [(6, 0.125), (7, 0.0625)])
def test_training_step_follows_the_learning_rate_and_counts(updates_done, rate):
    # 8 updates in all, learning_rate 0.5: a quarter is left before update 6, an eighth before update 7.
    answer = UPDATE(**WORLD, learning_rate=0.5, num_updates=8, updates_done=updates_done)
    assert_equal(answer, learning_rate=rate, updates_done=updates_done + 1, updates_done_in_the_epochs=updates_done)


# Log-probs of certain responses are 0, and stay so when they are doubled: this policy is not certain.
UNEVEN = {**WORLD, "actor": [[0.0] * 4, [0.0] * 4, [-1.0, 0.5, 0.0, 1.0], [0.0, 1.0, 0.5, 0.0]], "max_new_tokens": 3}


@named(
    "doubled, name",
    {
        "what-generate-responses-returns": ("generate_responses", "given_log_probs"),
        "what-compute-rewards-returns": ("compute_rewards", "given_rewards"),
    },
)
@pytest.mark.points(2)
def test_training_step_learns_from_what_its_methods_return(doubled, name):
    answer, plain = UPDATE(**UNEVEN, doubled=doubled), UPDATE(**UNEVEN)
    assert_equal(answer, calls_of_generate_responses=1, calls_of_compute_rewards=1)
    assert_equal(answer[name], 2 * plain[name])
    assert not torch.equal(answer["given_returns"], plain["given_returns"]), (
        f"other returns when {doubled} returns twice as much"
    )
    assert_equals_reference(answer)


@named("critic_lam, returns", {"none": (None, [[1.25, 3.0], [2.5, 0.0]]), "of-1": (1.0, [[2.5, 3.0], [2.5, 0.0]])})
def test_training_step_makes_the_critics_targets_with_their_own_lambda(critic_lam, returns):
    # With lambda 1 a return is the sum of the rewards that follow: -0.5 + 3 and 3. The advantages stay those of lam.
    assert_equal(UPDATE(**WORLD, critic_lam=critic_lam), given_returns=returns, given_advantages=WHITE)


# Random-looking tables over three tokens, and positions; prompts of several lengths.
REAL = {
    "actor": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-2.0, 0.0, 0.5]],
    "places": torch.arange(24).double().reshape(8, 3).sin(),
    "critic": [0.0, 0.25, 0.5],
    "reference": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-2.0, 1.0, 0.0]],
    "reward": [0.0, 1.0, 0.25],
    "prompts": ((2,), (2, 2), (2, 2, 2), (2, 2)),
    "batch_size": 4,
    "num_minibatches": 2,
    "num_epochs": 2,
    "max_new_tokens": 4,
    "num_updates": 3,
}


@pytest.mark.points(2)
@named("settings", {"plain": {}, "at-a-low-temperature-row-by-row": {"temperature": 0.5, "micro_batch_size": 1}})
def test_training_step_that_cannot_move_keeps_the_ratio_at_1(settings):
    # The check to make first in any trainer: with a learning rate of almost 0, new and old policy are one. Whatever is
    # recomputed in another way than it was sampled shows here.
    answer = UPDATES(**REAL, learning_rate=1e-200, updates=2, **settings)
    for name in ("first_ratio_max", "ratio_max", "ratio_mean"):
        assert_equal(answer[name], [1.0, 1.0], atol=1e-9)
    assert_equal(answer, clip_fraction=[0.0, 0.0], skipped_share=[0.0, 0.0], optimizer_steps=[4.0, 4.0])


def test_training_step_keeps_the_reference_of_the_beginning():
    # The policy moves, but the reference must not: each update sees the KL from the same reference.
    answer = UPDATES(**REAL, updates=3, learning_rate=0.05, adam_epsilon=0.1, kl_target=0.5, kl_horizon=8)
    assert min(map(abs, answer["kl"][1:])) > 1e-3, "a KL from the reference that stays away from 0"
    assert_equals_reference(answer)


@pytest.mark.points(2)
def test_train_uses_each_prompt_once_before_any_comes_again():
    # 5 prompts (tokens 2 to 6), 5 updates of 2: each prompt twice, and the first five draws are all different.
    answer = RUN(available=5, batch_size=2, num_minibatches=2, num_updates=5)
    assert [len(batch) for batch in answer["batches"]] == [2] * 5, "5 batches of 2 prompts"
    assert_equal(answer, prompts_are_as_before=True)
    assert [sorted(sum(answer["batches"], [])[first : first + 5]) for first in (0, 5)] == [[2, 3, 4, 5, 6]] * 2, (
        "each of the five prompts once among the first five, and once among the next five"
    )


@pytest.mark.parametrize("seed", [0, 5])
def test_train_shuffles_the_prompts(seed):
    answer = RUN(available=12, batch_size=6, num_minibatches=1, num_updates=4, seed=seed)
    assert sum(answer["batches"], [])[:12] != list(range(2, 14)), "another order than that of the list"
    assert_leaves_global_random_alone(answer)
    assert_equals_reference(answer)


FEW = {"available": 3, "batch_size": 2, "num_minibatches": 1}


@named("done, updates", {"a-new-run": (0, 4), "resumed": (3, 1), "over": (4, 0)})
@pytest.mark.points(2)
def test_train_runs_the_updates_that_are_left(done, updates):
    answer = RUN(**FEW, num_updates=4, updates_done=done)
    assert len(answer["batches"]) == updates, f"updates: {updates}"
    assert [one["score"] for one in answer["history"]] == [0.0, 1.0, 2.0, 3.0], (
        "a history of all 4 updates, those before the checkpoint included"
    )
    assert answer["returned"] == answer["history"], "the history as the answer"
    assert not answer["log_is_closed"], "nothing written: config.log_dir is None"


@named(
    "settings, calls, updates, error",
    {
        "each-update-is-in-the-history": ({"num_updates": 3}, 3, 3, ""),
        # The KL of the third update is infinite: it is in the history, and the run ends before on_update could save it.
        "an-update-that-diverges-is-not-saved": ({"num_updates": 5, "diverges_in": 3}, 2, 3, "stopped at update 3"),
        "an-interrupted-run-keeps-its-history": ({"num_updates": 5, "stop_after": 2}, 2, 2, "stopped by the user"),
    },
)
@pytest.mark.points(2)
def test_train_calls_on_update_after_each_update(settings, calls, updates, error):
    # Each call: updates done, length of the history, number of updates run
    answer = RUN(**FEW, **settings)
    assert answer["on_update"] == [[number] * 3 for number in range(1, calls + 1)], (
        f"on_update after the updates 1 to {calls}, with the trainer, when their metrics are in the history"
    )
    assert error in "".join(answer["errors"]), f"the error to come through: {error}"
    assert [one["score"] for one in answer["history"]] == [float(number) for number in range(updates)], (
        f"the metrics of {updates} updates in the history"
    )


@named("done, stop_after, last", {"a-new-run": (0, None, 4), "resumed": (2, None, 4), "interrupted": (0, 2, 2)})
@pytest.mark.points(2)
def test_train_writes_every_update_into_the_log(done, stop_after, last):
    # A resumed run begins the file with the updates that its history holds.
    answer = RUN(**FEW, num_updates=4, updates_done=done, stop_after=stop_after, log=True)
    lines = [{"update": step, "score": float(step - 1), "kl": (step - 1) / 10} for step in range(1, last + 1)]
    assert answer["metrics_file"] == lines, f"one line for each of the updates 1 to {last}"
    assert answer["log_is_closed"], "a log that is closed, or its end is lost"


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


@named(
    "fails, error",
    {"while-writing": ("writing", "no space left on device"), "while-renaming": ("renaming", "the disk is gone")},
)
@pytest.mark.points(4)
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
