"""The user's prompts: read from a file, encoded, and made to fit."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ppo_by_hand.core.rows import Encoded, Written, encode_prompt, from_row, rule_of


def read_prompts(file: Path, variable: str = "PROMPTS") -> list[Written]:
    """The prompts of a text file, one a line, or of a .jsonl file of {"prompt": text}.

    What else a JSON line has are columns: a reward function gets those that it names.

    Raises:
        ValueError: the file cannot be read, a line is no prompt, or there is none.
    """
    if file.suffix.lower() in (".json", ".csv", ".tsv"):
        fix = "rename JSON lines to .jsonl, one prompt a line to .txt"
        raise ValueError(f"expected {variable} to be a text or JSONL file, got {file}; {fix}")
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


def _from_text(line: str, where: str) -> Written:
    return Written(line)


def _from_json(line: str, where: str) -> Written:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{rule_of(where)}, got {line[:60]}") from error
    return from_row(row, where, line)


def encode_all(
    given: list[Written], tokenizer: Any, longest: int | None, how: str, say: Callable[[str], None]
) -> list[Encoded]:
    """The prompts with their token ids; arguments and errors as `encode_prompt` and `fit_prompts` have them."""
    prompts = [Encoded(encode_prompt(one.text, tokenizer), one.text, one.columns) for one in given]
    return fit_prompts(prompts, longest, how, say)


def fit_prompts(prompts: list[Encoded], longest: int | None, how: str, say: Callable[[str], None]) -> list[Encoded]:
    """The prompts of at most `longest` tokens; how many were longer is said.

    Args:
        how: "refuse" the run where there are longer ones, "drop" them, or "truncate" them to their last tokens.

    Raises:
        ValueError: prompts are refused, or none is left.
    """
    count = 0 if longest is None else sum(len(ids) > longest for ids in prompts)
    if longest is None or not count:
        return prompts
    what = f"{count} of {len(prompts)} prompts are longer than {longest} tokens"
    if how == "refuse":
        raise ValueError(f"{what}; shorten them, or set long_prompts to drop or truncate")
    if longest < 1 or (how == "drop" and count == len(prompts)):
        raise ValueError(f"expected a prompt that fits, but {what}; lower max_new_tokens")
    if how == "truncate":
        say(f"{what}: of these the last {longest} are kept")
        return [Encoded(one[-longest:], one.text, one.columns) for one in prompts]
    say(f"{what}: these are dropped")
    return [one for one in prompts if len(one) <= longest]


def check_context(prompt_ids: Sequence[list[int]], max_new_tokens: int, context: int | None, whose: str) -> None:
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
