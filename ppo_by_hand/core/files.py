"""Files that are written whole or not at all, and an error as one line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def write_whole(target: Path) -> Iterator[Path]:
    """A path beside `target`, for a file or a folder; what was written there takes its place when the block is over.

    Where the block raises, or the process is killed, `target` is as it was before. A folder that takes the place of
    another keeps what that one had under other names: it may be the user's.
    """
    unfinished = target.with_name(target.name + ".unfinished")
    _remove(unfinished)
    try:
        yield unfinished
        if target.is_dir() and unfinished.is_dir():
            for old in sorted(target.rglob("*")):
                new = unfinished / old.relative_to(target)
                if not new.exists() and not old.is_dir():
                    new.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(old, new, follow_symlinks=False)
            _remove(target)
        os.replace(unfinished, target)
    finally:
        _remove(unfinished)


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
    """The same, a line for each entry."""
    return write_text(target, json.dumps(data, indent=1) + "\n", lasting)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def first_line(error: BaseException) -> str:
    """Kind and first line of an error, for a message of one sentence."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:160]
