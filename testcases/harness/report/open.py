"""What is raised where a test has neither passed nor failed."""

from dataclasses import dataclass


@dataclass(eq=False)
class Open(Exception):
    """A test has neither passed nor failed."""

    lesson: str
    exercise: str
    why: str = "is not started"
    waits_for: str = ""
    """The stub whose solution would make it pass, or that it cannot do without."""

    def __str__(self) -> str:
        return f"{self.lesson}: {self.exercise} {self.why}"


class NotStarted(Open):
    """The exercise is still a stub."""

    status = "not started"


class Waiting(Open):
    """The test counts once another exercise is written."""

    status = "waiting"


class Kept(Open):
    """The exercise is right with the solution's version of others of its lesson, so the mistake is paid there."""

    status = "kept"
