"""A block: credit for responses that stand end to end in one stream, without padding between them."""

from __future__ import annotations

import torch
from torch import Tensor


def credit_packed(rewards: Tensor, critic: Tensor, lengths: list[int], discount: float, decay: float) -> Tensor:
    """Return how much better each token did than the critic expected, for responses packed into one stream.

    gap[t] = rewards[t] + discount * critic[t + 1] - critic[t]        critic = 0 past the end of a response
    credit[t] = gap[t] + discount * decay * credit[t + 1]             credit = 0 past the end of a response

    Args:
        rewards: (N,), those of all responses one after the other.
        critic: (N,), what the critic expects before each token.
        lengths: tokens of each response, each at least 1; they add up to N.
        discount: factor of the next token's critic and credit.
        decay: one more factor of the next token's credit.

    Returns:
        (N,), a new tensor; data, without gradient.
    """
    # region solution
    end = len(rewards)
    backwards = []
    for size in reversed(lengths):
        carry = rewards.new_zeros(())
        for step in range(end - 1, end - size - 1, -1):
            ahead = critic[step + 1] if step + 1 < end else 0.0
            carry = rewards[step] + discount * ahead - critic[step] + discount * decay * carry
            backwards.append(carry)
        end -= size
    return torch.stack(backwards[::-1]).detach()
    # endregion
