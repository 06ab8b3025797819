"""The figures of lesson 13: what one token weighs under each denominator, the contest, and entropy over a run."""

import json

import torch
from matplotlib.figure import Figure

from solutions.contest.record import mean, ran, recorded
from solutions.lesson13_after_ppo import DENOMINATORS, reduce_losses

from . import BLUE, GREEN, ORANGE, PINK
from .lesson12_capstone import RECORDED, RUNS
from .style import INK, RULE, canvas

LENGTHS = (4, 1)
CONSTANT = 10.0
SAMPLING = {"PPO": BLUE, "RLOO": ORANGE, "GRPO": GREEN, "Dr. GRPO": PINK, "DAPO": INK}
OTHERS = {"DPO, all pairs": ORANGE, "DPO, sampled pairs": PINK, "rejection sampling": GREEN, "best of n": INK}


def three_denominators() -> Figure:
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    figure, panels = canvas(2.5, 3, sharey=True)
    for axes, denominator in zip(panels, DENOMINATORS, strict=True):
        losses = torch.zeros(mask.shape, requires_grad=True)
        constant = CONSTANT if denominator == "constant" else None
        (slopes,) = torch.autograd.grad(reduce_losses(losses, mask, denominator, constant=constant), losses)
        place = 0
        for row, length, color in zip(slopes, LENGTHS, (BLUE, ORANGE), strict=True):
            bars = axes.bar(range(place, place + length), row[:length].tolist(), color=color)
            axes.bar_label(bars, [f"{row[0].item():g}", *[""] * (length - 1)], fontsize=8.5)
            place += length + 1
        title = f"constant = {CONSTANT:g}" if constant else denominator
        axes.set(title=title, ylim=(0, 0.6), yticks=(0, 0.25, 0.5))
        axes.set_xticks((1.5, 5), ("four tokens", "one"))
    panels[0].set_ylabel("weight of a token")
    return figure


def contest() -> Figure:
    runs = recorded()
    figure, panels = canvas(3.3, 2, sharey=True)
    titles = ("PPO, and groups without a critic", "DPO, rejection sampling, best of n")
    for axes, shown, title in zip(panels, (SAMPLING, OTHERS), titles, strict=True):
        axes.axhline(2, color=RULE, lw=0.8)
        for name in ran(runs):
            if name in shown:
                axes.plot(*_curve(runs, name), "-o", ms=3.5, color=shown[name], label=name)
        if "PPO" not in shown:
            axes.plot(*_curve(runs, "PPO"), "--", color=BLUE, lw=1.2, label="PPO")
        axes.set(xlim=(0, 10), ylim=(0, 2.1), xlabel="KL from the SFT model (nats)", title=title)
        axes.legend(fontsize=8, loc="lower left")
    panels[0].set_ylabel("gold reward")
    return figure


def _curve(runs: list[dict], name: str) -> tuple[list[float], list[float]]:
    """KL and gold reward, means over the seeds at each coefficient, by KL."""
    own = [run for run in runs if run["method"] == name]
    at_each = ([run for run in own if run["coefficient"] == one] for one in {run["coefficient"] for run in own})
    points = sorted((mean(at, "kl"), mean(at, "gold")) for at in at_each)
    kl, gold = zip(*points, strict=True)
    return list(kl), list(gold)


def entropy() -> Figure:
    run = json.loads(RECORDED.read_text("utf-8"))
    figure, (axes,) = canvas(2.4)
    for (name, label), color in zip(RUNS.items(), (BLUE, ORANGE), strict=True):
        axes.plot(range(1, len(run[name]["entropy"]) + 1), run[name]["entropy"], color=color, label=label)
    axes.set(xlabel="PPO update", ylabel="entropy (nats per token)", ylim=(0, 1.5))
    axes.legend(fontsize=9, loc="lower left")
    return figure


FIGURES = (three_denominators, contest, entropy)
