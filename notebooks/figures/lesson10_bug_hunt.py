"""Notebook 10: what a run logs, next to a healthy one, and two experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import pyplot
from matplotlib.figure import Figure

from . import BLUE, GREEN, ORANGE, suptitle

pyplot.style.use(Path(__file__).parents[1] / "style.mplstyle")

Log = Mapping[str, Sequence[float]]
METRICS = ("entropy", "kl", "clip_fraction", "explained_variance", "length", "truncated")


def two_logs(faulty: Log, healthy: Log) -> Figure:
    """Six metrics of both runs."""
    figure, grid = pyplot.subplots(2, 3, figsize=(9, 4.4), layout="constrained")
    for axes, name in zip(grid.flat, METRICS, strict=True):
        axes.plot(healthy[name], "--", color=GREEN, label="healthy")
        axes.plot(faulty[name], color=ORANGE, label="this run")
        axes.set_title(name)
    grid[0, 0].legend()
    suptitle(figure, "Six metrics: something is different, and nothing says what")
    return figure


def ratios(logs: Mapping[str, Log], title: str) -> Figure:
    """The ratio of the first minibatch, one line for each run."""
    figure, axes = pyplot.subplots(figsize=(7, 2.8), layout="constrained")
    for (name, log), style, color in zip(logs.items(), ("-", "--", ":"), (ORANGE, GREEN, BLUE), strict=False):
        axes.plot(log["first_ratio"], style, color=color, label=name)
    axes.set(xlabel="update", ylabel="mean ratio")
    axes.legend()
    suptitle(figure, title)
    return figure


def by_temperature(heats: Sequence[float], distances: Sequence[float]) -> Figure:
    """How far the first ratio is from 1 at learning rate 0, by the temperature of sampling."""
    figure, axes = pyplot.subplots(figsize=(6, 2.8), layout="constrained")
    axes.plot(heats, distances, "o-", color=ORANGE)
    axes.set(xlabel="temperature of sampling", ylabel="largest |ratio - 1|")
    suptitle(figure, "Zero at temperature 1 only: the scoring pass does not know the temperature")
    return figure
