"""A block: mean and variance of all scores seen so far, to bring the scores of a reward model to one scale."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Moments(NamedTuple):
    """Of all scores seen so far."""

    seen: float
    mean: float
    variance: float


def merge_moments(seen: float, mean: float, variance: float, scores: Tensor) -> Moments:
    """Update the mean and variance of all scores with a new batch, without keeping the scores.

    Args:
        seen: number of scores before this batch; a small number such as 1e-4 at the start.
        mean: of those.
        variance: of those, divided by their number and not by their number minus 1.
        scores: (B, K), of K responses to each of B prompts.

    Returns:
        The moments of the old and the new scores together.
    """
    # region solution
    added = scores.numel()
    total = seen + added
    shift = scores.mean().item() - mean
    squares = variance * seen + scores.var(unbiased=False).item() * added
    squares += shift**2 * seen * added / total
    return Moments(total, mean + shift * added / total, squares / total)
    # endregion
