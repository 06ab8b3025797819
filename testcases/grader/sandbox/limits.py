"""What student code may use."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Of one worker, one exercise, one submission."""

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
