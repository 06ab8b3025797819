"""Runs a command as in a container of Docker's: few capabilities; with "seccomp" without namespaces.

python docker_like.py root|user [seccomp] COMMAND...       "user" is 1000:1000, as in the Containerfile

Every user can reach the Python that runs this, as in a container; nothing else below /root is there.
"""

import ctypes
import os
import shlex
import struct
import subprocess
import sys
from pathlib import Path

KEPT = (
    "chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod audit_write "
    "setfcap"
)
DENIED = (272, 308, 165, 166, 155, 310, 311, 323, 298, 321)
"""On x86_64: unshare, setns, mount and their like. So does clone (56) with a flag for a namespace fail with EPERM, and
clone3 (435) with ENOSYS."""
LOAD, EQUAL, ANY_OF, ANSWER = 0x20, 0x15, 0x45, 0x06
ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def no_namespaces() -> None:
    lines: list[tuple[int, str, str, int]] = [(LOAD, "", "", 0)]
    lines += [(EQUAL, "eperm", "", number) for number in DENIED]
    lines += [(EQUAL, "enosys", "", 435), (EQUAL, "", "allow", 56), (LOAD, "", "", 16)]
    lines += [(ANY_OF, "eperm", "", 0x7E020000)]
    place = {name: len(lines) + number for number, name in enumerate(("allow", "eperm", "enosys"))}
    code = b""
    for number, (kind, yes, no, operand) in enumerate(lines):
        jumps = [place[target] - number - 1 if target else 0 for target in (yes, no)]
        code += struct.pack("=HBBI", kind, *jumps, operand)
    code += b"".join(struct.pack("=HBBI", ANSWER, 0, 0, verdict) for verdict in (ALLOW, EPERM, ENOSYS))
    program = _Filter(len(code) // 8, code)
    if ctypes.CDLL(None, use_errno=True).prctl(22, 2, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def open_python() -> None:
    """In mounts of this process alone."""
    if ctypes.CDLL(None, use_errno=True).unshare(0x20000):
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    home = Path("~root").expanduser()
    if Path(sys.base_prefix).is_relative_to(home):
        python = shlex.quote(sys.base_prefix)
        script = f"mount --bind {python} /mnt && mount -t tmpfs -o mode=755 tmpfs {home} && mkdir -p {python}"
        subprocess.run(["sh", "-c", f"{script} && mount --move /mnt {python}"], check=True)


if __name__ == "__main__":
    who, *command = sys.argv[1:]
    open_python()
    if command[0] == "seccomp":
        no_namespaces()
        del command[0]
    bounding = ",".join(["-all", *(f"+{name}" for name in KEPT.split())])
    user = ["--reuid=1000", "--regid=1000", "--clear-groups"] if who == "user" else []
    os.execvp("setpriv", ["setpriv", *user, f"--bounding-set={bounding}", "--inh-caps=-all", *command])
