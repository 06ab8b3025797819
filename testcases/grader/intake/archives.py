"""The files of what one person handed in: folders, zips and tars, with bounds on everything and trust in nothing.

Nothing is unpacked: a name in an archive, wherever it leads, is a name and no place on the disk. This runs in a process
of its own (submissions.py), which has limits on time and memory as well.
"""

import io
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

MAX_FILE = 1_000_000
MAX_FILES = 100_000
MAX_DEPTH = 20
"""Folders in folders."""
MAX_ARCHIVE = 300_000_000
MAX_UNPACKED = 200_000_000
"""Bytes that are read, and those of a tar, junk apart."""
MAX_ARCHIVES = 20
"""In one submission, however deep."""
CODE = (".py", ".py.txt", ".ipynb")
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
PACKED = (".rar", ".7z")
"""What nothing here can open."""
JUNK = re.compile(
    r"(^|/)(__MACOSX|__pycache__|\.git|\.?venv[^/]*|\.?env|virtualenv|node_modules|site-packages|\.tox"
    r"|\.(mypy|pytest|ruff)_cache|\.ipynb_checkpoints|\.idea|\.vscode|\.DS_Store|\._[^/]*)(/|$)"
)
"""What is no work of a student, however much of it there is: it counts against no limit."""


class Unreadable(Exception):
    """A submission, or a file, that cannot be read; the text says why."""


class Tree:
    """All files of a submission, those in archives under the archive's name as if it were a folder.

    Attributes:
        files: name, with "/" between folders -> bytes. What is no Python and no notebook has none.
        damaged: name of a file or an archive -> why it cannot be read.
        notes: what was left out, and why.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.damaged: dict[str, str] = {}
        self.notes: list[str] = []
        self._archives, self._left = 0, MAX_UNPACKED

    def add(self, path: Path, name: str) -> None:
        """Read a file, or a folder and what is in it, without following a link.

        Args:
            name: what it is called in the submission; empty for the top folder, and for the one archive.

        Raises:
            Unreadable: there is too much of it.
        """
        if JUNK.search(name):
            return
        try:
            mode = os.lstat(path).st_mode
            within = sorted(os.listdir(path)) if stat.S_ISDIR(mode) else []
        except OSError as error:
            self.damaged[name or path.name] = f"cannot be read: {error.strerror}"
            return
        if not stat.S_ISDIR(mode):
            self._keep(name or path.name, mode, lambda: path.open("rb"), f"{name}/" if name else "")
        elif name.count("/") < MAX_DEPTH:
            for inner in within:
                self.add(path / inner, f"{name}/{inner}" if name else inner)
        else:
            self.notes.append(f"folders in {name} are too deep: not read")

    def _keep(self, name: str, mode: int, opened: Callable[[], IO[bytes] | None], inside: str) -> None:
        """Read one file, of whatever kind, or say why not.

        Args:
            inside: what the names in it begin with, if it is an archive.
        """
        if len(self.files) >= MAX_FILES:
            raise Unreadable(f"more than {MAX_FILES:,} files")
        if not stat.S_ISREG(mode):
            self.notes.append(f"{name} is a link or a device: not read")
            return
        self.files[name] = b""
        try:
            if is_archive(name):
                self._add_archive(name, opened, inside)
            elif name.lower().endswith(PACKED):
                raise Unreadable("cannot be opened here: unpack it into a folder of the same name, and remove it")
            elif name.lower().endswith(CODE):
                data = _read(opened, MAX_FILE)
                self._spend(len(data))
                self.files[name] = data
        except Unreadable as error:
            self.damaged[name] = str(error)
        except Exception as error:  # An archive can do anything to its reader.
            # Without the path: an instructor's folders are no student's business.
            why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            self.damaged[name] = f"cannot be read: {why}"

    def _add_archive(self, name: str, opened: Callable[[], IO[bytes] | None], inside: str) -> None:
        self._archives += 1
        if self._archives > MAX_ARCHIVES:
            raise Unreadable(f"one of more than {MAX_ARCHIVES} archives: not read")
        add = self._add_zip if name.lower().endswith(".zip") else self._add_tar
        add(io.BytesIO(_read(opened, MAX_ARCHIVE)), inside)

    def _add_zip(self, file: IO[bytes], inside: str) -> None:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                name, mode = info.filename.replace("\\", "/"), info.external_attr >> 16
                if not info.is_dir() and not JUNK.search(name):
                    mode = mode if stat.S_IFMT(mode) else stat.S_IFREG
                    self._keep(inside + name, mode, partial(archive.open, info), f"{inside}{name}/")

    def _add_tar(self, file: IO[bytes], inside: str) -> None:
        """It is read as a stream, once; a member's size is known before its bytes are unpacked."""
        with tarfile.open(fileobj=file, mode="r|*") as archive:
            for member in archive:
                name, mode = member.name, stat.S_IFREG if member.isreg() else stat.S_IFLNK
                if not member.isdir() and not JUNK.search(name):
                    self._spend(member.size)
                    self._keep(inside + name, mode, partial(archive.extractfile, member), f"{inside}{name}/")

    def _spend(self, size: int) -> None:
        """Raises Unreadable: it is more than what is left, of which it takes nothing then."""
        if size > self._left:
            raise Unreadable(f"unpacks to more than {MAX_UNPACKED:,} bytes")
        self._left -= size


def _read(opened: Callable[[], IO[bytes] | None], limit: int) -> bytes:
    file = opened()
    assert file
    with file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Unreadable(f"larger than {limit:,} bytes: not read")
    return data


def is_archive(name: str) -> bool:
    return name.lower().endswith(ARCHIVES)


def stem_of(name: str) -> str:
    """The name without the ending of an archive."""
    ending = next((ending for ending in ARCHIVES + PACKED if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)] or name
