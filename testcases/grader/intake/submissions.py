"""Reads the few files of a submission that are graded, by their bytes, trusting nothing about them."""

import codecs
import contextlib
import difflib
import hashlib
import multiprocessing
import os
import re
import resource
import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from testcases.harness.execution.sources import encoding_of

from ..sandbox.guest.worker import die_with_parent
from ..status import CLOSED, EMPTY, ENCODING, GRADED, NEAR, OLDER, SECOND, UNREADABLE
from ..text import clean
from .archives import ARCHIVES, Tree, Unreadable, is_archive, kind_of, open_file, packed_problem
from .exports import HandIn
from .selection import choose, course_files, exercises_in, is_untouched

NOTEBOOK = ".ipynb"
CODE = (".py", ".py.txt", NOTEBOOK)
COPY = re.compile(
    r"copy of|kopie von|copie de|(?<![a-z])(copy|kopie|final)(?![a-z])|\(\d+\)|[-_ ]v?\d+$|[-_ ]+$|^[-_ ]+"
)
"""What browsers and people add to the name of a file."""
MAX_NOTES = 20
MAX_BESIDE = 200
"""Modules of the student's own."""
MAX_BYTES = 20_000_000
"""Of all files together."""
READ_SECONDS = 30
READ_BYTES = 2**30
ORDINARY = re.compile(
    r"utf-8(-sig)?|ascii|iso8859-\d+|cp125\d|cp932|shift_jis|euc_jp|gbk|gb2312|gb18030|big5|cp949|euc_kr|koi8-[ru]"
)
"""Encodings that people's editors write. In others code can read like a comment, such as `+AAo-` in UTF-7."""
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
    damaged: dict[str, str] = field(default_factory=dict)
    """Path below `tutorial/` -> why the file that is there cannot be read."""
    others: list[str] = field(default_factory=list)
    """Other Python files that were found: perhaps one of them was meant."""
    status: str = GRADED

    @property
    def code(self) -> str:
        """A hash of all code."""
        found = hashlib.sha256()
        for path, data in sorted(self.files.items()):
            found.update(f"{path}\0{len(data)}\0".encode("utf-8", "surrogatepass") + data)
        return found.hexdigest()

    @property
    def content(self) -> str:
        """A hash of all that the result depends on."""
        about = repr((self.student, self.told, self.notes, self.doubts, self.others, self.status, self.code))
        return hashlib.sha256(about.encode("utf-8", "replace")).hexdigest()

    def note(self, text: str) -> None:
        """Of too many the last one stays: it says what came of it all."""
        self.notes[MAX_NOTES - 1 :] = [*self.notes[MAX_NOTES:], clean(text, 300)]

    def doubt(self, kind: str, text: str) -> None:
        """A note that nobody should overlook."""
        self.note(text)
        if len(self.doubts) < MAX_NOTES:
            self.doubts.append(Doubt(kind, clean(text, 300)))

    def has_work(self, lessons: Collection[str]) -> bool:
        return any(path in self.files for path in _asked_for(lessons))


def _asked_for(lessons: Collection[str]) -> list[str]:
    """Paths below `tutorial/`."""
    return [path for path in course_files() if not lessons or path.partition("/")[0] in lessons]


def close_match(path: str, others: list[str]) -> str:
    """Such as "; there is lesson04_gae/Gae (1).py: was it renamed?"."""
    wanted = path.rpartition("/")[2].lower()
    by_name = {other: f"{_plain(other)}.py" for other in others}
    # A notebook is meant only by the whole name: the course has some of its own.
    by_name = {other: name for other, name in by_name.items() if name == wanted or not other.endswith(NOTEBOOK)}
    word = re.compile(rf"(?<![a-z]){re.escape(wanted.removesuffix('.py'))}(?![a-z])")
    names = list(by_name.values())
    close = [name for name in names if name == wanted] or [name for name in names if word.search(name)]
    close = close or difflib.get_close_matches(wanted, names, n=1, cutoff=0.75)
    found = next((other for other, name in by_name.items() if close and name == close[0]), None)
    return f"; there is {clean(found)}: was it renamed?" if found else ""


def _plain(name: str) -> str:
    """The name of a file without its ending, its case and what was added to it."""
    stem = re.sub(r"\.(py|ipynb|txt)", "", name.rpartition("/")[2].lower())
    while (shorter := COPY.sub("", stem).strip()) != stem:
        stem = shorter
    return stem


def read_submission(hand_in: HandIn, lessons: Collection[str] = ()) -> Submission:
    """Read one submission, in a process of its own: an archive can make its reader slow, or large.

    Whatever is wrong with it is said in its notes.

    Args:
        lessons: those that are graded (default: all).
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, lambda: _read(hand_in, lessons)))
    process.start()
    theirs.close()
    found = None
    with contextlib.suppress(EOFError, OSError), ours:
        found = ours.recv() if ours.poll(READ_SECONDS) else None
    process.kill()
    process.join()
    return found or unreadable(hand_in, f"reading it takes more than {READ_SECONDS} seconds, or too much memory")


def _send(connection: Connection, work: Callable[[], Submission]) -> None:
    with contextlib.suppress(AttributeError, OSError):
        die_with_parent()
    with contextlib.suppress(OSError, ValueError):
        held = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + READ_BYTES,) * 2)
    connection.send(work())


def unreadable(hand_in: HandIn, why: str) -> Submission:
    """A submission of which nothing was read."""
    found = _empty(hand_in)
    found.status = UNREADABLE
    found.note(why)
    return found


def from_folder(folder: Path, student: str) -> Submission:
    """One folder as a submission: the working tree."""
    return read_submission(HandIn(student, student, [(folder, student)]))


def _empty(hand_in: HandIn) -> Submission:
    return Submission(**{**vars(hand_in), "notes": [*hand_in.notes]})


def _read(hand_in: HandIn, lessons: Collection[str]) -> Submission:
    submission, tree, problems = _empty(hand_in), Tree(), []
    for path, name in hand_in.parts:
        try:
            _add(tree, path, name, "" if len(hand_in.parts) == 1 else f"{name}/")
        except Unreadable as error:
            problems.append(str(error))
        except Exception as error:  # Whatever an archive can do to its reader must not stop the batch.
            problems.append(f"cannot be read: {type(error).__name__}: {error}")
    try:
        tree.open_inner()
        _take(submission, tree, lessons)
        _look(submission, tree, lessons)
    except Exception as error:
        problems.append(f"cannot be read: {type(error).__name__}: {error}")
    for text in problems:
        submission.note(text)
    if not submission.has_work(lessons):
        submission.status = UNREADABLE if problems else EMPTY
        if not problems and not submission.damaged:
            submission.note(_nothing_found(submission, tree))
    return submission


def _nothing_found(submission: Submission, tree: Tree) -> str:
    there = [*submission.files, *submission.others, *map(clean, tree.readers)][:3]
    text = f"no file of the assignment in it{'; there is ' if there else ''}{', '.join(there)}"
    if submission.others or submission.files:
        return text
    return f"{text}: expected Python files, or an archive ({', '.join(ARCHIVES)})"


def _add(tree: Tree, path: Path, name: str, prefix: str) -> None:
    """Raises Unreadable: it is neither a folder nor an archive, or a broken one."""
    kind = os.lstat(path).st_mode
    if stat.S_ISDIR(kind):
        tree.add_folder(path, prefix)
    elif stat.S_ISREG(kind) and is_archive(path.name):
        tree.add_archive(path.name, open_file(path), prefix)
    elif stat.S_ISREG(kind) and name != path.name and not packed_problem(name):
        # A file has another name in the submission where a platform has put the student's name before its own.
        tree.add_file(path, name)
    else:
        wanted = f"expected a folder or an archive ({', '.join(ARCHIVES)}), got {kind_of(kind)}, {path.name}: not read"
        raise Unreadable(packed_problem(path.name) or wanted)


def _take(submission: Submission, tree: Tree, lessons: Collection[str]) -> None:
    """Choose the files to grade, and read them."""
    chosen = choose(tree.readers, tree.read, lessons)
    if chosen.folders:
        submission.folder = ", ".join(chosen.folders)
        place = "the top folder" if submission.folder == "." else clean(submission.folder)
        submission.note(f"graded: {place}")
    for note in (*tree.notes, *chosen.notes):
        submission.note(note)
    for kind, text in chosen.doubts:
        submission.doubt(kind, text)
    held = 0
    for path, name in [*chosen.files.items(), *chosen.beside.items()]:
        try:
            data = tree.read(name)
        except Unreadable as error:
            submission.note(f"{name}: {error}")
            submission.damaged[path] = str(error)
            continue
        held += len(data)
        if path in chosen.beside and (len(submission.files) >= MAX_BESIDE or held > MAX_BYTES):
            submission.note(f"{name} is one module too many beside the lessons: not read")
        else:
            submission.files[path] = data
    known = {*chosen.files.values(), *chosen.others}
    others = [name for name in tree.readers if name.lower().endswith(CODE) and name not in known]
    submission.others = sorted(clean(name) for name in others if name.rpartition("/")[2] not in GIVEN)[:50]
    for path in _asked_for(lessons):
        if path in submission.files and path in chosen.files and exercises_in(path):
            _doubt_copies(submission, tree, path, chosen.files[path], others)


def _doubt_copies(submission: Submission, tree: Tree, path: str, graded: str, others: list[str]) -> None:
    """`gae (1).py` beside `gae.py`: nobody knows which is meant."""
    known, folder = submission.files[path], graded.rpartition("/")[0]
    for name in others:
        if name.rpartition("/")[0] != folder or f"{_plain(name)}.py" != path.rpartition("/")[2].lower():
            continue
        with contextlib.suppress(Unreadable):
            data = tree.read(name)
            if data == known or is_untouched(path, data):
                continue
            if is_untouched(path, known):
                submission.doubt(NEAR, f"{graded} is as it was handed out; there is {name}: was it meant?")
            else:
                submission.doubt(SECOND, f"graded {graded}; {name} has almost its name, and another text")


def strange_encoding(data: bytes) -> str:
    """The encoding that a file asks for, if that is one in which nobody writes Python; else empty."""
    encoding = encoding_of(data)
    try:
        name = codecs.lookup(encoding).name
    except Exception:
        return encoding
    return "" if ORDINARY.fullmatch(name) else encoding


def _look(submission: Submission, tree: Tree, lessons: Collection[str]) -> None:
    """What an instructor should see, whatever the mark."""
    for path in _asked_for(lessons):
        if path not in submission.files and (close := close_match(path, submission.others)):
            submission.doubt(NEAR, f"no {path}{close}")
    for path, data in sorted(submission.files.items()):
        if path.endswith(".py") and (encoding := strange_encoding(data)):
            submission.doubt(ENCODING, f"{path} is written in {encoding}, so its comments may hold code")
    packed = [*tree.readers, *(path.name for path, _ in submission.parts if submission.has_work(lessons))]
    for problem in filter(None, map(packed_problem, packed)):
        submission.doubt(CLOSED, problem)
    if submission.older:
        submission.doubt(OLDER, f"the newest attempt was graded, not {', '.join(submission.older)}")
