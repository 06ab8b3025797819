"""The figure of lesson 13: what one token weighs under each denominator."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from solutions.lesson13_after_ppo import DENOMINATORS, reduce_losses

from .style import BLUE, ORANGE, canvas

LENGTHS = (4, 1)
CONSTANT = 10.0


def three_denominators() -> tuple[Figure, str]:
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
    alt = (
        "Three panels, one for each denominator, with a bar for every token of a response of four tokens and of one of "
        "a single token. Tokens: all five bars are 0.2. Responses: four bars of 0.125 and one of 0.5. A constant of "
        "10: all five are 0.05."
    )
    return figure, alt


FIGURES = {"three-denominators": three_denominators}
