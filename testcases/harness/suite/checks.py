"""The checks of an answer beside its value: gradients, errors, all that the reference answers; and what `assert`,
`pytest.raises` and a test's own arithmetic say of it."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from ..report.compare import Difference, Rules, first_difference
from ..report.failures import show
from .asked import NO_DRAW, Asked, as_tensor
from .session import current


def gradient_equals(asked: Asked, name: str, expected: Any, **near: Any) -> None:
    """The gradient by one argument; None: nothing may flow there."""
    asked.is_sound()
    like = asked.call.arguments[name]
    wanted = torch.zeros_like(like) if expected is None else as_tensor(expected, like.dtype)
    if asked.outcome.gradients.get(name) is None and bool(wanted.any()):
        reason = (
            f"it does not depend on {name}"
            if asked.outcome.tracked
            else "the answer is cut off from its inputs (detach, no_grad, .item(), .tolist() or torch.tensor(...))"
        )
        lines = [f"expected the gradient by {name}: {show(wanted)}", f"got      none: {reason}"]
        asked.fail("no gradient", lines)
    difference = first_difference(wanted, asked.slopes[name], asked.rules(what="gradient", **near), name)
    if difference and not bool(wanted.any()) and difference.kind == "wrong gradient":
        difference = Difference(difference.kind, (*difference.lines, f"no gradient may flow into {name}"))
    asked.fail_with(difference)


def matches_reference(asked: Asked, **near: float) -> None:
    """Value, gradients and errors of the reference on the same arguments."""
    wanted = asked.right
    if wanted.error:
        raises(asked, wanted.error.type_name)
        return
    asked.is_sound()
    # Where the reference says NaN, it is right.
    asked.fail_with(first_difference(wanted.value, asked.outcome.value, asked.rules(equal_nan=True, **near)))
    for name, slope in wanted.gradients.items():
        gradient_equals(asked, name, slope, **near)
    if not wanted.tracked and not current().of_the_formula:
        has_no_gradient(asked)


def raises(asked: Asked, wanted: str, mentions: Sequence[str] = ()) -> None:
    """It raised exactly this error, and the message says these things."""
    error = asked.outcome.error
    if error is None:
        asked.fail("did not raise", [f"expected {wanted}", f"got      {show(asked.outcome.value)}"])
    elif error.kind != "raised" or error.type_name != wanted:
        asked.fail_of_error(f"expected {wanted}")
    elif lost := [text for text in mentions if text.lower() not in error.message.lower()]:
        lines = [f"expected a message that mentions {', '.join(map(repr, lost))}", f"got      {error.message}"]
        asked.fail("unclear error message", lines)


def has_no_gradient(asked: Asked) -> None:
    """The answer is data: no gradient flows through it."""
    asked.is_sound()
    if asked.outcome.tracked and current().believes:
        where = ", ".join(path or "the answer" for path in asked.outcome.tracked)
        asked.fail("carries a gradient", [f"expected data without gradient; {where} requires grad"])


def draws_nothing(asked: Asked) -> None:
    """It drew nothing from, and did not seed, the global random generators."""
    if asked.outcome.used_global_random and current().believes:
        asked.fail("uses the global random generator", [NO_DRAW])


def compare_plainly(got: Any, expected: Any, rules: dict[str, Any]) -> None:
    """Something that a test has made of answers, or none of them, is as expected."""
    wanted = as_tensor(expected) if isinstance(got, Tensor) and not isinstance(expected, dict) else expected
    if difference := first_difference(wanted, got, Rules(**rules, single=current().of_the_formula)):
        if calls := current().calls:  # Something that the test has made of answers: the last one is reported.
            calls[-1].fail(difference.kind, list(difference.lines))
        raise AssertionError("\n".join(difference.lines))


def say(error: BaseException, calls: list[Asked]) -> None:
    """What a test has raised, as a report of a call.

    Raises:
        CheckFailed, Kept: it can be said which call, or what was made of its answer, is not as expected.
    """
    last, said = calls[-1], str(error)
    for asked in calls:
        if error is asked.error:
            asked.is_sound()
    if isinstance(error, pytest.fail.Exception):  # of pytest.raises
        wanted = re.search(r"DID NOT RAISE (?:<class ')?(?:\w+\.)*(\w+)", said)
        raises(last, wanted[1] if wanted else said)
    if isinstance(error, AssertionError) and last.error:  # of its `match`
        regex = re.search("Expected regex: (.+)", said)
        lines = [f"expected a message with {regex[1] if regex else said}", f"got      {last.error}"]
        last.fail("unclear error message", lines)
    if isinstance(error, AssertionError):
        said = said.partition("\nassert ")[0].removeprefix("assert ")
        last.fail("wrong value", [f"expected {said}", f"got      {show(last.value)}"])
    if isinstance(error, (TypeError, AttributeError, KeyError, IndexError, ValueError, RuntimeError)):
        matches_reference(last)  # of another structure than the test expects
