"""The part of the course that a worker may see, laid out in a folder: one tree a lesson.

In the tree of lesson N the reference of lesson N is only its stubs, and all other lessons are solved: a student's
lesson runs on them. So code of lesson 9 can read the solution of lesson 4, but not tell anyone: each lesson runs in
a process of its own, without network or a file that outlives it, and what it returns is compared with the answers of
its own exercises. Where scenarios set a student's exercise among the reference's others, each exercise has a process of
its own, with the reference of all but itself. No suite, no expected value, no misconception and no point is in any
tree.
"""

from __future__ import annotations

import ast
import hashlib
import os
import py_compile
import shutil
import sys
from pathlib import Path

from testcases.engine.contract import ROOT, SOLUTIONS, TESTCASES, lesson_names, regions
from testcases.engine.contract import lesson as read_lesson
from testcases.engine.evaluate import CAPSTONE
from testcases.engine.stubs import stub, stubs_of

from .sandbox import Course

HERE = Path(__file__).parent
ENGINE = ("evaluate", "plain", "views", "contract")


def stage(folder: Path) -> Course:
    """Write the trees into a new folder, readable for every user."""
    folder.mkdir(parents=True)
    for name in ("worker.py", "kernel.py"):
        shutil.copyfile(HERE / name, folder / name)
    shutil.copytree(ROOT / "tiny_models", folder / "tiny_models", ignore=shutil.ignore_patterns("__pycache__"))
    preload, own = {}, set()
    for lesson in lesson_names():
        tree = folder / lesson
        _stage_tree(tree, lesson)
        if _uses_its_own_reference(lesson):
            own.add(lesson)
            for exercise in read_lesson(lesson).exercises:
                _stage_own(folder / "own" / exercise / lesson, lesson, exercise)
        preload[lesson] = tuple(_imports(lesson, lesson in own))
    # What a worker imports by itself, it imports again and again.
    for path in (*folder.glob("own/*/*/*.py"), *folder.glob("*/testcases/*/*.py")):
        py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    light = ("torch", "solutions", "testcases")
    heavy = {lesson for lesson, names in preload.items() if any(_root(name) not in light for name in names)}
    return Course(folder, preload, frozenset(heavy), frozenset(own))


def _root(name: str) -> str:
    return name.partition(":")[0].partition(".")[0]


def _stage_tree(tree: Path, lesson: str) -> None:
    for package in ("testcases", "testcases/engine", "testcases/grader", f"testcases/{lesson}"):
        (tree / package).mkdir(parents=True)
        (tree / package / "__init__.py").touch()
    for name in ENGINE:
        shutil.copyfile(TESTCASES / "engine" / f"{name}.py", tree / "testcases/engine" / f"{name}.py")
    shutil.copyfile(HERE / "protocol.py", tree / "testcases/grader/protocol.py")
    for path in _scenarios(lesson):
        target = tree / "testcases" / path.relative_to(TESTCASES)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    # The same files under ten names: a worker sees one tree and cannot write to it.
    shutil.copytree(tree.parent / "tiny_models", tree / "tiny_models", copy_function=os.link)
    (tree / "solutions").mkdir()
    shutil.copyfile(SOLUTIONS / "__init__.py", tree / "solutions/__init__.py")
    shutil.copytree(SOLUTIONS / "given", tree / "solutions/given", ignore=shutil.ignore_patterns("__pycache__"))
    for name in lesson_names():
        # The capstone runs on the student's own lessons: it needs the reference of none.
        hidden = name == lesson or lesson.startswith(CAPSTONE)
        for path in sorted((SOLUTIONS / name).glob("*.py")):
            target = tree / "solutions" / name / path.name
            target.parent.mkdir(exist_ok=True)
            target.write_text(stub(path) if hidden else path.read_text("utf-8"), "utf-8")


def _stage_own(folder: Path, lesson: str, exercise: str) -> None:
    """The lesson's reference without one exercise, for scenarios that set the student's code among the reference's."""
    folder.mkdir(parents=True)
    short = lesson[:8]
    for path in sorted((SOLUTIONS / lesson).glob("*.py")):
        lines = path.read_text("utf-8").splitlines()
        for region in regions(path):
            if region.exercise == exercise:
                marker = lines[region.first]
                indent = marker[: len(marker) - len(marker.lstrip())]
                lines[region.first : region.last + 1] = [f'{indent}raise NotImplementedError("{short}: {exercise}")']
        (folder / path.name).write_text("\n".join(lines) + "\n", "utf-8")


def _scenarios(lesson: str) -> list[Path]:
    """What drives a student's exercise in a worker: the lesson's scenarios, and the doubles that they share."""
    own = sorted((TESTCASES / lesson).glob("scenarios*.py"))
    return [*own, *sorted((TESTCASES / "doubles").glob("*.py"))] if own else []


def _uses_its_own_reference(lesson: str) -> bool:
    return any(f"solutions.{lesson}" in path.read_text("utf-8") for path in _scenarios(lesson))


def _imports(lesson: str, own: bool) -> list[str]:
    """What code of the lesson imports, "module" or "module:name", but not the lesson itself."""
    seen: dict[str, None] = {}
    scenarios = _scenarios(lesson)
    paths = sorted((SOLUTIONS / lesson).glob("*.py")) + scenarios
    paths = [path for path in paths if path.name != "__main__.py"]
    for path in paths:
        _imports_of(path, lesson, seen)
    if any(name.startswith("tiny_models") for name in seen):
        for path in sorted((ROOT / "tiny_models").glob("*.py")):
            _imports_of(path, lesson, seen)
    if scenarios and not own:
        seen[f"testcases.{lesson}.scenarios"] = None
    if any("optim" in path.read_text("utf-8") for path in paths):
        # The first optimiser that is made imports half of torch, for a second.
        seen["torch._dynamo"] = None
    capstone = lesson.startswith(CAPSTONE)
    standard = sys.stdlib_module_names
    return [name for name in seen if not (capstone and _root(name) == "solutions") and _root(name) not in standard]


def _imports_of(path: Path, lesson: str, seen: dict[str, None]) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            seen.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level == 2 and path.is_relative_to(SOLUTIONS):
                module = f"solutions.{module}"
            elif node.level == 1 and path.parent.name == "tiny_models":
                module = f"tiny_models.{module}"
            elif node.level:
                continue
            if not module.startswith((f"solutions.{lesson}", f"testcases.{lesson}", "__future__")):
                seen.update(dict.fromkeys(f"{module}:{alias.name}" for alias in node.names))


def fingerprint(*extra: str) -> str:
    """A hash of everything that a mark depends on, but the submission."""
    found = hashlib.sha256("\0".join(extra).encode())
    folders = [TESTCASES / "engine", SOLUTIONS, ROOT / "tiny_models"]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    paths += [path for path in HERE.glob("*.py") if not path.name.endswith("_test.py")]
    paths += [path for name in lesson_names() for path in (TESTCASES / name).glob("*.py")]
    for path in sorted(paths):
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def untouched() -> dict[str, bytes]:
    """Path below `tutorial/` -> the file as it is handed out, for every file with something to fill in."""
    found = {}
    for lesson in lesson_names():
        for path, text in stubs_of(lesson).items():
            if not path.endswith(("/__init__.py", "/__main__.py")):
                found[path] = text.encode()
    return found
