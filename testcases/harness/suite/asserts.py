"""What the tests of a suite are written in: exercises are called like functions, and these compare what they answer.

`from tutorial.lesson04_gae import compute_gae` gives a function that asks the code under test: from the import of this
module on, `tutorial` is a package of such functions, so no mistake in a student's file can break a suite that is
imported. What is no exercise, such as lesson 0, is found in the folder.

A comparison finds the call behind an answer by identity: `assert_equal(compute_gae(...).returns, [...])` knows that it
is about `returns`. If none stands behind it, it compares plainly, and no cause is named.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from torch import Tensor

from ..catalog import TUTORIAL, lesson_names, read_lesson
from ..execution.messages import Call, fields_of
from ..report.errors import Kept, Open, exception_of
from ..report.failures import CheckFailed
from . import checks
from .asked import Asked, as_tensor, put
from .session import current

PLAIN = (bool, int, type(None), str)
"""Of these there may be one object for two answers: a part is not told by it."""


def asking(target: Call) -> Callable[..., Any]:
    """A function that calls an exercise of the code under test; lists of numbers become tensors.

    Args:
        target: lesson and exercise, such as "ValueModel.forward", and the scenario through which it is called.

    Such a function raises:
        NotStarted, Waiting: the exercise, or one it needs, is still a stub.
        Exception: what the exercise raised.
        CheckFailed: it could not be called, ended otherwise, or left something changed.
    """

    def ask(*args: Any, **kwargs: Any) -> Any:
        return _answered(example(target, *args, **kwargs)).value

    ask.__name__ = ask.__qualname__ = target.scenario or target.exercise
    ask.target = target  # type: ignore[attr-defined]
    ask.__test__ = False  # type: ignore[attr-defined]  # to pytest `test_compute_gae`, an exercise, is none of its own
    return ask


def call_of(function: Any) -> Call:
    """What such a function asks, without arguments.

    Raises:
        TypeError: it is another function.
    """
    found = getattr(function, "target", function)
    if not isinstance(found, Call):
        raise TypeError(f"expected an exercise imported from tutorial, or a scenario of one, got {function!r}")
    return found


def _put_in_place() -> None:
    """Let `tutorial` be a package of lessons as suites see them: a function for each public name, and for each method
    that is an exercise."""
    top = sys.modules["tutorial"] = ModuleType("tutorial")
    top.__path__ = [str(TUTORIAL)]
    for name in lesson_names():
        module, read = ModuleType(f"tutorial.{name}"), read_lesson(name)
        for public in read.names:
            setattr(module, public, asking(Call(name, public)))
        for exercise in read.exercises:
            owner, _, method = exercise.rpartition(".")
            if owner in read.names:
                setattr(getattr(module, owner), method, asking(Call(name, exercise)))
        sys.modules[module.__name__] = module
        setattr(top, name, module)


_put_in_place()


def named(columns: str, rows: Mapping[str, Any]) -> pytest.MarkDecorator:
    """`pytest.mark.parametrize` with a name for each row:

        @named("n, total", {"n-1-is-this-reward": (1, 2.0), "n-beyond-the-end-changes-nothing": (9, 7.0)})

    With one column, a row is its value.
    """
    return pytest.mark.parametrize(columns, [*rows.values()], ids=[*rows])


def example(
    target: Any,
    /,
    *args: Any,
    grad_of: str | tuple[str, ...] = (),
    grad_through: str | None = None,
    grad_weights: Tensor | None = None,
    seconds: float | None = None,
    **kwargs: Any,
) -> Call:
    """Describe one call of an exercise. Lists of numbers become float64 tensors (int64 or bool if they are that).

    Args:
        target: the exercise, or a scenario of it.
        grad_of: names of the arguments to take the gradient of: of the sum of the answer's parts,
        grad_through: or of this part alone,
        grad_weights: weighted with these numbers.
        seconds: Python code that runs longer is stopped.
    """
    call = call_of(target)
    names = list(current().reference.parameters(call.lesson, call.exercise))[: len(args)] if args else []
    if len(names) < len(args):
        raise TypeError(f"too many positional arguments for {call.exercise}")
    arguments = {**dict(zip(names, args, strict=True)), **kwargs}
    return replace(
        call,
        arguments={name: as_tensor(one) if _is_numbers(one) else one for name, one in arguments.items()},
        positional=len(args),
        grad_of=(grad_of,) if isinstance(grad_of, str) else tuple(grad_of),
        grad_through=_position(call, grad_through) if grad_through and not call.scenario else grad_through,
        grad_weights=grad_weights,
        seconds=seconds or call.seconds,
    )


def _is_numbers(value: Any) -> bool:
    """Whether it is a list of numbers, or of such lists."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(part, (bool, int, float)) or part == [] or _is_numbers(part) for part in value)


def _position(call: Call, part: str) -> str:
    """The position of a part in the reference's NamedTuple: a student may return a plain tuple, without names."""
    function = inspect.unwrap(current().reference.function(call.lesson, call.exercise))
    fields = getattr(function.__globals__.get(function.__annotations__.get("return")), "_fields", ())
    return str(fields.index(part)) if part in fields else part


def reference(target: Any, /, *args: Any, **options: Any) -> Any:
    """The reference's answer, to build an expected value from.

    Raises:
        RuntimeError: the reference raised.
    """
    outcome = current().reference.run(example(target, *args, **options))
    if outcome.error:
        raise RuntimeError(f"the reference raised {outcome.error.type_name}: {outcome.error.message}")
    return fields_of(outcome.value)[0]


def scenario(name: str, of: Any, seconds: float = Call.seconds) -> Any:
    """A function that asks an exercise through one of the lesson's scenarios.py, for code that needs live objects."""
    return asking(replace(call_of(of), scenario=name, seconds=seconds))


def value_and_gradients(function: Any, /, *args: Any, **options: Any) -> tuple[Any, dict[str, Tensor]]:
    """Call an exercise, and take the gradient of its answer.

    Args:
        wrt: names of the arguments to take the gradient with respect to: of the sum of the answer's parts,
        of: or of this part alone,
        weights: weighted with these numbers.
    """
    names = {"wrt": "grad_of", "of": "grad_through", "weights": "grad_weights"}
    asked = _answered(example(function, *args, **{names.get(name, name): value for name, value in options.items()}))
    return asked.value, asked.slopes


def gradients(function: Any, /, *args: Any, **options: Any) -> dict[str, Tensor]:
    """The gradient of an exercise's answer by argument, 0 where none arrives; as `value_and_gradients`."""
    return value_and_gradients(function, *args, **options)[1]


def examples_of(function: Any) -> Iterator[Any]:
    """The answers to the lesson's examples of an exercise, drawn from this run's seed."""
    call = call_of(function)
    for question in current().examples(call.lesson, call.exercise):
        yield _answered(question).value


def _answered(question: Call) -> Asked:
    """Put a question for a test, which gets the answer, or what was raised."""
    asked = put(question)
    if asked.outcome.error and asked.outcome.error.kind == "raised" and (error := exception_of(asked.outcome)):
        asked.error = error
        raise error
    asked.is_sound()
    return asked


def assert_equal(got: Any, expected: Any = ..., /, **options: Any) -> None:
    """An answer, a part of it or its gradients are as expected: in structure, shape, dtype, and number by number.

        assert_equal(td_errors(rewards, values, dones, 0.5), [1.0, 3.0])
        assert_equal(compute_gae(rewards, values, dones), advantages=[1.25], returns=[3.25])

    A list is a tensor (float64, int64 or bool). A gradient of None: nothing may flow there.

    Args:
        atol, rtol: how close; without them as closely as the dtype allows; in the basic suite, as float32.
        equal_nan: whether NaN is expected where `expected` has it.
        others: parts of a tuple or dict, by name.
    """
    rules: dict[str, Any] = {name: options.pop(name) for name in ("atol", "rtol", "equal_nan") if name in options}
    asked, part, slope = _find(got)
    if asked is None:
        checks.compare_plainly(got, expected if expected is not ... else options, rules)
    elif slope is not None:
        wanted = {slope: expected} if slope else {**(expected if isinstance(expected, dict) else {}), **options}
        for name, value in wanted.items():
            checks.gradient_equals(asked, name, value, **rules)
    else:
        if expected is not ...:
            asked.equals(expected, part, **rules)
        for name, value in options.items():
            asked.equals(value, name, **rules)


def assert_equals_reference(got: Any, **rules: float) -> None:
    """An answer, with its gradients, is what the solution gives on the same call."""
    checks.matches_reference(_find_call(got), **rules)


def assert_no_gradient(got: Any) -> None:
    """An answer is data: no gradient flows through it."""
    checks.has_no_gradient(_find_call(got))


def assert_leaves_global_random_alone(got: Any) -> None:
    """The call drew nothing from, and did not seed, the global random generators."""
    checks.draws_nothing(_find_call(got))


def _find_call(got: Any) -> Asked:
    asked, _, _ = _find(got)
    if asked is None:
        raise TypeError("expected the answer of an exercise, as the call returned it")
    return asked


def _find(got: Any) -> tuple[Asked | None, str, str | None]:
    """The last call that gave this object, the part that it is ("" for the whole), and the argument if it is a gradient
    ("" for all of them)."""
    for asked in reversed(current().calls):
        if asked.error:
            continue
        if got is asked.value:
            return asked, "", None
        if got is asked.slopes:
            return asked, "", ""
        for name, slope in asked.slopes.items():
            if got is slope:
                return asked, "", name
        value = asked.value
        named = value.items() if isinstance(value, dict) else zip(*reversed(fields_of(value)), strict=False)
        names = [name for name, part in (named if isinstance(value, (dict, tuple)) else ()) if part is got]
        if len(names) == 1 or names and type(got) not in PLAIN:
            return asked, names[0], None
    return None, "", None


Verdict = AssertionError | Open
"""What a test that does not pass says of the code under test; of the first kind, a CheckFailed has the whole report."""


def verdict_of(error: BaseException) -> Verdict | None:
    """What a test's exception says of the code under test; None where it says nothing of it."""
    if current().calls and not isinstance(error, (CheckFailed, Open)):
        try:
            checks.say(error, current().calls)
        except (CheckFailed, Kept) as failed:
            failed.__cause__ = error
            return failed
    return error if isinstance(error, Verdict) else None
