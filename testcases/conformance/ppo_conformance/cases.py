"""The cases as values: read from cases.json, and checked when they are read."""

import json
import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy

from .slow import OPERATIONS

SCHEMA = 1
FILE = Path(__file__).with_name("cases.json")
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""JSON has no such numbers: they stand there as strings."""


class DamagedCases(ValueError):
    """Cases of an operation that cannot be used, while the other operations can; or the whole file."""


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


def operations(file: Path = FILE) -> list[str]:
    """The names of all operations."""
    return list(_records(file))


def operation(name: str, file: Path = FILE) -> Operation:
    """An operation with its cases."""
    if name not in operations(file):
        raise ValueError(f"expected an operation, got {name!r}; there are {', '.join(operations(file))}")
    return _read(name, file)


@cache
def _records(file: Path) -> dict[str, dict[str, Any]]:
    try:
        record = json.loads(file.read_text("utf-8"))
        theirs, found = record["schema"], {one["operation"]: one for one in record["operations"]}
    except Exception as error:
        raise DamagedCases(f"{file.name} cannot be read ({type(error).__name__}): install the kit again") from error
    if theirs > SCHEMA:
        raise DamagedCases(f"{file.name} has schema {theirs}, this kit reads {SCHEMA}: install a newer kit")
    return found


@cache
def _read(name: str, file: Path) -> Operation:
    record = _records(file)[name]
    try:
        cases = tuple(_case(one, record["returns"]) for one in record["cases"])
        for case in cases:
            _must_be_whole(case, record["operation"])
        words = {name: record[name] for name in ("version", "rule", "arguments", "source")}
        made = Operation(record["operation"], returns=tuple(record["returns"]), cases=cases, **words)
    except DamagedCases:
        raise
    except Exception as error:  # whatever a damaged file can lead to
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"
        raise DamagedCases(f"the cases of {name} cannot be read ({reason}): install the kit again") from error
    if len({case.id for case in cases}) < len(cases):
        raise DamagedCases(f"{name} has an id twice: install the kit again")
    return made


def _case(record: dict[str, Any], returns: list[str]) -> Case:
    if list(record["expected"]) != returns:
        raise DamagedCases(f"{record['id']} expects {list(record['expected'])}, the operation returns {returns}")
    numbers = {key: _with_numbers(record.get(key, {})) for key in ("arguments", "expected", "gradient")}
    plain = {key: record[key] for key in ("id", "name", "situation", "why")}
    return Case(**plain, **numbers, needs=tuple(record.get("needs", ())))


def _must_be_whole(case: Case, operation: str) -> None:
    """The slow implementation gives the expected numbers; a gradient has the shapes of its arguments."""
    made = OPERATIONS[operation](**case.arguments)
    made = made if isinstance(made, dict) else dict.fromkeys(case.expected, made)
    pairs = [(made[name], value) for name, value in case.expected.items()]
    whole = all(_shape(one) == _shape(other) and numpy.allclose(one, other, equal_nan=True) for one, other in pairs)
    whole &= all(len(_shape(value)) > 0 for value in case.arguments.values() if isinstance(value, list))
    by = case.gradient["by"].items() if case.gradient else ()
    whole &= all(_shape(case.arguments[name]) == _shape(value) for name, value in by)
    whole &= not case.gradient or case.gradient["of"] in case.expected
    if not whole or not all(
        isinstance(word, str) for word in (case.id, case.name, case.situation, case.why, *case.needs)
    ):
        raise DamagedCases(f"{case.id} is not what its rule gives: install the kit again")


def _shape(value: Any) -> tuple[int, ...]:
    return numpy.array(value, float).shape


def _with_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_numbers(one) for one in value]
    return _NUMBERS.get(value, value) if isinstance(value, str) else value
