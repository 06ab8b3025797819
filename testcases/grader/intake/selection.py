"""Which part of what was handed in is the student's own work: a `tutorial/`, or a folder that came from one.

Students hand in whole copies of the course, and those hold the solutions: the folder is never chosen by how much is in
it. A course's copy is known by what lies beside its lessons, and a copy of its solutions by its region marks.
"""

import contextlib
import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from testcases.harness.catalog import REGION, SOLUTIONS, lesson_names, text_of
from testcases.harness.catalog import lesson as read_lesson
from testcases.harness.oracle import stubs_of, suspects

Read = Callable[[str], bytes]

OF_COURSE = re.compile(
    r"(.*/)?(testcases/(lesson\d\d_|harness/|points\.toml)|tiny_models/|ppo_by_hand/|solutions/lesson\d\d_)",
    re.IGNORECASE,
)
"""What only a copy of the course has beside its lessons."""
OF_ANY_REPOSITORY = ("makefile", "readme.md", "pyproject.toml", "license", "requirements.lock", "contributing.md")
GIVEN = ("solutions", "testcases")
MAX_TREES = 50
DATA = re.compile(r"\w[\w .-]{0,80}\.\w{1,8}", re.ASCII)
"""Names of files that a lesson may read."""
PACKAGES = 3
"""How deep a student's own packages may lie in a lesson's folder."""
LONGEST = 200
"""Bytes of a name: a file system takes 255."""


@dataclass
class Chosen:
    """What is graded."""

    folder: str = ""
    """The folder that was taken, "." for the top one; empty where there is none."""
    files: dict[str, str] = field(default_factory=dict)
    """Path below `tutorial/` -> name in the submission; files of the course, as the lessons are now."""
    beside: dict[str, str] = field(default_factory=dict)
    """The same, for what lies beside them: a student's own modules."""
    notes: list[str] = field(default_factory=list)
    second: list[str] = field(default_factory=list)
    """In a sentence each: where other texts of the same files are."""
    untouched: bool = False
    """Nobody has worked on it: what else is there comes before it."""
    passed_over: set[str] = field(default_factory=set)
    """Names of the course's files in other folders."""


@dataclass
class _Tree:
    """A folder with lessons in it."""

    root: str
    """Empty, or such as "ppo/tutorial"."""
    files: dict[str, str]
    marked: bool
    """Whether a file has the marks around a solution, which no stub has."""
    untouched: bool = False
    """Whether every exercise in it is as it was handed out."""
    digests: dict[str, bytes] = field(default_factory=dict)
    """Of the files."""

    @property
    def shown(self) -> str:
        return self.root or "the top folder"

    @property
    def lessons(self) -> set[str]:
        return {path.partition("/")[0] for path in self.files}

    @property
    def rank(self) -> tuple[bool, bool, int, bool, bool]:
        """The smaller, the surer: whole folders nearer to the top first, and tutorial/ before what is beside it. What
        nobody has worked on comes last."""
        *above, last = self.root.lower().split("/")
        is_tutorial = last == "tutorial"
        depth = len(above) if is_tutorial else _depth(self.root)
        is_exact = self.root.rpartition("/")[2] == "tutorial"
        return self.marked and not is_tutorial, self.untouched, depth, not is_tutorial, is_tutorial and not is_exact


@cache
def course_files() -> tuple[str, ...]:
    """The files that can be handed in, such as "lesson04_gae/gae.py"."""
    found = []
    for lesson in lesson_names():
        found += [f"{lesson}/{path.name}" for path in sorted((SOLUTIONS / lesson).glob("*.py"))]
    return tuple(path for path in found if not path.endswith(("/__init__.py", "/__main__.py")))


def choose(names: Iterable[str], read: Read, origin: str = "") -> Chosen:
    """Choose the files to grade.

    Args:
        names: all files of a submission, with "/" between folders.
        read: gives the bytes of one; it may raise.
        origin: the name of the folder or archive that they come from.
    """
    names = list(names)
    copies = {(found[1] or "").rstrip("/") for name in names if (found := OF_COURSE.match(name))}
    in_repositories = repositories(names)
    refusals = [(tree, _refusal(tree, origin, copies, in_repositories)) for tree in _trees(names, read)]
    open_trees = sorted((tree for tree, why in refusals if not why), key=lambda tree: (*tree.rank, tree.root))
    chosen = _together(open_trees)
    in_trees = {name for tree, _ in refusals for name in tree.files.values()}
    if not open_trees:
        left = [name for name in names if name not in in_trees]
        chosen = _loose(left, read, lambda tree: not _refusal(tree, origin, copies, in_repositories))
    chosen.beside = _beside(names, chosen.files) | _data(names, chosen.files, read)
    chosen.notes += [f"not graded: {tree.shown}, {why}" for tree, why in refusals if why]
    chosen.passed_over = in_trees - set(chosen.files.values())
    return chosen


def _depth(root: str) -> int:
    return root.count("/") + 1 if root else 0


def _trees(names: Iterable[str], read: Read) -> list[_Tree]:
    wanted = set(course_files())
    roots: dict[str, dict[str, str]] = {}
    for name in names:
        above, _, file = name.rpartition("/")
        root, _, lesson = above.rpartition("/")
        if f"{lesson}/{file}" in wanted:
            roots.setdefault(root, {})[f"{lesson}/{file}"] = name
    nearest = sorted(roots, key=lambda root: (_depth(root), root))[:MAX_TREES]
    return [_tree(root, roots[root], read) for root in nearest]


def _tree(root: str, files: dict[str, str], read: Read) -> _Tree:
    tree = _Tree(root, files, marked=False)
    touched = []
    for path, name in files.items():
        try:
            data = read(name)
        except Exception:  # It is read again when it is graded, and what is wrong with it is said there.
            touched.append(True)
            continue
        tree.digests[path] = hashlib.sha256(data).digest()
        tree.marked |= any(line.strip() == REGION.encode() for line in data.splitlines())
        if exercises_in(path):
            touched.append(not is_untouched(path, data))
    tree.untouched = bool(touched) and not any(touched)
    return tree


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


def _defines(name: str, read: Read, path: str) -> bool:
    """Whether a file says that it has an exercise of this file of the course."""
    heads = {exercise.partition(".")[0] for exercise in exercises_in(path)}
    try:
        text = text_of(read(name))
    except Exception:  # What is wrong with it is said where it is graded.
        return False
    return any(re.search(rf"^(class|def) {head}\b", text, re.MULTILINE) for head in heads)


def repositories(names: Iterable[str]) -> set[str]:
    """Folders with at least two of the files that lie at the top of a repository, such as the course's."""
    count: dict[str, int] = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        if file.lower() in OF_ANY_REPOSITORY:
            count[folder] = count.get(folder, 0) + 1
    return {folder for folder, number in count.items() if number > 1}


def _refusal(tree: _Tree, origin: str, copies: set[str], repositories: set[str]) -> str:
    """Why this folder is no student's work; empty if it may be."""
    parts = tree.root.lower().split("/")
    for given in GIVEN:
        if given in parts:
            return f"which is the course's own {given}/ or came from it"
    if any("tutorial" in part for part in parts):
        return ""
    if any(_is_below(tree.root, copy) for copy in copies):
        return "since in a copy of the course only tutorial/ is a student's"
    if tree.marked and (tree.root in copies or any(_is_below(tree.root, one) for one in repositories)):
        return "which is a copy of the course's solutions: it has their region marks"
    if tree.marked and ("solution" in parts[-1] or origin.lower() == "solutions"):
        return "which is a copy of the course's solutions, by its name and its region marks"
    return ""


def is_given(name: str) -> bool:
    """Whether a file lies in a copy of what the course brings beside tutorial/."""
    return not {*GIVEN}.isdisjoint(name.lower().split("/")[:-1])


def _is_below(folder: str, other: str) -> bool:
    return folder != other and (not other or folder.startswith(other + "/"))


def _together(trees: list[_Tree]) -> Chosen:
    """The first tree, and those beside it with other lessons: parts of one work. A second copy of a lesson is none."""
    if not trees:
        return Chosen()
    first, *others = trees
    chosen = Chosen(first.root or ".", dict(first.files), untouched=first.untouched)
    lessons = set(first.lessons)
    for tree in others:
        known = first.digests
        differing = [path for path, digest in tree.digests.items() if known.get(path, digest) != digest]
        if differing and not tree.untouched:
            chosen.second.append(f"graded {first.shown}; {tree.shown} has another {differing[0]}")
        if tree.rank == first.rank and not tree.marked and not tree.lessons & lessons:
            chosen.files.update(tree.files)
            chosen.folder += f", {tree.root}"
            lessons |= tree.lessons
        elif set(tree.files) - set(first.files):
            chosen.notes.append(f"graded {first.shown}; there are other lessons in {tree.shown}")
    return chosen


def _beside(names: Iterable[str], files: dict[str, str]) -> dict[str, str]:
    """The other modules and packages in the folders of the chosen files, and modules in the tutorial/ above them."""
    lessons: dict[str, set[str]] = {}
    for path, name in files.items():
        folder, lesson = name.rpartition("/")[0], path.partition("/")[0]
        lessons.setdefault(folder, set()).add(lesson)
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


def _data(names: Iterable[str], files: dict[str, str], read: Read) -> dict[str, str]:
    """Other files in the folders of the chosen ones, of which a lesson's text says the name: it may read them."""
    texts: dict[tuple[str, str], bytes] = {}
    for path, name in files.items():
        with contextlib.suppress(Exception):  # It is read again when it is graded.
            key = name.rpartition("/")[0], path.partition("/")[0]
            texts[key] = texts.get(key, b"") + read(name)
    found = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        for (one, lesson), text in texts.items():
            if one == folder and DATA.fullmatch(file) and not file.endswith(".py") and file.encode() in text:
                found[f"{lesson}/{file}"] = name
    return found


def _modules(name: str) -> Iterator[tuple[str, str]]:
    """Folders in which a file is a module, or one of a package, with its path from there."""
    parts = name.removesuffix(".py").split("/")
    for depth in range(1, min(len(parts), PACKAGES + 1) + 1) if name.endswith(".py") else ():
        # As Python writes the names that it imports; a Mac takes letters apart.
        inside = [unicodedata.normalize("NFKC", part) for part in parts[-depth:]]
        if all(part.isidentifier() and len(part.encode()) <= LONGEST for part in inside):
            yield "/".join(parts[:-depth]), "/".join(inside) + ".py"


def _loose(names: Iterable[str], read: Read, is_open: Callable[[_Tree], bool]) -> Chosen:
    """Single files, without the folder of their lesson."""
    by_name: dict[str, list[str]] = {}
    for path in course_files():
        by_name.setdefault(path.rpartition("/")[2], []).append(path)
    chosen = Chosen()
    found: list[tuple[str, str, _Tree]] = []
    for name in sorted(names, key=lambda name: (name.count("/"), name)):
        folder, _, file = name.rpartition("/")
        paths = by_name.get(file, [])
        if len(paths) > 1:
            paths = [path for path in paths if _defines(name, read, path)]
            chosen.notes += [] if paths else [f"{name} may be of several lessons: not read without its lesson's folder"]
        if len(paths) == 1:
            found.append((paths[0], name, _tree(folder, {paths[0]: name}, read)))
    trees: dict[str, _Tree] = {}
    for path, name, tree in sorted(found, key=lambda one: one[2].untouched):
        if path in trees:
            chosen.notes.append(f"not graded: {name}, since there is {chosen.files[path]} as well")
            if trees[path].digests != tree.digests and not tree.untouched:
                chosen.second.append(f"graded {chosen.files[path]}; {name} is another text of it")
        elif is_open(tree):
            trees[path] = tree
            chosen.files[path] = name
            chosen.folder = chosen.folder or tree.root or "."
            chosen.notes.append(f"{name} is not in the folder of its lesson: graded as {path}")
    chosen.untouched = bool(trees) and all(tree.untouched for tree in trees.values())
    return chosen
