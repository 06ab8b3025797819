"""What a call does beside its answer: what it prints, where it stops, and what it leaves behind in global settings.

A test's own call is an ordinary one: `print` goes where pytest puts it, and `breakpoint()`, or a breakpoint that an
editor has set, stops in it. All other calls (is this a stub? what is the cause?) are quiet: the student did not make
them.
"""

import bdb
import functools
import os
import pdb
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from typing import Any

import torch

NOBODY = os.open(os.devnull, os.O_WRONLY)
"""Hears what is printed by a call that no test has made."""
_is_tests_own: ContextVar[bool] = ContextVar("is_tests_own", default=False)


@contextmanager
def a_tests_own_calls() -> Iterator[None]:
    """The calls of this block are a test's own."""
    token = _is_tests_own.set(True)
    try:
        yield
    finally:
        _is_tests_own.reset(token)


def is_tests_own() -> bool:
    return _is_tests_own.get()


@contextmanager
def quiet() -> Iterator[None]:
    """A call runs in this block. If it is not a test's own, nobody hears of it: no `breakpoint()` stops, and none that
    is set by file and line."""
    if is_tests_own():
        with redirect_stdout(sys.stdout), redirect_stderr(sys.stderr):  # the call may put others in their place
            yield
        return
    editor, trace, hooks = _editor(), sys.gettrace(), (sys.breakpointhook, pdb.set_trace)
    # Each call does this: mock.patch takes ten times as long.
    sys.breakpointhook = pdb.set_trace = lambda *args, **options: None
    editor.trace_this_thread(False) if editor else sys.settrace(None)
    # Two streams, because a file may detach or close one of them.
    out, err = (open(NOBODY, "w", encoding="utf-8", errors="replace", closefd=False) for _ in range(2))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield
    finally:
        sys.breakpointhook, pdb.set_trace = hooks
        editor.trace_this_thread(True) if editor else sys.settrace(trace)


def _editor() -> Any:
    """debugpy, where an editor's debugger traces this thread."""
    pydevd = sys.modules.get("pydevd")
    is_on = pydevd and pydevd.get_global_debugger() and (sys.gettrace() is not None or hasattr(sys, "monitoring"))
    return sys.modules.get("debugpy") if is_on else None


def is_traced() -> bool:
    """Whether somebody steps through this thread: then nothing takes too long."""
    return isinstance(getattr(sys.gettrace(), "__self__", None), bdb.Bdb) or _editor() is not None


def leaves_debugger(error: BaseException) -> bool:
    """Whether this is pytest's way to end the run when somebody leaves its debugger."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__") == "_pytest.debugging" for frame in frames)


UNSEEN = 2**61 - 1
"""Each call finds torch's global generator at this seed, which nobody chooses: whether it is seeded can be seen."""
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch.is_grad_enabled()": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch.get_default_dtype()": (torch.get_default_dtype, torch.set_default_dtype),
    "torch.get_default_device()": (torch.get_default_device, torch.set_default_device),
    "torch.get_num_threads()": (torch.get_num_threads, torch.set_num_threads),
    "torch.is_autocast_enabled()": (
        functools.partial(torch.is_autocast_enabled, "cpu"),
        functools.partial(torch.set_autocast_enabled, "cpu"),
    ),
    "torch.is_anomaly_enabled()": (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
}


class GlobalState:
    """What a call must not change for those that come after it."""

    def __init__(self) -> None:
        self.settings = {name: read() for name, (read, _) in SETTINGS.items()}
        self.torch_state = torch.get_rng_state()
        torch.default_generator.manual_seed(UNSEEN)
        self.seeded_state = torch.get_rng_state()
        self.python_state = random.getstate()
        self.used_random = False

    def restore(self) -> tuple[str, ...]:
        """Put all back; what had been changed, in words."""
        changed = []
        for name, (read, write) in SETTINGS.items():
            if (now := read()) != self.settings[name]:
                changed.append(f"{name} is {now}, was {self.settings[name]}")
                write(self.settings[name])
        if torch.initial_seed() != UNSEEN:
            changed.append("torch's global generator was seeded")
        self.used_random |= not torch.equal(torch.get_rng_state(), self.seeded_state)
        torch.set_rng_state(self.torch_state)
        if random.getstate() != self.python_state:
            self.used_random = True
            random.setstate(self.python_state)
        return tuple(changed)
