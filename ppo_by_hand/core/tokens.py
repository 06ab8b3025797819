"""Token ids: which of them end a response."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def is_stop(tokens: Tensor, stop_token_ids: Sequence[int]) -> Tensor:
    """True on each token (...) that ends a response; there may be several such ids, or none."""
    return torch.isin(tokens, torch.tensor(stop_token_ids, dtype=tokens.dtype, device=tokens.device))
