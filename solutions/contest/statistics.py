"""What the runs say: a point on a curve, a difference with its interval, and the one word for it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .plan import MAX_KL

EQUAL = 0.05
"""Gold reward: a difference that lies within this is too small to matter."""
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131)
"""97.5 % quantile of Student's t with 1, 2, ... degrees of freedom."""
Curve = Sequence[dict[str, float]]


@dataclass(frozen=True)
class Difference:
    """A mean of paired differences and its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Which side of 0 the interval is on, and whether it leaves room for a difference that matters."""
        is_small = -EQUAL <= self.low and self.high <= EQUAL
        if self.low > 0 or self.high < 0:
            return ("better" if self.mean > 0 else "worse") + f", by less than {EQUAL:g}" * is_small
        return "equal" if is_small else "not decided"


def mean_of(values: Sequence[float]) -> Difference:
    """The mean of paired differences over the seeds, one for each; the interval is Student's.

    Raises:
        ValueError: fewer than two values: nothing is known about the noise.
    """
    if len(values) < 2:
        raise ValueError(f"expected at least two seeds for an interval, got {len(values)}; run with SEEDS=2 or more")
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    quantile = STUDENT[min(len(values) - 1, len(STUDENT)) - 1]
    half = quantile * math.sqrt(variance / len(values))
    return Difference(mean, mean - half, mean + half)


def picked(curve: Curve, by: str = "proxy", max_kl: float = MAX_KL) -> dict[str, float]:
    """What somebody would take who sees the training's reward alone: the highest within `max_kl` of the SFT model."""
    near = [point for point in curve if point["kl"] <= max_kl]
    return max(near, key=lambda point: point[by]) if near else min(curve, key=lambda point: point["kl"])


def gold_at(curve: Curve, where: float, start: dict[str, float], along: str = "kl") -> float | None:
    """Gold reward at this KL, on straight lines from the SFT model through the points of a curve; None beyond it.

    With `along="tokens"`, at this number of sampled tokens.
    """
    points = sorted([start, *curve], key=lambda point: point[along])
    for before, after in zip(points, points[1:], strict=False):
        if before[along] <= where <= after[along]:
            width = after[along] - before[along]
            share = (where - before[along]) / width if width else 0.0
            return before["gold"] + share * (after["gold"] - before["gold"])
    return None


def tokens_to(trace: Curve, gold: float) -> float | None:
    """Tokens sampled until the gold reward was first this high; None if it never was."""
    return next((point["tokens"] for point in trace if point["gold"] >= gold), None)


def paired(ours: Iterable[float | None], theirs: Iterable[float | None]) -> list[float]:
    """Differences of the seeds where both have a value."""
    pairs = zip(ours, theirs, strict=True)
    return [one - other for one, other in pairs if one is not None and other is not None]
