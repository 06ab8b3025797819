"""Notebook 5: the six cases of the clip, a pessimistic bound on a real policy, and three ways to limit a step."""

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor

from book.figures import BLUE, GREEN, ORANGE
from book.figures.shared import Loss, clip_panel, value_loss_panel

from . import suptitle

LOOKS = {"unclipped": (ORANGE, "--"), "clip": (BLUE, "-"), "penalty": (GREEN, "-.")}


def six_cases(loss_of: Loss, cases: Tensor, clip_epsilon: float) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    clip_panel(left, loss_of, cases, 1.0, clip_epsilon)
    clip_panel(right, loss_of, cases, -1.0, clip_epsilon)
    left.set_title("good token, A = 1", fontweight="normal")
    left.set_ylabel("objective (dot: its gradient)")
    right.set_title("bad token, A = -1", fontweight="normal")
    left.legend(loc="upper left")
    suptitle(figure, "The objective of one token against its ratio")
    return figure, (
        "Two panels, the interval in gray. Good token: the objective rises with the ratio and is flat above the "
        "interval. Bad token: it is flat below the interval and falls with the ratio above. Dots mark three ratios and "
        "say what the gradient does: stop at 1.5 of the good and at 0.5 of the bad token, push or go back elsewhere."
    )


def one_step(rates: Tensor, batches: Tensor) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    for which, (axes, color, style, label) in enumerate(
        ((left, ORANGE, "--", "unclipped"), (left, BLUE, "-", "clipped"), (right, GREEN, "-", "fresh reviews"))
    ):
        axes.plot(rates, batches[:, :, which].T, style, color=color, linewidth=0.8, alpha=0.6)
        axes.plot(rates, batches[:, :, which].mean(0), style, color=color, linewidth=3, label=label)
        axes.set(xlabel="learning rate of the step", xticks=[0, 0.01, 0.02, 0.03])
    left.axhline(0, color="black", linewidth=0.8)
    left.set_ylabel("objective on the 64 reviews")
    left.legend(loc="upper left")
    right.axhline(batches[:, 0, 2].mean(), color="black", linewidth=0.8, label="before the step")
    right.set_ylabel("mean score of fresh reviews")
    right.legend(loc="lower left")
    suptitle(figure, "One step of a real policy, from small to large (thin: eight batches; thick: their mean)")
    return figure, (
        "Left: against the learning rate of one step the unclipped objective rises steeply and stays high; the clipped "
        "one has its maximum at a small step and then falls below 0. Right: the mean score of fresh reviews rises "
        "until about 0.015, then falls."
    )


def critic(loss_of: Loss, paths: dict[float, list[float]]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    value_loss_panel(left, loss_of)
    for (width, path), style, color in zip(paths.items(), ("-", "-.", "--"), (BLUE, GREEN, ORANGE), strict=True):
        right.plot(path, style, color=color, label="unclipped" if width > 1 else f"clip_epsilon = {width:g}")
    right.axhline(2, color="black", linewidth=0.8)
    right.set(xlabel="gradient steps on one batch", ylabel="value", ylim=(0.6, 2.1))
    right.legend(loc="lower right")
    suptitle(figure, "The value loss of one token, and 200 steps on it")
    return figure, (
        "Left: unclipped, the loss is a parabola with its minimum at 2; clipped it is flat from 1.2 to 2.8. Right: "
        "over 200 steps the value stops at 1.2 or 1.5 with the clip, and comes close to 2 without."
    )


def three_policies(paths: dict[str, Tensor]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    left.axhspan(0.8, 1.2, color="0.88")
    for name, path in paths.items():
        color, style = LOOKS[name]
        left.plot(path[:, 1], style, color=color, label=f"{name}: {path[20, 0]:.2f} to {path[20, 1]:.2f}")
        left.plot(path[:, 0], style, color=color)
        right.plot(path[:, 2], style, color=color, label=f"{name}: {path[20, 2]:.3f}")
    left.set(xlabel="steps on the batch", ylabel="smallest and largest ratio", yscale="log", ylim=(2e-3, 5e3))
    left.legend(title="after 20 steps", loc="upper left")
    right.set(xlabel="steps on the batch", ylabel="KL(old || new) (nats)", yscale="log", ylim=(1e-3, None))
    right.legend(title="after 20 steps", loc="center right")
    suptitle(figure, "Three losses, one batch, many steps")
    return figure, (
        "Left, log scale: unclipped, the ratios move from 1 to below 0.01 and above 40 within 40 steps; with the clip "
        "they stop just outside the band from 0.8 to 1.2, with the penalty a little further out. Right: the KL passes "
        "4 nats unclipped and levels off near 0.02 for the other two."
    )


def rounds(found: dict[str, Tensor], best: Tensor) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots()
    for name, worths in found.items():
        color, style = LOOKS[name]
        steps = torch.arange(1, len(worths) + 1)
        low, middle, high = worths.quantile(torch.tensor([0.25, 0.5, 0.75]).double(), dim=1)
        axes.plot(steps, middle, style, color=color, label=f"{name}: mean {worths[-1].mean():.2f} at the end")
        axes.fill_between(steps, low, high, color=color, alpha=0.15)
    axes.axhline(best, color="black", linewidth=0.8)
    axes.annotate(f"best token: {best:.2f}", (1, best), (0, -12), textcoords="offset points")
    axes.set(xlabel="round", ylabel="expected worth of a token", ylim=(0, 3))
    axes.legend(loc="lower right")
    suptitle(figure, "48 policies: median, and the middle half of them")
    return figure, (
        "Expected worth over 40 rounds. Unclipped, the median rises steeply in three rounds, then stays flat, with a "
        "wide band. Clip and adaptive penalty rise more slowly and end higher, close to the best token."
    )
