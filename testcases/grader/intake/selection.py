"""Which files of what was handed in are the student's own work.

One rule, for each file of the course: the one in the nearest `tutorial/`, else in the nearest folder of its lesson,
else the nearest of its name. What nobody has worked on comes last, and the course's own solutions and suites are
nobody's work. Where there is another text of the same file, an instructor is told.
"""

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache

from testcases.harness.catalog import REGION, SOLUTIONS, lesson_names, read_lesson
from testcases.harness.oracle.mutations import stubs_of, suspects

OF_COURSE = {"testcases", "tiny_models", "ppo_by_hand", "notebooks", "book", "demo", "contest"}
"""Folders of a copy of the course in which nothing is a student's."""
PACKAGES = 3
"""How deep a student's own packages may lie in a lesson's folder."""
LONGEST = 200
"""Bytes of a name: a file system takes 255."""


@cache
def course_files() -> tuple[str, ...]:
    """The files that can be handed in, such as "lesson04_gae/gae.py"."""
    found = [f"{one}/{path.name}" for one in lesson_names() for path in sorted((SOLUTIONS / one).glob("*.py"))]
    return tuple(path for path in found if not path.endswith(("/__init__.py", "/__main__.py")))


@cache
def exercises_in(path: str) -> tuple[str, ...]:
    """Those of a file of the course."""
    lesson, _, file = path.partition("/")
    found = read_lesson(lesson)
    return tuple(exercise for exercise in found.exercises if found.file_of(exercise) == file)


def is_placed(name: str) -> bool:
    """Whether a file lies in the folder of its lesson: two lessons have a trainer.py, and neither is the other's."""
    return "/".join(name.split("/")[-2:]) in course_files()


def is_untouched(path: str, data: bytes) -> bool:
    """Whether each exercise in a file is still its stub; never where there is none."""
    lesson, exercises = path.partition("/")[0], exercises_in(path)
    if not suspects(lesson).keys().isdisjoint(exercises):
        return data.splitlines() == stubs_of(lesson)[path].encode().splitlines()
    return bool(exercises) and all(f'"{path[:8]}: {exercise}"'.encode() in data for exercise in exercises)


def choose(files: Mapping[str, bytes], lessons: Collection[str] = ()) -> tuple[dict[str, str], list[str]]:
    """Choose the files to grade.

    Args:
        files: those of a submission, with "/" between folders.
        lessons: those that are graded (default: all). Of the others, which they may import, no single file is looked
            for, and a second text is no doubt.

    Returns the name of each, by its path below `tutorial/`, and a sentence for each of which there is another text.
    """
    by_file: dict[str, list[str]] = {}
    for name in files:
        by_file.setdefault(name.rpartition("/")[2], []).append(name)
    folders = {name: name.lower().split("/")[:-1] for name in files}
    # Who hands in a copy of the course hands in its solutions, under whatever name: of those only tutorial/ counts.
    is_course = any("tutorial" in above or not OF_COURSE.isdisjoint(above) for above in folders.values())
    chosen: dict[str, str] = {}
    doubts = []
    for path in course_files():
        is_asked = not lessons or path.partition("/")[0] in lessons
        found = []
        for name in by_file.get(path.rpartition("/")[2], ()):
            is_loose, above = not f"/{name}".endswith(f"/{path}"), folders[name]
            is_out = is_loose and (not is_asked or is_placed(name) or not OF_COURSE.isdisjoint(above))
            if not is_out and not (_is_solved(files[name]) and _is_given(above, is_course)):
                is_tutorial = name.split("/")[-3:-2] == ["tutorial"]
                rank = is_untouched(path, files[name]), is_loose, not is_tutorial, len(above), name
                found.append((rank, name))
        if found:
            (_, best), *rest = sorted(found)
            chosen[path] = best
            another = [name for rank, name in rest if not rank[0] and files[name] != files[best]]
            if another and is_asked:
                doubts.append(f"graded {best}; {another[0]} has another text")
    return chosen, doubts


def _is_solved(data: bytes) -> bool:
    """Whether a file has the marks around a solution, which no stub has."""
    return any(line.strip() == REGION.encode() for line in data.splitlines())


def _is_given(above: Iterable[str], is_course: bool) -> bool:
    """Whether folders are those of the course's solutions."""
    is_tutorial = any("tutorial" in part for part in above)
    return any(part.startswith("solution") for part in above) or (is_course and not is_tutorial)


def beside(names: Iterable[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """The student's own modules and packages in the folders of the chosen files, and modules in the tutorial/ above
    them: path below `tutorial/` -> name, what is near first."""
    lessons: dict[str, set[str]] = {}
    for path, name in chosen.items():
        lessons.setdefault(name.rpartition("/")[0], set()).add(path.partition("/")[0])
        if name.endswith(path):
            lessons.setdefault(name.removesuffix(path).removesuffix("/"), set()).add("")
    found: dict[str, str] = {}
    for name in sorted(set(names) - set(chosen.values())):
        for folder, path in _modules(name):
            # A folder above the lessons is no package of theirs: pytest does not find it there either.
            within = (one for one in lessons.get(folder, ()) if one or "/" not in path)
            found.update({f"{one}/{path}".lstrip("/"): name for one in within})
    nearest_first = sorted(found.items(), key=lambda item: (item[0].count("/"), item[0]))
    return {path: name for path, name in nearest_first if path not in chosen}


def _modules(name: str) -> Iterator[tuple[str, str]]:
    """Folders in which a file is a module, or one of a package, with its path from there."""
    parts = name.removesuffix(".py").split("/")
    for depth in range(1, min(len(parts), PACKAGES + 1) + 1) if name.endswith(".py") else ():
        # As Python writes the names that it imports; a Mac takes letters apart.
        inside = [unicodedata.normalize("NFKC", part) for part in parts[-depth:]]
        if all(part.isidentifier() and len(part.encode()) <= LONGEST for part in inside):
            yield "/".join(parts[:-depth]), "/".join(inside) + ".py"
