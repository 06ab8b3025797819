"""What a run has written into its folder, with size and hash: all that a later run may remove there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from .files import write_whole

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
                self.known = {name: (int(size), str(digest)) for name, (size, digest) in found.items()}
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(
                    f"expected {self.file} as a run has written it, got a damaged file; choose another OUT"
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

    def remove(self) -> None:
        """Remove each file that is as it was recorded, and the folders that are empty then. Nothing else."""
        for name, (size, digest) in self.known.items():
            file = self.folder / name
            is_ours = file.is_file() and not file.is_symlink() and file.stat().st_size == size
            if is_ours and _print_of(file) == (size, digest):
                file.unlink()
        self.file.unlink(missing_ok=True)
        folders = {parent for name in self.known for parent in (self.folder / name).parents}
        for folder in sorted(folders, key=lambda one: -len(one.parts)):
            if folder.is_relative_to(self.folder) and folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def _print_of(file: Path) -> tuple[int, str]:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return file.stat().st_size, digest
