"""Notebook 2: the annotators' choices, two reward models, and what their scores are worth."""

from types import ModuleType

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor

from book.figures import BLUE, ORANGE, SKY

from . import suptitle


def choices(lesson: ModuleType, centers: Tensor, fractions: Tensor, errors: Tensor) -> tuple[Figure, str]:
    gap = torch.linspace(-10, 10, 201)
    losses = torch.stack([lesson.pairwise_loss(one[None], torch.zeros(1)) for one in gap])
    figure, (left, right) = pyplot.subplots(1, 2)
    left.plot(gap, gap.sigmoid(), label="Bradley-Terry: sigmoid")
    left.errorbar(centers, fractions, 2 * errors, fmt="o", color=ORANGE, label="annotators (± 2 s.e.)")
    left.set(xlabel="score of first - score of second", ylabel="fraction in which first is chosen", ylim=(-0.02, 1.02))
    left.legend(loc="lower right", handlelength=1)
    right.plot(gap, losses)
    right.set(xlabel="score of chosen - score of rejected", ylabel="pairwise loss (nats)")
    suptitle(figure, "Choices of the annotators, and the loss that a choice gives")
    return figure, (
        "Left: the sigmoid of the score difference, with dots for the fraction in which annotators chose the first "
        "response. The dots follow the curve near 0 and are less extreme at both ends. Right: the pairwise loss "
        "falls from a straight line to 0."
    )


def histograms(before: dict[str, Tensor], after: dict[str, Tensor]) -> tuple[Figure, str]:
    bins = torch.linspace(-8, 8, 65).tolist()
    figure, axes = pyplot.subplots(2, 1, sharex=True, sharey=True, figsize=(8, 4.4))
    for axis, group, title in zip(axes, (before, after), ("before calibrate", "after calibrate"), strict=True):
        for name, scores in group.items():
            mean = round(scores.mean().item(), 1) + 0.0
            axis.hist(scores, bins, alpha=0.65, label=f"{name}: mean {mean:.1f}, std {scores.std():.1f}")
        axis.set(ylabel="responses", title=title)
        axis.legend(loc="upper left")
    axes[1].set(xlabel="score of a response")
    return figure, (
        "Histograms of the scores of 512 responses by two reward models, on one x axis. Before calibrate they "
        "differ in mean and standard deviation. After it both have a mean near 0 and a standard deviation near 1, "
        "and lie on top of each other."
    )


def reliabilities(found: dict[str, tuple[Tensor, Tensor, Tensor, float]]) -> tuple[Figure, str]:
    """Two diagrams of two lines each; in both, blue is the better one."""
    figure, axes = pyplot.subplots(1, 2, sharey=True)
    names = list(found)
    for axis, pair in zip(axes, (names[:2], names[2:]), strict=True):
        axis.plot([0, 1], [0, 1], color="black", linewidth=0.8)
        for name in sorted(pair, key=lambda one: found[one][3]):
            stated, observed, errors, distance = found[name]
            color, style = (BLUE, "o-") if distance == min(found[one][3] for one in pair) else (ORANGE, "s--")
            axis.errorbar(stated, observed, errors, fmt=style, color=color, label=f"{name}: {distance:.2f} off")
        axis.set(xlabel="stated: sigmoid(difference)", xlim=(0, 1), ylim=(-0.02, 1.02))
        axis.legend(loc="lower right", fontsize=8)
    axes[0].set_ylabel("observed: fraction chosen (± 2 s.e.)")
    suptitle(figure, "Stated and observed probability of a choice")
    return figure, (
        "Two reliability diagrams with the diagonal. Left, the model trained here: before calibrate its line is "
        "close to the diagonal; after calibrate it is below it on the left and above it on the right. Right, the "
        "shipped model: it deviates like that, and is close to the diagonal when its scores are multiplied by a "
        "fitted factor."
    )


def accuracies(rate: dict[str, float], count: dict[str, int], ceiling: float) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    errors = [2 * (one * (1 - one) / count[name]) ** 0.5 for name, one in rate.items()]
    axis.bar(range(5), rate.values(), yerr=errors, capsize=4, color=[BLUE] + [SKY] * 4)
    for place, one in enumerate(rate.values()):
        axis.text(place, 0.1, f"{one:.0%}", ha="center", color="white" if place == 0 else "black", fontweight="bold")
    axis.axhline(
        ceiling, color=ORANGE, linestyle="--", label=f"ceiling: a model that knows the gold score, {ceiling:.1%}"
    )
    axis.axhline(0.5, color="black", linestyle=":", label="chance")
    axis.set_xticks(range(5), [f"{name}\n({count[name]} pairs)" for name in rate], fontsize=9)
    axis.set(xlabel="what differs between the two responses", ylabel="accuracy (± 2 s.e.)", ylim=(0, 1.02))
    figure.legend(loc="outside upper center", ncols=2)
    return figure, (
        f"Accuracy of the shipped reward model by group; the ceiling is at {ceiling:.0%}, chance at 50 %. "
        + ", ".join(f"{name}: {one:.0%}" for name, one in rate.items()).replace("\n", " ")
    )


TRICKS = {
    "superb superb superb .": "superb superb superb .",
    "superb, twelve times": "superb " * 11 + "superb",
    "lovely and lovely and ...": "the film was lovely" + " and lovely" * 5 + " .",
    "praise of a meal": "the meal was superb and brilliant and the sauce was lovely and charming .",
}
"""Texts that are no honest review of a film, by what the figure calls them."""


def tricks(gold: Tensor, scores: Tensor, trick_gold: Tensor, trick_scores: Tensor) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots(figsize=(8, 4))
    jitter = 0.12 * (torch.rand(len(gold), generator=torch.Generator().manual_seed(0)) - 0.5)
    correlation = torch.corrcoef(torch.stack([gold, scores]))[0, 1]
    label = f"the policy's responses: correlation {correlation:.2f}"
    axis.plot(gold + jitter, scores, ".", markersize=3, alpha=0.5, label=label)
    axis.plot(trick_gold, trick_scores, "D", color=ORANGE, markeredgecolor="white", markersize=9, label="written by us")
    heights = iter((1.3, 1.85, 2.4))
    for x, y, name in sorted(
        zip(trick_gold.tolist(), trick_scores.tolist(), TRICKS, strict=True), key=lambda one: one[1]
    ):
        to = (-1.05, next(heights)) if x == 0 else (0.75, 2.5)
        line = {"arrowstyle": "-", "linewidth": 0.8, "relpos": (1, 0)}
        axis.annotate(f"{name} {y:.1f}", (x, y), to, arrowprops=line, fontsize=9)
    axis.set(
        xlabel="gold score (the true quality)", ylabel="proxy score (reward model)", ylim=(-2.6, 2.9), xlim=(-1.1, 2.15)
    )
    axis.legend(loc="lower right")
    axis.set_title("Score of the reward model against the true quality")
    return figure, (
        "The score of 2000 responses against their gold score: a rising band of dots in columns from -1 to 2. "
        "Diamonds for four texts of ours are at gold 0 and 1, as high as honest responses of gold 1.5 and 2."
    )


def running_scores(running: Tensor, words: list[list[str]], start: int) -> tuple[Figure, str]:
    """Score at every position of two texts, and the positions that are compared."""
    length = running.shape[1]
    figure, axis = pyplot.subplots()
    axis.axvspan(start - 0.5, length - 0.5, color="#F2F2F2", label="compared by token_pairwise_loss")
    for line, style, name in zip(running, ("o-", "s--"), ("chosen", "rejected"), strict=True):
        axis.plot(line, style, label=f"{name}: {line[-1]:+.1f} at the last token")
    labels = [one if one == other else f"{one} /\n{other}" for one, other in zip(*words, strict=True)]
    axis.set_xticks(range(length), labels, rotation=45, fontsize=8)
    axis.set(xlabel="token (chosen / rejected)", ylabel="score at this position")
    axis.legend(loc="upper left")
    axis.set_title("A running score of two responses")
    return figure, (
        "Scores of two responses at every token. Up to 'superb' the two lines are one. In the shaded part, from "
        "'and / but' on, they differ; they nearly meet again at 'the plot was', and differ from 'charming / awful' "
        "on."
    )
