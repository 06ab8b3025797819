"""The figure of lesson 9: the four loops."""

from matplotlib.figure import Figure

from . import BLUE, GREEN, ORANGE, PINK
from .style import frame, sheet


def four_loops() -> Figure:
    levels = (
        ("update", "num_updates", "rollout, whiten; at the end adapt kl_coef", BLUE),
        ("epoch", "num_epochs", "draw a new order of the rows", GREEN),
        ("minibatch", "num_minibatches", "at the end clip, step, clear the gradients", ORANGE),
        ("microbatch", "of micro_batch_size rows", "loss times its share of the tokens, then backward", PINK),
    )
    figure, axes = sheet(3.2, (0, 10), (0, 5.4))
    for depth, (name, setting, work, color) in enumerate(levels):
        left, bottom = 0.05 + 0.4 * depth, 0.1 + 0.3 * depth
        height = 5.2 - 1.0 * depth - bottom
        frame(axes, left, bottom, 9.9 - 0.8 * depth, height, color)
        top = bottom + height - 0.5
        axes.text(left + 0.25, top, f"for each {name}", va="center", fontweight="bold")
        axes.text(left + 2.6, top, setting, color=color, va="center", family="monospace", fontsize=8.5)
        line = top - 0.42 if depth == 3 else top
        axes.text(left + 9.65 - 0.8 * depth, line, work, va="center", ha="right", fontsize=8.5)
    return figure


FIGURES = (four_loops,)
