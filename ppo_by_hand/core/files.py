"""Files that are written whole or not at all, and an error as one line."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def write_whole(target: Path) -> Iterator[Path]:
    """A path beside `target`, for a file or a folder; what was written there takes its place when the block is over.

    Where the block raises, or the process is killed, `target` is as it was before. A folder that takes the place of
    another keeps what that one had under other names: it may be the user's.
    """
    unfinished, before = (target.with_name(f".{target.name}.ppo-by-hand-{kind}") for kind in ("unfinished", "before"))
    _put_back(before, target)
    _remove(unfinished)
    try:
        yield unfinished
        if target.is_dir() and unfinished.is_dir():
            _keep_the_rest(target, unfinished)
            os.replace(target, before)
        os.replace(unfinished, target)
    finally:
        _put_back(before, target)
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


def _keep_the_rest(old: Path, new: Path) -> None:
    """Copy what one folder has and the other has not, links as links."""
    for one in sorted(old.rglob("*")):
        copy = new / one.relative_to(old)
        if one.is_dir() and not one.is_symlink():
            copy.mkdir(exist_ok=True)
        elif not os.path.lexists(copy):
            shutil.copy2(one, copy, follow_symlinks=False)


def _put_back(before: Path, target: Path) -> None:
    """A folder that was moved away for another that then did not come; where it came, the old one is in it."""
    if before.is_dir() and not target.exists():
        os.replace(before, target)
    _remove(before)


def unused(path: Path) -> Path:
    """This path, or the first with a number behind its stem that is free."""
    numbered = (path.with_stem(f"{path.stem}-{number}") for number in itertools.count(1))
    return next(one for one in itertools.chain([path], numbered) if not os.path.lexists(one))


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove those of the folders in which nothing is, or nothing but others of them."""
    for folder in sorted(folders, key=lambda one: -len(one.parts)):
        with suppress(OSError):  # not empty, gone, or no folder
            folder.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def first_line(error: BaseException) -> str:
    """Kind and first line of an error, for a message of one sentence."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:160]
