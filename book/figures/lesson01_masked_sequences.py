"""The figures of lesson 1: which logits score which token, and the two paddings of a batch."""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from solutions.lesson01_masked_sequences import response_log_probs, response_mask

from . import BLUE, GREEN, ORANGE
from .style import CENTER, INK, RULE, sheet

PROMPT_LENGTH = 4
EOS = 2


def cell(axes: Axes, x: float, y: float, text: str, color: str, faint: bool = False) -> None:
    axes.add_patch(Rectangle((x - 0.45, y - 0.32), 0.9, 0.64, facecolor="none", edgecolor=color, lw=1.8))
    axes.text(x, y, text, **CENTER, fontsize=9.5, color=RULE if faint else INK)


def the_shift() -> Figure:
    tokens = ["<pad>", "the", "film", "was", "good", "<eos>"]
    input_ids = torch.tensor([[5, 3, 3, 3, 0, EOS]])
    odds = torch.ones(1, 6, 6).double()
    odds[0, 3, :3], odds[0, 4, :3] = torch.tensor([6.0, 3.0, 1.0]), torch.tensor([1.0, 1.0, 2.0])
    odds[0, 3:5, 3:] = 0
    probs = response_log_probs(odds.log(), input_ids, PROMPT_LENGTH).exp()[0].tolist()
    figure, axes = sheet(2.5, (-1.2, 5.7), (-1.0, 1.75))
    for i, token in enumerate(tokens):
        in_response = i >= PROMPT_LENGTH
        cell(axes, i, 0, token, RULE if i == 0 else GREEN if in_response else BLUE, faint=i == 0)
        axes.text(i, -0.48, str(i), ha="center", va="top", fontsize=8.5, color=RULE)
    axes.text(-0.6, -0.48, "position", ha="right", va="top", fontsize=8.5, color=RULE)
    for i in range(5):
        used = i >= PROMPT_LENGTH - 1
        arrow = {"color": ORANGE if used else RULE, "lw": 2.2 if used else 1.1, "linestyle": "-" if used else ":"}
        start, end = (i, 0.36), (i + 1 - 0.08, 0.36)
        shape = {"connectionstyle": "arc3,rad=-0.7", "arrowstyle": "-|>", "mutation_scale": 11}
        axes.add_patch(FancyArrowPatch(start, end, **shape, **arrow))
        if used:
            label = f"{probs[i - PROMPT_LENGTH + 1]:.1f}"
            axes.text(i + 0.5, 0.84, label, ha="center", va="bottom", fontweight="bold", color=ORANGE)
    axes.text(3.98, 1.3, "used: the logits at P - 1 and P", ha="center", color=ORANGE, fontsize=9)
    axes.text(1.5, 0.86, "predict prompt tokens: not used", ha="center", color=RULE, fontsize=9)
    axes.text(1.5, -0.92, "prompt, P = 4", ha="center", color=BLUE, fontsize=9.5)
    axes.text(4.5, -0.92, "response, T = 2", ha="center", color=GREEN, fontsize=9.5)
    return figure


def two_paddings() -> Figure:
    rows = [
        ["<pad>", "<pad>", "rate", "it", "a", "gem", "<eos>"],
        ["say", "nothing", "at", "all", "<eos>", "<pad>", "<pad>"],
        ["<pad>", "say", "it", "again", "no", "<eos>", "<pad>"],
    ]
    ids = torch.tensor([[EOS if token == "<eos>" else 0 for token in row[PROMPT_LENGTH:]] for row in rows])
    written = response_mask(ids, [EOS])
    figure, axes = sheet(2.6, (-0.6, 6.6), (-0.75, 2.95))
    for y, row in enumerate(rows):
        for x, token in enumerate(row):
            in_response = x >= PROMPT_LENGTH
            real = bool(written[y, x - PROMPT_LENGTH]) if in_response else token != "<pad>"
            color = (GREEN if in_response else BLUE) if real else RULE
            cell(axes, x, 2 - 0.82 * y, token, color, faint=not real)
    axes.plot([3.5, 3.5], [-0.15, 2.55], "--", color=RULE, lw=1.2)
    axes.text(1.5, 2.62, "prompts end together", ha="center", color=BLUE, fontsize=9.5)
    axes.text(5, 2.62, "responses begin together", ha="center", color=GREEN, fontsize=9.5)
    axes.text(-0.45, -0.42, "attention_mask: True on blue and green", fontsize=9)
    axes.text(6.45, -0.42, "mask: True on green", ha="right", fontsize=9)
    return figure


FIGURES = (the_shift, two_paddings)
