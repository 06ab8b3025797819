"""The few Linux calls that Python 3.11 does not have. Imports nothing heavy: the smallest process forks fastest."""

import ctypes
import os
import struct

_PDEATHSIG, _DUMPABLE, _SECCOMP, _NO_NEW_PRIVS = 1, 4, 22, 38

FORBIDDEN = {
    # Memory that belongs to no process, so that nobody counts it.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    # Parts of the kernel that no exercise needs and in which holes are found.
    "io_uring_setup": (425, 425),
    "userfaultfd": (323, 282),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Other processes and namespaces.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "unshare": (272, 97),
    "setns": (308, 268),
    # What is in a socket's buffers is in no process. A virtual machine's way to its host is in no network namespace.
    "socket": (41, 198),
    "socketpair": (53, 199),
    # What two workers can both lock or watch, such as a file of the interpreter.
    "flock": (73, 32),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "fanotify_init": (300, 262),
    # Out of the core that is a neighbor's.
    "sched_setaffinity": (203, 122),
}
"""System calls that a worker may not make: their numbers on x86_64 and on aarch64."""
FCNTL = (72, 25)
LOCKS = (5, 6, 7, 36, 37, 38, 1024, 1025, 1026)
"""Commands of fcntl that lock, lease or watch."""
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Which of the two numbers, and what the kernel calls the machine."""

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def dumpable(yes: bool) -> None:
    """Whether processes of the same user may look into this one."""
    _check(_libc.prctl(_DUMPABLE, int(yes), 0, 0, 0), "prctl")


def die_with_parent() -> None:
    _check(_libc.prctl(_PDEATHSIG, 9, 0, 0, 0), "prctl")


def become(user: int) -> None:
    """Another user, in no group but its own. As root, and for good."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def forbid_calls() -> None:
    """Refuse, for good, the calls of `FORBIDDEN`. Does nothing on another machine than the two known."""
    if os.uname().machine not in _MACHINES:
        return
    which, machine = _MACHINES[os.uname().machine]
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    allow, refuse, kill = 0x7FFF0000, 0x00050001, 0x80000000  # 0x5xxxx: fail with that error number, here EPERM.
    # (code, where to go on if true, and if not, operand); the last three are the answers.
    numbers = [pair[which] for pair in FORBIDDEN.values()]
    body: list[tuple[int, str | None, str | None, int]]
    body = [(load, None, None, 0), (at_least, "refuse", None, 0x40000000)]
    body += [(equal, "refuse", None, number) for number in numbers if number is not None]
    # The second argument, of which a kernel looks at the lower half alone.
    body += [(equal, None, "allow", FCNTL[which]), (load, None, None, 24)]
    body += [(equal, "refuse", None, command) for command in LOCKS]
    head = [(load, None, None, 4), (equal, None, "kill", machine)]
    lines = [*head, *body]
    place = {"allow": len(lines), "refuse": len(lines) + 1, "kill": len(lines) + 2}
    code = b""
    for number, (kind, yes, no, operand) in enumerate(lines):
        jumps = [place[target] - number - 1 if target else 0 for target in (yes, no)]
        code += struct.pack("=HBBI", kind, *jumps, operand)
    code += b"".join(struct.pack("=HBBI", answer, 0, 0, verdict) for verdict in (allow, refuse, kill))
    program = _Filter(len(code) // 8, code)
    _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    _check(_libc.prctl(_SECCOMP, 2, ctypes.byref(program), 0, 0), "seccomp")


def close_all_but(keep: list[int]) -> None:
    """Of the open files, keep the three standard ones and these."""
    low = 3
    for descriptor in sorted(keep):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, 4096)
