"""Who hears a call: what it prints, and where it stops.

A test's own call is an ordinary one: `print` goes where pytest puts it, and `breakpoint()`, or a breakpoint that an
editor has set, stops in it. All other calls (is this a stub? what is the cause?) are quiet: the student did not make
them.
"""

import bdb
import io
import pdb
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from typing import Any, TextIO

from .messages import MAX_PRINTED

_is_tests_own: ContextVar[bool] = ContextVar("is_tests_own", default=False)


@contextmanager
def a_tests_own_calls() -> Iterator[None]:
    """The calls of this block are a test's own."""
    token = _is_tests_own.set(True)
    try:
        yield
    finally:
        _is_tests_own.reset(token)


class Heard(io.RawIOBase):
    """What a call has printed: the beginning, and how much there was. A progress bar, which draws over its own line, is
    no print. With `shown` it is printed there instead, and whatever the call closes, that stays open."""

    name = "<stdout>"

    def __init__(self, shown: TextIO | None = None) -> None:
        self.kept, self.length, self.shown = bytearray(), 0, shown

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        data = bytes(data)
        if self.shown is not None:
            self.shown.write(data.decode("utf-8", "replace"))
        elif not data.startswith(b"\r"):
            self.kept += data[: max(0, MAX_PRINTED - self.length)]
            self.length += len(data)
        return len(data)

    def fileno(self) -> int:
        """Of the process's own stdout."""
        if sys.__stdout__ is None:
            raise io.UnsupportedOperation("fileno")
        return sys.__stdout__.fileno()

    def close(self) -> None:
        """Not when a wrapper around it goes: the rest of the call prints here as well."""

    @property
    def text(self) -> str:
        return self.kept.decode("utf-8", "replace")


@contextmanager
def listening() -> Iterator[Heard]:
    """A call runs in this block. What is printed in a test's own is not in `Heard`: pytest shows it."""
    heard, is_own = Heard(), _is_tests_own.get()
    # Two streams, because a file may detach or close one of them.
    into = (Heard(sys.stdout), Heard(sys.stderr)) if is_own else (heard, heard)
    out, err = (io.TextIOWrapper(one, "utf-8", "replace", write_through=True) for one in into)
    quiet = nullcontext() if is_own else _quiet()
    with redirect_stdout(out), redirect_stderr(err), quiet:
        yield heard


def is_tests_own() -> bool:
    return _is_tests_own.get()


def is_traced() -> bool:
    """Whether somebody steps through this thread: then nothing takes too long."""
    return isinstance(getattr(sys.gettrace(), "__self__", None), bdb.Bdb) or _is_in_editor()


def leaves_debugger(error: BaseException) -> bool:
    """Whether this is pytest's way to end the run when somebody leaves its debugger."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__") == "_pytest.debugging" for frame in frames)


def _is_in_editor() -> bool:
    """Whether an editor's debugger (debugpy) traces this thread."""
    pydevd = sys.modules.get("pydevd")
    debugger = pydevd and pydevd.get_global_debugger()
    return bool(debugger) and (sys.gettrace() is not None or bool(getattr(sys, "monitoring", None)))


def _pass(*args: Any, **options: Any) -> None:
    """In place of `breakpoint()`."""


@contextmanager
def _quiet() -> Iterator[None]:
    before = sys.breakpointhook, pdb.set_trace
    sys.breakpointhook = pdb.set_trace = _pass  # Each call does this: mock.patch takes ten times as long.
    try:
        with _untraced():
            yield
    finally:
        sys.breakpointhook, pdb.set_trace = before


@contextmanager
def _untraced() -> Iterator[None]:
    """Breakpoints that are set by file and line are for the test's own call."""
    if _is_in_editor():
        import debugpy

        debugpy.trace_this_thread(False)
        try:
            yield
        finally:
            debugpy.trace_this_thread(True)
        return
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)
