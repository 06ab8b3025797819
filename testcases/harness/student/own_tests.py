"""A plugin: a student's own tests as plain tests of pytest: `pytest tutorial/lesson10_bug_hunt/my_tests.py`.

They run on the course's functions of the other lessons, as they do where they are graded.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ..catalog import lesson_names
from ..execution.executor import ModuleSet

FILE = "my_tests.py"


def is_own_tests(path: Path) -> bool:
    """Whether an argument of pytest names such a file, or a test in it."""
    return path.name.partition("::")[0] == FILE and path.parent.name in lesson_names()


@cache
def _modules(folder: Path) -> ModuleSet:
    return ModuleSet(folder.parent, [folder.name])


def _on_the_course(path: Path) -> AbstractContextManager[None]:
    """In this block `from ..lesson04_gae import compute_gae` is the course's."""
    return _modules(path.parent).in_place() if is_own_tests(path) else nullcontext()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    """Here pytest imports the file."""
    with _on_the_course(collector.path):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Any:
    """A test may import in its body, too."""
    with _on_the_course(pyfuncitem.path):
        return (yield)
