"""A block: a very small reader of prompts. A word and its place make a vector, a prompt is their mean."""

from __future__ import annotations

import torch
from torch import Tensor


def read_prompts(words: Tensor, places: Tensor, tokens: Tensor, visible: Tensor) -> Tensor:
    """Return one vector for each prompt: the mean over its tokens of word vector times place vector.

    The first token of a prompt is at place 0. Prompts of a batch end in the same column, so that a policy can go on
    from there; shorter ones begin later.

    Args:
        words: (V, D), a vector for each word.
        places: (L, D), a vector for each place.
        tokens: (B, L), the prompts; what stands before a prompt begins may be any word.
        visible: (B, L) bool, True on the tokens of the prompt.

    Returns:
        (B, D).
    """
    place = torch.arange(tokens.shape[1]).expand_as(tokens)
    vectors = torch.where(visible.unsqueeze(-1), words[tokens] * places[place], 0.0)
    return vectors.sum(dim=1) / visible.sum(dim=1, keepdim=True)
