"""The figures of lesson 5: a promise and what came of it, the clipped objective, the clipped value loss."""

import json
from pathlib import Path

import torch
from matplotlib.figure import Figure

from solutions.lesson05_ppo_loss import compute_ppo_loss, compute_value_loss

from . import BLUE, ORANGE, PINK
from .shared import clip_panel, value_loss_panel
from .style import INK, RULE, canvas

CASES = (0.5, 1.0, 1.5)
MEASURED = Path(__file__).parents[2] / "notebooks" / "05_ppo_loss.ipynb"
HEAD = "learning rate   unclipped   clipped   fresh reviews\n"


def measured() -> torch.Tensor:
    """From notebook 5, for one step with each learning rate: what is promised, with the clip, and what came of it."""
    cells = json.loads(MEASURED.read_text("utf-8"))["cells"]
    said = ["".join(output.get("text", "")) for cell in cells for output in cell.get("outputs", [])]
    (table,) = [text.partition(HEAD)[2] for text in said if HEAD in text]
    rows = [line.split() for line in table.splitlines()]
    return torch.tensor([[float(number) for number in row] for row in rows if len(row) == 4], dtype=torch.float64).T


def promise_and_delivery() -> Figure:
    rates, promised, clipped, fresh = measured()
    steps = range(len(promised))
    figure, (axes,) = canvas(2.9)
    for curve, color, name in ((promised, ORANGE, "what the batch promises"), (fresh, BLUE, "what fresh reviews get")):
        axes.plot(steps, (curve / curve.max()).tolist(), color=color, marker="o", ms=4)
        axes.text(len(steps) - 0.85, (curve / curve.max())[-1].item(), name, color=color, va="center")
    stop = int(clipped.argmax())
    axes.axvline(stop, color=PINK, ls="--", lw=1.6)
    axes.text(stop + 0.12, 0.03, "from here on the\nclip promises less", color=PINK, fontsize=9, va="bottom")
    axes.set_xticks(steps, [f"{rate:g}" for rate in rates.tolist()])
    axes.set(xlim=(-0.2, len(steps) + 1.6), ylim=(-0.06, 1.06), ylabel="share of its best")
    axes.set(xlabel="size of the one step (learning rate)", title="The spoonful and the soup")
    return figure


def six_cases() -> Figure:
    figure, panels = canvas(3.0, 2)
    for axes, advantage, name in zip(panels, (1.0, -1.0), ("good token, A = +1", "bad token, A = -1"), strict=True):
        clip_panel(axes, compute_ppo_loss, torch.tensor(CASES), advantage, 0.2)
        axes.set(title=name)
    panels[0].set(ylabel="objective (dot: its gradient)", ylim=(0, 2.1))
    panels[1].set(ylim=(-2.1, 0))
    panels[0].legend(loc="upper left", fontsize=9)
    return figure


def value_loss() -> Figure:
    figure, (axes,) = canvas(2.6)
    value_loss_panel(axes, compute_value_loss)
    axes.set_xlabel("new value")
    for value, height in ((1.0, 0.93), (2.0, 0.55)):
        axes.axvline(value, ymax=0.75, color=RULE, lw=0.8)
        axes.text(value + 0.03, height, "old value" if value == 1.0 else "return")
    axes.plot([1.5, 0.5], [0.32, 1.125], "o", ms=8, color=BLUE)
    axes.annotate("0.32, gradient 0", (1.5, 0.32), (0, 8), textcoords="offset points", ha="center", color=INK)
    axes.annotate("1.125, full gradient", (0.5, 1.125), (10, 0), textcoords="offset points", color=INK)
    return figure


FIGURES = (promise_and_delivery, six_cases, value_loss)
