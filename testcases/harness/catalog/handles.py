"""What a suite imports: `from tutorial.lesson04_gae import compute_gae` gives a handle, not the student's function.

Nothing of the student is loaded at collection, so no mistake in a file can break it. `tutorial` is the package of
handles from the import of this module on; whatever a suite takes from the engine imports it. What is no exercise, such
as lesson 0, is found in the folder.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .lessons import TUTORIAL, lesson, lesson_names


@dataclass(frozen=True)
class Exercise:
    """The name of something in a lesson; `ValueModel.forward` on a handle names the method."""

    lesson: str
    name: str

    def __getattr__(self, name: str) -> Exercise:
        if name.startswith("_"):
            raise AttributeError(name)
        return Exercise(self.lesson, f"{self.name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"inside a suite {self.name} is only a name: use call({self.name}, ...); "
            f"inside a lesson import relatively: from ..{self.lesson} import {self.name}"
        )


@dataclass(frozen=True)
class Scenario:
    """An exercise reached through a scenario."""

    exercise: Exercise
    name: str


class _Handles(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package != "tutorial" or (name and name not in lesson_names()):
            return None
        spec = ModuleSpec(fullname, self)
        spec.submodule_search_locations = None if name else [str(TUTORIAL)]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        name = spec.name.partition(".")[2]
        return _Handle(spec.name, name) if name else ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Handle(ModuleType):
    def __init__(self, name: str, lesson: str) -> None:
        super().__init__(name)
        self._lesson = lesson

    def __getattr__(self, name: str) -> Exercise:
        if name.startswith("_") or name not in lesson(self._lesson).names:
            raise AttributeError(f"{self._lesson} has no public name {name!r}")
        return Exercise(self._lesson, name)


sys.meta_path.insert(0, _Handles())
