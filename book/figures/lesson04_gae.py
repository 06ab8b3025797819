"""The figures of lesson 4: credit of a response, weights of GAE, and bias against variance."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from solutions.lesson04_gae import compute_gae, td_errors

from .style import BLUE, GREEN, INK, ORANGE, RULE, canvas

REWARDS, VALUES = torch.tensor([0.0, 0.0, 1.0]).double(), torch.tensor([0.5, 0.6, 0.8, 0.0]).double()
DONES = torch.tensor([False, False, True])
COLORS = (BLUE, ORANGE, GREEN)


def credit_of_a_response() -> tuple[Figure, str]:
    lam = 0.95
    deltas = td_errors(REWARDS, VALUES, DONES, gamma=1.0).tolist()
    advantages = compute_gae(REWARDS, VALUES, DONES, gamma=1.0, lam=lam).advantages.tolist()
    estimates = [*VALUES[:-1].tolist(), REWARDS[-1].item()]
    figure, (left, right) = canvas(2.8, 2)
    left.plot(range(4), estimates, "o", color=INK, zorder=3)
    for t, (delta, color) in enumerate(zip(deltas, COLORS, strict=True)):
        left.plot([t, t + 1], [estimates[t]] * 2, ":", color=RULE, lw=1.2)
        left.plot([t + 1] * 2, estimates[t : t + 2], color=color, lw=5, solid_capstyle="butt")
        left.text(t + 0.93, sum(estimates[t : t + 2]) / 2, f"{delta:.1f}", color=color, ha="right", va="center")
    left.set_xticks(range(4), ["before\ntoken 0", "before\ntoken 1", "before\ntoken 2", "score"])
    left.set(xlim=(-0.35, 3.35), ylim=(0.4, 1.08), title="Value estimates and TD errors")
    for t in range(3):
        bottom = 0.0
        for later in range(t, 3):
            share = lam ** (later - t) * deltas[later]
            label = f"TD error of token {later}" if t == 0 else None
            right.bar(t, share, bottom=bottom, width=0.55, color=COLORS[later], label=label)
            bottom += share
        right.text(t, bottom + 0.01, f"{advantages[t]:.2f}", ha="center", fontweight="bold")
    right.set_xticks(range(3), ["token 0", "token 1", "token 2"])
    right.set(ylim=(0, 0.66), title="Advantages, lam = 0.95")
    right.legend(loc="upper right", fontsize=8.5)
    alt = (
        "Left: the value estimate of a response of three tokens is 0.5, 0.6 and 0.8, then the score 1 arrives; the "
        "rises are the TD errors 0.1, 0.2 and 0.2. Right: the advantages 0.47, 0.39 and 0.20 as stacked bars: each "
        "token gets its own TD error and the later ones, weighted by 0.95 per step."
    )
    return figure, alt


def weights_of_gae() -> tuple[Figure, str]:
    lam, steps = 0.8, 10
    rewards, values = torch.eye(steps).double(), torch.zeros(steps, steps + 1).double()
    dones = torch.zeros(steps, steps)
    of_td_errors = compute_gae(rewards, values, dones, gamma=1.0, lam=lam).advantages[:, 0].tolist()
    of_n = [(1 - lam) * lam ** (n - 1) for n in range(1, steps + 1)]
    figure, (left, right) = canvas(2.5, 2)
    left.bar(range(1, steps + 1), of_n, width=0.7, color=BLUE)
    right.bar(range(steps), of_td_errors, width=0.7, color=ORANGE)
    for axes, start, heights in ((left, 1, of_n), (right, 0, of_td_errors)):
        for place, height in enumerate(heights[:4]):
            axes.text(place + start, height + 0.015, f"{height:.2f}", ha="center", fontsize=8)
        axes.set(ylim=(0, 1.1))
    left.set(xlabel="n", title="Weight of the n-step advantage")
    right.set(xlabel="distance l of a TD error (steps)", title="Weight of the TD error in the sum")
    left.text(10.4, 0.5, "sum to 1", ha="right")
    alt = (
        "Bar charts for lam = 0.8. Left: weights of the n-step advantages, 0.20, 0.16, 0.13, 0.10 and falling; all "
        "of them sum to 1. Right: weights of the TD errors by distance, 1.00, 0.80, 0.64, 0.51 and falling: the "
        "factor 1 - lam is not in them."
    )
    return figure, alt


def bias_and_variance() -> tuple[Figure, str]:
    draw = torch.Generator().manual_seed(0)
    rewards = 1 + torch.randn(20_000, 10, generator=draw, dtype=torch.float64)
    values = (0.7 * torch.arange(10, -1, -1, dtype=torch.float64)).expand(20_000, -1)
    dones = torch.zeros(20_000, 10, dtype=torch.bool)
    dones[:, -1] = True
    lams = [step / 20 for step in range(21)]
    firsts = [compute_gae(rewards, values, dones, gamma=1.0, lam=lam).returns[:, 0] for lam in lams]
    figure, (left, right) = canvas(2.5, 2)
    left.plot(lams, [first.mean().item() for first in firsts], color=BLUE)
    left.axhline(10, color=RULE, lw=1)
    left.text(0, 10.1, "true return", color=INK, fontsize=8.5)
    left.set(xlabel="lam", ylim=(6.8, 10.8), title="Mean of the estimate")
    right.plot(lams, [first.std().item() for first in firsts], color=ORANGE)
    right.set(xlabel="lam", ylim=(0, 3.5), title="Its standard deviation")
    alt = (
        "Estimates of a return whose true value is 10, with a critic that is 30 % too low. Left: their mean rises "
        "from 7.3 at lam = 0 to 10 at lam = 1. Right: their standard deviation rises from 1.0 to 3.2, most steeply "
        "near lam = 1."
    )
    return figure, alt


FIGURES = {
    "credit-of-a-response": credit_of_a_response,
    "weights-of-gae": weights_of_gae,
    "bias-and-variance": bias_and_variance,
}
