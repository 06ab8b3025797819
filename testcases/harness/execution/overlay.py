"""Loading a student's lesson on top of the reference versions of all others, without touching either.

A view is a private package, such as `_subject_3`. Inside it, the lessons under test come from a folder, and every
other lesson *is* the module of `solutions`; `demo` and `contest` are loaded anew, on the view's lessons. Relative
imports between lessons resolve inside the view, and so do absolute ones from `tutorial`, which editors write. A file
with an exercise in it never comes from `solutions` in place of the folder's, and a module that `solutions` lacks is
the folder's.
A lesson's `__init__.py` is not run: its public names are looked up in the files that the contract names, one by one,
so that a broken file costs only the exercises in it.
"""

import ast
import difflib
import functools
import importlib
import importlib.util
import itertools
import sys
import time
from collections.abc import Callable, Collection, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ..catalog.encodings import text_of
from ..catalog.lessons import CORE, SOLUTIONS, TUTORIAL
from ..catalog.lessons import lesson as read_lesson

PREFIX = "_subject_"


class Missing(Exception):
    """A name of the contract is not in the student's files."""


class View:
    """One set of lessons to run exercises on.

    Args:
        folder: a copy of `tutorial/`, or of `solutions/`.
        own: folder names of the lessons that come from there; all others are the reference.
        replacements: dotted name -> function put in its place, in every file of the (single) lesson in `own`.
        sources: path below the folder -> text to load in place of the file's.
    """

    _numbers = itertools.count()

    def __init__(
        self,
        folder: Path,
        own: Collection[str],
        replacements: Mapping[str, Callable[..., Any]] | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> None:
        _Finder.install()
        self.folder = folder
        self.own = frozenset(own)
        self.sources = sources or {}
        self.package = f"{PREFIX}{next(self._numbers)}"
        self._failures: dict[str, BaseException] = {}
        self._loading_since: float | None = None
        self._loaded_in = 0.0
        top = ModuleType(self.package)
        top.__path__ = []
        sys.modules[self.package] = top
        _Finder.views[self.package] = self
        for name in self.own:
            module = _LessonModule(f"{self.package}.{name}", self, name)
            sys.modules[module.__name__] = module
            setattr(top, name, module)
        for name, function in (replacements or {}).items():
            (lesson,) = self.own
            self.put(lesson, name, function)

    def lesson(self, name: str) -> ModuleType:
        """The lesson as a module: its public names are attributes, each loaded when it is first asked for."""
        return importlib.import_module(f"{self.package}.{name}")

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
        file = read_lesson(lesson).names[name]
        if file.startswith(CORE):
            return getattr(importlib.import_module(file), name)
        path, full_name = f"{self.folder.name}/{lesson}/{file}.py", f"{self.package}.{lesson}.{file}"
        if full_name not in sys.modules and not (self.folder / lesson / f"{file}.py").is_file():
            others = sorted(other.name for other in (self.folder / lesson).glob("*.py") if other.stem != "__init__")
            raise Missing(f"there is no file {path}" + (f"; there is {', '.join(others[:5])}" if others else ""))
        module = self._load(full_name)
        if not hasattr(module, name):
            own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
            raise Missing(f"{path} defines no {name}{_close_match(name, own)}")
        return getattr(module, name)

    def text(self, path: str) -> str:
        """What stands in a file below the folder, such as "lesson04_gae/gae.py"; "" where it cannot be read."""
        if path in self.sources:
            return self.sources[path]
        try:
            return text_of((self.folder / path).read_bytes())
        except OSError:
            return ""

    def spec(self, name: str, path: str) -> ModuleSpec | None:
        """Where a module of the view comes from; `path`: such as "lesson04_gae.gae"."""
        top, relative = path.partition(".")[0], path.replace(".", "/")
        file, reference = self.folder / f"{relative}.py", SOLUTIONS / f"{relative}.py"
        if top in ("demo", "contest"):
            inside = [str(reference.with_suffix(""))] if path == top else None
            file = SOLUTIONS / top / "__init__.py" if path == top else reference
            return importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
        if top not in self.own and (reference.is_file() or reference.with_suffix("").is_dir()):
            return ModuleSpec(name, _Alias(f"solutions.{path}"), is_package=True)
        return self._file_spec(name, file) if file.is_file() else None

    def _file_spec(self, name: str, file: Path) -> ModuleSpec | None:
        if (source := self.sources.get(file.relative_to(self.folder).as_posix())) is not None:
            return importlib.util.spec_from_file_location(name, file, loader=_Source(name, str(file), source))
        # Students edit and run again within a second: only the reference may come from the bytecode cache.
        loader = SourceFileLoader if self.folder == SOLUTIONS else _FreshLoader
        return importlib.util.spec_from_file_location(name, file, loader=loader(name, str(file)))

    def _load(self, name: str) -> ModuleType:
        if name in self._failures:
            raise self._failures[name]
        if self._loading_since is None and name in sys.modules:
            return sys.modules[name]  # it is whole: nothing is being loaded, and what failed is not there
        is_first = self._loading_since is None
        if is_first:
            self._loading_since = time.process_time()
        try:
            return importlib.import_module(name)
        except BaseException as error:
            # A file is loaded once: the second exercise in it must not wait for the same endless loop again.
            self._failures[name] = error
            raise
        finally:
            if is_first:
                self._loaded_in, self._loading_since = self.load_seconds, None

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
        for name, module in list(sys.modules.items()):
            if name.startswith(f"{self.package}.{lesson}.") and vars(module).get(head) is original:
                setattr(module, head, function)


class _LessonModule(ModuleType):
    """A lesson's package, without its `__init__.py`."""

    def __init__(self, name: str, view: View, lesson: str) -> None:
        super().__init__(name)
        self.__path__ = [str(view.folder / lesson)]
        self.__package__ = name
        self._view, self._lesson = view, lesson

    def __getattr__(self, name: str) -> Any:
        if name in read_lesson(self._lesson).names:
            try:
                return self._view.public_name(self._lesson, name)
            except Missing as error:
                raise AttributeError(str(error)) from None
        raise AttributeError(f"{self._lesson} has no public name {name!r}")


class _Alias(Loader):
    """Gives a module under a second name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self.module = importlib.import_module(self.name)
        self.spec = self.module.__spec__
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class _Finder(MetaPathFinder):
    """Finds the modules of all views."""

    views: dict[str, View] = {}

    @classmethod
    def install(cls) -> None:
        if not any(isinstance(finder, cls) for finder in sys.meta_path):
            sys.meta_path.insert(0, cls())

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        view = self.views.get(package)
        if view is None or not rest:
            return None
        return view.spec(fullname, rest)


class _FreshLoader(SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        text = self.get_data(path)
        return _compiled(text, path, fullname.partition(".")[0] if b"tutorial" in text else "")


@functools.lru_cache(maxsize=64)
def _compiled(text: bytes, path: str, package: str) -> CodeType:
    """A search for a cause loads the same text again and again; where it names the package, each time in another."""
    if b"\0" in text:
        raise SyntaxError("the file holds null bytes, as UTF-16 does: save it as UTF-8")
    if not package:
        return compile(text, path, "exec", dont_inherit=True)
    tree = compile(text, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    return compile(_Inside(package).visit(tree), path, "exec", dont_inherit=True)


class _Inside(ast.NodeTransformer):
    """Takes absolute imports from `tutorial` for those from the view: the same file, the same lessons around it."""

    def __init__(self, package: str) -> None:
        self.package = package

    def _moved(self, name: str | None) -> str | None:
        head, dot, rest = (name or "").partition(".")
        return self.package + dot + rest if head == TUTORIAL.name else name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if not node.level:
            node.module = self._moved(node.module)
        return node

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        nodes: list[ast.stmt] = []
        for alias in node.names:
            moved = str(self._moved(alias.name))
            is_whole = moved != alias.name and alias.asname is None  # it binds the name `tutorial`
            nodes.append(ast.Import([ast.alias(moved, alias.asname)]))
            if is_whole:
                nodes.append(ast.Import([ast.alias(self.package, TUTORIAL.name)]))
        return [ast.copy_location(ast.fix_missing_locations(one), node) for one in nodes]


class _Source(_FreshLoader):
    """Loads a text under the name of a file."""

    def __init__(self, fullname: str, path: str, source: str) -> None:
        super().__init__(fullname, path)
        self.source = source

    def get_data(self, path: str) -> bytes:
        return self.source.encode()


def _close_match(name: str, names: Collection[str]) -> str:
    close = difflib.get_close_matches(name, [other for other in names if not other.startswith("__")], n=1)
    return f"; there is {close[0]}: was it renamed?" if close else ""
