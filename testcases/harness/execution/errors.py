"""How a call ends otherwise than by an answer, and the student's own lines in it."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from .messages import MAX_TEXT, Frame, StudentError

if TYPE_CHECKING:
    from .executor import ModuleSet

TOP = "tutorial"
"""The package in which a student's lessons stand."""


class Missing(AttributeError):
    """A name of the contract is not in the student's files."""


class TookTooLong(BaseException):
    """Raised inside student code when its time is over; not an Exception, so that `except Exception` lets it pass."""


def describe(error: BaseException, phase: str, modules: ModuleSet) -> StudentError:
    """Name, message and the student's own lines of an exception."""
    frames = frames_of(traceback.extract_tb(error.__traceback__), modules)
    name, message = type(error).__name__, _message_of(error)
    if isinstance(error, SyntaxError) and "null bytes" in message:
        message = "the file holds null bytes, as UTF-16 does: save it as UTF-8"
    if isinstance(error, TookTooLong):
        phase = "timeout"
    elif isinstance(error, Missing):
        phase = "missing"
    elif isinstance(error, OverflowError) and phase == "answer":
        phase = "too large"
    elif isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(modules.folder):
        file = f"{modules.folder.name}/{Path(error.filename).relative_to(modules.folder)}"
        frames, message = [Frame(file, error.lineno or 0, "", (error.text or "").rstrip()[:160])], error.msg
    elif isinstance(error, TypeError) and phase == "raised" and not frames:
        phase = "signature"
    return StudentError(phase, name, message[:MAX_TEXT], tuple(frames[-6:]))


def frames_of(stack: traceback.StackSummary, modules: ModuleSet) -> list[Frame]:
    """The student's own lines."""
    frames = []
    for frame in stack:
        path = Path(frame.filename)
        if path.is_relative_to(modules.folder):
            name, number = path.relative_to(modules.folder).as_posix(), frame.lineno or 0
            # Of what was loaded: a change of the reference has its text from elsewhere.
            text = "".join(modules.text(name).splitlines()[max(0, number - 1) : number]).strip()[:160]
            frames.append(Frame(f"{modules.folder.name}/{name}", number, frame.name, text))
    return frames


def _message_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as second:
        return f"<its message raised {type(second).__name__}>"
