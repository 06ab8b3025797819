"""The command line of a sandbox: setpriv (as root: another user) -> prlimit -> bwrap, and whether it works here.

No network, own processes, an empty environment, read-only mounts of the interpreter, no rights.
"""

import os
import re
import shlex
import shutil
import site
import stat
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

import torch

from testcases.harness.catalog import ROOT, lesson_names

from .limits import Limits

INSTALL = (
    "expected bubblewrap (the program bwrap), which keeps the code of students apart, and found none that works"
    "{why}. {advice}. To grade only your own code without any protection: make check SANDBOX=none"
)
TO_INSTALL = (
    "Debian and Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap; Arch: pacman -S bubblewrap. Elsewhere "
    "(macOS, Windows) use a Linux container or machine"
)
ADVICE = {
    "No permissions to create new namespace|Creating new namespace failed|Failed RTM_NEWADDR|setting up uid map": (
        "What is missing here are user namespaces. In a container: docker run --security-opt seccomp=unconfined "
        "--security-opt apparmor=unconfined. On Ubuntu from 23.10 on: "
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    ),
    "Can't mount proc": (
        "What is missing here is a whole /proc, parts of which a container hides. Docker: --security-opt "
        "systempaths=unconfined; podman: --security-opt unmask=ALL"
    ),
}
"""What bwrap says -> what is missing, and what gives it."""
SYS_ADMIN, SETUID = 21, 7
"""Numbers of capabilities: to mount something, and to become another user."""
INSIDE = "1000"
"""Who a root without rights to mount is in the sandbox: the kernel lets nobody map root twice."""
WORKER_USERS = range(61_184, 65_280)
"""As root: the users that workers become, another one in each process of the grader."""
WRITABLE = ("/tmp", "/home")
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


class NoSandbox(Exception):
    """bubblewrap is missing or does not work here; the text says what to do."""


def command_line(command: list[str], course: list[tuple[str, str]], limits: Limits, nested: bool = True) -> list[str]:
    """The command line that runs `command` in a sandbox which shows `course` (pairs of source and place)."""
    prelude, binds, mapped = _as_worker([(path, path) for path in interpreter_folders()] + course, limits)
    box = ["bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    box += mapped
    box += ["--clearenv", *(word for key, value in ENVIRONMENT.items() for word in ("--setenv", key, value))]
    box += [] if nested else ["--disable-userns"]
    for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(path):
            box += ["--symlink", os.readlink(path), path]
    size = str(limits.tmp_mb * 2**20)
    box += ["--proc", "/proc", "--dev", "/dev"]
    for place in (*WRITABLE, "/dev/shm"):
        box += ["--size", size, "--tmpfs", place]
    # After these, since an interpreter may be below /home or /tmp.
    for source, place in binds:
        box += ["--ro-bind", source, place]
    for place in (*installed(), *beside_the_interpreter()):
        box += ["--tmpfs", place]
    return [*prelude, *box, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--", *command]


def _as_worker(binds: list[tuple[str, str]], limits: Limits) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """What stands before bwrap, so that nobody with rights runs it; where the folders are then; more options of it."""
    bounds = ["prlimit", "--core=0", f"--fsize={limits.file_mb * 2**20}", "--nofile=1024"]
    if os.geteuid() != 0:
        return bounds, binds, []
    user = str(WORKER_USERS[os.getpid() % len(WORKER_USERS)])
    leave = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs", *bounds]
    leave += [f"--nproc={limits.processes + 256}"]
    if not _capable(SYS_ADMIN):
        # Root of a container, who may mount nothing: the way of an ordinary user, and as one if that can read all.
        if _capable(SETUID) and all(is_open(source) for source, _ in binds):
            return leave, binds, []
        return bounds, binds, ["--uid", INSIDE, "--gid", INSIDE]
    # Another user may not reach the folders (an interpreter below /root): bind them where it can, as root, first.
    lines = ["mount -t tmpfs -o mode=755 tmpfs /mnt"]
    for number, (source, _) in enumerate(binds):
        quoted, place = shlex.quote(source), f"/mnt/{number}"
        if os.path.isdir(source):
            lines.append(f"mkdir {place} && mount --rbind {quoted} {place}")
        else:
            lines.append(f"touch {place} && mount --bind {quoted} {place}")
    bound = [(f"/mnt/{number}", place) for number, (_, place) in enumerate(binds)]
    first = ["unshare", "--mount", "--propagation", "private", "sh", "-c", " && ".join(lines) + ' && exec "$@"', "sh"]
    return [*first, *leave], bound, []


def _capable(number: int) -> bool:
    """Whether this process has a capability. Root of a container lacks most of them."""
    text = Path("/proc/self/status").read_text("ascii", "replace")
    return bool(int(text.partition("CapEff:")[2].split()[0], 16) >> number & 1)


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
    wanted += [*site.getsitepackages(), str(Path(torch.__file__).parents[1])]
    real = os.path.realpath(sys.executable)
    found: list[str] = []
    for path in [*map(os.path.abspath, wanted), *([] if real.startswith("/usr/") else [os.path.dirname(real)])]:
        inside = any(path == other or _is_below(path, other) for other in found)
        if os.path.exists(path) and path != "/" and not inside:
            found.append(path)
    return found


def installed() -> list[str]:
    """Where the course is in what is shown, installed, as an editable one in .venv/src, or in another environment:
    whoever can read it has the solution of every lesson."""
    return _courses_below(tuple(interpreter_folders()))


@cache
def _courses_below(tops: tuple[str, ...]) -> list[str]:
    needed = [os.path.abspath(path) for path in (sys.prefix, sys.base_prefix, torch.__file__)]
    command = ["find", *tops, "-type", "d", "(", "-name", "ppo_by_hand", "-o", "-name", lesson_names()[0], ")"]
    names = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", check=False).stdout
    found = {path if path.endswith("/ppo_by_hand") else os.path.dirname(path) for path in names.splitlines()}
    found = {path for path in found if not any(path == one or _is_below(one, path) for one in needed)}
    return sorted(path for path in found if not any(_is_below(path, other) for other in found))


def beside_the_interpreter() -> list[str]:
    """The folders of a course that lies in what is shown, such as /usr/src/ppo, but for what holds the interpreter."""
    shown = interpreter_folders()
    if not any(_is_below(str(ROOT), top) for top in shown):
        return []
    needed = [os.path.abspath(path) for path in (sys.prefix, sys.base_prefix, torch.__file__)]
    folders = [str(path) for path in sorted(ROOT.iterdir()) if path.is_dir() and not path.is_symlink()]
    return [one for one in folders if not any(path == one or _is_below(path, one) for path in needed)]


def kept_below(places: tuple[str, ...]) -> dict[str, list[str]]:
    """Place -> what of the interpreter is in it, which an empty folder over it must not hide."""
    return {place: [path for path in interpreter_folders() if _is_below(path, place)] for place in places}


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder + "/")


_probe: dict[str, str | bool] = {}


def check_bubblewrap() -> None:
    """Raises NoSandbox: it is missing, or may not make namespaces here."""
    if "why" not in _probe:
        why = ""
        missing = [name for name in ("bwrap", "prlimit", "setpriv", "unshare") if not shutil.which(name)]
        if "bwrap" not in missing:
            done = _try(["true"], nested=False)
            why = "" if done.returncode == 0 else f" (it says: {done.stderr.strip()[:300]})"
        elif sys.platform != "linux":
            why = f" (this is {sys.platform})"
        _probe["why"] = why if not missing else f"{why} (missing: {', '.join(missing)})"
    if why := str(_probe["why"]):
        advice = next((advice for said, advice in ADVICE.items() if re.search(said, why)), TO_INSTALL)
        raise NoSandbox(INSTALL.format(why=why, advice=advice))


def nested_works() -> bool:
    """Whether namespaces can be made inside bwrap, with a /proc of their own."""
    if "nested" not in _probe:
        script = "unshare --user --map-current-user --mount --pid --mount-proc --ipc --net --uts --fork true"
        _probe["nested"] = _try(["sh", "-c", script], nested=True).returncode == 0
    return bool(_probe["nested"])


def _try(command: list[str], nested: bool) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command_line(command, [], Limits(), nested=nested), capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
