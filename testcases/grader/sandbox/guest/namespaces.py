"""Makes a fresh set of namespaces for each worker: a tiny process in the sandbox, so that a fork is cheap."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import time
from typing import Any

import linux

HOME = "/home/student"
MESSAGE = 60_000


class Nursery:
    """Makes namespaces: a user without rights, mounts, shared memory, processes."""

    def __init__(self, channel: socket.socket, config: dict[str, Any]) -> None:
        self.channel, self.config = channel, config
        self.uid, self.gid = os.getuid(), os.getgid()

    def serve(self) -> None:
        linux.dumpable(False)
        while message := self.channel.recv(MESSAGE):
            if os.fork() == 0:
                self._make(json.loads(message))

    def _make(self, place: dict[str, Any]) -> None:
        """Answer with the namespaces, the number of the first process in them, or with what went wrong."""
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            descriptors, init = self._enter(place)
            socket.send_fds(self.channel, [json.dumps({"init": init}).encode()], descriptors)
        except BaseException as error:
            self.channel.send(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        finally:
            os._exit(0)

    def _enter(self, place: dict[str, Any]) -> tuple[list[int], int]:
        linux.dumpable(True)
        resource.setrlimit(resource.RLIMIT_NPROC, (self.config["limits"]["processes"],) * 2)
        linux.unshare(sum(linux.NAMESPACES.values()))
        linux.map_user(self.uid, self.gid)
        self._furnish(place)
        with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as file:
            file.write("0")
        ready, theirs = socket.socketpair()
        init = os.fork()
        if init == 0:
            self._be_init(theirs)
        theirs.close()
        # Before the other mounts its /proc, in which this process is not.
        names = [name if name != "pid" else "pid_for_children" for name in linux.NAMESPACES]
        descriptors = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in names]
        ready.send(b"g")
        if ready.recv(1) != b"r":
            raise OSError("the first process of the namespace died")
        return descriptors, init

    def _furnish(self, place: dict[str, Any]) -> None:
        """The course with one lesson's tree, and empty folders of a bounded size; everything else read-only."""
        linux.mount("", "/", "", linux.REC | linux.PRIVATE)
        size = self.config["limits"]["tmp_mb"]
        trees, tree = self.config["trees"], place["tree"]
        if place["own"]:
            linux.bind(f"{place['own']}/{place['lesson']}", f"{tree}/solutions/{place['lesson']}")
        _cover(trees, [tree], 1, "755")
        linux.read_only(trees)
        for writable, kept in self.config["writable"].items():
            _cover(writable, kept, size, "1777")
        os.mkdir(HOME)
        if os.path.isdir("/dev/shm"):
            _cover("/dev/shm", [], size, "1777")

    def _be_init(self, ready: socket.socket) -> None:
        """Process 1 of the namespace: when it ends, the kernel ends all others."""
        ready.recv(1)
        linux.mount("proc", "/proc", "proc", linux.NOSUID | linux.NODEV | linux.NOEXEC)
        linux.drop_capabilities()
        linux.dumpable(False)
        ready.send(b"r")
        linux.close_all_but([])
        for number in (0, 1, 2):
            with contextlib.suppress(OSError):
                os.close(number)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        while True:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                time.sleep(0.5)


def _cover(place: str, kept: list[str], megabytes: int, mode: str) -> None:
    """An empty folder in memory over another, in which only these folders stay, read-only."""
    handles = {folder: os.open(folder, os.O_PATH) for folder in kept}
    linux.tmpfs(place, megabytes, mode)
    for folder, handle in handles.items():
        os.makedirs(folder)
        linux.bind(f"/proc/self/fd/{handle}", folder)
        os.close(handle)
