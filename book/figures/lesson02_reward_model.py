"""The figures of lesson 2: the loss of one comparison, and the token that the score is read from."""

import torch
from matplotlib.figure import Figure

from solutions.lesson02_reward_model import last_token_index, pairwise_loss

from . import BLUE, GREEN, ORANGE, PINK
from .style import CENTER, INK, RULE, arrow, canvas, frame, outline, sheet


def one_comparison() -> Figure:
    gap = torch.linspace(-4, 4, 161)
    losses = torch.stack([pairwise_loss(one[None], torch.zeros(1)) for one in gap])
    figure, (left, right) = canvas(2.7, 2)
    left.plot(gap, gap.sigmoid())
    left.plot(0.7, torch.tensor(0.7).sigmoid(), "o", color=ORANGE)
    left.annotate("0.7 apart: 0.668", (0.7, 0.668), (-3.9, 0.86), color=ORANGE)
    left.set(xlabel="score of chosen - score of rejected", ylim=(0, 1.02), title="Probability of the choice")
    left.axhline(0.5, color=RULE, lw=0.8, ls=":")
    right.plot(gap, losses)
    for point, color in ((0.7, ORANGE), (-0.7, PINK)):
        at = torch.tensor([point], requires_grad=True)
        loss = pairwise_loss(at, torch.zeros(1))
        (slope,) = torch.autograd.grad(loss, at)
        loss, slope = loss.item(), slope.item()
        tangent = torch.tensor([point - 1.8, point + 1.8])
        right.plot(tangent, loss + slope * (tangent - point), "--", color=color, lw=1.4)
        right.plot(
            point, loss, "o", color=color, label=f"difference {point:+.1f}: loss {loss:.3f}, gradient {slope:.3f}"
        )
    right.set(xlabel="score of chosen - score of rejected", ylim=(0, 5.2), title="Loss (nats)")
    right.legend(loc="upper right", fontsize=8.5, handlelength=1)
    return figure


def a_person_chooses() -> Figure:
    figure, axes = sheet(2.7, (0, 14.4), (0, 5.4))
    axes.text(0.1, 5.1, 'prompt: "review the film :"', va="center")
    reviews = (
        (3.7, "A", "the film was superb and\nthe plot was good .", 1.2, GREEN, "chosen"),
        (1.5, "B", "the film was good but\nthe voice was usual .", 0.5, RULE, "rejected"),
    )
    for y, name, review, score, color, said in reviews:
        frame(axes, 0.1, y - 0.8, 4.9, 1.6, color)
        axes.text(0.4, y, name, va="center", color=color, fontweight="bold")
        axes.text(1.0, y, review, va="center", fontsize=9)
        axes.text(8.3, y, said, va="center", color=color, fontweight="bold")
        axes.text(10.0, y, f"score {score}", va="center", color=BLUE)
    axes.text(6.5, 4.15, "both are fine ...", ha="center", fontsize=9)
    axes.text(6.5, 2.6, "A praises\nmore: click", **CENTER, fontsize=9)
    for y in (3.7, 1.5):
        arrow(axes, (5.2, y), (8.2, y))
    chance = torch.tensor(0.7).sigmoid().item()
    axes.text(
        12.0, 2.6, f"difference 0.7:\nA is chosen in\n{chance:.0%} of the clicks", va="center", color=BLUE, fontsize=9
    )
    axes.text(6.5, 5.1, "a person", **CENTER, fontweight="bold")
    axes.text(8.3, 5.1, "the data", va="center", fontweight="bold")
    axes.text(10.0, 5.1, "what the reward model makes of it", va="center", color=BLUE, fontweight="bold")
    return figure


def last_real_token() -> Figure:
    words = ["review", "it", ":", "superb", "<eos>"]
    rows = [("padded on the right", 0), ("padded on the left", 3), ("padded on both sides", 2)]
    mask = torch.tensor([[left <= place < left + len(words) for place in range(8)] for _, left in rows])
    last = last_token_index(mask).tolist()
    figure, axes = sheet(2.5, (-2.6, 9.7), (-2.9, 0.6))
    for row, (name, left) in enumerate(rows):
        y = -1.1 * row
        axes.text(-0.6, y, name, ha="right", va="center", fontsize=9)
        for place in range(8):
            real = bool(mask[row, place])
            color = GREEN if place == last[row] else BLUE if real else RULE
            box = outline(color, 0.28, lw=1.5, ls="-" if real else ":")
            text = words[place - left] if real else "<pad>"
            axes.text(place, y, text, **CENTER, fontsize=8, color=INK if real else RULE, bbox=box)
        arrow(axes, (last[row], y - 0.25), (8.6, y - 0.1), GREEN, lw=1.4, connectionstyle="arc3,rad=0.25")
        axes.text(8.7, y, "score 1.2", va="center", fontsize=9, color=GREEN, fontweight="bold")
    return figure


FIGURES = (a_person_chooses, one_comparison, last_real_token)
