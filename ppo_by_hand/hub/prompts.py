"""The user's prompts, read from a file."""

import json
from pathlib import Path
from typing import Any


def read_prompts(file: Path) -> list[dict[str, Any]]:
    """Read prompts as rows for `PPOTrainer.train`: one a line, or in a .jsonl file rows as it takes them.

    What else a JSON line has are columns: a reward function gets those that it names.

    Raises:
        ValueError: the file cannot be read, a line is no JSON, or there is none.
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
            try:
                rows.append(json.loads(line) if is_json else {"prompt": line})
            except json.JSONDecodeError as error:
                raise ValueError(
                    f'expected line {number} of {file} to be JSON like {{"prompt": "a text"}}, got {line[:60]}'
                ) from error
    if not rows:
        raise ValueError(f"expected a prompt in {file}, got none; write one a line")
    return rows
