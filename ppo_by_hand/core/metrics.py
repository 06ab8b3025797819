"""Metrics of a rollout, computed before training on it; and statistics of the parts of a batch merged into one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .config import PPOConfig
from .schedule import Schedule, learning_rates
from .tokens import is_stop

SAMPLE = 1000
"""Numbers of a weight that are compared before and after an update."""


def rollout_metrics(
    experience: Any, config: PPOConfig, kl_coef: float, updates_done: int, schedule: Schedule | None = None
) -> dict[str, float]:
    """Metrics of the rollout; `kl` is the k1 estimate summed over each response, and `explained_variance` the share of
    the variance of the rewards to go that the critic's values predict.

    Args:
        experience: lesson 8's `Experience` of one update.
        kl_coef: its KL coefficient.
        updates_done: number of updates before this one.
        schedule: of the learning rates, in the place of the config's.
    """
    mask, scores = experience.mask, experience.scores
    kl = (experience.log_probs - experience.ref_log_probs).masked_fill(~mask, 0.0).sum(dim=1)
    returns, values = experience.returns[mask], experience.values[mask]
    to_go = rewards_to_go(experience.rewards, mask, config.gamma)[mask]
    unexplained = (to_go - values).var(correction=0) / to_go.var(correction=0).clamp(min=1e-8)
    is_stopped = (is_stop(experience.responses, config.stop_token_ids) & mask).any(dim=1)
    clipped = scores - config.missing_stop_penalty * (~is_stopped).to(scores.dtype)
    return {
        "score": scores.mean().item(),
        "score_std": scores.std(correction=0).item(),
        "score_clip_fraction": (clipped.abs() > config.clip_score).float().mean().item(),
        "return_std": returns.std(correction=0).item(),
        "value_mean": values.mean().item(),
        "advantage_mean": experience.advantages[mask].mean().item(),
        "kl": kl.mean().item(),
        "kl_coef": kl_coef,
        "response_tokens": float(mask.sum()),
        "response_length": mask.sum(dim=1).float().mean().item(),
        "stop_rate": is_stopped.float().mean().item(),
        "explained_variance": 1.0 - unexplained.item(),
        "learning_rate": learning_rates(config, updates_done, schedule)[0],
        "max_grad_norm": config.max_grad_norm,
    }


def sampler_metrics(experience: Any) -> dict[str, float]:
    """`sampler_kl`, the k3 estimate per token of KL(sampler || policy), and `sampler_ratio_max`, the largest ratio.

    Empty where the sampler gave no log-probabilities: then they are NaN.

    Args:
        experience: lesson 8's `Experience`, whose `log_probs` the policy in training has computed.
    """
    mask = experience.mask
    log_ratio = (experience.log_probs - experience.sampler_log_probs)[mask]
    if log_ratio.isnan().any():
        return {}
    return {
        "sampler_kl": (log_ratio.expm1() - log_ratio).mean().item(),
        "sampler_ratio_max": log_ratio.exp().max().item(),
    }


def sample_of_weights(model: nn.Module) -> list[Tensor]:
    """Up to SAMPLE numbers of each trained weight, as they are now: of float32 at least, and outside of embeddings,
    whose rows change only if a batch has their token."""
    tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    found = []
    for weight in model.parameters():
        if weight.requires_grad and weight.dtype.itemsize >= 4 and id(weight) not in tables:
            own = weight.to_local() if hasattr(weight, "to_local") else weight  # under FSDP a process holds a part
            flat = own.detach().flatten()
            found.append(flat[:: max(1, len(flat) // SAMPLE)].clone())
    return found


def moved_and_all(before: list[Tensor], now: list[Tensor]) -> tuple[int, int]:
    """How many of these numbers have changed, and how many there are."""
    moved = sum(int((one != other).sum()) for one, other in zip(before, now, strict=True))
    return moved, sum(len(one) for one in before)


def rewards_to_go(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """(B, T): what really came after each token, and so what a critic should have said.

    The returns of GAE are no measure of a critic: with lam < 1 they are made of its own next values, and on a long
    response any smooth curve seems to predict them.
    """
    found = torch.zeros_like(rewards)
    later = rewards.new_zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        later = torch.where(mask[:, t], rewards[:, t] + gamma * later, later)
        found[:, t] = later
    return found


def weighted(parts: list[dict[str, float]], weights: list[float]) -> dict[str, float]:
    """Statistics of a minibatch from those of its microbatches: token-weighted means, and the largest ratio."""
    merged = {name: sum(w * part[name] for w, part in zip(weights, parts, strict=True)) for name in parts[0]}
    return merged | {"ratio_max": max(part["ratio_max"] for part in parts)}


def merged(steps: list[dict[str, float]]) -> dict[str, float]:
    """Statistics of an update from those of its optimizer steps."""
    found = weighted(steps, [1 / len(steps)] * len(steps))
    return found | {"first_ratio_max": steps[0]["ratio_max"], "optimizer_steps": float(len(steps))}
