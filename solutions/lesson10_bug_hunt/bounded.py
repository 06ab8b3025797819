"""A block: the error of a critic whose estimates may move only so far in one round."""

from __future__ import annotations

import torch
from torch import Tensor


def bounded_error(estimates: Tensor, anchors: Tensor, targets: Tensor, room: float) -> Tensor:
    """Return the squared error of a critic, counted so that moving far from the old estimates gains nothing.

    Args:
        estimates: (N,), the critic now.
        anchors: (N,), the critic when the round began; data.
        targets: (N,), what it should say; data.
        room: how far an estimate may move from its anchor before moving further no longer counts.

    Returns:
        () half of the mean over the estimates, to be minimized.
    """
    # region solution
    anchors, targets = anchors.detach(), targets.detach()
    held = anchors + (estimates - anchors).clamp(-room, room)
    free_error, held_error = (estimates - targets).square(), (held - targets).square()
    return torch.where(free_error > held_error, free_error, held_error).mean() / 2
    # endregion
