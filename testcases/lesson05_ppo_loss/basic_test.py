"""Lesson 5, by hand: one to six tokens, ratios 1/2, 1, 3/2, 2, every number worked out in a comment or by eye."""

import math

import torch

from testcases.harness import call, named_cases, scenario, worth
from tutorial.lesson05_ppo_loss import (
    clipped_objective,
    combine_losses,
    compute_kl_penalty_loss,
    compute_ppo_loss,
    compute_value_loss,
    ppo_statistics,
    update_beta,
)

LN2 = math.log(2)
NAN, INF = math.nan, math.inf
LOG2 = math.log(2)
EVERY = ("log_probs", "old_log_probs", "advantages")
# Of rows of 3 and 1 real tokens, and of rows of one each
THREE_AND_ONE = [[True, True, True], [True, False, False]]
ONE_EACH = [[True, False], [False, True]]
OLD = [[-1.0, -1.0, -1.0], [-1.0, -1.0, -1.0]]


def at(*ratios: float) -> list[float]:
    """log_probs whose ratio to old_log_probs of -1 is this."""
    return [math.log(ratio) - 1 for ratio in ratios]


# clip_epsilon 0.25: the interval is 0.75 to 1.25. slope: d objective / d ratio.
@named_cases(
    "ratio, advantage, objective, slope",
    {
        "good-and-below-the-interval": (0.5, 2.0, 1.0, 2.0),
        "good-and-inside": (1.125, 2.0, 2.25, 2.0),
        # 1.25 * 2
        "good-and-above-the-interval": (1.5, 2.0, 2.5, 0.0),
        # 0.75 * -2
        "bad-and-below-the-interval": (0.5, -2.0, -1.5, 0.0),
        "bad-and-inside": (1.125, -2.0, -2.25, -2.0),
        "bad-and-above-the-interval": (1.5, -2.0, -3.0, -2.0),
        "no-advantage": (2.0, 0.0, 0.0, 0.0),
    },
)
@worth(4)
def test_clipped_objective_by_hand(ratio, advantage, objective, slope):
    answer = call(clipped_objective, [ratio], [advantage], 0.25, grad_of="ratio")
    answer.equals([objective]).gradient_equals(ratio=[slope])


@named_cases(
    "ratio, advantage, clip_epsilon, objective",
    {
        "inside-a-wider-one": (1.5, 2.0, 0.75, 3.0),
        "at-its-upper-end": (1.75, 2.0, 0.75, 3.5),
        "beyond-it": (2.0, 2.0, 0.75, 3.5),
        # From 1 on there is no end below.
        "no-end-below": (0.0625, -1.0, 1.5, -0.0625),
    },
)
def test_clipped_objective_takes_the_width_of_the_interval(ratio, advantage, clip_epsilon, objective):
    call(clipped_objective, [[ratio]], [[advantage]], clip_epsilon).equals([[objective]])


def test_clipped_objective_shows_a_nan():
    call(clipped_objective, [NAN, 1.0, 2.0], [1.0, NAN, 1.0], 0.25).equals([NAN, NAN, 1.25], equal_nan=True)


def test_clipped_objective_comes_before_the_loss():
    answer = call(scenario("objective_alone", of=clipped_objective), [0.5, 1.5], [-2.0, 2.0], 0.25)
    answer.equals([-1.5, 2.5])


# slope: d loss / d log_probs: -ratio * advantage, and 0 where the objective is held at the edge of the interval.
@named_cases(
    "log_probs, old_log_probs, advantages, clip_epsilon, loss, slopes",
    {
        # the terms are -1; their mean is -1
        "on-policy-is-plain-policy-gradient": ([[-1.0]], [[-1.0]], [[1.0]], 0.2, -1.0, {"log_probs": [[-1.0]]}),
        # the terms are 2; their mean is 2
        "on-policy-with-a-bad-token": ([[-1.0]], [[-1.0]], [[-2.0]], 0.2, 2.0, {"log_probs": [[2.0]]}),
        # min(1.5, 1.2) = 1.2
        "good-token-above-the-interval-is-clipped": (
            [[-0.5945348918918356]],
            [[-1.0]],
            [[1.0]],
            0.2,
            -1.2,
            {"log_probs": [[0.0]]},
        ),
        # min(0.5, 0.8) = 0.5
        "good-token-below-the-interval-is-not": ([[-1 - LN2]], [[-1.0]], [[1.0]], 0.2, -0.5, {"log_probs": [[-0.5]]}),
        # min(-0.5, -0.8) = -0.8
        "bad-token-below-the-interval-is-clipped": ([[-1 - LN2]], [[-1.0]], [[-1.0]], 0.2, 0.8, {"log_probs": [[0.0]]}),
        # min(-1.5, -1.2) = -1.5
        "bad-token-above-the-interval-is-not": (
            [[-0.5945348918918356]],
            [[-1.0]],
            [[-1.0]],
            0.2,
            1.5,
            {"log_probs": [[1.5]]},
        ),
        # the terms are -1.5; their mean is -1.5
        "good-token-within-a-wider-interval": (
            [[-0.5945348918918356]],
            [[-1.0]],
            [[1.0]],
            0.75,
            -1.5,
            {"log_probs": [[-1.5]]},
        ),
        # the terms are 0.5; their mean is 0.5
        "bad-token-within-a-wider-interval": ([[-1 - LN2]], [[-1.0]], [[-1.0]], 0.75, 0.5, {"log_probs": [[0.5]]}),
        # 3 * 1.25; -3 * 0.75
        "the-bound-is-scaled-by-the-advantage": ([[-1 + LN2]], [[-1.0]], [[3.0]], 0.25, -3.75, {"log_probs": [[0.0]]}),
        # the terms are 2.25; their mean is 2.25
        "the-lower-bound-is-1-minus-epsilon": ([[-1 - LN2]], [[-1.0]], [[-3.0]], 0.25, 2.25, {"log_probs": [[0.0]]}),
        # the terms are -4.5; their mean is -4.5
        "epsilon-is-half-the-width": ([[-1 + LN2]], [[-1.0]], [[3.0]], 0.5, -4.5, {"log_probs": [[0.0]]}),
        # the terms are 0; their mean is 0
        "no-advantage-no-loss": ([[-1 + LN2]], [[-1.0]], [[0.0]], 0.2, 0.0, {"log_probs": [[0.0]]}),
        # the terms are 16; their mean is 16
        "a-loss-is-never-capped": ([[-1 + 4 * LN2]], [[-1.0]], [[-1.0]], 0.2, 16.0, {"log_probs": [[16.0]]}),
        # 1 - 1.5 is below every ratio
        "a-bound-below-0-never-binds": ([[-1 - 4 * LN2]], [[-1.0]], [[-1.0]], 1.5, 0.0625, {"log_probs": [[0.0625]]}),
    },
)
@worth(4)
def test_compute_ppo_loss_by_hand(log_probs, old_log_probs, advantages, clip_epsilon, loss, slopes):
    answer = call(compute_ppo_loss, log_probs, old_log_probs, advantages, clip_epsilon, grad_of="log_probs")
    answer.equals(loss).gradient_equals(**slopes)


@worth(2)
def test_compute_ppo_loss_of_the_six_cases():
    # Losses -0.5, -1, -1.2, 0.8, 1, 1.5: their mean is 0.6 / 6 = 0.1. The minimum of the losses would give -0.1.
    log_probs, advantages = at(0.5, 1.0, 1.5, 0.5, 1.0, 1.5), [1.0, 1.0, 1.0, -1.0, -1.0, -1.0]
    answer = call(compute_ppo_loss, log_probs, [-1.0] * 6, advantages, 0.2, grad_of="log_probs")
    answer.equals(0.1).gradient_equals(log_probs=[-0.5 / 6, -1 / 6, 0.0, 0.0, 1 / 6, 1.5 / 6])


def test_compute_ppo_loss_sends_its_gradient_to_log_probs_only():
    # -min(1/2, 3/4) and -min(-2 * 2, -2 * 5/4): half of each
    answer = call(compute_ppo_loss, at(0.5, 2.0), [-1.0, -1.0], [1.0, -2.0], 0.25, grad_of=EVERY)
    answer.equals(1.75).gradient_equals(log_probs=[-0.25, 2.0], old_log_probs=None, advantages=None)


def test_compute_ppo_loss_is_a_mean_over_tokens():
    # Rows of 3 and 1 tokens. Losses -1, 0, 4 and 8: 11 / 4 = 2.75. The mean of the row means is 4.5 instead.
    log_probs, advantages = [at(1.0, 1.0, 2.0), at(2.0, 2.0, 2.0)], [[1.0, 0.0, -2.0], [-4.0, 5.0, 7.0]]
    answer = call(compute_ppo_loss, log_probs, OLD, advantages, 0.5, THREE_AND_ONE, grad_of="log_probs")
    answer.equals(2.75).gradient_equals(log_probs=[[-0.25, 0.0, 1.0], [2.0, 0.0, 0.0]])


GARBAGE = named_cases("garbage", {"nan": NAN, "infinite": INF, "minus-infinite": -INF, "large": 1e4})


def padded(ratios, advantages, garbage):
    """Two rows of one real token each, and garbage on the other."""
    (one, other), (first, second) = ratios, advantages
    log_probs = [[*at(one), garbage], [garbage, *at(other)]]
    return log_probs, [[-1.0, garbage], [-1.0, -1.0]], [[first, garbage], [garbage, second]]


@GARBAGE
@worth(2)
def test_compute_ppo_loss_never_sees_the_padding(garbage):
    # Losses -1 and 4. 0 * NaN, 0 * infinity and infinity - infinity are NaN: select, then compute.
    answer = call(compute_ppo_loss, *padded((1.0, 2.0), (1.0, -2.0), garbage), 0.5, ONE_EACH, grad_of=EVERY)
    answer.equals(1.5).gradient_equals(log_probs=[[-0.5, 0.0], [0.0, 2.0]], old_log_probs=None, advantages=None)


# Ratios e^(1/2) and e^(-1/2) of tokens whose probability no float holds: exp(-110) in float32 and exp(-1000) in float64
# are 0, and their quotient is NaN. The difference of the logarithms is exact.
UNLIKELY = named_cases(
    "dtype, level",
    {
        "e-48-in-float32": (torch.float32, -110.0),
        "e-434-in-float32": (torch.float32, -1000.0),
        "e-434-in-float64": (torch.float64, -1000.0),
    },
)
ROOT = math.exp(0.5)


def unlikely(dtype, level, advantages):
    numbers = [level + 0.5, level - 0.5], [level, level], advantages
    return [torch.tensor(column, dtype=dtype) for column in numbers]


@UNLIKELY
def test_compute_ppo_loss_of_unlikely_tokens(dtype, level):
    # A bad token at ratio 1.65 and a good one at 0.61: neither is clipped. (1.65 - 0.61) / 2
    answer = call(compute_ppo_loss, *unlikely(dtype, level, [-1.0, 1.0]), 0.25, grad_of="log_probs")
    answer.equals(math.sinh(0.5), dtype=dtype).gradient_equals(log_probs=[ROOT / 2, -0.5 / ROOT])


# The vector of known mistakes: old value 1, clip_epsilon 0.2. slope: d loss / d values.
@named_cases(
    "values, old_values, returns, clip_epsilon, loss, slopes",
    {
        # clipped 1.2: 1/2 max(0.25, 0.64). It moved far enough for now: no slope.
        "far-towards-the-target-is-clipped": ([[1.5]], [[1.0]], [[2.0]], 0.2, 0.32, {"values": [[0.0]]}),
        # clipped 1.2: 1/2 max(0.04, 0.01). It overshot: the true error stays.
        "past-the-target-keeps-its-error": ([[1.5]], [[1.0]], [[1.3]], 0.2, 0.02, {"values": [[0.2]]}),
        # clipped 0.8: 1/2 max(2.25, 1.44)
        "away-from-the-target-keeps-its-error": ([[0.5]], [[1.0]], [[2.0]], 0.2, 1.125, {"values": [[-1.5]]}),
        # inside: 1/2 * 0.81
        "inside-is-half-the-square": ([[1.1]], [[1.0]], [[2.0]], 0.2, 0.405, {"values": [[-0.9]]}),
        # clipped 3 - 0.5 = 2.5: 1/2 max(1, 2.25)
        "clipped-from-below": ([[2.0]], [[3.0]], [[1.0]], 0.5, 1.125, {"values": [[0.0]]}),
        # the terms are 0.5; their mean is 0.5
        "a-wider-interval-does-not-clip": ([[2.0]], [[3.0]], [[1.0]], 2.0, 0.5, {"values": [[1.0]]}),
        # clipped -1 + 0.25 = -0.75: 1/2 max(1, 1.75^2)
        "the-interval-lies-around-the-old-value": ([[0.0]], [[-1.0]], [[1.0]], 0.25, 1.53125, {"values": [[0.0]]}),
    },
)
@worth(3)
def test_compute_value_loss_by_hand(values, old_values, returns, clip_epsilon, loss, slopes):
    answer = call(compute_value_loss, values, old_values, returns, clip_epsilon, grad_of="values")
    answer.equals(loss).gradient_equals(**slopes)


def test_compute_value_loss_sends_its_gradient_to_values_only():
    # clipped 1.5, 2, 2.5, 3: 1/2 max(4, 2.25), 1/2 max(1, 1), 1/2 max(1, 6.25) and 0; a quarter of each.
    # The maximum of the two means would be 1.1875; through old_values the third would leak -2.5 / 4.
    values, old_values, returns = [1.0, 2.0, 4.0, 3.0], [2.0, 2.0, 2.0, 3.0], [3.0, 1.0, 5.0, 3.0]
    answer = call(compute_value_loss, values, old_values, returns, 0.5, grad_of=("values", "old_values", "returns"))
    answer.equals(1.40625).gradient_equals(values=[-0.5, 0.25, 0.0, 0.0], old_values=None, returns=None)


def test_compute_value_loss_is_a_mean_over_tokens():
    # Halves of squares 1/2, 1/2, 2 and 8: 11 / 4. The mean of the row means is 4.5 instead.
    values, old_values = [[2.0, 2.0, 3.0], [5.0, 9.0, 9.0]], [[2.0, 2.0, 3.0], [5.0, 1.0, 2.0]]
    returns = [[1.0, 1.0, 1.0], [1.0, 3.0, 4.0]]
    answer = call(compute_value_loss, values, old_values, returns, 0.5, THREE_AND_ONE, grad_of="values")
    answer.equals(2.75).gradient_equals(values=[[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]])


@GARBAGE
def test_compute_value_loss_never_sees_the_padding(garbage):
    answer = call(
        compute_value_loss,
        [[1.0, garbage], [garbage, 5.0]],
        [[1.0, garbage], [3.0, 5.0]],
        [[2.0, garbage], [garbage, 1.0]],
        0.5,
        ONE_EACH,
        grad_of=("values", "old_values", "returns"),
    )
    answer.equals(4.25).gradient_equals(values=[[-0.5, 0.0], [0.0, 2.0]], old_values=None, returns=None)


@named_cases(
    "policy_loss, value_loss, entropy, value_coef, entropy_coef, loss",
    {
        # 2 + 0.5 * 4 - 0.25 * 8
        "entropy-is-subtracted": (2.0, 4.0, 8.0, 0.5, 0.25, 2.0),
        # -3 + 2 * 1 - 4 * 0.5
        "coefficients-above-1": (-3.0, 1.0, 0.5, 2.0, 4.0, -3.0),
        "no-critic": (2.0, 4.0, 8.0, 0.0, 0.25, 0.0),
        "no-bonus": (2.0, 4.0, 8.0, 0.5, 0.0, 4.0),
    },
)
def test_combine_losses_by_hand(policy_loss, value_loss, entropy, value_coef, entropy_coef, loss):
    scalars = [torch.tensor(number, dtype=torch.float64) for number in (policy_loss, value_loss, entropy)]
    call(combine_losses, *scalars, value_coef, entropy_coef).equals(loss)


def test_combine_losses_gradient():
    # d loss / d entropy = -entropy_coef: a larger coefficient must reward more entropy
    scalars = [torch.tensor(number, dtype=torch.float64) for number in (2.0, 4.0, 8.0)]
    answer = call(combine_losses, *scalars, 0.5, 0.25, grad_of=("policy_loss", "value_loss", "entropy"))
    answer.gradient_equals(policy_loss=1.0, value_loss=0.5, entropy=-0.25)


# approx_kl is the mean of ratio - 1 - log(ratio): 0 at ratio 1, 1 - log 2 at 2, log 2 - 1/2 at 1/2
@named_cases(
    "ratios, advantages, clip_epsilon, expected",
    {
        "nothing-moved": (
            [1.0, 1.0],
            [1.0, -1.0],
            0.25,
            {"ratio_mean": 1.0, "ratio_max": 1.0, "approx_kl": 0.0, "clip_fraction": 0.0},
        ),
        # Two of the four outside tokens have moved to the side that profits: 2 with +, 1/2 with -.
        "only-the-side-that-profits-is-clipped": (
            [2.0, 2.0, 0.5, 0.5],
            [1.0, -1.0, 1.0, -1.0],
            0.25,
            {"ratio_mean": 1.25, "ratio_max": 2.0, "approx_kl": 0.25, "clip_fraction": 0.5},
        ),
        "one-good-token-went-up": (
            [2.0, 1.0, 1.0, 1.0],
            [3.0, 1.0, -1.0, 1.0],
            0.5,
            {"ratio_mean": 1.25, "ratio_max": 2.0, "approx_kl": (1 - LOG2) / 4, "clip_fraction": 0.25},
        ),
        "one-bad-token-went-down": (
            [0.5, 1.0, 1.0, 1.0],
            [-3.0, 1.0, -1.0, 1.0],
            0.25,
            {"ratio_mean": 0.875, "ratio_max": 1.0, "approx_kl": (LOG2 - 0.5) / 4, "clip_fraction": 0.25},
        ),
        "inside-a-wide-interval": (
            [2.0, 0.5],
            [1.0, -1.0],
            1.5,
            {"ratio_mean": 1.25, "ratio_max": 2.0, "approx_kl": 0.25, "clip_fraction": 0.0},
        ),
        "no-advantage-nothing-to-clip": (
            [2.0, 0.5],
            [0.0, 0.0],
            0.25,
            {"ratio_mean": 1.25, "ratio_max": 2.0, "approx_kl": 0.25, "clip_fraction": 0.0},
        ),
        "the-largest-ratio-may-be-small": (
            [0.5],
            [1.0],
            0.25,
            {"ratio_mean": 0.5, "ratio_max": 0.5, "approx_kl": LOG2 - 0.5, "clip_fraction": 0.0},
        ),
        # 1 + 1e-20 is 1: both ratios are at their bound.
        "at-the-bound-nothing-is-cut": (
            [1.0, 1.0],
            [1.0, -1.0],
            1e-20,
            {"ratio_mean": 1.0, "ratio_max": 1.0, "approx_kl": 0.0, "clip_fraction": 0.0},
        ),
    },
)
@worth(3)
def test_ppo_statistics_by_hand(ratios, advantages, clip_epsilon, expected):
    call(ppo_statistics, at(*ratios), [-1.0] * len(ratios), advantages, clip_epsilon).equals(expected)


def test_ppo_statistics_count_tokens_not_rows():
    # Real ratios 1, 1, 1/2 and 2; clipped is the last. The mean of the row means would be 17/12.
    log_probs, advantages = [at(1.0, 1.0, 0.5), at(2.0, 8.0, 8.0)], [[1.0, -1.0, 1.0], [1.0, 1.0, 1.0]]
    answer = call(ppo_statistics, log_probs, OLD, advantages, 0.25, THREE_AND_ONE)
    answer.equals({"ratio_mean": 1.125, "ratio_max": 2.0, "approx_kl": 0.125, "clip_fraction": 0.25})


@GARBAGE
def test_ppo_statistics_never_see_the_padding(garbage):
    answer = call(ppo_statistics, *padded((0.5, 2.0), (1.0, 2.0), garbage), 0.25, ONE_EACH)
    answer.equals({"ratio_mean": 1.25, "ratio_max": 2.0, "approx_kl": 0.25, "clip_fraction": 0.5})


@UNLIKELY
def test_ppo_statistics_of_unlikely_tokens(dtype, level):
    # Ratios 1.65 and 0.61, both good: the first is clipped.
    answer = call(ppo_statistics, *unlikely(dtype, level, [1.0, 1.0]), 0.25)
    mean, kl = math.cosh(0.5), math.cosh(0.5) - 1
    answer.equals({"ratio_mean": mean, "ratio_max": ROOT, "approx_kl": kl, "clip_fraction": 0.5})


# slope: d loss / d log_probs = -ratio * advantage + beta * (ratio - 1)
@named_cases(
    "ratio, advantage, beta, loss, slope",
    {
        "at-ratio-1-the-penalty-is-0-and-so-is-its-slope": (1.0, 2.0, 4.0, -2.0, -2.0),
        # -6 + 4 (1 - log 2); -6 + 4 * 1
        "moving-up-costs": (2.0, 3.0, 4.0, -2.0 - 4 * LOG2, -2.0),
        # -1.5 + 4 (log 2 - 1/2); -1.5 - 4 * 1/2
        "moving-down-costs": (0.5, 3.0, 4.0, 4 * LOG2 - 3.5, -3.5),
        "a-bad-token": (2.0, -3.0, 4.0, 10.0 - 4 * LOG2, 10.0),
        "beta-0-is-free-and-nothing-is-clipped": (2.0, 3.0, 0.0, -6.0, -6.0),
        "the-penalty-alone": (2.0, 0.0, 0.5, 0.5 - 0.5 * LOG2, 0.5),
    },
)
@worth(3)
def test_compute_kl_penalty_loss_by_hand(ratio, advantage, beta, loss, slope):
    answer = call(compute_kl_penalty_loss, at(ratio), [-1.0], [advantage], beta, grad_of="log_probs")
    answer.equals(loss).gradient_equals(log_probs=[slope])


def test_compute_kl_penalty_loss_sends_its_gradient_to_log_probs_only():
    # -1/2 * 2 + 2 (log 2 - 1/2) and 2 + 2 (1 - log 2): half of each; slopes -1 - 1 and 2 + 2
    answer = call(compute_kl_penalty_loss, at(0.5, 2.0), [-1.0, -1.0], [2.0, -1.0], 2.0, grad_of=EVERY)
    answer.equals(1.0).gradient_equals(log_probs=[-1.0, 2.0], old_log_probs=None, advantages=None)


def test_compute_kl_penalty_loss_is_a_mean_over_tokens():
    # Ratios 1, 1, 2 and 1/2, advantages 1, 1, -1 and -4, beta 2: -1, -1, 4 - 2 log 2 and 1 + 2 log 2. Their sum is 3.
    log_probs, advantages = [at(1.0, 1.0, 2.0), at(0.5, 2.0, 2.0)], [[1.0, 1.0, -1.0], [-4.0, 5.0, 7.0]]
    answer = call(compute_kl_penalty_loss, log_probs, OLD, advantages, 2.0, THREE_AND_ONE, grad_of="log_probs")
    answer.equals(0.75).gradient_equals(log_probs=[[-0.25, -0.25, 1.0], [0.25, 0.0, 0.0]])


@GARBAGE
def test_compute_kl_penalty_loss_never_sees_the_padding(garbage):
    # -1/2 * 1 + log 2 - 1/2 and 2 * 2 + 1 - log 2: 4 / 2
    answer = call(compute_kl_penalty_loss, *padded((0.5, 2.0), (1.0, -2.0), garbage), 1.0, ONE_EACH, grad_of=EVERY)
    answer.equals(2.0).gradient_equals(log_probs=[[-0.5, 0.0], [0.0, 2.5]], old_log_probs=None, advantages=None)


@UNLIKELY
def test_compute_kl_penalty_loss_of_unlikely_tokens(dtype, level):
    # 1.65 and -0.61, and 2 * (ratio - 1 - log(ratio)) each: their logarithms add up to 0
    answer = call(compute_kl_penalty_loss, *unlikely(dtype, level, [-1.0, 1.0]), 2.0, grad_of="log_probs")
    slopes = [(ROOT + 2 * (ROOT - 1)) / 2, (-1 / ROOT + 2 * (1 / ROOT - 1)) / 2]
    answer.equals(math.sinh(0.5) + 2 * (math.cosh(0.5) - 1), dtype=dtype).gradient_equals(log_probs=slopes)


# target_kl 3: the bounds are 4.5 and 2, both inside
@named_cases(
    "beta, kl, target_kl, after",
    {
        "too-far-doubles-beta": (0.75, 4.5078125, 3.0, 1.5),
        "too-near-halves-beta": (0.75, 1.9921875, 3.0, 0.375),
        "on-target-keeps-beta": (0.75, 3.0, 3.0, 0.75),
        "a-little-too-far-keeps-beta": (0.75, 4.4921875, 3.0, 0.75),
        "a-little-too-near-keeps-beta": (0.75, 2.0078125, 3.0, 0.75),
        "the-upper-bound-is-inside": (0.75, 4.5, 3.0, 0.75),
        "the-lower-bound-is-inside": (0.75, 2.0, 3.0, 0.75),
        "never-more-than-doubled": (6.0, 100.0, 3.0, 12.0),
        "never-less-than-halved": (6.0, 0.0, 3.0, 3.0),
        "a-small-target": (6.0, 0.03125, 0.015625, 12.0),
        "a-high-beta-is-doubled-too": (2.0**20, 100.0, 3.0, 2.0**21),
        "a-low-beta-is-halved-too": (2.0**-20, 0.0, 3.0, 2.0**-21),
    },
)
@worth(3)
def test_update_beta_by_hand(beta, kl, target_kl, after):
    call(update_beta, beta, kl, target_kl).equals(after)
