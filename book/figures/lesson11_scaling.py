"""The figure of lesson 11: one update on two processes."""

from matplotlib.figure import Figure

from . import BLUE, GREEN, PINK
from .style import CENTER, Arrow, Box, diagram


def two_processes() -> Figure:
    lanes = {"0": (2.0, "0 1 2 3"), "1": (5.4, "4 5 6 7")}
    boxes, arrows = {}, []
    for name, (y, prompts) in lanes.items():
        y = 7.4 - y
        boxes |= {
            f"sample{name}": Box(1.3, y, f"process {name} samples", BLUE, 2.5, 1.3, f"prompts {prompts}"),
            f"rows{name}": Box(4.9, y, "all 8 rows", GREEN, 2.4, 1.3, "same KL, same order"),
            f"loss{name}": Box(8.2, y, "own microbatches", PINK, 2.6, 1.3, "loss times its weight"),
            f"step{name}": Box(11.4, y, "clip, step", GREEN, 2.0, 1.3, "the same in both"),
        }
    for start in lanes:
        arrows += [Arrow(f"sample{start}", f"rows{end}") for end in lanes]
        arrows += [Arrow(f"loss{start}", f"step{end}") for end in lanes]
        arrows.append(Arrow(f"rows{start}", f"loss{start}"))
    figure = diagram(boxes, arrows, (12.5, 7.6), 3.3)
    axes = figure.axes[0]
    axes.text(3.15, 0.35, "gather experience", ha="center", fontsize=8.5)
    axes.text(9.85, 0.35, "merge statistics,\naverage gradients", **CENTER, fontsize=8.5)
    return figure


FIGURES = (two_processes,)
