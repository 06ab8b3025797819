"""A core for each sandbox, while there are some: one submission's processes take no time from another's."""

import fcntl
import os
from pathlib import Path
from typing import IO


class Core:
    """A core for one sandbox, so that its submission's processes stay off the others; shared once all are taken."""

    def __init__(self, folder: Path) -> None:
        self.number: int | None = None
        self._lock: IO[str] | None = None
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        if len(cores) < 2:
            return
        self.number = cores[os.getpid() % len(cores)]
        for core in cores:
            file = open(folder / f"core-{core}", "w", encoding="ascii")  # noqa: SIM115  Held as long as the lock.
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                continue
            self.number, self._lock = core, file
            return

    def close(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None
