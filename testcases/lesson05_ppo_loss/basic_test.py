"""Lesson 5, by hand: one to six tokens, ratios 1/2, 1, 3/2, 2, every number worked out in a comment or by eye."""

import math

import pytest
import torch

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    named,
    reference,
    scenario,
    value_and_gradients,
)
from testcases.lesson05_ppo_loss.terms import (
    SHAPES,
    critic_terms,
    mean,
    policy_terms,
    slow_ppo_loss,
    slow_value_loss,
    triples,
)
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
# Of rows of 3 and 1 real tokens, and of rows of one each
THREE_AND_ONE = [[True, True, True], [True, False, False]]
OLD = [[-1.0, -1.0, -1.0], [-1.0, -1.0, -1.0]]


def at(*ratios: float) -> list[float]:
    """log_probs whose ratio to old_log_probs of -1 is this."""
    return [math.log(ratio) - 1 for ratio in ratios]


# clip_epsilon 0.25: the interval is 0.75 to 1.25. slope: d objective / d ratio.
@named(
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
@pytest.mark.points(4)
def test_clipped_objective_by_hand(ratio, advantage, objective, slope):
    answer, grads = value_and_gradients(clipped_objective, [ratio], [advantage], 0.25, wrt="ratio")
    assert_equal(answer, [objective])
    assert_equal(grads, ratio=[slope])


@named(
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
    assert_equal(clipped_objective([[ratio]], [[advantage]], clip_epsilon), [[objective]])


def test_clipped_objective_comes_before_the_loss():
    answer = scenario("objective_alone", of=clipped_objective)([0.5, 1.5], [-2.0, 2.0], 0.25)
    assert_equal(answer, [-1.5, 2.5])


# slope: d loss / d log_probs: -ratio * advantage, and 0 where the objective is held at the edge of the interval.
@named(
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
@pytest.mark.points(7)
def test_compute_ppo_loss_by_hand(log_probs, old_log_probs, advantages, clip_epsilon, loss, slopes):
    answer, grads = value_and_gradients(
        compute_ppo_loss, log_probs, old_log_probs, advantages, clip_epsilon, wrt="log_probs"
    )
    assert_equal(answer, loss)
    assert_equal(grads, **slopes)


@pytest.mark.points(3)
def test_compute_ppo_loss_of_the_six_cases():
    # Losses -0.5, -1, -1.2, 0.8, 1, 1.5: their mean is 0.6 / 6 = 0.1. The minimum of the losses would give -0.1.
    log_probs, advantages = at(0.5, 1.0, 1.5, 0.5, 1.0, 1.5), [1.0, 1.0, 1.0, -1.0, -1.0, -1.0]
    answer, grads = value_and_gradients(compute_ppo_loss, log_probs, [-1.0] * 6, advantages, 0.2, wrt="log_probs")
    assert_equal(answer, 0.1)
    assert_equal(grads, log_probs=[-0.5 / 6, -1 / 6, 0.0, 0.0, 1 / 6, 1.5 / 6])


@pytest.mark.points(2)
def test_compute_ppo_loss_is_a_mean_over_tokens():
    # Rows of 3 and 1 tokens. Losses -1, 0, 4 and 8: 11 / 4 = 2.75. The mean of the row means is 4.5 instead.
    log_probs, advantages = [at(1.0, 1.0, 2.0), at(2.0, 2.0, 2.0)], [[1.0, 0.0, -2.0], [-4.0, 5.0, 7.0]]
    answer, grads = value_and_gradients(
        compute_ppo_loss, log_probs, OLD, advantages, 0.5, THREE_AND_ONE, wrt="log_probs"
    )
    assert_equal(answer, 2.75)
    assert_equal(grads, log_probs=[[-0.25, 0.0, 1.0], [2.0, 0.0, 0.0]])


# The vector of known mistakes: old value 1, clip_epsilon 0.2. slope: d loss / d values.
@named(
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
@pytest.mark.points(5)
def test_compute_value_loss_by_hand(values, old_values, returns, clip_epsilon, loss, slopes):
    answer, grads = value_and_gradients(compute_value_loss, values, old_values, returns, clip_epsilon, wrt="values")
    assert_equal(answer, loss)
    assert_equal(grads, **slopes)


def test_compute_value_loss_is_a_mean_over_tokens():
    # Halves of squares 1/2, 1/2, 2 and 8: 11 / 4. The mean of the row means is 4.5 instead.
    values, old_values = [[2.0, 2.0, 3.0], [5.0, 9.0, 9.0]], [[2.0, 2.0, 3.0], [5.0, 1.0, 2.0]]
    returns = [[1.0, 1.0, 1.0], [1.0, 3.0, 4.0]]
    answer, grads = value_and_gradients(
        compute_value_loss, values, old_values, returns, 0.5, THREE_AND_ONE, wrt="values"
    )
    assert_equal(answer, 2.75)
    assert_equal(grads, values=[[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]])


@named(
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
@pytest.mark.points(3)
def test_combine_losses_by_hand(policy_loss, value_loss, entropy, value_coef, entropy_coef, loss):
    scalars = [torch.tensor(number, dtype=torch.float64) for number in (policy_loss, value_loss, entropy)]
    assert_equal(combine_losses(*scalars, value_coef, entropy_coef), loss)


def test_combine_losses_gradient():
    # d loss / d entropy = -entropy_coef: a larger coefficient must reward more entropy
    scalars = [torch.tensor(number, dtype=torch.float64) for number in (2.0, 4.0, 8.0)]
    answer, grads = value_and_gradients(
        combine_losses, *scalars, 0.5, 0.25, wrt=("policy_loss", "value_loss", "entropy")
    )
    assert_equal(grads, policy_loss=1.0, value_loss=0.5, entropy=-0.25)


# approx_kl is the mean of ratio - 1 - log(ratio): 0 at ratio 1, 1 - log 2 at 2, log 2 - 1/2 at 1/2
@named(
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
@pytest.mark.points(5)
def test_ppo_statistics_by_hand(ratios, advantages, clip_epsilon, expected):
    assert_equal(ppo_statistics(at(*ratios), [-1.0] * len(ratios), advantages, clip_epsilon), expected)


def test_ppo_statistics_count_tokens_not_rows():
    # Real ratios 1, 1, 1/2 and 2; clipped is the last. The mean of the row means would be 17/12.
    log_probs, advantages = [at(1.0, 1.0, 0.5), at(2.0, 8.0, 8.0)], [[1.0, -1.0, 1.0], [1.0, 1.0, 1.0]]
    answer = ppo_statistics(log_probs, OLD, advantages, 0.25, THREE_AND_ONE)
    assert_equal(answer, {"ratio_mean": 1.125, "ratio_max": 2.0, "approx_kl": 0.125, "clip_fraction": 0.25})


# slope: d loss / d log_probs = -ratio * advantage + beta * (ratio - 1)
@named(
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
@pytest.mark.points(4)
def test_compute_kl_penalty_loss_by_hand(ratio, advantage, beta, loss, slope):
    answer, grads = value_and_gradients(compute_kl_penalty_loss, at(ratio), [-1.0], [advantage], beta, wrt="log_probs")
    assert_equal(answer, loss)
    assert_equal(grads, log_probs=[slope])


@pytest.mark.points(2)
def test_compute_kl_penalty_loss_is_a_mean_over_tokens():
    # Ratios 1, 1, 2 and 1/2, advantages 1, 1, -1 and -4, beta 2: -1, -1, 4 - 2 log 2 and 1 + 2 log 2. Their sum is 3.
    log_probs, advantages = [at(1.0, 1.0, 2.0), at(0.5, 2.0, 2.0)], [[1.0, 1.0, -1.0], [-4.0, 5.0, 7.0]]
    answer, grads = value_and_gradients(
        compute_kl_penalty_loss, log_probs, OLD, advantages, 2.0, THREE_AND_ONE, wrt="log_probs"
    )
    assert_equal(answer, 0.75)
    assert_equal(grads, log_probs=[[-0.25, -0.25, 1.0], [0.25, 0.0, 0.0]])


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
        "never-more-than-doubled": (6.0, 100.0, 3.0, 12.0),
        "never-less-than-halved": (6.0, 0.0, 3.0, 3.0),
        "a-small-target": (6.0, 0.03125, 0.015625, 12.0),
        "a-high-beta-is-doubled-too": (2.0**20, 100.0, 3.0, 2.0**21),
        "a-low-beta-is-halved-too": (2.0**-20, 0.0, 3.0, 2.0**-21),
    },
)
@pytest.mark.points(4)
def test_update_beta_by_hand(beta, kl, target_kl, after):
    assert_equal(update_beta(beta, kl, target_kl), after)


@SHAPES
@pytest.mark.points(4)
def test_compute_ppo_loss_takes_any_shape(shape):
    terms = policy_terms(*shape)
    assert_equal(compute_ppo_loss(*terms, 0.3), slow_ppo_loss(terms, 0.3))


@SHAPES
@pytest.mark.points(3)
def test_compute_value_loss_takes_any_shape(shape):
    terms = critic_terms(*shape)
    answer, _ = value_and_gradients(compute_value_loss, *terms, 0.3, wrt="values")
    assert_equal(answer, slow_value_loss(terms, 0.3))
    assert_equals_reference(answer)


@SHAPES
@pytest.mark.points(3)
def test_ppo_statistics_take_any_shape(shape):
    terms = policy_terms(*shape)
    ratios = [math.exp(new - old) for new, old, _ in triples(terms)]
    answer = ppo_statistics(*terms, 0.3)
    assert_equal(answer["ratio_mean"], mean(ratios))
    assert_equal(answer["ratio_max"], max(ratios))
    assert_equal(answer["approx_kl"], mean([ratio - 1 - math.log(ratio) for ratio in ratios]))


def test_ppo_statistics_clip_fraction_is_where_the_loss_has_no_slope():
    terms = policy_terms(8, 8)
    inside = 0
    for new, old, advantage in triples(terms):
        ratio = math.exp(new - old)
        inside += (ratio <= 1.3) if advantage > 0 else (ratio >= 0.7)
    answer = ppo_statistics(*terms, 0.3)
    assert_equal(answer["clip_fraction"], 1 - inside / 64)


def test_ppo_statistics_approx_kl_estimates_the_kl_from_the_old_policy():
    # 8 tokens drawn as often as the old policy (1/2, 1/4, 1/8, 1/8) says: the mean is KL(old || new) exactly.
    old = torch.tensor([0.5, 0.25, 0.125, 0.125], dtype=torch.float64)
    new = torch.tensor([0.25, 0.25, 0.375, 0.125], dtype=torch.float64)
    drawn = torch.tensor([0, 0, 0, 0, 1, 1, 2, 3])
    kl = (old * (old / new).log()).sum().item()
    answer = ppo_statistics(new.log()[drawn], old.log()[drawn], normal(8), 0.3)
    assert_equal(answer["approx_kl"], kl)
    assert_equal(answer["ratio_mean"], 1.0)


@SHAPES
@pytest.mark.points(4)
def test_compute_kl_penalty_loss_takes_any_shape(shape):
    terms = policy_terms(*shape)
    losses = []
    for new, old, advantage in triples(terms):
        ratio = math.exp(new - old)
        losses.append(-ratio * advantage + 1.7 * (ratio - 1 - (new - old)))
    assert_equal(compute_kl_penalty_loss(*terms, 1.7), mean(losses))


@pytest.mark.points(2)
def test_compute_kl_penalty_loss_has_the_gradient_of_the_kl():
    # Drawn as often as the old policy says; advantages 0. The gradient by the probability's logits is that of
    # KL(old || new): new - old. By log_probs it is (ratio - 1) / 8 for each drawn token.
    old = torch.tensor([0.5, 0.25, 0.125, 0.125], dtype=torch.float64)
    new = torch.tensor([0.25, 0.25, 0.375, 0.125], dtype=torch.float64)
    drawn = torch.tensor([0, 0, 0, 0, 1, 1, 2, 3])
    answer, grads = value_and_gradients(
        compute_kl_penalty_loss,
        new.log()[drawn],
        old.log()[drawn],
        torch.zeros(8, dtype=torch.float64),
        3.0,
        wrt="log_probs",
    )
    assert_equal(answer, 3 * (old * (old / new).log()).sum().item())
    assert_equal(grads, log_probs=3 * ((new / old)[drawn] - 1) / 8)


def test_compute_kl_penalty_loss_is_linear_in_beta():
    terms = policy_terms(4, 4)
    free, dear = (reference(compute_kl_penalty_loss, *terms, beta) for beta in (0.0, 1.0))
    assert_equal(compute_kl_penalty_loss(*terms, 2.5), free + 2.5 * (dear - free))


@pytest.mark.parametrize("target_kl", [0.01, 0.5, 6.0])
def test_update_beta_depends_on_the_quotient(target_kl):
    for share, factor in ((1.501, 2.0), (1.499, 1.0), (1.0, 1.0), (0.667, 1.0), (0.666, 0.5)):
        assert_equal(update_beta(0.4, share * target_kl, target_kl), 0.4 * factor)
