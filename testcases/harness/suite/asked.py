"""A call of an exercise and what came of it, held against what is right; and the report where it is not."""

from __future__ import annotations

import collections
import functools
import inspect
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Never

import torch
from torch import Tensor

from ..catalog import task_of
from ..diagnosis.sentences import advice_of, causes_of, remedies_of, section_of
from ..diagnosis.values import Diagnosis
from ..execution.calling import part_of, scenario_of
from ..execution.messages import Call, Outcome, Record, StudentError, copy_plain, fields_of
from ..oracle.mutations import Suspect
from ..report.compare import Difference, Rules, first_difference, nan_in
from ..report.errors import Kept, lines_of, title_of
from ..report.failures import MAX_SHOWN, CheckFailed, clean, report, show_argument
from .session import current

LONG_CALL = 330
NO_DRAW = "expected no draw from torch's or Python's global generator"


def put(question: Call) -> Asked:
    """Put a question to the code under test; in the basic suite in float32.

    Raises:
        NotStarted, Waiting: the exercise, or one it needs, is still a stub.
    """
    question = in_float32(question) if current().of_the_formula else question
    asked = Asked(question, current().ask(question))
    current().calls.append(asked)
    return asked


def in_float32(call: Call) -> Call:
    """The same question as a training run asks it: published code takes this precision for granted."""

    def narrow(tensor: Tensor) -> Tensor:
        return tensor.float() if tensor.dtype == torch.float64 else tensor

    arguments, grad_weights = copy_plain((call.arguments, call.grad_weights), narrow)
    return replace(call, arguments=arguments, grad_weights=grad_weights)


@dataclass(eq=False)
class Asked:
    """A call of an exercise, and the checks on its outcome.

    Before any other check: it must not have raised, changed an input in place or left a global setting changed.
    """

    call: Call
    outcome: Outcome
    error: Exception | None = None
    """What a test met instead of an answer."""

    @cached_property
    def right(self) -> Outcome:
        """What the reference answers."""
        return current().reference.run(self.call)

    @cached_property
    def value(self) -> Any:
        """The answer as a test reads it: a tuple has the names of the reference's, if it is as long."""
        values, names = fields_of(self.outcome.value)
        if not isinstance(values, tuple):
            return values
        wanted, fields = fields_of(self.right.value)
        names = fields if isinstance(wanted, tuple) and len(wanted) == len(values) else names
        return _tuple_of(names)(*values) if names else values

    @cached_property
    def slopes(self) -> dict[str, Tensor]:
        """The gradients as a test reads them: 0 where none arrives."""
        given, found = self.call.arguments, [(name, self.outcome.gradients.get(name)) for name in self.call.grad_of]
        return {name: torch.zeros_like(given[name]) if slope is None else slope for name, slope in found}

    def is_sound(self) -> None:
        """It did not raise, changed no input in place and left no global setting changed, but as the reference does."""
        if self.outcome.error:
            self.fail_of_error()
        if self.outcome.changed:
            names = ", ".join(self.outcome.changed)
            lines = [
                f"{names} came back changed. The caller still needs it: make a new tensor.",
                "(x = x + y instead of x += y; masked_fill instead of masked_fill_; clone() before x[...] = y)",
            ]
            self.fail(f"changed its input {names} in place", lines)
        if not current().believes or not (self.outcome.left_behind or self.outcome.used_global_random):
            return
        if left := [text for text in self.outcome.left_behind if text not in self.right.left_behind]:
            self.fail("left global settings changed", [f"not as before the call: {', '.join(left)}"])
        if self.outcome.used_global_random and not (self.call.scenario or self.right.used_global_random):
            self.fail("uses the global random generator", [NO_DRAW])

    def equals(self, expected: Any, part: str = "", **near: Any) -> None:
        """The value, or a part of it by the name that the reference gives it, is this one. A list is a tensor: float64,
        int64 or bool. A number is whatever the reference returns there: a Python number, or a tensor of shape ()."""
        self.is_sound()
        got = self.outcome.value
        if part:
            try:
                got = part_of(self.value, part)
            except (KeyError, ValueError, TypeError, IndexError):
                self.fail_with(first_difference(self.right.value, got))
                raise
        wanted = self._as_expected(expected, (part,) if part else ())
        self.fail_with(first_difference(wanted, got, self.rules(**near), part))

    def _as_expected(self, expected: Any, path: tuple[str, ...]) -> Any:
        """A suite's expected value in the types that the reference returns; `path` leads to that part of the answer."""
        if isinstance(expected, dict):
            return {key: self._as_expected(part, (*path, key)) for key, part in expected.items()}
        if isinstance(expected, tuple):
            return tuple(self._as_expected(part, (*path, str(i))) for i, part in enumerate(expected))
        if expected is None or isinstance(expected, str):
            return expected
        right = self.right.value
        for name in path:
            right = part_of(right, name) if isinstance(right, (dict, tuple, Record)) else right
        is_number = isinstance(expected, (bool, int, float)) and not isinstance(right, Tensor)
        is_list = isinstance(expected, list) and isinstance(right, list) and self.call.scenario
        return expected if is_number or is_list else as_tensor(expected)

    def rules(self, **given: Any) -> Rules:
        return Rules(nan=nan_in(self.call.arguments), single=current().of_the_formula, **given)

    def fail_with(self, difference: Difference | None) -> None:
        if difference:
            self.fail(difference.kind, list(difference.lines))

    def fail_of_error(self, *first: str) -> Never:
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
        # A file that does not load, or loads for ever, is not loaded again with other functions in it.
        is_of_file = outcome.error is not None and outcome.error.is_of_file
        if not is_of_file and (names := current().right_with(asked.lesson, asked.exercise)):
            them = " and ".join(names)
            why = f"is right with the course's {them}, so it keeps its points. Repair {them}."
            raise Kept(asked.lesson, asked.exercise, why)
        head = f"{asked.lesson} · {asked.exercise} · {clean(kind)}"
        diagnosis = current().explainer.diagnose(asked, outcome)
        if asked.behind and not diagnosis.listed:  # Of a student's tests only what somebody has named is a cause.
            diagnosis = Diagnosis()
        causes, read = causes_of(diagnosis, asked.exercise), section_of(diagnosis, asked, lines)
        tail, called = advice_of(causes, read, asked), _call_of(asked)
        if is_of_file:  # No text of an exercise is about a missing colon.
            tail = ["Fix this first. Once the file loads, all its exercises are tested again."]
        if asked.behind or is_of_file or (outcome.error and outcome.error.kind == "missing"):
            called = []
        if isinstance(diagnosis.listed, Suspect):  # The smallest input that shows the bug is for the student to find.
            lines, called = [task_of(asked.lesson, asked.exercise)], []
        failed = CheckFailed(
            report(head, lines, tail, called),
            asked.lesson,
            asked.exercise,
            kind,
            cause=diagnosis.listed.name if diagnosis.listed else None,
            call=asked,
            outcome=outcome,
            error=error,
            causes=tuple(cause for _, cause in causes),
            read=read,
            remedies=(*remedies_of(diagnosis),),
        )
        # Where the student's code raised, `--pdb` stops there.
        raise failed.with_traceback(outcome.exception.__traceback__ if outcome.exception and error else None)


@functools.cache
def _tuple_of(fields: tuple[str, ...]) -> Any:
    return collections.namedtuple("Answer", fields, rename=True)


def as_tensor(value: Any, dtype: torch.dtype | None = None) -> Any:
    """Numbers and lists of numbers as a tensor, floats as float64; a tensor stays as it is without `dtype`."""
    if isinstance(value, Tensor):
        return value.to(dtype or value.dtype)
    tensor = torch.tensor(value, dtype=dtype)
    return torch.tensor(value, dtype=torch.float64) if tensor.is_floating_point() and not dtype else tensor


def _call_of(asked: Call) -> list[str]:
    """How a report shows a call. A scenario is a function that no student knows: its arguments are what the exercise is
    called with, or among, and the first sentences of its docstring say what it does."""
    for limit in (MAX_SHOWN, 8):
        shown = ", ".join(f"{key}={show_argument(value, limit)}" for key, value in asked.arguments.items())
        text = f"called   {asked.exercise}, with {shown}" if asked.scenario else f"called   {asked.exercise}({shown})"
        if len(text) <= LONG_CALL:
            break
    text = text.replace(" (float32)", "") if current().of_the_formula else text
    told = (inspect.getdoc(scenario_of(asked)) or "").split("\n\n")[0] if asked.scenario else ""
    return [text, f"    ({' '.join(told.split())})"] if told else [text]
