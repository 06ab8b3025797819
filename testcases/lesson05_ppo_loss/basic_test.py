"""Lesson 5, by hand: one to six tokens, ratios 1/2, 1, 3/2, 2, every number worked out in a comment or by eye."""

import math

import pytest
import torch

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import assert_equal, named, scenario, value_and_gradients
from tutorial.lesson05_ppo_loss import (
    clipped_objective,
    combine_losses,
    compute_kl_penalty_loss,
    compute_ppo_loss,
    compute_value_loss,
    ppo_statistics,
    update_beta,
)

LOG2 = math.log(2)
# Two rows, of 3 real tokens and 1
THREE_AND_ONE = [[True, True, True], [True, False, False]]
OLD = [[-1.0, -1.0, -1.0], [-1.0, -1.0, -1.0]]


def at(*ratios: float) -> list[float]:
    """log_probs whose ratio to old_log_probs of -1 is this."""
    return [math.log(ratio) - 1 for ratio in ratios]


# With clip_epsilon 0.25 the interval is 0.75 to 1.25. slope: d objective / d ratio.
@named(
    "ratio, advantage, clip_epsilon, objective, slope",
    {
        "good-and-below-the-interval": (0.5, 2.0, 0.25, 1.0, 2.0),
        "good-and-inside": (1.125, 2.0, 0.25, 2.25, 2.0),
        "good-and-above-the-interval": (1.5, 2.0, 0.25, 2.5, 0.0),  # 1.25 * 2
        "bad-and-below-the-interval": (0.5, -2.0, 0.25, -1.5, 0.0),  # 0.75 * -2
        "bad-and-inside": (1.125, -2.0, 0.25, -2.25, -2.0),
        "bad-and-above-the-interval": (1.5, -2.0, 0.25, -3.0, -2.0),
        "no-advantage": (2.0, 0.0, 0.25, 0.0, 0.0),
        "beyond-a-wider-one": (2.0, 2.0, 0.75, 3.5, 0.0),
        "no-end-below": (0.0625, -1.0, 1.5, -0.0625, -1.0),  # From 1 on there is no end below.
    },
)
@pytest.mark.points(5)
def test_clipped_objective_by_hand(ratio, advantage, clip_epsilon, objective, slope):
    answer, grads = value_and_gradients(clipped_objective, [ratio], [advantage], clip_epsilon, wrt="ratio")
    assert_equal(answer, [objective])
    assert_equal(grads, ratio=[slope])


def test_clipped_objective_comes_before_the_loss():
    alone = scenario("calls.alone", of=clipped_objective)
    terms = {"ratio": [0.5, 1.5], "advantages": [-2.0, 2.0], "clip_epsilon": 0.25}
    assert_equal(alone(exercise="clipped_objective", later="compute_ppo_loss", **terms), [-1.5, 2.5])


# slope: d loss / d log_probs: -ratio * advantage, and 0 where the objective is held at the edge of the interval.
@named(
    "ratio, advantage, clip_epsilon, loss, slope",
    {
        "on-policy-is-plain-policy-gradient": (1.0, 1.0, 0.2, -1.0, -1.0),
        "good-token-above-the-interval-is-clipped": (1.5, 1.0, 0.2, -1.2, 0.0),  # min(1.5, 1.2) = 1.2
        "good-token-below-the-interval-is-not": (0.5, 1.0, 0.2, -0.5, -0.5),  # min(0.5, 0.8) = 0.5
        "bad-token-below-the-interval-is-clipped": (0.5, -1.0, 0.2, 0.8, 0.0),  # min(-0.5, -0.8) = -0.8
        "bad-token-above-the-interval-is-not": (1.5, -1.0, 0.2, 1.5, 1.5),  # min(-1.5, -1.2) = -1.5
        "the-bound-is-scaled-by-the-advantage": (2.0, 3.0, 0.25, -3.75, 0.0),  # 3 * 1.25; -3 * 0.75
        "the-lower-bound-is-1-minus-epsilon": (0.5, -3.0, 0.25, 2.25, 0.0),
        "a-loss-is-never-capped": (16.0, -1.0, 0.2, 16.0, 16.0),
        "a-bound-below-0-never-binds": (0.0625, -1.0, 1.5, 0.0625, 0.0625),  # 1 - 1.5 is below every ratio
    },
)
@pytest.mark.points(13)
def test_compute_ppo_loss_by_hand(ratio, advantage, clip_epsilon, loss, slope):
    args = at(ratio), [-1.0], [advantage], clip_epsilon
    answer, grads = value_and_gradients(compute_ppo_loss, *args, wrt="log_probs")
    assert_equal(answer, loss)
    assert_equal(grads, log_probs=[slope])


@pytest.mark.points(3)
def test_compute_ppo_loss_is_a_mean_over_tokens():
    # Rows of 3 and 1 tokens. Losses -1, 0, 4 and 8: 11 / 4 = 2.75. The mean of the row means is 4.5 instead.
    terms = [at(1.0, 1.0, 2.0), at(2.0, 2.0, 2.0)], OLD, [[1.0, 0.0, -2.0], [-4.0, 5.0, 7.0]]
    answer, grads = value_and_gradients(compute_ppo_loss, *terms, 0.5, THREE_AND_ONE, wrt="log_probs")
    assert_equal(answer, 2.75)
    assert_equal(grads, log_probs=[[-0.25, 0.0, 1.0], [2.0, 0.0, 0.0]])


# slope: d loss / d values
@named(
    "value, old_value, target, clip_epsilon, loss, slope",
    {
        # clipped 1.2: 1/2 max(0.25, 0.64). It moved far enough for now: no slope.
        "far-towards-the-target-is-clipped": (1.5, 1.0, 2.0, 0.2, 0.32, 0.0),
        # clipped 1.2: 1/2 max(0.04, 0.01). It overshot: the true error stays.
        "past-the-target-keeps-its-error": (1.5, 1.0, 1.3, 0.2, 0.02, 0.2),
        "away-from-the-target-keeps-its-error": (0.5, 1.0, 2.0, 0.2, 1.125, -1.5),  # clipped 0.8: 1/2 max(2.25, 1.44)
        "inside-is-half-the-square": (1.1, 1.0, 2.0, 0.2, 0.405, -0.9),  # inside: 1/2 * 0.81
        "clipped-from-below": (2.0, 3.0, 1.0, 0.5, 1.125, 0.0),  # clipped 3 - 0.5 = 2.5: 1/2 max(1, 2.25)
        "a-wider-interval-does-not-clip": (2.0, 3.0, 1.0, 2.0, 0.5, 1.0),
        # clipped -1 + 0.25 = -0.75: 1/2 max(1, 1.75^2)
        "the-interval-lies-around-the-old-value": (0.0, -1.0, 1.0, 0.25, 1.53125, 0.0),
    },
)
@pytest.mark.points(7)
def test_compute_value_loss_by_hand(value, old_value, target, clip_epsilon, loss, slope):
    args = [value], [old_value], [target], clip_epsilon
    answer, grads = value_and_gradients(compute_value_loss, *args, wrt="values")
    assert_equal(answer, loss)
    assert_equal(grads, values=[slope])


@pytest.mark.points(2)
def test_compute_value_loss_is_a_mean_over_tokens():
    # Halves of squares 1/2, 1/2, 2 and 8: 11 / 4. The mean of the row means is 4.5 instead.
    values, old_values = [[2.0, 2.0, 3.0], [5.0, 9.0, 9.0]], [[2.0, 2.0, 3.0], [5.0, 1.0, 2.0]]
    args = values, old_values, [[1.0, 1.0, 1.0], [1.0, 3.0, 4.0]], 0.5, THREE_AND_ONE
    answer, grads = value_and_gradients(compute_value_loss, *args, wrt="values")
    assert_equal(answer, 2.75)
    assert_equal(grads, values=[[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]])


@named(
    "policy_loss, value_loss, entropy, value_coef, entropy_coef, loss",
    {
        "entropy-is-subtracted": (2.0, 4.0, 8.0, 0.5, 0.25, 2.0),  # 2 + 0.5 * 4 - 0.25 * 8
        "coefficients-above-1": (-3.0, 1.0, 0.5, 2.0, 4.0, -3.0),  # -3 + 2 * 1 - 4 * 0.5
        "no-bonus": (2.0, 4.0, 8.0, 0.5, 0.0, 4.0),
    },
)
@pytest.mark.points(4)
def test_combine_losses_by_hand(policy_loss, value_loss, entropy, value_coef, entropy_coef, loss):
    # d loss / d entropy = -entropy_coef: a larger coefficient must reward more entropy
    scalars = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
    scalars = {name: torch.tensor(number, dtype=torch.float64) for name, number in scalars.items()}
    coefficients = {"value_coef": value_coef, "entropy_coef": entropy_coef}
    answer, grads = value_and_gradients(combine_losses, **scalars, **coefficients, wrt=tuple(scalars))
    assert_equal(answer, loss)
    assert_equal(grads, policy_loss=1.0, value_loss=value_coef, entropy=-entropy_coef)


# approx_kl is the mean of ratio - 1 - log(ratio): 0 at ratio 1, 1 - log 2 at 2, log 2 - 1/2 at 1/2
@named(
    "ratios, advantages, clip_epsilon, ratio_mean, ratio_max, approx_kl, clip_fraction",
    {
        "nothing-moved": ([1.0, 1.0], [1.0, -1.0], 0.25, 1.0, 1.0, 0.0, 0.0),
        # Two of the four outside tokens have moved to the side that profits: 2 with +, 1/2 with -.
        "only-the-side-that-profits-is-clipped": ([2, 2, 0.5, 0.5], [1.0, -1.0, 1.0, -1.0], 0.25, 1.25, 2.0, 0.25, 0.5),
        "one-good-token-went-up": ([2, 1, 1, 1], [3.0, 1.0, -1.0, 1.0], 0.5, 1.25, 2.0, (1 - LOG2) / 4, 0.25),
        "one-bad-token-went-down": ([0.5, 1, 1, 1], [-3.0, 1.0, -1.0, 1.0], 0.25, 0.875, 1.0, (LOG2 - 0.5) / 4, 0.25),
        "no-advantage-nothing-to-clip": ([2, 0.5], [0.0, 0.0], 0.25, 1.25, 2.0, 0.25, 0.0),
        "the-largest-ratio-may-be-small": ([0.5], [1.0], 0.25, 0.5, 0.5, LOG2 - 0.5, 0.0),
        # 1 + 1e-20 is 1: both ratios are at their bound.
        "at-the-bound-nothing-is-cut": ([1.0, 1.0], [1.0, -1.0], 1e-20, 1.0, 1.0, 0.0, 0.0),
    },
)
@pytest.mark.points(8)
def test_ppo_statistics_by_hand(ratios, advantages, clip_epsilon, ratio_mean, ratio_max, approx_kl, clip_fraction):
    answer = ppo_statistics(at(*ratios), [-1.0] * len(ratios), advantages, clip_epsilon)
    expected = {"ratio_mean": ratio_mean, "ratio_max": ratio_max, "approx_kl": approx_kl}
    assert_equal(answer, {**expected, "clip_fraction": clip_fraction})


@pytest.mark.points(2)
def test_ppo_statistics_count_tokens_not_rows():
    # Real ratios 1, 1, 1/2 and 2; clipped is the last. The mean of the row means would be 17/12.
    log_probs, advantages = [at(1.0, 1.0, 0.5), at(2.0, 8.0, 8.0)], [[1.0, -1.0, 1.0], [1.0, 1.0, 1.0]]
    answer = ppo_statistics(log_probs, OLD, advantages, 0.25, THREE_AND_ONE)
    assert_equal(answer, {"ratio_mean": 1.125, "ratio_max": 2.0, "approx_kl": 0.125, "clip_fraction": 0.25})


# Old and new policy over four tokens, drawn as often as the old one says: the mean over the draws is the expectation.
OLD_POLICY = torch.tensor([0.5, 0.25, 0.125, 0.125], dtype=torch.float64)
NEW_POLICY = torch.tensor([0.25, 0.25, 0.375, 0.125], dtype=torch.float64)
DRAWN = torch.tensor([0, 0, 0, 0, 1, 1, 2, 3])
KL = (OLD_POLICY * (OLD_POLICY / NEW_POLICY).log()).sum().item()


def test_ppo_statistics_approx_kl_estimates_the_kl_from_the_old_policy():
    answer = ppo_statistics(NEW_POLICY.log()[DRAWN], OLD_POLICY.log()[DRAWN], normal(8), 0.3)
    assert_equal(answer["approx_kl"], KL)
    assert_equal(answer["ratio_mean"], 1.0)


# slope: d loss / d log_probs = -ratio * advantage + beta * (ratio - 1)
@named(
    "ratio, advantage, beta, loss, slope",
    {
        "at-ratio-1-the-penalty-is-0-and-so-is-its-slope": (1.0, 2.0, 4.0, -2.0, -2.0),
        "moving-up-costs": (2.0, 3.0, 4.0, -2.0 - 4 * LOG2, -2.0),  # -6 + 4 (1 - log 2); -6 + 4 * 1
        "moving-down-costs": (0.5, 3.0, 4.0, 4 * LOG2 - 3.5, -3.5),  # -1.5 + 4 (log 2 - 1/2); -1.5 - 4 * 1/2
        "beta-0-is-free-and-nothing-is-clipped": (2.0, 3.0, 0.0, -6.0, -6.0),
        "the-penalty-alone": (2.0, 0.0, 0.5, 0.5 - 0.5 * LOG2, 0.5),
    },
)
@pytest.mark.points(7)
def test_compute_kl_penalty_loss_by_hand(ratio, advantage, beta, loss, slope):
    answer, grads = value_and_gradients(compute_kl_penalty_loss, at(ratio), [-1.0], [advantage], beta, wrt="log_probs")
    assert_equal(answer, loss)
    assert_equal(grads, log_probs=[slope])


@pytest.mark.points(3)
def test_compute_kl_penalty_loss_is_a_mean_over_tokens():
    # Ratios 1, 1, 2 and 1/2, advantages 1, 1, -1 and -4, beta 2: -1, -1, 4 - 2 log 2 and 1 + 2 log 2. Their sum is 3.
    terms = [at(1.0, 1.0, 2.0), at(0.5, 2.0, 2.0)], OLD, [[1.0, 1.0, -1.0], [-4.0, 5.0, 7.0]]
    answer, grads = value_and_gradients(compute_kl_penalty_loss, *terms, 2.0, THREE_AND_ONE, wrt="log_probs")
    assert_equal(answer, 0.75)
    assert_equal(grads, log_probs=[[-0.25, -0.25, 1.0], [0.25, 0.0, 0.0]])


@pytest.mark.points(3)
def test_compute_kl_penalty_loss_has_the_gradient_of_the_kl():
    # Advantages 0. The gradient by the probability's logits is that of KL(old || new): new - old. By log_probs it is
    # (ratio - 1) / 8 for each drawn token.
    args = NEW_POLICY.log()[DRAWN], OLD_POLICY.log()[DRAWN], [0.0] * 8, 3.0
    answer, grads = value_and_gradients(compute_kl_penalty_loss, *args, wrt="log_probs")
    assert_equal(answer, 3 * KL)
    assert_equal(grads, log_probs=3 * ((NEW_POLICY / OLD_POLICY)[DRAWN] - 1) / 8)


# target_kl 3: the bounds are 4.5 and 2, both inside
@named(
    "beta, kl, target_kl, after",
    {
        "too-far-doubles-beta": (0.75, 4.5078125, 3.0, 1.5),
        "too-near-halves-beta": (0.75, 1.9921875, 3.0, 0.375),
        "on-target-keeps-beta": (0.75, 3.0, 3.0, 0.75),
        "a-little-too-far-keeps-beta": (0.75, 4.4921875, 3.0, 0.75),
        "a-little-too-near-keeps-beta": (0.75, 2.0078125, 3.0, 0.75),
        "the-upper-bound-is-inside": (0.75, 4.5, 3.0, 0.75),
        "the-lower-bound-is-inside": (0.75, 2.0, 3.0, 0.75),
        "a-small-target-and-a-high-beta": (2.0**20, 0.03125, 0.015625, 2.0**21),  # nothing bounds it
        "a-target-that-is-no-whole-number-and-a-low-beta": (2.0**-14, 0.375, 0.6, 2.0**-15),  # 0.6 / 1.5 = 0.4
    },
)
@pytest.mark.points(5)
def test_update_beta_by_hand(beta, kl, target_kl, after):
    assert_equal(update_beta(beta, kl, target_kl), after)
