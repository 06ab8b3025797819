"""A whole small trainer: a bigram table learns from scored replies, a few rows at a time to save memory."""

from __future__ import annotations

import torch
from torch import Tensor


def train_sliced(
    replies: Tensor, lengths: Tensor, weights: Tensor, start: Tensor, rate: float, steps: int, rows: int
) -> Tensor:
    """Raise the log-probability of good replies and lower that of bad ones.

    One step uses the whole batch: each real token counts once. Memory holds only `rows` replies, so gradients of
    slices of the batch are added up before the step.

    Args:
        replies: (B, T) token ids; token t is predicted from token t - 1, the first from token 0.
        lengths: (B,) int, real tokens of each reply, at least 1.
        weights: (B,), how good each reply is; may be negative.
        start: (V, V), scores of the next token (column) after each token (row).
        rate: step size of plain gradient steps.
        steps: on the same batch.
        rows: replies in a slice; the last slice may be smaller.

    Returns:
        (V, V), the scores after the last step, as exact as `start` (torch divides two whole numbers in float32).
    """
    # region solution
    real = torch.arange(replies.shape[1]) < lengths.unsqueeze(1)
    before = torch.cat([torch.zeros_like(replies[:, :1]), replies[:, :-1]], dim=1)
    scores = start.clone()
    slices = torch.arange(len(replies)).split(rows)
    for _ in range(steps):
        leaf = scores.clone().requires_grad_()
        slope = torch.zeros_like(scores)
        for part in slices:
            table = leaf.log_softmax(dim=1)
            log_chances = table[before[part], replies[part]]
            weighted = (weights[part].unsqueeze(1) * log_chances)[real[part]]
            loss = -weighted.sum() / real.sum()
            slope += torch.autograd.grad(loss, leaf)[0]
        scores = scores - rate * slope
    return scores
    # endregion
