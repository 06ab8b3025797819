"""Notebook 10: what a run logs, next to a healthy one, and two experiments at learning rate 0."""

from collections.abc import Mapping, Sequence

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from book.figures import BLUE, GREEN, ORANGE

from . import suptitle

Log = Mapping[str, Sequence[float]]
METRICS = ("entropy", "kl", "clip_fraction", "explained_variance", "length", "truncated")


def two_logs(faulty: Log, healthy: Log) -> Figure:
    """Six metrics of both runs."""
    figure, grid = pyplot.subplots(2, 3, sharex=True, figsize=(9, 4.4), layout="constrained")
    for axes, name in zip(grid.flat, METRICS, strict=True):
        axes.plot(healthy[name], "--", color=GREEN, label="healthy")
        axes.plot(faulty[name], color=ORANGE, label="this run")
        axes.set_title(name)
        axes.xaxis.get_major_locator().set_params(integer=True)
    for axes in grid[1]:
        axes.set_xlabel("update")
    grid[0, 0].legend()
    suptitle(figure, "Six metrics of two runs")
    return figure


def at_rate_0(logs: Mapping[str, Log]) -> Figure:
    """What is known before anything is learned: the ratio of the first minibatch, and the KL."""
    figure, grid = pyplot.subplots(1, 2, figsize=(9, 2.8), layout="constrained")
    for axes, name in zip(grid, ("first_ratio", "kl"), strict=True):
        _lines(axes, logs, name)
    grid[0].set_ylim(0.9, 1.1)
    grid[1].legend()
    suptitle(figure, "Ratio and KL of three runs, two of them at learning rate 0")
    return figure


def by_reference(logs: Mapping[str, Log]) -> Figure:
    """The KL at learning rate 0, one line for each reference."""
    figure, axes = pyplot.subplots(figsize=(7, 2.8), layout="constrained")
    _lines(axes, logs, "kl")
    axes.legend()
    suptitle(figure, "The KL at learning rate 0, with two references")
    return figure


def _lines(axes: Axes, logs: Mapping[str, Log], name: str) -> None:
    for (label, log), style, color in zip(logs.items(), ("-", "--", ":"), (ORANGE, GREEN, BLUE), strict=False):
        axes.plot(log[name], style, color=color, label=label)
    axes.set(xlabel="update", title=name)
