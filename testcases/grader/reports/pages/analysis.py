"""Item analysis: how the class did on each exercise, and which mistakes it has."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...status import ABSENT, GRADER, PASSED
from ..marks import MarkSheet


@dataclass
class Item:
    """One exercise over all submissions. A submission without a verdict on it counts as `unknown` only."""

    lesson: str
    exercise: str
    passed: int = 0
    partly: int = 0
    """Not passed, but some points."""
    failed: int = 0
    """Tried, no points."""
    absent: int = 0
    """Not started, missing or blocked."""
    unknown: int = 0
    points: float = 0.0
    possible: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    causes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(name, why) of each likely cause."""

    @property
    def total(self) -> int:
        return self.passed + self.partly + self.failed + self.absent

    @property
    def share(self) -> float | None:
        """Share of all submissions with a verdict that passed."""
        return self.passed / self.total if self.total else None

    @property
    def share_of_tried(self) -> float | None:
        tried = self.total - self.absent
        return self.passed / tried if tried else None

    @property
    def mean(self) -> float | None:
        """Mean share of the points."""
        return self.points / self.possible if self.possible else None


def items(sheets: Iterable[MarkSheet]) -> list[Item]:
    """One item for each exercise, in the order of the results."""
    found: dict[tuple[str, str], Item] = {}
    for sheet in sheets:
        for exercise in sheet.exercises:
            item = found.setdefault((exercise.lesson, exercise.name), Item(exercise.lesson, exercise.name))
            item.statuses[exercise.status] += 1
            if exercise.status == GRADER:
                item.unknown += 1
                continue
            item.points += exercise.score
            item.possible += exercise.max_score
            if exercise.status == PASSED:
                item.passed += 1
            elif exercise.status in ABSENT:
                item.absent += 1
            elif exercise.score > 0:
                item.partly += 1
            else:
                item.failed += 1
            if exercise.likely_cause:
                item.causes[exercise.likely_cause.name, exercise.likely_cause.why] += 1
    return list(found.values())


def mistakes(items: Iterable[Item]) -> list[tuple[int, str, str, str, str]]:
    """Count, lesson, exercise, name and why of each mistake, the most frequent first."""
    rows = [
        (count, item.lesson, item.exercise, name, why) for item in items for (name, why), count in item.causes.items()
    ]
    return sorted(rows, key=lambda row: (-row[0], *row[1:]))
