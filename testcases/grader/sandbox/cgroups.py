"""What one submission may take of the machine, where rlimits do not count: cgroups, or a core of its own.

A worker is put into a group of its own before any student's code runs in it; its children are born there. The group
bounds memory with everything that the kernel holds for it (socket buffers, pipes, files in memory), processes, and its
weight against its neighbors. Version 2 is tried first, then version 1. Which one it is, or why there is none, is said
in one sentence.
"""

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .limits import Limits

MOUNT, SELF = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
HEADROOM_MB = 256
"""Above the limit that a worker's own watch keeps, which can say what happened."""
WITHOUT = "no cgroup is used: memory, processes and time are limited by rlimits, a watch and a core for each sandbox"


@dataclass(frozen=True)
class Hierarchy:
    """Where groups can be made.

    Args:
        version: 1 or 2.
        folders: controller -> the folder in which a group is a folder; in version 2 it is the same one for all.
    """

    version: int
    folders: dict[str, Path]

    @property
    def said(self) -> str:
        return f"cgroup v{self.version} bounds {', '.join(sorted(self.folders))} of each worker"


def find(mount: Path = MOUNT, own: Path = SELF) -> Hierarchy | None:
    """Where this process may make groups: below its own."""
    try:
        lines = [line.split(":", 2) for line in own.read_text("utf-8").splitlines()]
    except OSError:
        return None
    by_names = {names: path.lstrip("/") for _, names, path in lines}
    if "" in by_names and (found := _second(mount, by_names[""])):
        return found
    folders = {}
    for names, path in by_names.items():
        for name in {"memory", "pids", "cpu"} & set(names.split(",")):
            top = mount / names if (mount / names).is_dir() else mount / name
            # Version 1 has no handing on: what lies in a group belongs to whoever made that. In a container the path is
            # that of the host, and the mount shows the container's own group.
            if _writable(top) and (not path or not (top / path).is_dir()):
                folders[name] = top
    return Hierarchy(1, folders) if folders else None


def _second(mount: Path, path: str) -> Hierarchy | None:
    """Groups below our own, if its controllers may be handed on: systemd does so in a scope with Delegate=yes. A group
    with processes in it hands on nothing, so they move into one of their own first.
    """
    folder = mount / path
    if not _writable(folder) or not (folder / "cgroup.controllers").is_file():
        return None
    wanted = {"memory", "pids", "cpu"} & set((folder / "cgroup.controllers").read_text("ascii").split())
    try:
        if wanted - set((folder / "cgroup.subtree_control").read_text("ascii").split()):
            grader = folder / "grader"
            grader.mkdir(exist_ok=True)
            for number in (folder / "cgroup.procs").read_text("ascii").split():
                (grader / "cgroup.procs").write_text(number)
            (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(wanted)))
    except OSError:
        return None
    return Hierarchy(2, dict.fromkeys(wanted, folder)) if wanted else None


class Group:
    """The group of one worker.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, hierarchy: Hierarchy, name: str, limits: Limits) -> None:
        self.folders = {folder / name for folder in hierarchy.folders.values()}
        for folder in self.folders:
            folder.mkdir(exist_ok=True)
        for controller, file, value in _settings(hierarchy.version, limits):
            if controller in hierarchy.folders:
                path = hierarchy.folders[controller] / name / file
                # Swap is accounted for in some kernels only.
                with contextlib.suppress(*(FileNotFoundError,) * ("sw" in file or "oom" in file)):
                    _write(path, value)

    def admit(self, process: int) -> None:
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(process))

    def close(self) -> None:
        """Kill what is in it, and remove it: a group with processes in it cannot be."""
        for folder in self.folders:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    _kill(folder)
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.02)


def _settings(version: int, limits: Limits) -> list[tuple[str, str, str]]:
    """Controller, file and value. A worker weighs as much as one process outside, however many it has."""
    memory, processes = str((limits.memory_mb + HEADROOM_MB) * 2**20), str(limits.processes)
    if version == 2:
        return [
            ("memory", "memory.max", memory),
            ("memory", "memory.swap.max", "0"),
            ("memory", "memory.oom.group", "1"),
            ("pids", "pids.max", processes),
            ("cpu", "cpu.weight", "100"),
        ]
    return [
        ("memory", "memory.limit_in_bytes", memory),
        ("memory", "memory.memsw.limit_in_bytes", memory),
        ("pids", "pids.max", processes),
        ("cpu", "cpu.shares", "1024"),
    ]


def _write(path: Path, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)


def _kill(folder: Path) -> None:
    if (folder / "cgroup.kill").exists():
        _write(folder / "cgroup.kill", "1")
        return
    for number in (folder / "cgroup.procs").read_text("ascii").split():
        os.kill(int(number), 9)


def _writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


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
