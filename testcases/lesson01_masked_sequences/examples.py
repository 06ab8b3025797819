"""Ordinary inputs: they tell wrong answers apart, and drive the comparison with the reference on fresh numbers."""

import math

import torch
from torch import Tensor

from testcases.harness.doubles.drawing import generator, normal_from, ragged_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example
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


def examples(seed: int) -> list[Call]:
    """O(1) numbers in float64; ragged rows with gaps, NaN under the mask; forbidden tokens; B == T == V and B != T."""
    draw = generator(seed)
    return [*_logits(draw), *_responses(draw), *_values(draw), *_flags(draw), *_tokens(draw), *_masks(draw)]


def _logits(draw: torch.Generator) -> list[Call]:
    found = []
    for shape, temperature in (((2, 4, 7), 0.6), ((3, 3, 3), 1.7), ((3, 1, 4), 0.9)):
        logits, tokens = normal_from(draw, *shape), torch.randint(shape[-1], shape[:2], generator=draw)
        weights = {"grad_of": "logits", "grad_weights": normal_from(draw, *shape[:2])}
        forbidden = _forbid(logits, tokens)
        found += [
            example(gather_log_probs, logits, tokens, temperature, **weights),
            example(gather_log_probs, forbidden, tokens, temperature, grad_of="logits"),
            example(token_entropy, logits, temperature, **weights),
            example(token_entropy, forbidden, temperature, **weights),
        ]
    found.append(example(token_entropy, forbidden, grad_of="logits", grad_weights=torch.full((3, 1), 2.0)))
    low = normal_from(draw, 2, 3, 4).bfloat16()
    tokens = torch.randint(4, (2, 3), generator=draw)
    unlikely = normal_from(draw, 2, 3, 4).index_fill(-1, torch.tensor(0), -900.0)
    # Each position's logits stand elsewhere: what is subtracted from all of them alike leaves no digit of some.
    apart = unlikely + torch.tensor([[0.0], [800.0], [-800.0]])
    nobody = torch.zeros(2, 3, dtype=torch.int64)
    found += [
        example(gather_log_probs, logits=unlikely, tokens=tokens, grad_of="logits"),
        example(gather_log_probs, logits=unlikely, tokens=nobody),
        example(gather_log_probs, low, tokens, 0.7),
        example(token_entropy, logits=apart, grad_of="logits"),
        example(token_entropy, low, 0.7),
    ]
    return found


def _responses(draw: torch.Generator) -> list[Call]:
    found = []
    for (rows, length, vocabulary), prompt_length, temperature in (
        ((2, 6, 5), 2, 0.6),
        ((4, 4, 4), 1, 1.7),
        ((3, 5, 4), 4, 0.8),
    ):
        logits = normal_from(draw, rows, length, vocabulary)
        input_ids = torch.randint(vocabulary, (rows, length), generator=draw)
        unused = torch.ones(length, dtype=torch.bool)
        unused[prompt_length - 1 : -1] = False
        broken = logits.masked_fill(unused[:, None], math.nan)
        weights = normal_from(draw, rows, length - prompt_length)
        asked = (input_ids, prompt_length, temperature)
        found += [
            example(response_log_probs, logits, *asked, grad_of="logits", grad_weights=weights),
            example(response_log_probs, logits=logits, input_ids=input_ids, prompt_length=prompt_length),
            example(response_log_probs, broken, *asked, grad_of="logits"),
        ]
    return found


def _values(draw: torch.Generator) -> list[Call]:
    found = []
    for rows, steps in ((3, 6), (4, 4), (2, 7)):
        values, mask = 2 + 3 * normal_from(draw, rows, steps), ragged_from(draw, rows, steps)
        found += _means(draw, mask, values, values.masked_fill(~mask, math.nan))
    empty = ragged_from(draw, 3, 4)
    empty[1] = False
    one = torch.tensor([[False, True, False], [False, False, False]])
    values = normal_from(draw, 3, 4).index_fill(1, torch.tensor(0), 0.0)
    found.append(example(masked_mean, values, empty, grad_of="values"))
    # Where all are equal, the root of a variance without the small number has no slope.
    equal, slopes = torch.full((2, 3), 0.5, dtype=torch.float64), normal_from(draw, 2, 3)
    for shift_mean in (True, False):
        found += [
            example(masked_whiten, values, empty, shift_mean, grad_of="values", grad_weights=normal_from(draw, 3, 4)),
            example(masked_whiten, normal_from(draw, 2, 3), one, shift_mean),
            example(masked_whiten, equal, torch.ones(2, 3).bool(), shift_mean, grad_of="values", grad_weights=slopes),
        ]
    # Far from 0, where squares lose their last digits; numbers that have an exact mean.
    far = torch.tensor([[1e6 - 2, 1e6, 1e6 + 2]], dtype=torch.float64)
    found.append(example(masked_whiten, values=far, mask=torch.ones(1, 3).bool()))
    # Plain ones: padding on the right, finite numbers in it; 9 real tokens, since 9 / 8 is exact in any float.
    for lengths in ([2, 4, 3], [1, 5, 1, 2]):
        mask = torch.arange(max(lengths) + 1) < torch.tensor(lengths).unsqueeze(1)
        found += _means(draw, mask, 2 + 3 * normal_from(draw, *mask.shape))
    return found


def _means(draw: torch.Generator, mask: Tensor, *values: Tensor) -> list[Call]:
    weights = {"grad_of": "values", "grad_weights": normal_from(draw, *mask.shape)}
    found = []
    for one in values:
        found += [
            example(masked_mean, one, mask, grad_of="values"),
            example(masked_whiten, one, mask, **weights),
            example(masked_whiten, one, mask, shift_mean=False, **weights),
        ]
    return found


def _flags(draw: torch.Generator) -> list[Call]:
    found = []
    for rows, steps in ((4, 6), (5, 5), (6, 3)):
        flags = torch.rand((rows, steps), generator=draw) < 0.4
        flags[0], flags[1], flags[2] = False, torch.arange(steps) == 1, torch.arange(steps) != 1
        found.append(example(first_true_index, flags))
    return found


def _tokens(draw: torch.Generator) -> list[Call]:
    found = []
    for rows, steps in ((5, 7), (6, 6), (5, 4)):
        responses = torch.randint(2, 9, (rows, steps), generator=draw)
        responses[0] = responses[0].clamp(min=4)
        responses[1, 1:] = 2
        responses[2, :3] = torch.tensor([7, 8, 3])
        responses[2, -1] = 2
        responses[3, 1:4] = torch.tensor([2, 8, 4])
        for stops in ((2, 3), (3, 2), (2,), ()):
            found.append(example(response_mask, responses, stops))
            for pad in (2, 8):
                found.append(example(truncate_after_stop, responses, stops, pad))
        found.append(example(response_mask, responses.masked_fill(torch.arange(steps) % 3 == 1, 0), (2, 3)))
        # Every row stops early, and the tensor keeps its size all the same.
        found.append(example(truncate_after_stop, responses[[1, 3]], (2,), 8))
    return found


def _masks(draw: torch.Generator) -> list[Call]:
    found = []
    for rows, length in ((4, 6), (5, 5)):
        left = torch.arange(length) >= torch.randint(1, length, (rows, 1), generator=draw)
        both = left & (torch.arange(length) < length - 1)
        gap = torch.arange(length) != torch.randint(1, length - 1, (rows, 1), generator=draw)
        empty = left.clone()
        empty[0] = False
        for mask in (left, left.flip(1), both, gap, empty):
            found += [example(position_ids, mask), example(position_ids, attention_mask=mask.long())]
    return found


def _forbid(logits: Tensor, tokens: Tensor) -> Tensor:
    """With -inf for one token of each position, not the one that was chosen."""
    forbidden = ((tokens + 1) % logits.shape[-1]).unsqueeze(-1)
    return logits.scatter(-1, forbidden, -math.inf)


# What contract_test.py asks: arguments to refuse (the checks are given, and have to stay), defaults, points.
TOKENS = {"logits": [[[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]], "tokens": [[0, 1]], "temperature": 1.0}
SEQUENCE = {"logits": [[[0.0, 1.0]] * 3], "input_ids": [[0, 1, 0]], "prompt_length": 1, "temperature": 1.0}
VALUES = {"values": [[1.0, 2.0]], "mask": [[True, True]]}
RESPONSES = {"responses": [[5, 2]], "stop_token_ids": (2,)}

BAD_MASKS = {
    "all-masked": ({"mask": [[False, False]]}, ["at least one True"]),
    "mask-would-broadcast": ({"mask": [[True]]}, ["mask (1, 1)", "values (1, 2)"]),
}
BAD_RESPONSES = {"one-row-without-a-batch": ({"responses": [5, 2]}, ["responses"])}

DEFAULTS = [gather_log_probs, response_log_probs, token_entropy, masked_whiten]
REFUSALS = {
    gather_log_probs: (
        TOKENS,
        {
            "tokens-would-broadcast": ({"tokens": [[0]]}, ["tokens (1, 1)", "logits (1, 2, 3)"]),
            "temperature-0": ({"temperature": 0.0}, ["temperature"]),
        },
    ),
    response_log_probs: (SEQUENCE, {"nothing-scores-the-first-token": ({"prompt_length": 0}, ["prompt_length"])}),
    token_entropy: (
        {"logits": [[[0.0, 1.0]]], "temperature": 1.0},
        {
            "no-vocabulary": ({"logits": [[0.0, 1.0]]}, ["logits (1, 2)"]),
            "temperature-0": ({"temperature": 0.0}, ["temperature"]),
        },
    ),
    masked_mean: (VALUES, BAD_MASKS),
    masked_whiten: (VALUES, BAD_MASKS),
    first_true_index: ({}, {"one-row-without-a-batch": ({"flags": [True, False]}, ["flags"])}),
    response_mask: (RESPONSES, BAD_RESPONSES),
    truncate_after_stop: ({**RESPONSES, "pad_token_id": 0}, BAD_RESPONSES),
    position_ids: ({}, {"one-row-without-a-batch": ({"attention_mask": [1, 1]}, ["attention_mask"])}),
}
AGREEMENT = dict.fromkeys(REFUSALS, 1) | {first_true_index: 2, response_mask: 3}
