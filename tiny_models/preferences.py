"""Noisy annotators: they know the truth of a review roughly, and sometimes press the wrong button."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import NamedTuple

from .gold import gold_score

TEMPERATURE = 0.1
"""In units of the gold score: at a small one the annotator sees small differences."""
FLIP = 0.02
"""The probability of pressing the wrong button."""


class Preference(NamedTuple):
    """One comparison: for `prompt`, the annotator preferred `chosen` to `rejected`."""

    prompt: str
    chosen: str
    rejected: str


def preference_probability(prompt: str, first: str, second: str) -> float:
    """Return the probability that the annotator chooses `first` over `second`.

    p = (1 - FLIP) * s + FLIP * (1 - s)   with   s = sigmoid((gold(first) - gold(second)) / TEMPERATURE)

    s is the Bradley-Terry model of the gold scores: at a small difference it is near 1/2. FLIP is the probability of
    an error, however large the difference.

    Raises:
        ValueError: the prompt does not name exactly one topic.
    """
    gap = (gold_score(prompt, first) - gold_score(prompt, second)) / TEMPERATURE
    # sigmoid(x) = (1 + tanh(x / 2)) / 2, which cannot overflow.
    sees_first_better = 0.5 * (1.0 + math.tanh(0.5 * gap))
    return (1.0 - FLIP) * sees_first_better + FLIP * (1.0 - sees_first_better)


def label_pair(prompt: str, first: str, second: str, rng: random.Random) -> Preference:
    """Let the annotator choose between two responses; draws once from `rng`."""
    if rng.random() < preference_probability(prompt, first, second):
        return Preference(prompt, chosen=first, rejected=second)
    return Preference(prompt, chosen=second, rejected=first)


def make_preferences(pairs: Iterable[tuple[str, str, str]], rng: random.Random) -> list[Preference]:
    """Label every pair in which the annotator sees a difference, and drop the others.

    Two responses of equal gold score (or equal texts) would be labeled by chance: the pairwise loss learns nothing
    from them, and they only bring the accuracy nearer to 1/2. Truncate the texts before the call: two long ones may
    differ only in what is cut off.

    Args:
        pairs: (prompt, first response, second response), the responses as the reward model will see them.
        rng: draws once for each pair that is kept.

    Returns:
        One comparison for each pair that is kept, in their order.

    Raises:
        ValueError: as `preference_probability`.
    """
    return [
        label_pair(prompt, first, second, rng)
        for prompt, first, second in pairs
        if gold_score(prompt, first) != gold_score(prompt, second)
    ]
