"""Notebook 9: what the metrics of one short training say when one detail of it is wrong."""

from collections.abc import Callable
from typing import Any

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from torch import Tensor

from book.figures import BLUE, ORANGE, SKY

from . import suptitle

GRAY = "0.75"
Run = Any
"""As the notebook defines it: `of(name)` are the numbers of a metric, `late(name)` is the mean of the last ones."""


def steps_of_updates(moved: Tensor) -> tuple[Figure, str]:
    """Args: moved: (updates, steps) approx_kl."""
    figure, axes = pyplot.subplots(figsize=(6.4, 3.2))
    steps = range(1, moved.shape[1] + 1)
    for update in moved:
        axes.plot(steps, update, color=SKY, linewidth=0.8)
    axes.plot(steps, moved.median(0).values, "s--", color=ORANGE, label="median")
    axes.set(xlabel="optimizer step of the update", ylabel="approx_kl (nats per token)", xticks=steps)
    axes.set_yscale("symlog", linthresh=1e-4)
    axes.set_yticks([0, 1e-4, 1e-3, 1e-2, 1e-1], ["0", "0.0001", "0.001", "0.01", "0.1"])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-2e-5, None)
    axes.legend(loc="lower right")
    suptitle(figure, f"How far the policy has moved before each step, in {len(moved)} updates")
    return figure, (
        "approx_kl against the number of the optimizer step, one line per update. All lines begin at 0 in step 1 and "
        "are above 0 from step 2 on; they rise to values that differ widely, around the dashed median."
    )


def score_courses(baselines: list[Run], faulty: dict[str, Run], harmed: list[str]) -> tuple[Figure, str]:
    figure, grid = pyplot.subplots(3, 3, sharex=True, sharey=True, figsize=(8, 4.8))
    usual = [run.late("score") for run in baselines]
    for axes, (name, run) in zip(grid.flat, faulty.items(), strict=True):
        for baseline in baselines:
            axes.plot(baseline.of("score"), color=GRAY, linewidth=1.2)
        color, style = (ORANGE, "--") if name in harmed else (BLUE, "-")
        axes.plot(run.of("score"), style, color=color)
        axes.set_title(name, color=color, fontsize=10)
        axes.text(0.97, 0.34, f"late {run.late('score'):.2f}", ha="right", transform=axes.transAxes, fontsize=9)
    figure.supxlabel("update", fontsize=10)
    figure.supylabel("score (standard deviations)", fontsize=10)
    usually = f"{min(usual):.2f} to {max(usual):.2f}"
    suptitle(figure, f"Nine faulty runs. Late: mean score of the last three updates (baselines: {usually})")
    return figure, (
        f"Nine panels, one per fault: the score over {len(baselines[0].history)} updates, with the three baseline runs "
        f"in gray. Orange and dashed, far below them at the end: {' and '.join(harmed)}. The others, in blue, stay "
        "near the gray lines or, with the EOS token masked out, end above them."
    )


Metrics = dict[str, tuple[str, float]]
"""Name -> which of its numbers is taken, and the tolerance."""


def metrics_table(
    baselines: list[Run],
    faulty: dict[str, Run],
    metrics: Metrics,
    number_of: Callable[[Run, str], float],
    outside: Callable[[Run, str], float],
) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(figsize=(8, 4.4))
    excess = torch.tensor([[outside(run, name) for name in metrics] for run in faulty.values()])
    axes.imshow((excess > 1).float(), cmap="Oranges", vmin=0, vmax=2, aspect="auto")
    for row, run in enumerate(faulty.values()):
        for column, name in enumerate(metrics):
            weight = "bold" if excess[row, column] > 1 else "normal"
            number = _rounded(number_of(run, name))
            axes.text(column, row, number, ha="center", va="center", fontsize=9, fontweight=weight)
    labels = []
    for name, (when, _) in metrics.items():
        usual = sorted(_rounded(number_of(run, name)) for run in baselines)
        between = usual[0] if usual[0] == usual[-1] else f"{usual[0]} to {usual[-1]}"
        labels.append(f"{name.replace('_', chr(10), 1)}\n({when})\n{between}")
    axes.set_xticks(range(len(metrics)), labels, fontsize=8)
    axes.set_yticks(range(len(faulty)), faulty)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    suptitle(figure, "Seven metrics of nine faulty runs, and the range of the baselines (bold: far outside)")
    found = (
        f"{fault}: {', '.join(name for name in metrics if outside(run, name) > 1) or 'nothing'}"
        for fault, run in faulty.items()
    )
    return figure, f"A table, one row per fault and one column per metric. Bold: {'; '.join(found)}"


def _rounded(number: float) -> str:
    return f"{number:.0f}" if number >= 30 else f"{number + 0.0:.2f}".replace("-0.00", "0.00")


PANELS = {
    "first_ratio_max": ("dropout on", "largest ratio at the\nfirst minibatch"),
    "kl": ("wrong reference", "KL from the reference\n(nats per response)"),
    "entropy": ("sign of the entropy", "entropy\n(nats per token)"),
    "explained_variance": ("critic not trained", "explained variance\nof the returns"),
    "stop_rate": ("EOS masked out", "stop rate"),
    "score": ("EOS masked out", "score\n(standard deviations)"),
}


def dashboard(baselines: list[Run], faulty: dict[str, Run]) -> tuple[Figure, str]:
    figure, grid = pyplot.subplots(2, 3, sharex=True, figsize=(8, 4.6))
    for axes, (metric, (fault, label)) in zip(grid.flat, PANELS.items(), strict=True):
        others = [run for name, run in faulty.items() if name != fault]
        lines = [axes.plot(run.of(metric), color=GRAY, linewidth=1)[0] for run in others]
        lines += [axes.plot(run.of(metric), color=BLUE)[0] for run in baselines]
        lines += axes.plot(faulty[fault].of(metric), "--", color=ORANGE)
        axes.set_ylabel(label, fontsize=9)
        axes.set_title(fault, color=ORANGE, fontsize=10)
    grid[0, 0].set_yscale("log")
    grid[0, 0].set_yticks([1, 10, 100], ["1", "10", "100"])
    grid[0, 0].minorticks_off()
    for axes in grid[1]:
        axes.set(xlabel="update", xticks=range(0, len(baselines[0].history), 3))
    labels = ["three baselines", "the fault named above", "the other faults"]
    figure.legend([lines[-2], lines[-1], lines[0]], labels, loc="outside lower center", ncols=3)
    suptitle(figure, "One metric for each of five faults, and the score of one of them")
    return figure, (
        "Six panels over the updates, baselines in blue, one fault in dashed orange, the others in gray. Largest first "
        "ratio: 1 for the baselines, far above with dropout. KL: 0 at first for the baselines, 35 with the wrong "
        "reference. Entropy: falls below the baselines with the wrong sign. Explained variance: below 0 with an "
        "untrained critic. Stop rate: 1 for the baselines, 0 with the EOS token masked out. Score: the run with the "
        "EOS token masked out ends above the baselines."
    )
