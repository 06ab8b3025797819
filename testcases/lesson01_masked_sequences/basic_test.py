"""Lesson 1, by hand: two to four tokens; logits are logarithms of small whole numbers, so probabilities are simple."""

import math
from math import exp, log, sqrt

import pytest
import torch

from testcases.harness.suite.asserts import assert_equal, gradients, named, value_and_gradients
from tutorial.lesson01_masked_sequences import (
    first_true_index,
    gather_log_probs,
    masked_mean,
    masked_whiten,
    position_ids,
    response_log_probs,
    response_mask,
    token_entropy,
    truncate_after_stop,
)

LN2 = math.log(2)


# Logits [0, log 3] are the odds 1 : 3, so the probabilities are 1/4 and 3/4.
@named(
    "logits, token, temperature, log_prob",
    {
        "odds-1-to-3": ([0.0, log(3)], 0, 1.0, log(1 / 4)),
        "the-token-asked-for-not-the-first": ([0.0, log(3)], 1, 1.0, log(3 / 4)),
        "equal-logits-are-uniform-whatever-their-size": ([7.0, 7.0, 7.0, 7.0], 2, 1.0, log(1 / 4)),
        # Divided by 0.5 the odds 1 : 3 become 1 : 9; divided by 2 the odds 1 : 4 become 1 : 2.
        "temperature-below-1-sharpens": ([0.0, log(3)], 0, 0.5, log(1 / 10)),
        "temperature-above-1-flattens": ([0.0, log(4)], 0, 2.0, log(1 / 3)),
        # Log-probabilities divided by 0.7 would be -0.582, -2.011, -3.439: their probabilities sum to 0.72.
        "temperature-divides-the-logits": ([2.0, 1.0, 0.0], 1, 0.7, 1 / 0.7 - log(exp(2 / 0.7) + exp(1 / 0.7) + 1)),
        "very-unlikely-is-not-minus-infinity": ([0.0, 1000.0], 0, 1.0, -1000.0),
    },
)
@pytest.mark.points(8)
def test_gather_log_probs_by_hand(logits, token, temperature, log_prob):
    assert_equal(gather_log_probs([[logits]], [[token]], temperature), [[log_prob]])


def test_gather_log_probs_gradient():
    # (one-hot - probabilities) / temperature: probabilities 0.1 and 0.9.
    grads = gradients(gather_log_probs, [[[0.0, log(3)]] * 2], [[0, 1]], 0.5, wrt="logits")
    assert_equal(grads, logits=[[[1.8, -1.8], [-0.2, 0.2]]])


# Four positions. The logits of position i give these odds for the token at position i + 1:
ODDS = [[1, 2, 5], [1, 1, 2], [3, 1, 1], [1, 8, 1]]
LOGITS = [[[log(odds) for odds in row] for row in ODDS]]
IDS = [[0, 1, 2, 0]]


@named(
    "prompt_length, temperature, log_probs",
    {
        # Token 2 stands at position 2 and is scored at 1: 2 of 4. Token 0 stands at 3 and is scored at 2: 3 of 5.
        "scored-one-position-earlier": (2, 1.0, [log(2 / 4), log(3 / 5)]),
        # Token 1 is scored at 0: 2 of 8.
        "the-only-prompt-position-scores-the-first-token": (1, 1.0, [log(2 / 8), log(2 / 4), log(3 / 5)]),
        "one-response-token": (3, 1.0, [log(3 / 5)]),
        # The odds are squared: 4 of 1 + 1 + 4, and 9 of 9 + 1 + 1.
        "temperature-is-passed-on": (2, 0.5, [log(4 / 6), log(9 / 11)]),
    },
)
@pytest.mark.points(7)
def test_response_log_probs_by_hand(prompt_length, temperature, log_probs):
    assert_equal(response_log_probs(LOGITS, IDS, prompt_length, temperature), [log_probs])


def test_response_log_probs_gradient():
    # One-hot minus probabilities, at the positions 1 and 2 only: nothing is scored at 0 (a prompt token is) and 3.
    grads = gradients(response_log_probs, LOGITS, IDS, 2, wrt="logits")
    assert_equal(grads, logits=[[[0.0, 0.0, 0.0], [-0.25, -0.25, 0.5], [0.4, -0.2, -0.2], [0.0, 0.0, 0.0]]])


def entropy(*probabilities: float) -> float:
    return -sum(p * log(p) for p in probabilities)


@named(
    "logits, temperature, expected",
    {
        "uniform-is-log-of-the-vocabulary": ([0.0, 0.0, 0.0, 0.0], 1.0, log(4)),
        "odds-1-to-3": ([0.0, log(3)], 1.0, entropy(1 / 4, 3 / 4)),
        "a-shift-of-the-logits-changes-nothing": ([7.0, 7.0 + log(3)], 1.0, entropy(1 / 4, 3 / 4)),
        "temperature-below-1-lowers-it": ([0.0, log(3)], 0.5, entropy(1 / 10, 9 / 10)),
        "temperature-above-1-raises-it": ([0.0, log(4)], 2.0, entropy(1 / 3, 2 / 3)),
        "certain-by-far": ([0.0, 1000.0], 1.0, 0.0),
    },
)
@pytest.mark.points(8)
def test_token_entropy_by_hand(logits, temperature, expected):
    assert_equal(token_entropy([[logits]], temperature), [[expected]])


@pytest.mark.points(2)
def test_token_entropy_gradient():
    # dH / dlogits[v] = -p[v] * (log p[v] + H) / temperature, p = 1/10 and 9/10. The loss weighs the entropy with 2.
    high = entropy(1 / 10, 9 / 10)
    slopes = [2 * -p * (log(p) + high) / 0.5 for p in (1 / 10, 9 / 10)]
    weights = torch.tensor([[2.0]], dtype=torch.float64)
    answer, grads = value_and_gradients(token_entropy, [[[0.0, log(3)]]], 0.5, wrt="logits", weights=weights)
    assert_equal(answer, [[high]])
    assert_equal(grads, logits=[[slopes]])


# Two responses of 2 and 4 tokens. In the padding stands 9.
TWO_AND_FOUR = [[True, True, False, False], [True, True, True, True]]


@named(
    "values, mask, mean",
    {
        # 19 / 6. The mean of row means is 2.75, over all columns 4.625, the masked sum over all columns 2.375.
        "each-token-counts-once": ([[1.0, 2.0, 9.0, 9.0], [4.0] * 4], TWO_AND_FOUR, 19 / 6),
        "a-zero-is-a-value": ([[1.0, 0.0, 9.0, 9.0], [4.0] * 4], TWO_AND_FOUR, 17 / 6),  # 1 + 0 + 4 + 4 + 4 + 4, by 6
    },
)
@pytest.mark.points(5)
def test_masked_mean_by_hand(values, mask, mean):
    assert_equal(masked_mean(values, mask), mean)


@pytest.mark.points(2)
def test_masked_mean_gradient():
    # 1 / 6 for each of the six real tokens.
    grads = gradients(masked_mean, [[1.0, 2.0, 9.0, 9.0], [4.0] * 4], TWO_AND_FOUR, wrt="values")
    assert_equal(grads, values=[[1 / 6, 1 / 6, 0.0, 0.0], [1 / 6] * 4])


# 1 / the root of the variance, with the small number in its place.
def scale(variance: float) -> float:
    return 1 / sqrt(variance + 1e-8)


# Real values 1, 2, 3 in two rows: mean 2, variance (1 + 0 + 1) / (3 - 1) = 1
VALUES = [[1.0, 2.0, 9.0], [3.0, 9.0, 9.0]]
RAGGED = [[True, True, False], [True, False, False]]


@named(
    "values, mask, shift_mean, whitened",
    {
        "padding-has-no-part-and-comes-back-0": (VALUES, RAGGED, True, [[-scale(1), 0.0, 0.0], [scale(1), 0.0, 0.0]]),
        "false-keeps-the-mean": (VALUES, RAGGED, False, [[2 - scale(1), 2.0, 0.0], [2 + scale(1), 0.0, 0.0]]),
        # Variance (9 + 9) / (2 - 1) = 18; divided by 2 it would be 9.
        "variance-over-n-minus-1": ([[0.0, 6.0]], [[True, True]], True, [[-3 * scale(18), 3 * scale(18)]]),
        "equal-values-are-not-divided-by-0": ([[4.0, 4.0]], [[True, True]], True, [[0.0, 0.0]]),
        "far-from-0-nothing-is-lost": ([[1e6 + 1, 1e6 + 3]], [[True, True]], True, [[-scale(2), scale(2)]]),
    },
)
@pytest.mark.points(5)
def test_masked_whiten_by_hand(values, mask, shift_mean, whitened):
    assert_equal(masked_whiten(values, mask, shift_mean), whitened)


@named("shift_mean, kept", {"centred": (True, 0.0), "mean-kept": (False, 1 / 3)})
@pytest.mark.points(2)
def test_masked_whiten_gradient(shift_mean, kept):
    # The first whitened number, by the real values 1, 2, 3 with r = scale(1): the mean and the variance move as well.
    # r * (1 - 1/3) - r^3 * 1/2, -r/3, -r/3 + r^3 * 1/2; the kept mean adds 1/3 to each.
    r, weights = scale(1), torch.tensor([[1.0, 0.0, 9.0], [0.0, 9.0, 9.0]], dtype=torch.float64)
    grads = gradients(masked_whiten, VALUES, RAGGED, shift_mean, wrt="values", weights=weights)
    slopes = [r * 2 / 3 - r**3 / 2 + kept, -r / 3 + kept, -r / 3 + r**3 / 2 + kept]
    assert_equal(grads, values=[[slopes[0], slopes[1], 0.0], [slopes[2], 0.0, 0.0]])


@named(
    "flags, index",
    {
        "one": ([[False, True, False]], [1]),
        "first-of-two-with-a-gap": ([[True, False, True]], [0]),
        "last-column": ([[False, False, True]], [2]),
        "none-is-the-length-not-0": ([[False, False, False]], [3]),
        "each-row-for-itself": ([[False, False, True, False], [False] * 4, [True, False, False, True]], [2, 4, 0]),
    },
)
@pytest.mark.points(5)
def test_first_true_index_by_hand(flags, index):
    assert_equal(first_true_index(flags), index)


# Token 2 is the stop; 3 is another one where two are given.
@named(
    "response, stop_token_ids, real",
    {
        "the-stop-token-is-an-action": ([5, 6, 2, 0, 0], (2,), 3),
        "padded-with-the-stop-token": ([5, 6, 2, 2, 2], (2,), 3),
        "junk-after-the-stop": ([5, 2, 7, 2, 7], (2,), 2),
        "never-stopped-is-all-real": ([5, 6, 7], (2,), 3),
        "the-second-id-comes-first": ([5, 3, 2, 7], (2, 3), 2),
        "ids-between-two-stop-ids-are-no-stops": ([5, 4, 6, 7], (2, 6), 3),
        "the-padding-id-is-a-token-like-others": ([5, 0, 6, 2, 0], (2,), 4),
        "no-stop-ids": ([5, 2, 6], (), 3),
    },
)
@pytest.mark.points(4)
def test_response_mask_by_hand(response, stop_token_ids, real):
    assert_equal(response_mask([response], stop_token_ids), [[place < real for place in range(len(response))]])


def test_response_mask_keeps_rows_apart():
    answer = response_mask([[5, 2, 6], [5, 6, 7], [5, 6, 3], [2, 2, 2]], (2, 3))
    assert_equal(answer, [[True, True, False], [True, True, True], [True, True, True], [True, False, False]])


@named(
    "responses, stop_token_ids, pad_token_id, truncated",
    {
        "the-stop-token-stays": ([[5, 6, 2, 7, 8]], (2,), 9, [[5, 6, 2, 9, 9]]),
        "pad-is-the-stop-token": ([[5, 6, 2, 7, 8]], (2,), 2, [[5, 6, 2, 2, 2]]),
        "never-stopped-is-left-alone": ([[5, 6, 7]], (2,), 9, [[5, 6, 7]]),
        "the-second-id-comes-first": ([[5, 3, 2, 7]], (2, 3), 9, [[5, 3, 9, 9]]),
        "the-padding-id-inside-does-not-end-it": ([[5, 9, 6, 2, 7]], (2,), 9, [[5, 9, 6, 2, 9]]),
        "each-row-for-itself": ([[5, 2, 6, 7], [5, 6, 2, 8]], (2,), 9, [[5, 2, 9, 9], [5, 6, 2, 9]]),
    },
)
@pytest.mark.points(4)
def test_truncate_after_stop_by_hand(responses, stop_token_ids, pad_token_id, truncated):
    assert_equal(truncate_after_stop(responses, stop_token_ids, pad_token_id), truncated)


@named(
    "attention_mask, positions",
    {
        "left-padding": ([[0, 0, 1, 1, 1]], [[0, 0, 0, 1, 2]]),
        "right-padding-is-0-too": ([[1, 1, 1, 0, 0]], [[0, 1, 2, 0, 0]]),
        "both-sides": ([[0, 1, 1, 1, 0]], [[0, 0, 1, 2, 0]]),
        "a-gap-counts-no-position": ([[1, 0, 1, 1]], [[0, 0, 1, 2]]),
        "all-padding": ([[0, 0]], [[0, 0]]),
        # Prompts of 1 and 3 tokens, each followed by one more
        "each-row-for-itself": ([[False, False, True, True], [True] * 4], [[0, 0, 0, 1], [0, 1, 2, 3]]),
    },
)
@pytest.mark.points(4)
def test_position_ids_by_hand(attention_mask, positions):
    assert_equal(position_ids(attention_mask), positions)
