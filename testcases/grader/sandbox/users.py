"""Without a sandbox, as root: student code runs as another user, which has no right to read what it must not see.

That needs no namespaces, so it works in containers in which bubblewrap does not, such as Gradescope's.
"""

import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from testcases.harness.catalog import ROOT

from .bubblewrap import WORKER_USERS, installed, interpreter_folders, is_open

USERS = 16
"""Of one process of the grader: each worker is another one than the last."""
CLOSED = ROOT / "runs" / ".closed"
"""What the folders that a run has closed were before, should it be killed."""
PRIVATE = ("solutions", "testcases", "tutorial", "notebooks", "book", "runs", ".git")

HOLDS = (
    "its code ran as another user: it could not read the solutions, the suites, other submissions or these results, "
    "nor write to them, and it had no network"
)
HOLDS_NOT = (
    "it could see the machine's processes and world-readable files, fill /tmp, and take more than its share of memory"
)
NOTHING = "this code could have changed its own marks, and everything else on this machine"


def users() -> list[int]:
    """The users that this process's workers become; none where that is not possible."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not all(map(is_open, interpreter_folders())):
        return []
    first = os.getpid() * USERS % len(WORKER_USERS)
    return list(WORKER_USERS[first : first + USERS])


def said() -> str:
    """What protects the instructor from a submission, and what does not."""
    readable = [name for name in PRIVATE if (ROOT / name).exists() and is_open(str(ROOT / name))]
    if not users():
        return NOTHING
    if readable:
        return f"its code ran as another user, which could read {', '.join(readable)} of the course; {HOLDS_NOT}"
    return f"{HOLDS}; {HOLDS_NOT}"


def open_copy(folder: Path) -> Path | None:
    """Where every user can read the folder, a copy of it if need be: then it is the caller's to remove."""
    if is_open(str(folder)):
        return None
    copy = Path(tempfile.mkdtemp(prefix=f"ppo-course-{os.getpid()}-"))
    shutil.copytree(folder, copy / "course", symlinks=True)
    copy.chmod(0o755)
    return copy / "course"


def close(folders: Iterable[Path]) -> dict[Path, int]:
    """Let nobody else into these folders, and into what is private of the course; what to give to `reopen`."""
    if not users():
        return {}
    private = [*folders, *(ROOT / name for name in PRIVATE), *map(Path, installed())]
    before = {folder: stat.S_IMODE(folder.stat().st_mode) for folder in private if folder.exists()}
    CLOSED.mkdir(parents=True, exist_ok=True)
    kept = {str(folder.absolute()): mode for folder, mode in before.items()}
    (CLOSED / f"{os.getpid()}.json").write_text(json.dumps(kept), "utf-8")
    for folder, mode in before.items():
        folder.chmod(mode & 0o700)
    return before


def reopen(before: dict[Path, int]) -> None:
    for folder, mode in before.items():
        if folder.exists():
            folder.chmod(mode)
    (CLOSED / f"{os.getpid()}.json").unlink(missing_ok=True)
