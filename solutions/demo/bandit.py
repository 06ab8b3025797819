"""A tiny run, given complete: the variance of the policy gradient with and without a baseline.

    python -m solutions.demo.bandit

One state, four words, rewards around 10. The true gradient is the same with and without a baseline; the variance of
its estimates is not.
"""

from typing import NamedTuple

import torch

from ..lesson01_masked_sequences import gather_log_probs
from ..lesson03_policy_gradient import leave_one_out_baseline, reinforce_loss

LOGITS = (0.3, -0.2, 0.1, 0.0)
REWARDS = (9.0, 10.0, 11.0, 10.5)


class GradientMoments(NamedTuple):
    """Estimates of d loss / d logits over many batches."""

    mean: torch.Tensor
    """(4,) mean estimate."""
    variance: float
    """Total variance: the sum over the four logits."""


def gradient_moments(use_baseline: bool, batches: int = 500, batch_size: int = 16, seed: int = 0) -> GradientMoments:
    """Sample `batches` gradient estimates of `batch_size` words each, and measure their mean and variance."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    estimates = []
    for _ in range(batches):
        words = torch.multinomial(logits.detach().softmax(0), batch_size, replacement=True, generator=generator)
        scores = torch.tensor(REWARDS, dtype=torch.float64)[words].unsqueeze(0)
        weights = scores - leave_one_out_baseline(scores) if use_baseline else scores
        log_probs = gather_log_probs(logits.expand(1, batch_size, -1), words.unsqueeze(0))
        loss = reinforce_loss(log_probs, weights, torch.ones_like(words, dtype=torch.bool).unsqueeze(0))
        estimates.append(torch.autograd.grad(loss, logits)[0])
    stacked = torch.stack(estimates)
    return GradientMoments(stacked.mean(dim=0), float(stacked.var(dim=0).sum()))


if __name__ == "__main__":
    for use_baseline in (False, True):
        moments = gradient_moments(use_baseline)
        name = "leave-one-out baseline" if use_baseline else "no baseline"
        print(f"{name:>22}: mean {[round(x, 3) for x in moments.mean.tolist()]}, variance {moments.variance:.4f}")
