"""How a call ends otherwise than by an answer, and the student's own lines in it."""

import traceback
from pathlib import Path

from .messages import MAX_TEXT, Frame, StudentError

TOP = "tutorial"
"""The package in which a student's lessons stand."""


class Missing(AttributeError):
    """A name of the contract is not in the student's files."""


class TookTooLong(BaseException):
    """Raised inside student code when its time is over; not an Exception, so that `except Exception` lets it pass."""


def describe(error: BaseException, phase: str, folder: Path) -> StudentError:
    """Name, message and the student's own lines of an exception."""
    frames = frames_of(traceback.extract_tb(error.__traceback__), folder)
    try:
        message = str(error)
    except Exception as second:
        message = f"<its message raised {type(second).__name__}>"
    if isinstance(error, SyntaxError) and "null bytes" in message:
        message = "the file holds null bytes, as UTF-16 does: save it as UTF-8"
    if isinstance(error, TookTooLong):
        phase = "timeout"
    elif isinstance(error, Missing):
        phase = "missing"
    elif isinstance(error, OverflowError) and phase == "answer":
        phase = "too large"
    elif isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(folder):
        file = f"{folder.name}/{Path(error.filename).relative_to(folder)}"
        frames, message = [Frame(file, error.lineno or 0, "", (error.text or "").rstrip()[:160])], error.msg
    elif isinstance(error, TypeError) and phase == "raised" and not frames:
        phase = "signature"
    return StudentError(phase, type(error).__name__, message[:MAX_TEXT], tuple(frames[-6:]))


def frames_of(stack: traceback.StackSummary, folder: Path) -> list[Frame]:
    """The student's own lines of a stack: those of a file below the folder."""
    frames = []
    for frame in stack:
        if (path := Path(frame.filename)).is_relative_to(folder):
            file = f"{folder.name}/{path.relative_to(folder).as_posix()}"
            frames.append(Frame(file, frame.lineno or 0, frame.name, (frame.line or "").strip()[:160]))
    return frames
