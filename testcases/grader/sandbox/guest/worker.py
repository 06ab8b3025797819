"""The far side of the wall. Runs inside bubblewrap; everything here may end up beside hostile code.

    zygote            imports torch, once
      namespaces      tiny; makes a fresh set of namespaces for each worker, in milliseconds
      heavy zygote    imports transformers and its like as well, once
      lesson zygotes  import the reference of all *other* lessons, once
        worker        one lesson of one student, or one exercise of it: enters fresh namespaces, loads the files,
                      answers requests, is killed

Student code runs in workers only. A worker sees the interpreter, this course without the suites, and the student's
files; of the lesson under test it sees the stubs. What it writes is in memory and goes with it.

python -P worker.py CONTROL_FD CONFIG, with CONFIG in JSON:
    trees: folder with one tree of the course a lesson, and "own" for single exercises; nested: make namespaces;
    core: where workers run, null for any;
    users: as root and without namespaces, those that workers become, one after the other;
    writable: folder -> what is kept in it, of the interpreter; limits: memory_mb, tmp_mb, file_mb, processes;
    heavy: lessons that need more than torch; modules: what they import, before students come.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import mmap
import os
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

FIRST = 1000
"""In /proc/self/oom_score_adj: when memory runs out, a worker goes before everything else."""

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import linux  # noqa: E402
from namespaces import HOME, MESSAGE, Nursery  # noqa: E402


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    config = json.loads(sys.argv[2])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    namespace_server = None
    if config["nested"]:
        uid, gid = os.getuid(), os.getgid()
        linux.unshare(linux.NEWUSER | linux.NEWNS)
        linux.map_user(uid, gid)
        linux.mount("", "/", "", linux.REC | linux.PRIVATE)
        namespace_server, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            _alone(Nursery(theirs, config).serve, keep=[theirs.fileno()])
        theirs.close()
    _import_torch()
    linux.dumpable(False)
    control.send(b"ready")
    _route(control, namespace_server, config, heavy=False)


def _route(control: socket.socket, namespace_server: socket.socket | None, config: dict[str, Any], heavy: bool) -> None:
    """Hand each order to its lesson's zygote. Those that need more than torch are forked from one that has it all."""
    children: dict[str, socket.socket] = {}
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MESSAGE, 3)
        if not message:
            return
        order = json.loads(message)
        lesson, tree = order["lesson"], order["tree"]
        name = "heavy" if lesson in config["heavy"] and not heavy else tree
        for _ in range(2):
            if name not in children:
                children[name], theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if os.fork() == 0:
                    work = _LessonZygote(theirs, namespace_server, (lesson, tree), config).serve
                    if name == "heavy":
                        work = partial(_be_heavy, theirs, namespace_server, config)
                    _alone(work, keep=[theirs.fileno()] + ([namespace_server.fileno()] if namespace_server else []))
                theirs.close()
            try:
                socket.send_fds(children[name], [message], descriptors)
                break
            except OSError:
                children.pop(name).close()
        for descriptor in descriptors:
            os.close(descriptor)


def _import_early(names: list[str]) -> None:
    """Import what will be imported anyway. What cannot be imported here says so when it is used."""
    for name in names:
        module, _, attribute = name.partition(":")
        with contextlib.suppress(Exception):
            loaded = importlib.import_module(module)
            getattr(loaded, attribute, None)


def _be_heavy(channel: socket.socket, namespace_server: socket.socket | None, config: dict[str, Any]) -> None:
    """Be the zygote that has imported what any of the heavy lessons imports from elsewhere."""
    linux.dumpable(False)
    _import_early(config["modules"])
    _route(channel, namespace_server, config, heavy=True)


def _alone(work: Any, keep: list[int]) -> None:
    """What a forked process does: its work, with no file of its parent's but these, and never return."""
    code = 1
    try:
        linux.close_all_but(keep)
        linux.die_with_parent()
        work()
        code = 0
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"grader worker: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _import_torch() -> None:
    import torch

    torch.set_num_threads(1)
    torch.zeros(2, requires_grad=True).sum().backward()


class _LessonZygote:
    """Has imported what an exercise of the lesson may import, and forks a worker for each."""

    def __init__(
        self,
        channel: socket.socket,
        namespace_server: socket.socket | None,
        place: tuple[str, str],
        config: dict[str, Any],
    ) -> None:
        self.channel, self.namespace_server, self.config = channel, namespace_server, config
        self.lesson, tree = place
        self.tree = f"{config['trees']}/{tree}"
        self.is_own = self.lesson in config["own"]
        self.users = itertools.cycle(config["users"])

    def serve(self) -> None:
        linux.dumpable(False)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sys.path.insert(0, self.tree)
        for name in ("executor", "overlay", "messages", "wire"):
            importlib.import_module(f"testcases.harness.execution.{name}")
        self._import_lesson()
        lessons = importlib.import_module("testcases.harness.catalog.lessons")
        for name in lessons.lesson_names():
            lessons.lesson(name)
        import gc

        gc.collect()
        gc.freeze()
        while True:
            message, descriptors, _, _ = socket.recv_fds(self.channel, MESSAGE, 3)
            if not message:
                return
            data, status, *link = descriptors
            report: dict[str, Any] = {"error": "the worker did not start"}
            try:
                report = self._serve_one(json.loads(message), [data, *link], status)
            except Exception as error:
                report = {"error": f"{type(error).__name__}: {error}"}
            for descriptor in (data, *link):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            with contextlib.suppress(OSError):
                os.write(status, json.dumps(report).encode())
            os.close(status)

    def _import_lesson(self) -> None:
        """Its stubs and its scenarios, for all that they import."""
        packages = f"solutions.{self.lesson}", f"testcases.{self.lesson}"
        _import_early([packages[0], f"{packages[1]}.scenarios"])
        if self.is_own:
            # In a worker the scenarios find the reference without the exercise in the place of the stubs.
            for name in [name for name in sys.modules if f"{name}.".startswith(tuple(f"{one}." for one in packages))]:
                del sys.modules[name]

    def _serve_one(self, order: dict[str, Any], data: list[int], status: int) -> dict[str, Any]:
        # Where the lesson's own reference is, without the exercise.
        own = f"{self.config['trees']}/own/{order['exercise']}" if self.is_own else ""
        place = {"lesson": self.lesson, "tree": self.tree, "own": own}
        namespaces, init = self._namespaces(place) if self.namespace_server else ([], 0)
        known = set(_processes())
        user = next(self.users, 0)
        if namespaces:
            # Only for children: the next one lives in the new process namespace, this process stays where it is.
            linux.setns(namespaces[-1], linux.NEWPID)
        worker = os.fork()
        if worker == 0:
            if own and not namespaces:
                importlib.import_module("solutions").__path__.insert(0, own)
            _alone(lambda: _work(self.config, data, namespaces, user), keep=[*data, *namespaces])
        for descriptor in (*namespaces, *data):
            os.close(descriptor)
        try:
            return self._watch(worker, status, lambda: self._processes_of(worker, user, known))
        finally:
            if init:
                _end_namespace(init)
            elif user:
                _end_user(user)
            else:
                for number in set(_processes()) - known if self.config["private"] else ():
                    with contextlib.suppress(OSError):
                        os.kill(number, signal.SIGKILL)
                with contextlib.suppress(OSError):
                    os.killpg(worker, signal.SIGKILL)

    def _namespaces(self, place: dict[str, Any]) -> tuple[list[int], int]:
        assert self.namespace_server is not None
        self.namespace_server.send(json.dumps(place).encode())
        message, descriptors, _, _ = socket.recv_fds(self.namespace_server, MESSAGE, len(linux.NAMESPACES))
        answer = json.loads(message)
        if "error" in answer:
            raise OSError(answer["error"])
        return list(descriptors), answer["init"]

    def _processes_of(self, worker: int, user: int, known: set[int]) -> set[int]:
        """A worker and what it has started. Without a process namespace others start processes as well."""
        found = set(_processes()) - known
        return found if self.config["private"] else {one for one in found if _belongs(one, worker, user)}

    def _watch(self, worker: int, status: int, processes: Callable[[], set[int]]) -> dict[str, Any]:
        """Wait for the worker's end, or for the trusted side to hang up; keep an eye on its memory meanwhile."""
        limit = self.config["limits"]["memory_mb"] * 2**20
        handle = os.pidfd_open(worker)
        watcher = select.poll()
        watcher.register(handle, select.POLLIN)
        watcher.register(status, select.POLLIN | select.POLLHUP)
        memory = False
        while True:
            ready = watcher.poll(100)
            if ready:
                break
            found = processes()
            memory = _memory(found) > limit
            # The kernel counts the processes of every user but root, which a container may have mapped to another.
            if memory or len(found) > self.config["limits"]["processes"]:
                break
        with contextlib.suppress(OSError):
            os.kill(worker, signal.SIGKILL if memory or all(fd != handle for fd, _ in ready) else 0)
        _, code = os.waitpid(worker, 0)
        os.close(handle)
        killed = os.WTERMSIG(code) if os.WIFSIGNALED(code) else 0
        return {"exit": os.WEXITSTATUS(code) if os.WIFEXITED(code) else None, "signal": killed, "memory": memory}


def _end_namespace(init: int) -> None:
    """Kill its first process, and wait: that one goes last, so then nothing of a fork bomb is in the next one's way."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(init)
        os.kill(init, signal.SIGKILL)
        watcher = select.poll()
        watcher.register(handle, select.POLLIN)
        watcher.poll(10_000)
        os.close(handle)


def _end_user(user: int) -> None:
    """Kill all of a user's processes, and remove what it has left."""
    killer = os.fork()
    if killer == 0:
        try:
            linux.become(user)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(killer, 0)
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        with contextlib.suppress(OSError, RecursionError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.stat(follow_symlinks=False).st_uid == user:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    shutil.rmtree(entry.path, ignore_errors=True) if is_folder else os.unlink(entry.path)


def _belongs(process: int, worker: int, user: int) -> bool:
    """By its user if it has one of its own, or else by its session."""
    with contextlib.suppress(OSError, ValueError):
        if not user:
            return os.getsid(process) == worker
        with open(f"/proc/{process}/status", encoding="utf-8", errors="replace") as file:
            return any(line.split()[1] == str(user) for line in file if line.startswith("Uid:"))
    return False


def _processes() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _memory(processes: set[int]) -> int:
    """Bytes that these processes have taken since they were forked, about."""
    with open("/proc/self/statm", encoding="ascii") as file:
        base = int(file.read().split()[1])
    total = 0
    for number in processes:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{number}/statm", encoding="ascii") as file:
                total += max(0, int(file.read().split()[1]) - base)
    return total * resource.getpagesize()


def _work(config: dict[str, Any], data: list[int], namespaces: list[int], user: int) -> None:
    """Be a worker."""
    # A signal to its own group must not reach the zygotes, which are in other namespaces but in one group.
    os.setsid()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(FIRST))
    if config["core"] is not None:
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setaffinity(0, {config["core"]})
    if user:
        linux.become(user)
        linux.die_with_parent()
    if namespaces:
        for descriptor, (name, kind) in zip(namespaces, linux.NAMESPACES.items(), strict=True):
            if name != "pid":
                linux.setns(descriptor, kind)
        linux.close_all_but(data)
        os.chdir("/")
        home = HOME
    else:
        home = tempfile.mkdtemp(prefix=f"ppo-student-{os.getpid()}-")
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    _limit(config["limits"])
    if namespaces:
        linux.drop_capabilities()
    if config["private"]:
        linux.forbid_calls()
    else:
        with contextlib.suppress(OSError, AttributeError):
            linux.forbid_calls()
    linux.dumpable(True)
    os.environ.clear()
    os.environ.update(config["environment"], HOME=home, TMPDIR=home if not namespaces else "/tmp")
    os.chdir(home)
    sys.argv = ["worker"]
    try:
        _answer(*(socket.socket(fileno=number) for number in data), home=Path(home))
    finally:
        if not namespaces:
            os.chdir("/")
            shutil.rmtree(home, ignore_errors=True)


def _limit(limits: dict[str, int]) -> None:
    with open("/proc/self/statm", encoding="ascii") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    bounds = {
        resource.RLIMIT_AS: held + limits["memory_mb"] * 2**20,
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
    """Write the student's files, then answer one request after the other until the trusted side has had enough.

    A scenario's questions about what is behind a request go over the link; the worker that answers them has no files.
    """
    from testcases.harness.execution import executor, wire

    _, (questions,), _, _ = socket.recv_fds(channel, 1, 1)
    channel.send(b"w")
    header, body = wire.receive(channel)
    folder = home / "tutorial"
    _write(folder, header["files"], body)
    line = wire.Line(link).ask if link else None
    terms = executor.Terms(handed=lambda tensor: tensor, load_seconds=header["import_seconds"], line=line)
    evaluator = executor.student(folder, terms=terms, whole=False)
    # From here on the clock of a call is the student's alone.
    wire.send(channel, {"ready": True})
    while True:
        header, body = wire.receive(channel)
        if header.get("settle"):
            wire.send(channel, {"id": header["id"], "settle": True})
            continue
        if header.get("behind"):
            _, (other,), _, _ = socket.recv_fds(channel, 1, 1)
            behind = executor.behind_of(wire.unpack_request(header["behind"], body))
            with socket.socket(fileno=other) as asking:
                wire.Line(asking).answer_all(behind.answer)
            wire.send(channel, {"id": header["id"], "said": behind.said})
            continue
        if header.get("load"):
            wire.send(channel, {"id": header["id"], "loaded": evaluator.load(*header["load"])})
            continue
        place: Any = body
        if header["place"]:
            start, size = header["place"]
            place = mmap.mmap(questions, size, offset=start)
        outcome = evaluator.evaluate(wire.unpack_request(header["request"], place))
        try:
            answer, packed = wire.pack_outcome(outcome)
        except (TypeError, ValueError, RuntimeError) as error:
            raise SystemExit(3) from error
        wire.send(channel, {"id": header["id"], "outcome": answer}, packed)


def _write(folder: Path, files: Any, body: Any) -> None:
    """The files, which stand one behind the other in a message."""
    start = 0
    for path, size in files:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body[start : start + size])
        start += size


if __name__ == "__main__":
    main()
