"""Asks a submission's workers, one question at a time, and believes nothing of what comes back."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from testcases.harness.catalog import read_lesson
from testcases.harness.execution import wire
from testcases.harness.execution.calling import PATIENCE
from testcases.harness.execution.messages import Call, Outcome, StudentError, identical

from ..status import NOT_ASKED
from ..text import text_of
from . import staging
from .sandbox import Sandbox, WorkerError

_CREDENTIALS = struct.Struct("3i")
_ADD_SEALS, _SEALS = 1033, 1 | 2 | 4
"""Nobody may seal it otherwise, make it smaller or larger."""


class InSandbox:
    """Answers calls about one submission through workers. It never raises for what a student did.

    A worker serves one lesson, or one exercise of those lessons whose exercises have a process each.

    Args:
        files: path below `tutorial/` -> bytes.
    """

    def __init__(self, sandbox: Sandbox, files: Mapping[str, bytes]) -> None:
        self.sandbox, self.files = sandbox, files
        self.limits = sandbox.limits
        self._worker: _Worker | None = None
        self._behind: _Behind | None = None
        self._ends: dict[tuple[str, str], list[StudentError]] = {}
        self._spent: dict[tuple[str, str], float] = {}
        self._lost_loads: dict[str, list[StudentError]] = {}
        """By file, in whatever text: how its loading came to no end."""
        self.unloaded: dict[str, StudentError] = {}
        """By file: how it died while it was loaded."""

    def run(self, call: Call) -> Outcome:
        key, file = (call.lesson, call.exercise), f"{call.lesson}/{read_lesson(call.lesson).file_of(call.exercise)}"
        if refused := self.refused(*key):
            return Outcome(error=refused)
        serves = call.lesson, call.exercise if call.lesson in staging.APART else ""
        if self._worker and self._worker.serves != serves:
            self.finish()
        if call.behind:
            self._end_worker()
        if self._worker is None:
            self._worker = self._start(serves, call)
        worker, spent = self._worker, self.sandbox.spent
        try:
            if file not in worker.loaded:
                worker.load(file, call)
            outcome = worker.ask(call)
        except _Ended as ended:
            self._worker = None
            outcome = Outcome(error=ended.error)
        except BaseException:
            self._worker = None
            self.sandbox.close()
            raise
        if call.behind:
            outcome = self._as_said_behind(outcome)
        if outcome.error and outcome.error.kind in ("timeout", "crash", "memory", "tamper"):
            self._keep_end(key, file, outcome.error, file in worker.loaded)
        elif outcome.error and outcome.error.kind == "load":
            self.unloaded.setdefault(file, outcome.error)
        self._spent[key] = self._spent.get(key, 0.0) + self.sandbox.spent - spent
        return outcome

    def text(self, lesson: str, file: str) -> str:
        return text_of(self.files.get(f"{lesson}/{file}", b""))

    def with_texts(self, texts: Mapping[str, str]) -> InSandbox:
        other = InSandbox(self.sandbox, {**self.files, **{path: text.encode() for path, text in texts.items()}})
        other._spent, other._lost_loads = self._spent, self._lost_loads
        return other

    def _keep_end(self, key: tuple[str, str], file: str, error: StudentError, is_loaded: bool) -> None:
        self._ends.setdefault(key, []).append(error)
        if not is_loaded and error.kind != "tamper":
            self.unloaded.setdefault(file, error)
            self._lost_loads.setdefault(file, []).append(error)

    def refused(self, lesson: str, exercise: str) -> StudentError | None:
        """Why an exercise is asked nothing more."""
        key, file = (lesson, exercise), f"{lesson}/{read_lesson(lesson).file_of(exercise)}"
        ends, loads, limits = self._ends.get(key, []), self._lost_loads.get(file, []), self.limits
        if loads and (loads[-1].kind == "timeout" or len(loads) >= limits.ends):
            self.unloaded.setdefault(file, loads[-1])
            return loads[-1]
        for end in ends:
            if end.kind == "tamper":
                return end
        if len(ends) >= limits.ends:
            why = f"not asked, since {len(ends)} of its calls came to no end: {ends[-1].message}"
            return replace(ends[-1], message=why)
        for of, spent, most in (
            ("this exercise", self._spent.get(key, 0.0), limits.exercise_seconds),
            ("this lesson", sum(self._spent.values()), limits.lesson_seconds),
            ("this submission", self.sandbox.spent, limits.submission_seconds),
        ):
            if spent > most:
                return ends[-1] if ends else _not_asked(f"the calls of {of} together took more than {most:g} seconds")
        return None

    def _as_said_behind(self, outcome: Outcome) -> Outcome:
        """What the two workers say must agree."""
        self._end_worker()
        seconds = self.limits.grace_seconds if outcome.error else self.limits.load_seconds
        said = self._behind.said(seconds) if self._behind else None
        if said is None:
            self._behind = None
            if outcome.error is None or outcome.error.kind == "raised":
                return Outcome(error=StudentError("crash", "ProcessExit", "a call asked for more than can be computed"))
        elif outcome.error is None and (type(outcome.value) is not dict or outcome.value.get("refused", []) != said):
            return Outcome(error=_tamper("verdicts that were not given"))
        return outcome

    def _start(self, serves: tuple[str, str], call: Call) -> _Worker:
        """In a sandbox that nothing has happened in if the first try fails; a machine that starts none must say so
        soon, and not after two tries a test.
        """
        error = WorkerError("no worker started before")
        while self.sandbox.failures < 2:
            try:
                links = []
                if call.behind:  # Another worker answers what a scenario asks; this one is fresh, and knows nothing.
                    self._behind = self._behind or _Behind(self.sandbox, call.lesson)
                    links = [self._behind.take(call)]
                worker = _Worker(self.sandbox, *serves, self.files, *links)
                self.sandbox.failures = 0
                return worker
            except WorkerError as failure:
                error = failure
                self.sandbox.failures += 1
                self.finish()
                self.sandbox.close()
        raise error

    def settle(self, lesson: str, exercise: str) -> bool:
        """After the last question of an exercise: whether all that came was an answer. A worker that something is wrong
        with serves no other exercise.
        """
        ends = self._ends.setdefault((lesson, exercise), [])
        if self._worker and (problem := self._worker.settle()):
            ends.append(problem)
            self._worker = None
        if ends:
            self.finish()
        return not any(end.kind == "tamper" for end in ends)

    def finish(self) -> None:
        """End the worker, and the one behind it."""
        self._end_worker()
        behind, self._behind = self._behind, None
        if behind:
            behind.end()

    def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker:
            worker.end()


class _Ended(Exception):
    def __init__(self, error: StudentError) -> None:
        self.error = error


class _Clock:
    """Of one question: the time that the worker waits for a core is not its own.

    Args:
        times: a descriptor of the kernel's file about the worker's time, -1 if there is none.
        seconds: of its own time.
    """

    def __init__(self, times: int, seconds: float) -> None:
        self._times, self._seconds = times, seconds
        self._started, self._waited = time.monotonic(), self._waiting()

    def left(self) -> float:
        least = self._seconds - self.wall()
        if least > 0:  # It has waited for nothing at worst; the kernel is asked only where that matters.
            return max(least, 0.05)
        left = min(self._seconds - self.own(), PATIENCE * self._seconds - self.wall())
        return left if left <= 0 else max(left, 0.05)

    def own(self) -> float:
        return self.wall() - max(0.0, self._waiting() - self._waited)

    def wall(self) -> float:
        return time.monotonic() - self._started

    def _waiting(self) -> float:
        """The seconds that the process has been ready to run, and did not; 0 where the kernel does not say."""
        try:
            return int(os.pread(self._times, 100, 0).split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0.0


class _Handed:
    """Memory in which a worker is handed the tensors of its questions, to see afterwards whether it has changed them.

    It is a file, and read as one: what a worker does to it can end no other process.
    """

    SIZE = 2**25

    def __init__(self) -> None:
        self._file = os.fdopen(os.memfd_create("questions", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+b", 0)
        self.descriptor = self._file.fileno()
        os.ftruncate(self.descriptor, self.SIZE)
        fcntl.fcntl(self.descriptor, _ADD_SEALS, _SEALS)
        self._next = 0

    def put(self, body: bytes) -> tuple[int, int] | None:
        """Where it lies now: after what was handed before, which code may still hold; None if it is too large."""
        if not body or len(body) > self.SIZE:
            return None
        start = self._next if self._next + len(body) <= self.SIZE else 0
        os.pwrite(self.descriptor, body, start)
        page = os.sysconf("SC_PAGE_SIZE")
        self._next = start + len(body) + -len(body) % page
        return start, len(body)

    def get(self, place: tuple[int, int]) -> bytes:
        return os.pread(self.descriptor, place[1], place[0])

    def close(self) -> None:
        self._file.close()


def _shake_hands(channel: socket.socket, handed: _Handed, left: Callable[[], float]) -> int:
    """Give a new worker its memory; a descriptor for its `_Clock`, by the number that the kernel says it has.

    Raises:
        OSError: nobody answers.
    """
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    channel.settimeout(max(0.01, left()))
    socket.send_fds(channel, [b"m"], [handed.descriptor])
    said, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
    if said != b"w":
        raise ConnectionError("the worker did not start")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            number = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])[0]
            with contextlib.suppress(OSError):
                return os.open(f"/proc/{number}/schedstat", os.O_RDONLY)
    return -1


class _Worker:
    """One worker: one lesson, or one exercise, of one submission. One with a link to another sees nothing solved."""

    def __init__(
        self,
        sandbox: Sandbox,
        lesson: str,
        exercise: str,
        files: Mapping[str, bytes],
        link: socket.socket | None = None,
    ) -> None:
        self.serves = lesson, exercise
        self.sandbox, self.limits = sandbox, sandbox.limits
        self.fresh, self.link = True, link
        self.channel, self.status = sandbox.open(lesson, link)
        self.handed = _Handed()
        self.times = -1
        self.loaded: set[str] = set()
        deadline = _Clock(-1, self.limits.load_seconds).left
        try:
            self.times = _shake_hands(self.channel, self.handed, deadline)
            self._send_files(files, staging.tree(lesson, exercise, solved=link is None))
            answer, _ = wire.receive(self.channel, deadline)
        except (OSError, wire.BadFrame) as error:
            raise WorkerError(f"the worker did not start: {self.end() or type(error).__name__}") from None
        if answer != {"ready": True}:
            raise WorkerError("the worker did not start")

    def _send_files(self, own: Mapping[str, bytes], course: Mapping[str, bytes]) -> None:
        files = {f"tutorial/{path}": data for path, data in own.items()}
        files |= {f"course/{path}": data for path, data in course.items()}
        told = {"lesson": self.serves[0], "import_seconds": self.limits.import_seconds}
        head = json.dumps({**told, "files": [[path, len(data)] for path, data in files.items()]}).encode()
        self.channel.settimeout(self.limits.load_seconds)
        self.channel.sendall(b"".join([struct.pack("<I", len(head)), head, *files.values()]))

    def load(self, file: str, call: Call) -> None:
        """Let it load the file of an exercise.

        Raises:
            _Ended: as for a question.
        """
        seconds = min(call.seconds, self.limits.call_seconds)
        asked = {"load": [call.lesson, call.exercise, seconds]}
        seconds += self.limits.import_seconds
        late = _late(f"its file was not loaded after {seconds:g} seconds")
        answer, _ = self._exchange(asked, b"", _Clock(self.times, seconds + self.limits.grace_seconds), late)
        if answer != {"loaded": True}:
            self.end()
            raise _Ended(late)
        self.loaded.add(file)

    def ask(self, call: Call) -> Outcome:
        """
        Raises:
            _Ended: the worker died, was late or sent nonsense; it is gone now.
            WorkerError: it never started.
        """
        call = replace(call, arguments=call.shown) if call.behind else call
        seconds = min(call.seconds, self.limits.call_seconds)
        header, body = wire.pack(call if call.seconds == seconds else replace(call, seconds=seconds))
        place = self.handed.put(body)
        clock = _Clock(self.times, seconds + self.limits.grace_seconds)
        asked, late = {"call": header, "place": place}, _late(f"stopped after {seconds:g} seconds")
        answer, body_back = self._exchange(asked, b"" if place else body, clock, late)
        try:
            if set(answer) != {"outcome"}:
                raise wire.BadFrame("other fields")
            outcome = wire.unpack_outcome(answer["outcome"], body_back, call)
        except wire.BadFrame as error:
            self.end()
            raise _Ended(_tamper(str(error))) from None
        return replace(outcome, changed=self._changed(call, header, body, place))

    def _exchange(self, asked: Any, body: bytes, clock: _Clock, late: StudentError) -> tuple[Any, bytearray]:
        number = secrets.randbits(62)
        try:
            if not self.fresh and self._unasked():
                raise wire.BadFrame("an answer to no question")
            wire.send(self.channel, {"id": number, **asked}, body, clock.left)
            answer, body_back = wire.receive(self.channel, clock.left)
            if type(answer) is not dict or type(found := answer.pop("id", None)) is not int or found != number:
                raise wire.BadFrame("an answer to another question")
        except wire.BadFrame as error:
            self.end()
            raise _Ended(_tamper(str(error))) from None
        except TimeoutError:
            self.end()
            raise _Ended(late) from None
        except OSError:
            raise _Ended(self._how_it_ended()) from None
        finally:
            # Half of the time that it waited for a core: it may be a neighbor's fault, or its own processes.
            self.sandbox.spent += (clock.own() + clock.wall()) / 2
        self.fresh = False
        return answer, body_back

    def _changed(self, call: Call, header: Any, body: bytes, place: tuple[int, int] | None) -> tuple[str, ...]:
        """The arguments whose numbers in memory are not those that it was handed. What it says itself is not asked."""
        found = self.handed.get(place) if place else body
        if found == body:
            return ()
        try:
            now = wire.unpack(header, bytearray(found)).arguments
        except wire.BadFrame:
            return tuple(call.arguments)  # A bool that is neither.
        return tuple(name for name, value in call.arguments.items() if not identical(value, now[name]))

    def settle(self) -> StudentError | None:
        """Call its name; anything but the echo was not sent by the worker, which is gone then."""
        clock = _Clock(self.times, self.limits.grace_seconds)
        try:
            answer, _ = self._exchange({"settle": True}, b"", clock, _late("it does not answer any more"))
        except _Ended as ended:
            return ended.error
        if answer != {"settle": True}:
            self.end()
            return _tamper("another echo")
        return None

    def _unasked(self) -> bool:
        """Whether something arrived that nobody asked for."""
        self.channel.settimeout(0)
        try:
            return bool(self.channel.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def end(self) -> dict[str, Any]:
        """Kill it; what the template says about its end."""
        report: dict[str, Any] = {}
        self.channel.close()
        if self.link:
            self.link.close()
        self.handed.close()
        if self.times >= 0:
            os.close(self.times)
            self.times = -1
        try:
            self.status.settimeout(10)
            self.status.shutdown(socket.SHUT_WR)
            report = json.loads(self.status.recv(10_000) or b"{}")
        except (OSError, ValueError):
            self.sandbox.close()
        finally:
            self.status.close()
        return report

    def _how_it_ended(self) -> StudentError:
        # A moment for the template to see a death that was not ordered.
        self.status.settimeout(1.0)
        with contextlib.suppress(OSError):
            self.status.recv(1, socket.MSG_PEEK)
        report = self.end()
        if report.get("memory"):
            megabytes = self.limits.memory_mb
            return StudentError("memory", "MemoryError", f"it took more than {megabytes:,} MiB and was ended")
        if report.get("signal"):
            number = report["signal"]
            # The real-time signals between the first and the last have no name.
            name = signal.Signals(number).name if number in set(signal.Signals) else f"SIG{number}"
            return StudentError("crash", name, f"its process died of {name}")
        if report.get("exit") is not None:
            return StudentError("crash", "ProcessExit", f"its process ended itself with exit code {report['exit']}")
        return StudentError("crash", "ProcessExit", "its process is gone")


class _Behind:
    """The worker that has what the scenarios of a lesson ask about. It runs no code of a student's."""

    def __init__(self, sandbox: Sandbox, lesson: str) -> None:
        # A sandbox has one worker at a time, and shows it all that is in it.
        self.own = Sandbox(sandbox.kind, sandbox.limits, sandbox.run, sandbox.number + 1)
        self.worker = _Worker(self.own, lesson, "", {})
        self.number = 0

    def take(self, call: Call) -> socket.socket:
        """The link over which it answers from now on.

        Raises:
            WorkerError: it is gone.
        """
        header, body = wire.pack(call)
        near, far = socket.socketpair()
        self.number = secrets.randbits(62)
        deadline = _Clock(-1, self.worker.limits.load_seconds).left
        try:
            with near:
                wire.send(self.worker.channel, {"id": self.number, "behind": header}, body, deadline)
                socket.send_fds(self.worker.channel, [b"l"], [near.fileno()])
        except OSError:
            far.close()
            raise WorkerError("the worker behind another is gone") from None
        return far

    def said(self, seconds: float) -> list[bool] | None:
        """What was said over the link, now that it is closed; None if the worker is lost."""
        deadline = _Clock(self.worker.times, seconds).left
        with contextlib.suppress(OSError, wire.BadFrame):
            answer, _ = wire.receive(self.worker.channel, deadline)
            if type(answer) is dict and answer.get("id") == self.number:
                return answer["said"]
        self.end()
        return None

    def end(self) -> None:
        self.worker.end()
        self.own.close()


def _tamper(text: str) -> StudentError:
    return StudentError("tamper", "ForgedAnswer", f"the worker sent something that no worker sends: {text}")


def _not_asked(text: str) -> StudentError:
    """As harmless as a call that is late: the suites give it no reason, and ask for nothing more."""
    return StudentError("timeout", NOT_ASKED, text)


def _late(text: str) -> StudentError:
    return StudentError("timeout", "TookTooLong", text)
