"""Lesson 9, by hand: loss, step and epochs of two rows, every number worked out in a comment.

A table policy has a row of logits for the token before; a table critic a value for it. Token 0 is padding, 1 stops.
"""

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

NAN = math.nan
LN2 = math.log(2)
NO, YES = False, True

LOSS = scenario("loss_of", of=PPOTrainer.compute_loss)
STEPS = scenario("steps_of", of=PPOTrainer.optimizer_step)
UPDATE = scenario("update_of", of=PPOTrainer.training_step)

# Two rows, three real tokens. After 2 the policy gives 1/8, 1/8, 1/4, 1/2, after 3 it is uniform: 1/4.
#   row 0: token 3 (1/2, it was 1/4: ratio 2), then the stop token (1/4, it was 1/2: ratio 1/2); row 1: token 3, ratio 1
#   advantages 1, 1, -2. clip_epsilon 0.25: min(2, 1.25) = 1.25; min(0.5, 0.75) = 0.5; -2
#   policy_loss = -(1.25 + 0.5 - 2) / 3 = 0.25 / 3
#   values 1 (after 2), 2 (after 3), 1; old 0.5, 2, 2; returns 2, 1, 1.5; value clip 1/8: clipped 0.625, 2, 1.875
#   larger squares 1.375^2, 1, 0.5^2: value_loss = (1.890625 + 1 + 0.25) / 6 = 3.140625 / 6
#   entropies 1.75 ln 2, 2 ln 2, 1.75 ln 2: mean 5.5 / 3 ln 2
AFTER_2 = torch.tensor([0.125, 0.125, 0.25, 0.5], dtype=torch.float64)
BATCH = {
    "actor": torch.stack([torch.zeros(4).double(), torch.zeros(4).double(), AFTER_2.log(), torch.zeros(4).double()]),
    "critic": [9.0, 9.0, 1.0, 2.0],
    "prompts": [[2], [2]],
    "responses": [[3, 1], [3, 0]],
    "mask": [[YES, YES], [YES, NO]],
    "log_probs": [[-2 * LN2, -LN2], [-LN2, 0.0]],
    "advantages": [[1.0, 1.0], [-2.0, 0.0]],
    "values": [[0.5, 2.0], [2.0, 0.0]],
    "returns": [[2.0, 1.0], [1.5, 0.0]],
}
EPSILONS = {"clip_epsilon": 0.25, "value_clip_epsilon": 0.125}
POLICY_LOSS, VALUE_LOSS, ENTROPY = 0.25 / 3, 3.140625 / 6, 5.5 / 3 * LN2
# d policy_loss: the first token is clipped. Row 0, token 1: -1/2 (onehot - 1/4) / 3 by the logits after 3; row 1:
# 2 (onehot - p) / 3 by those after 2.
POLICY_SLOPE = torch.tensor(
    [[0.0] * 4, [0.0] * 4, [-0.25 / 3, -0.25 / 3, -0.5 / 3, 1 / 3], [0.125 / 3, -0.375 / 3, 0.125 / 3, 0.125 / 3]],
    dtype=torch.float64,
)
# d entropy = p (-log p - H) for each of the two tokens after 2; the uniform rows are at their maximum.
ENTROPY_SLOPE = torch.zeros(4, 4, dtype=torch.float64)
ENTROPY_SLOPE[2] = 2 / 3 * LN2 * torch.tensor([0.15625, 0.15625, 0.0625, -0.375], dtype=torch.float64)
# d value_loss: the first token is clipped; 1 - 1.5 = -1/2 by the value after 2, 2 - 1 = 1 by that after 3, of 3 tokens
VALUE_SLOPE = torch.tensor([0.0, 0.0, -0.5 / 3, 1 / 3], dtype=torch.float64)


@pytest.mark.parametrize("value_coef, entropy_coef", [(0.5, 0.0), (0.0, 0.25), (2.0, 0.125)])
@pytest.mark.points(2)
def test_compute_loss_by_hand(value_coef, entropy_coef):
    answer = LOSS(**BATCH, **EPSILONS, value_coef=value_coef, entropy_coef=entropy_coef)
    assert_equal(
        answer,
        loss=POLICY_LOSS + value_coef * VALUE_LOSS - entropy_coef * ENTROPY,
        actor_gradient=POLICY_SLOPE - entropy_coef * ENTROPY_SLOPE,
        critic_gradient=value_coef * VALUE_SLOPE,
    )


@pytest.mark.points(2)
def test_compute_loss_statistics():
    # approx_kl: ratio - 1 - log(ratio) is 1 - ln 2, -1/2 + ln 2 and 0. One token of three is clipped, twice.
    assert_equal(
        LOSS(**BATCH, **EPSILONS, entropy_coef=0.5),
        policy_loss=POLICY_LOSS,
        value_loss=VALUE_LOSS,
        entropy=ENTROPY,
        ratio_mean=3.5 / 3,
        ratio_max=2.0,
        approx_kl=0.5 / 3,
        clip_fraction=1 / 3,
        value_clip_fraction=1 / 3,
    )
    # In an interval from -1/2 to 5/2 lies every ratio; the values have their own.
    answer = LOSS(**BATCH, clip_epsilon=1.5, value_clip_epsilon=0.125)
    assert_equal(answer, clip_fraction=0.0, value_clip_fraction=1 / 3)


def test_compute_loss_uses_the_temperature():
    # Twice the logits at temperature 2 are the same distribution; the gradient by the logits is half as large.
    batch = {**BATCH, "actor": 2 * BATCH["actor"]}
    answer = LOSS(**batch, **EPSILONS, temperature=2.0, value_coef=0.5, entropy_coef=0.5)
    assert_equal(
        answer,
        loss=POLICY_LOSS + 0.5 * VALUE_LOSS - 0.5 * ENTROPY,
        actor_gradient=(POLICY_SLOPE - 0.5 * ENTROPY_SLOPE) / 2,
        critic_gradient=0.5 * VALUE_SLOPE,
        entropy=ENTROPY,
        ratio_max=2.0,
    )


def test_compute_loss_before_the_first_step_is_the_mean_advantage():
    # Nothing has moved, so every ratio is 1: minus the mean of 1, 0 and -2, the same for any clip_epsilon.
    old = {"log_probs": [[-LN2, -2 * LN2], [-LN2, 0.0]], "advantages": [[1.0, 0.0], [-2.0, 0.0]]}
    answer = LOSS(**{**BATCH, **old}, value_coef=0.0)
    assert_equal(answer, loss=1 / 3, policy_loss=1 / 3, ratio_mean=1.0, ratio_max=1.0, approx_kl=0.0, clip_fraction=0.0)


@pytest.mark.points(2)
def test_compute_loss_goes_through_the_wrapped_model():
    # On several processes the wrapper averages the gradients: a pass of the model inside it would leave each alone.
    # value_coef is 0.1, both epsilons are 0.2: min(2, 1.2) + min(0.5, 0.8) - 2 = -0.3; clipped values 0.7, 1.8
    answer = LOSS(**BATCH, wrapped=True)
    assert_equal(answer, loss=0.1 + 0.1 * (1.3**2 + 1 + 0.25) / 6, passes_through_the_wrapper=1)
    # Gradient checkpointing of a real model works in training mode only.
    assert_equal(answer, parts_in_training_mode=[3])


# Adam's first step moves a weight by -lr g / (|g| + adam_epsilon); with lr 1 and adam_epsilon 1: -g / (|g| + 1).
# Row 0 has one token, row 1 three. Slopes of the actor 4 | 0, 0, 0: mean over tokens 1 (over rows it would be 2);
# of the critic 0 | -4, -4, -4: mean -3. Norm sqrt(10), not clipped.
RAGGED = [[YES, NO, NO], [YES, YES, YES]]
SLOPES = {
    "actor_slopes": [[4.0, 9.0, 9.0], [0.0, 0.0, 0.0]],
    "critic_slopes": [[0.0, 9.0, 9.0], [-4.0, -4.0, -4.0]],
    "mask": RAGGED,
}
CALM = torch.ones(2, 3).double()
ADAM = {"learning_rate": 1.0, "adam_epsilon": 1.0, "max_grad_norm": 100.0}
MICROBATCHES = named("size", {"one-microbatch": None, "row-by-row": 1, "of-two-rows": 2})


@MICROBATCHES
@pytest.mark.points(4)
def test_optimizer_step_does_not_depend_on_the_microbatches(size):
    answer = STEPS(**SLOPES, ratios=[CALM], micro_batch_size=size, **ADAM)
    assert_equal(answer, actor=[-0.5], critic=[0.75], grad_norm=[math.sqrt(10)], skipped_share=[0.0])
    assert answer["microbatches"] == ([[0], [1]] if size == 1 else [[0, 1]]), (
        f"microbatches of {size or 'all'} rows, each row in exactly one"
    )
    assert answer["one_at_a_time"], "a backward pass of each loss before the next one is computed"


@MICROBATCHES
def test_optimizer_step_clips_the_norm_of_all_gradients(size):
    # Gradients 3 and -4: norm 5, clipped to 1.25: 0.75 and -1, together for both models. torch adds 1e-6 to the norm.
    slopes = {"actor_slopes": [[12.0, 9.0, 9.0], [0.0] * 3], "critic_slopes": [[-4.0, 9.0, 9.0], [-4.0] * 3]}
    options = {"ratios": [CALM], "micro_batch_size": size, **ADAM, "max_grad_norm": 1.25}
    answer = STEPS(**slopes, mask=RAGGED, **options)
    assert_equal(answer, actor=[-0.75 / 1.75], critic=[0.5], grad_norm=[5.0], skipped_share=[0.0], atol=1e-5)


def test_optimizer_step_forgets_its_gradients():
    # The same gradients again: both of Adam's means stay g and g^2, so the second step is as long as the first.
    answer = STEPS(**SLOPES, ratios=[CALM, CALM, CALM], micro_batch_size=1, **ADAM)
    assert_equal(answer, actor=[-0.5, -1.0, -1.5], critic=[0.75, 1.5, 2.25], grad_norm=[math.sqrt(10)] * 3)


@named("ratio, skipped", {"at-the-threshold": (4.0, NO), "above-the-threshold": (4.1, YES), "nan": (NAN, YES)})
def test_optimizer_step_skips_a_spike(ratio, skipped):
    # The spike comes first, then an ordinary step: it must be as if the spike had never been seen.
    answer = STEPS(**SLOPES, ratios=[ratio * CALM, CALM], ratio_threshold=4.0, **ADAM)
    assert_equal(
        answer,
        actor=[0.0, -0.5] if skipped else [-0.5, -1.0],
        critic=[0.0, 0.75] if skipped else [0.75, 1.5],
        grad_norm=[0.0 if skipped else math.sqrt(10), math.sqrt(10)],
        skipped_share=[float(skipped), 0.0],
    )


@named(
    "first, mean, skipped",
    {
        # One microbatch and the largest ratio are above the threshold 4, the mean over tokens 13 / 4 is not.
        "one-rare-token": (10.0, 3.25, NO),
        # 43 / 4, though the last microbatch is below the threshold
        "a-spike-in-the-first-microbatch": (40.0, 10.75, YES),
    },
)
@pytest.mark.points(2)
def test_optimizer_step_tests_and_reports_the_whole_minibatch(first, mean, skipped):
    ratios = torch.tensor([[first, 9.0, 9.0], [1.0, 1.0, 1.0]]).double()
    answer = STEPS(**SLOPES, ratios=[ratios], ratio_threshold=4.0, micro_batch_size=1, **ADAM)
    assert_equal(answer, ratio_mean=[mean], ratio_max=[first], policy_loss=[1.0], skipped_share=[float(skipped)])
    assert_equal(answer, actor=[0.0 if skipped else -0.5], critic=[0.0 if skipped else 0.75])


def prompts_of(rows):
    """So many prompts, [2], [3], [4], ..., and a policy that says anything."""
    uniform = {"actor": torch.zeros(rows + 2, rows + 2).double(), "critic": torch.zeros(rows + 2).double()}
    return {**uniform, "prompts": tuple((2 + row,) for row in range(rows)), "batch_size": rows, "max_new_tokens": 2}


def epochs_in(answer, rows):
    """The prompts of each epoch, in their order."""
    flat = sum(answer["rows_of_each_step"], [])
    return [flat[first : first + rows] for first in range(0, len(flat), rows)]


@named(
    "rows, settings, sizes",
    {
        "a-smaller-last-one": (5, {"num_epochs": 3, "num_minibatches": 2}, [3, 2] * 3),
        "the-defaults-are-4-epochs-of-4": (8, {}, [2, 2, 2, 2] * 4),
        "one-minibatch": (4, {"num_epochs": 2, "num_minibatches": 1}, [4, 4]),
    },
)
def test_training_step_passes_over_every_row_once_an_epoch(rows, settings, sizes):
    answer = UPDATE(**prompts_of(rows), **settings)
    assert [len(step) for step in answer["rows_of_each_step"]] == sizes, (
        f"optimizer steps on {', '.join(map(str, sizes))} rows"
    )
    assert all(sorted(epoch) == list(range(2, rows + 2)) for epoch in epochs_in(answer, rows)), (
        f"each of the {rows} rows exactly once in each epoch"
    )
    assert_equal(answer, optimizer_steps=float(len(sizes)))


def test_training_step_merges_the_statistics_of_all_steps():
    # Four steps: means 2.5 and 0.25; the largest ratio; the first step's own
    reported = {
        "approx_kl": [0.0, 0.0, 0.5, 0.5],
        "ratio_max": [1.25, 1.0, 3.0, 2.0],
        "policy_loss": [1.0, 2.0, 3.0, 4.0],
    }
    answer = UPDATE(**prompts_of(4), reported=reported, num_epochs=2, num_minibatches=2)
    assert_equal(answer, policy_loss=2.5, approx_kl=0.25, ratio_max=3.0, first_ratio_max=1.25, optimizer_steps=4.0)
    assert_equal(answer, kept_of_each_step=[1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("seed", [0, 1])
def test_training_step_draws_the_order_anew_from_the_shuffling_generator(seed):
    # Nothing of the first update is left in the second.
    answer = UPDATE(**prompts_of(9), num_epochs=3, num_minibatches=3, calls=2, seed=seed)
    epochs = epochs_in(answer, 9)
    assert len(epochs) == 6 and len(set(map(tuple, epochs))) == 6, (
        "another order of the 9 rows in each of the 3 epochs of both updates"
    )
    assert_leaves_global_random_alone(answer)
    assert_equals_reference(answer)


@named(
    "limit, steps, policy_loss, second",
    {
        "in-the-middle-of-the-second-epoch": (0.7, 3, 2.0, 0.3),
        # (1 + 2) / 2
        "at-the-end-of-the-first-epoch": (0.2, 2, 1.5, 0.3),
        "the-limit-itself-is-allowed": (0.75, 6, 3.5, 0.3),
        "nan-is-of-a-skipped-step": (0.7, 3, 2.0, NAN),
    },
)
def test_training_step_stops_when_the_policy_has_moved_far_enough(limit, steps, policy_loss, second):
    reported = {"approx_kl": [0.1, second, 0.75, 0.1], "policy_loss": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    answer = UPDATE(**prompts_of(4), reported=reported, num_epochs=3, num_minibatches=2, max_update_kl=limit)
    assert_equal(answer, optimizer_steps=float(steps), policy_loss=policy_loss)
    assert len(answer["rows_of_each_step"]) == steps, f"{steps} optimizer steps"
