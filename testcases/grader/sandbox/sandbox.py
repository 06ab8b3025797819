"""Starts the far side of the wall: one sandbox a submission, which shows the interpreter and nothing of the course."""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from .bubblewrap import ENVIRONMENT, Limits, another_user, check_bubblewrap, command_line
from .staging import HEAVY, HEAVY_MODULES

GUEST = Path(__file__).with_name("guest")
"""What runs there."""


class WorkerError(Exception):
    """The sandbox itself failed: the grader's fault, or the machine's."""


class Sandbox:
    """Where the workers of one submission are, one after the other.

    Args:
        kind: "bwrap" or "none".
        run: whatever has it in common ends with this run (tests look for what does not).
        number: among those that this process has at once.
    """

    def __init__(self, kind: str, limits: Limits, run: str = "", number: int = 0) -> None:
        self.kind, self.limits, self.run, self.number = kind, limits, run, number
        self.failures = 0
        """How often no worker has started for the submission that is graded now."""
        self.spent = 0.0
        """The seconds that its calls have taken so far."""
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def open(self, lesson: str, link: socket.socket | None = None) -> tuple[socket.socket, socket.socket]:
        """A fresh worker: the channel for frames, and the one that tells how it ended; closing the latter ends it.

        Args:
            link: its way to another worker.

        Raises:
            WorkerError: there is none.
        """
        for attempt in range(2):
            data, theirs = socket.socketpair()
            status, their_status = socket.socketpair()
            try:
                if self._process is None or self._process.poll() is not None:
                    self._start()
                assert self._control is not None
                self._control.settimeout(self.limits.load_seconds)
                order = json.dumps(HEAVY_MODULES if lesson in HEAVY else [])
                links = [link.fileno()] if link else []
                socket.send_fds(self._control, [order.encode()], [theirs.fileno(), *links, their_status.fileno()])
                return data, status
            except OSError as error:
                self.close()
                if attempt:
                    raise WorkerError(f"the sandbox does not answer: {error}") from error
            finally:
                theirs.close()
                their_status.close()
        raise AssertionError

    def _start(self) -> None:
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        private = self.kind == "bwrap"
        config = {
            "private": private,
            "user": 0 if private else another_user(self.number),
            "core": _core(),
            "environment": ENVIRONMENT,
            "limits": asdict(self.limits),
            "run": run_of(self.run),
        }
        worker = f"{'/guest' if private else GUEST}/worker.py"
        command = [sys.executable, "-P", "-s", "-B", worker, str(theirs.fileno()), json.dumps(config)]
        if private:
            command = command_line(command, [(str(GUEST), "/guest")], self.limits, *check_bubblewrap())
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            env=ENVIRONMENT,
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
            self._process.wait()
            if self._process.stderr:
                self._process.stderr.close()
            self._process = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def run_of(name: str) -> str:
    """A name for all processes of one run, which says nothing about the machine."""
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def _core() -> int | None:
    """Of the cores, one for the workers of each process of the pool, so that a submission's stay off the others'."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    number = re.search(r"\d+$", multiprocessing.current_process().name)
    return cores[int(number[0]) % len(cores)] if number and len(cores) > 1 else None
