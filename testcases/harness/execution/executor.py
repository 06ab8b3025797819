"""Running student code: an Executor answers a plain Call with a plain Outcome.

A student's lessons are modules on top of the solutions of all others: importlib alone, and the real files. A set of
them stands under `tutorial` in `sys.modules` while it is loaded and while a call runs, and leaves it afterwards. So
relative, absolute and function-level imports all find the lessons of the same set. Of its own lessons each is a package
whose `__path__` is the folder; every other lesson that the solution needs *is* the module of `solutions`, under a
second name, and any other one is loaded from there.
A lesson's `__init__.py` is not run: its public names are looked up in the files that the contract names, one by one,
so that a broken file costs only the exercises in it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Protocol

from ..catalog import CORE, SOLUTIONS, lesson_names, read_lesson
from .calling import Terms, one_call
from .errors import TOP, Missing
from .messages import Call, Outcome


class Executor(Protocol):
    """Whatever runs a Call: in this process, or (the grader) in a sandboxed worker."""

    def run(self, call: Call) -> Outcome: ...

    def text(self, lesson: str, file: str) -> str:
        """A file of the subject's as it was handed in, read without running it; "" where there is none."""
        ...

    def with_texts(self, texts: Mapping[str, str]) -> Executor:
        """The same files, loaded again, with other texts for some: path, such as "lesson04_gae/gae.py" -> text."""
        ...

    def finish(self) -> None:
        """End what it keeps running; the next question starts it again."""


class InProcess:
    """Runs calls in this process.

    Args:
        folder: a copy of `tutorial/`, or `solutions/`.
        own: whether a lesson that is called is loaded from there; else it is the reference.
        texts: path below the folder, such as "lesson04_gae/gae.py" -> what is to be in place of that file.
        terms: of each call.
    """

    def __init__(
        self, folder: Path, own: bool = True, texts: Mapping[str, str] | None = None, terms: Terms | None = None
    ) -> None:
        self._folder, self._own = folder.resolve(), own
        self._texts, self._terms = {**(texts or {})}, terms or Terms()
        self._sets: dict[str, ModuleSet] = {}
        self._lent: list[tuple[str, str]] = []
        self._called: set[str] = set()

    def run(self, call: Call) -> Outcome:
        self._called.clear()
        outcome = one_call(self.modules(call.lesson), call, self._terms)
        return replace(outcome, lent=tuple(sorted(self._called))) if self._called else outcome

    def loads(self, lesson: str, exercise: str, seconds: float) -> bool:
        """Load the file of an exercise; False if that takes too long. What else is wrong with it, each call says."""
        outcome = one_call(self.modules(lesson), Call(lesson, exercise, seconds=seconds), self._terms, True)
        return outcome.error is None or outcome.error.kind != "timeout"

    def modules(self, lesson: str) -> ModuleSet:
        if lesson not in self._sets:
            self._sets[lesson] = ModuleSet(self._folder, [lesson] if self._own else (), self._texts)
        return self._sets[lesson]

    def function(self, lesson: str, exercise: str) -> Any:
        """The function itself; for the reference only, since loading a student's file may do anything."""
        return self.modules(lesson).resolve(lesson, exercise)

    def text(self, lesson: str, file: str) -> str:
        try:
            return (self.modules(lesson).folder / lesson / file).read_text("utf-8-sig", "replace")
        except OSError:
            return ""

    def lend(self, lesson: str, exercise: str) -> None:
        """Let the solution answer for an exercise from now on; `Outcome.lent` tells which calls made use of it."""
        solution = ModuleSet(SOLUTIONS).resolve(lesson, exercise)

        @functools.wraps(solution)
        def lent(*args: Any, **options: Any) -> Any:
            self._called.add(exercise)
            return solution(*args, **options)

        self.modules(lesson).put(lesson, exercise, lent)
        self._lent.append((lesson, exercise))

    def with_texts(self, texts: Mapping[str, str]) -> InProcess:
        other = InProcess(self._folder, self._own, {**self._texts, **texts}, self._terms)
        for lesson, exercise in self._lent:
            other.lend(lesson, exercise)
        return other

    def finish(self) -> None:
        """Nothing is kept running."""


def solutions_changed(texts: Mapping[str, str]) -> InProcess:
    """The reference, with other texts for some files: path below `solutions/` -> text."""
    return InProcess(SOLUTIONS, texts=texts)


# A student's files as modules


class ModuleSet:
    """One set of lessons to run exercises on. Without an own lesson it is the reference, under its own name.

    Args:
        folder: a copy of `tutorial/`, or `solutions/`.
        own: folder names of the lessons that are loaded for this set; all others are the reference.
        texts: path below the folder -> what is to be in place of that file, in a copy that is made of these lessons.
    """

    def __init__(self, folder: Path, own: Collection[str] = (), texts: Mapping[str, str] | None = None) -> None:
        self.folder, self.own = folder, frozenset(own)
        if texts:
            self._copied(texts)
        self._failures: dict[str, tuple[BaseException, TracebackType | None]] = {}
        self._top = _package(TOP, SOLUTIONS, folder)  # such as `tutorial.demo`, and a helper beside the lessons
        self.modules: dict[str, ModuleType] = {TOP: self._top}
        """Name -> module of this set: what is loaded so far."""
        for name in self.own:
            with suppress(ImportError):  # in a course of a few lessons
                importlib.import_module(f"solutions.{name}")  # with the lessons below, whose classes are the same then
            package = self.modules[f"{TOP}.{name}"] = _package(f"{TOP}.{name}", self.folder / name)
            package.__getattr__ = functools.partial(self.public_name, name)  # type: ignore[method-assign]
            setattr(self._top, name, package)
        for name, module in [*sys.modules.items()] if self.own else ():
            package_name, _, rest = name.partition(".")
            lesson = rest.partition(".")[0]
            if package_name == "solutions" and lesson in lesson_names() and lesson not in self.own:
                self.modules[f"{TOP}.{rest}"] = module
                if rest == lesson:
                    setattr(self._top, lesson, module)

    def _copied(self, texts: Mapping[str, str]) -> None:
        home = tempfile.mkdtemp(prefix="ppo-by-hand-")
        weakref.finalize(self, shutil.rmtree, home, ignore_errors=True)
        copy = Path(home).resolve() / self.folder.name
        for name in self.own:
            if (self.folder / name).is_dir():
                skipped = shutil.ignore_patterns("__pycache__")
                shutil.copytree(self.folder / name, copy / name, ignore=skipped, ignore_dangling_symlinks=True)
        for path, text in texts.items():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).write_text(text, "utf-8", "surrogatepass")
        self.folder = copy

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """In this block `tutorial` is this set; then what stood there before comes back."""
        if not self.own or sys.modules.get(TOP) is self._top:
            yield
            return
        before = _taken_out() if TOP in sys.modules else {}
        writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a student may save twice within a second
        sys.modules.update(self.modules)
        try:
            yield
        finally:
            self.modules = _taken_out()
            sys.modules.update(before)
            sys.dont_write_bytecode = writes

    def lesson(self, name: str) -> ModuleType:
        """A lesson as a module, or such as `demo.stages`: public names are loaded when they are first asked for."""
        head = name.partition(".")[0]
        if not self.own or (head in lesson_names() and head not in self.own):
            return importlib.import_module(f"solutions.{name}")
        with self.in_place():
            return importlib.import_module(f"{TOP}.{name}")

    def resolve(self, lesson: str, dotted: str) -> Any:
        """The function or method behind an exercise.

        Raises:
            Missing: it is not there.
            BaseException: whatever the student's file raised when it was loaded.
        """
        head, _, method = dotted.partition(".")
        found = self.public_name(lesson, head) if lesson in self.own else getattr(self.lesson(lesson), head)
        if method and not hasattr(found, method):
            raise Missing(f"{head} has no {method}")
        return getattr(found, method) if method else found

    def public_name(self, lesson: str, name: str) -> Any:
        """One public name of an own lesson, from the file in which the reference defines it."""
        file = read_lesson(lesson).names.get(name)
        if file is None:
            raise Missing(f"{lesson} has no public name {name!r}")
        if file.startswith(CORE):
            return getattr(importlib.import_module(file), name)
        path, full_name = f"{self.folder.name}/{lesson}/{file}.py", f"{TOP}.{lesson}.{file}"
        with self.in_place():
            if full_name not in sys.modules and not (self.folder / lesson / f"{file}.py").is_file():
                raise Missing(f"there is no file {path}")
            module = self._load(full_name)
        if not hasattr(module, name):
            raise Missing(f"{path} defines no {name}")
        return getattr(module, name)

    def put(self, lesson: str, dotted: str, function: Callable[..., Any]) -> None:
        """Put a function in an exercise's place, in every file of its lesson: those loaded later import it."""
        head, _, method = dotted.partition(".")
        original = self.public_name(lesson, head)
        if method:
            setattr(original, method, function)
            return
        for name, module in self.modules.items():
            if name.startswith(f"{TOP}.{lesson}.") and vars(module).get(head) is original:
                setattr(module, head, function)

    def _load(self, name: str) -> ModuleType:
        """A file of an own lesson is loaded once: the second exercise in it must not wait for the same endless loop."""
        if name in self._failures:
            error, where = self._failures[name]
            raise error.with_traceback(where)
        try:
            return importlib.import_module(name)
        except BaseException as error:
            self._failures[name] = error, error.__traceback__
            raise


def _package(name: str, *folders: Path) -> ModuleType:
    """A package whose modules are found in these folders, and that has no code of its own."""
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder) for folder in folders]
    return importlib.util.module_from_spec(spec)


def _taken_out() -> dict[str, ModuleType]:
    """Take `tutorial` and its modules out of `sys.modules`, where they all stand behind the package."""
    found = []
    for name in reversed([*sys.modules]):  # A copy: a student's thread may import meanwhile.
        if name == TOP or name.startswith(f"{TOP}."):
            found.append(name)
        if name == TOP:
            break
    return {name: sys.modules.pop(name) for name in reversed(found)}
