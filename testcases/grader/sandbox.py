"""Starts the far side of the wall, and asks it one exercise at a time.

setpriv (as root: another user) -> prlimit -> bwrap (no network, own processes, empty environment, read-only mounts of
the interpreter and of this course without its suites, no rights) -> worker.py, which makes a fresh set of namespaces
for each worker. Where namespaces inside bwrap are forbidden, each worker gets a bwrap of its own, which is slow.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shlex
import shutil
import signal
import site
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from testcases.engine.plain import Outcome, Request, StudentError

from . import protocol
from .cache import packed

INSTALL = (
    "error: expected bubblewrap (the program bwrap), which keeps the code of students apart, and found none that works"
    "{why}. Debian and Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap; Arch: pacman -S bubblewrap. "
    "Elsewhere (macOS, Windows) use a Linux container or machine. Inside a container bwrap needs user namespaces "
    "(docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined). To grade only your own code "
    "without any protection: make check SANDBOX=none"
)
WORKER_USERS = range(61_184, 65_280)
"""As root: the users that workers become, another one in each process of the grader."""
COURSE = "/course"
WRITABLE = ("/tmp", "/home")


class NoSandbox(Exception):
    """bubblewrap is missing or does not work here; the text says what to do."""


class WorkerError(Exception):
    """The sandbox itself failed: the grader's fault, or the machine's."""


@dataclass(frozen=True)
class Limits:
    """What student code may use."""

    call_seconds: float = 30.0
    """At most, for one call; suites ask for less."""
    grace_seconds: float = 2.0
    """Beyond which a call that cannot be interrupted is ended from outside."""
    load_seconds: float = 120.0
    """For starting a worker. No student's code runs yet, but a neighbour's may."""
    exercise_seconds: float = 60.0
    """For all calls of one exercise together."""
    submission_seconds: float = 600.0
    """For all calls of one submission together."""
    deaths: int = 3
    """After so many dead or late workers an exercise is not asked again."""
    memory_mb: int = 2048
    """On top of what torch holds; for each process, and for all together."""
    tmp_mb: int = 64
    file_mb: int = 32
    processes: int = 64
    """Processes and threads."""


@dataclass(frozen=True)
class Course:
    """The staged course: what a worker may see."""

    folder: Path
    heavy: frozenset[str]
    """Lessons that import more than torch."""
    modules: tuple[str, ...]
    """What they import."""
    own: frozenset[str]
    """Lessons whose scenarios use the reference of the lesson itself: each exercise has a process of its own."""


class Sandbox:
    """One worker machine. It outlives exercises and students: what they touch does not.

    Args:
        course: what workers see.
        kind: "bwrap" or "none".
    """

    def __init__(self, course: Course, kind: str, limits: Limits) -> None:
        self.course, self.kind, self.limits = course, kind, limits
        self.nested = kind == "bwrap" and nested_works()
        self.failures = 0
        """How often no worker started for the submission that is graded now."""
        self.spent = 0.0
        """The seconds that its calls have taken so far."""
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def begin(self) -> None:
        """The next submission."""
        self.failures, self.spent = 0, 0.0

    def open(self, lesson: str, exercise: str) -> tuple[socket.socket, socket.socket]:
        """A fresh worker: the channel for frames, and the one that tells how it ended; closing the latter ends it.

        Raises:
            WorkerError: there is none.
        """
        for attempt in range(2):
            try:
                alive = self._process is not None and self._process.poll() is None
                if not alive or (self.kind == "bwrap" and not self.nested):
                    self._start(lesson, exercise)
                assert self._control is not None
                data, theirs = socket.socketpair()
                status, their_status = socket.socketpair()
                order = {"lesson": lesson, "exercise": exercise}
                try:
                    self._control.settimeout(self.limits.load_seconds)
                    descriptors = [theirs.fileno(), their_status.fileno()]
                    socket.send_fds(self._control, [json.dumps(order).encode()], descriptors)
                finally:
                    theirs.close()
                    their_status.close()
                return data, status
            except OSError as error:
                self.close()
                if attempt:
                    raise WorkerError(f"the sandbox does not answer: {error}") from error
        raise AssertionError

    def _start(self, lesson: str, exercise: str) -> None:
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        nested, private = self.nested, self.kind == "bwrap"
        config = {
            "trees": COURSE if private else str(self.course.folder),
            "run": run_of(self.course.folder),
            "nested": nested,
            "private": private,
            "limits": asdict(self.limits),
            "heavy": sorted(self.course.heavy),
            "own": sorted(self.course.own),
            "modules": self.course.modules,
            "environment": ENVIRONMENT,
            "writable": {place: [path for path in interpreter_folders() if _below(path, place)] for place in WRITABLE},
        }
        worker = f"{config['trees']}/worker.py"
        command = [sys.executable, "-P", "-s", "-B", worker, str(theirs.fileno()), json.dumps(config)]
        if private:
            course = [(str(self.course.folder), COURSE)]
            if not nested:
                names = ["worker.py", "kernel.py", lesson, *([f"own/{exercise}"] if lesson in self.course.own else [])]
                course = [(f"{self.course.folder}/{name}", f"{COURSE}/{name}") for name in names]
            command = bubblewrap(command, course, self.limits, nested)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            env=dict(ENVIRONMENT),
            start_new_session=True,
        )
        theirs.close()
        self._control = ours
        ours.settimeout(self.limits.load_seconds)
        try:
            hello = ours.recv(100)
        except OSError:
            hello = b""
        if hello != b"ready":
            self._process.kill()
            said = self._process.communicate()[1].decode("utf-8", "replace").strip()[-500:]
            self.close()
            raise WorkerError(f"the sandbox did not start: {said}")

    def close(self) -> None:
        """End it, and everything in it."""
        if self._control:
            self._control.close()
            self._control = None
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            if self._process.stderr:
                self._process.stderr.close()
            self._process = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "ACCELERATE_USE_CPU": "true",
    "TOKENIZERS_PARALLELISM": "false",
}


def run_of(folder: Path) -> str:
    """A name for all processes of one run, which says nothing about the machine."""
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]


def bubblewrap(command: list[str], course: list[tuple[str, str]], limits: Limits, nested: bool = True) -> list[str]:
    """The command line that runs `command` in a sandbox which shows `course` (pairs of source and place)."""
    binds = [(path, path) for path in interpreter_folders()] + course
    prelude: list[str] = []
    if os.geteuid() == 0:
        # Another user may not reach the folders (an interpreter below /root): bind them where it can, as root, first.
        lines = ["mount -t tmpfs -o mode=755 tmpfs /mnt"]
        for number, (source, _) in enumerate(binds):
            quoted, place = shlex.quote(source), f"/mnt/{number}"
            if os.path.isdir(source):
                lines.append(f"mkdir {place} && mount --rbind {quoted} {place}")
            else:
                lines.append(f"touch {place} && mount --bind {quoted} {place}")
        binds = [(f"/mnt/{number}", place) for number, (_, place) in enumerate(binds)]
        user = str(WORKER_USERS[os.getpid() % len(WORKER_USERS)])
        prelude = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
        prelude += [" && ".join(lines) + ' && exec "$@"', "sh"]
        prelude += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
    prelude += ["prlimit", "--core=0", f"--fsize={limits.file_mb * 2**20}", "--nofile=1024"]
    if os.geteuid() == 0:
        prelude += [f"--nproc={limits.processes + 256}"]
    box = ["bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    box += ["--clearenv", *(word for key, value in ENVIRONMENT.items() for word in ("--setenv", key, value))]
    box += [] if nested else ["--disable-userns"]
    for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(path):
            box += ["--symlink", os.readlink(path), path]
    size = str(limits.tmp_mb * 2**20)
    box += ["--proc", "/proc", "--dev", "/dev"]
    for place in (*WRITABLE, "/dev/shm"):
        box += ["--size", size, "--tmpfs", place]
    # After these, since an interpreter may be below /home or /tmp.
    for source, place in binds:
        box += ["--ro-bind", source, place]
    return [*prelude, *box, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--", *command]


def interpreter_folders() -> list[str]:
    """What Python and torch need, and nothing of the rest of the machine."""
    wanted = ["/usr", *(path for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64") if not os.path.islink(path))]
    wanted += ["/etc/ld.so.cache", sys.base_prefix, sys.prefix, sysconfig.get_paths()["stdlib"]]
    wanted += [*site.getsitepackages(), str(Path(torch.__file__).parents[1])]
    real = os.path.realpath(sys.executable)
    found: list[str] = []
    for path in [*map(os.path.abspath, wanted), *([] if real.startswith("/usr/") else [os.path.dirname(real)])]:
        inside = any(path == other or _below(path, other) for other in found)
        if os.path.exists(path) and path != "/" and not inside:
            found.append(path)
    return found


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder + "/")


_probe: dict[str, str | bool] = {}


def check_bubblewrap() -> None:
    """
    Raises:
        NoSandbox: it is missing, or may not make namespaces here.
    """
    if "why" not in _probe:
        why = ""
        missing = [name for name in ("bwrap", "prlimit", "setpriv", "unshare") if not shutil.which(name)]
        if "bwrap" not in missing:
            done = _try(["true"], nested=False)
            why = "" if done.returncode == 0 else f" (it says: {done.stderr.strip()[-200:]})"
        elif sys.platform != "linux":
            why = f" (this is {sys.platform})"
        _probe["why"] = why if not missing else f"{why} (missing: {', '.join(missing)})"
    if _probe["why"]:
        raise NoSandbox(INSTALL.format(why=_probe["why"]))


def nested_works() -> bool:
    """Whether namespaces can be made inside bwrap."""
    if "nested" not in _probe:
        script = "unshare --user --map-current-user --mount --pid --ipc --net --uts --fork true"
        _probe["nested"] = _try(["sh", "-c", script], nested=True).returncode == 0
    return bool(_probe["nested"])


def _try(command: list[str], nested: bool) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            bubblewrap(command, [], Limits(), nested=nested), capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


class SandboxEvaluator:
    """Answers requests about one submission through workers. It never raises for what a student did.

    A worker serves one lesson, or one exercise where the reference of the lesson's other exercises is in its reach.

    Args:
        files: path below `tutorial/` -> bytes.

    Attributes:
        answered: the requests that were answered with a value since it was last cleared.
    """

    def __init__(self, sandbox: Sandbox, files: Mapping[str, bytes]) -> None:
        self.sandbox, self.files = sandbox, files
        self.limits = sandbox.limits
        self.answered: list[Request] = []
        self._worker: _Worker | None = None
        self._ends: dict[tuple[str, str], list[StudentError]] = {}
        self._spent: dict[tuple[str, str], float] = {}

    def evaluate(self, request: Request) -> Outcome:
        outcome = self._evaluate(request)
        if outcome.error is None:
            self.answered.append(request)
        return outcome

    def _evaluate(self, request: Request) -> Outcome:
        key = request.lesson, request.exercise
        ends, spent = self._ends.setdefault(key, []), self._spent.get(key, 0.0)
        if any(end.kind == "tamper" for end in ends) or len(ends) >= self.limits.deaths:
            return Outcome(error=ends[-1])
        if spent > self.limits.exercise_seconds:
            return Outcome(error=_late(f"all calls together took more than {self.limits.exercise_seconds:g} seconds"))
        if self.sandbox.spent > self.limits.submission_seconds:
            limit = self.limits.submission_seconds
            return Outcome(error=_late(f"all calls of all exercises together took more than {limit:g} seconds"))
        serves = request.lesson, request.exercise if request.lesson in self.sandbox.course.own else ""
        if self._worker and self._worker.serves != serves:
            self.finish()
        start = time.monotonic()
        if self._worker is None:
            self._worker = self._start(serves)
        try:
            outcome = self._worker.ask(request)
        except _Ended as ended:
            self._worker = None
            outcome = Outcome(error=ended.error)
        except BaseException:
            self._worker = None
            self.sandbox.close()
            raise
        if outcome.error and outcome.error.kind in ("timeout", "crash", "memory", "tamper"):
            ends.append(outcome.error)
        seconds = time.monotonic() - start
        self._spent[key] = spent + seconds
        self.sandbox.spent += seconds
        return outcome

    def _start(self, serves: tuple[str, str]) -> _Worker:
        """In a sandbox that nothing has happened in if the first try fails; a machine that starts none must say so
        soon, and not after two tries a test.
        """
        error = WorkerError("no worker started before")
        while self.sandbox.failures < 2:
            try:
                return _Worker(self.sandbox, *serves, self.files)
            except WorkerError as failure:
                error = failure
                self.sandbox.failures += 1
                self.sandbox.close()
        raise error

    def settle(self, lesson: str, exercise: str) -> bool:
        """After the last question of an exercise: whether all that came was an answer. A worker that something is wrong
        with serves no other exercise.
        """
        ends = self._ends.setdefault((lesson, exercise), [])
        problem = self._worker and self._worker.settle()
        if problem:
            ends.append(problem)
        if ends:
            self.finish()
        return not any(end.kind == "tamper" for end in ends)

    def finish(self) -> None:
        """End the worker."""
        worker, self._worker = self._worker, None
        if worker:
            worker.end()


class _Ended(Exception):
    def __init__(self, error: StudentError) -> None:
        self.error = error


class _Worker:
    """One worker: one lesson, or one exercise, of one submission."""

    def __init__(self, sandbox: Sandbox, lesson: str, exercise: str, files: Mapping[str, bytes]) -> None:
        self.serves = lesson, exercise
        self.sandbox, self.limits = sandbox, sandbox.limits
        self.fresh = True
        self.channel, self.status = sandbox.open(lesson, exercise)
        header = {"files": [[path, len(data)] for path, data in files.items()]}
        deadline = time.monotonic() + self.limits.load_seconds
        try:
            protocol.send(self.channel, header, b"".join(files.values()), deadline)
            answer, _ = protocol.receive(self.channel, deadline)
        except (protocol.Closed, protocol.Late, protocol.BadFrame) as error:
            raise WorkerError(f"the worker did not start: {self.end() or type(error).__name__}") from None
        if answer != {"ready": True}:
            raise WorkerError("the worker did not start")

    def ask(self, request: Request) -> Outcome:
        """
        Raises:
            _Ended: the worker died, was late or sent nonsense; it is gone now.
            WorkerError: it never started.
        """
        (header, body), _ = packed(request)
        seconds = min(request.seconds, self.limits.call_seconds)
        header = {**header, "seconds": seconds}
        number = secrets.randbits(62)
        deadline = time.monotonic() + seconds + self.limits.grace_seconds
        try:
            if not self.fresh and self._unasked():
                raise protocol.BadFrame("an answer to no question")
            protocol.send(self.channel, {"id": number, "request": header}, body, deadline)
            answer, body_back = protocol.receive(self.channel, deadline)
            fields = _exactly(answer, {"id", "outcome"})
            if type(fields["id"]) is not int or fields["id"] != number:
                raise protocol.BadFrame("an answer to another question")
            outcome = protocol.unpack_outcome(fields["outcome"], body_back, request)
        except protocol.BadFrame as error:
            self.end()
            raise _Ended(_tamper(str(error))) from None
        except protocol.Late:
            self.end()
            raise _Ended(_late(f"stopped after {seconds:g} seconds")) from None
        except protocol.Closed:
            raise _Ended(self._how_it_ended()) from None
        self.fresh = False
        return outcome

    def settle(self) -> StudentError | None:
        """Call its name; anything but the echo was not sent by the worker."""
        number = secrets.randbits(62)
        deadline = time.monotonic() + self.limits.grace_seconds
        try:
            if self._unasked():
                raise protocol.BadFrame("an answer to no question")
            protocol.send(self.channel, {"id": number, "settle": True}, b"", deadline)
            answer, _ = protocol.receive(self.channel, deadline)
            if answer != {"id": number, "settle": True}:
                raise protocol.BadFrame("another echo")
        except protocol.BadFrame as error:
            return _tamper(str(error))
        except protocol.Late:
            return _late("it does not answer any more")
        except protocol.Closed:
            return StudentError("crash", "ProcessExit", "its process is gone")
        return None

    def _unasked(self) -> bool:
        """Whether something arrived that nobody asked for."""
        self.channel.settimeout(0)
        try:
            return bool(self.channel.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def end(self) -> dict[str, Any]:
        """Kill it; what the lesson zygote says about its end."""
        report: dict[str, Any] = {}
        self.channel.close()
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
        # A moment for the zygote to see a death that was not ordered.
        self.status.settimeout(1.0)
        with contextlib.suppress(OSError):
            self.status.recv(1, socket.MSG_PEEK)
        report = self.end()
        if "error" in report:
            raise WorkerError(report["error"])
        if report.get("memory"):
            megabytes = self.limits.memory_mb
            return StudentError("memory", "MemoryError", f"it took more than {megabytes:,} MiB and was ended")
        if report.get("signal"):
            name = signal.Signals(report["signal"]).name
            return StudentError("crash", name, f"its process died of {name}")
        if report.get("exit") is not None:
            return StudentError("crash", "ProcessExit", f"its process ended itself with exit code {report['exit']}")
        return StudentError("crash", "ProcessExit", "its process is gone")


def _exactly(node: Any, keys: set[str]) -> dict[str, Any]:
    if type(node) is not dict or set(node) != keys:
        raise protocol.BadFrame("other fields")
    return node


def _tamper(text: str) -> StudentError:
    return StudentError("tamper", "ForgedAnswer", f"the worker sent something that no worker sends: {text}")


def _late(text: str) -> StudentError:
    return StudentError("timeout", "TookTooLong", text)
