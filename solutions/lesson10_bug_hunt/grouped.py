"""A block: sums over rows of very different lengths, computed in groups of about the same length to save padding."""

from __future__ import annotations

import torch
from torch import Tensor


def sum_in_groups(numbers: Tensor, lengths: Tensor, budget: int) -> Tensor:
    """Sum each row's real numbers, computed in groups of rows of similar lengths.

    A group holds as many rows as fit into the budget (rows times the longest of them), at least one.

    Args:
        numbers: (B, T), of which row b has lengths[b] real ones; what stands after them may be anything.
        lengths: (B,) int, each at least 1.
        budget: numbers that a group may hold.

    Returns:
        (B,), entry b belongs to row b.
    """
    # region solution
    order = lengths.argsort(stable=True)
    sums, first = [], 0
    while first < len(order):
        last = first + 1
        while last < len(order) and (last + 1 - first) * int(lengths[order[last]]) <= budget:
            last += 1
        group = order[first:last]
        width = int(lengths[group].max())
        outside = torch.arange(width) >= lengths[group].unsqueeze(1)
        sums.append(numbers[group, :width].masked_fill(outside, 0.0).sum(dim=1))
        first = last
    return torch.cat(sums)[order.argsort()]
    # endregion
