"""What a run has written into its folder, with size and hash: all that a later run may remove there."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from .files import remove_empty, unused, write_whole

MANIFEST = ".ppo-by-hand.json"
VERSION = 1


class Written:
    """The manifest of a folder, `.ppo-by-hand.json`: path below the folder -> size in bytes and SHA-256.

    Args:
        folder: of one run.

    Raises:
        ValueError: there is a manifest that no run has written like this.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / MANIFEST
        self.known: dict[str, tuple[int, str]] = {}
        if self.exists():
            try:
                found = json.loads(self.file.read_text("utf-8"))["files"]
                self.known = {_below(name): (int(size), str(digest)) for name, (size, digest) in found.items()}
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(
                    f"expected {self.file} as a run has written it, got a damaged file; choose another OUT, or remove "
                    f"the file and take the run over: python -m ppo_by_hand adopt {folder}"
                ) from error

    def exists(self) -> bool:
        return self.file.is_file()

    def record(self, files: Iterable[Path]) -> None:
        """Add files below the folder as they are now, or take them anew; those that are gone are forgotten."""
        for file in files:
            self.known[file.relative_to(self.folder).as_posix()] = _print_of(file)
        self.known = {name: value for name, value in self.known.items() if (self.folder / name).is_file()}
        with write_whole(self.file) as unfinished:
            unfinished.write_text(json.dumps({"version": VERSION, "files": self.known}, indent=0), encoding="utf-8")

    def is_as_written(self, file: Path) -> bool:
        """Whether a run has written this file, and nobody has changed it since."""
        known = self.known.get(file.relative_to(self.folder).as_posix())
        if known is None or file.is_symlink() or not file.is_file() or file.stat().st_size != known[0]:
            return False
        return _print_of(file) == known

    def remove(self) -> None:
        """Remove each file that is as it was recorded, and the folders below this one that are empty then.

        The manifest stays: if the process is killed here, the next one knows the folder as that of a run.
        """
        for name in self.known:
            if self.is_as_written(self.folder / name):
                (self.folder / name).unlink()
        folders = {self.folder / parent for name in self.known for parent in PurePosixPath(name).parents}
        remove_empty(folders - {self.folder})

    def make_way(self, files: Iterable[Path]) -> str:
        """Move what stands in the places of a run's files, and is not as a run has written it, to `kept-<time>`.

        Args:
            files: below the folder; those that are not there count for nothing.

        Returns:
            What was moved where, as a sentence, or "".
        """
        there = [file for file in files if file.is_symlink() or file.is_file()]
        strangers = [file for file in there if not self.is_as_written(file)]
        if not strangers:
            return ""
        aside = unused(self.folder / f"kept-{time.strftime('%Y%m%d-%H%M%S')}")
        for file in strangers:
            target = aside / file.relative_to(self.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(file, target)
        remove_empty({parent for file in strangers for parent in file.parents if parent.is_relative_to(self.folder)})
        return f"{len(strangers)} files that no run has written as they were are now in {aside}"


def _below(name: str) -> str:
    """
    Raises:
        ValueError: it is no path below a folder.
    """
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise ValueError(name)
    return name


def _print_of(file: Path) -> tuple[int, str]:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return file.stat().st_size, digest
