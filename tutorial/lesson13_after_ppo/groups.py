"""Lesson 13, first part: advantages of a group: K responses to one prompt, compared with each other without a critic.

Floats are float32 or float64, and an answer has their precision. No function changes its arguments; a NaN among the
scores of a group shows in the answers of that group.
"""

from __future__ import annotations

from torch import Tensor

from ppo_by_hand.core.shapes import check_number, check_shapes


def group_advantages(scores: Tensor, epsilon: float = 1e-4, divide_by_std: bool = True) -> Tensor:
    """Compare each response with the mean of its group: GRPO, or Dr. GRPO with `divide_by_std=False`.

    A = (score - mean) / (std + epsilon)       GRPO
    A = score - mean                           Dr. GRPO

    The mean is that of all K scores, the response's own included. The standard deviation is the unbiased one, with
    K - 1 below the sum.

    Args:
        scores: (B, K), K responses to each of B prompts, K >= 2.
        epsilon: >= 0, added to the standard deviation. With 0, a group of equal scores gives NaN, as 0 / 0 does, or
            rounding errors at full size: no group of equal scores is asked for then.
        divide_by_std: False leaves the division out.

    Returns:
        (B, K), of mean 0 in each row; without gradient, since advantages are data. Equal scores give 0, up to the
        rounding of their mean: three times 0.1 may give 1e-13.

    Raises:
        ValueError: `scores` is not (B, K), K < 2, or epsilon is negative.

    Source: Shao et al., "DeepSeekMath", 2024, section 4.1.2, without the epsilon, which libraries add; Liu et al.,
        "Understanding R1-Zero-Like Training", 2025.
    """
    check_shapes(scores=(scores, "B K"))
    check_number("K, the responses to each prompt", scores.shape[1], 2)
    check_number("epsilon", epsilon, 0.0)
    raise NotImplementedError("lesson13: group_advantages")
