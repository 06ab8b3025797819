"""Noisy annotators: they know the truth of a review roughly, and sometimes press the wrong button."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from typing import NamedTuple

from .gold import gold_score


class Preference(NamedTuple):
    """One comparison: for `prompt`, the annotator preferred `chosen` to `rejected`."""

    prompt: str
    chosen: str
    rejected: str


def preference_probability(prompt: str, first: str, second: str, temperature: float = 0.1, flip: float = 0.02) -> float:
    """Return the probability that the annotator chooses `first` over `second`.

    p = (1 - flip) * s + flip * (1 - s)   with   s = sigmoid((gold(first) - gold(second)) / temperature)

    s is the Bradley-Terry model of the gold scores: at a small difference it is near 1/2. `flip` is the probability
    of an error, however large the difference.

    Args:
        temperature: > 0, in units of the gold score; at a small one the annotator sees small differences.
        flip: a probability in [0, 1].

    Raises:
        ValueError: `temperature` or `flip` is out of range, or the prompt does not name exactly one topic.
    """
    if not 0.0 < temperature < math.inf:
        raise ValueError(
            f"expected a finite temperature > 0, got {temperature}; "
            f"for annotators who never err use temperature=1e-6 and flip=0"
        )
    if not 0.0 <= flip <= 1.0:
        raise ValueError(f"expected flip to be a probability in [0, 1], got {flip}; 0.02 is 2 slips in 100")
    gap = (gold_score(prompt, first) - gold_score(prompt, second)) / temperature
    # sigmoid(x) = (1 + tanh(x / 2)) / 2, which cannot overflow.
    sees_first_better = 0.5 * (1.0 + math.tanh(0.5 * gap))
    return (1.0 - flip) * sees_first_better + flip * (1.0 - sees_first_better)


def label_pair(
    prompt: str, first: str, second: str, rng: random.Random, temperature: float = 0.1, flip: float = 0.02
) -> Preference:
    """Let the annotator choose between two responses; draws once from `rng`.

    See `preference_probability` for the arguments and the errors.
    """
    if rng.random() < preference_probability(prompt, first, second, temperature, flip):
        return Preference(prompt, chosen=first, rejected=second)
    return Preference(prompt, chosen=second, rejected=first)


def make_preferences(
    pairs: Iterable[tuple[str, str, str]], rng: random.Random, temperature: float = 0.1, flip: float = 0.02
) -> list[Preference]:
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
        label_pair(prompt, first, second, rng, temperature, flip)
        for prompt, first, second in pairs
        if gold_score(prompt, first) != gold_score(prompt, second)
    ]
