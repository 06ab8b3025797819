"""Argument checks: an error that says the rule, what came and the fix; and sizes that several lessons ask for.

Given to students, used by every lesson.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

LOGITS_AT_ONCE = 2**18
"""In one computation: 1 MiB in float32, which a core's cache holds."""
ON_GPU = 16
"""So many times more on a GPU, where starting a computation takes longer than a small one does."""


def check_shapes(**arguments: tuple[Tensor | None, str]) -> None:
    """Hold each tensor against a layout in which one letter is one size everywhere.

    `check_shapes(values=(values, "... T+1"), rewards=(rewards, "... T"))`: `T` must be the same number in both,
    and `...` the same leading sizes; a number such as 3 is that size. A tensor that is None (an optional argument) is
    passed over.

    Raises:
        TypeError: an argument is not a tensor.
        ValueError: a tensor has another rank than its layout, or a letter would need two sizes.
    """
    present = {name: (tensor, layout) for name, (tensor, layout) in arguments.items() if tensor is not None}
    for name, (tensor, _) in present.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected {name} to be a torch.Tensor, got {type(tensor).__name__}")
    if not _agree(tuple((tuple(tensor.shape), layout) for tensor, layout in present.values())):
        wanted = ", ".join(f"{name} ({layout.replace(' ', ', ')})" for name, (_, layout) in present.items())
        came = ", ".join(f"{name} {tuple(tensor.shape)}" for name, (tensor, _) in present.items())
        raise ValueError(
            f"expected {wanted}, each letter one size; got {came}; "
            "broadcasting would give a wrong number instead of an error"
        )


@lru_cache(maxsize=1024)  # a trainer asks about the same few shapes thousands of times
def _agree(pairs: tuple[tuple[tuple[int, ...], str], ...]) -> bool:
    """Whether shapes fit their layouts, all letters together."""
    sizes: dict[str, object] = {}
    return all(_fits(shape, layout.split(), sizes) for shape, layout in pairs)


def _fits(shape: tuple[int, ...], letters: list[str], sizes: dict[str, object]) -> bool:
    """Bind the letters of one layout to the sizes of one shape; False where a letter already has another size."""
    if letters[0] == "...":
        letters = letters[1:]
        lead, shape = shape[: len(shape) - len(letters)], shape[len(shape) - len(letters) :]
        if sizes.setdefault("...", lead) != lead:
            return False
    if len(shape) != len(letters):
        return False
    for size, letter in zip(shape, letters, strict=True):
        if letter.isdigit():
            if size != int(letter):
                return False
            continue
        name, _, extra = letter.partition("+")
        if sizes.setdefault(name, size - int(extra or 0)) != size - int(extra or 0):
            return False
    return True


def check_mask(mask: Tensor | None, per_row: bool = False) -> None:
    """Demand a bool mask with a real token in it: in the batch, or with `per_row` in each row. None is passed over.

    Raises:
        ValueError: the mask is not bool, or nothing is left to average over.
    """
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise ValueError(f"expected a bool mask, True on real tokens, got {mask.dtype}; convert it with mask.bool()")
    if not mask.any():
        raise ValueError("expected at least one True in mask, got none; the mean of no tokens is undefined")
    if per_row and not mask.any(dim=-1).all():
        row = int((~mask.any(dim=-1)).nonzero()[0, 0])
        raise ValueError(f"expected a real token in each row of mask, got none in row {row}; drop empty responses")


def check_number(name: str, value: float, low: float, high: float = math.inf, *, open_low: bool = False) -> None:
    """Demand a finite number in [low, high], or in (low, high] with `open_low`.

    Raises:
        ValueError: the number is NaN, infinite or outside the interval.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"expected {name} to be a number, got {value!r}")
    if not abs(value) <= sys.float_info.max or value > high or value < low or (open_low and value == low):
        upper = "infinity)" if high == math.inf else f"{high}]"
        raise ValueError(f"expected {name} in {'(' if open_low else '['}{low}, {upper}, got {value!r}")


def is_stop(tokens: Tensor, stop_token_ids: Sequence[int]) -> Tensor:
    """Mark each token (...) that ends a response with True; there may be several such ids, or none."""
    return torch.isin(tokens, torch.tensor(stop_token_ids, dtype=tokens.dtype, device=tokens.device))


def logits_at_once(logits: Tensor) -> int:
    """Return how many logits are computed at once on the device where these are."""
    return LOGITS_AT_ONCE * (1 if logits.device.type == "cpu" else ON_GPU)


def are_many(logits: Tensor) -> bool:
    """Tell whether logits (B, T, V) should be computed a few positions at a time."""
    return logits.numel() > max(logits_at_once(logits), logits.shape[-1])


def text_config(model: Any) -> Any:
    """Return the configuration with the sizes of the language model: a model that reads pictures keeps them apart."""
    config = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def context_length(model: Any) -> int | None:
    """Return the longest sequence that a model can read; None if it does not say."""
    return getattr(text_config(model), "max_position_embeddings", None) if hasattr(model, "config") else None


def tokens_of(model: Any) -> int | None:
    """Return how many tokens a Hugging Face model reads; None for any other module."""
    table = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    return getattr(table, "num_embeddings", None)
