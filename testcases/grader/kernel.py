"""The few Linux calls that Python 3.11 does not have. Imports nothing heavy: the smallest process forks fastest."""

from __future__ import annotations

import ctypes
import os

NEWNS, NEWIPC, NEWUSER, NEWPID = 0x20000, 0x8000000, 0x10000000, 0x20000000
NAMESPACES = {"user": NEWUSER, "mnt": NEWNS, "ipc": NEWIPC, "pid": NEWPID}
"""Those made for each exercise. The network that bwrap took away needs no second taking."""
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_PDEATHSIG, _DUMPABLE, _CAPBSET_DROP, _NO_NEW_PRIVS, _CAP_AMBIENT = 1, 4, 24, 38, 47

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def setns(descriptor: int, kind: int = 0) -> None:
    _check(_libc.setns(descriptor, kind), "setns")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = [word.encode() if word else None for word in (source, target, kind, options)]
    _check(_libc.mount(*words[:3], ctypes.c_ulong(flags), words[3]), f"mount {target}")


def bind(source: str, target: str) -> None:
    """Show a folder at a second place, read-only."""
    mount(source, target, "", BIND | REC)
    read_only(target)


def read_only(target: str) -> None:
    kept = NOEXEC if os.statvfs(target).f_flag & os.ST_NOEXEC else 0
    mount("", target, "", BIND | REMOUNT | RDONLY | NOSUID | NODEV | kept)


def tmpfs(target: str, megabytes: int, mode: str) -> None:
    """A file system in memory, with a bound on its size and on its number of files."""
    mount("tmpfs", target, "tmpfs", NOSUID | NODEV, f"size={megabytes}m,nr_inodes={megabytes * 256 + 64},mode={mode}")


def map_user(uid: int, gid: int) -> None:
    """After `unshare(NEWUSER)`: be the same user inside."""
    for name, line in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(line)


def dumpable(yes: bool) -> None:
    """Whether processes of the same user may look into this one."""
    _check(_libc.prctl(_DUMPABLE, int(yes), 0, 0, 0), "prctl")


def die_with_parent() -> None:
    _check(_libc.prctl(_PDEATHSIG, 9, 0, 0, 0), "prctl")


def new_keyring() -> None:
    """An empty keyring of one's own; the old one would be shared with all that come later."""
    number = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
    if number:
        _libc.syscall(number, 1, None)


def drop_capabilities() -> None:
    """For good: a program started later cannot have any either."""
    _libc.prctl(_CAP_AMBIENT, 4, 0, 0, 0)
    for number in range(64):
        _libc.prctl(_CAPBSET_DROP, number, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
