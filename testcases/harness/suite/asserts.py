"""What the tests of a suite are written in: exercises are called like functions, and these compare what they answer.

A comparison finds the call behind an answer by identity: `assert_equal(compute_gae(...).returns, [...])` knows that it
is about `returns`. If none stands behind it, it compares plainly, and no cause is named.
"""

from __future__ import annotations

import builtins
import collections
import functools
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Never

import pytest
import torch
from torch import Tensor

from ..catalog.handles import Scenario, asking, exercise_of, target_of
from ..catalog.lessons import lesson as read_lesson
from ..catalog.lessons import task_of
from ..diagnosis.sentences import advice_of, causes_of, remedies_of, section_of
from ..diagnosis.values import Kind, Part
from ..execution.executor import part_of, scenario_of
from ..execution.messages import Call, Outcome, Record, StudentError, fields_of, in_float32
from ..oracle.mutations import Suspect
from ..report.compare import Difference, Rules, first_difference, nan_in
from ..report.failures import (
    MAX_SHOWN,
    CheckFailed,
    Kept,
    NotStarted,
    Waiting,
    clean,
    describe_error,
    report,
    show,
    show_argument,
    type_name,
)
from .session import current

LONG_CALL = 330
SECONDS = 5.0
DID_NOT_RAISE = re.compile(r"DID NOT RAISE (?:<class ')?(?:\w+\.)*(\w+)")
REGEX = re.compile(r"Expected regex: (.+)")
"""What pytest.raises says."""
PLAIN = (bool, int, type(None), str)
"""Of these there may be one object for two answers: a part is not told by it."""


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
    seconds: float = SECONDS,
    **kwargs: Any,
) -> Call:
    """Describe one call of an exercise. Lists of numbers become float64 tensors (int64 or bool if they are that).

    Args:
        target: the exercise, or a scenario of it; a finished Call is its own description.
        grad_of: names of the arguments to take the gradient of: of the sum of the answer's parts,
        grad_through: or of this part alone,
        grad_weights: weighted with these numbers.
        seconds: Python code that runs longer is stopped.
    """
    if isinstance(target, Call):
        return target
    target = target_of(target)
    exercise, through = (target.exercise, target.name) if isinstance(target, Scenario) else (target, None)
    if isinstance(target, Scenario) and target.seconds and seconds == SECONDS:
        seconds = target.seconds
    names = list(current().reference.parameters(exercise.lesson, exercise.name))[: len(args)] if args else []
    if len(names) < len(args):
        raise TypeError(f"too many positional arguments for {exercise.name}")
    arguments = {name: as_argument(value) for name, value in {**dict(zip(names, args, strict=True)), **kwargs}.items()}
    if grad_through is not None and through is None:
        grad_through = _position(exercise.lesson, exercise.name, grad_through)
    grad_of = (grad_of,) if isinstance(grad_of, str) else tuple(grad_of)
    return Call(
        exercise.lesson, exercise.name, arguments, len(args), through, grad_of, grad_through, grad_weights, seconds
    )


def reference(target: Any, /, *args: Any, **options: Any) -> Any:
    """The reference's answer, to build an expected value from.

    Raises:
        RuntimeError: the reference raised.
    """
    asked = example(target, *args, **options)
    outcome = current().reference.run(asked)
    if outcome.error:
        raise RuntimeError(f"the reference raised {outcome.error.type_name}: {outcome.error.message}")
    return fields_of(outcome.value)[0]


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
    return _answered(example(target, *args, **kwargs)).value


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
    exercise = exercise_of(function)
    for question in current().examples(exercise.lesson, exercise.name):
        yield _answered(question).value


def put(question: Call) -> Asked:
    """Put a question to the code under test; in the basic suite in float32.

    Raises:
        NotStarted, Waiting: the exercise, or one it needs, is still a stub.
    """
    question = in_float32(question) if current().of_the_formula else question
    return Asked(question, current().ask(question))


def _answered(question: Call) -> Asked:
    """The same for a test, which gets the answer, or what was raised."""
    asked = put(question)
    current().calls.append(asked)
    if asked.outcome.error and asked.outcome.error.kind == "raised" and (error := _exception(asked.outcome)):
        asked.error = error
        raise error
    asked.is_sound()
    asked.value = _named(asked)
    asked.slopes = {
        name: torch.zeros_like(question.arguments[name]) if slope is None else slope
        for name, slope in asked.outcome.gradients.items()
    }
    return asked


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


def _named(asked: Asked) -> Any:
    """The answer as a test reads it: a tuple has the names of the reference's, if it is as long."""
    values, names = fields_of(asked.outcome.value)
    if not isinstance(values, tuple):
        return values
    wanted, fields = fields_of(current().reference.run(asked.call).value)
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
        atol, rtol: how close; without them as closely as the dtype allows; in the basic suite, as float32.
        dtype: of the expected tensor.
        equal_nan: whether NaN is expected where `expected` has it.
        others: parts of a tuple or dict, by name.
    """
    rules: dict[str, Any] = {
        name: options.pop(name) for name in ("atol", "rtol", "dtype", "equal_nan") if name in options
    }
    asked, part, slope = _find(got)
    if asked is None:
        _assert_plainly(got, expected if expected is not ... else options, rules)
    elif slope is not None:
        wanted = {slope: expected} if slope else {**(expected if isinstance(expected, dict) else {}), **options}
        for name, value in wanted.items():
            asked.gradient_equals(name, value, **rules)
    else:
        if expected is not ...:
            asked.equals(expected, part, **rules)
        for name, value in options.items():
            asked.equals(value, name, **rules)


def assert_equals_reference(got: Any, **rules: float) -> None:
    """An answer, with its gradients, is what the solution gives on the same call."""
    _find_call(got).matches_reference(**rules)


def assert_no_gradient(got: Any) -> None:
    """An answer is data: no gradient flows through it."""
    _find_call(got).has_no_gradient()


def assert_leaves_global_random_alone(got: Any) -> None:
    """The call drew nothing from, and did not seed, the global random generators."""
    asked = _find_call(got)
    asked.is_sound()
    asked.draws_nothing()


def _find_call(got: Any) -> Asked:
    asked, _, _ = _find(got)
    if asked is None:
        raise TypeError("expected the answer of an exercise, as the call returned it")
    return asked


def _find(got: Any) -> tuple[Asked | None, str, str | None]:
    """The last call that gave this object, the part that it is ("" for the whole), and the argument if it is a gradient
    ("" for all of them)."""
    for asked in reversed(current().calls):
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


def _assert_plainly(got: Any, expected: Any, rules: dict[str, Any]) -> None:
    dtype = rules.pop("dtype", None)
    wanted = as_tensor(expected, dtype) if isinstance(got, Tensor) and not isinstance(expected, dict) else expected
    if difference := first_difference(wanted, got, Rules(**rules, single=current().of_the_formula)):
        if calls := current().calls:  # Something that the test has made of answers: the last one is reported.
            calls[-1].fail(difference.kind, list(difference.lines), part=Part(Kind.VALUE, ""))
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
            last.fail("wrong value", lines, part=Part(Kind.VALUE, ""))
        if isinstance(error, (TypeError, AttributeError, KeyError, IndexError, ValueError, RuntimeError)):
            last.matches_reference()  # of another structure than the test expects
    except (CheckFailed, Kept) as failed:
        failed.__cause__ = error
        return failed
    return error


@dataclass(eq=False)
class Asked:
    """A call of an exercise, and the checks on its outcome.

    Before any other check: it must not have raised, changed an input in place or left a global setting changed.
    """

    call: Call
    outcome: Outcome
    value: Any = None
    """What the test got."""
    slopes: dict[str, Tensor] = field(default_factory=dict)
    """And of gradients."""
    error: Exception | None = None
    """What the call raised."""

    def equals(
        self, expected: Any, part: str = "", *, dtype: torch.dtype | None = None, equal_nan: bool = False, **near: float
    ) -> None:
        """The value, or a part of it by the name that the reference gives it, is this one. A list is a tensor: float64,
        int64 or bool, unless `dtype` says otherwise. A number is whatever the reference returns there: a Python number,
        or a tensor of shape ()."""
        self.is_sound()
        wanted = self._as_expected(expected, dtype, (part,) if part else ())
        rules = self._rules(equal_nan=equal_nan, **near)
        self._fail_with(first_difference(wanted, self._part(part), rules, part), Kind.VALUE, part)

    def _rules(self, **given: Any) -> Rules:
        return Rules(nan=nan_in(self.call.arguments), single=current().of_the_formula, **given)

    def _part(self, part: str) -> Any:
        value, _ = fields_of(self.outcome.value)
        _, fields = fields_of(current().reference.run(self.call).value) if part else (None, ())
        if not part:
            return self.outcome.value
        if isinstance(value, tuple) and part in fields and len(value) == len(fields):
            return value[fields.index(part)]
        if isinstance(value, dict) and part in value:
            return value[part]
        wanted = f"a tuple of {len(fields)} ({', '.join(fields)})" if fields else f"a dict with {part}"
        self.fail(f"returned {type_name(self.outcome.value)}", [f"expected {wanted}", f"got      {show(value)}"])

    def matches_reference(self, **near: float) -> None:
        """Value, gradients and errors of the reference on the same arguments."""
        wanted = current().reference.run(self.call)
        if wanted.error and wanted.error.kind != "raised":
            raise RuntimeError(f"the reference failed: {wanted.error.kind}, {wanted.error.message}")
        if wanted.error:
            self.raises(wanted.error.type_name)
            return
        self.is_sound()
        # Where the reference says NaN, it is right.
        rules = self._rules(equal_nan=True, **near)
        self._fail_with(first_difference(wanted.value, self.outcome.value, rules), Kind.VALUE)
        for name, slope in wanted.gradients.items():
            self.gradient_equals(name, slope, **near)
        if not wanted.tracked and not current().of_the_formula:
            self.has_no_gradient()

    def raises(self, wanted: str, mentions: Sequence[str] = ()) -> None:
        """It raised exactly this error, and the message says these things."""
        error = self.outcome.error
        if error is None:
            self.fail("did not raise", [f"expected {wanted}", f"got      {show(self.outcome.value)}"])
        elif error.kind != "raised" or error.type_name != wanted:
            self._fail_of_error(f"expected {wanted}")
        elif lost := [text for text in mentions if text.lower() not in error.message.lower()]:
            lines = [f"expected a message that mentions {', '.join(map(repr, lost))}", f"got      {error.message}"]
            self.fail("unclear error message", lines)

    def has_no_gradient(self) -> None:
        """The answer is data: no gradient flows through it."""
        self.is_sound()
        if self.outcome.tracked and current().believes:
            where = ", ".join(path or "the answer" for path in self.outcome.tracked)
            self.fail("carries a gradient", [f"expected data without gradient; {where} requires grad"])

    def draws_nothing(self) -> None:
        """It drew nothing from, and did not seed, the global random generators."""
        if self.outcome.used_global_random and current().believes:
            lines = ["expected no draw from torch's or Python's global generator"]
            self.fail("uses the global random generator", lines)

    def is_sound(self) -> None:
        if self.outcome.error:
            self._fail_of_error()
        if self.outcome.changed:
            names = ", ".join(self.outcome.changed)
            lines = [
                f"{names} came back changed. The caller still needs it: make a new tensor.",
                "(x = x + y instead of x += y; masked_fill instead of masked_fill_; clone() before x[...] = y)",
            ]
            self.fail(f"changed its input {names} in place", lines)
        if current().believes and (self.outcome.left_behind or self.outcome.used_global_random):
            self._leaves_nothing_behind()

    def _leaves_nothing_behind(self) -> None:
        """Fail if global settings are changed, except where the reference changes them too."""
        wanted = current().reference.run(self.call)
        if left := [text for text in self.outcome.left_behind if text not in wanted.left_behind]:
            lines = [f"not as before the call: {', '.join(left)}"]
            self.fail("left global settings changed", lines, part=Part(Kind.EFFECT, ""))
        if self.outcome.used_global_random and not (wanted.used_global_random or self.call.scenario):
            self.draws_nothing()

    def _as_expected(self, expected: Any, dtype: torch.dtype | None, path: tuple[str, ...]) -> Any:
        """A suite's expected value in the types that the reference returns; `path` leads to that part of the answer."""
        if isinstance(expected, dict):
            return {key: self._as_expected(part, dtype, (*path, key)) for key, part in expected.items()}
        if isinstance(expected, tuple):
            return tuple(self._as_expected(part, dtype, (*path, str(i))) for i, part in enumerate(expected))
        if expected is None or isinstance(expected, str):
            return expected
        right = current().reference.run(self.call).value
        for name in path:
            right = part_of(right, name) if isinstance(right, (dict, tuple, Record)) else right
        is_number = isinstance(expected, (bool, int, float)) and not isinstance(right, Tensor)
        is_list = isinstance(expected, list) and isinstance(right, list) and self.call.scenario
        return expected if is_number or is_list else as_tensor(expected, dtype)

    def gradient_equals(self, name: str, expected: Any, **near: float) -> None:
        """The gradient by one argument; None: nothing may flow there."""
        self.is_sound()
        if name not in self.call.grad_of:
            raise TypeError(f"the call did not ask for the gradient of {name}")
        like = self.call.arguments[name]
        got = self.outcome.gradients.get(name)
        wanted = torch.zeros_like(like) if expected is None else as_tensor(expected, like.dtype)
        if got is None and bool(wanted.any()):
            reason = (
                f"it does not depend on {name}"
                if self.outcome.tracked
                else "the answer is cut off from its inputs (detach, no_grad, .item(), .tolist() or torch.tensor(...))"
            )
            lines = [f"expected the gradient by {name}: {show(wanted)}", f"got      none: {reason}"]
            self.fail("no gradient", lines, part=Part(Kind.SLOPE, name))
        got = torch.zeros_like(like) if got is None else got
        rules = self._rules(what="gradient", **near)
        difference = first_difference(wanted, got, rules, name)
        if difference and not bool(wanted.any()) and difference.kind == "wrong gradient":
            difference = Difference(difference.kind, (*difference.lines, f"no gradient may flow into {name}"))
        self._fail_with(difference, Kind.SLOPE, name)

    def _fail_with(self, difference: Difference | None, kind: Kind, part: str = "") -> None:
        if difference:
            self.fail(difference.kind, list(difference.lines), part=Part(kind, part or difference.part))

    def _fail_of_error(self, *first: str) -> None:
        error = self.outcome.error
        assert error is not None
        kinds = {
            "load": f"{read_lesson(self.call.lesson).file_of(self.call.exercise)} does not load",
            "missing": "missing",
            "signature": "wrong signature",
            "timeout": "took too long",
            "too large": "returned too much",
            "backward": f"raised {error.type_name} in the backward pass",
        }
        lines = list(first)
        if error.kind == "signature":
            lines.append(f"expected {self.call.exercise}{_reference_signature(self.call)}")
        if error.kind == "missing":
            lines.append(error.message)
        elif error.kind == "timeout":
            place = f" at {error.frames[-1].file}:{error.frames[-1].line}" if error.frames else ""
            lines.append(
                f"{error.message}{place}: does a loop never end, or take far more steps than there are tokens?"
            )
        else:
            lines += describe_error(error)
        self.fail(kinds.get(error.kind, f"raised {error.type_name}"), lines, error)

    def fail(self, kind: str, lines: list[str], error: StudentError | None = None, part: Part | None = None) -> Never:
        """Write the report; `error` where that is what failed, else the `part` of the answer, if it is one.

        Raises:
            CheckFailed: always, or
            Kept: if another exercise of the lesson pays for it.
        """
        asked, outcome = self.call, self.outcome
        if names := current().right_with(asked.lesson, asked.exercise):
            raise Kept(asked.lesson, asked.exercise, names)
        loaded = not (outcome.error and outcome.error.kind in ("load", "missing"))
        head = f"{asked.lesson} · {asked.exercise} · {clean(kind)}"
        called = [_show_call(asked), *_told_of(asked)] if loaded else []
        diagnosis = current().explainer.diagnose(asked, outcome, part=part)
        listed, remedies = diagnosis.listed, (*remedies_of(diagnosis),)
        causes, read = causes_of(diagnosis, asked.exercise), section_of(diagnosis, asked, lines)
        tail = advice_of(causes, read, asked)
        if outcome.error and outcome.error.kind == "load":  # No text of an exercise is about a missing colon.
            tail = ["Fix this first. Once the file loads, all its exercises are tested again."]
        if isinstance(listed, Suspect):  # The smallest input that shows the bug is for the student to find.
            lines, called = [task_of(asked.lesson, asked.exercise)], []
        said = report(head, lines, tail, called)
        failed = CheckFailed(said, asked.lesson, asked.exercise, kind, listed.name if listed else None)
        failed.call, failed.outcome, failed.error, failed.remedies = asked, outcome, error, remedies
        failed.causes, failed.read = tuple(cause for _, cause in causes), read
        # Where the student's code raised, `--pdb` stops there.
        raise failed.with_traceback(outcome.exception.__traceback__ if outcome.exception and error else None)


def as_tensor(value: Any, dtype: torch.dtype | None = None) -> Any:
    """Numbers and lists of numbers as a tensor, floats as float64; a tensor stays as it is without `dtype`."""
    if isinstance(value, Tensor):
        return value if dtype is None or value.dtype == dtype else value.to(dtype)
    if dtype:
        return torch.tensor(value, dtype=dtype)
    tensor = torch.tensor(value)
    return torch.tensor(value, dtype=torch.float64) if tensor.is_floating_point() else tensor


def as_argument(value: Any) -> Any:
    """A list of numbers as a tensor; all else stays."""
    if isinstance(value, list) and value and _is_numbers(value):
        return as_tensor(value)
    return value


def _is_numbers(value: list[Any]) -> bool:
    return all(_is_numbers(part) if isinstance(part, list) else isinstance(part, (bool, int, float)) for part in value)


def _show_call(asked: Call) -> str:
    """A scenario is a function that no student knows: its arguments are what the exercise is called with, or among."""
    for limit in (MAX_SHOWN, 8):
        shown = ", ".join(f"{key}={show_argument(value, limit)}" for key, value in asked.arguments.items())
        text = f"called   {asked.exercise}, with {shown}" if asked.scenario else f"called   {asked.exercise}({shown})"
        if len(text) <= LONG_CALL:
            break
    return text.replace(" (float32)", "") if current().of_the_formula else text


def _told_of(asked: Call) -> list[str]:
    """What the scenario does that a call names: the first sentences of its docstring."""
    if not asked.scenario:
        return []
    first, *_ = (inspect.getdoc(scenario_of(asked)) or "").split("\n\n")
    return [f"    ({' '.join(first.split())})"] if first else []


def _position(lesson: str, exercise: str, part: str) -> str:
    """The position of a part in the reference's NamedTuple: a student may return a plain tuple, without names."""
    function = inspect.unwrap(current().reference.executor.function(lesson, exercise))
    fields = getattr(function.__globals__.get(function.__annotations__.get("return")), "_fields", ())
    return str(fields.index(part)) if part in fields else part


def _reference_signature(asked: Call) -> str:
    """Such as "(rewards, values, dones, gamma=0.99)", without annotations."""
    parameters = current().reference.parameters(asked.lesson, asked.exercise).values()
    return str(inspect.Signature([one.replace(annotation=one.empty) for one in parameters]))
