"""Finds submissions and reads the few files that are graded, by their bytes, trusting nothing about them."""

from __future__ import annotations

import bz2
import contextlib
import difflib
import gzip
import hashlib
import io
import lzma
import multiprocessing
import os
import re
import resource
import stat
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

from testcases.engine.contract import lesson_names

from . import kernel
from .choosing import choose, course_files

MAX_FILE = 1_000_000
MAX_ENTRIES = 5_000
MAX_LISTED = 100_000
MAX_DEPTH = 10
MAX_ARCHIVE = 100_000_000
MAX_UNPACKED = 200_000_000
MAX_NOTES = 20
READ_SECONDS = 30
READ_BYTES = 2**30
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
JUNK = re.compile(r"(^|/)(__MACOSX|__pycache__|\.git|\.venv|\.ipynb_checkpoints|\.DS_Store|\._[^/]*)(/|$)")


class Unreadable(Exception):
    """A submission that cannot be opened at all; the text says why."""


@dataclass
class Submission:
    """What a student handed in, as far as it is graded."""

    student: str
    """The name of the folder or archive, without control characters."""
    file_name: str = ""
    """Of the result, without ".json"."""
    folder: str = ""
    """Which part of it is graded: a folder in it, "." for the whole."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Path below `tutorial/` -> bytes; only files of the course."""
    notes: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Other Python files that were found: perhaps one of them was meant."""
    status: str = "graded"

    @property
    def content(self) -> str:
        """A hash of all that the mark depends on."""
        found = hashlib.sha256(repr((self.student, self.notes, self.others, self.status)).encode("utf-8", "replace"))
        for path, data in sorted(self.files.items()):
            found.update(f"{path}\0{len(data)}\0".encode() + data)
        return found.hexdigest()

    def note(self, text: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(printable(text)[:300])


def printable(text: str) -> str:
    """In one line, without control characters and half characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def close_match(path: str, others: list[str]) -> str:
    """Such as "; there is lesson04_gae/Gae (1).py: was it renamed?"."""
    wanted = path.rpartition("/")[2].lower()
    by_name = {other: other.rpartition("/")[2].lower() for other in others}
    close = difflib.get_close_matches(wanted, list(by_name.values()), n=1, cutoff=0.75)
    found = next((other for other, name in by_name.items() if close and name == close[0]), None)
    return f"; there is {printable(found)}: was it renamed?" if found else ""


@dataclass(frozen=True)
class Entry:
    """One thing in the folder of submissions."""

    path: Path
    student: str
    file_name: str
    notes: tuple[str, ...] = ()


def find(folder: Path) -> list[Entry]:
    """All submissions in a folder, each with a name of its own for its result.

    Raises:
        NotADirectoryError: there is no such folder.
        ValueError: it is one submission, and not a folder of them.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"there is no folder {str(folder)!r}")
    names = sorted(os.listdir(folder))
    if lessons := [name for name in names if name in lesson_names()]:
        raise ValueError(
            f"expected a folder with one subfolder (or archive) a student, got one with {lessons[0]} in it: "
            f"put it into a folder of the student's name"
        )
    names = [name for name in names if not JUNK.search(name) and not _is_hidden_file(folder / name)]
    students = {name: student_of(folder / name) for name in names}
    files = {name: re.sub(r"[^A-Za-z0-9._-]", "_", student)[:100] for name, student in students.items()}
    often = Counter(file.lower() for file in files.values())
    same = Counter(student.lower() for student in students.values())
    found = []
    for name, student in students.items():
        file, notes = files[name], []
        if file != student or often[file.lower()] > 1 or file.startswith("."):
            file += "~" + hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
        if same[student.lower()] > 1:
            notes.append("another submission has the same name, or one that differs only in capital letters")
        found.append(Entry(folder / name, printable(student)[:200], file.lstrip("."), tuple(notes)))
    return found


def _is_hidden_file(path: Path) -> bool:
    """Such as .gitkeep; a folder or an archive is a submission whatever its name."""
    return path.name.startswith(".") and not path.is_dir() and not path.name.lower().endswith(ARCHIVES)


def student_of(path: Path) -> str:
    """The name without the ending of an archive."""
    lower = path.name.lower()
    ending = next((ending for ending in ARCHIVES if lower.endswith(ending)), "")
    return path.name[: len(path.name) - len(ending)] if ending and len(ending) < len(lower) else path.name


def stage(entry: Entry) -> Submission:
    """Read one submission, in a process of its own: an archive can make its reader slow, or large.

    Whatever is wrong with it is said in its notes.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send_staged, args=(theirs, entry), daemon=True)
    process.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(READ_SECONDS) else None
    except (EOFError, OSError):
        found = None
    process.kill()
    process.join()
    ours.close()
    if found is None:
        found = Submission(entry.student, entry.file_name, notes=list(entry.notes), status="unreadable")
        found.note(f"reading it takes more than {READ_SECONDS} seconds, or too much memory")
    return found


def _send_staged(connection: Connection, entry: Entry) -> None:
    with contextlib.suppress(AttributeError, OSError):
        kernel.die_with_parent()
    with contextlib.suppress(OSError, ValueError):
        held = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + READ_BYTES,) * 2)
    connection.send(_stage(entry))


def _stage(entry: Entry) -> Submission:
    submission = Submission(entry.student, entry.file_name, notes=list(entry.notes))
    try:
        kind = os.lstat(entry.path).st_mode
        if stat.S_ISDIR(kind):
            _take(submission, _Folder(entry.path), entry.path.name)
        elif stat.S_ISREG(kind) and entry.path.name.lower().endswith(ARCHIVES):
            archive = _open_archive(entry.path.name, _read(entry.path, MAX_ARCHIVE))
            _take(submission, archive, student_of(entry.path))
        else:
            raise Unreadable(f"expected a folder or an archive ({', '.join(ARCHIVES)}), got {_kind(kind)}")
    except Unreadable as error:
        submission.status = "unreadable"
        submission.note(str(error))
    except Exception as error:  # Whatever an archive can do to its reader must not stop the batch.
        submission.status = "unreadable"
        submission.note(f"cannot be read: {type(error).__name__}: {error}")
    if submission.status == "graded" and not submission.files:
        submission.status = "empty"
        submission.note("no file of the course in it")
    return submission


def from_folder(folder: Path, student: str) -> Submission:
    """One folder as a submission: the working tree."""
    return stage(Entry(folder, student, student))


class _Source:
    """Names and bytes of what was handed in."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.readers: dict[str, Callable[[], bytes]] = {}


def _take(submission: Submission, source: _Source, origin: str, depth: int = 0) -> None:
    """Choose the files of the course."""
    for note in source.notes:
        submission.note(note)
    names = [name for name in source.readers if not JUNK.search(name)]
    chosen = choose(names, lambda name: source.readers[name](), origin)
    for note in chosen.notes:
        submission.note(note)
    if not chosen.files:
        inner = [name for name in names if name.lower().endswith(ARCHIVES)]
        if len(inner) == 1 and depth < 2:
            submission.note(f"graded the archive {inner[0]} inside")
            stem = student_of(Path(inner[0]))
            _take(submission, _open_archive(inner[0], source.readers[inner[0]]()), stem, depth + 1)
            return
    submission.folder = printable(chosen.folder)[:300]
    if chosen.folder:
        submission.note(f"graded: {chosen.folder if chosen.folder != '.' else 'the top folder'}")
    for path, name in chosen.files.items():
        try:
            submission.files[path] = source.readers[name]()
        except Unreadable as error:
            submission.note(f"{name}: {error}")
    taken = {*chosen.files.values(), *chosen.refused}
    handed_out = {"__init__.py", "__main__.py", "shapes.py", "conftest.py"}
    others = [name for name in names if name.endswith(".py") and name not in taken]
    submission.others = sorted(printable(name) for name in others if name.rpartition("/")[2] not in handed_out)[:50]
    for path in course_files():
        if path not in submission.files and (close := close_match(path, submission.others)):
            submission.note(f"no {path}{close}")


class _Folder(_Source):
    """A folder, walked without following anything."""

    def __init__(self, top: Path) -> None:
        super().__init__()
        for name, path, kind in self._walk(top):
            if stat.S_ISREG(kind):
                limit = MAX_ARCHIVE if name.lower().endswith(ARCHIVES) else MAX_FILE
                self.readers[name] = lambda path=path, limit=limit: _read(path, limit)
            else:
                self.notes.append(f"{name} is {_kind(kind)}: not read")

    def _walk(self, top: Path) -> Iterator[tuple[str, Path, int]]:
        waiting, count = [(top, "", 0)], 0
        while waiting:
            folder, prefix, depth = waiting.pop()
            try:
                with os.scandir(folder) as found:
                    entries = sorted(islice(found, MAX_ENTRIES + 1), key=lambda entry: entry.name)
            except OSError as error:
                self.notes.append(f"{prefix or 'the folder'} cannot be read: {error.strerror}")
                continue
            for entry in entries:
                count += 1
                if count > MAX_ENTRIES:
                    self.notes.append(f"more than {MAX_ENTRIES:,} files: the rest was not read")
                    return
                name = prefix + entry.name
                if JUNK.search(name):
                    continue
                kind = entry.stat(follow_symlinks=False).st_mode
                if not stat.S_ISDIR(kind):
                    yield name, Path(entry.path), kind
                elif depth < MAX_DEPTH:
                    waiting.append((Path(entry.path), f"{name}/", depth + 1))
                else:
                    self.notes.append(f"folders in {prefix} are too deep: not read")


def _read(path: Path, limit: int) -> bytes:
    """
    Raises:
        Unreadable: it is not a regular file now, or too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(f"cannot be opened: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable("not a regular file")
        return _bounded(file, limit)


def _bounded(file: IO[bytes], limit: int) -> bytes:
    data = file.read(limit + 1)
    if len(data) > limit:
        raise Unreadable(f"larger than {limit:,} bytes: not read")
    return data


def _open_archive(name: str, data: bytes) -> _Source:
    """
    Raises:
        Unreadable: it is broken.
    """
    try:
        return _Zip(data) if name.lower().endswith(".zip") else _Tar(name, data)
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(f"{name} is not an archive that can be opened: {type(error).__name__}: {error}") from None


def _path_problem(name: str) -> str | None:
    if "\0" in name or name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
        return "an absolute path"
    return "a path that leads out of the archive" if ".." in re.split(r"[/\\]", name) else None


class _Zip(_Source):
    def __init__(self, data: bytes) -> None:
        super().__init__()
        if data.count(b"PK\1\2") > MAX_LISTED:
            raise Unreadable(f"it lists more than {MAX_LISTED:,} files")
        archive = zipfile.ZipFile(io.BytesIO(data))
        for number, info in enumerate(archive.infolist()):
            if number >= MAX_ENTRIES:
                self.notes.append(f"more than {MAX_ENTRIES:,} files: the rest was not read")
                break
            name = info.filename.replace("\\", "/").removeprefix("./")
            kind = info.external_attr >> 16
            if info.is_dir() or JUNK.search(name):
                continue
            if problem := _path_problem(info.filename):
                self.notes.append(f"{name} is {problem}: not read")
            elif stat.S_IFMT(kind) not in (0, stat.S_IFREG):
                self.notes.append(f"{name} is {_kind(kind)}: not read")
            else:
                self.readers[name] = lambda info=info, archive=archive: self._member(archive, info)

    @staticmethod
    def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
        if info.flag_bits & 1:
            raise Unreadable("encrypted: not read")
        if info.compress_type not in ZIP_METHODS:
            raise Unreadable("packed by a rare method: not read")
        limit = MAX_ARCHIVE if info.filename.lower().endswith(ARCHIVES) else MAX_FILE
        try:
            with archive.open(info) as file:
                return _bounded(file, limit)
        except Unreadable:
            raise
        except Exception as error:
            raise Unreadable(f"damaged: {type(error).__name__}") from None


class _Tar(_Source):
    """Read as a stream, once: only files of the course and inner archives are kept."""

    def __init__(self, name: str, packed: bytes) -> None:
        super().__init__()
        wanted = {path.rpartition("/")[2] for path in course_files()}
        kept = 0
        with tarfile.open(fileobj=_Unpacked(name, packed), mode="r|") as archive:
            for number, member in enumerate(archive):
                if number >= MAX_ENTRIES:
                    self.notes.append(f"more than {MAX_ENTRIES:,} files: the rest was not read")
                    break
                path = member.name.removeprefix("./")
                if member.isdir() or JUNK.search(path):
                    continue
                if problem := _path_problem(member.name):
                    self.notes.append(f"{path} is {problem}: not read")
                elif not member.isreg():
                    kind = "a link" if member.islnk() or member.issym() else "a device"
                    self.notes.append(f"{path} is {kind}: not read")
                elif path.rpartition("/")[2] in wanted or path.lower().endswith(ARCHIVES):
                    limit = MAX_ARCHIVE if path.lower().endswith(ARCHIVES) else MAX_FILE
                    content = archive.extractfile(member)
                    data = content.read(min(member.size, limit + 1)) if content else b""
                    kept += len(data)
                    if kept > MAX_ARCHIVE:
                        raise Unreadable("it holds too much")
                    self.readers[path] = lambda data=data, limit=limit: _bounded(io.BytesIO(data), limit)
                else:
                    self.readers[path] = lambda: b""


class _Unpacked(io.RawIOBase):
    """The bytes of a packed tar, as many as are allowed."""

    def __init__(self, name: str, data: bytes) -> None:
        raw, lower = io.BytesIO(data), name.lower()
        self._file: IO[bytes]
        if lower.endswith(("gz", "tgz")):
            self._file = gzip.GzipFile(fileobj=raw)
        elif lower.endswith(("bz2", "tbz2")):
            self._file = bz2.BZ2File(raw)
        elif lower.endswith("xz"):
            # Its dictionary may be gigabytes: the decoder itself must refuse.
            self._file = _Xz(raw)  # type: ignore[assignment]
        else:
            self._file = raw
        self._left = MAX_UNPACKED

    def readable(self) -> bool:
        return True

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


def _kind(mode: int) -> str:
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
