"""The far side of the wall. Runs inside bubblewrap; everything here may end up beside hostile code.

    template    process 1; imports torch, computes nothing, has nothing of the course; lives as long as one submission
      worker    one lesson, or one exercise: it is sent what it may see, answers calls, and is killed with all that
                it has started and written

Student code runs in workers only. A worker sees the interpreter, what it was sent of the course, and the student's
files. What it writes is in memory.

python -P worker.py CONTROL_FD CONFIG, with CONFIG in JSON:
    private: whether this is a sandbox; user: as root and without one, whom workers become; core: where they run, null
    for any; environment: of a worker; limits: memory_mb, file_mb, processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import json
import mmap
import os
import resource
import select
import shutil
import signal
import socket
import stat
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FIRST = 1000
"""In /proc/self/oom_score_adj: when memory runs out, a worker goes before everything else."""
HOME = "/home/student"
WRITABLE = ("/tmp", "/var/tmp", "/dev/shm", HOME)

_PDEATHSIG, _DUMPABLE, _SECCOMP, _NO_NEW_PRIVS = 1, 4, 22, 38

FORBIDDEN = {
    # Memory that belongs to no process, so that nobody counts it.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    # Parts of the kernel that no exercise needs and in which holes are found.
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Other processes and namespaces.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
    # What is in a socket's buffers is in no process. A virtual machine's way to its host is in no network namespace.
    "socket": (41, 198),
    "socketpair": (53, 199),
    # What two workers can both lock or watch, such as a file of the interpreter.
    "flock": (73, 32),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    # Out of the core that is a neighbor's.
    "sched_setaffinity": (203, 122),
}
"""System calls that a worker may not make: their numbers on x86_64 and on aarch64."""
FCNTL = (72, 25)
LOCKS = (5, 6, 7, 36, 37, 38, 1024, 1025, 1026)
"""Commands of fcntl that lock, lease or watch."""
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Which of the two numbers, and what the kernel calls the machine."""

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()  # What is imported stays, so it is searched for garbage neither here nor in a worker.
    import torch

    torch.set_num_threads(1)
    dumpable(False)
    control.send(b"ready")
    template = _Template(json.loads(sys.argv[2]))
    while True:
        message, (*data, status), _, _ = socket.recv_fds(control, 10_000, 3)
        if not message:
            return
        _import_early(json.loads(message))
        gc.freeze()
        report = template.serve_one(data, status)
        with contextlib.suppress(OSError):
            os.write(status, json.dumps(report).encode())
        os.close(status)


def _import_early(names: list[str]) -> None:
    """Import what will be imported anyway. What cannot be imported here says so when it is used."""
    for name in names:
        module, _, attribute = name.partition(":")
        with contextlib.suppress(Exception):
            getattr(importlib.import_module(module), attribute, None)


class _Template:
    """Forks one worker after the other, each into what the last one has left as it was."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config, self.private, self.user = config, config["private"], config["user"]
        self.kept = {entry.path for place in self._places() for entry in os.scandir(place)}
        """What is there from the beginning, such as an interpreter below /tmp."""

    def serve_one(self, data: list[int], status: int) -> dict[str, Any]:
        """Until it ends by itself, takes too much, or the trusted side hangs up; how it ended."""
        home = HOME if self.private else tempfile.mkdtemp(prefix="ppo-student-")
        if self.user:
            self._clear(0)
            os.chown(home, self.user, self.user)
        worker = os.fork()
        if worker == 0:
            _alone(lambda: _work(self.config, data, home), keep=data)
        for descriptor in data:
            os.close(descriptor)
        try:
            return self._watch(worker, status)
        finally:
            self._clear(worker)
            if not self.private:
                shutil.rmtree(home, ignore_errors=True)

    def _watch(self, worker: int, status: int) -> dict[str, Any]:
        limits = self.config["limits"]
        handle, watcher, memory = os.pidfd_open(worker), select.poll(), False
        watcher.register(handle, select.POLLIN)
        watcher.register(status, select.POLLIN | select.POLLHUP)
        while not (ready := watcher.poll(100)):
            found = self._processes(worker)
            memory = _memory(found) > limits["memory_mb"] * 2**20
            # The kernel counts the processes of every user but root, whom a container may have mapped to another.
            if memory or len(found) > limits["processes"]:
                break
        if not any(descriptor == handle for descriptor, _ in ready):
            os.kill(worker, signal.SIGKILL)
        _, code = os.waitpid(worker, 0)
        os.close(handle)
        killed = os.WTERMSIG(code) if os.WIFSIGNALED(code) else 0
        return {"exit": os.WEXITSTATUS(code) if os.WIFEXITED(code) else None, "signal": killed, "memory": memory}

    def _processes(self, worker: int) -> set[int]:
        """A worker and what it has started."""
        found = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        if self.private:
            return found - {os.getpid()}
        return {one for one in found if _belongs(one, worker, self.user)}

    def _clear(self, worker: int) -> None:
        """End all that a worker has started, and remove what it has written.

        Raises:
            OSError: something is left, so this sandbox has no further worker.
        """
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if self.private:
                # Process 1 of its namespace: none of the others can signal it, and all are its children in the end.
                os.kill(-1, signal.SIGKILL)
                while os.waitpid(-1, 0):
                    pass
            elif self.user:
                _end_all_of(self.user)
            elif worker:
                os.killpg(worker, signal.SIGKILL)
        owner = os.getuid() if self.private else self.user
        if not owner:
            return
        while self._processes(worker):
            time.sleep(0.002)
        for path in [entry.path for place in self._places() for entry in os.scandir(place)]:
            with contextlib.suppress(OSError, RecursionError):  # Without a sandbox others come and go there.
                found = os.lstat(path)
                if path in self.kept or found.st_uid != owner:
                    continue
                shutil.rmtree(path) if stat.S_ISDIR(found.st_mode) else os.unlink(path)
            if os.path.lexists(path) and os.lstat(path).st_uid == owner:
                raise OSError("a file is left")

    def _places(self) -> list[str]:
        return [place for place in WRITABLE if os.path.isdir(place)]


def _alone(work: Callable[[], None], keep: list[int]) -> None:
    """What a forked process does: its work, with no file of its parent's but these, and never return."""
    code = 1
    try:
        close_all_but(keep)
        die_with_parent()
        work()
        code = 0
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"grader worker: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _end_all_of(user: int) -> None:
    killer = os.fork()
    if killer == 0:
        try:
            become(user)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(killer, 0)


def _belongs(process: int, worker: int, user: int) -> bool:
    """By its user if it has one of its own, or else by its session."""
    with contextlib.suppress(OSError, ValueError):
        if not user:
            return os.getsid(process) == worker
        with open(f"/proc/{process}/status", encoding="utf-8", errors="replace") as file:
            return any(line.split()[1] == str(user) for line in file if line.startswith("Uid:"))
    return False


def _memory(processes: set[int]) -> int:
    """Bytes that these processes have taken since they were forked, about."""
    base, total = _pages("self", 1), 0
    for number in processes:
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += max(0, _pages(str(number), 1) - base)
    return total * resource.getpagesize()


def _pages(process: str, column: int) -> int:
    with open(f"/proc/{process}/statm", encoding="ascii") as file:
        return int(file.read().split()[column])


def _work(config: dict[str, Any], data: list[int], home: str) -> None:
    """Be a worker."""
    gc.enable()
    os.setsid()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(FIRST))
    if config["core"] is not None:
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setaffinity(0, {config["core"]})
    if config["user"]:
        become(config["user"])
        die_with_parent()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    _limit(config["limits"])
    with contextlib.nullcontext() if config["private"] else contextlib.suppress(OSError, AttributeError):
        forbid_calls()
    dumpable(True)
    os.environ.clear()
    os.environ.update(config["environment"], HOME=home, TMPDIR="/tmp" if config["private"] else home)
    os.chdir(home)
    sys.argv = ["worker"]
    _answer(*(socket.socket(fileno=number) for number in data), home=Path(home))


def _limit(limits: dict[str, int]) -> None:
    bounds = {
        resource.RLIMIT_AS: _pages("self", 0) * resource.getpagesize() + limits["memory_mb"] * 2**20,
        resource.RLIMIT_FSIZE: limits["file_mb"] * 2**20,
        resource.RLIMIT_NPROC: limits["processes"],
        resource.RLIMIT_NOFILE: 128,
        resource.RLIMIT_CORE: 0,
    }
    for kind, bound in bounds.items():
        hard = resource.getrlimit(kind)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (bound, bound))


def _answer(channel: socket.socket, link: socket.socket | None = None, *, home: Path) -> None:
    """Write the files, then answer one call after the other until the trusted side has had enough.

    A scenario's questions about what is behind a call go over the link; the worker that answers them has no files.
    """
    _, (questions,), _, _ = socket.recv_fds(channel, 1, 1)
    channel.send(b"w")
    told = _receive_files(channel, home)
    sys.path.insert(0, str(home / "course"))
    from testcases.harness.execution import calling, executor, wire  # Of what was sent.

    _import_early([f"solutions.{told['lesson']}", f"testcases.{told['lesson']}.scenarios"])
    line = functools.partial(wire.ask, link) if link else None
    terms = calling.Terms(handed=lambda tensor: tensor, load_seconds=told["import_seconds"], line=line)
    own = executor.InProcess(home / "tutorial", terms=terms)
    # From here on the clock of a call is the student's alone.
    wire.send(channel, {"ready": True})
    while True:
        header, body = wire.receive(channel)
        if header.get("settle"):
            wire.send(channel, {"id": header["id"], "settle": True})
            continue
        if header.get("behind"):
            _, (other,), _, _ = socket.recv_fds(channel, 1, 1)
            behind = calling.behind_of(wire.unpack(header["behind"], body))
            with socket.socket(fileno=other) as asking:
                wire.answer_all(asking, behind.answer)
            wire.send(channel, {"id": header["id"], "said": behind.said})
            continue
        if header.get("load"):
            wire.send(channel, {"id": header["id"], "loaded": own.loads(*header["load"])})
            continue
        place: Any = body
        if header["place"]:
            start, size = header["place"]
            place = mmap.mmap(questions, size, offset=start)
        outcome = own.run(wire.unpack(header["call"], place))
        answer, packed = wire.pack(outcome)
        wire.send(channel, {"id": header["id"], "outcome": answer}, packed)


def _receive_files(channel: socket.socket, folder: Path) -> dict[str, Any]:
    """What is told first, in JSON, with "files": path and size of each that follows; they are written to the folder."""
    with channel.makefile("rb") as sent:
        (size,) = struct.unpack("<I", sent.read(4))
        told = json.loads(sent.read(size))
        for path, size in told["files"]:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(sent.read(size))
    return told


# The few Linux calls that Python 3.11 does not have.


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def dumpable(yes: bool) -> None:
    """Whether processes of the same user may look into this one."""
    _check(_libc.prctl(_DUMPABLE, int(yes), 0, 0, 0), "prctl")


def die_with_parent() -> None:
    _check(_libc.prctl(_PDEATHSIG, 9, 0, 0, 0), "prctl")


def become(user: int) -> None:
    """Another user, in no group but its own. As root, and for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def forbid_calls() -> None:
    """Refuse, for good, the calls of `FORBIDDEN`. Does nothing on another machine than the two known."""
    if os.uname().machine not in _MACHINES:
        return
    which, machine = _MACHINES[os.uname().machine]
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    allow, refuse, kill = 0x7FFF0000, 0x00050001, 0x80000000  # 0x5xxxx: fail with that error number, here EPERM.
    # (code, where to go on if true, and if not, operand); the last three are the answers.
    numbers = [pair[which] for pair in FORBIDDEN.values()]
    body: list[tuple[int, str | None, str | None, int]]
    body = [(load, None, None, 0), (at_least, "refuse", None, 0x40000000)]
    body += [(equal, "refuse", None, number) for number in numbers if number is not None]
    # The second argument, of which a kernel looks at the lower half alone.
    body += [(equal, None, "allow", FCNTL[which]), (load, None, None, 24)]
    body += [(equal, "refuse", None, command) for command in LOCKS]
    head = [(load, None, None, 4), (equal, None, "kill", machine)]
    lines = [*head, *body]
    place = {"allow": len(lines), "refuse": len(lines) + 1, "kill": len(lines) + 2}
    code = b""
    for number, (kind, yes, no, operand) in enumerate(lines):
        jumps = [place[target] - number - 1 if target else 0 for target in (yes, no)]
        code += struct.pack("=HBBI", kind, *jumps, operand)
    code += b"".join(struct.pack("=HBBI", answer, 0, 0, verdict) for verdict in (allow, refuse, kill))
    program = _Filter(len(code) // 8, code)
    _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _check(_libc.prctl(_SECCOMP, 2, ctypes.byref(program), 0, 0), "seccomp")


def close_all_but(keep: list[int]) -> None:
    """Of the open files, keep the three standard ones and these."""
    low = 3
    for descriptor in sorted(keep):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, 4096)


if __name__ == "__main__":
    main()
