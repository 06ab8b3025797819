"""Logs of real runs, each with one fault: PPO on a table, which takes milliseconds.

A policy writes up to LONGEST tokens; its distribution depends on the place alone. Token 0 ends the response, token 1 is
good, the others are not. A response that ends by itself scores more.
"""

from functools import cache
from itertools import count
from typing import Any

import torch
from torch import Tensor

from solutions.lesson10_bug_hunt.diagnosis import FAULTS
from testcases.harness.doubles.drawing import generator

ROWS, LONGEST, WORDS, UPDATES, PASSES, WIDTH = 96, 8, 4, 14, 2, 0.2


def clear_run(fault: str, seed: int) -> dict[str, list[float]]:
    """The log of the first run with a fault, of this seed or every second one behind it, that leaves no doubt.

    By chance a step that is too large can look like a collapse, and the other way round.
    """
    return next(log for later in count(step=2) if _is_clear(fault, log := run(fault, seed + later)))


def _is_clear(fault: str, log: dict[str, list[float]]) -> bool:
    """Whether the two numbers that overlap are far from the middle; the others lie apart in all of 600 runs a fault."""
    clipped, entropy = log["clip_fraction"], log["entropy"]
    kept = entropy[7] / entropy[0]
    if fault == "step_too_large":
        return max(clipped[:4]) > 0.8
    if fault == "entropy_collapse":
        return max(clipped) < 0.7 and kept < 0.45
    return fault in ("sampling_mismatch", "ratio_stays_one") or max(clipped) < 0.6 and kept > 0.62


@cache
def run(fault: str, seed: int, rate: float | None = None, apart: float | None = None) -> dict[str, list[float]]:
    """The log of a run with a fault, or of a healthy one: each metric, one number for each update.

    Args:
        fault: one of FAULTS.
        seed: of the start and of the sampling.
        rate: of learning; of the fault, if left out.
        apart: how far a wrong reference is from the model that training began with; likewise.
    """
    assert fault in FAULTS
    rate = {"step_too_large": 60.0}.get(fault, 6.0) if rate is None else rate
    apart = 0.8 if apart is None else apart
    draw = generator(seed)
    start = 0.3 * torch.randn(LONGEST, WORDS, generator=draw, dtype=torch.float64)
    start[:, 0] -= 0.5
    frozen = start if fault != "wrong_reference" else start + apart * torch.randn(start.shape, generator=draw).double()
    state = {"scores": start.clone(), "critic": torch.zeros(LONGEST, dtype=torch.float64)}
    state |= {"rate": torch.tensor(rate), "heat": torch.tensor({"sampling_mismatch": 0.6}.get(fault, 1.0))}
    log: dict[str, list[float]] = {}
    for _ in range(UPDATES):
        for name, number in _update(state, frozen.log_softmax(1), fault, draw).items():
            log.setdefault(name, []).append(round(number, 6))
    return log


def _update(state: dict[str, Tensor], frozen: Tensor, fault: str, draw: torch.Generator) -> dict[str, float]:
    heat = state["heat"]
    log_chances = state["scores"].log_softmax(1)
    tokens = torch.multinomial((state["scores"] / heat).softmax(1), ROWS, replacement=True, generator=draw).T
    ends = tokens == 0
    real = ends.long().cumsum(1) - ends.long() == 0
    stopped = ends.any(dim=1)
    places = torch.arange(LONGEST)
    sampled = (state["scores"] / heat).log_softmax(1)[places, tokens]
    drift = (log_chances - frozen)[places, tokens]
    score = (tokens.eq(1) & real).sum(1) / 4 + 2 * stopped
    if fault == "length_rewarded":
        score = real.sum(1).double()
    rewards = torch.where(real, -0.05 * drift, 0.0)
    rewards[torch.arange(ROWS), real.sum(1) - 1] += score
    returns = rewards.flip(1).cumsum(1).flip(1)
    merits = returns - state["critic"]
    unexplained = (returns - state["critic"])[real].var() / (returns[real].var() + 1e-6)
    merits = (merits - merits[real].mean()) / (merits[real].std() + 1e-4)
    ratios = _passes(state, tokens, sampled, merits, real, fault, draw)
    if fault != "critic_frozen":
        means = torch.where(real, returns, 0.0).sum(0) / real.sum(0).clamp(min=1)
        state["critic"] += 0.5 * torch.where(real.any(0), means - state["critic"], 0.0)
    return {
        "first_ratio": float(ratios[0].mean()),
        "kl": float(torch.where(real, drift, 0.0).sum(1).mean()),
        "entropy": float((-(log_chances.exp() * log_chances).sum(1).expand_as(real))[real].mean()),
        "explained_variance": float(1 - unexplained),
        "clip_fraction": float(((torch.cat(ratios[1:]) - 1).abs() > WIDTH).double().mean()),
        "length": float(real.sum(1).double().mean()),
        "truncated": float(1 - stopped.double().mean()),
    }


def _passes(state: dict[str, Tensor], tokens: Tensor, sampled: Tensor, merits: Tensor, real: Tensor, *rest: Any):
    """The minibatches of one update; the probability ratios that each of them meets."""
    fault, draw = rest
    places, found = torch.arange(LONGEST), []
    curiosity = {"entropy_collapse": -0.8}.get(fault, 0.1)
    for _ in range(PASSES):
        for part in torch.randperm(ROWS, generator=draw).split(ROWS // 2):
            leaf = state["scores"].clone().requires_grad_()
            table = leaf.log_softmax(1)
            now = table[places, tokens[part]]
            before = now.detach() if fault == "ratio_stays_one" else sampled[part]
            ratios = (now - before).exp()
            gain = torch.minimum(ratios * merits[part], ratios.clamp(1 - WIDTH, 1 + WIDTH) * merits[part])
            entropy = -(table.exp() * table).sum(1).mean()
            (slope,) = torch.autograd.grad(gain[real[part]].mean() + curiosity * entropy, leaf)
            state["scores"] = state["scores"] + state["rate"] * slope
            found.append(ratios.detach()[real[part]])
    return found
