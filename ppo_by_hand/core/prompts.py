"""Prompts on their way into the trainer: texts to left-padded ids, and an endless shuffled queue."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

Prompt = str | list[int]
"""A text, or its token ids."""
RULE = "expected a list of prompts, each a text or a list of token ids"


def tokenize(prompts: Sequence[Prompt], tokenizer: Any) -> list[list[int]]:
    """Token ids of each prompt, not padded; arguments and errors as in `encode_prompts`."""
    check_prompts(prompts)
    if not callable(tokenizer) and any(isinstance(prompt, str) for prompt in prompts):
        raise ValueError("expected token ids, got a text and no tokenizer; pass tokenizer= to PPOTrainer")
    rows = []
    for number, prompt in enumerate(prompts):
        ids = tokenizer(prompt)["input_ids"] if isinstance(prompt, str) else prompt
        try:
            rows.append([operator.index(token) for token in ids])
        except TypeError as error:
            raise ValueError(f"{RULE}, got {prompt!r} as prompt {number}") from error
        if not rows[-1]:
            raise ValueError(f"expected a token in each prompt, got none in prompt {number}: {prompt!r}")
    return rows


def check_prompts(prompts: Sequence[Prompt]) -> None:
    """
    Raises:
        ValueError: they are no list, or there is none.
    """
    if isinstance(prompts, str | Mapping) or not hasattr(prompts, "__getitem__"):
        raise ValueError(f"{RULE}, got a {type(prompts).__name__} in the place of the list")
    if not len(prompts):
        raise ValueError("expected at least one prompt, got an empty list")


def encode_prompts(prompts: Sequence[Prompt], tokenizer: Any, pad_token_id: int) -> tuple[Tensor, Tensor]:
    """Token ids of the prompts, padded on the *left*, so that generation starts from a real token in each row.

    Args:
        prompts: B texts, or B lists of token ids.
        tokenizer: a Hugging Face tokenizer; needed for texts only.
        pad_token_id: the id to pad with.

    Returns:
        (input_ids (B, P) int64, attention_mask (B, P) bool).

    Raises:
        ValueError: there are no prompts, one is empty, or texts came without a tokenizer.
    """
    rows = tokenize(prompts, tokenizer)
    width = max(len(row) for row in rows)
    input_ids = torch.tensor([[pad_token_id] * (width - len(row)) + row for row in rows])
    attention_mask = torch.tensor([[False] * (width - len(row)) + [True] * len(row) for row in rows])
    return input_ids, attention_mask


class PromptQueue:
    """Prompt numbers in shuffled order, every prompt once before any is repeated.

    Args:
        seed: decides the order.
        samples: how often each number is repeated, in a row.
    """

    def __init__(self, seed: int, samples: int = 1) -> None:
        self.samples = samples
        self.generator = torch.Generator().manual_seed(seed)
        self.waiting: list[int] = []

    def take(self, size: int, available: int) -> list[int]:
        """The next `size` numbers in [0, available); the queue is refilled as often as it takes."""
        size //= self.samples
        while len(self.waiting) < size:
            self.waiting += torch.randperm(available, generator=self.generator).tolist()
        taken, self.waiting = self.waiting[:size], self.waiting[size:]
        return [number for number in taken for _ in range(self.samples)]
