"""The solutions with something else in a region: a wrong answer, another right one, or a stub to be filled in."""

import ast
import importlib
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..catalog import SOLUTIONS, TESTCASES, lesson_names, read_lesson, region_of, region_text, regions, section_for

PACKAGE = '"""Your lessons: fill in each `raise NotImplementedError(...)`, then run `pytest`."""\n'
RUNS = {
    f"{name}/__init__.py": f'''"""Found in `solutions/{name}`, not copied: whole runs, here on your own lessons."""

from solutions.{name} import __path__ as __path__
'''
    for name in ("demo", "contest")
}


@dataclass(frozen=True)
class Change:
    """A change of the text between `# region solution` and `# endregion`, its indentation taken away."""

    why: str
    read: str | None
    replaced: tuple[tuple[str, str], ...] = ()
    """(old, new) pairs; each `old` must stand in the region exactly once when its turn comes."""
    first: str = ""
    """Lines put before the region."""
    whole: str | None = None
    """Text in place of the region."""

    def apply(self, region: str) -> str:
        """The changed region.

        Raises:
            LookupError: an `old` does not stand there exactly once, or nothing changes.
        """
        text = region if self.whole is None else self.whole
        for old, new in self.replaced:
            if text.count(old) != 1:
                raise LookupError(f"expected once in the region, found {text.count(old)} times: {old!r}")
            text = text.replace(old, new)
        text = f"{self.first}\n{text}" if self.first else text
        if text == region:
            raise LookupError("the change changes nothing")
        return text


def edit(*texts: str, why: str = "", read: str | None = None) -> Any:
    """Each text is `old => new`. The string below says why (`why`, where one reason holds for several); `read` only
    where the exercise's own heading does not say it.

    Raises:
        ValueError: a text has no arrow.
    """
    pairs = [text.partition(" => ") for text in texts]
    if not all(arrow for _, arrow, _ in pairs):
        raise ValueError(f"expected `old => new` in each text, got {texts}")
    return Change(why, read, replaced=tuple((old, new) for old, _, new in pairs))


def first(text: str, *, why: str = "", read: str | None = None) -> Any:
    """Put lines before the region: `first("gamma = 0.99", ...)` ignores an argument."""
    return Change(why, read, first=textwrap.dedent(text).strip())


def instead(text: str, *, why: str = "", read: str | None = None) -> Any:
    """Put other lines in place of the region."""
    return Change(why, read, whole=textwrap.dedent(text).strip())


@dataclass(frozen=True)
class NamedChange:
    """The reference with one exercise written otherwise."""

    exercise: str
    name: str
    why: str
    """One line: what is wrong with it, or what is different."""
    read: str
    """Heading in the lesson's README that says it."""
    change: Change
    invariants: tuple[Callable[..., bool], ...] = ()
    """Of a suspect: what each right repair keeps. A docstring says what; the arguments and a function that asks with
    others tell whether."""


class Suspect(NamedChange):
    """The reference with one bug, handed out in place of a stub, to be found and repaired."""


class _Bank:
    """Changes to one exercise, as class attributes: the string below each says why."""

    of = ""

    def __init_subclass__(cls, of: str = "") -> None:
        cls.of = of


class Wrong(_Bank):
    """The mistakes in one exercise.

    class TdErrors(Wrong, of="td_errors"):
        dones_ignored = edit(".masked_fill(dones.bool(), 0.0) => ")
        \"""nothing is removed at a done, so ...\"""
    """


class Planted(_Bank):
    """The bug of an exercise that is handed out as a suspect, said in the same way. Its functions are invariants."""


class Right(_Bank):
    """Other right ways to write one exercise, said in the same way: all that its docstring allows must pass."""


class Published(_Bank):
    """The published ways to write one exercise, adapted in names and shapes: they must pass its basic suite."""


def wrong_answers(lesson: str) -> tuple[NamedChange, ...]:
    """The mistakes of a lesson, in the order of the file; first its suspects, which are wrong answers too."""
    return (*suspects(lesson).values(), *_listed(lesson, "mistakes", Wrong))


def suspects(lesson: str) -> dict[str, NamedChange]:
    """Exercise -> its suspect, where one is handed out. Most lessons have none."""
    return {one.exercise: one for one in _listed(lesson, "suspects", Planted, Suspect)}


def right_answers(lesson: str) -> tuple[NamedChange, ...]:
    """The other right ways to write the exercises of a lesson, in the order of the file."""
    return _listed(lesson, "variants", Right)


def published_answers(lesson: str) -> tuple[NamedChange, ...]:
    """The published ways to write a lesson's formulas, in the order of the file."""
    return _listed(lesson, "variants", Published)


@cache
def _listed(
    lesson: str, file: str, bank: type[_Bank], kind: type[NamedChange] = NamedChange
) -> tuple[NamedChange, ...]:
    """What the banks of a lesson's file hold.

    Raises:
        LookupError: an entry does not say why.
    """
    path = TESTCASES / lesson / f"{file}.py"
    if not path.is_file():
        return ()
    module = importlib.import_module(f"testcases.{lesson}.{file}")
    own = [one for one in vars(module).values() if isinstance(one, type)]
    whys, found = _strings_below(path), []
    for one in (one for one in own if issubclass(one, bank) and one is not bank):
        functions = tuple(value for value in vars(one).values() if inspect.isfunction(value))
        for name, change in vars(one).items():
            if not isinstance(change, Change):
                continue
            why = change.why or whys.get((one.__name__, name), "")
            if not why:
                raise LookupError(f"{one.__name__}.{name} has no string below it that says why")
            read = change.read or section_for(lesson, one.of)
            found.append(kind(one.of, name, why, read, change, functions))
    return tuple(found)


def _strings_below(path: Path) -> dict[tuple[str, str], str]:
    """(class, attribute) -> the string below the attribute's line, which Python does not keep."""
    found = {}
    for bank in ast.parse(path.read_text("utf-8")).body:
        for line, below in itertools.pairwise(bank.body if isinstance(bank, ast.ClassDef) else []):
            match line, below:
                case ast.Assign(targets=[ast.Name(name)]), ast.Expr(ast.Constant(str(why))):
                    found[getattr(bank, "name", ""), name] = " ".join(why.split())
    return found


def changed_source(lesson: str, answer: NamedChange) -> tuple[str, str]:
    """Path below `solutions/` and text of the file with a change in it.

    Raises:
        LookupError: the change does not apply.
    """
    lines, region = region_of(lesson, answer.exercise)
    try:
        changed = answer.change.apply(region_text(lesson, answer.exercise))
    except LookupError as error:
        raise LookupError(f"{answer.name}: {error}") from None
    whole = [*lines[: region.first + 1], *_indented(changed, lines[region.first]), *lines[region.last :]]
    return f"{lesson}/{region.file}.py", "\n".join(whole) + "\n"


def _indented(text: str, marker: str) -> list[str]:
    """The lines of a text, as far to the right as the line with the marker of its region."""
    return textwrap.indent(text, marker[: -len(marker.lstrip())]).splitlines()


# The stubs that students fill in


def emptied(path: Path, exercises: Iterable[str]) -> str:
    """The text of a solution file with each region of these exercises replaced by an error that names the exercise, or
    by the suspect that is handed out."""
    lines = path.read_text("utf-8").splitlines()
    lesson = read_lesson(path.parent.name)
    for region in reversed(regions(path)):
        if region.exercise in exercises:
            text = f'raise NotImplementedError("{lesson.short}: {region.exercise}")'
            if suspect := suspects(lesson.name).get(region.exercise):
                text = suspect.change.apply(region_text(lesson.name, region.exercise))
            lines[region.first : region.last + 1] = _indented(text, lines[region.first])
    return "\n".join(lines) + "\n"


def stub(path: Path) -> str:
    """A solution file as it is handed out."""
    text = emptied(path, [region.exercise for region in regions(path)])
    # Only in a command to run or a path to open; imports between lessons are relative.
    return text.replace("solutions.lesson", "tutorial.lesson").replace("solutions/lesson", "tutorial/lesson")


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by their path below a folder."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")


def stubs_of(lesson: str) -> dict[str, str]:
    """Path below `tutorial/` -> text, for one lesson."""
    folder = SOLUTIONS / lesson
    paths = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    return {path.relative_to(SOLUTIONS).as_posix(): stub(path) for path in paths}


def all_stubs() -> dict[str, str]:
    """Path below `tutorial/` -> text, for the whole tree."""
    files = {"__init__.py": PACKAGE, **RUNS}
    for lesson in lesson_names():
        files.update(stubs_of(lesson))
    return files
