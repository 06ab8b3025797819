"""Lesson 1, made safe, and in general: identities."""

import math
from math import log

import pytest
import torch
from torch import Tensor

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import assert_equal, named, reference, scenario, value_and_gradients
from tutorial.lesson01_masked_sequences import (
    gather_log_probs,
    masked_mean,
    masked_whiten,
    position_ids,
    response_log_probs,
    token_entropy,
    truncate_after_stop,
)

LN2 = math.log(2)
NAN, INF = math.nan, math.inf


def drawn(high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.points(3)
def test_gather_log_probs_does_not_see_a_shift_of_the_logits():
    logits, tokens = normal(2, 3, 5), drawn(5, 2, 3)
    # Each position by another level: one number for all of them would leave no digit of some.
    moved = logits + torch.tensor([[[800.0], [-800.0], [0.5]]])
    assert_equal(gather_log_probs(moved, tokens, 0.7), reference(gather_log_probs, logits, tokens, 0.7))


# The softmax is 0, 1/2, 1/2
@named("token, log_prob", {"takes-no-probability": (1, -LN2), "is-impossible-itself": (0, -INF)})
def test_gather_log_probs_of_forbidden_tokens(token, log_prob):
    assert_equal(gather_log_probs([[[-INF, 0.0, 0.0]]], [[token]], 1.0), [[log_prob]])


@pytest.mark.points(3)
def test_response_log_probs_uses_no_other_position():
    # The logits of left padding and of the last position may be NaN; neither value nor gradient may know.
    logits = [[[NAN] * 3, [0.0, 0.0, LN2], [log(3), 0.0, 0.0], [NAN] * 3]]
    answer, grads = value_and_gradients(response_log_probs, logits, [[0, 1, 2, 0]], 2, wrt="logits")
    assert_equal(answer, [[log(2 / 4), log(3 / 5)]])
    assert_equal(grads, logits=[[[0.0, 0.0, 0.0], [-0.25, -0.25, 0.5], [0.4, -0.2, -0.2], [0.0, 0.0, 0.0]]])


@named("logits, entropy", {"contributes-0": ([0.0, -INF, 0.0], LN2), "leaves-one-token": ([5.0, -INF, -INF], 0.0)})
@pytest.mark.points(2)
def test_token_entropy_where_tokens_are_forbidden(logits, entropy):
    answer, grads = value_and_gradients(token_entropy, [[logits]], 1.0, wrt="logits")
    assert_equal(answer, [[entropy]])
    assert_equal(grads, logits=None)


@named(
    "values, mask, mean",
    {
        "padding-holds-nan": ([[1.0, NAN, 3.0, INF], [4.0] * 4], [[True, False, True, False], [True] * 4], 20 / 6),
        "a-real-token-of-nan-shows": ([[1.0, NAN, 9.0]], [[True, True, False]], NAN),
        "a-real-token-of-infinity-shows": ([[1.0, INF, 9.0]], [[True, True, False]], INF),
        "an-empty-row": ([[1.0, 9.0, 3.0], [9.0, 9.0, 9.0]], [[True, False, True], [False, False, False]], 2.0),
    },
)
@pytest.mark.points(2)
def test_masked_mean_with_gaps_and_nan(values, mask, mean):
    assert_equal(masked_mean(values, mask), mean, equal_nan=True)


@pytest.mark.parametrize("value", [0.0, -3.0, 1e6])
@pytest.mark.points(3)
def test_masked_whiten_of_one_value_is_finite(value):
    values, one = torch.full((2, 2), value, dtype=torch.float64), [[False, True], [False, False]]
    assert_equal(masked_whiten(values, one), [[0.0, 0.0], [0.0, 0.0]])
    answer, grads = value_and_gradients(masked_whiten, values, one, False, wrt="values")
    assert_equal(answer, [[0.0, value], [0.0, 0.0]])
    assert_equal(grads, values=[[0.0, 1.0], [0.0, 0.0]])


@named("last", {"where-nothing-is-cut": 2, "where-nothing-stops": 8})
@pytest.mark.points(2)
def test_truncate_after_stop_gives_a_new_tensor(last):
    through = scenario("calls.after_the_answer_is_overwritten", of=truncate_after_stop)
    given = {"responses": [[5, 6, 7], [5, 6, last]], "stop_token_ids": (2,), "pad_token_id": 9}
    answer = through(exercise="truncate_after_stop", argument="responses", **given)
    assert_equal(answer, [[5, 6, 7], [5, 6, last]])


@pytest.mark.parametrize("left, right, dtype", [(1, 0, torch.int64), (0, 2, torch.bfloat16), (3, 2, torch.float16)])
@pytest.mark.points(2)
def test_position_ids_move_with_the_text(left, right, dtype):
    text = torch.ones(2, 3000, dtype=dtype)  # a count in bfloat16 ends at 256
    text[1, 0] = 0
    expected = torch.nn.functional.pad(reference(position_ids, text), (left, right))
    assert_equal(position_ids(torch.nn.functional.pad(text, (left, right))), expected)
