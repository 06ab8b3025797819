"""Lesson 1: what contract_test.py asks of its exercises; a constant that is missing asks nothing."""

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

# The checks are given, above the solution; they have to stay there.
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
    response_log_probs: (
        SEQUENCE,
        {
            "nothing-scores-the-first-token": ({"prompt_length": 0}, ["prompt_length"]),
            "ids-of-the-response-only": ({"input_ids": [[0, 1]]}, ["input_ids (1, 2)"]),
            "temperature-0": ({"temperature": 0.0}, ["temperature"]),
        },
    ),
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
AGREEMENT = dict.fromkeys(REFUSALS, 1) | {first_true_index: 2}
