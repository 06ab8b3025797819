"""How long a worker works on a question, and what it finds in memory: both as seen from outside."""

import fcntl
import os
import socket
import struct
import time
from collections.abc import Callable

from testcases.harness.execution.executor import PATIENCE

_CREDENTIALS = struct.Struct("3i")
_ADD_SEALS, _SEALS = 1033, 1 | 2 | 4
"""Nobody may seal it otherwise, make it smaller or larger."""


def within(seconds: float) -> Callable[[], float]:
    """A deadline that does not move."""
    end = time.monotonic() + seconds
    return lambda: end - time.monotonic()


def waited(process: int | None) -> float:
    """The seconds that a process has been ready to run, and did not; 0 where the kernel does not say."""
    try:
        with open(f"/proc/{process}/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Clock:
    """Of one question: the time that the worker waits for a core is not its own.

    Args:
        process: the worker's number, None if it is not known.
        seconds: of its own time.
    """

    def __init__(self, process: int | None, seconds: float) -> None:
        self._process, self._seconds = process, seconds
        self._started, self._waited = time.monotonic(), waited(process)

    def left(self) -> float:
        least = self._seconds - self.wall()
        if least > 0:  # It has waited for nothing at worst; the kernel is asked only where that matters.
            return max(least, 0.05)
        left = min(self._seconds - self.own(), PATIENCE * self._seconds - self.wall())
        return left if left <= 0 else max(left, 0.05)

    def own(self) -> float:
        return self.wall() - max(0.0, waited(self._process) - self._waited)

    def wall(self) -> float:
        return time.monotonic() - self._started


class Handed:
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


def shake_hands(channel: socket.socket, handed: Handed, left: Callable[[], float]) -> int | None:
    """Give a new worker its memory; the number of its process, from the kernel.

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
            return _CREDENTIALS.unpack(data[: _CREDENTIALS.size])[0] or None
    return None
