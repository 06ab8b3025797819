"""What a student sees of a call: its prints, and the debugger.

A test calls an exercise many times: to see whether it is started, for the answer, and to find the cause of a wrong one.
All of these calls go unseen: prints are kept for the report, and `breakpoint()` is passed over and noted. At the end
the one call that a failure reports is made again under `debugger.Prompt`.
"""

import io
import pdb
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from typing import Any, TextIO

from .messages import MAX_PRINTED


class Observer:
    """Observes one call."""

    limited = True
    """Whether the call has a time limit."""
    at_breakpoint = False
    """Whether it came to a `breakpoint()`."""

    def __init__(self) -> None:
        self.printed = Printed()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The call runs in this block."""
        yield

    def saw(self, error: BaseException) -> None:
        """Called with the exception that the call raised; keeping it keeps everything that its frames refer to."""


class Captured(Observer):
    """Prints are kept, or shown as well where a test's own call is made under `pytest -s`."""

    def __init__(self) -> None:
        asked = _asked.get()
        self.printed = Printed(sys.stdout if asked == "echo" else None)
        self._by_test = asked is not None

    @contextmanager
    def watching(self) -> Iterator[None]:
        live = under_editor() and self._by_test
        hidden = _hidden_from_editor() if under_editor() and not live else nullcontext()
        hook = nullcontext() if live else breakpoints_call(self._pass)
        errors = Printed(self.printed)  # of its own, because a file may detach one of the two
        with redirect_stdout(self.printed), redirect_stderr(errors), hook, hidden:
            yield

    def _pass(self, *args: Any, **options: Any) -> None:
        self.at_breakpoint = True


class Printed(io.TextIOWrapper):
    """Keeps the beginning of what is printed, and counts the rest. A progress bar, which draws over its own line, is
    no print.

    In all else it is like the stdout for which it stands, because files do with that what they like when they load:
    `sys.stdout.reconfigure(encoding="utf-8")`, or a wrapper of their own around `sys.stdout.buffer`.
    """

    def __init__(self, echo: TextIO | None = None) -> None:
        super().__init__(_Bytes(self), encoding="utf-8", errors="replace", write_through=True)
        self.length = 0
        self._kept: list[str] = []
        self._echo = echo

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._echo:
            self._echo.write(text)
        if text.startswith("\r"):
            return len(text)
        if self.length < MAX_PRINTED:
            self._kept.append(text[: MAX_PRINTED - self.length])
        self.length += len(text)
        return len(text)

    def getvalue(self) -> str:
        return "".join(self._kept)


class _Bytes(io.BufferedIOBase):
    """`sys.stdout.buffer`: its bytes are printed, too."""

    name = "<stdout>"

    def __init__(self, printed: Printed) -> None:
        # Without a circle, which would live until the garbage collector comes by: there is one for each call.
        self._printed = weakref.ref(printed)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        text, printed = bytes(data).decode("utf-8", "replace"), self._printed()
        if printed is not None:
            printed.write(text)
        return len(bytes(data))

    def fileno(self) -> int:
        """Of the process's own stdout."""
        if sys.__stdout__ is None:
            raise io.UnsupportedOperation("fileno")
        return sys.__stdout__.fileno()

    def close(self) -> None:
        """Not when a wrapper around it goes: the next call prints here as well."""


_asked: ContextVar[str | None] = ContextVar("asked", default=None)


@contextmanager
def asked_by_a_test(echo: bool) -> Iterator[None]:
    """The calls of this block are a test's own, not those of the search for a cause."""
    token = _asked.set("echo" if echo else "quiet")
    try:
        yield
    finally:
        _asked.reset(token)


@contextmanager
def breakpoints_call(stop: Any) -> Iterator[None]:
    """In this block `breakpoint()` and `pdb.set_trace()` call `stop`."""
    before = sys.breakpointhook, pdb.set_trace
    sys.breakpointhook = pdb.set_trace = stop  # Each request does this: mock.patch takes ten times as long.
    try:
        yield
    finally:
        sys.breakpointhook, pdb.set_trace = before


def under_editor() -> bool:
    """Whether an editor's debugger (debugpy) traces this thread."""
    pydevd = sys.modules.get("pydevd")
    debugger = pydevd and pydevd.get_global_debugger()
    return bool(debugger) and (sys.gettrace() is not None or bool(getattr(sys, "monitoring", None)))


def is_traced() -> bool:
    """Whether somebody steps through this thread: then nothing takes too long."""
    bdb, tracer = sys.modules.get("bdb"), getattr(sys.gettrace(), "__self__", None)
    return (bdb is not None and isinstance(tracer, bdb.Bdb)) or under_editor()


@contextmanager
def _hidden_from_editor() -> Iterator[None]:
    """The search for a cause calls the exercise as well: breakpoints are for the test's call."""
    import debugpy

    debugpy.trace_this_thread(False)
    try:
        yield
    finally:
        debugpy.trace_this_thread(True)
