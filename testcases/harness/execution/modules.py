"""A student's lessons as modules, on top of the solutions of all others: importlib alone, and the real files.

A set stands under `tutorial` in `sys.modules` while it is loaded and while a call runs, and leaves it afterwards. So
relative, absolute and function-level imports all find the lessons of the same set. Of its own lessons each is a package
whose `__path__` is the folder; every other lesson *is* the module of `solutions`, under a second name.
A lesson's `__init__.py` is not run: its public names are looked up in the files that the contract names, one by one,
so that a broken file costs only the exercises in it.
"""

import ast
import difflib
import functools
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from ..catalog.encodings import text_of
from ..catalog.lessons import CORE, SOLUTIONS, lesson_names
from ..catalog.lessons import lesson as read_lesson

TOP = "tutorial"


class Missing(AttributeError):
    """A name of the contract is not in the student's files."""


class ModuleSet:
    """One set of lessons to run exercises on. Without an own lesson it is the reference, under its own name.

    Args:
        folder: a copy of `tutorial/`, or `solutions/`.
        own: folder names of the lessons that are loaded for this set; all others are the reference.
        texts: path below the folder -> what is run in place of that file.
        from_solutions: those of `own` whose files are the solutions', here on the lessons of this set.
    """

    def __init__(
        self,
        folder: Path,
        own: Collection[str] = (),
        texts: Mapping[str, str] | None = None,
        from_solutions: Collection[str] = (),
    ) -> None:
        self.folder, self.own, self.texts = folder, frozenset(own), dict(texts or {})
        self._homes = {name: (SOLUTIONS if name in from_solutions else folder) / name for name in self.own}
        self._failures: dict[str, tuple[BaseException, TracebackType | None]] = {}
        self._loading_since: float | None = None
        self._loaded_in = 0.0
        self._top = _package(TOP, SOLUTIONS, folder)  # such as `tutorial.demo`, and a helper beside the lessons
        self.modules: dict[str, ModuleType] = {TOP: self._top}
        """Name -> module of this set: what is loaded so far."""
        for name, home in self._homes.items():
            package = self.modules[f"{TOP}.{name}"] = _package(f"{TOP}.{name}", home)
            package.__getattr__ = functools.partial(self.public_name, name)  # type: ignore[method-assign]
            setattr(self._top, name, package)
        self._waiting = [*self.texts]
        if self.own:
            files = (_imported_in(text, name) for name in self.own for text in self._texts_of(name))
            self._borrow(frozenset().union(*files))

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
        self._borrow({head})
        with self.in_place():
            return importlib.import_module(f"{TOP}.{name}")

    def resolve(self, lesson: str, dotted: str) -> Any:
        """The function or method behind an exercise.

        Raises:
            Missing: it is not there.
            BaseException: whatever the student's file raised when it was loaded.
        """
        head, *rest = dotted.split(".")
        found = self.public_name(lesson, head) if lesson in self.own else getattr(self.lesson(lesson), head)
        for name in rest:
            if not hasattr(found, name):
                raise Missing(f"{head} has no {name}{_close_match(name, dir(found))}")
            found = getattr(found, name)
        return found

    def public_name(self, lesson: str, name: str) -> Any:
        """One public name of an own lesson, from the file in which the reference defines it."""
        file = read_lesson(lesson).names.get(name)
        if file is None:
            raise Missing(f"{lesson} has no public name {name!r}")
        if file.startswith(CORE):
            return getattr(importlib.import_module(file), name)
        path, full_name = f"{self.folder.name}/{lesson}/{file}.py", f"{TOP}.{lesson}.{file}"
        with self.in_place():
            if full_name not in sys.modules and not (self._homes[lesson] / f"{file}.py").is_file():
                others = sorted(one.name for one in self._homes[lesson].glob("*.py") if one.stem != "__init__")
                raise Missing(f"there is no file {path}" + (f"; there is {', '.join(others[:5])}" if others else ""))
            module = self._load(full_name)
        if not hasattr(module, name):
            own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == full_name]
            raise Missing(f"{path} defines no {name}{_close_match(name, own)}")
        return getattr(module, name)

    def text(self, path: str) -> str:
        """What stands in a file below the folder, such as "lesson04_gae/gae.py"; "" where it cannot be read."""
        if path in self.texts:
            return self.texts[path]
        try:
            home = self._homes.get(path.partition("/")[0])
            return text_of(((home.parent if home else self.folder) / path).read_bytes())
        except OSError:
            return ""

    @property
    def load_seconds(self) -> float:
        """Of work, that loading the folder's files and all that they import has taken so far."""
        return self._loaded_in + (time.process_time() - self._loading_since if self._loading_since is not None else 0.0)

    def put_aside(self, lesson: str, dotted: str) -> None:
        """Let an exercise that never ends be like its stub to the others that call it: they shall not wait as well."""

        def waits(*args: Any, **options: Any) -> None:
            raise NotImplementedError(f"{read_lesson(lesson).short}: {dotted}")

        self.put(lesson, dotted, waits)

    def put(self, lesson: str, dotted: str, function: Callable[..., Any]) -> None:
        """Put a function in an exercise's place, in every file of its lesson: those loaded later import it."""
        head, _, method = dotted.partition(".")
        original = self.public_name(lesson, head)
        if method:
            kind = vars(original).get(method)
            wrap = type(kind) if isinstance(kind, (staticmethod, classmethod, property)) else lambda function: function
            setattr(original, method, wrap(function))
            return
        for name, module in self.modules.items():
            if name.startswith(f"{TOP}.{lesson}.") and vars(module).get(head) is original:
                setattr(module, head, function)

    def _load(self, name: str) -> ModuleType:
        """A file of an own lesson is loaded once: the second exercise in it must not wait for the same endless loop."""
        if name in self._failures:
            error, where = self._failures[name]
            raise error.with_traceback(where)
        is_first = self._loading_since is None
        if is_first and name in sys.modules:
            return sys.modules[name]  # it is whole: nothing is being loaded, and what failed is not there
        if is_first:
            self._loading_since = time.process_time()
        try:
            while self._waiting:
                self._run_text(self._waiting[0])
            return importlib.import_module(name)
        except BaseException as error:
            self._failures[name] = error, error.__traceback__
            raise
        finally:
            if is_first:
                self._loaded_in, self._loading_since = self.load_seconds, None

    def _run_text(self, path: str) -> None:
        """Run a text as the module of the file in whose place it stands, after those that it imports, and before the
        files that import it."""
        lesson, file = path.removesuffix(".py").split("/")
        name, imports = f"{TOP}.{lesson}.{file}", _imported_in(self.texts[path], lesson)
        self._waiting.remove(path)
        try:
            for other in [one for one in self._waiting if one.removesuffix(".py").replace("/", ".") in imports]:
                if other in self._waiting:
                    self._run_text(other)
            spec = importlib.util.spec_from_file_location(name, self.folder / path)
            assert spec is not None and spec.loader is not None
            # Whoever reads the module's file, as lesson 10 reads a student's tests, reads what was run.
            spec.loader.get_data = lambda _: self.texts[path].encode()  # type: ignore[attr-defined]
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            exec(_compiled(self.texts[path], str(self.folder / path)), vars(module))
        except BaseException:
            self._waiting.append(path)
            sys.modules.pop(name, None)
            raise

    def _texts_of(self, lesson: str) -> Iterator[str]:
        return (self.text(f"{lesson}/{path.name}") for path in sorted(self._homes[lesson].glob("*.py")))

    def _borrow(self, names: Collection[str]) -> None:
        """Give the solutions' modules of these lessons their second names; for `demo` and `contest`, which are loaded
        anew, those of all lessons."""
        if not {"demo", "contest"}.isdisjoint(names):
            names = lesson_names()
        new = {name for name in lesson_names() if name in names and f"{TOP}.{name}" not in self.modules}
        for name in new:
            setattr(self._top, name, importlib.import_module(f"solutions.{name}"))
        for name, module in [*sys.modules.items()] if new else ():
            package, _, rest = name.partition(".")
            if package == "solutions" and rest.partition(".")[0] in new:
                self.modules[f"{TOP}.{rest}"] = module
                if sys.modules.get(TOP) is self._top:
                    sys.modules[f"{TOP}.{rest}"] = module


def _package(name: str, *folders: Path) -> ModuleType:
    """A package whose modules are found in these folders, and that has no code of its own."""
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder) for folder in folders]
    return importlib.util.module_from_spec(spec)


def _taken_out() -> dict[str, ModuleType]:
    """Take `tutorial` and its modules out of `sys.modules`, where they all stand behind the package."""
    found = []
    for name in reversed([*sys.modules]):
        if name == TOP or name.startswith(f"{TOP}."):
            found.append(name)
        if name == TOP:
            break
    return {name: sys.modules.pop(name) for name in reversed(found)}


@functools.lru_cache(maxsize=256)
def _imported_in(text: str, lesson: str) -> frozenset[str]:
    """What a file of a lesson imports of the course, such as "lesson05_ppo_loss.ppo_loss", and what that is in."""
    found = []
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except Exception:
        return frozenset()  # It does not load either.
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ["", f"{TOP}.{lesson}", TOP][min(node.level, 2)]
            base = ".".join(filter(None, [above, node.module]))
            found += [f"{base}.{alias.name}" for alias in node.names]
    inside = (name.split(".")[1:] for name in found if name.startswith(f"{TOP}."))
    return frozenset(".".join(parts[:count]) for parts in inside for count in range(1, len(parts) + 1))


@functools.lru_cache(maxsize=64)
def _compiled(text: str, path: str) -> CodeType:
    """A search for a cause runs the same text again and again."""
    return compile(text, path, "exec", dont_inherit=True)


def _close_match(name: str, names: Collection[str]) -> str:
    close = difflib.get_close_matches(name, [other for other in names if not other.startswith("__")], n=1)
    return f"; there is {close[0]}: was it renamed?" if close else ""
