"""What is known of a test: the verdict of one case, on pytest's report and in the state file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """Of one case of a test."""

    status: str
    """"passed", "kept" (right with the solution's version of what it calls), "failed", "partly", "waiting",
    "not started", "not earned"; "failed earlier" where the last run left
    it out."""
    share: float = 0.0
    """Of its points, where it is earned partly."""
    waits_for: tuple[int, str] | None = None
    """Number of the lesson and exercise of the stub, where it waits for one."""

    def stored(self) -> Any:
        """As the state file has it: a status alone where there is no more to say."""
        more = {"share": self.share or None, "waits_for": self.waits_for and [*self.waits_for]}
        said = {name: value for name, value in more.items() if value}
        return {"status": self.status, **said} if said else self.status


Results = Mapping[str, Mapping[str, Result]]
"""Test -> parameters -> result."""


def read_result(stored: Any) -> Result:
    """The reverse of `stored`."""
    if not isinstance(stored, dict):
        return Result(stored)
    waits_for = stored.get("waits_for")
    return Result(stored["status"], stored.get("share", 0.0), waits_for and (waits_for[0], waits_for[1]))


@dataclass
class Verdict:
    """What the course adds to pytest's report of one phase of a test."""

    place: int = 0
    """Of the test, in the order of the suites."""
    result: Result | None = None
    """Where it is another one than pytest's outcome."""
    kind: str = ""
    cause: str = ""
    """Of a failure, the listed wrong answer by its name: those of one kind and cause and exercise are shown once."""
    remedies: tuple[str, ...] = ()
    """What to do about the causes that a failure names: `make hint` says it."""
    if_right: str = ""
    """What a failure of the advanced suite begins with if the basic suite has passed."""
    answered: Any = field(default_factory=list)
    """The questions that were answered with a value; pickled in a process of pytest-xdist."""

    def packed(self) -> dict[str, Any]:
        """As plain values, for another process."""
        return {**vars(self), "result": self.result and self.result.stored()}


def unpacked(plain: dict[str, Any]) -> Verdict:
    """The reverse of `Verdict.packed`."""
    stored = plain["result"]
    return Verdict(**{**plain, "result": None if stored is None else read_result(stored)})


def verdict_of(report: Any) -> Verdict:
    """That of a report; an empty one for a test that is no lesson's."""
    return getattr(report, "verdict", None) or Verdict()
