"""Names and bytes of what was handed in, a folder or an archive, with bounds on everything and trust in nothing."""

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, cast

MAX_FILE = 1_000_000
MAX_ENTRIES = 5_000
"""Python files and archives; all else is only listed."""
MAX_LISTED = 100_000
MAX_MEMBERS = 300_000
"""Of a zip, junk included: its list is read as a whole."""
MAX_DEPTH = 10
MAX_ARCHIVE = 100_000_000
MAX_UNPACKED = 200_000_000
MAX_JUNK = 8 * 2**30
"""Bytes of a tar that are skipped."""
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
PACKED = (".rar", ".7z", ".zipx", ".zst", ".lzh", ".dmg")
"""What nothing here can open."""
ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
JUNK = re.compile(
    r"(^|/)(__MACOSX|__pycache__|\.git|\.?venv[^/]*|\.?env|virtualenv|node_modules|site-packages|\.tox"
    r"|\.(mypy|pytest|ruff)_cache|\.ipynb_checkpoints|\.idea|\.vscode|\.DS_Store|\._[^/]*)(/|$)"
)
"""What is no work of a student, however much of it there is: it counts against no limit."""


class Unreadable(Exception):
    """A submission, or a file, that cannot be read; the text says why."""


class Source:
    """Names and bytes of what was handed in.

    Attributes:
        notes: what was left out, and why.
        readers: name, with "/" between folders -> what gives its bytes, or raises Unreadable.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.readers: dict[str, Callable[[], bytes]] = {}
        self._count = {True: 0, False: 0}

    def read(self, name: str) -> bytes:
        return self.readers[name]()

    def is_full(self, name: str) -> bool:
        """Count one more file, and say whether that is too many."""
        useful = name.endswith(".py") or is_archive(name)
        self._count[useful] += 1
        limit = MAX_ENTRIES if useful else MAX_LISTED
        if self._count[useful] > limit:
            self.notes.append(f"more than {limit:,} files: the rest was not read")
        return self._count[useful] > limit


class Files(Source):
    """Single files, each under the name that it has in the submission."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        super().__init__()
        self.readers = {name: partial(read_file, path, limit_of(path.name)) for name, path in paths.items()}


class Folder(Source):
    """A folder, walked without following anything, what is near the top first."""

    def __init__(self, top: Path) -> None:
        super().__init__()
        for name, path, kind in self._walk(top):
            if stat.S_ISREG(kind):
                self.readers[name] = partial(read_file, path, limit_of(path.name))
            else:
                self.notes.append(f"{name} is {kind_of(kind)}: not read")

    def _walk(self, top: Path) -> Iterator[tuple[str, Path, int]]:
        waiting = deque([(top, "", 0)])
        while waiting:
            folder, prefix, depth = waiting.popleft()
            try:
                with os.scandir(folder) as found:
                    entries = sorted(islice(found, MAX_LISTED + 1), key=lambda entry: entry.name)
            except OSError as error:
                self.notes.append(f"{prefix or 'the folder'} cannot be read: {error.strerror}")
                continue
            for entry in entries:
                name = prefix + entry.name
                if JUNK.search(name):
                    continue
                if self.is_full(name):
                    return
                kind = entry.stat(follow_symlinks=False).st_mode
                if not stat.S_ISDIR(kind):
                    yield name, Path(entry.path), kind
                elif depth < MAX_DEPTH:
                    waiting.append((Path(entry.path), f"{name}/", depth + 1))
                else:
                    self.notes.append(f"folders in {prefix} are too deep: not read")


class _Zip(Source):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        if _count(file, b"PK\1\2") > MAX_MEMBERS:
            raise Unreadable(f"it lists more than {MAX_MEMBERS:,} files")
        archive = zipfile.ZipFile(file)
        for info in archive.infolist():
            name = info.filename.replace("\\", "/").removeprefix("./")
            kind = info.external_attr >> 16
            if info.is_dir() or JUNK.search(name):
                continue
            if self.is_full(name):
                break
            if problem := path_problem(info.filename):
                self.notes.append(f"{name} is {problem}: not read")
            elif stat.S_IFMT(kind) not in (0, stat.S_IFREG):
                self.notes.append(f"{name} is {kind_of(kind)}: not read")
            else:
                if name in self.readers:
                    self.notes.append(f"{name} is in it more than once: the last one was read")
                self.readers[name] = partial(self._member, archive, info)

    @staticmethod
    def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
        if info.flag_bits & 1:
            raise Unreadable("encrypted: not read")
        if info.compress_type not in ZIP_METHODS:
            raise Unreadable("packed by a rare method: not read")
        try:
            with archive.open(info) as file:
                return _bounded(file, limit_of(info.filename))
        except Unreadable:
            raise
        except Exception as error:
            raise Unreadable(f"damaged: {type(error).__name__}") from None


class _Tar(Source):
    """Read as a stream, once: only Python files and inner archives are kept."""

    def __init__(self, name: str, packed: IO[bytes]) -> None:
        super().__init__()
        self._kept = 0
        unpacked = _Unpacked(name, packed)
        with tarfile.open(fileobj=unpacked, mode="r|") as archive:
            for member in archive:
                path = member.name.removeprefix("./")
                if JUNK.search(path):
                    unpacked.skip(member.size)
                    continue
                if member.isdir():
                    continue
                if self.is_full(path):
                    break
                self._take(archive, member, path)

    def _take(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        if problem := path_problem(member.name):
            self.notes.append(f"{path} is {problem}: not read")
        elif not member.isreg():
            self.notes.append(f"{path} is {'a link' if member.islnk() or member.issym() else 'a device'}: not read")
        elif path.endswith(".py") or is_archive(path):
            limit = limit_of(path)
            content = archive.extractfile(member)
            data = content.read(min(member.size, limit + 1)) if content else b""
            self._kept += len(data)
            if self._kept > MAX_ARCHIVE:
                raise Unreadable("it holds too much")
            self.readers[path] = lambda: _bounded(io.BytesIO(data), limit)
        else:
            self.readers[path] = lambda: b""


class _Unpacked(io.RawIOBase):
    """The bytes of a packed tar, as many as are allowed."""

    def __init__(self, name: str, raw: IO[bytes]) -> None:
        lower = name.lower()
        self._file: IO[bytes]
        if lower.endswith(("gz", "tgz")):
            self._file = cast(IO[bytes], gzip.GzipFile(fileobj=raw))
        elif lower.endswith(("bz2", "tbz2")):
            self._file = bz2.BZ2File(raw)
        elif lower.endswith("xz"):
            # Its dictionary may be gigabytes: the decoder itself must refuse.
            self._file = _Xz(raw)  # type: ignore[assignment]
        else:
            self._file = raw
        self._left, self._junk = MAX_UNPACKED, MAX_JUNK

    def readable(self) -> bool:
        return True

    def skip(self, size: int) -> None:
        """So many of the bytes to come are nobody's work."""
        allowed = min(max(size, 0), self._junk)
        self._junk -= allowed
        self._left += allowed

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(min(size if size >= 0 else MAX_UNPACKED, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise Unreadable(f"unpacks to more than {MAX_UNPACKED:,} bytes")
        return data


class _Xz:
    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._decoder = raw, lzma.LZMADecompressor(memlimit=2**27)

    def read(self, size: int) -> bytes:
        found = b""
        while len(found) < size and not self._decoder.eof:
            data = self._raw.read(65_536) if self._decoder.needs_input else b""
            if self._decoder.needs_input and not data:
                break
            found += self._decoder.decompress(data, max_length=size - len(found))
        return found


def open_archive(name: str, file: IO[bytes]) -> Source:
    """Raises Unreadable: it is broken."""
    try:
        return _Zip(file) if name.lower().endswith(".zip") else _Tar(name, file)
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(f"{name} is not an archive that can be opened: {type(error).__name__}: {error}") from None


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
        return _bounded(file, limit)


def _bounded(file: IO[bytes], limit: int) -> bytes:
    data = file.read(limit + 1)
    if len(data) > limit:
        raise Unreadable(f"larger than {limit:,} bytes: not read")
    return data


def _count(file: IO[bytes], mark: bytes) -> int:
    """How often the mark is in the file; from its beginning to its beginning."""
    found, tail = 0, b""
    while block := file.read(2**20):
        found += (tail + block).count(mark)
        tail = block[1 - len(mark) :]
    file.seek(0)
    return found


def path_problem(name: str) -> str | None:
    if "\0" in name or name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
        return "an absolute path"
    return "a path that leads out of the archive" if ".." in re.split(r"[/\\]", name) else None


def kind_of(mode: int) -> str:
    kinds: Mapping[int, str] = {
        stat.S_IFREG: "another file",
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a folder",
    }
    return kinds.get(stat.S_IFMT(mode), "no regular file")
