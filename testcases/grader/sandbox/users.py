"""Without a sandbox, as root: student code runs as another user, which has no right to read what it must not see.

That needs no namespaces, so it works in containers in which bubblewrap does not, such as Gradescope's.
"""

import os

from testcases.harness.catalog.lessons import ROOT

from .bubblewrap import WORKER_USERS, interpreter_folders, is_open

PRIVATE = ("solutions", "testcases", "tutorial", "notebooks", "book", "runs", ".git")

HOLDS = "its code ran as another user, which had no network and could not write to the course or to these results"
HOLDS_NOT = (
    "it could see the machine's processes and whatever every user can read, fill /tmp, and take more than its share of "
    "memory"
)
NOTHING = (
    "this code could have changed its own marks, and everything else on this machine (it runs as another user where "
    "make check is root's and every user can read the Python that runs it)"
)


def user(number: int = 0) -> int:
    """Whom this process's workers become, another one for each of its sandboxes; 0 where that is not possible."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not all(map(is_open, interpreter_folders())):
        return 0
    return WORKER_USERS[(2 * os.getpid() + number) % len(WORKER_USERS)]


def said() -> str:
    """What protects the instructor from a submission, and what does not."""
    if not user():
        return NOTHING
    readable = [name for name in PRIVATE if (ROOT / name).exists() and is_open(str(ROOT / name))]
    if readable:
        return f"{HOLDS}, but it could read {', '.join(readable)} of the course (chmod go-rwx closes them); {HOLDS_NOT}"
    return f"{HOLDS}, nor read the solutions and the suites; {HOLDS_NOT}"
