"""Notebook 12: proxies that like nonsense, and recorded runs at eight KL coefficients."""

import json
from typing import Any

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure

from book.figures import BLUE, ORANGE
from book.figures.shared import OF_KL_COEF
from book.playgrounds import RECORDED

from . import suptitle

DISTANCE = "d = sqrt(KL from the SFT model), square root of nats"


def three_proxies(
    proxies: dict[str, tuple[Any, float]],
    counts: dict[str, int],
    texts: list[str],
    truth: list[float],
    scores: dict[str, list[float]],
) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots(figsize=(8, 4))
    for place, (name, (model, accuracy)) in enumerate(proxies.items()):
        weights = sum(part.numel() for part in model.parameters())
        label = f"{name}\n{counts[name]:,} comparisons\n{weights:,} weights\n{accuracy:.0%} right\n"
        rows = [row + 0.25 * (place - 1) for row in range(len(texts))]
        axis.barh(rows, scores[name], height=0.22, label=label)
    names = [text.replace(" and", "\nand") for text in texts]
    axis.set_yticks(range(len(texts)), [f"{name}\ngold {gold:.1f}" for name, gold in zip(names, truth, strict=True)])
    axis.invert_yaxis()
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set(xlabel="proxy reward (standard deviations of the SFT model's responses)")
    suptitle(figure, "Four texts, scored by three reward models")
    figure.legend(title="reward model", loc="outside right center")
    return figure, (
        'Bars of the scores of four texts by three reward models. "the film was dull ." is below 0 for all. The two '
        'positive reviews are above 0. "superb superb superb superb .", with gold 0, is above "the film was superb ."'
    )


class Recorded:
    """The evaluations of one recorded run, from the SFT model on: one number per evaluation."""

    def __init__(self, run: dict[str, Any]) -> None:
        for name in ("gold", "proxy", "kl", "valid"):
            setattr(self, name, torch.tensor(run[name], dtype=torch.float64))
        self.kl = self.kl.clamp(min=0).abs()  # no -0.0
        self.d = self.kl.sqrt()
        self.responses = run["responses"]


def recorded_runs() -> tuple[dict[float, Recorded], list[int], list[str]]:
    """The runs by KL coefficient, the updates after which they were evaluated, and the prompts of their responses."""
    stored = json.loads(RECORDED.read_text("utf-8"))
    return {run["kl_coef"]: Recorded(run) for run in stored["runs"]}, stored["updates"], stored["prompts"]


def proxy_and_gold(runs: dict[float, Recorded]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(1, 2, figsize=(8, 3.8), sharey=True)
    for (kl_coef, run), marker in zip(runs.items(), "os^D", strict=True):
        for axis, numbers in zip(axes, (run.proxy, run.gold), strict=True):
            look = {"color": OF_KL_COEF[kl_coef], "marker": marker}
            axis.plot(run.d, numbers, **look, markersize=3, linewidth=1.2, label=f"kl_coef = {kl_coef:g}")
            axis.plot(run.d[-1:], numbers[-1:], **look, markersize=9)
    axes[0].set(ylabel="proxy reward (standard deviations)", title="proxy reward")
    axes[1].set(ylabel="gold reward (points, at most 2)", title="gold reward")
    axes[1].yaxis.set_tick_params(labelleft=True)
    for axis in axes:
        axis.set(ylim=(-0.1, 2.1))
        axis.title.set_fontweight("normal")
    axes[0].legend(title="large marker: update 40", loc="lower right")
    figure.supxlabel(DISTANCE, fontsize=10)
    suptitle(figure, "Forty updates from the same SFT model")
    return figure, (
        "Two charts over the square root of the KL, four runs each. Left, the proxy reward rises in every run, highest "
        "with kl_coef 0, where it goes furthest to the right. Right, gold rises at first in all runs. Those with "
        "kl_coef 0.08 and 0.3 stay left and end high; with 0.01 gold turns down; with 0 it falls to 0."
    )


def sweep(runs: dict[float, Recorded], best: float) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    places = range(len(runs))
    ends = {
        name: torch.stack([getattr(run, name)[-3:].mean() for run in runs.values()]).tolist()
        for name in ("proxy", "gold")
    }
    for name, other, style, color in (("proxy", "gold", "s--", ORANGE), ("gold", "proxy", "o-", BLUE)):
        axis.plot(places, ends[name], style, color=color, label=f"{name} reward")
        for x, number, beside in zip(places, ends[name], ends[other], strict=True):
            offset = (0, 8) if number > beside else (0, -16)
            axis.annotate(f"{number:.2f}", (x, number), offset, textcoords="offset points", ha="center", fontsize=8)
    axis.plot([-0.4, len(runs) - 0.4], [best, best], ":", color=BLUE, linewidth=1)
    axis.text(len(runs) - 0.35, best, f"gold {best:.2f}: best\nevaluation of\nthe run with 0", va="center", color=BLUE)
    axis.set_xticks(places, [f"{kl_coef:g}" for kl_coef in runs])
    axis.set(xlabel="kl_coef", ylabel="reward at the end", ylim=(-0.25, 2.15), xlim=(-0.4, len(runs) + 0.9))
    axis.legend(loc="lower right", bbox_to_anchor=(0.85, 0))
    suptitle(figure, "Proxy and gold reward at the end of eight runs (mean of the last three evaluations)")
    return figure, (
        "Proxy and gold reward at the end against kl_coef from 0 to 0.6. The proxy reward falls, most on the right. "
        "Gold rises from 0 to its maximum at 0.08 and falls a little to 0.6; from 0.04 to 0.3 it lies above the dotted "
        "line, the best evaluation of the run with 0."
    )
