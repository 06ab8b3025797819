"""Lesson 11, second part: merge statistics that each process has of its own rows.

An answer has the precision of its arguments, float64 included. It is data: no gradient has to flow through it. No
argument is changed; an answer may be one of them, or share memory with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ppo_by_hand.core.shapes import check_mask, check_shapes

Gather = Callable[[Tensor], Tensor]
"""(...) of this process -> (N, ...), stacked in the order of the processes; the same answer in each of them."""


def merge_statistics(parts: Sequence[dict[str, float]], tokens: Sequence[int]) -> dict[str, float]:
    """Merge the statistics of a minibatch from those of its microbatches, of whichever process.

    Each is a mean over tokens, so it counts by its tokens; `ratio_max` alone is the largest. A part without tokens is
    ignored, whatever its numbers say. Where a part with tokens has NaN in a mean, the merged mean is NaN. (Where its
    `ratio_max` is NaN, the merged one may be any number.)

    Args:
        parts: the statistics of each microbatch, all with the same names.
        tokens: real tokens of each, >= 0.

    Returns:
        One dict with the same names.

    Raises:
        ValueError: there are not as many parts as counts of tokens, or all counts are 0.
    """
    if len(parts) != len(tokens) or sum(tokens) == 0:
        raise ValueError(
            f"expected one count of tokens for each part, and not all 0; got {len(parts)} parts, tokens {list(tokens)}"
        )
    raise NotImplementedError("lesson11: merge_statistics")


def masked_moments(values: Tensor, mask: Tensor) -> Tensor:
    """Return (3,): number of real tokens, their mean, the sum of their squared deviations; zeros without a token.

    Given. `values` is (B, T), `mask` (B, T) bool; values under a False mask are arbitrary.
    """
    check_shapes(values=(values, "B T"), mask=(mask, "B T"))
    real = values[mask]
    if not real.numel():
        return values.new_zeros(3)
    return torch.stack([real.new_tensor(real.numel()), real.mean(), (real - real.mean()).square().sum()])


def merge_moments(moments: Tensor) -> Tensor:
    """Merge the moments of all tokens from the moments of each part.

    mean    = sum(count_i * mean_i) / sum(count_i)
    squares = sum(squares_i + count_i * (mean_i - mean)^2)

    The second term measures how the parts' means differ: without it the variance is that *within* the parts. A part
    without tokens is ignored, even where its mean is NaN; NaN of a part with tokens is NaN in the answer.

    Args:
        moments: (N, 3) float, of each part: count, mean, sum of squared deviations from that mean.

    Returns:
        (3,): the same three numbers for all parts together.

    Raises:
        ValueError: `moments` is not (N, 3), or there is no token at all.

    Source: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
    """
    check_shapes(moments=(moments, "N 3"))
    if not moments[:, 0].sum() > 0:
        raise ValueError(f"expected moments with a token in them, got the counts {moments[:, 0].tolist()}")
    raise NotImplementedError("lesson11: merge_moments")


def global_masked_whiten(values: Tensor, mask: Tensor, gather: Gather, shift_mean: bool = True) -> Tensor:
    """Whiten over the real tokens of all processes, of which this one holds only its own.

    whitened = (values - mean) / sqrt(variance + 1e-8)      (+ mean, if not shift_mean)

    Mean and (unbiased) variance are those of all tokens of all processes; a single one has variance 0. The values
    stay in their process: only three numbers per process are exchanged.

    Args:
        values: (B, T) float, the rows of this process; under a False mask anything, NaN included.
        mask: (B, T) bool, True on real tokens.
        gather: (3,) of this process -> (N, 3) of all; every process calls it exactly once.
        shift_mean: True centers the values; False keeps their mean (used for rewards).

    Returns:
        (B, T), 0 where masked. NaN or infinity on a real token, of any process, makes all real tokens NaN.

    Raises:
        ValueError: shapes disagree, the mask is not bool, or it is False everywhere in this process: every process
            has a row, and every row a token.
    """
    check_shapes(values=(values, "B T"), mask=(mask, "B T"))
    check_mask(mask)
    raise NotImplementedError("lesson11: global_masked_whiten")
