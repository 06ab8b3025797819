"""What the tests of a suite are written in: exercises are called like functions, and these compare what they answer.

A comparison finds the call behind an answer by identity: `assert_equal(compute_gae(...).returns, [...])` knows that it
is about `returns`. If none stands behind it, it compares plainly, and no cause is named.
"""

from __future__ import annotations

import builtins
import collections
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from ..catalog.handles import Scenario, asking, exercise_of
from ..diagnosis.values import Kind, Part
from ..execution.messages import Outcome, Request, fields_of
from ..report.compare import Rules, first_difference
from ..report.failures import CheckFailed, Kept, NotStarted, Waiting, show
from .checks import Answer, as_tensor, call, request
from .session import current

DID_NOT_RAISE = re.compile(r"DID NOT RAISE (?:<class ')?(?:\w+\.)*(\w+)")
REGEX = re.compile(r"Expected regex: (.+)")
"""What pytest.raises says."""
PLAIN = (bool, int, type(None), str)
"""Of these there may be one object for two answers: a part is not told by it."""


@dataclass(eq=False)
class Asked:
    """A call that a test has made."""

    answer: Answer
    value: Any = None
    """What the test got."""
    slopes: dict[str, Tensor] = field(default_factory=dict)
    error: Exception | None = None
    """What the call raised."""


def scenario(name: str, of: Any, seconds: float | None = None) -> Any:
    """A function that asks an exercise through one of the lesson's scenarios.py, for code that needs live objects."""
    return asking(Scenario(exercise_of(of), name, seconds))


def ask(target: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call an exercise of the code under test; lists of numbers become tensors.

    Raises:
        NotStarted, Waiting: it, or one it needs, is still a stub.
        Exception: what it raised.
        CheckFailed: it could not be called, ended otherwise, or left something changed.
    """
    return _asked(request(target, *args, **kwargs)).value


def value_and_gradients(function: Any, /, *args: Any, **options: Any) -> tuple[Any, dict[str, Tensor]]:
    """Call an exercise, and take the gradient of its answer.

    Args:
        wrt: names of the arguments to take the gradient with respect to: of the sum of the answer's parts,
        of: or of this part alone,
        weights: weighted with these numbers.
    """
    names = {"wrt": "grad_of", "of": "grad_through", "weights": "grad_weights"}
    asked = _asked(request(function, *args, **{names.get(name, name): value for name, value in options.items()}))
    return asked.value, asked.slopes


def gradients(function: Any, /, *args: Any, **options: Any) -> dict[str, Tensor]:
    """The gradient of an exercise's answer by argument, 0 where none arrives; as `value_and_gradients`."""
    return value_and_gradients(function, *args, **options)[1]


def examples_of(function: Any) -> Iterator[Any]:
    """The answers to the lesson's examples of an exercise, drawn from this run's seed."""
    exercise = exercise_of(function)
    for asked in current().examples(exercise.lesson, exercise.name):
        yield _asked(asked).value


def _asked(asked: Request) -> Asked:
    answer = call(asked)
    found = Asked(answer)
    current().calls.append(found)
    error = answer.outcome.error
    if error and error.kind == "raised":
        found.error = _exception(answer.outcome)
        if found.error:
            raise found.error
    answer.is_sound()
    found.value = _named(answer)
    found.slopes = {
        name: torch.zeros_like(asked.arguments[name]) if slope is None else slope
        for name, slope in answer.outcome.gradients.items()
    }
    return found


def _exception(outcome: Outcome) -> Exception | None:
    """What the code under test raised, for `pytest.raises`; None where it is not to pass through a test, as an exit."""
    error, raised = outcome.error, outcome.exception
    assert error is not None
    if raised and type(raised).__module__.partition(".")[0] != "_pytest":
        return raised if isinstance(raised, Exception) else None
    kind = getattr(builtins, error.type_name, None)
    if not isinstance(kind, type):
        kind = type(error.type_name, (Exception,), {})
    if not issubclass(kind, Exception):
        return None
    made = kind.__new__(kind)
    made.args = (error.message,)
    return made


def _named(answer: Answer) -> Any:
    """The answer as a test reads it: a tuple has the names of the reference's, if it is as long."""
    values, names = fields_of(answer.outcome.value)
    if not isinstance(values, tuple):
        return values
    wanted, fields = fields_of(current().reference.evaluate(answer.request).value)
    fields = fields if isinstance(wanted, tuple) and len(wanted) == len(values) else names
    return _tuple_of(fields)(*values) if fields else values


@functools.cache
def _tuple_of(fields: tuple[str, ...]) -> Any:
    return collections.namedtuple("Answer", fields, rename=True)


def assert_equal(got: Any, expected: Any = ..., /, **options: Any) -> None:
    """An answer, a part of it or its gradients are as expected: in structure, shape, dtype, and number by number.

        assert_equal(td_errors(rewards, values, dones, 0.5), [1.0, 3.0])
        assert_equal(compute_gae(rewards, values, dones), advantages=[1.25], returns=[3.25])

    A list is a tensor (float64, int64 or bool). A gradient of None: nothing may flow there.

    Args:
        atol, rtol: how close; without them as closely as the dtype allows.
        dtype: of the expected tensor.
        equal_nan: whether NaN is expected where `expected` has it.
        others: parts of a tuple or dict, by name.
    """
    rules: dict[str, Any] = {
        name: options.pop(name) for name in ("atol", "rtol", "dtype", "equal_nan") if name in options
    }
    asked, path, slope = _find(got)
    if asked is None:
        _assert_plainly(got, expected if expected is not ... else options, rules)
    elif slope is not None:
        wanted = {slope: expected} if slope else {**(expected if isinstance(expected, dict) else {}), **options}
        asked.answer.gradient_equals(**wanted, **rules)
    else:
        answer = functools.reduce(Answer.part, path, asked.answer)
        if expected is not ...:
            answer.equals(expected, **rules)
        for name, wanted in options.items():
            answer.part(name).equals(wanted, **rules)


def assert_equals_reference(got: Any, **rules: float) -> None:
    """An answer, with its gradients, is what the solution gives on the same call."""
    _find_call(got).answer.matches_reference(**rules)


def assert_no_gradient(got: Any) -> None:
    """An answer is data: no gradient flows through it."""
    _find_call(got).answer.has_no_gradient()


def assert_leaves_global_random_alone(got: Any) -> None:
    """The call drew nothing from, and did not seed, the global random generators."""
    _find_call(got).answer.leaves_global_random_alone()


def _find_call(got: Any) -> Asked:
    asked, _, _ = _find(got)
    if asked is None:
        raise TypeError("expected the answer of an exercise, as the call returned it")
    return asked


def _find(got: Any) -> tuple[Asked | None, tuple[str, ...], str | None]:
    """The last call that gave this object, the path to it in the answer, and the argument if it is a gradient ("" for
    all of them)."""
    for asked in reversed(current().calls):
        if got is asked.value:
            return asked, (), None
        if got is asked.slopes:
            return asked, (), ""
        for name, slope in asked.slopes.items():
            if got is slope:
                return asked, (), name
        paths = [path for path, part in _parts(asked.value) if part is got]
        if len(paths) == 1 or paths and type(got) not in PLAIN:
            return asked, paths[0], None
    return None, (), None


def _parts(value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The named parts of an answer."""
    named = value.items() if isinstance(value, dict) else zip(*reversed(fields_of(value)), strict=False)
    for name, part in named if isinstance(value, (dict, tuple)) else ():
        yield (name,), part


def _assert_plainly(got: Any, expected: Any, rules: dict[str, Any]) -> None:
    dtype = rules.pop("dtype", None)
    wanted = as_tensor(expected, dtype) if isinstance(got, Tensor) and not isinstance(expected, dict) else expected
    if difference := first_difference(wanted, got, Rules(**rules)):
        if calls := current().calls:  # Something that the test has made of answers: the last one is reported.
            calls[-1].answer.fail(difference.kind, list(difference.lines), part=Part(Kind.VALUE, ""))
        raise AssertionError("\n".join(difference.lines))


def failure_of(error: BaseException) -> BaseException:
    """What a test's exception says of the code under test: a `CheckFailed` with the whole report where it can be said,
    else the exception itself."""
    calls = current().calls
    if isinstance(error, (CheckFailed, Kept, NotStarted, Waiting)) or not calls:
        return error
    last = calls[-1]
    try:
        for asked in calls:
            if error is asked.error:
                asked.answer.is_sound()
        if isinstance(error, pytest.fail.Exception):  # of pytest.raises
            wanted = DID_NOT_RAISE.search(str(error))
            lines = [f"expected {wanted[1] if wanted else error}", f"got      {show(last.value)}"]
            last.answer.fail("did not raise", lines)
        if isinstance(error, AssertionError) and last.error:  # of its `match`
            regex = REGEX.search(str(error))
            lines = [f"expected a message with {regex[1] if regex else error}", f"got      {last.error}"]
            last.answer.fail("unclear error message", lines)
        if isinstance(error, AssertionError):
            said = str(error).partition("\nassert ")[0].removeprefix("assert ")
            lines = [f"expected {said}", f"got      {show(last.value)}"]
            last.answer.fail("wrong value", lines, part=Part(Kind.VALUE, ""))
        if isinstance(error, (TypeError, AttributeError, KeyError, IndexError, ValueError, RuntimeError)):
            last.answer.matches_reference()  # of another structure than the test expects
    except (CheckFailed, Kept) as failed:
        failed.__cause__ = error
        return failed
    return error
