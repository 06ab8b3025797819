"""The user's prompts: read from a file, encoded, and told apart."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ppo_by_hand.core.files import first_line


class HubPrompt(NamedTuple):
    """One prompt of the user's file."""

    text: str
    """What a reward function gets: the text, or the last message of a conversation."""
    messages: list[dict[str, str]]
    """The same as a conversation, for tokenizers with a chat template."""
    is_chat: bool
    """Whether the file had a conversation."""
    columns: Mapping[str, Any] = {}
    """What else its line has, by name."""


def read_prompts(file: Path, variable: str = "PROMPTS") -> list[HubPrompt]:
    """The prompts of a text file, one a line, or of a .jsonl file of {"prompt": text or list of messages}.

    What else a JSON line has are columns: a reward function gets those that it names.

    Raises:
        ValueError: the file cannot be read, a line is no prompt, or there is none.
    """
    if file.suffix.lower() == ".json":
        raise ValueError(f"expected {variable} to be a text or JSONL file, got {file}; rename JSON lines to .jsonl")
    try:
        # "utf-8-sig" drops a byte-order mark; splitlines would also break at characters that JSON allows in a text.
        lines = [line.strip() for line in file.read_text(encoding="utf-8-sig").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected {variable} to be a text or JSONL file, got {file}: {error}") from error
    read = _from_json if file.suffix.lower() == ".jsonl" else _from_text
    found = [read(line, f"line {number} of {file}") for number, line in enumerate(lines, start=1) if line]
    if not found:
        raise ValueError(f"expected a prompt in {file}, got none; write one a line")
    return found


def _from_text(line: str, where: str) -> HubPrompt:
    return HubPrompt(line, [{"role": "user", "content": line}], is_chat=False)


def _from_json(line: str, where: str) -> HubPrompt:
    rule = f'expected {where} to be JSON like {{"prompt": "a text"}} or {{"prompt": [{{"role": ..., "content": ...}}]}}'
    try:
        columns = json.loads(line)
        prompt = columns.pop("prompt")
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{rule}, got {line[:60]}") from error
    if isinstance(prompt, str) and prompt.strip():
        return _from_text(prompt, where)._replace(columns=columns)
    if not isinstance(prompt, list) or not prompt or not all(_is_message(one) for one in prompt):
        raise ValueError(f"{rule}, got {line[:60]}")
    if prompt[-1]["role"] == "assistant":
        raise ValueError(f"expected {where} to end with a message that can be answered, got one of the assistant")
    return HubPrompt(prompt[-1]["content"], prompt, is_chat=True, columns=columns)


def _is_message(one: Any) -> bool:
    """Whether it is {"role": text, "content": text}; more keys are left to the template."""
    return isinstance(one, dict) and all(isinstance(one.get(name), str) for name in ("role", "content"))


def encode_prompt(prompt: HubPrompt, tokenizer: Any) -> list[int]:
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


def originals_of(prompt_ids: list[list[int]], given: list[HubPrompt], tokenizer: Any) -> dict[str, str]:
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
    prompt_ids: list[list[int]], given: list[HubPrompt], tokenizer: Any
) -> dict[str, Mapping[str, Any] | None]:
    """The columns of each prompt by the text that its tokens decode to; None where one text has two different ones."""
    columns: dict[str, Mapping[str, Any] | None] = {}
    for ids, one in zip(prompt_ids, given, strict=True):
        decoded = tokenizer.decode(ids, skip_special_tokens=True)
        if columns.setdefault(decoded, one.columns) != one.columns:
            columns[decoded] = None
    return columns


def encode_all(
    given: list[HubPrompt], tokenizer: Any, longest: int | None, how: str, say: Callable[[str], None]
) -> tuple[list[HubPrompt], list[list[int]]]:
    """The prompts with their token ids; arguments and errors as `encode_prompt` and `fit_prompts` have them."""
    return fit_prompts(given, [encode_prompt(prompt, tokenizer) for prompt in given], longest, how, say)


def fit_prompts(
    given: list[HubPrompt], prompt_ids: list[list[int]], longest: int | None, how: str, say: Callable[[str], None]
) -> tuple[list[HubPrompt], list[list[int]]]:
    """The prompts of at most `longest` tokens; how many were longer is said.

    Args:
        how: "refuse" the run where there are longer ones, "drop" them, or "truncate" them to their last tokens.

    Raises:
        ValueError: prompts are refused, or none is left.
    """
    count = 0 if longest is None else sum(len(ids) > longest for ids in prompt_ids)
    if longest is None or not count:
        return given, prompt_ids
    what = f"{count} of {len(prompt_ids)} prompts are longer than {longest} tokens"
    if how == "refuse":
        raise ValueError(f"{what}; shorten them, or set long_prompts to drop or truncate")
    if longest < 1 or (how == "drop" and count == len(prompt_ids)):
        raise ValueError(f"expected a prompt that fits, but {what}; lower max_new_tokens")
    if how == "truncate":
        say(f"{what}: of these the last {longest} are kept")
        return given, [ids[-longest:] for ids in prompt_ids]
    say(f"{what}: these are dropped")
    kept = [(one, ids) for one, ids in zip(given, prompt_ids, strict=True) if len(ids) <= longest]
    return [one for one, _ in kept], [ids for _, ids in kept]


def check_context(prompt_ids: list[list[int]], max_new_tokens: int, context: int | None, whose: str) -> None:
    """Demand room for each prompt and its response before any training starts.

    Raises:
        ValueError: a prompt is too long.
    """
    for number, ids in enumerate(prompt_ids, start=1):
        if context is not None and len(ids) + max_new_tokens > context:
            raise ValueError(
                f"expected prompt {number} ({len(ids)} tokens) and {max_new_tokens} new ones to fit the context of "
                f"{context} of {whose}; shorten it, lower max_new_tokens, or set long_prompts to drop or truncate"
            )
