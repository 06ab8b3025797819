"""A prompt as a row: its text or token ids, and columns that a reward function may ask for by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .files import first_line

MESSAGES = "tokenizer.apply_chat_template(messages, add_generation_prompt=True) makes token ids of messages"


class Encoded(list[int]):
    """The token ids of a prompt that came as a row, and with them what a reward function gets of that row.

    Attributes:
        text: as it was written; None where only its token ids are known.
        columns: what else the row has, by name.
    """

    def __init__(self, ids: Sequence[int], text: str | None, columns: Mapping[str, Any]) -> None:
        super().__init__(ids)
        self.text, self.columns = text, columns


def check_row(row: Any, where: str) -> None:
    """Demand a row {"prompt": a text}; what else it has are columns.

    Args:
        row: anything.
        where: its place, for the message.

    Raises:
        ValueError: it is something else.
    """
    said = f'expected {where} to be JSON like {{"prompt": "a text"}}, got {str(row)[:60]}'
    if isinstance(row, Mapping) and "prompt" not in row:
        raise ValueError(f"{said}; rename the column of prompts to prompt, or of token ids to input_ids")
    prompt = row["prompt"] if isinstance(row, Mapping) else None
    if isinstance(prompt, list):
        raise ValueError(f"{said}; {MESSAGES}, which PPOTrainer takes as prompts")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError(said)


def encode_prompt(text: str, tokenizer: Any) -> list[int]:
    """The token ids that the policy answers: those of a user's message where the tokenizer has a chat template.

    Raises:
        ValueError: the tokenizer or its template fails.
    """
    try:
        if tokenizer.chat_template is None:
            encoded = tokenizer(text)
        else:
            message = {"role": "user", "content": text}
            encoded = tokenizer.apply_chat_template([message], add_generation_prompt=True, return_dict=True)
    except Exception as error:  # a template may raise anything, and a tokenizer refuses half a surrogate pair
        raise ValueError(
            f"expected a prompt that the policy's tokenizer can encode, got {text[:60]!r} ({first_line(error)})"
        ) from error
    ids: list[int] = encoded["input_ids"]
    return ids


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether it can be called with so many arguments; True where nobody can tell, as of one that is written in C."""
    try:
        inspect.signature(function).bind_partial(*range(count))
    except ValueError:
        return True
    except TypeError:
        return False
    return True


def columns_for(function: Callable[..., Any], prompts: Sequence[list[int]]) -> dict[str, list[Any]]:
    """What a reward function takes of these prompts by name, beside their texts: every column if it has `**columns`.

    Raises:
        ValueError: it needs one that a prompt doesn't have.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())[2:]
    except (TypeError, ValueError):  # written in C
        return {}
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    needed = [one.name for one in named if one.default is one.empty]
    rows = [prompt.columns if isinstance(prompt, Encoded) else {} for prompt in prompts]
    for prompt, row in zip(prompts, rows, strict=True):
        missing = [name for name in needed if name not in row]
        if missing:
            text = (prompt.text if isinstance(prompt, Encoded) else None) or str(prompt)
            raise ValueError(
                f"expected each prompt to have the column {missing[0]!r}, which the reward function "
                f"{function.__name__} takes, got none in {text[:60]!r}"
            )
    there = {name for row in rows for name in row}
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    wanted = sorted(there) if takes_all else [one.name for one in named if one.name in there]
    return {name: [row.get(name) for row in rows] for name in wanted}
