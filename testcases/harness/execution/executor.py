"""Running student code: an Executor answers a plain Call with a plain Outcome."""

from __future__ import annotations

import bdb
import functools
import importlib
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from ..catalog import SOLUTIONS, read_lesson
from .messages import (
    MAX_TEXT,
    Call,
    Frame,
    Outcome,
    StudentError,
    copy_plain,
    fields_of,
    identical,
    tensors_in,
    to_plain,
)
from .modules import TOP, Missing, ModuleSet
from .watching import GlobalState, is_tests_own, is_traced, leaves_debugger, quiet

PATIENCE = 10
"""What waits for a core, because of a neighbor or of its own processes, is ended after so many times its seconds."""
MAX_INTERRUPTS = 10


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


class Executor(Protocol):
    """Whatever runs a Call: in this process, or (the grader) in a sandboxed worker."""

    def run(self, call: Call) -> Outcome: ...

    def text(self, lesson: str, file: str) -> str:
        """A file of the subject's as it was handed in, read without running it; "" where there is none."""
        ...

    def with_texts(self, texts: Mapping[str, str]) -> Executor:
        """The same files, loaded again, with other texts for some: path, such as "lesson04_gae/gae.py" -> text."""
        ...

    def finish(self) -> None:
        """End what it keeps running; the next question starts it again."""


class InProcess:
    """Runs calls in this process.

    Args:
        modules_of: gives the modules for a lesson; it is asked once a lesson.
        terms: of each call.
    """

    def __init__(self, modules_of: Callable[[str], ModuleSet], terms: Terms | None = None) -> None:
        self._modules_of, self._terms = modules_of, terms or Terms()
        self._sets: dict[str, ModuleSet] = {}
        self._placed: dict[tuple[str, str], Callable[..., Any]] = {}
        self._called: set[str] = set()

    def run(self, call: Call) -> Outcome:
        modules = self.modules(call.lesson)
        self._called.clear()
        outcome = one_call(modules, call, self._terms)
        return replace(outcome, lent=tuple(sorted(self._called))) if self._called else outcome

    def loads(self, lesson: str, exercise: str, seconds: float) -> bool:
        """Load the file of an exercise; False if that takes too long. What else is wrong with it, each call says."""
        outcome = one_call(self.modules(lesson), Call(lesson, exercise, {}, seconds=seconds), self._terms, True)
        return outcome.error is None or outcome.error.kind != "timeout"

    def put(self, lesson: str, exercise: str, function: Callable[..., Any]) -> None:
        """Put a function in an exercise's place, for all others of the same files."""
        self._placed[lesson, exercise] = function
        for modules in self._sets.values():
            if lesson in modules.own:
                modules.put(lesson, exercise, function)

    def put_aside(self, lesson: str, exercise: str) -> None:
        """Let an exercise that never ends be like its stub to the others that call it: they shall not wait as well."""

        def waits(*args: Any, **options: Any) -> None:
            raise NotImplementedError(f"{read_lesson(lesson).short}: {exercise}")

        self.put(lesson, exercise, waits)

    def lend(self, lesson: str, exercise: str) -> None:
        """Let the solution answer for a stub from now on; `Outcome.lent` tells which calls made use of it."""
        solution = solutions().function(lesson, exercise)

        @functools.wraps(solution)
        def lent(*args: Any, **options: Any) -> Any:
            self._called.add(exercise)
            return solution(*args, **options)

        self.put(lesson, exercise, lent)

    def text(self, lesson: str, file: str) -> str:
        return self.modules(lesson).text(f"{lesson}/{file}")

    def with_texts(self, texts: Mapping[str, str]) -> InProcess:
        def modules_of(lesson: str) -> ModuleSet:
            modules = self._modules_of(lesson)
            return ModuleSet(modules.folder, modules.own, texts)

        return InProcess(modules_of, self._terms)

    def finish(self) -> None:
        """Nothing is kept running."""

    def afresh(self) -> InProcess:
        """The same files, loaded again."""
        other = InProcess(self._modules_of, self._terms)
        other._placed = dict(self._placed)
        return other

    def with_reference(self, lesson: str, exercise: str) -> InProcess:
        """The same files, loaded again, where one exercise is the reference's."""
        other = self.afresh()
        other.put(lesson, exercise, solutions().function(lesson, exercise))
        return other

    def function(self, lesson: str, exercise: str) -> Any:
        """The function itself; for the reference only, since loading a student's file may do anything."""
        return self.modules(lesson).resolve(lesson, exercise)

    def modules(self, lesson: str) -> ModuleSet:
        if lesson not in self._sets:
            self._sets[lesson] = modules = self._modules_of(lesson)
            for (name, exercise), function in self._placed.items():
                if name in modules.own:
                    modules.put(name, exercise, function)
        return self._sets[lesson]


def student(folder: Path, terms: Terms | None = None) -> InProcess:
    """A student's folder: each lesson on the reference versions of the others."""
    folder = folder.resolve()
    return InProcess(lambda lesson: ModuleSet(folder, [lesson]), terms)


def solutions() -> InProcess:
    """The reference."""
    modules = ModuleSet(SOLUTIONS)
    return InProcess(lambda lesson: modules)


def solutions_with(lesson: str, dotted: str, function: Callable[..., Any]) -> InProcess:
    """The reference, with one function replaced wherever its lesson uses it."""
    changed = InProcess(lambda name: ModuleSet(SOLUTIONS, [lesson]))
    changed.put(lesson, dotted, function)
    return changed


def solutions_changed(lesson: str, texts: Mapping[str, str]) -> InProcess:
    """The reference, with other texts for some files (path below `solutions/` -> text) of one lesson."""
    return InProcess(lambda name: ModuleSet(SOLUTIONS, [lesson], texts))


class TookTooLong(BaseException):
    """Raised inside student code when its time is over; not an Exception, so that `except Exception` lets it pass."""


class Unanswered(AssertionError):
    """A test's own call came to a `breakpoint()`, and nobody sits at the debugger."""

    title = "stopped at a breakpoint"


def one_call(modules: ModuleSet, call: Call, terms: Terms, loads_only: bool = False) -> Outcome:
    """Call one exercise, or only load its file. Nothing that student code does to its arguments, its output or global
    settings lasts."""
    given = copy_plain(call.shown, terms.handed)
    leaves = {name: given[name].clone().requires_grad_() for name in call.grad_of}
    arguments = {**given, **{name: _copy_in(given[name], leaf) for name, leaf in leaves.items()}}
    # The reference changes none of its arguments: what it does to them is watched in a scenario only.
    seen = arguments if modules.own or call.scenario else {}
    before = copy_plain(seen, lambda tensor: tensor.detach().clone())
    state, attempt = GlobalState(), _Attempt(modules, call, terms)
    with quiet():
        try:
            # A student's warnings are not printed; those of the reference are errors.
            with modules.in_place(), warnings.catch_warnings(action="ignore" if modules.own else "error"):
                function = attempt.load()
                answered = Outcome() if loads_only else attempt.answer(function, arguments, leaves)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if leaves_debugger(error):
                raise
            if isinstance(error, bdb.BdbQuit):
                raise Unanswered("breakpoint() found nobody to ask: run pytest in a terminal, without -n") from None
            kept = error if is_tests_own() else None  # It keeps all that its frames refer to.
            answered = Outcome(error=_describe(error, attempt.phase, modules), exception=kept)
    left_behind = state.restore()
    changed = tuple(name for name in seen if not identical(before[name], arguments[name]))
    return replace(answered, changed=changed, left_behind=left_behind, used_global_random=state.used_random)


def _copy_in(place: Tensor, leaf: Tensor) -> Tensor:
    """A copy of a leaf, with its gradient, that has its numbers in the memory of another tensor.

    The call gets it, so that an in-place change is seen as such and not as an autograd error.
    """
    copy = leaf.clone()
    copy.data = place
    return copy


class _Attempt:
    """One call, and how far it has come: the same exception means another thing in each phase."""

    def __init__(self, modules: ModuleSet, call: Call, terms: Terms) -> None:
        self.modules, self.call, self.terms, self.phase = modules, call, terms, "load"
        # What the course itself loads, here before the call, does not count as a student's time.
        self.scenario = call.scenario and scenario_of(call)
        self.lines = [terms.line or behind_of(call).answer] if call.behind else []

    def load(self) -> Any:
        """What stands for the exercise; its file, with what that imports, is slow at its first call only."""
        with _deadline(self.modules, self.call, self.call.seconds + self.terms.load_seconds, self.terms):
            return self.modules.resolve(self.call.lesson, self.call.exercise)

    def answer(self, function: Any, arguments: dict[str, Any], leaves: dict[str, Tensor]) -> Outcome:
        self.phase = "raised"
        with _deadline(self.modules, self.call, self.call.seconds, self.terms):
            if self.scenario:
                answer = self.scenario(self.modules.lesson(self.call.lesson), *self.lines, **arguments)
            elif callable(function):
                named = list(arguments)[self.call.positional :]
                positional = [*arguments.values()][: self.call.positional]
                answer = function(*positional, **{name: arguments[name] for name in named})
            else:
                raise Missing(f"{self.call.exercise} is not a function but {type(function).__name__}")
            self.phase = "backward"
            gradients = _gradients(answer, leaves, self.call) if leaves else {}
            self.phase = "answer"
            value, tracked = to_plain(answer)
        return Outcome(value=value, gradients=gradients, tracked=tracked)


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
    # In order, as answers are: that of a view is laid out like the view.
    copies = [None if slope is None else slope.clone(memory_format=torch.contiguous_format) for slope in found]
    return dict(zip(leaves, copies, strict=True))


def _describe(error: BaseException, phase: str, modules: ModuleSet) -> StudentError:
    """Name, message and the student's own lines of an exception."""
    frames = _frames(traceback.extract_tb(error.__traceback__), modules)
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
    elif isinstance(error, ModuleNotFoundError) and (error.name or "").startswith(f"{TOP}."):
        file = (error.name or "").removeprefix(f"{TOP}.").replace(".", "/")
        message = f"there is no file {modules.folder.name}/{file}.py"
    elif isinstance(error, TypeError) and phase == "raised" and not frames:
        phase = "signature"
    return StudentError(phase, name, message[:MAX_TEXT], tuple(frames[-6:]))


def _frames(stack: traceback.StackSummary, modules: ModuleSet) -> list[Frame]:
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
        if is_traced():
            worked, started = time.process_time(), time.monotonic()
        is_over = time.process_time() - worked >= seconds or time.monotonic() - started >= PATIENCE * seconds
        if armed and is_over:
            interrupts += 1
            if interrupts > MAX_INTERRUPTS and terms.unstoppable:
                own = [f"{one.file}:{one.line}" for one in _frames(traceback.extract_stack(frame), modules)]
                terms.unstoppable(call, own[-1] if own else "a line of another file")
            raise TookTooLong(f"stopped after {seconds:g} seconds")

    # An interrupt that comes while Python clears something away is lost there, and the next one follows.
    told = sys.unraisablehook
    sys.unraisablehook = lambda lost: None if lost.exc_type is TookTooLong else told(lost)
    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        sys.unraisablehook = told
