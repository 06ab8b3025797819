"""The head of reward model and critic."""

from __future__ import annotations

import torch
from torch import nn


def scalar_head(hidden_size: int, dtype: torch.dtype = torch.float32) -> nn.Linear:
    """One number from a hidden state; small weights start all numbers near 0 (Stiennon et al., 2020)."""
    head = nn.Linear(hidden_size, 1)
    nn.init.normal_(head.weight, std=1 / (hidden_size + 1) ** 0.5)
    nn.init.zeros_(head.bias)
    return head.to(dtype)


def dtype_of(backbone: nn.Module) -> torch.dtype:
    """What a backbone answers in: that of its first weights, so that a head fits behind a model in bfloat16."""
    return next((weight.dtype for weight in backbone.parameters() if weight.is_floating_point()), torch.float32)
