"""The figures of lesson 8: what the key-value cache saves, and what truncated sampling does to probabilities."""

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from solutions.lesson08_rollout import sample_token

from . import BLUE, GREEN, ORANGE, PINK
from .shared import cache_panels
from .style import CENTER, RULE, canvas, sheet

PROMPT, RESPONSE = 8, 24
PROBABILITIES = (0.45, 0.30, 0.15, 0.10)
DRAWS = 200_000


def key_value_cache() -> Figure:
    figure, panels = canvas(2.9, 2, sharey=True)
    uncached, cached = [PROMPT + step for step in range(RESPONSE)], [PROMPT] + [1] * (RESPONSE - 1)
    cache_panels(panels, uncached, cached)
    return figure


def truncated_sampling() -> Figure:
    figure, panels = canvas(2.5, 3, sharey=True)
    settings: list[tuple[str, dict[str, float]]] = [
        ("the policy's distribution", {}),
        ("sampled with top_k = 2", {"top_k": 2}),
        ("sampled with top_p = 0.4", {"top_p": 0.4}),
    ]
    for axes, (name, options), color in zip(panels, settings, (GREEN, ORANGE, ORANGE), strict=True):
        logits = torch.tensor(PROBABILITIES, dtype=torch.float64).log().expand(DRAWS, -1)
        tokens = sample_token(logits, generator=torch.Generator().manual_seed(0), **options)  # type: ignore[arg-type]
        shares = (torch.bincount(tokens, minlength=len(PROBABILITIES)) / DRAWS).tolist()
        axes.bar(range(4), shares, color=color, width=0.7)
        if options:
            axes.bar(range(4), PROBABILITIES, fill=False, edgecolor=GREEN, width=0.7, lw=1.4, ls="--")
        for token, share in enumerate(shares):
            if share:
                axes.text(token, max(share, PROBABILITIES[token]) + 0.03, f"{share:.2f}", ha="center", fontsize=9)
        axes.set(title=name, xlabel="token", ylim=(0, 1.15), xticks=range(4))
        axes.title.set_fontsize(9.5)
    panels[0].set(ylabel="probability")
    return figure


CLOCK = {"sample": 0.21, "score": 0.16, "train": 0.63}
"""Shares of an update's processor time: preset tiny, 64 responses of up to 20 tokens, 2 epochs of 4 minibatches."""


def one_update() -> Figure:
    figure, axes = sheet(3.2, (-3.0, 12.2), (-1.6, 6.2))
    frames = (
        ("1 sample", "token by token,\nwith a cache", ("policy",)),
        ("2 score", "one forward pass\neach, no gradients", ("reference", "reward model", "critic")),
        ("3 advantages", "arithmetic,\nno model", ()),
        ("4 train", "forward, backward,\nin minibatches", ("policy", "critic", "optimizer")),
    )
    rows = (("policy", BLUE), ("reference", RULE), ("reward model", PINK), ("critic", ORANGE), ("optimizer", GREEN))
    for place, (title, what, working) in enumerate(frames):
        left = 3.05 * place
        axes.add_patch(Rectangle((left, 0.1), 2.85, 6.0, ec=RULE, fc="none", lw=1.2))
        axes.text(left + 1.42, 5.65, title, **CENTER, fontweight="bold", fontsize=9.5)
        axes.text(left + 1.42, 4.75, what, **CENTER, fontsize=8)
        for row, (name, color) in enumerate(rows):
            y = 3.75 - 0.78 * row
            if place == 0:
                axes.text(-0.2, y, name, ha="right", va="center", color=color, fontsize=9)
            filled = name in working
            axes.add_patch(
                Rectangle((left + 0.2, y - 0.27), 2.45, 0.54, ec=color, fc=color if filled else "none", lw=1, alpha=1)
            )
    left = 0.0
    axes.text(-0.2, -0.85, "the clock", ha="right", va="center", fontsize=9)
    for (name, share), color in zip(CLOCK.items(), (BLUE, RULE, GREEN), strict=True):
        width = share * 12.0
        axes.add_patch(Rectangle((left, -1.2), width, 0.7, fc=color, ec="none"))
        axes.text(left + width / 2, -0.86, f"{name} {share:.0%}", **CENTER, color="#ffffff", fontsize=8.5)
        left += width
    return figure


FIGURES = (one_update, key_value_cache, truncated_sampling)
