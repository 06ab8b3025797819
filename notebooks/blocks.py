"""The lessons that a notebook draws: those of `solutions`, or your own in their place."""

import importlib
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, SimpleNamespace

ROOT = Path(__file__).absolute().parents[1]
sys.path.insert(0, str(ROOT))

from testcases.harness.catalog import CAPSTONE, course_lessons, lesson_names  # noqa: E402
from testcases.harness.execution.executor import ModuleSet  # noqa: E402

_for_good = ExitStack()
"""Your lessons stand under `tutorial` until the notebook ends: what its cells call may import them."""
STUB = re.compile(r'^ *raise NotImplementedError\("lesson\d\d: ([\w.]+)"\)', re.MULTILINE)


class NotFinished(Exception):
    """A notebook is asked to draw your own lesson, and some of its exercises are not written."""

    def _render_traceback_(self) -> list[str]:
        """What Jupyter shows: the message, without the lines of the code that found it."""
        return [str(self)]


def lessons(stack: str, own: str, *others: str) -> list[ModuleType]:
    """The lessons of a notebook as modules.

    Args:
        stack: "solutions", or "tutorial": the lesson `own` from your files. The others stay those of the course, as
            under pytest; only notebook 12 draws all of your lessons.
        own: the notebook's lesson, such as "lesson04_gae".
        others: lessons, or such as "demo.stages", that it uses as well.

    Raises:
        NotFinished: an exercise of a lesson that should be yours is still a stub; the message names all of them.
    """
    if stack not in ("solutions", "tutorial"):
        raise ValueError(f'STACK: expected "solutions" or "tutorial", got {stack!r}')
    if stack == "tutorial":
        yours = course_lessons() if own.startswith(CAPSTONE) else (own,)
        if missing := [line for name in yours for line in _unwritten(name)]:
            raise NotFinished(
                'STACK = "tutorial" draws your own code, and these exercises are not written yet:\n'
                + "\n".join(missing)
                + '\nWrite them, or put STACK = "solutions".'
            )
        modules = ModuleSet(ROOT / "tutorial", yours)
        _for_good.enter_context(modules.in_place())
        return [modules.lesson(name) for name in (own, *others)]
    return [importlib.import_module(f"solutions.{name}") for name in (own, *others)]


def course(stack: str, own: str) -> SimpleNamespace:
    """Every lesson by the name of its folder without the number, and the files of `own` by theirs.

    With own = "lesson09_ppo_trainer" they are `.gae`, `.rollout` and so on, and `.trainer`, which is its file.

    Args: as `lessons`.
    """
    names = [own, *(name for name in lesson_names() if name != own)]
    files = sorted(path.stem for path in (ROOT / "solutions" / own).glob("[!_]*.py"))
    loaded = lessons(stack, *names, *(f"{own}.{file}" for file in files))
    of_files = dict(zip(files, loaded[len(names) :], strict=True))
    return SimpleNamespace(**of_files | {name[9:]: lesson for name, lesson in zip(names, loaded, strict=False)})


def _unwritten(lesson: str) -> list[str]:
    """A line for each file of one of your lessons in which stubs are left."""
    lines = []
    for path in sorted((ROOT / "tutorial" / lesson).glob("*.py")):
        if names := STUB.findall(path.read_text("utf-8")):
            lines.append(f"  {path.relative_to(ROOT).as_posix()}: {', '.join(names)}")
    return lines
