"""One call of an exercise: with a time limit, watched, and described if it ends otherwise than by an answer.

A test's own call is an ordinary one: `print` goes where pytest puts it, and `breakpoint()`, or a breakpoint that an
editor has set, stops in it. All other calls (is this a stub? what is the cause?) are quiet: the student did not make
them.
"""

from __future__ import annotations

import bdb
import importlib
import os
import pdb
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .errors import TookTooLong, describe, frames_of
from .messages import Call, Outcome, copy_plain, fields_of, identical, tensors_in, to_plain

if TYPE_CHECKING:
    from .executor import ModuleSet

PATIENCE = 10
"""What waits for a core, because of a neighbor or of its own processes, is ended after so many times its seconds."""
MAX_INTERRUPTS = 5


@dataclass(frozen=True)
class Terms:
    """How a call is made."""

    handed: Callable[[Tensor], Tensor] = Tensor.clone
    """What the call gets of each tensor: a copy, or (the grader) the tensor itself, in memory that others see too."""
    load_seconds: float = 15.0
    """For what the file of an exercise imports, beside those of the call."""
    line: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """How a scenario asks about what is behind a call: another process (the grader), or else this one."""
    unstoppable: Callable[[Call, str], None] | None = None
    """Told, with the line, that student code has swallowed MAX_INTERRUPTS interrupts: pytest's run ends the process
    there. The grader does not need it: it has a limit of its own, and ends the worker from outside."""


def one_call(modules: ModuleSet, call: Call, terms: Terms, loads_only: bool = False) -> Outcome:
    """Call one exercise, or only load its file. Nothing that student code does to its arguments, its output or global
    settings lasts."""
    given = copy_plain(call.shown, terms.handed)
    leaves = {name: given[name].clone().requires_grad_() for name in call.grad_of}
    arguments = {**given, **{name: _copy_in(given[name], leaf) for name, leaf in leaves.items()}}
    # The reference changes none of its arguments: what it does to them is watched in a scenario only.
    seen = arguments if modules.own or call.scenario else {}
    before = copy_plain(seen, lambda tensor: tensor.detach().clone())
    # What the course itself loads, here before the call, does not count as a student's time.
    scenario = scenario_of(call) if call.scenario else None
    line = [terms.line or behind_of(call).answer] if call.behind else []
    state, answered = GlobalState(), Outcome()
    phase = "load"  # The same exception means another thing in each.
    with quiet():
        try:
            # A student's warnings are not printed; those of the reference are errors.
            with modules.in_place(), warnings.catch_warnings(action="ignore" if modules.own else "error"):
                # What a file imports is slow at its first call only.
                with _deadline(modules, call, call.seconds + terms.load_seconds, terms):
                    function = modules.resolve(call.lesson, call.exercise)
                if not loads_only:
                    with _deadline(modules, call, call.seconds, terms):
                        phase = "raised"
                        if scenario:
                            answer = scenario(modules.lesson(call.lesson), *line, **arguments)
                        else:
                            positional = [*arguments.values()][: call.positional]
                            named = {name: arguments[name] for name in [*arguments][call.positional :]}
                            answer = function(*positional, **named)
                        phase = "backward"
                        gradients = _gradients(answer, leaves, call) if leaves else {}
                        phase = "answer"
                        value, tracked = to_plain(answer)
                    answered = Outcome(value, gradients, tracked)
        except BaseException as error:
            kind = type(error).__module__, type(error).__name__
            if isinstance(error, KeyboardInterrupt) or kind == ("_pytest.outcomes", "Exit"):  # Somebody quits pdb.
                raise
            kept = error if is_heard.get() else None  # It keeps all that its frames refer to.
            answered = Outcome(error=describe(error, phase, modules.folder), exception=kept)
    left_behind, used_random = state.restore()
    changed = tuple(name for name in seen if not identical(before[name], arguments[name]))
    return replace(answered, changed=changed, left_behind=left_behind, used_global_random=used_random)


def _copy_in(place: Tensor, leaf: Tensor) -> Tensor:
    """A copy of a leaf, with its gradient, that has its numbers in the memory of another tensor.

    The call gets it, so that an in-place change is seen as such and not as an autograd error.
    """
    copy = leaf.clone()
    copy.data = place
    return copy


def scenario_of(call: Call) -> Callable[..., Any]:
    """The function that a call with a scenario calls."""
    module, _, name = (call.scenario or "").rpartition(".")
    home = f"testcases.harness.doubles.{module}" if module else f"testcases.{call.lesson}.scenarios"
    return getattr(importlib.import_module(home), name)


def behind_of(call: Call) -> Any:
    """What answers a scenario's questions about the arguments that it does not get."""
    return importlib.import_module(f"testcases.{call.lesson}.scenarios_behind").Behind(**call.arguments)


def part_of(answer: Any, name: str) -> Any:
    """One part of an answer, by field, key or position."""
    if isinstance(answer, dict):
        return answer[name]
    values, fields = fields_of(answer)
    return values[fields.index(name) if name in fields else int(name)]


def _gradients(answer: Any, leaves: dict[str, Tensor], call: Call) -> dict[str, Tensor | None]:
    try:
        summed = answer if call.grad_through is None else part_of(answer, call.grad_through)
        parts = [part for part in tensors_in(summed) if part.requires_grad]
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        return dict.fromkeys(leaves)  # The answer has another structure, which the checks will say.
    weights = call.grad_weights
    if not parts or (weights is not None and weights.shape != parts[0].shape):
        return dict.fromkeys(leaves)
    total = torch.stack([(part if weights is None else part * weights).sum() for part in parts]).sum()
    found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return {name: None if slope is None else slope.clone() for name, slope in zip(leaves, found, strict=True)}


@contextmanager
def _deadline(modules: ModuleSet, call: Call, seconds: float, terms: Terms) -> Iterator[None]:
    """Interrupt Python code after so many seconds of work, and again until it gives up. What a busy machine makes a
    process wait counts only after PATIENCE times as long; the reference always ends, so it is not timed."""
    is_main = threading.current_thread() is threading.main_thread()
    if not modules.own or not hasattr(signal, "setitimer") or not is_main:
        yield
        return

    armed, worked, started, interrupts = True, time.process_time(), time.monotonic(), 0

    def stop(signum: int, frame: Any) -> None:
        nonlocal worked, started, interrupts
        # While somebody steps through it nothing takes too long. Coverage traces as well, and steps nowhere.
        if isinstance(getattr(sys.gettrace(), "__self__", None), bdb.Bdb) or "pydevd" in sys.modules:
            worked, started = time.process_time(), time.monotonic()
        is_over = time.process_time() - worked >= seconds or time.monotonic() - started >= PATIENCE * seconds
        if armed and is_over:
            interrupts += 1
            if interrupts > MAX_INTERRUPTS and terms.unstoppable:
                own = [f"{one.file}:{one.line}" for one in frames_of(traceback.extract_stack(frame), modules.folder)]
                terms.unstoppable(call, own[-1] if own else "a line of another file")
            raise TookTooLong(f"stopped after {seconds:g} seconds")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


# What a call does beside its answer


NOBODY = os.open(os.devnull, os.O_WRONLY)
"""Hears what is printed by a call that no test has made."""
is_heard: ContextVar[bool] = ContextVar("is_heard", default=False)
"""Whether the calls are a test's own."""


@contextmanager
def quiet() -> Iterator[None]:
    """A call runs in this block. If it is not a test's own, nobody hears of it: no `breakpoint()` stops, and none that
    is set by file and line."""
    if is_heard.get():
        with redirect_stdout(sys.stdout), redirect_stderr(sys.stderr):  # the call may put others in their place
            yield
        return
    trace, hooks = sys.gettrace(), (sys.breakpointhook, pdb.set_trace)
    # Each call does this: mock.patch takes ten times as long.
    sys.breakpointhook = pdb.set_trace = lambda *args, **options: None
    sys.settrace(None)
    # Two streams, because a file may detach or close one of them.
    out, err = (open(NOBODY, "w", encoding="utf-8", errors="replace", closefd=False) for _ in range(2))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            yield
    finally:
        sys.breakpointhook, pdb.set_trace = hooks
        sys.settrace(trace)


UNSEEN = 2**61 - 1
"""Each call finds torch's global generator at this seed, which nobody chooses: whether it is seeded can be seen."""
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch.is_grad_enabled()": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch.get_default_dtype()": (torch.get_default_dtype, torch.set_default_dtype),
    "torch.get_default_device()": (torch.get_default_device, torch.set_default_device),
    "torch.get_num_threads()": (torch.get_num_threads, torch.set_num_threads),
}


class GlobalState:
    """What a call must not change for those that come after it."""

    def __init__(self) -> None:
        self.settings = {name: read() for name, (read, _) in SETTINGS.items()}
        self.torch_state = torch.get_rng_state()
        torch.default_generator.manual_seed(UNSEEN)
        self.seeded_state = torch.get_rng_state()
        self.python_state = random.getstate()

    def restore(self) -> tuple[tuple[str, ...], bool]:
        """Put all back; what had been changed, in words, and whether a global generator was used."""
        changed = []
        for name, (read, write) in SETTINGS.items():
            if (now := read()) != self.settings[name]:
                changed.append(f"{name} is {now}, was {self.settings[name]}")
                write(self.settings[name])
        if torch.initial_seed() != UNSEEN:
            changed.append("torch's global generator was seeded")
        states = torch.equal(torch.get_rng_state(), self.seeded_state), random.getstate() == self.python_state
        torch.set_rng_state(self.torch_state)
        random.setstate(self.python_state)
        return tuple(changed), not all(states)
