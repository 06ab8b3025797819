"""Lesson 6, by hand: probabilities 1/2, 1/4 and 1/8, so that every log-ratio is a multiple of ln 2 = 0.693."""

import math

import pytest
import torch

from testcases.harness.suite.asserts import assert_equal, gradients, named, scenario, value_and_gradients
from tutorial.lesson06_kl_rewards import (
    AdaptiveKLController,
    compute_rewards,
    estimate_kl,
    nonnegative_kl,
    penalize_missing_stop,
)

LN2 = math.log(2)


# The policy says 1/2, the reference 1/4; then 1/8 and 1/2; then both the same.
@named(
    "log_prob, ref_log_prob, kl",
    {
        "k3-where-the-policy-finds-the-token-more-likely": (-LN2, -2 * LN2, -0.5 + LN2),
        "k3-is-never-negative": (-3 * LN2, -LN2, 3 - 2 * LN2),
        "k3-of-equal-models-is-0": (-5.0, -5.0, 0.0),
        "k3-of-a-token-6-nats-apart": (-7.0, -1.0, math.exp(6) - 7),  # exp(6) - 1 - 6
    },
)
@pytest.mark.points(2)
def test_nonnegative_kl_by_hand(log_prob, ref_log_prob, kl):
    assert_equal(nonnegative_kl([[log_prob]], [[ref_log_prob]]), [[kl]])


def test_nonnegative_kl_is_right_on_average():
    # Of the policy (1/2, 1/4, 1/8, 1/8) from the uniform one: ln 2 / 2 - ln 2 / 8 - ln 2 / 8 = ln 2 / 4
    probs = torch.tensor([1 / 2, 1 / 4, 1 / 8, 1 / 8], dtype=torch.float64)
    answer, grads = value_and_gradients(nonnegative_kl, probs.log(), [-2 * LN2] * 4, wrt="log_probs")
    assert abs(float((probs * answer).sum()) - LN2 / 4) < 1e-6, f"estimates with the mean {LN2 / 4:.6g} over the policy"
    # 1 - reference / policy
    assert_equal(grads, log_probs=[0.5, 0.0, -1.0, -1.0])


def test_nonnegative_kl_comes_before_the_estimators():
    alone = scenario("calls.alone", of=nonnegative_kl)
    assert_equal(
        alone(exercise="nonnegative_kl", later="estimate_kl", log_probs=[-LN2], ref_log_probs=[-2 * LN2]), [LN2 - 0.5]
    )


# r = log_probs - ref_log_probs; k1 = r, k2 = r^2 / 2, k3 = exp(-r) - 1 + r
@named(
    "log_prob, ref_log_prob, estimator, kl",
    {
        # The policy says 1/2, the reference 1/4: r = ln 2, exp(-r) = 1/2
        "k1-where-the-policy-finds-the-token-more-likely": (-LN2, -2 * LN2, "k1", LN2),
        "k2-where-the-policy-finds-the-token-more-likely": (-LN2, -2 * LN2, "k2", LN2**2 / 2),
        "k3-where-the-policy-finds-the-token-more-likely": (-LN2, -2 * LN2, "k3", -0.5 + LN2),
        # The policy says 1/8, the reference 1/2: r = -2 ln 2, exp(-r) = 4
        "k1-is-negative-where-the-reference-finds-the-token-more-likely": (-3 * LN2, -LN2, "k1", -2 * LN2),
        "k2-is-never-negative": (-3 * LN2, -LN2, "k2", 2 * LN2**2),
        # exp(-1000) is 0 in any dtype: stay with the logarithms
        "never-leave-the-logarithms": (-1000.0, -1001.0, "k1", 1.0),
        "only-the-exponent-is-capped": (-1.0, -31.0, "k3", 29.000000000000092),  # exp(-30) - 1 + 30
    },
)
@pytest.mark.points(4)
def test_estimate_kl_by_hand(log_prob, ref_log_prob, estimator, kl):
    assert_equal(estimate_kl([[log_prob]], [[ref_log_prob]], estimator), [[kl]])


# The same two tokens: r = ln 2 and -2 ln 2. Slopes by r: 1; r; 1 - exp(-r)
@named(
    "estimator, slope",
    {
        "k1-the-same-everywhere": ("k1", [1.0, 1.0]),
        "k2-the-log-ratio": ("k2", [LN2, -2 * LN2]),
        "k3-one-minus-the-inverse-ratio": ("k3", [0.5, -3.0]),
    },
)
@pytest.mark.points(2)
def test_estimate_kl_gradient(estimator, slope):
    pair = [-LN2, -3 * LN2], [-2 * LN2, -LN2]
    grads = gradients(estimate_kl, *pair, estimator, wrt=("log_probs", "ref_log_probs"))
    assert_equal(grads, log_probs=slope, ref_log_probs=[-number for number in slope])


# The policy (.5, .3, .15, .05) against .25 each, all four tokens weighted with their probability, by the logits
@named(
    "estimator, mean, slope",
    {
        "k1-is-unbiased-and-teaches-nothing-as-a-loss": ("k1", 0.244174318, [0.0, 0.0, 0.0, 0.0]),
        # The slope of k2 is p (r - KL), that of k3 p - 1/4.
        "k2-is-biased-and-descends-this-kl": ("k2", 0.209427397, [0.224486, -0.018556, -0.113250, -0.092681]),
        "k3-is-unbiased-and-descends-the-reversed-kl": ("k3", 0.244174318, [0.25, 0.05, -0.1, -0.2]),
    },
)
@pytest.mark.points(5)
def test_estimate_kl_as_a_loss(estimator, mean, slope):
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64).log()
    expected_kl = scenario("expected_kl", of=estimate_kl)
    answer, grads = value_and_gradients(
        expected_kl, logits=logits, ref_logits=[0.0] * 4, estimator=estimator, wrt="logits"
    )
    assert_equal(answer, torch.tensor(mean, dtype=torch.float64), atol=1e-9)
    assert_equal(grads, logits=slope, atol=1e-6)


# r = log_probs - ref_log_probs; `real` tokens, then padding; clip_score 2, k1. Without the score the rewards are
# -kl_coef * r.
@named(
    "score, r, real, kl_coef, rewards",
    {
        "kl-everywhere-and-the-score-at-the-end": (1.0, [1.0, -2.0, 3.0], 3, 0.5, [-0.5, 1.0, -0.5]),
        "with-score-0-the-kl-penalty-alone": (0.0, [1.0, -2.0, 3.0], 3, 0.5, [-0.5, 1.0, -1.5]),
        "a-bad-score-is-clipped-from-below": (-7.0, [0.0, 0.0], 2, 0.5, [0.0, -2.0]),
        "a-good-score-is-clipped-from-above": (7.0, [0.0, 0.0], 2, 0.5, [0.0, 2.0]),
        "the-kl-is-not-clipped": (7.0, [10.0, 12.0], 2, 0.5, [-5.0, -4.0]),  # -5 and 2 - 6
        "padding-holds-numbers": (1.0, [1.0, -2.0, -6.0], 2, 0.5, [-0.5, 2.0, 0.0]),
        "with-kl-coef-0": (1.5, [1.0, -2.0], 2, 0.0, [0.0, 1.5]),
    },
)
@pytest.mark.points(7)
def test_compute_rewards_by_hand(score, r, real, kl_coef, rewards):
    log_probs, ref_log_probs = [number - 20 for number in r], [-20.0] * len(r)
    mask = [place < real for place in range(len(r))]
    assert_equal(compute_rewards([score], [log_probs], [ref_log_probs], [mask], kl_coef, 2.0), [rewards])


# r = ln 2, then -2 ln 2; kl_coef 2; score 1
@named(
    "estimator, rewards",
    {
        "k1": ("k1", [[-2 * LN2, 4 * LN2 + 1]]),
        "k2": ("k2", [[-(LN2**2), -4 * LN2**2 + 1]]),
        "k3": ("k3", [[1 - 2 * LN2, -6 + 4 * LN2 + 1]]),
    },
)
@pytest.mark.points(3)
def test_compute_rewards_uses_the_estimator(estimator, rewards):
    answer = compute_rewards([1.0], [[-LN2, -3 * LN2]], [[-2 * LN2, -LN2]], [[True, True]], 2.0, 5.0, estimator)
    assert_equal(answer, rewards)


# Tokens 2 and 3 stop, 0 is the padding; the penalty is 1.5
@named(
    "responses, stop_token_ids, scores, penalized",
    {
        "a-stop-in-the-last-column": ([[5, 6, 2]], (2, 3), [4.0], [4.0]),
        "a-stop-then-padding": ([[5, 2, 0]], (2, 3), [4.0], [4.0]),
        "a-stop-in-the-padding": ([[5, 0, 2]], (2, 3), [4.0], [4.0]),
        "any-of-the-stop-tokens-counts": ([[5, 3, 0]], (2, 3), [4.0], [4.0]),
        "without-a-stop-the-penalty-is-subtracted": ([[5, 6, 7]], (2, 3), [4.0], [2.5]),
        "from-a-bad-score-too": ([[5, 6, 7]], (2,), [-4.0], [-5.5]),
        "another-token-is-no-stop": ([[5, 3, 0], [5, 6, 7]], (2,), [4.0, 1.0], [2.5, -0.5]),
        "padding-may-be-the-stop-token": ([[5, 2, 2], [5, 6, 7]], (2,), [4.0, 1.0], [4.0, -0.5]),
    },
)
@pytest.mark.points(5)
def test_penalize_missing_stop_by_hand(responses, stop_token_ids, scores, penalized):
    assert_equal(penalize_missing_stop(scores, responses, stop_token_ids, 1.5), penalized)


def test_penalize_missing_stop_gradient():
    args = [4.0, 4.0], [[5, 2, 0], [5, 6, 7]], (2,), 10.0
    answer, grads = value_and_gradients(penalize_missing_stop, *args, wrt="scores")
    assert_equal(answer, [4.0, -6.0])
    assert_equal(grads, scores=[1.0, 1.0])


# error = clip(current / target - 1, -0.2, 0.2); value = value * (1 + error * n_steps / horizon)
@named(
    "kl_coef, target_kl, horizon, seen, n_steps, coefficients",
    {
        # 60 / 6 - 1 = 9, clipped to 0.2; 0.2 * 256 / 10000 = 0.00512
        "far-above-the-target-clipped-to-a-fifth": (0.1, 6.0, 10_000, (60.0,), (256,), (0.100512,)),
        # 0 / 6 - 1 = -1, clipped to -0.2
        "far-below-the-target-clipped-to-a-fifth": (0.1, 6.0, 10_000, (0.0,), (256,), (0.099488,)),
        # 4.5 / 4 - 1 = 0.125; 0.125 * 32 / 64 = 0.0625
        "a-little-above-in-proportion": (2.0, 4.0, 64, (4.5,), (32,), (2.125,)),
        "a-little-below-in-proportion": (2.0, 4.0, 64, (3.5,), (32,), (1.875,)),
        "on-target-nothing-changes": (2.0, 4.0, 64, (4.0,), (32,), (2.0,)),
        "an-estimate-below-0-is-allowed": (2.0, 4.0, 64, (-9.0,), (32,), (1.8,)),
        # 2^-14 * 0.9: no coefficient is too low
        "a-coefficient-may-be-tiny": (2.0**-14, 4.0, 64, (0.0,), (32,), (0.9 * 2.0**-14,)),
        # 2 * 1.0625 = 2.125; 2.125 * 0.9375 = 1.9921875; then 0.125 * 64 / 64: * 1.125
        "updates-compound": (2.0, 4.0, 64, (4.5, 3.5, 4.5), (32, 32, 64), (2.125, 1.9921875, 2.2412109375)),
    },
)
@pytest.mark.points(5)
def test_update_by_hand(kl_coef, target_kl, horizon, seen, n_steps, coefficients):
    given = {"kl_coef": kl_coef, "target_kl": target_kl, "horizon": horizon, "seen": seen, "n_steps": n_steps}
    answer = scenario("coefficients", of=AdaptiveKLController.update)(**given)
    assert_equal(answer, {f"update {number}": coefficient for number, coefficient in enumerate(coefficients, start=1)})
