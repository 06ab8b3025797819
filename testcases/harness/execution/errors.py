"""How a call ends otherwise than by an answer, and the student's own lines in it; the text of a file that somebody else
has written, as Python reads it."""

from __future__ import annotations

import codecs
import io
import re
import tokenize
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


def text_of(data: bytes) -> str:
    """The text; what is no text in the file's own encoding is `\\ufffd`."""
    try:
        return data.decode(encoding_of(data), "replace")
    except Exception:  # A codec may refuse in any way; Python does not load such a file either.
        return data.decode("utf-8", "replace")


def encoding_of(data: bytes) -> str:
    """From the mark at its beginning, or from a comment in its first two lines."""
    if data.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    # Where Python loads a file it looks at no other letters of these lines than ASCII, and each \r ends a line.
    lines = re.split(rb"\r\n|\r|\n", data, maxsplit=2)[:2]
    head = re.sub(rb"[\x80-\xff]", b"?", b"\n".join(lines))
    try:
        return tokenize.detect_encoding(io.BytesIO(head).readline)[0]
    except SyntaxError:
        return "utf-8"
