"""Prompts as a user writes them: texts, and rows with columns for a reward function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .files import first_line

MESSAGES = "tokenizer.apply_chat_template(messages, add_generation_prompt=True) makes token ids of messages"


class Written(NamedTuple):
    """One prompt as the user has written it."""

    text: str
    columns: Mapping[str, Any] = {}
    """What else its row has, by name."""


class Encoded(list[int]):
    """The token ids of a prompt that came as a row, and with them what a reward function gets of that row.

    Attributes:
        text: as it was written; None where only its token ids are known.
        columns: what else the row has, by name.
    """

    def __init__(self, ids: Sequence[int], text: str | None, columns: Mapping[str, Any]) -> None:
        super().__init__(ids)
        self.text, self.columns = text, columns


def rule_of(where: str) -> str:
    return f'expected {where} to be JSON like {{"prompt": "a text"}}'


def from_row(row: Any, where: str, shown: object = None) -> Written:
    """A prompt of a row {"prompt": a text}; what else it has are columns.

    Args:
        row: it is left as it is.
        where: its place, for the message.
        shown: what the user wrote, for the message.

    Raises:
        ValueError: it is something else.
    """
    rule, got = rule_of(where), str(row if shown is None else shown)[:60]
    if not isinstance(row, Mapping):
        raise ValueError(f"{rule}, got {got}")
    if "prompt" not in row:
        ids = "" if isinstance(shown, str) else ", or that with its token ids to input_ids"
        raise ValueError(f"{rule}, got {got}; rename the column with the prompt to prompt{ids}")
    prompt, columns = row["prompt"], {name: value for name, value in row.items() if name != "prompt"}
    if isinstance(prompt, list):
        raise ValueError(f"{rule}, got {got}; {MESSAGES}, which PPOTrainer takes as prompts")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError(f"{rule}, got {got}")
    return Written(prompt, columns)


def encode_prompt(text: str, tokenizer: Any) -> list[int]:
    """The token ids that the policy answers: those of a user's message where the tokenizer has a chat template.

    Raises:
        ValueError: the tokenizer or its template fails, or nothing is left.
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
    if not ids:
        raise ValueError(f"expected a token in each prompt, got none in {text[:60]!r}")
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


def needed_columns(function: Callable[..., Any]) -> list[str]:
    """What a reward function must have beside prompts and responses, by name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in _behind_two(function) if one.kind in kinds and one.default is one.empty]


def _behind_two(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())[2:]
    except (TypeError, ValueError):  # written in C
        return []


def columns_for(function: Callable[..., Any], prompts: Sequence[list[int]]) -> dict[str, list[Any]]:
    """What a reward function takes of these prompts by name, beside their texts: every column if it has `**columns`.

    Raises:
        ValueError: it needs one that a prompt doesn't have.
    """
    parameters, needed = _behind_two(function), needed_columns(function)
    if not parameters:
        return {}
    rows = [prompt.columns if isinstance(prompt, Encoded) else {} for prompt in prompts]
    there = {name for row in rows for name in row}
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    wanted = sorted(there | set(needed)) if takes_all else [one.name for one in named if one.name in {*there, *needed}]
    for prompt, row in zip(prompts, rows, strict=True):
        missing = [name for name in needed if name not in row]
        if missing:
            text = (prompt.text if isinstance(prompt, Encoded) else None) or str(prompt)
            raise ValueError(
                f"expected each prompt to have the column {missing[0]!r}, which the reward function "
                f"{function.__name__} takes, got none in {text[:60]!r}"
            )
    return {name: [row.get(name) for row in rows] for name in wanted}
