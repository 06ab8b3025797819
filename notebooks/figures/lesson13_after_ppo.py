"""Notebook 13: what a token weighs, which groups teach, whose gradient a KL penalty has, how far best of n goes."""

from collections.abc import Sequence

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor

from book.figures import BLUE, GREEN, ORANGE, RULE

from . import suptitle


def draw_weights(lengths: Sequence[int], weights: dict[str, Tensor]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(figsize=(7, 3), layout="constrained")
    for (name, values), color, style in zip(weights.items(), (BLUE, ORANGE, GREEN), ("-", "-", "--"), strict=True):
        axes.loglog(lengths, values, style, marker="o", color=color, label=name)
    axes.set(xlabel="tokens of the response", ylabel="weight of one token")
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.minorticks_off()
    axes.legend()
    suptitle(figure, "What one token counts")
    alt = (
        "Weight of one token against the length of its response, on two logarithmic axes. Tokens and constant are flat "
        "lines; responses falls as one over the length, from the highest of the three to the lowest."
    )
    return figure, alt


def draw_groups(chances: Sequence[float], strength: dict[str, list[float]], teach: list[float]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for (name, values), color in zip(strength.items(), (BLUE, ORANGE), strict=True):
        left.plot(chances, values, marker="o", color=color, label=name)
    left.set(xlabel="how often the prompt is solved", ylabel="mean size of an advantage", ylim=(0, 1.05))
    left.legend()
    right.plot(chances, teach, marker="o", color=GREEN)
    right.set(xlabel="how often the prompt is solved", ylabel="groups that teach", ylim=(0, 1.05))
    suptitle(figure, "Easy and hard prompts")
    alt = (
        "Left: the mean size of an advantage over the probability that a prompt is solved, for groups that teach. "
        "Without the standard deviation it is a hill, small for easy and hard prompts; with it the hill is flatter and "
        "higher. Right: the share of groups that teach, near 1 in the middle and small at both ends."
    )
    return figure, alt


def draw_slopes(slopes: dict[str, Tensor]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(figsize=(7.5, 3), layout="constrained")
    styles = {"k3 alone": (ORANGE, 0.9), "ratio * k3": (BLUE, 0.9)}
    width = 0.2
    for place, (name, values) in enumerate(slopes.items()):
        color, alpha = styles.get(name, (RULE, 0.9 if "policy ||" in name else 0.45))
        axes.bar(
            torch.arange(len(values)) + (place - 1.5) * width,
            values.numpy(),
            width,
            color=color,
            alpha=alpha,
            label=name,
        )
    axes.set_xticks(range(len(values)), [f"word {number}" for number in range(len(values))])
    axes.set(ylabel="mean gradient by the logit")
    axes.axhline(0, color=RULE, lw=0.8)
    axes.legend(fontsize=8)
    suptitle(figure, "Whose gradient is it?")
    alt = (
        "Four words with four bars each. The bars of ratio times k3 agree with those of KL(policy || reference) at "
        "every word, and the bars of k3 alone with those of KL(reference || policy), which are different."
    )
    return figure, alt


def draw_best_of_n(counts: Sequence[int], exact: dict[str, list[float]], bound: list[float]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(figsize=(7, 3), layout="constrained")
    axes.plot(counts, bound, "--", color=RULE, label="log n - (n - 1) / n")
    for (name, values), color in zip(exact.items(), (ORANGE, GREEN, BLUE), strict=True):
        axes.plot(counts, values, marker="o", color=color, label=name)
    axes.set(xscale="log", xlabel="n", ylabel="KL in nats")
    axes.legend()
    suptitle(figure, "How far best of n goes")
    alt = (
        "KL over n on a logarithmic axis. The bound rises without end. The exact KL of a policy with 4 equally likely "
        "responses stops at log 4, that of 64 at log 64, and that of 4096 stays close to the bound."
    )
    return figure, alt
