"""At which level the submissions lie: those of an export may all be in one folder, or one zip, that lies alone."""

import contextlib
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .archives import printable, unpack
from .exports import METADATA, SURE, HandIn, find, kept_beside
from .selection import course_files, repositories
from .submissions import in_a_process, read_submission

DEEPEST = 3
MANY = 4
"""So many with the same file of the course are no one's attempts."""
UNPACK_SECONDS = 300
DRIVE = re.compile(r"(?<=-\d{8}T\d{6}Z)(-\d+)?-\d{3}(?=\.zip$)")
"""Of the parts in which Google Drive packs a large folder: `HW-20261120T101010Z-1-002.zip`."""


@dataclass(frozen=True)
class Level:
    """Where the submissions are."""

    given: Path
    """What was asked for."""
    folder: Path
    """In which each thing is a submission."""
    inside: Path = Path()
    """Where that was found in what was asked for."""

    def __str__(self) -> str:
        why = f": nothing else is in {self.given}, and several people's work is in it" if self.inside.parts else ""
        beside = kept_beside(self.folder) if self.folder.is_dir() else []
        but = f", but {', '.join(map(printable, beside))}: whoever handed such a file in has no row" if beside else ""
        return f"each thing in {self.given / self.inside} is a submission{why}{but}"


@contextlib.contextmanager
def opened(given: Path, as_given: bool = False) -> Iterator[Level]:
    """Find the level, if it is not as given. What had to be unpacked is there until the end of the block."""
    with tempfile.TemporaryDirectory(prefix=f"ppo-export-{os.getpid()}-", ignore_cleanup_errors=True) as spare:
        level = Level(given, given)
        with contextlib.suppress(OSError, ValueError):  # What is wrong with the folder is said when it is graded.
            level = not as_given and _below(given, Path(spare)) or level
        yield level


def find_outside(level: Level, out: Path) -> list[HandIn]:
    """Raises NotADirectoryError, ValueError: it is no folder of submissions, or `out` lies in it."""
    if out.resolve().is_relative_to(level.given.resolve()):
        raise ValueError(f"OUT: expected a folder outside {str(level.given)!r}, in which everything is a submission")
    return find(level.folder)


def _below(given: Path, spare: Path) -> Level | None:
    place, inside = given, Path()
    for depth in range(DEEPEST):
        found = find(place) if place.is_dir() else []
        alone = [path for one in found for path, _ in one.parts]
        plain = [one.system in ("folder", "archive") and not one.parts[0][0].is_symlink() for one in found]
        if len({DRIVE.sub("", path.name) for path in alone}) != 1 or not all(plain):
            return None
        place, inside = alone[0], inside / alone[0].name
        if place.suffix.lower() == ".zip":
            place = spare / str(depth)
            if not in_a_process(partial(_unpack, alone, place), UNPACK_SECONDS):
                return None
        if place.is_dir() and _is_of_several(place):
            return Level(given, place, inside)
    return None


def _unpack(zips: list[Path], folder: Path) -> bool:
    return all(unpack(packed, folder, METADATA) for packed in zips)


def _is_of_several(folder: Path) -> bool:
    """Whether two things in a folder have the same file of the course, and are not one student's attempts."""
    names = os.listdir(folder)
    hand_ins = [] if ".git" in names or repositories(names) else find(folder)
    holders: dict[str, list[str]] = defaultdict(list)
    for one in hand_ins:
        if one.system in SURE:
            return True
        # hw9.zip and hw10.zip are one student's; so may be week9/ and week10/, but people are numbered more often.
        name = one.student.strip("0123456789 ()") if one.system == "archive" else one.student
        for path in set(read_submission(one).files).intersection(course_files()):
            holders[path].append(name)
            if len(set(holders[path])) > 1 or len(holders[path]) >= MANY:
                return True
    return False
