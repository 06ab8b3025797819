"""The words for what can come out: each stands here, and only here."""

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
ENDED = (CRASH, MEMORY, TIMEOUT)
FIRST = (TAMPER, GRADER, *ENDED)
"""An exercise has these whatever else happened in it."""
STATUS_OF_ERROR = {one: one for one in (MISSING, TIMEOUT, CRASH, MEMORY)} | {"too large": OUTPUT, "tamper": TAMPER}
"""By `StudentError.kind`, which no student chooses; each other kind is an error."""
NO_VERDICT, UNWRITTEN, LOAD = "no verdict", "a report is missing", "does not load"
ENCODING, NOT_GRADED, CLOSED = "a strange encoding", "not graded", "an archive that is not read"
KILLED, OWNER, NOT_FOUND = "killed", "whose is it?", "no such submission"
CONFLICT, SECOND, NEAR = "changed after your edit", "a second copy", "a near name"
OLDER, LONG, GIVEN = "an older attempt", "more than a page shows", "a mark by hand"
LOOKS = (
    *(NO_VERDICT, TAMPER, UNWRITTEN, LOAD, ENCODING, NOT_GRADED, CLOSED, KILLED),
    *(OWNER, NOT_FOUND, CONFLICT, SECOND, NEAR, OLDER, LONG, GIVEN),
)
"""What an instructor should look at in a submission, whatever its mark, the most urgent first."""
UNSAFE = "NOT SANDBOXED"
NOT_SANDBOXED = f"{UNSAFE}: unless a note lists protections, this code could have changed its marks and this machine"
