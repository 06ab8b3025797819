"""The cases as values: read from the JSON files beside this file, and checked when they are read."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

SCHEMA = 1
FOLDER = Path(__file__).parent / "cases"
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""JSON has no such numbers: they stand there as strings."""


class DamagedCases(ValueError):
    """A file of cases that cannot be used; the others can."""


@dataclass(frozen=True)
class Case:
    """One question with its answer. `expected` has one entry for each result, `gradient` is that of one of them."""

    id: str
    name: str
    situation: str
    arguments: dict[str, Any]
    expected: dict[str, Any]
    why: str
    needs: tuple[str, ...] = ()
    gradient: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """One function that every implementation has, under some name."""

    name: str
    version: str
    rule: str
    arguments: str
    returns: tuple[str, ...]
    source: str
    cases: tuple[Case, ...]

    def case(self, id: str) -> Case:
        """The case that somebody cites."""
        found = [case for case in self.cases if case.id == id]
        if not found:
            raise ValueError(f"{self.name} has no case {id!r}; its cases are {self.cases[0].id} to {self.cases[-1].id}")
        return found[0]


def operations(folder: Path = FOLDER) -> list[str]:
    """The names of all operations."""
    return sorted(file.stem for file in folder.glob("*.json"))


def operation(name: str, folder: Path = FOLDER) -> Operation:
    """An operation with its cases."""
    if name not in operations(folder):
        raise ValueError(f"expected an operation, got {name!r}; there are {', '.join(operations(folder))}")
    return _read(folder / f"{name}.json")


@cache
def _read(file: Path) -> Operation:
    try:
        record = json.loads(file.read_text())
        if record["schema"] > SCHEMA:
            raise DamagedCases(
                f"{file.name} has schema {record['schema']}, this kit reads {SCHEMA}: install a newer kit"
            )
        cases = tuple(_case(one, record["returns"]) for one in record["cases"])
        words = {name: record[name] for name in ("version", "rule", "arguments", "source")}
        made = Operation(record["operation"], returns=tuple(record["returns"]), cases=cases, **words)
    except DamagedCases:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedCases(
            f"{file.name} cannot be read ({type(error).__name__}: {error}): install the kit again"
        ) from error
    if len({case.id for case in cases}) < len(cases):
        raise DamagedCases(f"{file.name} has an id twice: install the kit again")
    return made


def _case(record: dict[str, Any], returns: list[str]) -> Case:
    if list(record["expected"]) != returns:
        raise DamagedCases(f"{record['id']} expects {list(record['expected'])}, the operation returns {returns}")
    numbers = {key: _with_numbers(record[key]) for key in ("arguments", "expected")}
    plain = {key: record[key] for key in ("id", "name", "situation", "why")}
    return Case(
        **plain, **numbers, needs=tuple(record.get("needs", ())), gradient=_with_numbers(record.get("gradient", {}))
    )


def _with_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_numbers(one) for one in value]
    return _NUMBERS.get(value, value) if isinstance(value, str) else value
