"""Runs a command as root of a container of Docker's: with few capabilities, and with "seccomp" also without namespaces.

python docker_like.py [seccomp] COMMAND...
"""

import ctypes
import os
import struct
import sys

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


if __name__ == "__main__":
    command = sys.argv[1:]
    if command[0] == "seccomp":
        del command[0]
        no_namespaces()
    bounding = ",".join(["-all", *(f"+{name}" for name in KEPT.split())])
    os.execvp("setpriv", ["setpriv", f"--bounding-set={bounding}", "--inh-caps=-all", *command])
