"""Lesson 1, made safe, and in general: identities, slow loops written here, and every small case there is."""

import itertools
import math
import statistics
from math import log

import pytest
import torch
from torch import Tensor

from testcases.harness.doubles.drawing import normal
from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    named,
    reference,
    scenario,
    value_and_gradients,
)
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
NAN, INF = math.nan, math.inf
TEMPERATURES = pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
LOW_PRECISION = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
# Four positions. The logits of position i give these odds for the token at position i + 1:
ODDS = [[1, 2, 5], [1, 1, 2], [3, 1, 1], [1, 8, 1]]
LOGITS = [[[log(odds) for odds in row] for row in ODDS]]
IDS = [[0, 1, 2, 0]]


def entropy(*probabilities: float) -> float:
    return -sum(p * log(p) for p in probabilities)


def drawn(high: int, *shape: int, seed: int = 1) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(seed))


def all_rows(choices: tuple[int, ...], length: int) -> Tensor:
    """Every row of this length."""
    return torch.tensor(list(itertools.product(choices, repeat=length)))


def slow_log_prob(logits: list[float], token: int, temperature: float) -> float:
    return math.log(math.exp(logits[token] / temperature) / sum(math.exp(one / temperature) for one in logits))


@TEMPERATURES
def test_gather_log_probs_of_all_tokens_sum_to_one(temperature):
    # One row that asks for each token of a vocabulary of 6 once, always under the same logits.
    logits = normal(1, 1, 6).expand(1, 6, 6).contiguous()
    answer = gather_log_probs(logits, torch.arange(6).unsqueeze(0), temperature)
    assert abs(answer.exp().sum() - 1) < 1e-12, "probabilities that sum to 1"
    assert_equal(answer, [[slow_log_prob(logits[0, 0].tolist(), token, temperature) for token in range(6)]])


@TEMPERATURES
def test_gather_log_probs_does_not_see_a_shift_of_the_logits(temperature):
    logits, tokens = normal(2, 3, 5), drawn(5, 2, 3)
    expected = reference(gather_log_probs, logits, tokens, temperature)
    # Each position by another level: one number for all of them would leave no digit of some.
    moved = logits + torch.tensor([[[800.0], [-800.0], [0.5]]])
    assert_equal(gather_log_probs(moved, tokens, temperature), expected)


@LOW_PRECISION
def test_gather_log_probs_answers_low_precision_in_float32(dtype):
    logits, tokens = normal(2, 3, 5).to(dtype), drawn(5, 2, 3)
    expected = reference(gather_log_probs, logits.double(), tokens, 0.7)
    assert_equal(gather_log_probs(logits, tokens, 0.7), expected, dtype=torch.float32, atol=2e-6)


def test_response_log_probs_of_two_parts_is_that_of_the_whole():
    logits, input_ids = normal(2, 6, 4), drawn(4, 2, 6)
    whole = reference(response_log_probs, logits, input_ids, 2)
    assert_equal(response_log_probs(logits[:, :4], input_ids[:, :4], 2), whole[:, :2])
    assert_equal(response_log_probs(logits, input_ids, 4), whole[:, 2:])


def test_response_log_probs_answers_bfloat16_in_float32():
    logits, input_ids = normal(2, 4, 5).bfloat16(), drawn(5, 2, 4)
    expected = reference(response_log_probs, logits.double(), input_ids, 2, 0.7)
    assert_equal(response_log_probs(logits, input_ids, 2, 0.7), expected, dtype=torch.float32, atol=2e-6)


@LOW_PRECISION
def test_token_entropy_answers_low_precision_in_float32(dtype):
    logits = normal(2, 3, 5).to(dtype)
    expected = reference(token_entropy, logits.double(), 0.7)
    assert_equal(token_entropy(logits, 0.7), expected, dtype=torch.float32, atol=2e-6)


def ragged() -> tuple[Tensor, Tensor]:
    """Rows of 4, 2, 1 and 0 real tokens among 4; the second has a gap. As many rows as columns."""
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.bool)
    return 1 + normal(4, 4), mask


@pytest.mark.parametrize("broken", [math.nan, math.inf], ids=str)
def test_masked_mean_does_not_hide_a_broken_number_of_a_real_token(broken):
    # The mask is for padding. A NaN on a real token is a bug, and has to be seen; so is what grew without bound.
    answer = masked_mean([[1.0, broken, 9.0]], [[True, True, False]])
    assert not bool(answer.isfinite()), f"no finite number: a real token is {broken}"


@pytest.mark.parametrize("garbage", [0.0, 1e30, math.nan, -math.inf], ids=str)
@named("shift_mean", {"centred": True, "mean-kept": False})
def test_masked_whiten_by_the_statistics_of_the_real_numbers(shift_mean, garbage):
    values, mask = ragged()
    real = values[mask].tolist()
    mean, variance = statistics.fmean(real), statistics.variance(real)
    whitened = (values - mean) / math.sqrt(variance + 1e-8) + (0.0 if shift_mean else mean)
    padded = values.masked_fill(~mask, garbage)
    answer, _ = value_and_gradients(masked_whiten, padded, mask, shift_mean, wrt="values", weights=normal(4, 4, seed=3))
    assert_equal(answer, whitened.masked_fill(~mask, 0.0))
    assert_equals_reference(answer)


@pytest.mark.parametrize("value", [0.0, -3.0, 1e6])
def test_masked_whiten_of_one_value_is_finite(value):
    one = [[False, True], [False, False]]
    assert_equal(masked_whiten(torch.full((2, 2), value, dtype=torch.float64), one), [[0.0, 0.0], [0.0, 0.0]])
    answer, grads = value_and_gradients(
        masked_whiten, torch.full((2, 2), value, dtype=torch.float64), one, False, wrt="values"
    )
    assert_equal(answer, [[0.0, value], [0.0, 0.0]])
    assert_equal(grads, values=[[0.0, 1.0], [0.0, 0.0]])


@pytest.mark.parametrize("length", [1, 2, 5])
def test_first_true_index_of_every_row_there_is(length):
    flags = all_rows((0, 1), length).bool()
    expected = [row.index(True) if True in row else length for row in flags.tolist()]
    assert_equal(first_true_index(flags), expected)


def slow_response_length(row: list[int], stops: tuple[int, ...]) -> int:
    for t, token in enumerate(row):
        if token in stops:
            return t + 1
    return len(row)


MANY = tuple(range(19, -1, -1))  # those that appear in the rows come last
STOPS = pytest.mark.parametrize(
    "stops",
    [(), (0,), (2,), (0, 2), (2, 1), MANY, (7,)],
    ids=lambda stops: str(stops) if len(stops) < 3 else f"{len(stops)}-stop-ids",
)


@STOPS
def test_response_mask_of_every_row_there_is(stops):
    responses = all_rows((0, 1, 2), 4)
    expected = [[t < slow_response_length(row, stops) for t in range(4)] for row in responses.tolist()]
    assert_equal(response_mask(responses, stops), expected)


@pytest.mark.parametrize("stops", [(2,), (2, 3)], ids=str)
def test_response_mask_survives_the_padding_that_follows(stops):
    # Cut after the stop and fill up with anything: the mask is that of the text before.
    responses = drawn(6, 40, 8)
    mask = reference(response_mask, responses, stops)
    for pad in (2, 3, 0):
        stopped = torch.isin(responses, torch.tensor(stops)).any(1)
        padded = reference(truncate_after_stop, responses, stops, pad)
        assert_equal(response_mask(padded[stopped], stops), mask[stopped])


@STOPS
@pytest.mark.parametrize("pad", [0, 2, 9])
def test_truncate_after_stop_of_every_row_there_is(stops, pad):
    responses = all_rows((0, 1, 2), 4)
    expected = []
    for row in responses.tolist():
        length = slow_response_length(row, stops)
        expected.append(row[:length] + [pad] * (4 - length))
    assert_equal(truncate_after_stop(responses, stops, pad), expected)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.int32, torch.float32], ids=str)
def test_position_ids_of_every_row_there_is(dtype):
    mask = all_rows((0, 1), 5)
    expected = [[sum(row[:t]) if row[t] else 0 for t in range(5)] for row in mask.tolist()]
    assert_equal(position_ids(mask.to(dtype)), expected)


@pytest.mark.parametrize("left, right, dtype", [(1, 0, torch.int64), (0, 2, torch.bfloat16), (3, 2, torch.float16)])
def test_position_ids_move_with_the_text(left, right, dtype):
    text = torch.ones(2, 3000, dtype=dtype)  # a count in bfloat16 ends at 256
    text[1, 0] = 0
    expected = torch.nn.functional.pad(reference(position_ids, text), (left, right))
    assert_equal(position_ids(torch.nn.functional.pad(text, (left, right))), expected)


@pytest.mark.parametrize("size", [1e-2, 1e-4, 1e-6, 1e4])
def test_masked_whiten_scales_numbers_of_any_size(size):
    values, mask = ragged()
    for shift_mean in (True, False):
        assert_equals_reference(masked_whiten(size * values, mask, shift_mean), rtol=1e-9)


def test_response_log_probs_uses_no_other_position():
    # The logits of left padding and of the last position may be NaN; neither value nor gradient may know.
    logits = [[[NAN] * 3, LOGITS[0][1], LOGITS[0][2], [NAN] * 3]]
    answer, grads = value_and_gradients(response_log_probs, logits, IDS, 2, wrt="logits")
    assert_equal(answer, [[log(2 / 4), log(3 / 5)]])
    assert_equal(grads, logits=[[[0.0, 0.0, 0.0], [-0.25, -0.25, 0.5], [0.4, -0.2, -0.2], [0.0, 0.0, 0.0]]])


@named("last", {"where-nothing-is-cut": 2, "where-nothing-stops": 8})
def test_truncate_after_stop_gives_a_new_tensor(last):
    through = scenario("calls.after_the_answer_is_overwritten", of=truncate_after_stop)
    given = {"responses": [[5, 6, 7], [5, 6, last]], "stop_token_ids": (2,), "pad_token_id": 9}
    answer = through(exercise="truncate_after_stop", argument="responses", **given)
    assert_equal(answer, [[5, 6, 7], [5, 6, last]])


@named(
    "logits, tokens, temperature, log_probs",
    {
        # the softmax is 0, 0.5, 0.5
        "a-forbidden-token-takes-no-probability": ([[[-INF, 0.0, 0.0]]], [[1]], 1.0, [[-LN2]]),
        # the softmax is 0, 0.5, 0.5
        "a-forbidden-token-is-impossible-itself": ([[[-INF, 0.0, 0.0]]], [[0]], 1.0, [[-INF]]),
    },
)
def test_gather_log_probs_of_forbidden_tokens(logits, tokens, temperature, log_probs):
    assert_equal(gather_log_probs(logits, tokens, temperature), log_probs)


@named(
    "logits, temperature, entropy",
    {
        # the softmax is 0.5, 0, 0.5
        "a-forbidden-token-contributes-0": ([[[0.0, -INF, 0.0]]], 1.0, [[LN2]]),
        # the softmax is 1, 0, 0
        "only-one-token-allowed": ([[[5.0, -INF, -INF]]], 1.0, [[0.0]]),
    },
)
def test_token_entropy_where_tokens_are_forbidden(logits, temperature, entropy):
    assert_equal(token_entropy(logits, temperature), entropy)


@named(
    "values, mask, mean",
    {
        # 1 + 2 + 4 + 4 + 4 + 4, by 6
        "padding-holds-nan": (
            [[1.0, 2.0, NAN, INF], [4.0, 4.0, 4.0, 4.0]],
            [[True, True, False, False], [True, True, True, True]],
            3.1666666666666665,
        ),
        # 1 + 3, by 2
        "an-empty-row": ([[1.0, 9.0, 3.0], [9.0, 9.0, 9.0]], [[True, False, True], [False, False, False]], 2.0),
        # -5, by 1
        "one-token": ([[9.0, -5.0]], [[False, True]], -5.0),
    },
)
def test_masked_mean_with_gaps_and_nan(values, mask, mean):
    assert_equal(masked_mean(values, mask), mean)
