"""Random tensors in float64, each from a generator of its own or from one that several share."""

from __future__ import annotations

import torch
from torch import Generator, Tensor


def normal(*shape: int, seed: int = 1) -> Tensor:
    return normal_from(Generator().manual_seed(seed), *shape)


def normal_from(draw: Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def uniform_from(draw: Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=draw, dtype=torch.float64)


def ragged_from(draw: Generator, rows: int, steps: int, shortest: int = 1) -> Tensor:
    """A mask of rows of several lengths, padded on the right; the first is full but for a gap."""
    lengths = torch.randint(shortest, steps, (rows, 1), generator=draw)
    lengths[0] = steps
    mask = torch.arange(steps) < lengths
    mask[0, 1] = False
    return mask
