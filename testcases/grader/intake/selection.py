"""Which files of what was handed in are the student's own work.

One rule, for each lesson: the nearest folder `tutorial/` that has it, else the nearest folder of the lesson's name,
else files of its files' names. What nobody has worked on comes last, and the course's own solutions and suites are
nobody's work. Where there is another text of the same file, an instructor is told.
"""

import contextlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from testcases.harness.catalog import REGION, SOLUTIONS, lesson_names, read_lesson
from testcases.harness.execution.sources import text_of
from testcases.harness.oracle.mutations import stubs_of, suspects

from ..status import OTHER_FOLDER, SECOND

Read = Callable[[str], bytes]

OF_COURSE = {"testcases", "tiny_models", "ppo_by_hand", "notebooks", "book"}
"""Folders of a copy of the course in which nothing is a student's."""
MAX_PLACES = 50
PACKAGES = 3
"""How deep a student's own packages may lie in a lesson's folder."""
LONGEST = 200
"""Bytes of a name: a file system takes 255."""


@dataclass
class Chosen:
    """What is graded."""

    files: dict[str, str] = field(default_factory=dict)
    """Path below `tutorial/` -> name in the submission; files of the course."""
    beside: dict[str, str] = field(default_factory=dict)
    """The same, for a student's own modules."""
    folders: list[str] = field(default_factory=list)
    """Where they were, "." for the top."""
    notes: list[str] = field(default_factory=list)
    doubts: list[tuple[str, str]] = field(default_factory=list)
    """Kind and text of what an instructor should look at."""
    others: set[str] = field(default_factory=set)
    """Names of the course's files that were not chosen."""


@dataclass
class _Place:
    """A folder with files of one lesson, or a single file of one.

    Attributes:
        folder: above the lesson's own, such as "ppo/tutorial", or that of single files; empty at the top.
        is_loose: whether the files are not in a folder of their lesson's name.
        files: path below `tutorial/` -> name.
        texts: path -> bytes, of those that can be read.
    """

    lesson: str
    folder: str
    is_loose: bool
    files: dict[str, str] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)

    @property
    def is_untouched(self) -> bool:
        """Whether every exercise in it is as it was handed out."""
        asked = [path for path in self.files if exercises_in(path)]
        return bool(asked) and all(path in self.texts and is_untouched(path, self.texts[path]) for path in asked)

    def is_given(self, is_course: bool) -> bool:
        """Whether these are the course's solutions, known by the marks around a solution, which no stub has."""
        parts = self.folder.lower().split("/")
        is_solved = any(part.startswith("solution") for part in parts)
        lines = (line for data in self.texts.values() for line in data.splitlines())
        is_one = is_solved or (is_course and not any("tutorial" in part for part in parts))
        return is_one and any(line.strip() == REGION.encode() for line in lines)

    @property
    def is_tutorial(self) -> bool:
        return self.folder.rpartition("/")[2] == "tutorial"

    @property
    def rank(self) -> tuple[bool, bool, bool, int, str]:
        depth = self.folder.count("/") + bool(self.folder) - self.is_tutorial
        return self.is_untouched, self.is_loose, not self.is_tutorial, depth, self.folder

    @property
    def shown(self) -> str:
        return self.folder or "the top folder"


@cache
def course_files() -> tuple[str, ...]:
    """The files that can be handed in, such as "lesson04_gae/gae.py"."""
    found = [f"{one}/{path.name}" for one in lesson_names() for path in sorted((SOLUTIONS / one).glob("*.py"))]
    return tuple(path for path in found if not path.endswith(("/__init__.py", "/__main__.py")))


def choose(names: Collection[str], read: Read, lessons: Collection[str] = ()) -> Chosen:
    """Choose the files to grade.

    Args:
        names: all files of a submission, with "/" between folders.
        read: gives the bytes of one; it may raise.
        lessons: those that are graded (default: all). Of the others, which they may import, no single file is looked
            for, and a second text is no doubt.
    """
    chosen, places = Chosen(), _places(names, read)
    # Who hands in a copy of the course hands in its solutions, under whatever name: of those only tutorial/ counts.
    in_folders = [place for place in places if not place.is_loose]
    is_course = any(place.is_tutorial for place in in_folders)
    is_course |= any(not OF_COURSE.isdisjoint(name.lower().split("/")[:-1]) for name in names)
    chosen.others = {name for place in in_folders for name in place.files.values()}
    given = [place for place in places if place.is_given(is_course)]
    places = sorted((place for place in places if place not in given), key=lambda place: place.rank)
    for lesson in lesson_names():
        own, is_asked = [place for place in places if place.lesson == lesson], not lessons or lesson in lessons
        if not is_asked or any(not place.is_loose and not place.is_untouched for place in own):
            own = [place for place in own if not place.is_loose]
        for place in own:
            _take(place, own, chosen, is_asked)
        if is_asked and own and own[0].is_untouched:
            _look_at_given((place for place in given if place.lesson == lesson), own[0], chosen)
    chosen.folders = list(dict.fromkeys(chosen.folders))
    chosen.others -= set(chosen.files.values())
    chosen.beside = _beside(names, chosen.files)
    return chosen


def _take(place: _Place, places: list[_Place], chosen: Chosen, is_asked: bool) -> None:
    """Those files of a place that no better place has; of another text of one, an instructor is told once."""
    new = {path: name for path, name in place.files.items() if path not in chosen.files}
    chosen.files.update(new)
    chosen.folders += [place.folder or "."] if new else []
    for path, name in new.items() if place.is_loose else ():
        chosen.notes.append(f"{name} is not in the folder of its lesson: graded as {path}")
    for path, data in place.texts.items() if is_asked and not place.is_untouched else ():
        best = next(one for one in places if path in one.files)
        if best.texts.get(path, data) != data:
            chosen.doubts.append((SECOND, f"graded {best.shown}; {place.shown} has another {path}"))
            return


def _look_at_given(given: Iterable[_Place], best: _Place, chosen: Chosen) -> None:
    """Somebody may have worked in solutions/, beside a tutorial/ that is as it was handed out."""
    for place in given:
        changed = [path for path, data in place.texts.items() if data != (SOLUTIONS / path).read_bytes()]
        if changed:
            text = f"nobody has worked on {best.shown}; {place.folder} has a changed {changed[0]}"
            chosen.doubts.append((OTHER_FOLDER, text))


def _places(names: Iterable[str], read: Read) -> list[_Place]:
    """Of each lesson the folders with its files, what is near the top first."""
    by_file: dict[str, list[str]] = {}
    for path in course_files():
        by_file.setdefault(path.rpartition("/")[2], []).append(path)
    found: dict[tuple[str, str, bool, str], _Place] = {}
    often: Counter[str] = Counter()
    for name in sorted(names, key=lambda name: (name.count("/"), name)):
        above, _, file = name.rpartition("/")
        folder, _, lesson = above.rpartition("/")
        is_loose = f"{lesson}/{file}" not in course_files()
        for path in by_file.get(file, ()) if is_loose else [f"{lesson}/{file}"]:
            if often[path] == MAX_PLACES or (is_loose and not OF_COURSE.isdisjoint(above.lower().split("/"))):
                continue
            often[path] += 1
            texts: dict[str, bytes] = {}
            with contextlib.suppress(Exception):  # It is read again when it is graded, and what is wrong is said there.
                texts[path] = read(name)
            if is_loose and len(by_file[file]) > 1 and not _defines(path, texts.get(path, b"")):
                continue
            key = path.partition("/")[0], above if is_loose else folder, is_loose
            place = found.setdefault((*key, path if is_loose else ""), _Place(*key))
            place.files[path] = name
            place.texts.update(texts)
    return [*found.values()]


def _defines(path: str, data: bytes) -> bool:
    """Whether a file whose name two lessons have defines an exercise of this one."""
    heads = {exercise.partition(".")[0] for exercise in exercises_in(path)}
    return any(re.search(rf"^(class|def) {head}\b", text_of(data), re.MULTILINE) for head in heads)


@cache
def exercises_in(path: str) -> tuple[str, ...]:
    """Those of a file of the course."""
    lesson, _, file = path.partition("/")
    found = read_lesson(lesson)
    return tuple(exercise for exercise in found.exercises if found.file_of(exercise) == file)


def is_untouched(path: str, data: bytes) -> bool:
    """Whether each exercise in a file is still its stub."""
    lesson, handed_out = path.partition("/")[0], suspects(path.partition("/")[0])
    if any(exercise in handed_out for exercise in exercises_in(path)):
        return data.splitlines() == stubs_of(lesson)[path].encode().splitlines()
    return all(f'"{path[:8]}: {exercise}"'.encode() in data for exercise in exercises_in(path))


def _beside(names: Iterable[str], files: dict[str, str]) -> dict[str, str]:
    """The other modules and packages in the folders of the chosen files, and modules in the tutorial/ above them."""
    lessons: dict[str, set[str]] = {}
    for path, name in files.items():
        lessons.setdefault(name.rpartition("/")[0], set()).add(path.partition("/")[0])
        if name.endswith(path):
            root = name.removesuffix(path)
            lessons.setdefault(root.removesuffix("/"), set()).add("")
            for other in lesson_names():
                lessons.setdefault(root + other, set()).add(other)
    found: dict[str, str] = {}
    for name in sorted(set(names) - set(files.values())):
        for folder, path in _modules(name):
            # A folder above the lessons is no package of theirs: pytest does not find it there either.
            within = (one for one in lessons.get(folder, ()) if one or "/" not in path)
            found.update({f"{one}/{path}".lstrip("/"): name for one in within})
    nearest_first = sorted(found.items(), key=lambda item: (item[0].count("/"), item[0]))
    return {path: name for path, name in nearest_first if path not in files}


def _modules(name: str) -> Iterator[tuple[str, str]]:
    """Folders in which a file is a module, or one of a package, with its path from there."""
    parts = name.removesuffix(".py").split("/")
    for depth in range(1, min(len(parts), PACKAGES + 1) + 1) if name.endswith(".py") else ():
        # As Python writes the names that it imports; a Mac takes letters apart.
        inside = [unicodedata.normalize("NFKC", part) for part in parts[-depth:]]
        if all(part.isidentifier() and len(part.encode()) <= LONGEST for part in inside):
            yield "/".join(parts[:-depth]), "/".join(inside) + ".py"
