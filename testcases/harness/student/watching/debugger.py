"""The debugger in a student's own code."""

from __future__ import annotations

import bdb
import inspect
import os
import pdb
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, cast

from ...execution import Captured, Observer, Request, View, breakpoints_call, run

KEYS = "n next line   s step into   r to the return   p x print x   c continue   q leave"


def step_through(view: View, request: Request, kind: str, from_the_start: bool = False) -> bool:
    """Make a call again and stop in it: at each `breakpoint()`, and where it begins.

    Args:
        kind: of debugger, as pytest's `--pdbcls` has it.

    Returns:
        Whether the student left the debugger.
    """
    prompt = prompt_of(kind, view.folder)
    if from_the_start:
        prompt.break_at(view.resolve(request.lesson, request.exercise))
    run(view, request, observer=prompt)
    return prompt.left


def look_at_error(view: View, request: Request, kind: str) -> bool | None:
    """Make a call that raises again, and stop in the student's line that raised.

    Returns:
        Whether the student left the debugger; None if no line of theirs has run.
    """
    raised: list[BaseException] = []
    observer, prompt = Captured(), prompt_of(kind, view.folder)
    observer.saw = raised.append  # type: ignore[method-assign, assignment]
    run(view, request, observer=observer)
    return prompt.left if raised and prompt.look_at(raised[0]) else None


def prompt_of(kind: str, folder: Path) -> Prompt:
    """The prompt below, with the commands of another kind of pdb, such as IPython's."""
    return cast(Prompt, type("Prompt", (Prompt, pkgutil.resolve_name(kind)), {})(folder))


class Prompt(pdb.Pdb, Observer):
    """pdb, in a student's own files and what they call: the course's frames are neither shown nor stopped in.

    Args:
        folder: of the student's files.
    """

    limited = False

    def __init__(self, folder: Path) -> None:
        super().__init__()
        Observer.__init__(self)
        self.folder = str(folder) + os.sep
        self.left = False
        self._start = ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        try:
            with breakpoints_call(lambda *args, **options: self.set_trace(sys._getframe(1))):
                yield
        finally:
            sys.settrace(None)
            self.left = self.left or self.quitting
            self.clear_all_breaks()

    def break_at(self, function: Any) -> None:
        """Stop at the first line of a function, once."""
        code = getattr(inspect.unwrap(function), "__code__", None)
        if code is None or not self._is_own(code.co_filename):
            return
        lines = sorted({line for _, _, line in code.co_lines() if line})
        self.reset()
        self.botframe = sys._getframe()
        self.set_break(code.co_filename, next((line for line in lines if line > lines[0]), lines[0]), temporary=True)
        self._start = str(len(bdb.Breakpoint.bpbynumber) - 1)
        self.set_continue()
        sys.settrace(self.trace_dispatch)

    def look_at(self, error: BaseException) -> bool:
        """Open in the student's innermost frame of an exception; False where it has none."""
        frames = [frame for frame, _ in self.get_stack(None, error.__traceback__)[0]]
        if not any(self._is_own(frame.f_code.co_filename) for frame in frames):
            return False
        self.reset()
        self.interaction(None, error.__traceback__)
        self.left = self.left or self.quitting
        return True

    def get_stack(self, frame: FrameType | None, traceback: TracebackType | None) -> tuple[list[Any], int]:
        """The frames from the student's outermost one on; after an exception the current one is their innermost."""
        stack, index = super().get_stack(frame, traceback)
        own = [place for place, (one, _) in enumerate(stack) if self._is_own(one.f_code.co_filename)]
        if not own:
            return stack, index
        return stack[own[0] :], (own[-1] if traceback else index) - own[0]

    def do_clear(self, arg: str) -> None:
        """Clear the breakpoint that `break_at` has set without a message: the student did not set it."""
        if arg == self._start:
            self.clear_bpbynumber(int(arg))
        else:
            super().do_clear(arg)

    def stop_here(self, frame: FrameType) -> bool:
        return bool(super().stop_here(frame)) and self._is_inside(frame)

    def _is_inside(self, frame: FrameType | None) -> bool:
        while frame is not None and not self._is_own(frame.f_code.co_filename):
            frame = frame.f_back
        return frame is not None

    def _is_own(self, file: str) -> bool:
        return file.startswith(self.folder)
