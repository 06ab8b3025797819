"""pytest: `@pytest.mark.conforms("gae_response")` makes one test of each case.

    @pytest.mark.conforms("gae_response", not_supported=["gaps"])
    def test_gae(conformance):
        conformance(my_gae)

The keywords are those of `check`. Cases that are expected to fail stand in the configuration, by id:

    conformance_xfail = ["gae-response-gap-03"]
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from .cases import operation
from .checking import check
from .report import Report

_reports: dict[tuple[Any, ...], tuple[Callable[..., Any], Report]] = {}


@dataclass(frozen=True)
class OneCase:
    """One case of an operation: call it with the function."""

    operation: str
    id: str
    options: dict[str, Any]

    def __call__(self, function: Callable[..., Any]) -> None:
        key = (id(function), self.operation, repr(self.options))
        if key not in _reports:  # The function is kept beside its report, so that no other gets its id
            _reports[key] = function, check(function, self.operation, **self.options)
        report = _reports[key][1]
        found = [one for one in report.differences if self.id in one.cases]
        if not found and self.id not in report.agreed:
            pytest.skip(f"not supported: {', '.join(report.left_out)}")
        assert not found, "\n".join(str(one) for one in found)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("conformance_xfail", "ids of the cases that are expected to fail", type="args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "conforms(operation, **options): one test of each case, with `conformance`")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("conforms")
    if marker is None:
        return
    name = marker.args[0]
    expected = set(metafunc.config.getini("conformance_xfail"))
    try:
        asked = [OneCase(name, case.id, marker.kwargs) for case in operation(name).cases]
    except ValueError as error:  # one failing test that says so, and the other operations still run
        why = str(error)
        metafunc.parametrize("conformance", [lambda function: pytest.fail(why, pytrace=False)], ids=[name])
        return
    rows = [pytest.param(one, id=one.id, marks=[pytest.mark.xfail] * (one.id in expected)) for one in asked]
    metafunc.parametrize("conformance", rows)
