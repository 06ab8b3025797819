"""Random tensors in float64, each from a generator of its own or from one that several share."""

import hashlib

import torch
from torch import Generator, Tensor

TORCH_BITS = 32
"""On the CPU, torch's `manual_seed` uses no more bits of a seed than these."""


def generator(seed: int) -> Generator:
    """A generator that depends on every bit of a seed; for seeds of up to 32 bits it is torch's own."""
    draw = Generator().manual_seed(seed % 2**TORCH_BITS)
    if seed >= 2**TORCH_BITS:
        state = draw.get_state()
        words = hashlib.shake_256(str(seed).encode()).digest(4 * 624)
        # The words of the Mersenne twister, each in 64 bits, come after a header of 24 bytes.
        state[24 : 24 + 8 * 624] = torch.frombuffer(bytearray(words), dtype=torch.uint32).long().view(torch.uint8)
        draw.set_state(state)
    return draw


def as_argument(seed: int) -> int:
    """A seed to put into a question, from which the seed that it is made from cannot be found."""
    if seed < 2**TORCH_BITS:
        return seed
    return int.from_bytes(hashlib.sha256(f"argument {seed}".encode()).digest()[:8], "big") >> 33


def normal(*shape: int, seed: int = 1) -> Tensor:
    return normal_from(Generator().manual_seed(seed), *shape)


def normal_from(draw: Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def uniform_from(draw: Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=draw, dtype=torch.float64)


def word_from(draw: Generator) -> str:
    """Six small letters."""
    return "".join(chr(97 + int(number)) for number in torch.randint(26, (6,), generator=draw))


def ragged_from(draw: Generator, rows: int, steps: int, shortest: int = 1, gap: bool = True) -> Tensor:
    """A mask of rows of several lengths, padded on the right; the first is full, but for a gap where one is wanted."""
    lengths = torch.randint(shortest, steps, (rows, 1), generator=draw)
    lengths[0] = steps
    mask = torch.arange(steps) < lengths
    mask[0, 1] = not gap
    return mask
