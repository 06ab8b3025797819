"""Named changes of the reference: wrong answers to an exercise, and other right ones."""

import ast
import importlib
import inspect
import itertools
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from ..catalog import exists, region_of, region_text, section_for


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


class WrongAnswer(NamedChange):
    """One wrong idea."""


class Suspect(WrongAnswer):
    """The reference with one bug, handed out in place of a stub, to be found and repaired."""


Named = TypeVar("Named", bound=NamedChange)


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


def wrong_answers(lesson: str) -> tuple[WrongAnswer, ...]:
    """The mistakes of a lesson, in the order of the file; first its suspects, which are wrong answers too."""
    return (*suspects(lesson).values(), *_listed(f"testcases.{lesson}.mistakes", Wrong, WrongAnswer))


def suspects(lesson: str) -> dict[str, Suspect]:
    """Exercise -> its suspect, where one is handed out. Most lessons have none."""
    return {one.exercise: one for one in _listed(f"testcases.{lesson}.suspects", Planted, Suspect)}


def right_answers(lesson: str) -> tuple[NamedChange, ...]:
    """The other right ways to write the exercises of a lesson, in the order of the file."""
    return _listed(f"testcases.{lesson}.variants", Right, NamedChange)


def published_answers(lesson: str) -> tuple[NamedChange, ...]:
    """The published ways to write a lesson's formulas, in the order of the file."""
    return _listed(f"testcases.{lesson}.variants", Published, NamedChange)


@cache
def _listed(module: str, bank: type[_Bank], kind: type[Named]) -> tuple[Named, ...]:
    """What the banks of a module hold.

    Raises:
        LookupError: an entry does not say why.
    """
    if not exists(module):
        return ()
    own = [one for one in vars(importlib.import_module(module)).values() if isinstance(one, type)]
    whys, found = _strings_below(module), []
    for one in (one for one in own if issubclass(one, bank) and one is not bank):
        functions = tuple(value for value in vars(one).values() if inspect.isfunction(value))
        for name, change in vars(one).items():
            if not isinstance(change, Change):
                continue
            why = change.why or whys.get((one.__name__, name), "")
            if not why:
                raise LookupError(f"{one.__name__}.{name} has no string below it that says why")
            read = change.read or section_for(module.split(".")[1], one.of)
            found.append(kind(one.of, name, why, read, change, functions))
    return tuple(found)


def _strings_below(module: str) -> dict[tuple[str, str], str]:
    """(class, attribute) -> the string below the attribute's line, which Python does not keep."""
    found = {}
    for bank in ast.parse(inspect.getsource(sys.modules[module])).body:
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
    indent = lines[region.first][: -len(lines[region.first].lstrip())]
    try:
        changed = answer.change.apply(region_text(lesson, answer.exercise))
    except LookupError as error:
        raise LookupError(f"{answer.name}: {error}") from None
    whole = [*lines[: region.first + 1], *textwrap.indent(changed, indent).splitlines(), *lines[region.last :]]
    return f"{lesson}/{region.file}.py", "\n".join(whole) + "\n"
