"""Lesson 1: tokens, masks and log-probabilities, which every later lesson uses.

B batch, P prompt length, T response length, L = P + T, V vocabulary. A mask is bool, True on a real token.
Values where the mask is False are arbitrary and may be NaN: select first, then compute. A NaN of a real token shows in
the answer. No function changes its arguments.
Unless stated otherwise, floats are float32 or float64, and an answer has the precision of its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ppo_by_hand.core.chunking import in_parts
from ppo_by_hand.core.shapes import are_many, check_mask, check_number, check_shapes, is_stop


def gather_log_probs(logits: Tensor, tokens: Tensor, temperature: float = 1.0) -> Tensor:
    """Return the log-probability of each token under the logits at its own position.

    log pi(v) = x[v] - log sum_u exp(x[u])      with x = logits / temperature

    Args:
        logits: (B, T, V) float; -inf marks a forbidden token. bfloat16 and float16 are converted to float32 first.
        tokens: (B, T) int64, each in [0, V).
        temperature: > 0. It divides the *logits*: dividing log-probabilities would leave them unnormalized.

    Returns:
        (B, T) log-probabilities in nats, <= 0, differentiable in `logits`; float32 or float64.

    Raises:
        ValueError: shapes disagree, or temperature is not positive.
    """
    check_shapes(logits=(logits, "B T V"), tokens=(tokens, "B T"))
    check_number("temperature", temperature, 0.0, open_low=True)
    if are_many(logits):  # given: so that no copy of them is kept
        return in_parts(gather_log_probs, logits, tokens, temperature)
    raise NotImplementedError("lesson01: gather_log_probs")


def response_log_probs(logits: Tensor, input_ids: Tensor, prompt_length: int, temperature: float = 1.0) -> Tensor:
    """Return the log-probabilities of the response tokens inside a prompt + response sequence: the shift.

    The logits at position i predict the token at i + 1. So the first response token, at position P, is scored by the
    logits at the last *prompt* position, P - 1, and the logits at the last position score nothing.

    Args:
        logits: (B, L, V) of a causal language model run over `input_ids`, 16 bits included. At positions that score
            no response token anything, NaN included: neither the answer nor its gradient depends on them.
        input_ids: (B, L) int64, left-padded prompt of length P, then the response.
        prompt_length: P, 1 <= P < L, padding included.
        temperature: > 0, the one the response was sampled with.

    Returns:
        (B, T) with T = L - P, in nats; float32 or float64, as in `gather_log_probs`.

    Raises:
        ValueError: shapes disagree, no response is left after the prompt, or temperature is not positive.
    """
    check_shapes(logits=(logits, "B L V"), input_ids=(input_ids, "B L"))
    check_number("prompt_length", prompt_length, 1, input_ids.shape[1] - 1)
    check_number("temperature", temperature, 0.0, open_low=True)
    raise NotImplementedError("lesson01: response_log_probs")


def token_entropy(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """Return the entropy of the next-token distribution at each position, H = -sum_v p_v log p_v.

    Args:
        logits: (B, T, V) float; -inf marks a forbidden token, which contributes 0 (p log p -> 0), and 0 to the
            gradient. bfloat16 and float16 are converted to float32 first.
        temperature: > 0, divides the logits.

    Returns:
        (B, T) in nats, differentiable in `logits`; float32 or float64. It lies between 0 and log V, or a rounding error
            outside, which needs no clamp.

    Raises:
        ValueError: `logits` is not (B, T, V), or temperature is not positive.
    """
    check_shapes(logits=(logits, "B T V"))
    check_number("temperature", temperature, 0.0, open_low=True)
    if are_many(logits):  # given: so that no copy of them is kept
        return in_parts(token_entropy, logits, temperature)
    raise NotImplementedError("lesson01: token_entropy")


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Take the mean over the real tokens of the whole batch: each real token counts once, padding never.

    Args:
        values: (B, T) float; under a False mask anything, NaN included.
        mask: (B, T) bool, True on real tokens.

    Returns:
        () scalar. The gradient is 1 / (number of real tokens) on real tokens and 0 elsewhere.

    Raises:
        ValueError: shapes disagree, the mask is not bool, or it is False everywhere.
    """
    check_shapes(values=(values, "B T"), mask=(mask, "B T"))
    check_mask(mask)
    raise NotImplementedError("lesson01: masked_mean")


def masked_whiten(values: Tensor, mask: Tensor, shift_mean: bool = True) -> Tensor:
    """Scale the real tokens to variance 1 and, with `shift_mean`, move their mean to 0.

    The distance from the mean, in units of the square root of variance + 1e-8; if not shift_mean, plus the mean.

    The variance is the unbiased one (divided by n - 1). A single real token has variance 0, not NaN.

    Args:
        values: (B, T) float; under a False mask anything, NaN included.
        mask: (B, T) bool, True on real tokens.
        shift_mean: True centers the values; False keeps their mean (used for rewards).

    Returns:
        (B, T), 0 where masked. Nothing is detached: mean and variance are part of the gradient.

    Raises:
        ValueError: shapes disagree, the mask is not bool, or it is False everywhere.
    """
    check_shapes(values=(values, "B T"), mask=(mask, "B T"))
    check_mask(mask)
    raise NotImplementedError("lesson01: masked_whiten")


def first_true_index(flags: Tensor) -> Tensor:
    """Return the index of the first True in each row, and T for a row that has none.

    Args:
        flags: (B, T) bool.

    Returns:
        (B,) int64 in [0, T].

    Raises:
        ValueError: `flags` is not (B, T).
    """
    check_shapes(flags=(flags, "B T"))
    raise NotImplementedError("lesson01: first_true_index")


def response_mask(responses: Tensor, stop_token_ids: Sequence[int]) -> Tensor:
    """Mark each token of the response up to the *first* stop token, which is included, with True.

    Also right when pad == stop, since it does not test for padding. The policy chose to stop, so the stop token is
    one of its actions and must be trained; what follows is not.

    Args:
        responses: (B, T) int64, right-padded.
        stop_token_ids: the ids that end a response; there may be several, or none.

    Returns:
        (B, T) bool.

    Raises:
        ValueError: `responses` is not (B, T).
    """
    check_shapes(responses=(responses, "B T"))
    raise NotImplementedError("lesson01: response_mask")


def truncate_after_stop(responses: Tensor, stop_token_ids: Sequence[int], pad_token_id: int) -> Tensor:
    """Replace everything after the first stop token by padding tokens; the stop token stays.

    Args:
        responses: (B, T) int64.
        stop_token_ids: the ids that end a response.
        pad_token_id: the id to write; it may itself be a stop token.

    Returns:
        (B, T) int64, a new tensor.

    Raises:
        ValueError: `responses` is not (B, T).
    """
    check_shapes(responses=(responses, "B T"))
    raise NotImplementedError("lesson01: truncate_after_stop")


def position_ids(attention_mask: Tensor) -> Tensor:
    """Return the position of each real token among the real tokens only, so that padding does not move a text.

    Without it a model with absolute positions (GPT-2) gives other numbers for a left-padded row; RoPE hides the error.

    Args:
        attention_mask: (B, L) bool, or 0/1 of any dtype, padded on either side; a gap inside counts no position.

    Returns:
        (B, L) int64: 0, 1, 2, ... on real tokens, 0 on padding.

    Raises:
        ValueError: `attention_mask` is not (B, L).
    """
    check_shapes(attention_mask=(attention_mask, "B L"))
    raise NotImplementedError("lesson01: position_ids")


def _at_least_float32(logits: Tensor) -> Tensor:
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
