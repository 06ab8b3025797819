"""Lesson 11, first part: split a minibatch over processes so that the gradients add up to those of the whole."""

from __future__ import annotations

import torch
from torch import Tensor

from ppo_by_hand.core.shapes import check_number, check_shapes


def plan_microbatches(lengths: Tensor, n_processes: int, micro_batch_size: int | None = None) -> list[list[Tensor]]:
    """Plan which rows of a minibatch each process computes, microbatch by microbatch: the same plan in every process.

    Sort the rows by length, longest first (equal lengths in their old order), and assign them round-robin: the i-th
    goes to process i % n_processes. So row counts differ by at most one, and with equally many rows the tokens
    differ by less than the longest row. Each process then splits its rows, in this order, into microbatches of
    `micro_batch_size` rows: rows of similar length, little padding.

    Every process makes as many microbatches as the one with the most rows. When its rows are used up, the rest are
    empty: if a process skipped a forward pass, the others would wait for it forever.

    Args:
        lengths: (M,) int64, real tokens of each row, >= 0.
        n_processes: >= 1.
        micro_batch_size: rows in one forward and backward, >= 1; None: all rows of the process.

    Returns:
        [n_processes][K] tensors (m,) int64 of row numbers, 0 <= m <= micro_batch_size; each row exactly once.

    Raises:
        ValueError: there are no rows, or a number is below 1.
    """
    check_shapes(lengths=(lengths, "M"))
    check_number("n_processes", n_processes, 1)
    if micro_batch_size is not None:
        check_number("micro_batch_size", micro_batch_size, 1)
    if len(lengths) == 0:
        raise ValueError("expected at least one row to share out, got lengths (0,); a minibatch is never empty")
    # region solution
    longest_first = torch.argsort(lengths, descending=True, stable=True)
    most_rows = -(-len(lengths) // n_processes)
    size = micro_batch_size or most_rows
    starts = range(0, most_rows, size)
    shares = [longest_first[process::n_processes] for process in range(n_processes)]
    return [[share[start : start + size] for start in starts] for share in shares]
    # endregion


def gradient_weight(tokens: int, total_tokens: int, n_processes: int = 1) -> float:
    """Return the factor by which a microbatch's mean loss is multiplied before its backward pass.

    gradient of the whole = sum over all microbatches of its share of the tokens times the gradient of its mean

    Within a process gradients add up, so the share is enough. Over processes `DistributedDataParallel` takes the
    *mean*: it divides the sum by n_processes, and the weight has to cancel that.

    Args:
        tokens: real tokens of the microbatch, 0 where it is empty.
        total_tokens: real tokens of the whole minibatch, of all processes, >= 1.
        n_processes: over how many processes gradients are averaged, >= 1.

    Returns:
        A number >= 0, at least as precise as a float32; over all microbatches of all processes the weights add up to
        n_processes.

    Raises:
        ValueError: a number is out of range.
    """
    check_number("total_tokens", total_tokens, 1)
    check_number("tokens", tokens, 0, total_tokens)
    check_number("n_processes", n_processes, 1)
    # region solution
    return n_processes * tokens / total_tokens
    # endregion
