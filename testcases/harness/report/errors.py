"""What a student reads where a call ended otherwise than by an answer, and what a test meets there: an exception, or
one that says that it has neither passed nor failed."""

import builtins
import inspect
from collections.abc import Mapping
from dataclasses import dataclass

from ..catalog import read_lesson
from ..execution.messages import Call, Outcome, StudentError


def title_of(error: StudentError, asked: Call) -> str:
    if error.is_of_file and error.kind != "missing":
        return f"{read_lesson(asked.lesson).file_of(asked.exercise)} does not load"
    kinds = {
        "missing": "missing",
        "signature": "wrong signature",
        "timeout": "took too long",
        "too large": "returned too much",
        "backward": f"raised {error.type_name} in the backward pass",
    }
    return kinds.get(error.kind, f"raised {error.type_name}")


def lines_of(error: StudentError, asked: Call, parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    """
    Args:
        parameters: of the reference.
    """
    if error.kind == "missing":
        return [error.message]
    if error.kind == "timeout":
        place = f" at {error.frames[-1].file}:{error.frames[-1].line}" if error.frames else ""
        return [f"{error.message}{place}: does a loop never end, or take far more steps than there are tokens?"]
    if error.kind == "signature":
        bare = inspect.Signature([one.replace(annotation=one.empty) for one in parameters.values()])
        return [f"expected {asked.exercise}{bare}", *_raised(error)]
    return _raised(error)


def _raised(error: StudentError) -> list[str]:
    """The student's own lines of an exception, then its name and message."""
    lines = []
    for frame in error.frames[-4:]:
        lines.append(f"{frame.file}:{frame.line}" + (f", in {frame.function}" if frame.function else ""))
        if frame.text:
            lines.append(f"    {frame.text}")
    message = error.message.splitlines()
    lines.append(f"{error.type_name}: {_shortened(message[0]) if message else ''}".rstrip(": "))
    lines += [line[:300] for line in message[1:4]]
    return lines


def _shortened(text: str) -> str:
    """Beginning and end of a long line: which of many sizes is wrong often stands last."""
    return text if len(text) <= 400 else f"{text[:240]} ... {text[-150:]}"


def exception_of(outcome: Outcome) -> Exception | None:
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


@dataclass(eq=False)
class Open(Exception):
    """A test has neither passed nor failed."""

    lesson: str
    exercise: str
    why: str = "is not started"

    def __str__(self) -> str:
        return f"{self.lesson}: {self.exercise} {self.why}"


class NotStarted(Open):
    """The exercise is still a stub."""

    status = "not started"


class Waiting(Open):
    """The test counts once another exercise is written."""

    status = "waiting"


class Kept(Open):
    """The exercise is right with the solution's version of others of its lesson, so the mistake is paid there."""

    status = "kept"
