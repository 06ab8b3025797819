"""What a suite imports: `from tutorial.lesson04_gae import compute_gae` gives a function that asks the code under test.

Nothing of the student is loaded when a suite is imported, so no mistake in a file can break it: while a suite is read,
`tutorial` is a package of these functions, from the import of this module on. Whatever a suite takes from the harness
imports it. What is no exercise, such as lesson 0, is found in the folder.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .lessons import TUTORIAL, lesson, lesson_names


@dataclass(frozen=True)
class Exercise:
    """The name of something in a lesson, such as "compute_gae" or "ValueModel.forward"."""

    lesson: str
    name: str


@dataclass(frozen=True)
class Scenario:
    """An exercise reached through a scenario, which may take so many seconds."""

    exercise: Exercise
    name: str
    seconds: float | None = None


def asking(target: Exercise | Scenario) -> Callable[..., Any]:
    """A function that asks the code under test, and returns its answer as plain values."""

    def ask(*args: Any, **kwargs: Any) -> Any:
        asserts = importlib.import_module("testcases.harness.suite.asserts")  # here: a hint must not wait for torch
        return asserts.ask(target, *args, **kwargs)

    ask.__name__ = ask.__qualname__ = target.name
    ask.target = target  # type: ignore[attr-defined]
    ask.__test__ = False  # type: ignore[attr-defined]  # to pytest `test_compute_gae`, an exercise, is none of its own
    return ask


def target_of(function: Any) -> Exercise | Scenario:
    """What such a function asks.

    Raises:
        TypeError: it is another function.
    """
    found = getattr(function, "target", function)
    if not isinstance(found, (Exercise, Scenario)):
        raise TypeError(f"expected an exercise imported from tutorial, or a scenario of one, got {function!r}")
    return found


def exercise_of(function: Any) -> Exercise:
    """The exercise that such a function asks, directly or through a scenario."""
    found = target_of(function)
    return found.exercise if isinstance(found, Scenario) else found


def _front(name: str) -> ModuleType:
    """A lesson as suites see it: a function for each public name, and for each method that is an exercise."""
    module, read = ModuleType(f"tutorial.{name}"), lesson(name)
    for public in read.names:
        setattr(module, public, asking(Exercise(name, public)))
    for exercise in read.exercises:
        owner, _, method = exercise.rpartition(".")
        if owner in read.names:
            setattr(getattr(module, owner), method, asking(Exercise(name, exercise)))
    return module


def _put_in_place() -> None:
    top = ModuleType("tutorial")
    top.__path__ = [str(TUTORIAL)]
    sys.modules["tutorial"] = top
    for name in lesson_names():
        module = _front(name)
        sys.modules[module.__name__] = module
        setattr(top, name, module)


_put_in_place()
