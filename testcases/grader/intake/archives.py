"""Names and bytes of what one person handed in: folders, zips and tars, with bounds on everything and trust in nothing.

Nothing is unpacked: a name in an archive, wherever it leads, is a name and no place on the disk. This runs in a process
of its own (submissions.py), which has limits on time and memory as well.
"""

import io
import os
import re
import stat
import tarfile
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO

Reader = Callable[[], bytes]
"""Gives the bytes of a file, or raises Unreadable."""

MAX_FILE = 1_000_000
MAX_LISTED = 100_000
"""Files of one submission."""
MAX_DEPTH = 10
MAX_ARCHIVE = 100_000_000
MAX_UNPACKED = 200_000_000
"""Bytes of a tar, junk apart."""
MAX_INNER = 20
"""Archives inside of others, however deep."""
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
PACKED = (".rar", ".7z", ".zipx", ".zst", ".lzh", ".dmg")
"""What nothing here can open."""
JUNK = re.compile(
    r"(^|/)(__MACOSX|__pycache__|\.git|\.?venv[^/]*|\.?env|virtualenv|node_modules|site-packages|\.tox"
    r"|\.(mypy|pytest|ruff)_cache|\.ipynb_checkpoints|\.idea|\.vscode|\.DS_Store|\._[^/]*)(/|$)"
)
"""What is no work of a student, however much of it there is: it counts against no limit."""
KINDS = {stat.S_IFREG: "a file", stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder"}


class Unreadable(Exception):
    """A submission, or a file, that cannot be read; the text says why."""


class Tree:
    """All files of a submission, those in archives under the archive's name as if it were a folder.

    Attributes:
        readers: name, with "/" between folders -> what gives its bytes.
        notes: what was left out, and why.
    """

    def __init__(self) -> None:
        self.readers: dict[str, Reader] = {}
        self.notes: list[str] = []

    def read(self, name: str) -> bytes:
        return self.readers[name]()

    def add_file(self, path: Path, name: str) -> None:
        self.readers[name] = partial(read_file, path, limit_of(name))

    def add_folder(self, top: Path, prefix: str = "") -> None:
        """Walk a folder without following anything, what is near the top first."""
        waiting = deque([(top, prefix, 0)])
        while waiting:
            folder, above, depth = waiting.popleft()
            try:
                with os.scandir(folder) as found:
                    entries = sorted(found, key=lambda entry: entry.name)
            except OSError as error:
                self.notes.append(f"{above or 'the folder'} cannot be read: {error.strerror}")
                continue
            for entry in entries:
                name, mode = above + entry.name, entry.stat(follow_symlinks=False).st_mode
                if JUNK.search(name):
                    continue
                if not stat.S_ISDIR(mode):
                    problem = "" if stat.S_ISREG(mode) else kind_of(mode)
                    if not self._put(name, partial(read_file, Path(entry.path), limit_of(name)), problem):
                        return
                elif depth < MAX_DEPTH:
                    waiting.append((Path(entry.path), f"{name}/", depth + 1))
                else:
                    self.notes.append(f"folders in {above} are too deep: not read")

    def add_archive(self, name: str, file: IO[bytes], prefix: str = "") -> None:
        """Raises Unreadable: it is broken."""
        try:
            for inner, reader, problem in (_in_zip if name.lower().endswith(".zip") else _in_tar)(file):
                if not self._put(prefix + inner, reader, problem):
                    return
        except Unreadable:
            raise
        except Exception as error:
            raise Unreadable(f"{name} is not an archive that can be opened: {type(error).__name__}: {error}") from None

    def open_inner(self) -> None:
        """Archives inside, and those inside of them."""
        opened: set[str] = set()
        while inner := sorted(name for name in self.readers if is_archive(name) and name not in opened):
            for name in inner:
                if len(opened) == MAX_INNER:
                    self.notes.append(f"more than {MAX_INNER} archives inside, such as {name}: the rest was not read")
                    return
                opened.add(name)
                try:
                    self.add_archive(name, io.BytesIO(self.read(name)), f"{name}/")
                except Unreadable as error:
                    self.notes.append(f"{name}: {error}")

    def _put(self, name: str, reader: Reader, problem: str) -> bool:
        """Keep one file, or say why not; False where there are too many."""
        if len(self.readers) >= MAX_LISTED:
            self.notes.append(f"more than {MAX_LISTED:,} files: the rest was not read")
            return False
        if problem:
            self.notes.append(f"{name} is {problem}: not read")
            return True
        if name in self.readers:
            self.notes.append(f"{name} is in it more than once: the last one was read")
        self.readers[name] = reader
        return True


def _in_zip(file: IO[bytes]) -> Iterator[tuple[str, Reader, str]]:
    """Name, reader and problem of each file."""
    archive = zipfile.ZipFile(file)
    for info in archive.infolist():
        name, mode = info.filename.replace("\\", "/").removeprefix("./"), info.external_attr >> 16
        if not info.is_dir() and not JUNK.search(name):
            is_file = stat.S_IFMT(mode) in (0, stat.S_IFREG)
            yield name, partial(_member, archive, info), "" if is_file else kind_of(mode)


def _in_tar(file: IO[bytes]) -> Iterator[tuple[str, Reader, str]]:
    """The same. It is read as a stream, once; a member's size is known before its bytes are unpacked."""
    left = MAX_UNPACKED
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for member in archive:
            name, problem, data = member.name.removeprefix("./"), "", b""
            if member.isdir() or JUNK.search(name):
                continue
            left -= member.size
            if left < 0:
                raise Unreadable(f"unpacks to more than {MAX_UNPACKED:,} bytes")
            if not member.isreg():
                problem = "a link" if member.islnk() or member.issym() else "a device"
            elif name.endswith((".py", *ARCHIVES)) and (content := archive.extractfile(member)):
                data = content.read(limit_of(name) + 1)
            yield name, partial(_bounded, data, limit_of(name)), problem


def is_archive(name: str) -> bool:
    return name.lower().endswith(ARCHIVES)


def stem_of(name: str) -> str:
    """The name without the ending of an archive."""
    ending = next((ending for ending in ARCHIVES + PACKED if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)] if len(ending) < len(name) else name


def packed_problem(name: str) -> str:
    """What to do with an archive that is not read; empty for anything else."""
    if is_archive(name) or not name.lower().endswith(PACKED):
        return ""
    wanted = f"a folder or an archive ({', '.join(ARCHIVES)})"
    return f"expected {wanted}, got {name}: unpack it into a folder of the same name, and remove it"


def limit_of(name: str) -> int:
    return MAX_ARCHIVE if is_archive(name) else MAX_FILE


def open_file(path: Path) -> IO[bytes]:
    """Raises Unreadable: it is not a regular file now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(f"cannot be opened: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable("not a regular file")
    return os.fdopen(descriptor, "rb")


def read_file(path: Path, limit: int) -> bytes:
    """Raises Unreadable: it is not a regular file now, or too large."""
    with open_file(path) as file:
        return _bounded(file.read(limit + 1), limit)


def _bounded(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise Unreadable(f"larger than {limit:,} bytes: not read")
    return data


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.flag_bits & 1:
        raise Unreadable("encrypted: not read")
    limit = limit_of(info.filename)
    try:
        with archive.open(info) as file:
            data = file.read(limit + 1)
    except Exception as error:
        raise Unreadable(f"damaged: {type(error).__name__}") from None
    return _bounded(data, limit)


def kind_of(mode: int) -> str:
    return KINDS.get(stat.S_IFMT(mode), "a device")
