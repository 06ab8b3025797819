"""Files that are written whole or not at all, and an error as one line."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path


def write_text(target: Path, text: str, lasting: bool = False) -> Path:
    """Write a text in one step, with the folders above it: whoever reads it sees the old one or the new one; `lasting`,
    also if the machine stops right after."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with beside.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        if lasting:
            file.flush()
            os.fsync(file.fileno())
    os.replace(beside, target)
    return target


def write_json(target: Path, data: object, lasting: bool = False) -> Path:
    """Write data as JSON in one step, with a line for each entry."""
    return write_text(target, json.dumps(data, indent=1) + "\n", lasting)


def unused(path: Path) -> Path:
    """Return this path, or the first one with a number behind its stem that is free."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(1))
    return next(one for one in itertools.chain([path], numbered) if not os.path.lexists(one))


def first_line(error: BaseException) -> str:
    """Return the kind and the first line of an error, for a message of one sentence."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:160]
