"""Names and bytes of what one person handed in: folders, zips and tars, with bounds on everything and trust in nothing.

It runs in a process of its own (submissions.py), which has limits on time and memory as well.
"""

import io
import os
import re
import stat
import tarfile
import zipfile
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

MAX_FILE = 1_000_000
MAX_LISTED = 100_000
"""Files of one submission."""
MAX_DEPTH = 10
MAX_ARCHIVE = 100_000_000
MAX_UNPACKED = 200_000_000
"""Bytes of a tar, junk apart."""
MAX_JUNK = 8 * 2**30
MAX_INNER, MAX_NESTED = 20, 2
"""Archives inside of others: how many, and how deep."""
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
PACKED = (".rar", ".7z", ".zipx", ".zst", ".lzh", ".dmg")
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
        readers: name, with "/" between folders -> what gives its bytes, or raises Unreadable.
        notes: what was left out, and why.
    """

    def __init__(self) -> None:
        self.readers: dict[str, Callable[[], bytes]] = {}
        self.notes: list[str] = []
        self._kept = 0

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
                name = above + entry.name
                kind = entry.stat(follow_symlinks=False).st_mode
                if JUNK.search(name):
                    continue
                if not stat.S_ISDIR(kind):
                    problem = "" if stat.S_ISREG(kind) else kind_of(kind)
                    if not self._put(name, partial(read_file, Path(entry.path), limit_of(name)), problem):
                        return
                elif depth < MAX_DEPTH:
                    waiting.append((Path(entry.path), f"{name}/", depth + 1))
                else:
                    self.notes.append(f"folders in {above} are too deep: not read")

    def add_archive(self, name: str, file: IO[bytes], prefix: str = "") -> None:
        """Raises Unreadable: it is broken."""
        try:
            (self._add_zip if name.lower().endswith(".zip") else self._add_tar)(file, prefix)
        except Unreadable:
            raise
        except Exception as error:
            raise Unreadable(f"{name} is not an archive that can be opened: {type(error).__name__}: {error}") from None

    def open_inner(self) -> None:
        """Archives inside, and those inside of them."""
        opened: set[str] = set()
        for _ in range(MAX_NESTED):
            for name in sorted(name for name in self.readers if is_archive(name) and name not in opened):
                opened.add(name)
                if len(opened) > MAX_INNER:
                    self.notes.append(f"more than {MAX_INNER} archives inside: the rest was not read")
                    return
                try:
                    self.add_archive(name, io.BytesIO(self.read(name)), f"{name}/")
                except Unreadable as error:
                    self.notes.append(f"{name}: {error}")
        if deeper := [name for name in self.readers if is_archive(name) and name not in opened]:
            self.notes.append(f"archives deeper than {MAX_NESTED}, such as {deeper[0]}: not read")

    def _put(self, name: str, reader: Callable[[], bytes], problem: str = "") -> bool:
        """Keep one file, or say why not; False where there are too many."""
        if len(self.readers) >= MAX_LISTED:
            self.notes.append(f"more than {MAX_LISTED:,} files: the rest was not read")
            return False
        if problem:
            self.notes.append(f"{name} is {problem}: not read")
        else:
            if name in self.readers:
                self.notes.append(f"{name} is in it more than once: the last one was read")
            self.readers[name] = reader
        return True

    def _add_zip(self, file: IO[bytes], prefix: str) -> None:
        archive = zipfile.ZipFile(file)
        for info in archive.infolist():
            name = info.filename.replace("\\", "/").removeprefix("./")
            kind = info.external_attr >> 16
            if info.is_dir() or JUNK.search(name):
                continue
            problem = path_problem(info.filename)
            if stat.S_IFMT(kind) not in (0, stat.S_IFREG):
                problem = kind_of(kind)
            if not self._put(prefix + name, partial(_member, archive, info), problem):
                return

    def _add_tar(self, file: IO[bytes], prefix: str) -> None:
        """Read as a stream, once. A member's size is known before its bytes are unpacked."""
        left, junk = MAX_UNPACKED, MAX_JUNK
        with tarfile.open(fileobj=file, mode="r|*") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if JUNK.search(name):
                    junk -= member.size
                else:
                    left -= member.size
                if min(left, junk) < 0:
                    raise Unreadable(f"unpacks to more than {MAX_UNPACKED:,} bytes")
                if member.isdir() or JUNK.search(name):
                    continue
                problem, data = path_problem(member.name), b""
                if not member.isreg():
                    problem = "a link" if member.islnk() or member.issym() else "a device"
                elif not problem and name.endswith((".py", *ARCHIVES)):
                    data = self._content(archive, member)
                if not self._put(prefix + name, partial(_bounded_bytes, data, limit_of(name)), problem):
                    return

    def _content(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
        content = archive.extractfile(member)
        data = content.read(limit_of(member.name) + 1) if content else b""
        self._kept += len(data)
        if self._kept > MAX_ARCHIVE:
            raise Unreadable("it holds too much")
        return data


def printable(text: str) -> str:
    """In one line, without control characters and half characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(letter if letter.isprintable() else "?" for letter in text)


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
        return _bounded_bytes(file.read(limit + 1), limit)


def _bounded_bytes(data: bytes, limit: int) -> bytes:
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
    return _bounded_bytes(data, limit)


def path_problem(name: str) -> str:
    if "\0" in name or name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
        return "an absolute path"
    return "a path that leads out of the archive" if ".." in re.split(r"[/\\]", name) else ""


def kind_of(mode: int) -> str:
    kinds = {
        stat.S_IFREG: "another file",
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a folder",
    }
    return kinds.get(stat.S_IFMT(mode), "no regular file")
