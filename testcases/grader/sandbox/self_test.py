"""make check-sandbox: try each protection on this machine, and say which ones hold.

python -m testcases.grader.sandbox.self_test
"""

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from testcases.harness import Request
from testcases.harness.catalog import ROOT
from testcases.harness.execution import Outcome, StudentError

from . import bubblewrap, cgroups, sandbox, staging, users
from .limits import Limits
from .worker_client import SandboxEvaluator

SECRET = "GRADER_SECRET"
LESSON, EXERCISE = "lesson04_gae", "td_errors"
ARGUMENTS = "rewards, values, dones, gamma=0.99"

TRIALS: list[tuple[str, str, str]] = [
    (
        "no network",
        "a connection to the world",
        "import socket\nsocket.create_connection(('1.1.1.1', 53), 2)\nreturn 'connected'",
    ),
    (
        "processes of others cannot be seen",
        "all processes in /proc",
        "import os\nfound = [n for n in os.listdir('/proc') if n.isdigit()]\nassert len(found) > 3\nreturn len(found)",
    ),
    ("an environment without secrets", "a variable of the grader's", f"import os\nreturn os.environ['{SECRET}']"),
    (
        "files of the machine out of reach",
        "/etc/passwd and the home of the user",
        "import os\nfound = [p for p in ('/etc/passwd', '{home}/{marker}') if os.path.exists(p)]\n"
        "assert found\nreturn found",
    ),
    (
        "suites and points out of reach",
        "answers.py and basic_test.py",
        "import os\nfound = [p for p in ('lesson04_gae/answers.py', 'lesson04_gae/basic_test.py') "
        "if os.path.exists('{root}/testcases/' + p)]\nassert found\nreturn found",
    ),
    (
        "the solution out of reach",
        "the lesson's own reference",
        "import inspect, os\nif os.path.exists('{root}/solutions'):\n    return os.listdir('{root}/solutions')\n"
        "from solutions.lesson04_gae import td_errors as known\n"
        "assert 'NotImplementedError' not in inspect.getsource(known)\nreturn 'read'",
    ),
    (
        "read-only programs",
        "a file beside torch",
        "import os, torch\nopen(os.path.join(torch.__path__[0], 'written'), 'w').close()\n"
        "os.unlink(os.path.join(torch.__path__[0], 'written'))\nreturn 'written'",
    ),
    (
        "a bounded /tmp",
        "300 MB in files",
        "for n in range(30):\n    with open(f'/tmp/{n}', 'wb') as file:\n        file.write(bytes(10**7))\n"
        "return 'written'",
    ),
    (
        "a bounded /dev/shm",
        "300 MB in files",
        "for n in range(30):\n"
        "    with open(f'/dev/shm/grader-check-{n}', 'wb') as file:\n        file.write(bytes(10**7))\n"
        "return 'written'",
    ),
    (
        "bounded files",
        "one of 10 GB",
        "with open('/tmp/x', 'wb') as file:\n    file.truncate(10**10)\nreturn 'written'",
    ),
    ("bounded memory", "10 GB at once", "value = bytearray(10**10)\nreturn len(value)"),
    (
        "no memory that belongs to nobody",
        "a file in memory",
        "import os\nos.close(os.memfd_create('x'))\nreturn 'made'",
    ),
    ("no memory of the kernel's", "a pair of sockets", "import socket\nsocket.socketpair()\nreturn 'made'"),
    (
        "no lock that another worker sees",
        "flock, fcntl and inotify on a program",
        "import ctypes, fcntl\nlibc, file, found = ctypes.CDLL(None), open('/usr/bin/env'), []\n"
        "for call, *rest in ((fcntl.flock, fcntl.LOCK_SH), (fcntl.lockf, fcntl.LOCK_SH), (fcntl.fcntl, 5, bytes(32)),"
        " (fcntl.fcntl, 36, bytes(32)), (fcntl.fcntl, 1024, 0)):\n    try:\n        found.append(call(file, *rest))\n"
        "    except PermissionError:\n        pass\nfound += [1] * (libc.inotify_init1(0) >= 0)\n"
        "if not found:\n    raise PermissionError\nreturn len(found)",
    ),
    (
        "a neighbor's core out of reach",
        "to run on any core",
        "import os\nos.sched_setaffinity(0, range(os.cpu_count()))\nreturn 'made'",
    ),
    (
        "no way to the host of a virtual machine",
        "a vsock socket",
        "import socket\nsocket.socket(40, socket.SOCK_STREAM)\nreturn 'made'",
    ),
    (
        "bounded processes",
        "a thousand children",
        "import os, time\nfor n in range(1000):\n    if os.fork() == 0:\n        time.sleep(20)\n        os._exit(0)\n"
        "return n",
    ),
    (
        "no more namespaces",
        "a user namespace",
        "import ctypes\nif ctypes.CDLL(None).unshare(0x10000000):\n    raise PermissionError\nreturn 'made'",
    ),
    (
        "no rights",
        "the capabilities of the process",
        "for line in open('/proc/self/status'):\n    if line.startswith('CapEff') and int(line.split()[1], 16):\n"
        "        return line\nraise PermissionError",
    ),
    ("another user", "to be root", "import os\nif os.getuid():\n    raise PermissionError\nreturn 'root'"),
    ("no terminal", "/dev/tty", "open('/dev/tty', 'wb').close()\nreturn 'opened'"),
    (
        "nothing stays for the next worker",
        "a file of the worker before",
        "import os\nif os.path.exists('/tmp/left'):\n    return 'found'\n"
        "open('/tmp/left', 'w').close()\nraise LookupError",
    ),
]


def main() -> None:
    import torch
    from rich.console import Console
    from rich.table import Table

    torch.set_num_threads(1)
    console = Console(highlight=False)
    os.environ[SECRET] = "seen"
    kinds = ["bwrap", "none"]
    try:
        bubblewrap.check_bubblewrap()
    except bubblewrap.NoSandbox as error:
        console.print(f"error: {error}", markup=False)
        kinds = ["none"]
    table = Table("protection", "tried", *(f"SANDBOX={kind}" for kind in kinds))
    with tempfile.TemporaryDirectory(prefix="check-") as folder, tempfile.NamedTemporaryFile(dir=Path.home()) as marker:
        os.chmod(folder, 0o755)
        course = staging.lay_out(Path(folder) / "course")
        columns = [_try_all(course, kind, Path(marker.name)) for kind in kinds[:-1]]
        closed = users.close([])
        try:
            columns.append(_try_all(course, "none", Path(marker.name)))
            without = users.said()
        finally:
            users.reopen(closed)
    for (name, tried, _), *found in zip(TRIALS + ENDINGS, *columns, strict=True):
        table.add_row(name, tried, *(HOLDS if holds else HOLDS_NOT for holds in found))
    console.print(table)
    if kinds[0] == "bwrap":
        nested = bubblewrap.nested_works()
        how = "one sandbox, fresh namespaces for each worker" if nested else "a sandbox for each worker (slow)"
        console.print(f"bwrap: {how}; user {'dropped from root' if os.geteuid() == 0 else 'yours'}")
    hierarchy = cgroups.find()
    console.print(hierarchy.said if hierarchy else cgroups.WITHOUT)
    console.print(f"SANDBOX=none: {without}")
    sys.exit(0 if kinds[0] == "bwrap" and all(columns[0]) else 1)


HOLDS, HOLDS_NOT = "[green]holds[/]", "[red]DOES NOT HOLD[/]"
ENDINGS = [
    ("a loop is ended", "while True, with the timer switched off", ""),
    ("a dead worker costs only its answer", "os._exit(0)", ""),
    ("processes left behind are ended", "a daemon", ""),
]


def _try_all(course: sandbox.Course, kind: str, marker: Path) -> list[bool]:
    """One answer a trial: whether the protection holds."""
    limits = replace(Limits(), call_seconds=10.0, memory_mb=1024)
    found = []
    with sandbox.Sandbox(course, kind, limits) as box:
        for _, _, body in TRIALS:
            body = (
                body.replace("{home}", str(marker.parent)).replace("{marker}", marker.name).replace("{root}", str(ROOT))
            )
            if "/tmp/left" in body:
                if kind == "none" and not box.users:
                    found.append(False)
                    continue
                _ask(box, body)
            found.append(_ask(box, body).error is not None)
        for path in Path("/dev/shm").glob("grader-check-*"):
            path.unlink()
        quick = replace(limits, call_seconds=0.5, grace_seconds=0.5)
        box.limits = quick
        loop = "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)\nwhile True:\n    pass"
        found.append((_ask(box, loop).error or _NONE).kind == "timeout")
        box.limits = limits
        found.append((_ask(box, "import os\nos._exit(0)").error or _NONE).kind == "crash")
        name = f"grader-check-{os.getpid()}"
        daemon = (
            "import ctypes, os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
            f"        ctypes.CDLL(None).prctl(15, b'{name[:15]}')\n        time.sleep(30)\n    os._exit(0)\n"
            "time.sleep(0.3)\nreturn 1"
        )
        _ask(box, daemon)
        named = [path for path in Path("/proc").glob("[0-9]*/comm") if _read(path).strip() == name[:15]]
        left = [path for path in named if "(zombie)" not in _read(path.with_name("status"))]
        found.append(not left)
        for path in left:
            os.kill(int(path.parent.name), 9)
    return found


_NONE = StudentError("", "", "")


def _ask(box: sandbox.Sandbox, body: str) -> Outcome:
    import torch

    lines = "\n".join(f"    {line}" for line in body.splitlines())
    source = f"def {EXERCISE}({ARGUMENTS}):\n{lines}\n"
    subject = SandboxEvaluator(box, {f"{LESSON}/gae.py": source.encode()})
    numbers: dict[str, Any] = {name: torch.zeros(2) for name in ("rewards", "values", "dones")}
    try:
        return subject.evaluate(Request(LESSON, EXERCISE, numbers))
    finally:
        subject.finish()


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:
        return ""


if __name__ == "__main__":
    main()
