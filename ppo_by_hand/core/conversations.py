"""Prompts as a user writes them: texts, conversations, and rows with columns for a reward function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .files import first_line

Columns = Mapping[str, Mapping[str, Any] | None]
"""By the text that a prompt's tokens decode to; None where different prompts have the same text."""


class Written(NamedTuple):
    """One prompt as the user has written it."""

    text: str
    """What a reward function gets: the text, or the last message of a conversation."""
    messages: list[dict[str, str]]
    """The same as a conversation, for tokenizers with a chat template."""
    is_chat: bool
    """Whether it was written as a conversation."""
    columns: Mapping[str, Any] = {}
    """What else its row has, by name."""


def rule_of(where: str) -> str:
    return f'expected {where} to be JSON like {{"prompt": "a text"}} or {{"prompt": [{{"role": ..., "content": ...}}]}}'


def from_text(text: str) -> Written:
    return Written(text, [{"role": "user", "content": text}], is_chat=False)


def from_row(row: Any, where: str, shown: object = None) -> Written:
    """A prompt of a row {"prompt": a text or a list of messages}; what else it has are columns.

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
    if isinstance(prompt, str) and prompt.strip():
        return from_text(prompt)._replace(columns=columns)
    if not isinstance(prompt, list) or not prompt or not all(_is_message(one) for one in prompt):
        raise ValueError(f"{rule}, got {got}")
    if prompt[-1]["role"] == "assistant":
        raise ValueError(f"expected {where} to end with a message that can be answered, got one of the assistant")
    return Written(prompt[-1]["content"], prompt, is_chat=True, columns=columns)


def _is_message(one: Any) -> bool:
    """Whether it is {"role": text, "content": text}; more keys are left to the template."""
    return isinstance(one, Mapping) and all(isinstance(one.get(name), str) for name in ("role", "content"))


def encode_prompt(prompt: Written, tokenizer: Any) -> list[int]:
    """The token ids that the policy answers: by the chat template where the tokenizer has one.

    Raises:
        ValueError: a conversation came without a template, or nothing is left.
    """
    if prompt.is_chat and tokenizer.chat_template is None:
        raise ValueError(
            f"expected plain texts for a tokenizer without chat template, got messages: {prompt.text[:60]!r}"
        )
    try:
        if tokenizer.chat_template is None:
            encoded = tokenizer(prompt.text)
        else:
            encoded = tokenizer.apply_chat_template(prompt.messages, add_generation_prompt=True, return_dict=True)
    except Exception as error:  # a template may raise anything, and a tokenizer refuses half a surrogate pair
        raise ValueError(
            f"expected a prompt that the policy's tokenizer can encode, got {prompt.text[:60]!r} ({first_line(error)})"
        ) from error
    ids: list[int] = encoded["input_ids"]
    if not ids:
        raise ValueError(f"expected a token in each prompt, got none in {prompt.text[:60]!r}")
    return ids


def originals_of(prompt_ids: list[list[int]], given: list[Written], tokenizer: Any) -> dict[str, str]:
    """The user's prompts by the texts that their tokens decode to: a reward function knows a prompt by that alone.

    Raises:
        ValueError: two different prompts decode to the same text.
    """
    originals: dict[str, str] = {}
    for ids, one in zip(prompt_ids, given, strict=True):
        decoded = tokenizer.decode(ids, skip_special_tokens=True)
        if originals.setdefault(decoded, one.text) != one.text:
            raise ValueError(
                f"expected prompts that the policy's tokenizer can tell apart, got {originals[decoded][:60]!r} and "
                f"{one.text[:60]!r}, both {decoded[:60]!r}; drop one of them"
            )
    return originals


def columns_of(
    prompt_ids: list[list[int]], given: list[Written], tokenizer: Any
) -> dict[str, Mapping[str, Any] | None]:
    """The columns of each prompt by the text that its tokens decode to; None where one text has two different ones."""
    columns: dict[str, Mapping[str, Any] | None] = {}
    for ids, one in zip(prompt_ids, given, strict=True):
        decoded = tokenizer.decode(ids, skip_special_tokens=True)
        if columns.setdefault(decoded, one.columns) != one.columns:
            columns[decoded] = None
    return columns


def with_original_prompts(
    function: Callable[..., Any],
    originals: Mapping[str, str],
    columns: Columns | None = None,
    wanted: Sequence[str] = (),
) -> Callable[..., Any]:
    """The same function, called with the prompts as the user wrote them, and the wanted columns of theirs by name."""

    @functools.wraps(function)
    def wrapped(prompts: list[str], responses: list[str]) -> Any:
        rows = [(columns or {}).get(prompt) or {} for prompt in prompts]
        more: dict[str, Any] = {name: [row.get(name) for row in rows] for name in wanted}
        return function([originals[prompt] for prompt in prompts], responses, **more)

    vars(wrapped).pop("__wrapped__")  # it needs no columns any more
    return wrapped


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


def wanted_columns(function: Callable[..., Any], columns: Columns) -> list[str]:
    """The columns that a reward function takes by name: all of them, if it has `**columns`.

    Raises:
        ValueError: it needs one that a prompt does not have, or that is not the same for equal prompts.
    """
    parameters, needed = _behind_two(function), needed_columns(function)
    there = {name for row in columns.values() for name in row or {}}
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    wanted = sorted(there | set(needed)) if takes_all else [one.name for one in named if one.name in {*there, *needed}]
    for text, row in columns.items():
        if wanted and row is None:
            raise ValueError(f"expected equal prompts to have equal columns, got two different rows for {text[:60]!r}")
        missing = [name for name in needed if name not in (row or {})]
        if missing:
            raise ValueError(
                f"expected each prompt to have the column {missing[0]!r}, which the reward function "
                f"{function.__name__} takes, got none in {text[:60]!r}"
            )
    return wanted


def reading_rows(
    function: Callable[..., Any], prompt_ids: list[list[int]], given: list[Written], tokenizer: Any
) -> Callable[..., Any]:
    """A reward function that gets each prompt as it was written, and the columns that it names.

    Raises:
        ValueError: prompts cannot be told apart, or one has not a column that the function needs.
    """
    columns = columns_of(prompt_ids, given, tokenizer)
    originals = originals_of(prompt_ids, given, tokenizer)
    return with_original_prompts(function, originals, columns, wanted_columns(function, columns))
