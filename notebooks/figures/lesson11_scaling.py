"""Notebook 11: errors of weights, processes at work, first ratios in bf16, memory."""

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter
from torch import Tensor

from book.figures import BLUE, ORANGE, PINK

from . import suptitle


def weighted_gradients(ranges: list[int], curves: dict[str, list[float]]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots()
    for (name, values), style, color in zip(curves.items(), ("^:", "s--", "o-"), (PINK, ORANGE, BLUE), strict=True):
        axes.plot(ranges, values, style, color=color, label=name)
    axes.set(xlabel="lengths: 20 tokens, plus or minus", ylabel="relative error of the gradient", xticks=ranges)
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_yticks([0, 0.01, 0.1, 1], ["0", "1 %", "10 %", "100 %"])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-0.001, 2)
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.32))
    suptitle(figure, "Two microbatches added up in three ways: the error against the whole minibatch")
    return figure, (
        "Relative error of the gradient against the range of the row lengths, from all equal to 1 to 39 tokens. The "
        "sum of means is off by about 100 % everywhere. The mean of means has no error for equal rows and about 11 % "
        "at the widest range. The weights of the lesson have no error anywhere."
    )


def processes_at_work(
    lengths: Tensor, plans: dict[str, list[list[Tensor]]], busy: dict[str, list[int]]
) -> tuple[Figure, str]:
    figure, grid = pyplot.subplots(1, 3, sharey=True)
    for axes, (name, plan) in zip(grid, plans.items(), strict=True):
        positions = busy[name]
        real = [sum(int(lengths[rows].sum()) for rows in own) for own in plan]
        axes.bar(range(8), [max(positions)] * 8, color="0.93", label="waiting")
        axes.bar(range(8), positions, color=ORANGE, label="padding")
        axes.bar(range(8), real, color=BLUE, label="real tokens")
        axes.set_title(f"{name}\n{sum(real) / (8 * max(positions)):.0%} real tokens", fontsize=10)
        axes.set(xlabel="process", xticks=range(8))
    grid[0].set_ylabel("token positions")
    grid[2].legend(loc="upper right")
    suptitle(figure, "256 rows on 8 processes, until all are done")
    return figure, (
        "Three bar charts of 8 processes: real tokens in blue, padding in orange on top, waiting for the slowest "
        "process in gray above. In order of arrival: much orange and some gray. Sorted, in blocks: the first process "
        "is full, the others mostly wait. plan_microbatches: nearly all blue, and all bars equally high."
    )


def first_ratios(errors: dict[str, Tensor]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots()
    for (name, values), style, color in zip(
        errors.items(), ("-", "-", "--", ":"), ("black", BLUE, PINK, ORANGE), strict=True
    ):
        ordered = values.sort().values
        above = 1 - torch.arange(len(ordered)) / len(ordered)
        axes.plot(ordered, above, style, color=color, label=name.replace("\n", " "))
    axes.set(xlabel="distance of the ratio from 1", ylabel="tokens farther from 1")
    axes.set_xscale("symlog", linthresh=1e-4)
    axes.set_xlim(0, 0.3)
    axes.set_xticks([0, 1e-4, 1e-3, 1e-2, 0.05, 0.2], ["0", "0.0001", "0.001", "0.01", "0.05", "0.2"])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.axvline(0.2, color="0.7", linewidth=1)
    axes.text(0.19, 0.9, "PPO clips", ha="right", color="0.4", fontsize=9)
    figure.legend(loc="outside lower center", ncols=2)
    suptitle(figure, "Ratios before the first step: the share of tokens that is farther from 1")
    return figure, (
        "Four falling curves: the share of tokens whose ratio is farther from 1 than the distance on the x axis. "
        "float32 everywhere: a vertical line at 0. bf16 passes with a float32 logarithm: most tokens below 0.0001. "
        "float32 rollout with bf16 training, and then a bf16 logarithm: farther to the right. None reaches 0.2."
    )


def kept_for_backward(depths: list[int], plain: list[float], saved: list[float]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(figsize=(6.4, 3.4))
    axes.plot(depths, plain, "s--", color=ORANGE, label="all activations")
    axes.plot(depths, saved, "o-", color=BLUE, label="checkpointed: the input of each block")
    axes.set(xlabel="layers", ylabel="kept for the backward pass (MiB)", xticks=depths, ylim=(0, None))
    axes.legend(loc="upper left")
    suptitle(figure, "Memory for one forward and backward pass, weights not counted")
    return figure, (
        "Memory kept for the backward pass against the number of layers, from 1 to 8: a steep dashed line if all "
        "activations are kept, a nearly flat one with checkpointing."
    )
