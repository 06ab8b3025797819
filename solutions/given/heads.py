"""The head of reward model and critic."""

from __future__ import annotations

from torch import nn


def scalar_head(hidden_size: int) -> nn.Linear:
    """One number from a hidden state; small weights start all numbers near 0 (Stiennon et al., 2020)."""
    head = nn.Linear(hidden_size, 1)
    nn.init.normal_(head.weight, std=1 / (hidden_size + 1) ** 0.5)
    nn.init.zeros_(head.bias)
    return head
