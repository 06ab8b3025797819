"""Any reward as one kind of scorer: a module that reads tokens, or a Python function that reads texts."""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .files import first_line
from .rows import Encoded, columns_for, takes
from .validate import has_head

Scorer = Callable[..., Tensor]
"""(input_ids (B, L), attention_mask (B, L), prompt_length) -> scores (B,); that of a function also takes `prompts`."""
RewardFunction = Callable[..., Sequence[float]]
"""(prompts, responses) -> one number for each response; more arguments are columns of the prompts' rows, by name."""


def make_scorer(reward_model: nn.Module | RewardFunction, tokenizer: Any = None) -> Scorer:
    """Wrap a reward model or a reward function for the rollout.

    Args:
        reward_model: a module called with (input_ids, attention_mask) that returns (B,) scores, or an output with
            `logits` (B, 1); one with a `config`, as Hugging Face's classifiers have, gets its rows padded on the right
            with its own pad token, any other as they are. Or a function of (prompts, responses), lists of texts without
            special tokens.
        tokenizer: decodes the texts of a reward function; must be the policy's.

    Returns:
        (input_ids (B, L), attention_mask (B, L), prompt_length) -> (B,) float32 scores on the device of the ids. With
        `prompts`, the B prompts as `tokenize` gives them, a function gets the text and the columns of each row.

    Raises:
        ValueError: it is neither, or a reward function came without a tokenizer; later, from the scorer: it returned
            the wrong count or shape, something that is no number, or NaN, or a module knows fewer tokens.
        RuntimeError: from the scorer: the reward function raised.
    """
    if isinstance(reward_model, nn.Module):
        if has_head(backbone := getattr(reward_model, "backbone", None)):
            raise ValueError(
                f"expected RewardModel of a backbone without a head, got that of a {type(backbone).__name__}; a "
                "classifier is a reward model by itself"
            )
        return _module_scorer(reward_model)
    if not callable(reward_model):
        raise ValueError(f"expected a reward model or a function of (prompts, responses), got {reward_model!r}")
    if not takes(reward_model, 2):
        name = getattr(reward_model, "__name__", repr(reward_model))
        raise ValueError(
            "expected a reward function of (prompts, responses), two lists of texts, got "
            f"{name}{inspect.signature(reward_model)}"
        )
    if tokenizer is None:
        raise ValueError("expected a tokenizer with a reward function, got None; pass tokenizer= to PPOTrainer")
    if isinstance(tokenizer, str):
        fix = "load it: AutoTokenizer.from_pretrained(name)"
        raise ValueError(f"expected a tokenizer with a reward function, got {tokenizer!r}; {fix}")
    return _function_scorer(reward_model, tokenizer)


def _module_scorer(reward_model: nn.Module) -> Scorer:
    config: Any = getattr(reward_model, "config", None)

    def score(
        input_ids: Tensor, attention_mask: Tensor, prompt_length: int, prompts: Sequence[list[int]] = ()
    ) -> Tensor:
        if config is not None:
            input_ids, attention_mask = _right_padded(input_ids, attention_mask, config.pad_token_id)
        try:
            output = reward_model(input_ids=input_ids, attention_mask=attention_mask)
        except IndexError as error:
            raise ValueError(
                "expected the reward model to know every token id and position that the policy may write, got "
                f"{first_line(error)!r} from {type(reward_model).__name__}; text_reward(model, tokenizer) gives it the "
                "texts instead"
            ) from error
        scores = output.logits.squeeze(-1) if hasattr(output, "logits") else output
        if not isinstance(scores, Tensor) or scores.dim() != 1:
            got = tuple(scores.shape) if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
            raise ValueError(f"expected the reward model to return scores (B,), or logits (B, 1), got {got}")
        return scores.float()

    return score


def _right_padded(input_ids: Tensor, attention_mask: Tensor, pad_token_id: int | None) -> tuple[Tensor, Tensor]:
    """The same rows with their padding on the right, as a Hugging Face classifier was trained.

    On the left, padding would move the positions (GPT-2 counts it); and a classifier reads the last token that is not
    its own pad token, which may be another than the policy's.
    """
    order = (~attention_mask).long().argsort(dim=1, stable=True)  # real tokens first, in their order
    attention_mask = attention_mask.gather(1, order)
    input_ids = input_ids.gather(1, order)
    return (input_ids if pad_token_id is None else input_ids.masked_fill(~attention_mask, pad_token_id)), attention_mask


def _function_scorer(function: RewardFunction, tokenizer: Any) -> Scorer:
    name = getattr(function, "__name__", repr(function))

    def texts(input_ids: Tensor, attention_mask: Tensor) -> list[str]:
        rows = [row[real].tolist() for row, real in zip(input_ids, attention_mask, strict=True)]
        return [tokenizer.decode(row, skip_special_tokens=True) for row in rows]

    def score(
        input_ids: Tensor, attention_mask: Tensor, prompt_length: int, prompts: Sequence[list[int]] = ()
    ) -> Tensor:
        said = texts(input_ids[:, :prompt_length], attention_mask[:, :prompt_length])
        for row, prompt in enumerate(prompts):
            if isinstance(prompt, Encoded) and prompt.text is not None:
                said[row] = prompt.text
        columns = columns_for(function, prompts)
        responses = texts(input_ids[:, prompt_length:], attention_mask[:, prompt_length:])
        count = len(responses)
        rule = f"expected reward function {name} to return one number for each of {count} responses, got"
        try:
            answer = function(said, responses, **columns)
            is_ordered = isinstance(answer, Iterable) and not isinstance(answer, Set | Mapping)
            numbers = list(answer) if is_ordered else None
        except (Exception, SystemExit) as error:
            raise RuntimeError(f"the reward function {name} raised {with_place(error)}") from error
        if numbers is None:
            raise ValueError(f"{rule} {type(answer).__name__}")
        if len(numbers) != count:
            raise ValueError(f"{rule} {len(numbers)}")
        return torch.tensor([_number(value, name, row) for row, value in enumerate(numbers)], device=input_ids.device)

    return score


def with_place(error: BaseException) -> str:
    """The same with the line of the user's code that raised it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{first_line(error)} ({Path(place.filename).name}:{place.lineno})"


def _number(value: object, name: str, row: int) -> float:
    """The score of one response as a float; a 0-dim tensor or a numpy number is one too, a text is not."""
    rule = f"expected reward function {name} to return finite numbers, got"
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise ValueError(f"{rule} {type(value).__name__} for response {row}: {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # an array of several, 10 ** 400
        raise ValueError(f"{rule} {type(value).__name__} for response {row}: {error}") from error
    if not math.isfinite(number):
        raise ValueError(f"{rule} {number} for response {row}")
    return number
