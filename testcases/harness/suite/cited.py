"""Cases of `testcases/conformance`, which other projects test against as well: there is one source of their numbers."""

import re
from typing import Any

import pytest

from testcases.conformance.ppo_conformance import Case, operation


def cited_cases(name: str, columns: str, ids: str) -> pytest.MarkDecorator:
    """`pytest.mark.parametrize` over cases of an operation, which say in words how their numbers come about:

        @cited_cases("gae", "rewards, values, dones, gamma, lam, advantages, returns", "plain-01 end-02")

    Args:
        name: of the operation, `conformance/ppo_conformance/cases/<name>.json`.
        columns: arguments and results of it, and "slopes": argument -> gradient. What a case does not have is None.
        ids: of the cases, without the operation's name before each.

    Raises:
        ValueError: the operation has no such case.
    """
    chosen = [operation(name).case(f"{name.replace('_', '-')}-{id}") for id in ids.split()]
    rows = [tuple(_column(case, column.strip()) for column in columns.split(",")) for case in chosen]
    return pytest.mark.parametrize(columns, rows, ids=[re.sub(r"\W+", "-", case.name) for case in chosen])


def _column(case: Case, column: str) -> Any:
    if column == "slopes":
        return case.gradient.get("by")
    return {**case.arguments, **case.expected}.get(column)
