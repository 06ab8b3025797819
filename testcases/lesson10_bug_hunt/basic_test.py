"""Lesson 10: blocks and small trainers, each test of which fails on the file as it is handed out; the diagnosis,
on logs that this run's seed draws; the student's own tests, on implementations that it draws.

A second draw of these counts to the advanced suite, as the names of its tests say.
"""

import math

import pytest
import torch

from testcases.harness.doubles.drawing import normal, uniform_from
from testcases.harness.suite.asserts import assert_equal, assert_equals_reference, named, value_and_gradients
from testcases.harness.suite.session import current
from tutorial.lesson10_bug_hunt import (
    bounded_error,
    credit_packed,
    diagnose,
    label_replies,
    merge_moments,
    pessimistic_gain,
    read_prompts,
    sampled_drift,
    sum_in_groups,
    train_bandit,
    train_chain,
    train_contexts,
    train_sliced,
)
from tutorial.lesson10_bug_hunt import test_compute_gae as of_gae
from tutorial.lesson10_bug_hunt import test_compute_ppo_loss as of_ppo_loss
from tutorial.lesson10_bug_hunt import test_compute_rewards as of_rewards
from tutorial.lesson10_bug_hunt import test_response_mask as of_mask

from .grading import grade
from .runs import clear_run

NAN, LOG_3 = math.nan, math.log(3)


@named(
    "rewards, critic, lengths, factor, credit",
    {
        # 4; 2 + 4; 1 + 6
        "one-response": ([1.0, 2.0, 4.0], [0.0, 0.0, 0.0], (3,), 1.0, [7.0, 6.0, 4.0]),
        "two-responses": ([0.0, 1.0, 2.0], [0.0, 0.0, 100.0], (2, 1), 1.0, [1.0, 1.0, -98.0]),
        # 4 - 4; 3 + 2 - 3 + 0; 2 - 2; 1 + 1 - 1 + 0
        "discounted": ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], (2, 2), 0.5, [1.0, 0.0, 2.0, 0.0]),
        "three-of-one-token": ([5.0, 6.0, 7.0], [1.0, 2.0, 3.0], (1, 1, 1), 0.5, [4.0, 4.0, 4.0]),
    },
)
@pytest.mark.points(4)
def test_credit_packed_by_hand(rewards, critic, lengths, factor, credit):
    assert_equal(credit_packed(rewards, critic, lengths=lengths, discount=factor, decay=factor), credit)


@named(
    "ratio, merit, gain, slope",
    {
        "nothing-has-moved": (1.0, 1.0, 1.0, 1.0),
        "good-and-more-likely": (1.5, 1.0, 1.2, 0.0),
        "good-and-less-likely": (0.5, 1.0, 0.5, 1.0),
        "bad-and-less-likely": (0.5, -1.0, -0.8, 0.0),
        "bad-and-more-likely": (1.5, -1.0, -1.5, -1.0),
        "neither-good-nor-bad": (1.5, 0.0, 0.0, 0.0),
    },
)
@pytest.mark.points(3)
def test_pessimistic_gain_by_hand(ratio, merit, gain, slope):
    answer, grads = value_and_gradients(pessimistic_gain, [ratio], [merit], 0.2, wrt=("ratios", "merits"))
    assert_equal(answer, gain)
    assert_equal(grads, ratios=[slope], merits=None)


def test_pessimistic_gain_is_the_mean_over_tokens():
    # 1.2 and 2 * -0.8
    answer, grads = value_and_gradients(pessimistic_gain, [1.5, 0.5], [1.0, -2.0], 0.2, wrt="ratios")
    assert_equal(answer, -0.2)
    assert_equal(grads, ratios=[0.0, 0.0])


@named(
    "estimate, target, error, slope",
    {
        "within-the-room": (1.1, 2.0, 0.405, -0.9),
        "towards-the-target-and-too-far": (1.5, 2.0, 0.32, 0.0),
        "away-from-the-target": (0.5, 2.0, 1.125, -1.5),
        "past-the-target": (1.5, 1.3, 0.02, 0.2),
    },
)
@pytest.mark.points(3)
def test_bounded_error_by_hand(estimate, target, error, slope):
    answer, grads = value_and_gradients(
        bounded_error, [estimate], [1.0], [target], 0.2, wrt=("estimates", "anchors", "targets")
    )
    assert_equal(answer, error)
    assert_equal(grads, estimates=[slope], anchors=None, targets=None)


def test_bounded_error_is_the_mean_over_tokens():
    # 0.32 and 1.125, halved
    answer, grads = value_and_gradients(bounded_error, [1.5, 0.5], [1.0, 1.0], [2.0, 2.0], 0.2, wrt="estimates")
    assert_equal(answer, 0.7225)
    assert_equal(grads, estimates=[0.0, -0.75])


@named("scores", {"one-prompt": [[4.0, 4.0]], "one-response-each": [[4.0], [4.0]]})
@pytest.mark.points(3)
def test_merge_moments_by_hand(scores):
    # 0 and 2 were seen; of 0, 2, 4, 4 the mean is 2.5, the variance (6.25 + 0.25 + 2.25 + 2.25) / 4
    assert_equal(merge_moments(2.0, 1.0, 1.0, scores), seen=4.0, mean=2.5, variance=2.75)


@pytest.mark.parametrize("shape", [(4, 3), (2, 8), (5, 1)], ids=str)
def test_merge_moments_are_those_of_all_scores_together(shape):
    scores, earlier = 3 * normal(*shape), normal(6, seed=2)
    together = torch.cat([scores.flatten(), earlier])
    before = 6.0, earlier.mean().item(), earlier.var(unbiased=False).item()
    answer = merge_moments(*before, scores)
    mean, variance = together.mean().item(), together.var(unbiased=False).item()
    assert_equal(answer, seen=6.0 + scores.numel(), mean=mean, variance=variance)


@named(
    "heat, token, drift",
    {
        # At temperature 2 the policy has 3/4 and 1/4, the frozen model 1/10 and 9/10; at 1: 9/10, and 1/82.
        "warm-and-more-likely": (2.0, 0, math.log(7.5)),
        "warm-and-less-likely": (2.0, 1, math.log(5 / 18)),
        "temperature-1": (1.0, 0, math.log(73.8)),
    },
)
@pytest.mark.points(4)
def test_sampled_drift_by_hand(heat, token, drift):
    logits = [[[2 * LOG_3, 0.0]]], [[[0.0, 4 * LOG_3]]]
    assert_equal(sampled_drift(*logits, [[token]], heat), [[drift]], atol=1e-12)


@named(
    "tokens, visible, vector",
    {
        # (1 + 20 + 300) / 3
        "the-longest-prompt": ([[0, 1, 2]], [[True, True, True]], [[107.0]]),
        # (1 + 20) / 2
        "a-shorter-prompt": ([[2, 0, 1]], [[False, True, True]], [[10.5]]),
        "one-token": ([[1, 1, 2]], [[False, False, True]], [[3.0]]),
    },
)
@pytest.mark.points(4)
def test_read_prompts_by_hand(tokens, visible, vector):
    assert_equal(read_prompts([[1.0], [2.0], [3.0]], [[1.0], [10.0], [100.0]], tokens, visible), vector)


@pytest.mark.parametrize("budget", [1, 4, 100])
@pytest.mark.points(4)
def test_sum_in_groups_by_hand(budget):
    numbers = [[1.0, 2.0, 4.0], [8.0, NAN, NAN], [16.0, 32.0, NAN]]
    assert_equal(sum_in_groups(numbers, [3, 1, 2], budget), [7.0, 8.0, 48.0])


@named(
    "prompts, replies, tokens, labels",
    {
        "rows-of-one-length": (
            ([5, 6], [4]),
            ([7, 2], [8, 9, 2]),
            [[5, 6, 7, 2], [4, 8, 9, 2]],
            [[-100, -100, 7, 2], [-100, 8, 9, 2]],
        ),
        "rows-of-two-lengths": (
            ([5], [4]),
            ([7, 2], [8, 9, 3, 2]),
            [[5, 7, 2, 2, 2], [4, 8, 9, 3, 2]],
            [[-100, 7, 2, -100, -100], [-100, 8, 9, 3, 2]],
        ),
    },
)
@pytest.mark.points(3)
def test_label_replies_by_hand(prompts, replies, tokens, labels):
    assert_equal(label_replies(prompts=prompts, replies=replies, end=2), tokens=tokens, labels=labels)


def test_label_replies_learns_what_was_written_and_nothing_else():
    # The first reply was cut off; the second and fourth prompts contain the end-of-text token.
    prompts, replies = ([5], [2, 6], [4], [4, 2]), ([7, 8], [9, 2], [9, 9, 9, 2], [2])
    answer = label_replies(prompts=prompts, replies=replies, end=2)
    learned = [[-100, 7, 8, -100, -100], [-100, -100, 9, 2, -100], [-100, 9, 9, 9, 2], [-100, -100, 2, -100, -100]]
    assert_equal(answer, labels=learned)


def noise(*shape: int, seed: int = 3) -> torch.Tensor:
    return uniform_from(torch.Generator().manual_seed(seed), *shape)


@named(
    "decay, value_loss, critic",
    {
        # Targets 1 + 3 and 3 in both updates, the critic goes halfway: losses (16 + 9) / 2, (4 + 2.25) / 2
        "sums-of-rewards": (1.0, [12.5, 3.125], [3.0, 2.25]),
        # Targets 1, 3, then 1 + 1.5, 3; the critic is at 0.5, 1.5 in between: losses (1 + 9) / 2, (4 + 2.25) / 2
        "one-step": (0.0, [5.0, 3.125], [1.5, 2.25]),
    },
)
@pytest.mark.points(4)
def test_train_chain_by_hand(decay, value_loss, critic):
    # One action, so that only the critic can learn; it earns 1, then 3.
    answer = train_chain(noise(2, 1, 2), [[1.0], [3.0]], [[0.0], [0.0]], 0.5, decay)
    assert_equal(answer, value_loss=value_loss, critic=critic, reward=[4.0, 4.0], scores=[[0.0], [0.0]])


@pytest.mark.parametrize("curiosity", [0.5, 1.0, 0.0])
@pytest.mark.points(4)
def test_train_bandit_without_any_payoff_follows_its_curiosity(curiosity):
    # d entropy / d score = -p * (log p + entropy)
    p = 1 / (1 + math.exp(-1))
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    slopes = [-share * (math.log(share) + entropy) for share in (p, 1 - p)]
    answer = train_bandit(noise(1, 4), [0.0, 0.0], [1.0, 0.0], 0.8, 0.2, 1, curiosity)
    assert_equal(answer, scores=[1.0 + 0.8 * curiosity * slopes[0], 0.8 * curiosity * slopes[1]], entropy=[entropy])


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.points(4)
def test_train_sliced_by_hand(rows):
    # Three tokens of probability 1/2: 0 to 1 (weight 1), 1 to 1 (weight 1), 0 to 0 (weight 2)
    answer = train_sliced([[1, 1], [0, 1]], [2, 1], [1.0, 2.0], [[0.0, 0.0], [0.0, 0.0]], rate=1.0, steps=1, rows=rows)
    assert_equal(answer, [[1 / 6, -1 / 6], [-1 / 6, 1 / 6]])


@named(
    "passes, score, ratio, outside",
    {
        "one-pass-is-the-policy-gradient": (1, 0.5, 1.0, 0.0),
        # After the first pass the probabilities are 0.73 and 0.27, both further than 0.2 from 1/2 in ratio.
        "three-passes-stop-at-the-width": (3, 0.5, 2 / (1 + math.exp(-1)), 1.0),
    },
)
@pytest.mark.points(3)
def test_train_contexts_by_hand(passes, score, ratio, outside):
    # One question with two answers, each drawn once: merits 1 and -1
    answer = train_contexts([[[0.2], [0.7]]], [[1.0, -1.0]], [[0.0, 0.0]], 1.0, 0.2, passes)
    assert_equal(answer, scores=[[score, -score]], ratio=[ratio], outside=[outside], reward=[0.0])


@pytest.mark.parametrize("passes", [1, 6])
def test_train_contexts_over_several_updates(passes):
    batch = noise(3, 12, 2), normal(2, 4), normal(2, 4, seed=2)
    assert_equals_reference(train_contexts(*batch, 8.0, 0.05, passes))


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
