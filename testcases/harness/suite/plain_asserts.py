"""What `assert`, `pytest.raises` and a test's own arithmetic say of the answers of a test, as a report of a call."""

import re
from typing import Any

import pytest
from torch import Tensor

from ..report.compare import Rules, first_difference
from ..report.failures import show
from .asked import Asked, as_tensor
from .session import Engine

DID_NOT_RAISE = re.compile(r"DID NOT RAISE (?:<class ')?(?:\w+\.)*(\w+)")
REGEX = re.compile(r"Expected regex: (.+)")
"""What pytest.raises says."""


def told_by_pytest(error: BaseException, calls: list[Asked]) -> None:
    """
    Raises:
        CheckFailed, Kept: it can be said which call, or what was made of its answer, is not as expected.
    """
    last = calls[-1]
    for asked in calls:
        if error is asked.error:
            asked.is_sound()
    if isinstance(error, pytest.fail.Exception):  # of pytest.raises
        wanted = DID_NOT_RAISE.search(str(error))
        lines = [f"expected {wanted[1] if wanted else error}", f"got      {show(last.value)}"]
        last.fail("did not raise", lines)
    if isinstance(error, AssertionError) and last.error:  # of its `match`
        regex = REGEX.search(str(error))
        lines = [f"expected a message with {regex[1] if regex else error}", f"got      {last.error}"]
        last.fail("unclear error message", lines)
    if isinstance(error, AssertionError):
        said = str(error).partition("\nassert ")[0].removeprefix("assert ")
        lines = [f"expected {said}", f"got      {show(last.value)}"]
        last.fail("wrong value", lines)
    if isinstance(error, (TypeError, AttributeError, KeyError, IndexError, ValueError, RuntimeError)):
        last.matches_reference()  # of another structure than the test expects


def compare_plainly(got: Any, expected: Any, rules: dict[str, Any], engine: Engine) -> None:
    """Something that a test has made of answers, or none of them, is as expected."""
    dtype = rules.pop("dtype", None)
    wanted = as_tensor(expected, dtype) if isinstance(got, Tensor) and not isinstance(expected, dict) else expected
    if difference := first_difference(wanted, got, Rules(**rules, single=engine.of_the_formula)):
        if calls := engine.calls:  # Something that the test has made of answers: the last one is reported.
            calls[-1].fail(difference.kind, list(difference.lines))
        raise AssertionError("\n".join(difference.lines))
