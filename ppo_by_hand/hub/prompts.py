"""The user's prompts, read from a file."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ppo_by_hand.core.texts import check_row


def read_prompts(file: Path) -> list[dict[str, Any]]:
    """Read prompts, one a line, or from a .jsonl file of {"prompt": text}, as rows for `PPOTrainer.train`.

    What else a JSON line has are columns: a reward function gets those that it names.

    Raises:
        ValueError: the file cannot be read, a line is no prompt, or there is none.
    """
    is_json = file.suffix.lower() == ".jsonl"
    if file.suffix.lower() in (".json", ".csv", ".tsv"):
        fix = "rename JSON lines to .jsonl, one prompt a line to .txt"
        raise ValueError(f"expected PROMPTS to be a text or JSONL file, got {file}; {fix}")
    try:
        # "utf-8-sig" drops a byte-order mark; splitlines would also break at characters that JSON allows in a text.
        lines = [line.strip() for line in file.read_text(encoding="utf-8-sig").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected PROMPTS to be a text or JSONL file, got {file}: {error}") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        if line:
            row = _from_json(line) if is_json else {"prompt": line}
            check_row(row, f"line {number} of {file}")
            rows.append(row)
    if not rows:
        raise ValueError(f"expected a prompt in {file}, got none; write one a line")
    return rows


def _from_json(line: str) -> Any:
    """What the line says; the line itself if it is no JSON, for the message."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return line


def check_context(prompt_ids: Sequence[list[int]], max_new_tokens: int, context: int | None, whose: str) -> None:
    """Demand room for each prompt and its response before any training starts.

    Raises:
        ValueError: a prompt is too long.
    """
    for number, ids in enumerate(prompt_ids, start=1):
        if context is not None and len(ids) + max_new_tokens > context:
            raise ValueError(
                f"expected prompt {number} ({len(ids)} tokens) and {max_new_tokens} new ones to fit the context of "
                f"{context} of {whose}; shorten it, or lower max_new_tokens"
            )
