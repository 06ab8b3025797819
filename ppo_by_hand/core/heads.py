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
    """The dtype of a backbone's weights, and so of its outputs: a head on top of a bfloat16 model must have it too."""
    return next((weight.dtype for weight in backbone.parameters() if weight.is_floating_point()), torch.float32)
