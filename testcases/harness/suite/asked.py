"""A call of an exercise and what came of it, held against what is right; and the report where it is not."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Never

import torch
from torch import Tensor

from ..catalog import task_of
from ..diagnosis.sentences import advice_of, causes_of, remedies_of, section_of
from ..diagnosis.values import Diagnosis
from ..execution.calling import part_of, scenario_of
from ..execution.messages import Call, Outcome, Record, StudentError, fields_of, in_float32
from ..oracle.mutations import Suspect
from ..report.compare import Difference, Rules, first_difference, nan_in
from ..report.errors import lines_of, title_of
from ..report.failures import MAX_SHOWN, CheckFailed, Kept, clean, report, show, show_argument, type_name
from .session import current

LONG_CALL = 330


def put(question: Call) -> Asked:
    """Put a question to the code under test; in the basic suite in float32.

    Raises:
        NotStarted, Waiting: the exercise, or one it needs, is still a stub.
    """
    question = in_float32(question) if current().of_the_formula else question
    return Asked(question, current().ask(question))


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

    @cached_property
    def right(self) -> Outcome:
        """What the reference answers."""
        return current().reference.run(self.call)

    def equals(
        self, expected: Any, part: str = "", *, dtype: torch.dtype | None = None, equal_nan: bool = False, **near: float
    ) -> None:
        """The value, or a part of it by the name that the reference gives it, is this one. A list is a tensor: float64,
        int64 or bool, unless `dtype` says otherwise. A number is whatever the reference returns there: a Python number,
        or a tensor of shape ()."""
        self.is_sound()
        wanted = self._as_expected(expected, dtype, (part,) if part else ())
        rules = self._rules(equal_nan=equal_nan, **near)
        self._fail_with(first_difference(wanted, self._part(part), rules, part))

    def _rules(self, **given: Any) -> Rules:
        return Rules(nan=nan_in(self.call.arguments), single=current().of_the_formula, **given)

    def _part(self, part: str) -> Any:
        if not part:
            return self.outcome.value
        value, _ = fields_of(self.outcome.value)
        _, fields = fields_of(self.right.value)
        if isinstance(value, tuple) and part in fields and len(value) == len(fields):
            return value[fields.index(part)]
        if isinstance(value, dict) and part in value:
            return value[part]
        wanted = f"a tuple of {len(fields)} ({', '.join(fields)})" if fields else f"a dict with {part}"
        self.fail(f"returned {type_name(self.outcome.value)}", [f"expected {wanted}", f"got      {show(value)}"])

    def matches_reference(self, **near: float) -> None:
        """Value, gradients and errors of the reference on the same arguments."""
        wanted = self.right
        if wanted.error and wanted.error.kind != "raised":
            raise RuntimeError(f"the reference failed: {wanted.error.kind}, {wanted.error.message}")
        if wanted.error:
            self.raises(wanted.error.type_name)
            return
        self.is_sound()
        # Where the reference says NaN, it is right.
        rules = self._rules(equal_nan=True, **near)
        self._fail_with(first_difference(wanted.value, self.outcome.value, rules))
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
        """It did not raise, changed no input in place and left no global setting changed."""
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
        if left := [text for text in self.outcome.left_behind if text not in self.right.left_behind]:
            lines = [f"not as before the call: {', '.join(left)}"]
            self.fail("left global settings changed", lines)
        if self.outcome.used_global_random and not (self.right.used_global_random or self.call.scenario):
            self.draws_nothing()

    def _as_expected(self, expected: Any, dtype: torch.dtype | None, path: tuple[str, ...]) -> Any:
        """A suite's expected value in the types that the reference returns; `path` leads to that part of the answer."""
        if isinstance(expected, dict):
            return {key: self._as_expected(part, dtype, (*path, key)) for key, part in expected.items()}
        if isinstance(expected, tuple):
            return tuple(self._as_expected(part, dtype, (*path, str(i))) for i, part in enumerate(expected))
        if expected is None or isinstance(expected, str):
            return expected
        right = self.right.value
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
            self.fail("no gradient", lines)
        got = torch.zeros_like(like) if got is None else got
        rules = self._rules(what="gradient", **near)
        difference = first_difference(wanted, got, rules, name)
        if difference and not bool(wanted.any()) and difference.kind == "wrong gradient":
            difference = Difference(difference.kind, (*difference.lines, f"no gradient may flow into {name}"))
        self._fail_with(difference)

    def _fail_with(self, difference: Difference | None) -> None:
        if difference:
            self.fail(difference.kind, list(difference.lines))

    def _fail_of_error(self, *first: str) -> None:
        error = self.outcome.error
        assert error is not None
        parameters = current().reference.parameters(self.call.lesson, self.call.exercise)
        self.fail(title_of(error, self.call), [*first, *lines_of(error, self.call, parameters)], error)

    def fail(self, kind: str, lines: list[str], error: StudentError | None = None) -> Never:
        """Write the report; `error` where that is what failed.

        Raises:
            CheckFailed: always, or
            Kept: if another exercise of the lesson pays for it.
        """
        asked, outcome = self.call, self.outcome
        if names := current().right_with(asked.lesson, asked.exercise):
            them = " and ".join(names)
            why = f"is right with the course's {them}, so it keeps its points. Repair {them}."
            raise Kept(asked.lesson, asked.exercise, why)
        loaded = not (outcome.error and outcome.error.kind in ("load", "missing"))
        head = f"{asked.lesson} · {asked.exercise} · {clean(kind)}"
        called = [_show_call(asked), *_told_of(asked)] if loaded and not asked.behind else []
        diagnosis = current().explainer.diagnose(asked, outcome)
        if asked.behind and not diagnosis.listed:  # Of a student's tests only what somebody has named is a cause.
            diagnosis = Diagnosis()
        listed = diagnosis.listed
        causes, read = causes_of(diagnosis, asked.exercise), section_of(diagnosis, asked, lines)
        tail = advice_of(causes, read, asked)
        if outcome.error and outcome.error.kind == "load":  # No text of an exercise is about a missing colon.
            tail = ["Fix this first. Once the file loads, all its exercises are tested again."]
        if isinstance(listed, Suspect):  # The smallest input that shows the bug is for the student to find.
            lines, called = [task_of(asked.lesson, asked.exercise)], []
        said = report(head, lines, tail, called)
        failed = CheckFailed(
            said,
            asked.lesson,
            asked.exercise,
            kind,
            cause=listed.name if listed else None,
            call=asked,
            outcome=outcome,
            error=error,
            causes=tuple(cause for _, cause in causes),
            read=read,
            remedies=(*remedies_of(diagnosis),),
        )
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
