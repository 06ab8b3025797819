"""What a student reads when an answer is wrong: one short text, without a framework traceback."""

import re
import textwrap
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..execution.messages import Call, Foreign, Outcome, Record, StudentError, fields_of

MAX_LINES = 12
LEAST = 3
"""Lines of what was expected and got that are shown however long the rest is."""
WIDTH = 110
MAX_SHOWN = 24
WHOLE = re.compile(r"(?<![\w.+-])-?\d+(?=[,\]]|$)")
"""A number without a point."""


class Report(NamedTuple):
    """The lines that a student reads."""

    failure: list[str]
    """The title, what was expected and got."""
    advice: list[str]
    """The cause, where to read."""
    call: list[str]

    def __str__(self) -> str:
        return "\n".join([*self.failure, *self.advice, *self.call])

    @property
    def without_advice(self) -> str:
        return "\n".join([*self.failure, *self.call])


@dataclass(eq=False)
class CheckFailed(AssertionError):
    """A check on an answer failed; its text is the whole report."""

    report: Report
    lesson: str
    exercise: str
    kind: str
    """Short name of the failure, such as "wrong value"."""
    cause: str | None = None
    """Name of the wrong answer that gives this answer."""
    share: float = 0.0
    """Of the test's points that are earned all the same."""
    call: Call | None = None
    """The call that it reports, where it reports one."""
    outcome: Outcome | None = None
    error: StudentError | None = None
    """What ended that call, where that is what it reports."""
    causes: tuple[str, ...] = ()
    """Those that the report names, a sentence each."""
    read: str = ""
    """The section of the lesson's text that it names."""
    remedies: tuple[str, ...] = ()
    """What to do about each of the causes, for a hint."""

    def __str__(self) -> str:
        return str(self.report)


def report(title: str, body: list[str], tail: list[str], called: list[str]) -> Report:
    """The title, what was expected and got, the whole tail (the cause, where to read), and as much of the call as fits
    into MAX_LINES."""
    lines, tail, call = ([line for text in texts for line in wrap(text)] for texts in (body, tail, called))
    lines = _cut(lines, max(LEAST, MAX_LINES - 1 - len(tail) - bool(call)))
    call = _cut(call, max(1, MAX_LINES - 1 - len(tail) - len(lines)))
    return Report([title, *lines], tail, call)


def _cut(lines: list[str], room: int) -> list[str]:
    if len(lines) <= room:
        return lines
    return [f"{lines[0][: WIDTH - 4]} ..."] if room == 1 else [*lines[: room - 1], "    ..."]


def wrap(text: str) -> list[str]:
    """Lines of at most WIDTH characters, the continuations indented."""
    lines = []
    for line in clean(text).splitlines() or [""]:
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=indent, drop_whitespace=True, break_on_hyphens=False) or [
            ""
        ]
    return lines


def clean(text: str) -> str:
    """The text with control characters replaced: text from students must not control a terminal."""
    return "".join(letter if letter in "\n" or letter.isprintable() else "?" for letter in text.expandtabs(4))


def show(value: Any, limit: int = MAX_SHOWN) -> str:
    """Plain data in short: numbers with six digits, large tensors by shape."""
    if isinstance(value, Tensor):
        if value.numel() > limit:
            return f"{_dtype(value.dtype)} tensor {tuple(value.shape)}"
        text = _numbers(value.detach().tolist())
        if value.numel() == 0:
            text = f"empty tensor {tuple(value.shape)}"
        return text if value.dtype in (torch.float64, torch.int64, torch.bool) else f"{text} ({_dtype(value.dtype)})"
    value, names = fields_of(value)
    if names:
        return "(" + ", ".join(f"{n}={show(v, limit)}" for n, v in zip(names, value, strict=True)) + ")"
    if isinstance(value, Foreign):
        return f"{value.type_name}: {value.text}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {show(part, limit)}" for key, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        left, right = "[]" if isinstance(value, list) else ("(", ",)" if len(value) == 1 else ")")
        if len(value) > limit and all(isinstance(part, float) for part in value):
            return f"{left}{', '.join(show(part) for part in value[:4])}, ... {len(value)} numbers{right}"
        if len(value) > limit:
            return f"{type(value).__name__} of {len(value)}"
        return left + ", ".join(show(part, limit) for part in value) + right
    if isinstance(value, float):
        return f"{value:.6g}"
    return repr(value)


def show_argument(value: Any, limit: int = MAX_SHOWN) -> str:
    """Like `show`, but floats keep their point: to torch, dones=[0., 1.] is not dones=[0, 1]."""
    text = show(value, limit)
    is_float = isinstance(value, float) or (isinstance(value, Tensor) and value.is_floating_point())
    return WHOLE.sub(r"\g<0>.", text) if is_float and "tensor" not in text else text


def show_pair(expected: float, got: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see that they differ, or two flags."""
    if isinstance(expected, bool):
        return str(expected), str(got)
    short = f"{expected:.6g}", f"{got:.6g}"
    return short if short[0] != short[1] else (repr(expected), repr(got))


def type_name(value: Any, sized: bool = True) -> str:
    """The type of a value in the words of a report."""
    if isinstance(value, Tensor):
        return "a tensor"
    if isinstance(value, (Record, tuple, list)):
        kind, parts = ("tuple", value.values) if isinstance(value, Record) else (type(value).__name__, value)
        return f"a {kind} of {len(parts)}" if sized else f"a {kind}"
    if value is None:
        return "None"
    name = value.type_name if isinstance(value, Foreign) else type(value).__name__
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"


def _numbers(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_numbers(part) for part in value) + "]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
