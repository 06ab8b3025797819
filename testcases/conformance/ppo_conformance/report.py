"""What a check found, as values; the text is made here and read nowhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy

AGREES, CORNER, DIFFERS = "agrees", "fails at a corner", "differs"
PLAIN = ("plain", "stop")
ORDINARY = (*PLAIN, "padding")
"""What every batch has: no corner."""


@dataclass(frozen=True)
class Difference:
    """One thing that is other than in the cases, however many of them show it."""

    kind: str
    """value, raises, shape, nan under the mask, padding is not 0, gradient, no gradient, changed in place"""
    cause: str
    says: str
    situations: tuple[str, ...]
    cases: tuple[str, ...]
    needs: tuple[str, ...]
    """What all of these cases need."""
    smallest: str
    expected: str
    got: str
    only_rounded: bool = False
    """The numbers agree to four digits, as with float32 inside: nothing to declare, and nothing to leave out."""

    @property
    def is_plain(self) -> bool:
        """Whether it shows on ordinary input: nothing ended or extreme, and under the mask plain numbers."""
        harmless = self.kind in ("changed in place", "padding is not 0")
        return not harmless and any(one in ORDINARY for one in self.situations)

    @property
    def is_of_tools(self) -> bool:
        """Whether it shows at a tool's tokens alone, which who has no tools never meets."""
        return set(self.situations) == {"gap"}

    @property
    def declared_by(self) -> str:
        """What to say if the difference is meant; empty where nothing can be said."""
        if self.only_rounded:
            return ""
        convention = {"padding is not 0": "padding=any", "no gradient": "differentiable=no"}.get(self.kind)
        convention = repr(self.cause) if "=" in self.cause else convention
        if convention:
            return f"--convention {convention}"
        needs = [self.kind] if self.kind in self.needs else [one for one in self.needs if not one.startswith("nan ")]
        return "" if self.cause else " ".join(f'--not-supported "{need}"' for need in needs)

    def __str__(self) -> str:
        where = ", ".join(self.situations)
        what = f"{self.cause}: {self.says}" if self.says else " ".join(filter(None, (self.kind, self.cause)))
        count = f"{len(self.cases)} case{'s' * (len(self.cases) > 1)}, smallest {self.smallest}"
        what += ", to four digits right: float32 inside?" * self.only_rounded
        numbers = f"\n           expected {self.expected}\n           got      {self.got}" if self.got else ""
        meant = f"\n           if meant {self.declared_by}" if self.declared_by else ""
        return f"{where}: {what} ({count}){numbers}{meant}"


@dataclass(frozen=True)
class Report:
    """The answers of one function held against the cases of one operation."""

    operation: str
    version: str
    function: str
    conventions: tuple[tuple[str, Mapping[str, str]], ...]
    inferred: tuple[tuple[str, Mapping[str, str]], ...]
    agreed: tuple[str, ...]
    six_digits: tuple[str, ...]
    """Of those that agreed: to six digits only, as with a small number added or float32 inside."""
    left_out: Mapping[str, int]
    fails_in: Mapping[str, str]
    """How many of the cases of a situation do not agree."""
    differences: tuple[Difference, ...]

    @property
    def outcome(self) -> str:
        """A convention that had to be inferred is no agreement: declare it, or it is a difference."""
        if self.inferred or any(one.is_plain for one in self.differences):
            return DIFFERS
        return CORNER if self.differences else AGREES

    def __str__(self) -> str:
        failing = {id for one in self.differences for id in one.cases}
        digits = f", {len(self.six_digits)} of them to six digits only" if self.six_digits else ""
        digits += " as inferred" * bool(self.inferred)
        fails = "; not in " * bool(failing) + ", ".join(f"{one} ({count})" for one, count in self.fails_in.items())
        lines = [
            f"{self.operation} {self.version} · {self.function} · {self.outcome}",
            f"agree      {len(self.agreed)} of {len(self.agreed) + len(failing)} cases{digits}{fails}",
        ]
        lines += [f"declared   {name} ({quoted['place']}: {quoted['text']!r})" for name, quoted in self.conventions]
        lines += [
            f"inferred   {name}: with it the cases agree, as in {quoted['place']}; if meant --convention {name!r}"
            for name, quoted in self.inferred
        ]
        how = {need: ", asked with finite numbers there" * need.startswith("nan ") for need in self.left_out}
        lines += [
            f"left out   {need}: not supported ({count} cases{how[need]})" for need, count in self.left_out.items()
        ]
        lines += [f"{'differs' if one.is_plain else 'corner':<10} {one}" for one in self.differences]
        return "\n".join(lines)


def shown(results: Mapping[str, Any] | str | None) -> str:
    """The numbers of a result, short."""
    if not isinstance(results, Mapping):
        return str(results or "")
    arrays = {name: numpy.asarray(value) for name, value in results.items()}
    texts = {name: numpy.array2string(one, precision=5, separator=", ", threshold=24) for name, one in arrays.items()}
    return "; ".join(f"{name} {' '.join(text.split())}" for name, text in texts.items())
