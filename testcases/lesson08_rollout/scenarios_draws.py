"""What can be said of random draws: how often each token comes, and which draws agree."""

from collections.abc import Callable

import torch
from torch import Tensor

DRAWS = 3_000
"""Of a share in tenths: the standard error is at most 0.0091, five times smaller than half a tenth."""


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tenths(tokens: Tensor, vocabulary: int) -> Tensor:
    """Share of each token among the columns of each row, (B, V) float64."""
    found = torch.stack([(tokens == token).double().mean(dim=1) for token in range(vocabulary)], dim=1)
    return (10 * found).round() / 10


def mean_by_token(tokens: Tensor, numbers: Tensor, vocabulary: int) -> Tensor:
    """(T, V): the mean of the numbers that stand at each token in each column; 0 where the token never occurs."""
    return torch.stack(
        [
            torch.stack([column[ids == token].sum() / (ids == token).sum().clamp(min=1) for token in range(vocabulary)])
            for ids, column in zip(tokens.T, numbers.T, strict=True)
        ]
    )


def agreement_of(draw: Callable[[torch.Generator], Tensor], seed: int, once_more: str) -> dict[str, bool]:
    """Which of several draws agree with the first; `once_more` names the second from the same generator."""
    first = generator(seed)
    drawn = draw(first)
    return {
        "same seed": torch.equal(drawn, draw(generator(seed))),
        once_more: torch.equal(drawn, draw(first)),
        "other seed": torch.equal(drawn, draw(generator(seed + 1))),
    }


def agreement_of_the_global_generator(draw: Callable[[], Tensor]) -> dict[str, bool]:
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(draw())
    return {"same seed": torch.equal(drawn[0], drawn[1]), "other seed": torch.equal(drawn[0], drawn[2])}
