"""Notebook 6: estimators of the KL, where each of them leads, and the adaptive controller."""

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor

from book.figures import BLUE, ORANGE, YELLOW
from book.figures.shared import ESTIMATOR_COLORS, deviation_panel

from . import suptitle


def four_words(probs: Tensor, estimates: dict[str, Tensor], deviations: dict[str, list[float]]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    words = [f"p = {p:g}" for p in probs.tolist()]
    for place, (name, color) in enumerate(ESTIMATOR_COLORS.items()):
        left.bar(torch.arange(4) + 0.27 * (place - 1), estimates[name], width=0.25, color=color, label=name)
    left.axhline(0, color="black", linewidth=0.6)
    left.set_xticks(range(4), words)
    left.set(xlabel="word that was drawn", ylabel="estimate from it (nats)")
    left.legend(loc="upper left")
    deviation_panel(right, deviations)
    right.set(ylabel="standard deviation (nats)")
    suptitle(figure, "Three estimates of one KL divergence")
    return figure, (
        "Left: the three estimates at each of the four words; k1 is negative at the two rare words. Right, on log "
        "scales: the standard deviation of k1 is far above the KL, and the further above, the smaller the KL; "
        "those of k2 and k3 are close to it."
    )


def batches(means: dict[str, Tensor], exact: float) -> tuple[Figure, str]:
    draw = torch.Generator().manual_seed(0)
    figure, axis = pyplot.subplots()
    for row, (name, color) in enumerate(ESTIMATOR_COLORS.items()):
        jitter = row + 0.5 * (torch.rand(len(means[name]), generator=draw) - 0.5)
        axis.plot(means[name], jitter, "o", color=color, alpha=0.6)
    axis.axvline(exact, color="black", linewidth=1)
    axis.text(exact + 0.003, 2.5, f"over the whole vocabulary: {exact:.3f}")
    axis.axvline(0, color="gray", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(3), [f"{name}\nstd {means[name].std():.3f}" for name in means])
    axis.set(xlabel="mean KL of a response in a batch of 32 (nats)", ylim=(-0.5, 2.75))
    axis.set_title("The KL that a trainer would log, batch by batch")
    return figure, (
        "Three rows of dots, one dot per batch of 32 responses. Those of k1 reach from below 0 to far above the "
        "exact KL; most of those of k2 and k3 are close to it, and none is below 0."
    )


def clamped(kl: Sequence[float], estimate: Sequence[float], real: tuple[float, float]) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    axis.plot(kl, kl, color="black", label="the KL (mean of k1 and of k3)")
    axis.plot(kl, estimate, "--", color=ORANGE, label="mean of k1 clamped at 0")
    axis.plot(*real, "o", color=ORANGE, label="clamped, real responses (per token)")
    for place, x, y in ((0, 1.05 * kl[0], 0.006), (-1, 1.05 * kl[-1], 0.29)):
        arrow = {"arrowstyle": "->", "color": "gray"}
        axis.annotate("", (kl[place], estimate[place]), (kl[place], kl[place]), arrowprops=arrow)
        axis.text(x, y, f"times {estimate[place] / kl[place]:.2g}")
    axis.set(xscale="log", yscale="log", xlim=(0.0018, 0.4))
    axis.set(xlabel="KL(policy || reference) of a token (nats)", ylabel="mean of the estimate (nats)")
    axis.legend(loc="lower right")
    axis.set_title("k1 clamped at 0, against the KL")
    return figure, (
        "Mean of the estimate against the KL, on log scales. The KL itself is the diagonal. The clamped k1 is "
        "above it and falls half as steeply, so the ratio is largest where the KL is small. The dot of real "
        "responses is near the clamped line."
    )


def gradients(probs: Tensor, found: dict[tuple[str, str], Tensor], wanted: Tensor) -> tuple[Figure, str]:
    """Mean gradient of each estimator in the loss and in the reward; those that equal `wanted` are blue."""
    figure, axes = pyplot.subplots(2, 3, sharex=True, sharey=True, figsize=(8, 4.2))
    for axis, ((place, name), slopes) in zip(axes.flat, found.items(), strict=True):
        axis.bar(range(4), slopes, color=BLUE if torch.allclose(slopes, wanted) else YELLOW)
        axis.plot(range(4), wanted, "_", color="black", markersize=22, markeredgewidth=2)
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set_title(f"{name} in the {place}", fontweight="normal", fontsize=10)
        axis.set_xticks(range(4), [f"{p:g}" for p in probs.tolist()])
    figure.supxlabel("probability of the word under the policy (black dashes: gradient of the KL)", fontsize=10)
    figure.supylabel("mean gradient (nats per logit)", fontsize=10)
    return figure, (
        "Six bar charts of the mean gradient at the four words, with dashes for the gradient of the KL. In the "
        "loss: k1 is 0, k2 agrees with the dashes, k3 does not. In the reward: k1 agrees; k2 and k3 do not, and k3 "
        "has the wrong sign at the first and last word."
    )


def training_runs(
    runs: dict[tuple[str, str], tuple[Tensor, list[float]]], best: Tensor, largest: float, scores: Tensor
) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2, width_ratios=(1, 1.25))
    styles: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (1, 3)))
    for number, (((place, name), (final, curve)), style) in enumerate(zip(runs.items(), styles, strict=True)):
        (line,) = left.plot(curve, linestyle=style, label=f"{name} in the {place}")
        right.bar(torch.arange(4) + 0.16 * (number - 2), final, width=0.15, color=line.get_color())
    right.hlines(best, torch.arange(4) - 0.42, torch.arange(4) + 0.42, color="black", linewidth=1.5)
    left.axhline(largest, color="black", linewidth=0.8)
    left.set(
        xlabel="step",
        ylabel="score - kl_coef * KL",
        ylim=(min(curve[0] for _, curve in runs.values()) - 0.1, largest + 0.03),
    )
    left.legend(loc=(0.48, 0.2), fontsize=8)
    right.set_xticks(range(4), [f"score {score:g}" for score in scores.tolist()])
    right.set(xlabel="word (black line: the best policy)", ylabel="probability after 1000 steps")
    suptitle(figure, "Five training runs that differ in the estimator and its place (one seed)")
    return figure, (
        "Left: the objective against the step for five runs. k1 in the reward and k2 in the loss reach the black "
        "line of the best policy; k3 in the loss stays slightly below it, k3 in the reward lower, and k1 in the "
        "loss rises and then falls far below. Right: the final probabilities of the four words; k1 in the loss has "
        "nearly everything on the first word."
    )


def controllers(found: dict[int, tuple[Tensor, list[float]]], target: float, change: int = 200) -> tuple[Figure, str]:
    figure, (top, bottom) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 4.6), height_ratios=(1.5, 1))
    top.axhspan(0.8 * target, 1.2 * target, color="lightgray", label="target ± 20 %")
    for (horizon, (kls, coefficients)), style in zip(found.items(), (":", "-", "--"), strict=True):
        top.plot(kls, style, label=f"horizon {horizon}")
        bottom.plot(coefficients, style)
    for axis in (top, bottom):
        axis.axvline(change, color="black", linewidth=0.8)
    top.text(change - 3, 3.8, "scores double", ha="right")
    top.set(ylabel="KL of a response (nats)", ylim=(0, 4.4))
    top.legend(ncols=2, loc="upper right")
    bottom.set(xlabel="batch (64 responses each)", ylabel="kl_coef", yscale="log")
    suptitle(figure, "The adaptive controller with three horizons")
    return figure, (
        "Above: the KL over 400 batches with a band around the target. Horizon 20 oscillates through the band all "
        "the time; horizon 400 overshoots once, settles in the band, and returns after the scores double; horizon "
        "5000 is above the band most of the time. Below: kl_coef on a log scale: jagged, smooth, and almost flat."
    )
