"""Two trainers in turn: each waits in its own process until it is told to run a few updates more.

The parent sends a number of updates as one line; the child runs them and answers with one line of JSON. An empty
line or a closed pipe ends the child. So what else the machine does meets both trainers alike.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import torch

ROOT = Path(__file__).parents[2]


class Relay:
    """The child's side: the clock of the updates.

    The first order is awaited before the first update, so that setting up the trainer is not timed.
    """

    def __init__(self) -> None:
        # What the trainer prints goes to stderr, so that the answers have the pipe to themselves.
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._samples: list[dict[str, float]] = []
        self._left = 0
        self._resident = psutil.Process().memory_info().rss / 2**20

    def wait(self) -> None:
        """Wait for an order, then start the clock.

        Raises:
            SystemExit: the parent wants no more.
        """
        order = sys.stdin.readline().strip()
        if not order:
            raise SystemExit(0)
        self._left = int(order)
        self._start_clock()

    def update_done(self) -> None:
        """Note the update that just ended; answer and wait where it was the last of the order."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        self._samples.append({"wall": wall, "cpu": cpu})
        self._left -= 1
        if self._left:
            self._start_clock()
            return
        answer = {
            "samples": self._samples,
            "before_mib": self._resident,
            "peak_mib": _peak_mib(),
            "gpu_mib": torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_initialized() else 0.0,
        }
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()
        self._samples = []
        self.wait()

    def _start_clock(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()


def _peak_mib() -> float:
    """The most this process held. Linux keeps `ru_maxrss` across the start of a program: it would be the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        kib = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(kib) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS: in bytes


class Child:
    """The parent's side: one trainer in its own process.

    Args:
        name: for messages.
        command: what to start.
        threads: CPU threads it may use.
    """

    def __init__(self, name: str, command: list[str], threads: int) -> None:
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self.name = name
        self._said = tempfile.TemporaryFile("w+")  # a pipe that nobody reads would fill up and stop the child
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            cwd=ROOT,
            env=environment,
        )

    def run(self, updates: int) -> dict[str, Any]:
        """Run so many updates more.

        Returns:
            samples: for each update wall and CPU seconds; memory in MiB before the first update and at the peak so far.

        Raises:
            RuntimeError: the child died, with the last lines it said.
        """
        try:
            self._process.stdin.write(f"{updates}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._said.seek(0)
            said = self._said.read().strip().splitlines()[-12:]
            status = self._process.wait(timeout=60)
            raise RuntimeError(
                f"expected {self.name} to run {updates} updates, but it died (status {status}):\n" + "\n".join(said)
            )
        return json.loads(answer)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        """Tell the child to end, and wait until it has; after an error end it."""
        if error[0]:
            self._process.kill()
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
        self._said.close()
