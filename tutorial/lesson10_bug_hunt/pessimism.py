"""A block: the objective of the policy, to be maximized, from probability ratios and token merits."""

from __future__ import annotations

import torch
from torch import Tensor


def pessimistic_gain(ratios: Tensor, merits: Tensor, width: float) -> Tensor:
    """Return what the policy gains by a change, counted so that no change far from the old policy is worth anything.

    An optimizer calls backward() on minus this number. A token's merit may be positive or negative.

    Args:
        ratios: (N,), new probability of each token over the old one.
        merits: (N,), how much better than expected each token did; data.
        width: how far a ratio may go from 1 before going further no longer counts.

    Returns:
        () the mean over the tokens.
    """
    merits = merits.detach()
    edge = 1 + width * merits.sign()
    return torch.maximum(ratios * merits, edge * merits).mean()
