"""Starts the far side of the wall: one sandbox a submission, which shows the interpreter and nothing of the course.

Its command line is setpriv (as root: another user) -> prlimit -> bwrap: no network, own processes, an empty
environment, read-only mounts, no rights. Without bubblewrap a worker is another user, where that is possible.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import site
import socket
import stat
import subprocess
import sys
import sysconfig
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from testcases.harness.catalog import ROOT, lesson_names

from .staging import HEAVY, HEAVY_MODULES

GUEST = Path(__file__).with_name("guest")
"""What runs there."""
INSTALL = (
    "expected bubblewrap (the program bwrap), which keeps the code of students apart, and found none that works"
    "{why}. {advice}. To grade only your own code without any protection: make check SANDBOX=none"
)
TO_INSTALL = "Debian and Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap; Arch: pacman -S bubblewrap"
TO_ALLOW = (
    "In a container, run it as an ordinary user, with docker run --security-opt seccomp=unconfined --security-opt "
    "apparmor=unconfined --security-opt systempaths=unconfined (podman: seccomp=unconfined and unmask=ALL). On Ubuntu "
    "from 23.10 on: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
)
"""Where it is there, and may not make namespaces, or mount a whole /proc."""
TORCH = str(find_spec("torch").origin)  # type: ignore[union-attr]
WORKER_USERS = range(61_184, 65_280)
"""As root: the users that workers become, another one in each process of the grader."""
WRITABLE = ("/tmp", "/dev/shm", "/home/student")
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "ACCELERATE_USE_CPU": "true",
    "TOKENIZERS_PARALLELISM": "false",
    # A compiler has no place in a sandbox: without it torch.compile gives the function back, with the same answers.
    "TORCHDYNAMO_DISABLE": "1",
}


HOLDS = (
    "its code ran as another user, which had no network and could not write to the course or to these results, but it "
    "could see the machine's processes and whatever every user can read (chmod go-rwx on the course closes its "
    "solutions), fill /tmp, and take more than its share of memory"
)
NOTHING = (
    "this code could have changed its own marks, and everything else on this machine (it runs as another user where "
    "make check is root's and every user can read the Python that runs it)"
)


@dataclass(frozen=True)
class Limits:
    """What student code may use: of one worker, one exercise, one submission."""

    call_seconds: float = 30.0
    """At most, for one call; suites ask for less."""
    grace_seconds: float = 2.0
    """Beyond which a call that cannot be interrupted is ended from outside."""
    load_seconds: float = 120.0
    """For starting a worker. No student's code runs yet, but a neighbor's may."""
    import_seconds: float = 15.0
    """For what a student's files import, on top of the calls; for all calls of one worker together."""
    exercise_seconds: float = 60.0
    """For all calls of one exercise together."""
    lesson_seconds: float = 180.0
    """For all calls of one lesson together."""
    submission_seconds: float = 600.0
    """For all calls of one submission together."""
    ends: int = 2
    """After so many late or dead workers an exercise is asked nothing more. The other exercises go on."""
    memory_mb: int = 2048
    """On top of what torch holds; for each process, and for all together."""
    tmp_mb: int = 64
    file_mb: int = 32
    processes: int = 64
    """Processes and threads."""


class NoSandbox(ValueError):
    """bubblewrap is missing or does not work here; the text says what to do."""


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
            raise WorkerError(f"the sandbox does not answer: {error}") from error
        finally:
            theirs.close()
            their_status.close()

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


def command_line(command: list[str], binds: list[tuple[str, str]], limits: Limits, *more: str) -> list[str]:
    """The command line that runs `command` in a sandbox which shows the interpreter and `binds`, each source and place.

    Args:
        more: further options of bwrap.
    """
    binds = [(path, path) for path in interpreter_folders()] + binds
    start = ["prlimit", "--core=0", f"--fsize={limits.file_mb * 2**20}", "--nofile=1024"]
    if os.geteuid() == 0:
        # Whoever is root outside could change the settings of the kernel and the modes of devices from inside.
        user = str(WORKER_USERS[os.getpid() % len(WORKER_USERS)])
        leave = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
        shown, binds = _for_another_user(binds)
        start = [*shown, *leave, *start, f"--nproc={limits.processes + 256}"]
    box = ["bwrap", "--unshare-all", "--unshare-user", "--as-pid-1", "--die-with-parent", "--new-session"]
    box += ["--cap-drop", "ALL", *more]
    box += ["--clearenv", *(word for key, value in ENVIRONMENT.items() for word in ("--setenv", key, value))]
    for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(path):
            box += ["--symlink", os.readlink(path), path]
    size = str(limits.tmp_mb * 2**20)
    box += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    for place in WRITABLE:
        box += ["--size", size, "--tmpfs", place]
    # After these, since an interpreter may be below /home or /tmp.
    for source, place in binds:
        box += ["--ro-bind", source, place]
    for place in hidden():
        box += ["--tmpfs", place]
    return [*start, *box, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--", *command]


def _for_another_user(binds: list[tuple[str, str]]) -> tuple[list[str], list[tuple[str, str]]]:
    """Folders that only root can reach, such as an interpreter below /root, where another user can; as root, first."""
    if all(is_open(source) for source, _ in binds):
        return [], binds
    lines, found = ["mount -t tmpfs -o mode=755 tmpfs /mnt"], []
    for number, (source, place) in enumerate(binds):
        made = "mkdir" if os.path.isdir(source) else "touch"
        lines.append(f"{made} /mnt/{number} && mount --rbind {shlex.quote(source)} /mnt/{number}")
        found.append((f"/mnt/{number}", place))
    script = " && ".join(lines) + ' && exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"], found


def is_open(path: str) -> bool:
    """Whether every user can come there and read it."""
    place = Path(os.path.realpath(path))
    wanted = stat.S_IROTH | (stat.S_IXOTH if place.is_dir() else 0)
    return place.stat().st_mode & wanted == wanted and all(
        above.stat().st_mode & stat.S_IXOTH for above in place.parents
    )


def interpreter_folders() -> list[str]:
    """What Python and torch need, and nothing of the rest of the machine."""
    wanted = ["/usr", *(path for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64") if not os.path.islink(path))]
    wanted += ["/etc/ld.so.cache", sys.base_prefix, sys.prefix, sysconfig.get_paths()["stdlib"]]
    wanted += [*site.getsitepackages(), str(Path(TORCH).parents[1])]
    real = os.path.realpath(sys.executable)
    found: list[str] = []
    for path in [*map(os.path.abspath, wanted), *([] if real.startswith("/usr/") else [os.path.dirname(real)])]:
        inside = any(path == other or _is_below(path, other) for other in found)
        if os.path.exists(path) and path != "/" and not inside:
            found.append(path)
    return found


def hidden() -> list[str]:
    """Where the course is in what is shown: installed, as an editable one in .venv/src, in another environment, or this
    one, at a place such as /usr/src/ppo. Whoever can read it has the solution of every lesson."""
    return _courses_below(tuple(interpreter_folders()), ROOT)


@cache
def _courses_below(tops: tuple[str, ...], own: Path) -> list[str]:
    command = ["find", *tops, "-type", "d", "(", "-name", "ppo_by_hand", "-o", "-name", lesson_names()[0], ")"]
    names = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", check=False).stdout
    found = {path if path.endswith("/ppo_by_hand") else os.path.dirname(path) for path in names.splitlines()}
    if any(_is_below(str(own), top) for top in tops):
        found |= {str(path) for path in own.iterdir() if path.is_dir() and not path.is_symlink()}
    needed = [os.path.abspath(path) for path in (sys.prefix, sys.base_prefix, TORCH)]
    found = {path for path in found if not any(path == one or _is_below(one, path) for one in needed)}
    return sorted(path for path in found if not any(_is_below(path, other) for other in found))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder + "/")


def check_sandbox(kind: str) -> None:
    """Raises NoSandbox: workers cannot run here in this kind of sandbox."""
    if sys.platform != "linux":
        raise NoSandbox(
            "make check needs Linux, or a Linux container such as testcases/grader/ready/Containerfile; pytest tests "
            "your own lessons on any system"
        )
    if kind == "bwrap":
        check_bubblewrap()


@cache
def check_bubblewrap() -> tuple[str, ...]:
    """The options that bwrap takes here beside those that it must.

    Raises:
        NoSandbox: it is missing, or may not make namespaces here.
    """
    missing = [name for name in ("bwrap", "prlimit", "setpriv") if not shutil.which(name)]
    said = ""
    for more in (("--disable-userns",), ()) if not missing else ():  # bubblewrap before 0.8 cannot.
        done = run_in_it(["true"], *more)
        if done.returncode == 0:
            return more
        said = f" (it says: {done.stderr.strip()[:300]})"
    why = f"{said} (missing: {', '.join(missing)})" if missing else said
    raise NoSandbox(INSTALL.format(why=why, advice=TO_INSTALL if missing else TO_ALLOW))


def run_in_it(command: list[str], *more: str) -> subprocess.CompletedProcess[str]:
    line = command_line(command, [], Limits(), *more)
    try:
        return subprocess.run(line, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def another_user(number: int = 0) -> int:
    """Whom this process's workers become, another one for each of its sandboxes; 0 where that is not possible."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not all(map(is_open, interpreter_folders())):
        return 0
    return WORKER_USERS[(2 * os.getpid() + number) % len(WORKER_USERS)]


def what_holds() -> str:
    """What protects the instructor from a submission, and what does not."""
    return HOLDS if another_user() else NOTHING
