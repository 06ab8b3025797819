"""The cases as values, read from cases.json."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("cases.json")
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""JSON has no such numbers: they stand there as strings."""


@dataclass(frozen=True)
class Case:
    """One question with its answer. `expected` has one entry for each result, `gradient` is that of one of them."""

    id: str
    name: str
    situation: str
    arguments: dict[str, Any]
    expected: dict[str, Any]
    why: str
    needs: Sequence[str] = ()
    gradient: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """One function that every implementation has, under some name."""

    name: str
    version: str
    rule: str
    arguments: str
    returns: Sequence[str]
    source: str
    cases: tuple[Case, ...]

    def case(self, id: str) -> Case:
        """The case that somebody cites."""
        found = [case for case in self.cases if case.id == id]
        if not found:
            raise ValueError(f"{self.name} has no case {id!r}; its cases are {self.cases[0].id} to {self.cases[-1].id}")
        return found[0]


def operations() -> list[str]:
    """The names of all operations."""
    return list(_operations())


def operation(name: str) -> Operation:
    """An operation with its cases."""
    if name not in _operations():
        raise ValueError(f"expected an operation, got {name!r}; there are {', '.join(operations())}")
    return _operations()[name]


@cache
def _operations() -> dict[str, Operation]:
    made = {}
    for record in json.loads(FILE.read_text("utf-8"))["operations"]:
        name = record.pop("operation")
        cases = tuple(Case(**{key: _with_numbers(value) for key, value in one.items()}) for one in record.pop("cases"))
        made[name] = Operation(name, **record, cases=cases)
    return made


def _with_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_numbers(one) for one in value]
    return _NUMBERS.get(value, value) if isinstance(value, str) else value
