"""Lesson 1, by hand: two to four tokens; logits are logarithms of small whole numbers, so probabilities are simple."""

import math
from math import log, sqrt

import torch

from testcases.harness import call, cited_cases, named_cases, scenario, worth
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

NAN, INF = math.nan, math.inf


# Logits [0, log 3] are the odds 1 : 3, so the probabilities are 1/4 and 3/4.
@cited_cases(
    "gather_log_probs",
    "logits, tokens, temperature, log_probs",
    "plain-01 plain-02 plain-03 plain-04 plain-05 far-01 far-02 forbidden-01 forbidden-02",
)
@worth(3)
def test_gather_log_probs_by_hand(logits, tokens, temperature, log_probs):
    call(gather_log_probs, logits, tokens, temperature).equals(log_probs)


def test_gather_log_probs_temperature_divides_the_logits():
    # Logits 2, 1, 0 at temperature 0.7. Log-probabilities divided by 0.7 would be -0.582, -2.011, -3.439: their
    # probabilities sum to 0.72.
    total = math.exp(2 / 0.7) + math.exp(1 / 0.7) + 1
    answer = call(gather_log_probs, [[[2.0, 1.0, 0.0]] * 3], [[0, 1, 2]], 0.7)
    answer.equals([[2 / 0.7 - log(total), 1 / 0.7 - log(total), -log(total)]])


# As many rows as positions as tokens: a softmax over the wrong dimension runs through.
@cited_cases("gather_log_probs", "logits, tokens, log_probs", "plain-07")
def test_gather_log_probs_keeps_rows_and_positions_apart(logits, tokens, log_probs):
    call(gather_log_probs, logits, tokens).equals(log_probs)


def test_gather_log_probs_gradient():
    # (one-hot - probabilities) / temperature: probabilities 0.1 and 0.9; the forbidden token has none.
    answer = call(gather_log_probs, [[[0.0, log(3), -INF]] * 2], [[0, 1]], 0.5, grad_of="logits")
    answer.gradient_equals(logits=[[[1.8, -1.8, 0.0], [-0.2, 0.2, 0.0]]])


def test_gather_log_probs_computes_bfloat16_in_float32():
    # In bfloat16 2 / 0.7 is 2.859, and the answer has two digits: too few to tell the new policy from the old.
    total = math.exp(2 / 0.7) + math.exp(1 / 0.7) + 1
    logits = torch.tensor([[[2.0, 1.0, 0.0]]], dtype=torch.bfloat16)
    answer = call(gather_log_probs, logits, [[1]], 0.7)
    answer.equals([[1 / 0.7 - log(total)]], dtype=torch.float32, atol=1e-6)


# Four positions. The logits of position i give these odds for the token at position i + 1:
ODDS = [[1, 2, 5], [1, 1, 2], [3, 1, 1], [1, 8, 1]]
LOGITS = [[[log(odds) for odds in row] for row in ODDS]]
IDS = [[0, 1, 2, 0]]


@cited_cases(
    "response_log_probs",
    "logits, input_ids, prompt_length, temperature, log_probs",
    "plain-01 plain-02 plain-03 plain-04",
)
@worth(2)
def test_response_log_probs_by_hand(logits, input_ids, prompt_length, temperature, log_probs):
    call(response_log_probs, logits, input_ids, prompt_length, temperature).equals(log_probs)


def test_response_log_probs_gradient():
    # One-hot minus probabilities, at the positions 1 and 2 only: nothing is scored at 0 (a prompt token is) and 3.
    answer = call(response_log_probs, LOGITS, IDS, 2, grad_of="logits")
    answer.gradient_equals(logits=[[[0.0, 0.0, 0.0], [-0.25, -0.25, 0.5], [0.4, -0.2, -0.2], [0.0, 0.0, 0.0]]])


def test_response_log_probs_uses_no_other_position():
    # The logits of left padding and of the last position may be NaN; neither value nor gradient may know.
    logits = [[[NAN] * 3, LOGITS[0][1], LOGITS[0][2], [NAN] * 3]]
    answer = call(response_log_probs, logits, IDS, 2, grad_of="logits").equals([[log(2 / 4), log(3 / 5)]])
    answer.gradient_equals(logits=[[[0.0, 0.0, 0.0], [-0.25, -0.25, 0.5], [0.4, -0.2, -0.2], [0.0, 0.0, 0.0]]])


# The second row has the first one's logits in reverse order: 8 of 10 for token 1, 1 of 5 for token 2.
@cited_cases("response_log_probs", "logits, input_ids, prompt_length, log_probs", "plain-05")
def test_response_log_probs_keeps_rows_apart(logits, input_ids, prompt_length, log_probs):
    call(response_log_probs, logits, input_ids, prompt_length).equals(log_probs)


def entropy(*probabilities: float) -> float:
    return -sum(p * log(p) for p in probabilities)


@cited_cases(
    "token_entropy",
    "logits, temperature, entropy",
    "plain-01 plain-02 plain-03 plain-04 plain-05 forbidden-01 forbidden-02 far-01",
)
@worth(2)
def test_token_entropy_by_hand(logits, temperature, entropy):
    call(token_entropy, logits, temperature).equals(entropy)


@cited_cases("token_entropy", "logits, entropy", "plain-06")
def test_token_entropy_keeps_rows_and_positions_apart(logits, entropy):
    call(token_entropy, logits).equals(entropy)


@named_cases("forbidden", {"all-allowed": [], "one-forbidden": [-INF]})
def test_token_entropy_gradient(forbidden):
    # dH / dlogits[v] = -p[v] * (log p[v] + H) / temperature, with p = 1/10 and 9/10; 0 for a forbidden token. The loss
    # weighs the entropy with 2.
    high = entropy(1 / 10, 9 / 10)
    slopes = [2 * -p * (log(p) + high) / 0.5 for p in (1 / 10, 9 / 10)]
    weights = torch.tensor([[2.0]], dtype=torch.float64)
    answer = call(token_entropy, [[[0.0, log(3), *forbidden]]], 0.5, grad_of="logits", grad_weights=weights)
    answer.equals([[high]]).gradient_equals(logits=[[[*slopes, *(0.0 for _ in forbidden)]]])


def test_token_entropy_computes_bfloat16_in_float32():
    logits = torch.tensor([[[2.0, 1.0, 0.0]]], dtype=torch.bfloat16)
    weights = [math.exp(2 / 0.7), math.exp(1 / 0.7), 1.0]
    expected = entropy(*(weight / sum(weights) for weight in weights))
    call(token_entropy, logits, 0.7).equals([[expected]], dtype=torch.float32, atol=1e-6)


# Two responses of 2 and 4 tokens. What stands in the padding: 9 in the first case, worse later.
TWO_AND_FOUR = [[True, True, False, False], [True, True, True, True]]


@cited_cases("masked_mean", "values, mask, mean", "padding-01 nan-01 padding-02 empty-row-01 one-token-01 plain-01")
@worth(3)
def test_masked_mean_by_hand(values, mask, mean):
    call(masked_mean, values, mask).equals(mean)


@named_cases("padding", {"number": 9.0, "nan": NAN, "infinite": INF})
def test_masked_mean_gradient(padding):
    # 1 / 6 for each of the six real tokens. `value * mask` would leak: 0 * NaN is NaN.
    answer = call(masked_mean, [[1.0, 2.0, padding, padding], [4.0] * 4], TWO_AND_FOUR, grad_of="values")
    answer.equals(19 / 6).gradient_equals(values=[[1 / 6, 1 / 6, 0.0, 0.0], [1 / 6] * 4])


# 1 / the root of the variance, with the small number in its place.
def scale(variance: float) -> float:
    return 1 / sqrt(variance + 1e-8)


# Real values 1, 2, 3 in two rows: mean 2, variance (1 + 0 + 1) / (3 - 1) = 1
RAGGED = [[True, True, False], [True, False, False]]


@cited_cases(
    "masked_whiten",
    "values, mask, shift_mean, whitened",
    "padding-01 padding-02 nan-01 plain-01 plain-02 one-token-01 one-token-02 plain-03 far-01 padding-03",
)
@worth(2)
def test_masked_whiten_by_hand(values, mask, shift_mean, whitened):
    call(masked_whiten, values, mask, shift_mean).equals(whitened)


@named_cases("shift_mean, kept", {"centred": (True, 0.0), "mean-kept": (False, 1 / 3)})
def test_masked_whiten_gradient(shift_mean, kept):
    # The first whitened number, by the real values 1, 2, 3 with r = scale(1): the mean and the variance move as well.
    # r * (1 - 1/3) - r^3 * 1/2, -r/3, -r/3 + r^3 * 1/2; the kept mean adds 1/3 to each.
    r, weights = scale(1), torch.tensor([[1.0, 0.0, 9.0], [0.0, 9.0, 9.0]], dtype=torch.float64)
    values = [[1.0, 2.0, NAN], [3.0, NAN, NAN]]
    answer = call(masked_whiten, values, RAGGED, shift_mean, grad_of="values", grad_weights=weights)
    slopes = [r * 2 / 3 - r**3 / 2 + kept, -r / 3 + kept, -r / 3 + r**3 / 2 + kept]
    answer.gradient_equals(values=[[slopes[0], slopes[1], 0.0], [slopes[2], 0.0, 0.0]])


@named_cases(
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
@worth(2)
def test_first_true_index_by_hand(flags, index):
    call(first_true_index, [flags]).equals([index])


def test_first_true_index_of_each_row():
    answer = call(first_true_index, [[False, False, True, False], [False] * 4, [True, False, False, True]])
    answer.equals([2, 4, 0])


# Token 2 is the stop; 3 is another one where two are given.
@cited_cases(
    "response_mask",
    "responses, stop_token_ids, mask",
    "stop-01 stop-02 stop-03 stop-04 never-stopped-01 stop-05 stop-06 several-stops-01 several-stops-02 "
    "several-stops-03 stop-07 no-stop-id-01",
)
@worth(3)
def test_response_mask_by_hand(responses, stop_token_ids, mask):
    call(response_mask, responses, tuple(stop_token_ids)).equals(mask)


@cited_cases("response_mask", "responses, stop_token_ids, mask", "several-stops-04")
def test_response_mask_keeps_rows_apart(responses, stop_token_ids, mask):
    call(response_mask, responses, tuple(stop_token_ids)).equals(mask)


@cited_cases(
    "truncate_after_stop",
    "responses, stop_token_ids, pad_token_id, truncated",
    "stop-01 stop-02 stop-03 never-stopped-01 stop-04 several-stops-01 stop-05 no-stop-id-01 stop-06",
)
def test_truncate_after_stop_by_hand(responses, stop_token_ids, pad_token_id, truncated):
    call(truncate_after_stop, responses, tuple(stop_token_ids), pad_token_id).equals(truncated)


@cited_cases("truncate_after_stop", "responses, stop_token_ids, pad_token_id, truncated", "several-stops-02")
def test_truncate_after_stop_keeps_rows_apart(responses, stop_token_ids, pad_token_id, truncated):
    call(truncate_after_stop, responses, tuple(stop_token_ids), pad_token_id).equals(truncated)


@named_cases("last", {"where-nothing-is-cut": 2, "where-nothing-stops": 8})
def test_truncate_after_stop_gives_a_new_tensor(last):
    through = scenario("calls.after_the_answer_is_overwritten", of=truncate_after_stop)
    given = {"responses": [[5, 6, 7], [5, 6, last]], "stop_token_ids": (2,), "pad_token_id": 9}
    answer = call(through, exercise="truncate_after_stop", argument="responses", **given)
    answer.equals([[5, 6, 7], [5, 6, last]])


@named_cases(
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
@worth(2)
def test_position_ids_by_hand(attention_mask, positions):
    call(position_ids, [attention_mask]).equals([positions])


def test_position_ids_of_a_bool_mask_keeps_rows_apart():
    # Prompts of 1 and 3 tokens, padded on the left, each followed by two more tokens.
    mask = [[False, False, True, True, True], [True] * 5, [True, True, True, False, False]]
    call(position_ids, mask).equals([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 2, 0, 0]])
