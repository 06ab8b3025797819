"""A plugin: a student's own tests as plain tests of pytest: `pytest tutorial/lesson10_bug_hunt/my_tests.py`.

They run on the course's functions of the other lessons, as they do where they are graded.
"""

import ast
import traceback
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest.assertion.rewrite import rewrite_asserts

from ..catalog.lessons import lesson_names
from ..execution.modules import ModuleSet

FILE = "my_tests.py"


def is_own_tests(path: Path) -> bool:
    """Whether an argument of pytest names such a file, or a test in it."""
    return path.name.partition("::")[0] == FILE and path.parent.name in lesson_names()


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> Any:
    return OwnTests.from_parent(parent, path=module_path) if is_own_tests(module_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Any:
    """A test may import in its body, too."""
    own = pyfuncitem.getparent(OwnTests)
    with own.modules.in_place() if own else nullcontext():
        return (yield)


class OwnTests(pytest.Module):
    """The file, loaded where `from ..lesson04_gae import compute_gae` is the course's."""

    def _getobj(self) -> ModuleType:
        lesson, source = self.path.parent.name, self.path.read_bytes()
        self.modules = ModuleSet(self.path.parent.parent, [lesson])
        module: Any = ModuleType(f"tutorial.{lesson}.{self.path.stem}")
        module.__package__, module.__file__ = f"tutorial.{lesson}", str(self.path)
        self.modules.modules[module.__name__] = module  # dataclasses look their module up
        try:
            tree = ast.parse(source, str(self.path))
            rewrite_asserts(tree, source, str(self.path), self.config)
            with self.modules.in_place():
                exec(compile(tree, str(self.path), "exec", dont_inherit=True), vars(module))
        except Exception as error:
            own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(self.path)]
            lines = [*traceback.format_list(own), *traceback.format_exception_only(error)]
            raise self.CollectError(f"{FILE} does not load\n{''.join(lines)}") from None
        # As where they are graded: a warning fails no test.
        self.add_marker(pytest.mark.filterwarnings("default"))
        return module
