"""Prompts on their way into the trainer: texts to left-padded ids, and an endless shuffled queue."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .rows import MESSAGES, Encoded, check_row, encode_prompt

Prompt = str | list[int] | Mapping[str, Any]
"""A text, its token ids, or a row with a text as `prompt` or token ids as `input_ids`, and more columns."""
RULE = "expected a list of prompts, each a text, a list of token ids, or a row with a prompt"


def tokenize(prompts: Sequence[Prompt], tokenizer: Any) -> list[list[int]]:
    """Token ids of each prompt, not padded; those of a row have its columns. All else as `encode_prompts`."""
    _check_list(prompts)
    rows = [_encoded(prompt, number, tokenizer) for number, prompt in enumerate(prompts)]
    for number, row in enumerate(rows):
        if not row:
            raise ValueError(f"expected a token in each prompt, got none in prompt {number}: {prompts[number]!r}")
    return rows


def _check_list(prompts: Sequence[Prompt]) -> None:
    try:
        if isinstance(prompts, str | bytes | Mapping):
            raise TypeError
        count = len(prompts)
        for number in {0, count - 1} if count else {}:
            prompts[number]
    except (TypeError, LookupError) as error:
        raise ValueError(
            f"{RULE}, got a {type(prompts).__name__} in the place of the list; put one prompt into a list, take a part "
            "of a data set (such as its 'train'), or make a list of its rows"
        ) from error
    if not count:
        raise ValueError("expected at least one prompt, got an empty list")


def _encoded(prompt: Any, number: int, tokenizer: Any) -> list[int]:
    if isinstance(prompt, Encoded):
        return prompt
    is_row = isinstance(prompt, Mapping)
    has_ids = is_row and "input_ids" in prompt and "prompt" not in prompt
    if (isinstance(prompt, str) or (is_row and not has_ids)) and not callable(tokenizer):
        raise ValueError("expected token ids, got a text and no tokenizer; pass tokenizer= to PPOTrainer")
    if isinstance(prompt, str):
        return list(tokenizer(prompt)["input_ids"])
    try:
        if has_ids:
            columns = {name: value for name, value in prompt.items() if name not in ("input_ids", "attention_mask")}
            return Encoded(list(map(_token, _visible_ids(prompt, number))), None, columns)
        if not is_row:
            return list(map(_token, [prompt] if isinstance(prompt, bytes) else prompt))
    except TypeError as error:
        is_talk = isinstance(prompt, list) and any(isinstance(one, Mapping) for one in prompt)
        fix = f"; {MESSAGES}" if is_talk else ""
        raise ValueError(f"{RULE}, got {repr(prompt)[:80]} as prompt {number}{fix}") from error
    check_row(prompt, f"prompt {number}")
    columns = {name: value for name, value in prompt.items() if name != "prompt"}
    return Encoded(encode_prompt(prompt["prompt"], tokenizer), prompt["prompt"], columns)


def _token(value: Any) -> int:
    """
    Raises:
        TypeError: it is no whole number; True and False are none here.
    """
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def _visible_ids(row: Mapping[str, Any], number: int) -> list[Any]:
    """The `input_ids` of a row without its padding, which are those with 0 in its `attention_mask`, if it has one.

    Raises:
        TypeError: `input_ids` are no list.
        ValueError: the mask does not belong to them, or hides tokens between others.
    """
    ids = _listed(row["input_ids"])
    if "attention_mask" not in row:
        return ids
    given = row["attention_mask"]
    mask = _listed(given) if hasattr(given, "__iter__") else []
    if len(mask) != len(ids) or any(seen not in (0, 1) for seen in mask):
        raise ValueError(
            f"expected attention_mask to have a 0 or 1 for each of the {len(ids)} input_ids, got "
            f"{str(given)[:80]} in prompt {number}"
        )
    seen = [place for place, is_seen in enumerate(mask) if is_seen]
    if seen and seen[-1] - seen[0] >= len(seen):
        raise ValueError(
            "expected attention_mask to hide padding before or after the prompt, got 0 between its tokens in prompt "
            f"{number}: {str(mask)[:80]}; leave tokens that the policy should not read out of input_ids"
        )
    return [ids[place] for place in seen]


def _listed(values: Any) -> list[Any]:
    """A list, tuple, array or tensor as a list."""
    return list(values.tolist() if hasattr(values, "tolist") else values)


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


def doubts_of(prompt_ids: Sequence[list[int]], tokenizer: Any, stop_token_ids: Sequence[int]) -> list[str]:
    """A sentence for what a tokenizer often adds to prompts without being asked."""
    count, first = len(prompt_ids), getattr(tokenizer, "bos_token_id", None)
    ended = sum(len(ids) > 1 and ids[-1] in stop_token_ids for ids in prompt_ids)
    twice = 0 if first is None else sum(ids[:2] == [first, first] for ids in prompt_ids)
    found = []
    if ended:
        found.append(
            f"{ended} of {count} prompts end with a stop token, after which the policy would learn to go on: leave it "
            "out, for example with add_eos_token=False of the tokenizer"
        )
    if twice:
        found.append(
            f"{twice} of {count} prompts begin with two {tokenizer.bos_token}: the tokenizer adds one to each text, so "
            "leave out the one that the chat template has written"
        )
    return found


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
