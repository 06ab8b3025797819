"""Lesson 1, by hand: two to four tokens; logits are logarithms of small whole numbers, so probabilities are simple."""

import math
from math import log, sqrt

import pytest
import torch

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import assert_equal, named, reference, value_and_gradients
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
    "logits, tokens, temperature, log_probs",
    {
        # the softmax is 0.25, 0.75
        "odds-1-to-3": ([[[0.0, log(3)]]], [[0]], 1.0, [[-2 * LN2]]),
        # the softmax is 0.25, 0.75
        "the-token-asked-for-not-the-first": ([[[0.0, log(3)]]], [[1]], 1.0, [[log(3 / 4)]]),
        # the softmax is 0.25, 0.25, 0.25, 0.25
        "equal-logits-are-uniform-whatever-their-size": ([[[7.0, 7.0, 7.0, 7.0]]], [[2]], 1.0, [[-2 * LN2]]),
        # Divided by 0.5 the odds 1 : 3 become 1 : 9; divided by 2 the odds 1 : 4 become 1 : 2.
        "temperature-below-1-sharpens": ([[[0.0, log(3)]]], [[0]], 0.5, [[log(1 / 10)]]),
        "temperature-above-1-flattens": ([[[0.0, 2 * LN2]]], [[0]], 2.0, [[-log(3)]]),
        "very-unlikely-is-not-minus-infinity": ([[[0.0, 1000.0]]], [[0]], 1.0, [[-1000.0]]),
        "certain-is-0": ([[[0.0, 1000.0]]], [[1]], 1.0, [[0.0]]),
    },
)
@pytest.mark.points(6)
def test_gather_log_probs_by_hand(logits, tokens, temperature, log_probs):
    assert_equal(gather_log_probs(logits, tokens, temperature), log_probs)


def test_gather_log_probs_temperature_divides_the_logits():
    # Logits 2, 1, 0 at temperature 0.7. Log-probabilities divided by 0.7 would be -0.582, -2.011, -3.439: their
    # probabilities sum to 0.72.
    total = math.exp(2 / 0.7) + math.exp(1 / 0.7) + 1
    answer = gather_log_probs([[[2.0, 1.0, 0.0]] * 3], [[0, 1, 2]], 0.7)
    assert_equal(answer, [[2 / 0.7 - log(total), 1 / 0.7 - log(total), -log(total)]])


# As many rows as positions as tokens: a softmax over the wrong dimension runs through.
@named(
    "logits, tokens, log_probs",
    {
        # As many rows as positions as tokens: a softmax over the wrong dimension runs through.
        "keeps-rows-and-positions-apart": (
            [[[0.0, 0.0], [0.0, log(3)]], [[2 * LN2, 0.0], [log(9), 0.0]]],
            [[0, 0], [0, 1]],
            [[-LN2, -2 * LN2], [log(4 / 5), -log(10)]],
        )
    },
)
def test_gather_log_probs_keeps_rows_and_positions_apart(logits, tokens, log_probs):
    assert_equal(gather_log_probs(logits, tokens), log_probs)


def test_gather_log_probs_gradient():
    # (one-hot - probabilities) / temperature: probabilities 0.1 and 0.9.
    answer, grads = value_and_gradients(gather_log_probs, [[[0.0, log(3)]] * 2], [[0, 1]], 0.5, wrt="logits")
    assert_equal(grads, logits=[[[1.8, -1.8], [-0.2, 0.2]]])


# Four positions. The logits of position i give these odds for the token at position i + 1:
ODDS = [[1, 2, 5], [1, 1, 2], [3, 1, 1], [1, 8, 1]]
LOGITS = [[[log(odds) for odds in row] for row in ODDS]]
IDS = [[0, 1, 2, 0]]


@named(
    "logits, input_ids, prompt_length, temperature, log_probs",
    {
        # Token 2 stands at position 2 and is scored at 1: 2 of 4. Token 0 stands at 3 and is scored at 2: 3 of 5.
        "scored-one-position-earlier": (
            [[[0.0, LN2, log(5)], [0.0, 0.0, LN2], [log(3), 0.0, 0.0], [0.0, 3 * LN2, 0.0]]],
            [[0, 1, 2, 0]],
            2,
            1.0,
            [[-LN2, -log(5 / 3)]],
        ),
        # the softmax is 0.125, 0.25, 0.625 | 0.25, 0.25, 0.5 | 0.6, 0.2, 0.2 | 0.1, 0.8, 0.1
        "the-only-prompt-position-scores-the-first-token": (
            [[[0.0, LN2, log(5)], [0.0, 0.0, LN2], [log(3), 0.0, 0.0], [0.0, 3 * LN2, 0.0]]],
            [[0, 1, 2, 0]],
            1,
            1.0,
            [[-2 * LN2, -LN2, -log(5 / 3)]],
        ),
        # the softmax is 0.125, 0.25, 0.625 | 0.25, 0.25, 0.5 | 0.6, 0.2, 0.2 | 0.1, 0.8, 0.1
        "one-response-token": (
            [[[0.0, LN2, log(5)], [0.0, 0.0, LN2], [log(3), 0.0, 0.0], [0.0, 3 * LN2, 0.0]]],
            [[0, 1, 2, 0]],
            3,
            1.0,
            [[-log(5 / 3)]],
        ),
        # The odds are squared: 4 of 1 + 1 + 4, and 9 of 9 + 1 + 1.
        "temperature-is-passed-on": (
            [[[0.0, LN2, log(5)], [0.0, 0.0, LN2], [log(3), 0.0, 0.0], [0.0, 3 * LN2, 0.0]]],
            [[0, 1, 2, 0]],
            2,
            0.5,
            [[log(2 / 3), log(9 / 11)]],
        ),
    },
)
@pytest.mark.points(6)
def test_response_log_probs_by_hand(logits, input_ids, prompt_length, temperature, log_probs):
    assert_equal(response_log_probs(logits, input_ids, prompt_length, temperature), log_probs)


def test_response_log_probs_gradient():
    # One-hot minus probabilities, at the positions 1 and 2 only: nothing is scored at 0 (a prompt token is) and 3.
    answer, grads = value_and_gradients(response_log_probs, LOGITS, IDS, 2, wrt="logits")
    assert_equal(grads, logits=[[[0.0, 0.0, 0.0], [-0.25, -0.25, 0.5], [0.4, -0.2, -0.2], [0.0, 0.0, 0.0]]])


# The second row has the first one's logits in reverse order: 8 of 10 for token 1, 1 of 5 for token 2.
@named(
    "logits, input_ids, prompt_length, log_probs",
    {
        # The second row has the first one's logits in reverse order: 8 of 10 for token 1, 1 of 5 for token 2.
        "keeps-rows-apart": (
            [
                [[0.0, LN2, log(5)], [0.0, 0.0, LN2], [log(3), 0.0, 0.0], [0.0, 3 * LN2, 0.0]],
                [[0.0, 3 * LN2, 0.0], [log(3), 0.0, 0.0], [0.0, 0.0, LN2], [0.0, LN2, log(5)]],
            ],
            [[0, 1, 2, 0], [2, 1, 2, 2]],
            1,
            [[-2 * LN2, -LN2, -log(5 / 3)], [log(4 / 5), -log(5), -LN2]],
        )
    },
)
def test_response_log_probs_keeps_rows_apart(logits, input_ids, prompt_length, log_probs):
    assert_equal(response_log_probs(logits, input_ids, prompt_length), log_probs)


def entropy(*probabilities: float) -> float:
    return -sum(p * log(p) for p in probabilities)


@named(
    "logits, temperature, entropy",
    {
        # the softmax is 0.25, 0.25, 0.25, 0.25
        "uniform-is-log-of-the-vocabulary": ([[[0.0, 0.0, 0.0, 0.0]]], 1.0, [[2 * LN2]]),
        # the softmax is 0.25, 0.75
        "odds-1-to-3": ([[[0.0, log(3)]]], 1.0, [[0.5623351446188083]]),
        # the softmax is 0.25, 0.75
        "a-shift-of-the-logits-changes-nothing": ([[[7.0, 8.09861228866811]]], 1.0, [[0.5623351446188083]]),
        "temperature-below-1-lowers-it": ([[[0.0, log(3)]]], 0.5, [[0.3250829733914482]]),
        "temperature-above-1-raises-it": ([[[0.0, 2 * LN2]]], 2.0, [[0.6365141682948128]]),
        "certain-by-far": ([[[0.0, 1000.0]]], 1.0, [[0.0]]),
    },
)
@pytest.mark.points(4)
def test_token_entropy_by_hand(logits, temperature, entropy):
    assert_equal(token_entropy(logits, temperature), entropy)


@named(
    "logits, entropy",
    {
        # the softmax is 0.5, 0.5 | 0.25, 0.75 | 0.8, 0.2 | 0.9, 0.1
        "keeps-rows-and-positions-apart": (
            [[[0.0, 0.0], [0.0, log(3)]], [[2 * LN2, 0.0], [log(9), 0.0]]],
            [[LN2, 0.5623351446188083], [0.5004024235381879, 0.3250829733914482]],
        )
    },
)
def test_token_entropy_keeps_rows_and_positions_apart(logits, entropy):
    assert_equal(token_entropy(logits), entropy)


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
        "each-token-counts-once": (
            [[1.0, 2.0, 9.0, 9.0], [4.0, 4.0, 4.0, 4.0]],
            [[True, True, False, False], [True, True, True, True]],
            3.1666666666666665,
        ),
        # 1 + 0 + 4 + 4 + 4 + 4, by 6
        "a-zero-is-a-value": (
            [[1.0, 0.0, 9.0, 9.0], [4.0, 4.0, 4.0, 4.0]],
            [[True, True, False, False], [True, True, True, True]],
            2.8333333333333335,
        ),
        # 1 + 2 + 4 + 9, by 4
        "no-padding": ([[1.0, 2.0], [4.0, 9.0]], [[True, True], [True, True]], 4.0),
    },
)
@pytest.mark.points(5)
def test_masked_mean_by_hand(values, mask, mean):
    assert_equal(masked_mean(values, mask), mean)


@pytest.mark.points(2)
def test_masked_mean_gradient():
    # 1 / 6 for each of the six real tokens.
    answer, grads = value_and_gradients(masked_mean, [[1.0, 2.0, 9.0, 9.0], [4.0] * 4], TWO_AND_FOUR, wrt="values")
    assert_equal(answer, 19 / 6)
    assert_equal(grads, values=[[1 / 6, 1 / 6, 0.0, 0.0], [1 / 6] * 4])


# 1 / the root of the variance, with the small number in its place.
def scale(variance: float) -> float:
    return 1 / sqrt(variance + 1e-8)


# Real values 1, 2, 3 in two rows: mean 2, variance (1 + 0 + 1) / (3 - 1) = 1
RAGGED = [[True, True, False], [True, False, False]]


@named(
    "values, mask, shift_mean, whitened",
    {
        # over the real numbers: mean 2, variance 1
        "padding-has-no-part-and-comes-back-0": (
            [[1.0, 2.0, 9.0], [3.0, 9.0, 9.0]],
            [[True, True, False], [True, False, False]],
            True,
            [[-0.999999995, 0.0, 0.0], [0.999999995, 0.0, 0.0]],
        ),
        # over the real numbers: mean 2, variance 1
        "shift-mean-false-keeps-the-mean": (
            [[1.0, 2.0, 9.0], [3.0, 9.0, 9.0]],
            [[True, True, False], [True, False, False]],
            False,
            [[1.000000005, 2.0, 0.0], [2.999999995, 0.0, 0.0]],
        ),
        # Variance (9 + 9) / (2 - 1) = 18; divided by 2 it would be 9.
        "variance-over-n-minus-1": ([[0.0, 6.0]], [[True, True]], True, [[-0.707106780990129, 0.707106780990129]]),
        # over the real numbers: mean 3, variance 18
        "no-padding": ([[0.0, 6.0]], [[True, True]], False, [[2.292893219009871, 3.707106780990129]]),
        # over the real numbers: mean 4, variance 0
        "equal-values-are-not-divided-by-0": ([[4.0, 4.0]], [[True, True]], True, [[0.0, 0.0]]),
        # over the real numbers: mean 1e+06, variance 1
        "far-from-0-nothing-is-lost": (
            [[1000001.0, 1000002.0, 9.0], [1000003.0, 9.0, 9.0]],
            [[True, True, False], [True, False, False]],
            True,
            [[-0.999999995, 0.0, 0.0], [0.999999995, 0.0, 0.0]],
        ),
    },
)
@pytest.mark.points(4)
def test_masked_whiten_by_hand(values, mask, shift_mean, whitened):
    assert_equal(masked_whiten(values, mask, shift_mean), whitened)


@named("shift_mean, kept", {"centred": (True, 0.0), "mean-kept": (False, 1 / 3)})
@pytest.mark.points(2)
def test_masked_whiten_gradient(shift_mean, kept):
    # The first whitened number, by the real values 1, 2, 3 with r = scale(1): the mean and the variance move as well.
    # r * (1 - 1/3) - r^3 * 1/2, -r/3, -r/3 + r^3 * 1/2; the kept mean adds 1/3 to each.
    r, weights = scale(1), torch.tensor([[1.0, 0.0, 9.0], [0.0, 9.0, 9.0]], dtype=torch.float64)
    values = [[1.0, 2.0, 9.0], [3.0, 9.0, 9.0]]
    answer, grads = value_and_gradients(masked_whiten, values, RAGGED, shift_mean, wrt="values", weights=weights)
    slopes = [r * 2 / 3 - r**3 / 2 + kept, -r / 3 + kept, -r / 3 + r**3 / 2 + kept]
    assert_equal(grads, values=[[slopes[0], slopes[1], 0.0], [slopes[2], 0.0, 0.0]])


@named(
    "flags, index",
    {
        "one": ([False, True, False], 1),
        "two-in-a-row": ([False, True, True], 1),
        "first-of-two-with-a-gap": ([True, False, True], 0),
        "last-column": ([False, False, True], 2),
        "all": ([True, True, True], 0),
        "none-is-the-length-not-0": ([False, False, False], 3),
    },
)
@pytest.mark.points(3)
def test_first_true_index_by_hand(flags, index):
    assert_equal(first_true_index([flags]), [index])


@pytest.mark.points(2)
def test_first_true_index_of_each_row():
    answer = first_true_index([[False, False, True, False], [False] * 4, [True, False, False, True]])
    assert_equal(answer, [2, 4, 0])


# Token 2 is the stop; 3 is another one where two are given.
@named(
    "responses, stop_token_ids, mask",
    {
        # the first stop token stands at 2
        "the-stop-token-is-an-action": ([[5, 6, 2, 0, 0]], [2], [[True, True, True, False, False]]),
        # the first stop token stands at 2
        "padded-with-the-stop-token": ([[5, 6, 2, 2, 2]], [2], [[True, True, True, False, False]]),
        # the first stop token stands at 1
        "junk-after-the-stop": ([[5, 2, 7, 2, 7]], [2], [[True, True, False, False, False]]),
        # the first stop token stands at 1
        "a-stop-at-the-very-end-too": ([[5, 2, 7, 7, 2]], [2], [[True, True, False, False, False]]),
        # the first stop token stands at no place
        "never-stopped-is-all-real": ([[5, 6, 7]], [2], [[True, True, True]]),
        # the first stop token stands at 2
        "stopped-in-the-last-column": ([[5, 6, 2]], [2], [[True, True, True]]),
        # the first stop token stands at 0
        "stopped-at-once": ([[2, 5, 6]], [2], [[True, False, False]]),
        # the first stop token stands at 1
        "the-second-id-comes-first": ([[5, 3, 2, 7]], [2, 3], [[True, True, False, False]]),
        # the first stop token stands at 1
        "the-first-id-comes-first": ([[5, 2, 3, 7]], [2, 3], [[True, True, False, False]]),
        # the first stop token stands at 2
        "ids-between-two-stop-ids-are-no-stops": ([[5, 4, 6, 7]], [2, 6], [[True, True, True, False]]),
        # the first stop token stands at 3
        "the-padding-id-is-a-token-like-others": ([[5, 0, 6, 2, 0]], [2], [[True, True, True, True, False]]),
        # the first stop token stands at no place
        "no-stop-ids": ([[5, 2, 6]], [], [[True, True, True]]),
        # the first stop token stands at 1, no place, 2, 0
        "keeps-rows-apart": (
            [[5, 2, 6, 7], [5, 6, 7, 8], [5, 6, 3, 2], [2, 2, 2, 2]],
            [2, 3],
            [
                [True, True, False, False],
                [True, True, True, True],
                [True, True, True, False],
                [True, False, False, False],
            ],
        ),
    },
)
@pytest.mark.points(5)
def test_response_mask_by_hand(responses, stop_token_ids, mask):
    assert_equal(response_mask(responses, tuple(stop_token_ids)), mask)


@named(
    "responses, stop_token_ids, pad_token_id, truncated",
    {
        # the first stop token stands at 2
        "the-stop-token-stays": ([[5, 6, 2, 7, 8]], [2], 9, [[5, 6, 2, 9, 9]]),
        # the first stop token stands at 1
        "the-first-stop-ends-it": ([[5, 2, 7, 2, 8]], [2], 9, [[5, 2, 9, 9, 9]]),
        # the first stop token stands at 2
        "pad-is-the-stop-token": ([[5, 6, 2, 7, 8]], [2], 2, [[5, 6, 2, 2, 2]]),
        # the first stop token stands at no place
        "never-stopped-is-left-alone": ([[5, 6, 7]], [2], 9, [[5, 6, 7]]),
        # the first stop token stands at 2
        "stopped-in-the-last-column": ([[5, 6, 2]], [2], 9, [[5, 6, 2]]),
        # the first stop token stands at 1
        "the-second-id-comes-first": ([[5, 3, 2, 7]], [2, 3], 9, [[5, 3, 9, 9]]),
        # the first stop token stands at 3
        "the-padding-id-inside-does-not-end-it": ([[5, 9, 6, 2, 7]], [2], 9, [[5, 9, 6, 2, 9]]),
        # the first stop token stands at no place
        "no-stop-ids": ([[5, 2, 6]], [], 9, [[5, 2, 6]]),
        # the first stop token stands at 2
        "pad-0": ([[5, 6, 2, 7]], [2], 0, [[5, 6, 2, 0]]),
        # the first stop token stands at 1, 2, 0
        "keeps-rows-apart": (
            [[5, 2, 6, 7], [5, 6, 2, 8], [3, 6, 5, 2]],
            [2, 3],
            9,
            [[5, 2, 9, 9], [5, 6, 2, 9], [3, 9, 9, 9]],
        ),
    },
)
@pytest.mark.points(4)
def test_truncate_after_stop_by_hand(responses, stop_token_ids, pad_token_id, truncated):
    assert_equal(truncate_after_stop(responses, tuple(stop_token_ids), pad_token_id), truncated)


@named(
    "attention_mask, positions",
    {
        "left-padding": ([0, 0, 1, 1, 1], [0, 0, 0, 1, 2]),
        "right-padding-is-0-too": ([1, 1, 1, 0, 0], [0, 1, 2, 0, 0]),
        "both-sides": ([0, 1, 1, 1, 0], [0, 0, 1, 2, 0]),
        "no-padding": ([1, 1, 1], [0, 1, 2]),
        "a-gap-counts-no-position": ([1, 0, 1, 1], [0, 0, 1, 2]),
        "all-padding": ([0, 0], [0, 0]),
    },
)
@pytest.mark.points(3)
def test_position_ids_by_hand(attention_mask, positions):
    assert_equal(position_ids([attention_mask]), [positions])


def test_position_ids_of_a_bool_mask_keeps_rows_apart():
    # Prompts of 1 and 3 tokens, padded on the left, each followed by two more tokens.
    mask = [[False, False, True, True, True], [True] * 5, [True, True, True, False, False]]
    assert_equal(position_ids(mask), [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 2, 0, 0]])


def test_masked_whiten_brings_mean_and_variance_to_0_and_1():
    values, mask = 1 + normal(4, 4), torch.arange(4) < torch.tensor([[4], [2], [1], [2]])
    answer = masked_whiten(100 * values, mask)
    assert abs(answer[mask].mean()) < 1e-5, "real tokens with mean 0"
    assert abs(answer[mask].var() - 1) < 1e-5, "real tokens with variance 1 (over n - 1)"


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.points(2)
def test_token_entropy_is_the_mean_of_minus_log_p(temperature):
    # H = -sum_v p_v log p_v, each log p_v by gather_log_probs.
    logits = normal(2, 3, 5)
    scores = torch.stack(
        [reference(gather_log_probs, logits, torch.full((2, 3), v), temperature) for v in range(5)], dim=-1
    )
    assert_equal(token_entropy(logits, temperature), -(scores.exp() * scores).sum(-1))


@pytest.mark.parametrize("vocabulary", [1, 2, 1000])
@pytest.mark.points(2)
def test_token_entropy_of_a_uniform_policy(vocabulary):
    logits = torch.full((1, 2, vocabulary), 3.0, dtype=torch.float64)
    answer, grads = value_and_gradients(token_entropy, logits, 0.5, wrt="logits")
    assert_equal(answer, [[math.log(vocabulary)] * 2])
    assert_equal(grads, logits=None)
