"""Starts the far side of the wall: a sandbox that shows the interpreter and the course without its suites.

In it worker.py makes fresh namespaces for each worker. Where namespaces inside bwrap are forbidden, each worker gets a
bwrap of its own, which is slow.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import users
from .bubblewrap import ENVIRONMENT, WRITABLE, command_line, kept_below, nested_works
from .cores import Core
from .limits import Limits

COURSE = "/course"
WORKER = ("worker.py", "namespaces.py", "linux.py")
"""What a worker runs, beside the trees of the lessons."""


class WorkerError(Exception):
    """The sandbox itself failed: the grader's fault, or the machine's."""


@dataclass(frozen=True)
class Course:
    """What a worker may see of the course."""

    folder: Path
    heavy: frozenset[str]
    """Lessons that import more than torch."""
    modules: tuple[str, ...]
    """What they import."""
    own: frozenset[str]
    """Lessons whose scenarios use the reference of the lesson itself."""
    apart: frozenset[str]
    """Lessons of which each exercise has a process of its own: those, and where one file could change another's."""
    bare: str
    """The tree in which nothing is solved."""


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
        self.users = users.users() if kind == "none" else []
        self._copy: Path | None = None
        self.core = Core(course.folder.parent)
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def begin(self) -> None:
        """The next submission."""
        self.failures, self.spent = 0, 0.0

    def open(
        self, lesson: str, exercise: str, tree: str = "", link: socket.socket | None = None
    ) -> tuple[socket.socket, socket.socket]:
        """A fresh worker: the channel for frames, and the one that tells how it ended; closing the latter ends it.

        Args:
            tree: what it sees of the course; the lesson's own if left out.
            link: its way to another worker.

        Raises:
            WorkerError: there is none.
        """
        for attempt in range(2):
            try:
                alive = self._process is not None and self._process.poll() is None
                if not alive or (self.kind == "bwrap" and not self.nested):
                    self._start(tree or lesson, lesson, exercise)
                assert self._control is not None
                data, theirs = socket.socketpair()
                status, their_status = socket.socketpair()
                order = {"lesson": lesson, "exercise": exercise, "tree": tree or lesson}
                try:
                    self._control.settimeout(self.limits.load_seconds)
                    descriptors = [theirs.fileno(), their_status.fileno(), *([link.fileno()] if link else [])]
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

    def _start(self, tree: str, lesson: str, exercise: str) -> None:
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        nested, private = self.nested, self.kind == "bwrap"
        config = self._config()
        worker = f"{config['trees']}/worker.py"
        command = [sys.executable, "-P", "-s", "-B", worker, str(theirs.fileno()), json.dumps(config)]
        if private:
            course = [(str(self._folder()), COURSE)]
            if not nested:
                names = [*WORKER, tree, *([f"own/{exercise}"] if lesson in self.course.own else [])]
                course = [(f"{self._folder()}/{name}", f"{COURSE}/{name}") for name in names]
            command = command_line(command, course, self.limits, nested)
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

    def _folder(self) -> Path:
        if self.users and self._copy is None:
            self._copy = users.open_copy(self.course.folder)
        return self._copy or self.course.folder

    def _config(self) -> dict[str, Any]:
        """What worker.py is told."""
        private = self.kind == "bwrap"
        return {
            "trees": COURSE if private else str(self._folder()),
            "users": self.users,
            "run": run_of(self.course.folder),
            "nested": self.nested,
            "core": self.core.number,
            "private": private,
            "limits": asdict(self.limits),
            "heavy": sorted(self.course.heavy),
            "own": sorted(self.course.own),
            "modules": self.course.modules,
            "environment": ENVIRONMENT,
            "writable": kept_below(WRITABLE),
        }

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
        self.core.close()
        if self._copy:
            shutil.rmtree(self._copy.parent, ignore_errors=True)


def run_of(folder: Path) -> str:
    """A name for all processes of one run, which says nothing about the machine."""
    return hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
