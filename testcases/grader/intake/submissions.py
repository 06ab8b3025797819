"""Reads the few files of a submission that are graded, by their bytes, trusting nothing about them."""

import contextlib
import difflib
import hashlib
import io
import multiprocessing
import os
import re
import resource
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from testcases.harness.catalog import strange_encoding

from .. import linux
from ..status import CLOSED, ENCODING, NEAR, NEWER, SECOND, SYNTAX
from . import archives, syntax
from .archives import Source, Unreadable, is_archive, printable, stem_of
from .exports import HandIn
from .selection import Chosen, choose, course_files, exercises_in, is_given, is_untouched

NOTEBOOK = ".ipynb"
CODE = (".py", ".py.txt", NOTEBOOK)
COPY = re.compile(r"copy of|kopie von|copie de|\bcopy\b|\bkopie\b|\bfinal\b|\(\d+\)|[-_ ]v?\d+$|[-_ ]+$|^[-_ ]+")
"""What browsers and people add to the name of a file."""
MAX_NOTES = 20
MAX_BESIDE = 200
"""Modules of the student's own."""
MAX_BYTES = 20_000_000
"""Of all files together."""
MAX_ARCHIVES = 20
READ_SECONDS = 30
READ_BYTES = 2**30
GIVEN = {"__init__.py", "__main__.py", "shapes.py", "conftest.py"}
"""Nobody misnames a lesson's file to one of these."""


@dataclass(frozen=True)
class Doubt:
    """Something that an instructor should look at."""

    kind: str
    text: str


@dataclass
class Submission(HandIn):
    """What a student handed in, read as far as it is graded."""

    folder: str = ""
    """Which part of it is graded: a folder in it, "." for the whole."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Path below `tutorial/` -> bytes: files of the course, and the modules beside them."""
    doubts: list[Doubt] = field(default_factory=list)
    kept: dict[str, Any] = field(default_factory=dict)
    """Lesson -> its marks, where nothing has changed that they depend on."""
    newer: dict[str, str] = field(default_factory=dict)
    """Path below `tutorial/` -> why the grader's Python cannot read what a newer one can."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Path below `tutorial/` -> why the file that is there cannot be read."""
    others: list[str] = field(default_factory=list)
    """Other Python files that were found: perhaps one of them was meant."""
    unread: list[str] = field(default_factory=list)
    """Files of a part without any code: of interest where the other parts have none either."""
    status: str = "graded"

    @property
    def exported(self) -> list[str]:
        """The names of its files and folders in the export: an LMS takes feedback under the same ones."""
        return [path.name for path, _ in self.parts]

    @property
    def told(self) -> dict[str, Any]:
        """What the export says of it, which is in its result and no part of the mark."""
        return {"system": self.system, "exported": self.exported}

    @property
    def content(self) -> str:
        """A hash of all that the mark depends on."""
        found = hashlib.sha256(repr((self.student, self.notes, self.others, self.status)).encode("utf-8", "replace"))
        for path, data in sorted(self.files.items()):
            found.update(f"{path}\0{len(data)}\0".encode("utf-8", "surrogatepass") + data)
        return found.hexdigest()

    def note(self, text: str) -> None:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(printable(text)[:300])

    def doubt(self, kind: str, text: str) -> None:
        """A note that nobody should overlook."""
        self.note(text)
        if len(self.doubts) < MAX_NOTES:
            self.doubts.append(Doubt(kind, printable(text)[:300]))

    def has_work(self) -> bool:
        return any(path in self.files for path in course_files())


def close_match(path: str, others: list[str]) -> str:
    """Such as "; there is lesson04_gae/Gae (1).py: was it renamed?"."""
    found = close_name(path, others)
    return f"; there is {printable(found)}: was it renamed?" if found else ""


def close_name(path: str, others: list[str]) -> str | None:
    """The file that has almost the name of one of the course's."""
    wanted = path.rpartition("/")[2].lower()
    by_name = {other: f"{_plain(other)}.py" for other in others}
    # A notebook is meant only by the whole name: the course has some of its own.
    by_name = {other: name for other, name in by_name.items() if name == wanted or not other.endswith(NOTEBOOK)}
    close = difflib.get_close_matches(wanted, list(by_name.values()), n=1, cutoff=0.75)
    return next((other for other, name in by_name.items() if close and name == close[0]), None)


def _plain(name: str) -> str:
    """The name of a file without its ending, its case and what was added to it."""
    stem = re.sub(r"\.(py|ipynb|txt)", "", name.rpartition("/")[2].lower())
    while (shorter := COPY.sub("", stem).strip()) != stem:
        stem = shorter
    return stem


def read_submission(hand_in: HandIn) -> Submission:
    """Read one submission, in a process of its own: an archive can make its reader slow, or large.

    Whatever is wrong with it is said in its notes.
    """
    found = in_a_process(lambda: _read(hand_in), READ_SECONDS)
    return found or unreadable(hand_in, f"reading it takes more than {READ_SECONDS} seconds, or too much memory")


def unreadable(hand_in: HandIn, why: str) -> Submission:
    """A submission of which nothing was read."""
    found = _empty(hand_in)
    found.status = "unreadable"
    found.note(why)
    return found


def in_a_process(work: Callable[[], Any], seconds: float) -> Any:
    """What it returns, from a process with bounded memory; None if there is nothing in time."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, work), daemon=True)
    process.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(seconds) else None
    except (EOFError, OSError):
        found = None
    process.kill()
    process.join()
    ours.close()
    return found


def from_folder(folder: Path, student: str) -> Submission:
    """One folder as a submission: the working tree."""
    return read_submission(HandIn(student, student, [(folder, student)]))


def _send(connection: Connection, work: Callable[[], Any]) -> None:
    with contextlib.suppress(AttributeError, OSError):
        linux.die_with_parent()
    with contextlib.suppress(OSError, ValueError):
        held = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + READ_BYTES,) * 2)
    connection.send(work())


def _empty(hand_in: HandIn) -> Submission:
    return Submission(**{**vars(hand_in), "notes": [*hand_in.notes]})


def _read(hand_in: HandIn) -> Submission:
    submission = _empty(hand_in)
    problems = []
    try:
        for origin, source in _sources(hand_in):
            try:
                _take(submission, source(), origin)
            except Unreadable as error:
                problems.append(str(error))
    except Exception as error:  # Whatever an archive can do to its reader must not stop the batch.
        problems.append(f"cannot be read: {type(error).__name__}: {error}")
    for problem in problems:
        submission.note(problem)
    for part, _ in hand_in.parts if submission.has_work() else ():
        _doubt_packed(submission, part.name)
    if submission.folder:
        place = "the top folder" if submission.folder == "." else printable(submission.folder)[:200]
        submission.notes.insert(0, f"graded: {place}")
    if not submission.has_work():
        submission.status = "unreadable" if problems else "empty"
        if not problems:
            there_is = ", ".join((submission.others or submission.unread)[:3])
            expected = (
                f": expected Python files, or an archive ({', '.join(archives.ARCHIVES)})" if submission.unread else ""
            )
            submission.note(f"no file of the course in it{there_is and f'; there is {there_is}'}{expected}")
    for look in (_doubt_names, _doubt_syntax):
        try:
            look(submission)
        except Exception as error:  # It is about this submission, and its marks do not need it.
            submission.doubt(SYNTAX, f"it could not be looked at: {type(error).__name__} in {look.__name__}")
    return submission


def _doubt_names(submission: Submission) -> None:
    for path in course_files():
        if path not in submission.files and (close := close_match(path, submission.others)):
            submission.doubt(NEAR, f"no {path}{close}")


def _doubt_syntax(submission: Submission) -> None:
    own = {part for path in submission.files for part in path.removesuffix(".py").split("/")} | {"tutorial"}
    for path, data in sorted(submission.files.items()):
        if encoding := strange_encoding(data) if path.endswith(".py") else "":
            submission.doubt(ENCODING, f"{path} is written in {encoding}, so its comments may hold code")
        if found := syntax.problem(data, own) if path.endswith(".py") else None:
            submission.doubt(NEWER if found.newer else SYNTAX, f"{path}, {found}")
            submission.newer.update({path: str(found)} if found.newer else {})


def _sources(hand_in: HandIn) -> Iterator[tuple[str, Callable[[], Source]]]:
    """Each part with the name it came under, to be opened; single files are one part together."""
    # A file has another name in the submission only where an LMS has put the student's name before its own.
    single = {name: path for path, name in hand_in.parts if name != path.name and not path.is_dir()}
    single = {name: path for name, path in single.items() if stem_of(path.name) == path.name}
    if not any(name.lower().endswith(CODE) for name in single):
        single = {}
    if single:
        yield hand_in.student, lambda: archives.Files(single)
    for path, name in hand_in.parts:
        if name not in single:
            yield stem_of(name), partial(_open, path)


def _open(path: Path) -> Source:
    """Raises Unreadable: it is neither a folder nor an archive, or a broken one."""
    kind = os.lstat(path).st_mode
    if stat.S_ISDIR(kind):
        return archives.Folder(path)
    if stat.S_ISREG(kind) and is_archive(path.name):
        return archives.open_archive(path.name, archives.open_file(path))
    what = f"{archives.kind_of(kind)}, {path.name}"
    if problem := archives.packed_problem(path.name):
        raise Unreadable(problem)
    raise Unreadable(f"expected a folder or an archive ({', '.join(archives.ARCHIVES)}), got {what}: not read")


def _take(submission: Submission, source: Source, origin: str, above: str = "", depth: int = 0) -> None:
    """Choose the files to grade, or those of the archives inside.

    Args:
        above: the archives in which this one lies, for the reader.
    """
    for note in source.notes:
        submission.note(note)
    names = list(source.readers)
    chosen = choose(names, source.read, origin)
    for note in chosen.notes:
        submission.note(note)
    inner = sorted((name for name in names if is_archive(name)), key=_by_number)
    if not inner and not any(name.endswith(".py") for name in names):
        submission.unread += [name for name in names if not archives.packed_problem(name)][:3]
    for text in chosen.second:
        submission.doubt(SECOND, text)
    for name in names:
        _doubt_packed(submission, name)
    for name in inner[-MAX_ARCHIVES:] if depth < 2 else ():
        try:
            archive = archives.open_archive(name, io.BytesIO(source.read(name)))
        except Unreadable as error:
            submission.note(f"{name}: {error}")
            continue
        if not chosen.files or chosen.untouched:
            _take(submission, archive, stem_of(name), f"{above}{name}/", depth + 1)
        elif path := _another_text(source, chosen, archive, stem_of(name)):
            submission.doubt(SECOND, f"graded {above}{chosen.folder}; {name} has another {path}")
    if chosen.untouched and submission.has_work():
        submission.note(f"not graded: {above}{chosen.folder}, since it is as it was handed out")
        return
    _read_chosen(submission, source, chosen, above)


def _doubt_packed(submission: Submission, name: str) -> None:
    if problem := archives.packed_problem(name):
        submission.doubt(CLOSED, problem)


def _another_text(source: Source, chosen: Chosen, archive: Source, origin: str) -> str:
    """The first file of the course of which an archive has another text than the folder that it lies in; or empty."""
    inside = choose(list(archive.readers), archive.read, origin)
    for path, name in inside.files.items() if not inside.untouched else ():
        with contextlib.suppress(Unreadable):
            if path in chosen.files and archive.read(name) != source.read(chosen.files[path]):
                return path
    return ""


def _read_chosen(submission: Submission, source: Source, chosen: Chosen, above: str) -> None:
    if chosen.folder:
        place = above + ("" if chosen.folder == "." else chosen.folder)
        submission.folder = ", ".join(filter(None, [submission.folder, place.rstrip("/") or "."]))
    for path, name in [*chosen.files.items(), *chosen.beside.items()]:
        try:
            data = source.read(name)
        except Unreadable as error:
            submission.note(f"{name}: {error}")
            submission.damaged[path] = str(error)
            continue
        if submission.files.get(path, data) != data:
            if path in course_files() and exercises_in(path) and is_untouched(path, data):
                continue
            if not is_untouched(path, submission.files[path]):
                twice = f"{path} was handed in more than once: graded the one in {above or 'the folder '}{name}"
                submission.doubt(SECOND, twice)
        held = sum(map(len, submission.files.values()))
        if path in chosen.beside and (len(submission.files) >= MAX_BESIDE or held + len(data) > MAX_BYTES):
            submission.note(f"{name} is one module too many beside the lessons: not read")
        else:
            submission.files[path] = data
    known = {*chosen.files.values(), *chosen.passed_over}
    others = [name for name in source.readers if name.lower().endswith(CODE) and name not in known]
    others = [name for name in others if name.rpartition("/")[2] not in GIVEN]
    for name in others:
        _doubt_copy(submission, source, chosen, name)
    submission.others = sorted({*submission.others, *map(printable, others)})[:50]


def _doubt_copy(submission: Submission, source: Source, chosen: Chosen, name: str) -> None:
    """`gae (1).py` beside `gae.py`: nobody knows which is meant, unless nobody has worked on that one."""
    if is_given(name):
        return
    for path, graded in chosen.files.items():
        if path.rpartition("/")[2].lower() == f"{_plain(name)}.py" and exercises_in(path):
            with contextlib.suppress(Unreadable):
                data, known = source.read(name), submission.files.get(path, b"")
                if data == known or is_untouched(path, data):
                    continue
                if is_untouched(path, known):
                    submission.doubt(
                        NEAR, f"{graded} is as it was handed out; there is {printable(name)}: was it meant?"
                    )
                else:
                    submission.doubt(SECOND, f"graded {graded}; {name} has almost its name, and another text")


def _by_number(name: str) -> list[tuple[int, str]]:
    """So that part 10 comes after part 9."""
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", name)]
