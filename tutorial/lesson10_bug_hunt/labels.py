"""A block: rows to train on from prompts and replies. The tokenizer has no padding token of its own."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

IGNORED = -100
"""A label that torch's cross-entropy leaves out."""


class Rows(NamedTuple):
    """(B, L) each: what the model reads, and what it should say there."""

    tokens: Tensor
    labels: Tensor


def label_replies(prompts: list[list[int]], replies: list[list[int]], end: int) -> Rows:
    """Put prompts and replies side by side, with a label for each token that the model is to learn.

    The tokenizer has no padding token, so rows are filled up with the end-of-text token.

    Args:
        prompts: token ids of each prompt.
        replies: token ids of each reply, with the end-of-text token at its end unless the reply was cut off.
        end: id of the end-of-text token.

    Returns:
        Tokens, and labels: the token itself on a reply, IGNORED elsewhere.
    """
    wholes = [prompt + reply for prompt, reply in zip(prompts, replies, strict=True)]
    tokens = torch.full((len(wholes), max(map(len, wholes))), end)
    labels = torch.full_like(tokens, IGNORED)
    for row, whole in enumerate(wholes):
        tokens[row, : len(whole)] = torch.tensor(whole)
        labels[row, len(prompts[row]) : len(whole)] = torch.tensor(replies[row])
    return Rows(tokens, labels.masked_fill(tokens == end, IGNORED))
