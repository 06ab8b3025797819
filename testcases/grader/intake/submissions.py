"""Reads the few files of a submission that are graded, by their bytes, trusting nothing about them."""

import codecs
import contextlib
import hashlib
import multiprocessing
import re
import resource
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from ..sandbox.guest.worker import die_with_parent
from ..status import CLOSED, EMPTY, ENCODING, GRADED, NEAR, OLDER, SECOND, UNREADABLE
from ..text import clean, encoding_of
from .archives import CODE, Tree, Unreadable, is_archive
from .exports import HandIn
from .selection import OF_COURSE, beside, choose, course_files, exercises_in, is_placed, is_untouched

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


def close_match(path: str, others: list[str]) -> str:
    """Such as "; there is lesson04_gae/Gae (1).py: was it renamed?"."""
    stem = path.rpartition("/")[2].removesuffix(".py")
    word = re.compile(rf"(?<![a-z]){stem}(?![a-z])", re.IGNORECASE)
    close = next((other for other in others if word.search(other.rpartition("/")[2])), "")
    return f"; there is {clean(close)}: was it renamed?" if close else ""


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
    found = Submission(**{**vars(hand_in), "notes": [*hand_in.notes]}, status=UNREADABLE)
    found.note(why)
    return found


def _read(hand_in: HandIn, lessons: Collection[str]) -> Submission:
    submission, tree = Submission(**{**vars(hand_in), "notes": [*hand_in.notes]}), Tree()
    for path, name in hand_in.parts:
        # The only folder, or archive, is the top; a file has its own name, without what a platform put before it.
        is_top = len(hand_in.parts) == 1 and (path.is_dir() or is_archive(path.name))
        try:
            tree.add(path, "" if is_top else name)
        except Unreadable as error:
            tree.damaged[name] = f"cannot be read: {error}"
    try:
        _take(submission, tree, lessons)
    except Exception as error:  # Whatever a submission can do to its reader must not stop the batch.
        tree.damaged[submission.student] = f"cannot be read: {type(error).__name__}: {error}"
    closed = [f"{name}: {why}" for name, why in tree.damaged.items() if not name.lower().endswith(CODE)]
    if any(path in submission.files for path in _asked_for(lessons)):
        for text in closed:
            submission.doubt(CLOSED, text)
        return submission
    submission.status = UNREADABLE if tree.damaged else EMPTY
    there = ", ".join([*dict.fromkeys([*submission.files, *submission.others, *map(clean, tree.files)])][:3])
    if not submission.damaged:
        submission.note(f"no file of the assignment in it{there and f'; there is {there}'}")
    for text in closed:
        submission.note(text)
    return submission


def _asked_for(lessons: Collection[str]) -> list[str]:
    """Paths below `tutorial/`."""
    return [path for path in course_files() if not lessons or path.partition("/")[0] in lessons]


def _take(submission: Submission, tree: Tree, lessons: Collection[str]) -> None:
    """Choose the files to grade, and say what an instructor should see, whatever the mark."""
    chosen, second = choose(tree.files, lessons)
    folders = {name.removesuffix(path).rpartition("/")[0] or "." for path, name in chosen.items()}
    submission.folder = ", ".join(sorted(folders))
    if not tree.damaged.keys() >= {*chosen.values()}:
        submission.note(f"graded: {'the top folder' if submission.folder == '.' else submission.folder}")
    for note in tree.notes:
        submission.note(note)
    for text in second:
        submission.doubt(SECOND, text)
    held = 0
    for path, name in {**chosen, **beside(tree.files, chosen)}.items():
        held += len(tree.files[name])
        if name in tree.damaged:
            submission.note(f"{name}: {tree.damaged[name]}")
            submission.damaged[path] = tree.damaged[name]
        elif path not in chosen and (len(submission.files) >= MAX_BESIDE or held > MAX_BYTES):
            submission.note(f"{name} is one module too many beside the lessons: not read")
        else:
            submission.files[path] = tree.files[name]
    submission.others = sorted(clean(name) for name in set(tree.files) - set(chosen.values()) if _is_other(name))[:50]
    for path in _asked_for(lessons):
        is_there = path in submission.files and not is_untouched(path, submission.files[path])
        if not is_there and exercises_in(path) and (close := close_match(path, submission.others)):
            submission.doubt(NEAR, f"no work in {path}{close}")
    for path, data in sorted(submission.files.items()):
        if path.endswith(".py") and (encoding := strange_encoding(data)):
            submission.doubt(ENCODING, f"{path} is written in {encoding}, so its comments may hold code")
    if submission.older:
        submission.doubt(OLDER, f"the newest attempt was graded, not {', '.join(submission.older)}")


def _is_other(name: str) -> bool:
    """Whether a file is code, and none that the course brings."""
    *above, file = name.split("/")
    is_of_course = file in GIVEN or is_placed(name) or not OF_COURSE.isdisjoint(above)
    return file.lower().endswith(CODE) and not is_of_course


def strange_encoding(data: bytes) -> str:
    """The encoding that a file asks for, if that is one in which nobody writes Python; else empty."""
    encoding = encoding_of(data)
    try:
        name = codecs.lookup(encoding).name
    except Exception:
        return encoding
    return "" if ORDINARY.fullmatch(name) else encoding
