"""Notebook 3: estimates of the policy gradient for four words and for the course's language model."""

from collections.abc import Sequence

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor

from book.figures import BLUE, GREEN, ORANGE

from . import suptitle


def slopes(found: dict[str, Tensor], exact: Tensor) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(1, 2, sharey=True)
    bins = torch.linspace(-3.5, 3.5, 57).tolist()
    for axis, (name, estimate), color in zip(axes, found.items(), (ORANGE, BLUE), strict=True):
        axis.hist(estimate[:, 0], bins, color=color)
        axis.axvline(exact[0], color="black", linestyle="--", label=f"exact: {exact[0]:.3f}")
        axis.set(xlim=(-3.5, 3.5), xlabel="estimated slope of the loss for word 0", title=name)
        axis.legend(loc="upper left")
    axes[0].set(ylabel="number of estimates", yscale="log")
    suptitle(figure, "2000 estimates of one slope")
    return figure, (
        "Two histograms of 2000 estimates on the same axis, with a dashed line at the exact slope 0.335. Without a "
        "baseline they lie between -3 and 3. With leave-one-out they form one narrow tower at the line."
    )


def shares(sizes: Sequence[int], kept: dict[str, list[float]], error: dict[str, list[float]]) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    smooth = torch.linspace(2, 16, 100)
    axis.plot(smooth, torch.ones(100), color=BLUE, linewidth=1)
    axis.plot(smooth, (smooth - 1) / smooth, color=ORANGE, linewidth=1, label="(K - 1) / K")
    for (name, share), style, color in zip(kept.items(), ("o", "s"), (BLUE, ORANGE), strict=True):
        axis.errorbar(sizes, share, error[name], fmt=style, color=color, label=f"{name} (± 2 s.e.)")
    axis.set_xticks(sizes)
    axis.set(xlabel="K, responses to one prompt", ylabel="mean gradient / exact gradient", ylim=(0, 1.15))
    axis.legend(loc="lower right")
    axis.set_title("The share of the gradient that is left, for two baselines")
    return figure, (
        "Share of the exact gradient against K. Leave-one-out stays at 1. The mean of all K begins at a half for K = 2 "
        "and climbs along the curve (K - 1) / K, to 0.94 at K = 16."
    )


def three_weights(by_token: dict[str, Tensor], of_all: dict[str, float]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2, width_ratios=[1.6, 1])
    for (name, curve), style in zip(by_token.items(), ("o-", "s--", "^:"), strict=True):
        left.plot(curve, style, markersize=4, label=name)
    left.set(xlabel="token t", ylabel="standard deviation of its part", ylim=(0, 0.37))
    left.set_xticks(range(0, 20, 4))
    left.legend(ncols=3, loc="upper center", fontsize=8)
    bars = right.bar(range(3), list(of_all.values()), color=[BLUE, ORANGE, GREEN])
    right.bar_label(bars, fmt="%.2f")
    right.set_xticks(range(3), ["whole\nreturn", "to go", "to go -\nexpected"])
    right.set(ylabel="standard deviation of the estimate")
    right.margins(y=0.12)
    suptitle(figure, "Three kinds of weights: the noise of each token's part, and of the whole")
    return figure, (
        "Left, standard deviation of each token's part of the estimate. For the whole return it is the same at all "
        "tokens; for rewards to go it falls in a straight line to the end; with the expected part removed it is low "
        "everywhere. Right, bars for the whole estimate: 1.15, 0.68 and 0.17."
    )


def offsets_and_variance(offsets: Tensor, plain: Tensor, with_baseline: Tensor) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    best = offsets[plain.argmin()].item()
    axis.plot(offsets, plain, label="no baseline", color=ORANGE)
    axis.axhline(with_baseline, label="leave-one-out, whatever the offset", color=BLUE, linestyle="--")
    axis.plot(best, plain.min(), "o", color=ORANGE)
    arrow = {"arrowstyle": "->", "shrinkB": 5}
    axis.annotate(f"least at {best:g}", (best, plain.min()), (best, 0.35 * plain.max()), ha="center", arrowprops=arrow)
    axis.set(xlabel="offset added to all scores", ylabel="variance of the gradient", ylim=(0, None))
    axis.legend(loc="upper left")
    axis.set_title("Variance of the language model's gradient against the offset of the scores")
    return figure, (
        "Variance of the gradient of the language model against the offset of the scores. Without a baseline it is a "
        "parabola, lowest where the mean score is near 0. With leave-one-out it is a flat dashed line a little above "
        "the bottom of the parabola."
    )


def four_word_runs(curves: dict[str, Tensor]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(1, 2, sharey=True)
    for axis, (name, curve), color in zip(axes, curves.items(), (ORANGE, BLUE), strict=True):
        axis.plot(curve[:, :60], color=color, linewidth=0.5, alpha=0.5)
        axis.plot(curve.mean(dim=1), color="black", label=f"mean of {curve.shape[1]} runs")
        axis.set(xlabel="step", title=name, ylim=(8.9, 11.4))
        axis.legend(loc="upper left")
    axes[0].set_ylabel("expected reward")
    suptitle(figure, "60 of the runs, and the mean of all")
    return figure, (
        "Expected reward against the step, 60 thin lines in each panel, and the mean of all 200 runs in black. Without "
        "a baseline lines run apart to plateaus at 9, 10, 10.5 and 11. With leave-one-out all climb together."
    )


def language_runs(runs: dict[str, Tensor]) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    for (name, histories), style, color in zip(runs.items(), ("s--", "o-"), (ORANGE, BLUE), strict=True):
        axis.plot(histories.T, color=color, linewidth=0.7, alpha=0.6)
        axis.plot(histories.mean(dim=0), style, color=color, markersize=4, label=f"{name}, mean of 3 runs")
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set(xlabel="update", ylabel="mean score of 32 responses")
    axis.legend(loc="upper left")
    axis.set_title("The language model, with scores that carry an offset")
    return figure, (
        "Mean score against the update. Three thin lines and their mean for each kind. From near 0 all climb; with "
        "leave-one-out they climb faster and end higher in each of the three runs."
    )
