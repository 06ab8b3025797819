"""The mark of one test function, and the words for what can come out: each stands here, and only here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testcases.harness.catalog import Entry
    from testcases.harness.execution.messages import Call

PASSED, WRONG, ERROR, TIMEOUT, MEMORY, CRASH = "passed", "wrong", "error", "timeout", "memory", "crash"
OUTPUT, NOT_STARTED, MISSING, BLOCKED = "output-limit", "not-started", "missing", "blocked"
NOT_ASKED = "not-asked"
"""Its time was over, or that of its lesson, or the run ended before it."""
TAMPER, GRADER = "tamper-suspected", "grader-error"
STATUSES = {
    PASSED: "passed",
    WRONG: "wrong answer",
    ERROR: "raised an error",
    TIMEOUT: "too slow",
    MEMORY: "too much memory",
    CRASH: "crashed",
    OUTPUT: "answer too large",
    NOT_STARTED: "not started",
    MISSING: "missing",
    BLOCKED: "waits for another exercise",
    NOT_ASKED: "not asked, because the time was over",
    TAMPER: "tampering suspected",
    GRADER: "grader error, no verdict",
}
"""And what a page calls each."""
ABSENT = (NOT_STARTED, MISSING, BLOCKED)
"""Not attempted."""
GRADED, EMPTY, UNREADABLE = "graded", "empty", "unreadable"
"""What was handed in. The last two are no mark, and no 0."""
KILLED = (CRASH, MEMORY, TIMEOUT)
FIRST = (TAMPER, GRADER, *KILLED)
"""An exercise has these whatever else happened in it."""
STATUS_OF_ERROR = {one: one for one in (MISSING, TIMEOUT, CRASH, MEMORY)} | {"too large": OUTPUT, "tamper": TAMPER}
"""By `StudentError.kind`, which no student chooses; each other kind is an error."""
SECOND, NEAR, LOAD, OLDER = "a second copy", "a near name", "does not load", "an older attempt"
CLOSED, ENCODING, LONG = "an archive that is not read", "a strange encoding", "more than a page shows"
OTHER_FOLDER, UNLOOKED = "work in another folder", "not looked at"
OWNER, GIVEN, CONFLICT = "whose is it?", "a mark by hand", "changed after your edit"
CHANGED, NOT_FOUND, UNWRITTEN = "other points than before", "no such submission", "a report is missing"
"""What an instructor should look at in a submission, whatever its mark."""
UNSAFE = "NOT SANDBOXED"
NOT_SANDBOXED = f"{UNSAFE}: unless a note lists protections, this code could have changed its marks and this machine"


@dataclass
class Result:
    """One test function."""

    entry: Entry
    status: str
    told: str = ""
    """What the student reads, without the causes."""
    causes: tuple[str, ...] = ()
    read: str = ""
    """Where to read on, if a cause is named."""
    calls: Sequence[Call] = ()
    """Some of those that were answered with a value, where the test passed."""
    share: float = 0.0
    """Of the points, where the test did not pass."""
    if_right: str = ""
    """What `told` begins with if the basic suite has passed."""

    @property
    def score(self) -> int:
        return self.entry.points if self.status == PASSED else int(self.entry.points * self.share)

    def as_json(self) -> dict[str, Any]:
        return {"id": self.entry.test, "score": self.score, "max_score": self.entry.points, "status": self.status}
