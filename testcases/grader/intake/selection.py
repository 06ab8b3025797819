"""Which files of what was handed in are the student's own work.

One rule, for each lesson: the nearest folder `tutorial/` that has it, else the nearest folder of the lesson's name,
else files of its files' names. What nobody has worked on comes last, and the course's own solutions and suites are
nobody's work. Where there is another text of the same file, an instructor is told.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from testcases.harness.catalog.lessons import REGION, SOLUTIONS, lesson_names
from testcases.harness.catalog.lessons import lesson as read_lesson
from testcases.harness.execution.modules import text_of
from testcases.harness.oracle.mutations import suspects
from testcases.harness.oracle.stubs import stubs_of

from ..status import SECOND

Read = Callable[[str], bytes]

OF_COURSE = {"testcases", "tiny_models", "ppo_by_hand", "notebooks", "book"}
"""Folders of a copy of the course in which nothing is a student's."""
MAX_ROOTS = 50
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
class _Root:
    """A place with files of one lesson.

    Attributes:
        folder: above the lesson's own, such as "ppo/tutorial"; empty at the top.
        files: path below `tutorial/` -> name.
        texts: path -> bytes, of those that can be read.
    """

    folder: str
    files: dict[str, str]
    texts: dict[str, bytes]

    @property
    def is_untouched(self) -> bool:
        """Whether every exercise in it is as it was handed out."""
        with_exercises = [path for path in self.files if exercises_in(path)]
        return bool(with_exercises) and all(
            path in self.texts and is_untouched(path, self.texts[path]) for path in with_exercises
        )

    @property
    def is_marked(self) -> bool:
        """Whether a file has the marks around a solution, which no stub has."""
        return any(line.strip() == REGION.encode() for data in self.texts.values() for line in data.splitlines())

    @property
    def is_tutorial(self) -> bool:
        return self.folder.rpartition("/")[2] == "tutorial"

    @property
    def rank(self) -> tuple[bool, bool, int, str]:
        depth = self.folder.count("/") + bool(self.folder) - self.is_tutorial
        return self.is_untouched, not self.is_tutorial, depth, self.folder

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
    chosen, roots = Chosen(), _roots(names, read)
    every = [root for found in roots.values() for root in found]
    # Who hands in a copy of the course hands in its solutions, under whatever name: of those only tutorial/ counts.
    is_course = any(root.is_tutorial for root in every)
    is_course |= any(not OF_COURSE.isdisjoint(name.lower().split("/")[:-1]) for name in names)
    chosen.others = {name for root in every for name in root.files.values()}
    for lesson in lesson_names():
        own = sorted((one for one in roots.get(lesson, ()) if not _is_given(one, is_course)), key=lambda one: one.rank)
        best, is_asked = own[0] if own else None, not lessons or lesson in lessons
        if is_asked and (not best or best.is_untouched):
            loose = _loose(lesson, names, read, is_course, chosen)
            if loose and not (best and loose.is_untouched):
                best = loose
                for path, name in best.files.items():
                    chosen.notes.append(f"{name} is not in the folder of its lesson: graded as {path}")
        if not best:
            continue
        chosen.files.update(best.files)
        chosen.folders.append(best.folder or ".")
        for other in own if is_asked else ():
            _compare(best, other, chosen)
    chosen.folders = list(dict.fromkeys(chosen.folders))
    chosen.others -= set(chosen.files.values())
    chosen.beside = _beside(names, chosen.files)
    return chosen


def _roots(names: Iterable[str], read: Read) -> dict[str, list[_Root]]:
    """Lesson -> the places with its folder, what is near the top first."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for name in names:
        above, _, file = name.rpartition("/")
        folder, _, lesson = above.rpartition("/")
        if f"{lesson}/{file}" in course_files():
            found.setdefault((lesson, folder), {})[f"{lesson}/{file}"] = name
    roots: dict[str, list[_Root]] = {}
    for (lesson, folder), files in sorted(found.items(), key=lambda item: (item[0][1].count("/"), item[0])):
        if len(roots.setdefault(lesson, [])) < MAX_ROOTS:
            roots[lesson].append(_root(folder, files, read))
    return roots


def _root(folder: str, files: dict[str, str], read: Read) -> _Root:
    texts = {}
    for path, name in files.items():
        try:
            texts[path] = read(name)
        except Exception:  # It is read again when it is graded, and what is wrong with it is said there.
            continue
    return _Root(folder, files, texts)


def _is_given(root: _Root, is_course: bool) -> bool:
    """Whether this is the course's solutions, known by their marks."""
    parts = root.folder.lower().split("/")
    is_solved = any(part.startswith("solution") for part in parts)
    return (is_solved or (is_course and not any("tutorial" in part for part in parts))) and root.is_marked


def _compare(best: _Root, other: _Root, chosen: Chosen) -> None:
    differing = [path for path, data in other.texts.items() if best.texts.get(path, data) != data]
    if differing and not other.is_untouched:
        chosen.doubts.append((SECOND, f"graded {best.shown}; {other.shown} has another {differing[0]}"))


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


def _loose(lesson: str, names: Iterable[str], read: Read, is_course: bool, chosen: Chosen) -> _Root | None:
    """Single files, without the folder of their lesson: the nearest of each name that somebody has worked on."""
    paths = {path.rpartition("/")[2]: path for path in course_files() if path.startswith(f"{lesson}/")}
    found: list[_Root] = []
    for name in sorted(names, key=lambda name: (name.count("/"), name)):
        folder, _, file = name.rpartition("/")
        if file in paths and name not in chosen.others and OF_COURSE.isdisjoint(folder.lower().split("/")):
            root = _root(folder, {paths[file]: name}, read)
            if _is_of_lesson(root, file) and not _is_given(root, is_course):
                found.append(root)
    best: _Root | None = None
    for root in sorted(found, key=lambda one: one.is_untouched):
        if best and best.files.keys() & root.files.keys():
            _compare(best, root, chosen)
        elif best:
            best.files.update(root.files)
            best.texts.update(root.texts)
        else:
            best = root
    return best


def _is_of_lesson(root: _Root, file: str) -> bool:
    """A file whose name two lessons have has to define an exercise of this one."""
    if sum(path.endswith(f"/{file}") for path in course_files()) == 1:
        return True
    ((path, data),) = root.texts.items() or (("", b""),)
    heads = {exercise.partition(".")[0] for exercise in exercises_in(path)} if path else set()
    return any(re.search(rf"^(class|def) {head}\b", text_of(data), re.MULTILINE) for head in heads)


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
