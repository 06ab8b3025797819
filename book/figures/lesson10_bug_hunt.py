"""The figures of lesson 10: what each suspect shows, computed by the suspect as it is handed out."""

import math
from collections.abc import Callable
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testcases.harness.oracle.mutations import suspects
from testcases.harness.oracle.reference import with_change

from . import BLUE, GREEN, ORANGE, PINK
from .style import INK, RULE, WIDTH, pyplot

LESSON = "lesson10_bug_hunt"
Bug = Callable[..., Any]
"""The function of an exercise with the bug that is handed out."""


def _draw(*shape: int, seed: int = 0, uniform: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand if uniform else torch.randn)(shape, generator=generator, dtype=torch.float64)


def credit_packed(axes: Axes, bug: Bug) -> None:
    """right: the same, however many share a stream"""
    sizes, gaps = [1, 2, 4, 8, 16], []
    for rows in sizes:
        lengths = [6] * rows
        rewards, critic = _draw(6).repeat(rows), 3 + _draw(6, seed=1).repeat(rows)
        gaps.append(bug(rewards, critic, lengths, 1.0, 0.95).mean().item())
    axes.plot(sizes, gaps, "o-", color=ORANGE)
    axes.set(xlabel="responses per stream", ylabel="mean credit", xscale="log")


def pessimistic_gain(axes: Axes, bug: Bug) -> None:
    """right: both learn, and stay below 3"""
    # A table policy of 16 places and 8 words that starts at itself.
    start, merits = 0.5 * _draw(16, 8, seed=2), _draw(16, 8, seed=3)
    for bonus, color, label in ((0.0, BLUE, "alone"), (0.2, ORANGE, "+ entropy bonus")):
        table, seen = start, []
        for _ in range(80):
            leaf = table.clone().requires_grad_()
            log_probs = leaf.log_softmax(1)
            ratios = (log_probs - start.log_softmax(1)).exp()
            entropy = -(log_probs.exp() * log_probs).sum(1).mean()
            gain = bug(ratios.flatten(), merits.flatten(), 0.2)
            table = table + 8 * torch.autograd.grad(gain + bonus * entropy, leaf)[0]
            seen.append(ratios.max().item())
        axes.plot(seen, color=color, label=label)
    axes.axhline(1.2, color=RULE, ls="--", lw=1)
    axes.set(xlabel="gradient step", ylabel="largest ratio", yscale="log")


def bounded_error(axes: Axes, bug: Bug) -> None:
    """right: none goes farther, the 19 come nearer"""
    anchors, targets = torch.zeros(64).double(), 2 + _draw(64, seed=4)
    estimates = 0.5 * _draw(64, seed=5)
    away = (estimates * targets.sign()) < -0.2
    farthest, gaps = [], []
    for _ in range(40):
        leaf = estimates.clone().requires_grad_()
        error = bug(leaf, anchors, targets, 0.2)
        estimates = estimates - 6 * torch.autograd.grad(error, leaf)[0]
        farthest.append((estimates - anchors).abs().max().item())
        gap = (estimates - targets).abs()
        gaps.append((gap[away].mean().item(), gap[~away].mean().item()))
    axes.plot(farthest, color=PINK, label="farthest from its anchor")
    axes.plot([gap for gap, _ in gaps], color=ORANGE, label=f"to the target: {int(away.sum())} moved away")
    axes.plot([gap for _, gap in gaps], color=BLUE, label=f"to the target: {int((~away).sum())} others")
    axes.axhline(0.2, color=RULE, ls="--", lw=1)
    axes.set(xlabel="gradient step", ylabel="distance (room 0.2)", ylim=(-0.3, 9))
    axes.legend(fontsize=8, loc="upper right")


def merge_moments(axes: Axes, bug: Bug) -> None:
    """right: nearly one curve for all three"""
    for size, color in ((1, GREEN), (4, BLUE), (16, ORANGE)):
        moments, means = (200.0, 0.0, 1.0), []
        scores = 5 + _draw(320, 1, seed=6)
        for batch in scores.reshape(-1, 2, size).split(1):
            moments = bug(*moments, batch[0])
            means.append(moments[1])
        axes.plot(torch.linspace(0, 320, len(means)), means, color=color, label=f"responses per prompt: {size}")
    axes.legend(fontsize=8, loc="upper left")
    axes.set(xlabel="scores of mean 5, after 200 of mean 0", ylabel="mean of all")
    axes.set_ylim(-0.1, 4.4)


def sampled_drift(axes: Axes, bug: Bug) -> None:
    """right: 0 at each temperature"""
    logits, heats = 2 * _draw(64, 8, 12, seed=7), [0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0]
    means = []
    for heat in heats:
        chances = (logits / heat).softmax(-1).reshape(-1, 12)
        generator = torch.Generator().manual_seed(1)
        tokens = torch.multinomial(chances, 1, generator=generator).reshape(64, 8)
        means.append(bug(logits, logits, tokens, heat).mean().item())
    axes.plot(heats, means, "o-", color=ORANGE)
    axes.axhline(0, color=RULE, lw=1)
    axes.set(xlabel="temperature", ylabel="drift at step 0")


def read_prompts(axes: Axes, bug: Bug) -> None:
    """right: 0, whoever is in the batch"""
    words, places, tokens = _draw(9, 4, seed=8), _draw(12, 4, seed=9), torch.tensor([1, 2, 3, 4])
    alone = bug(words, places, tokens[None], torch.ones(1, 4).bool())
    found = []
    for extra in range(9):
        row = torch.cat([torch.zeros(extra, dtype=torch.long), tokens])[None]
        visible = torch.arange(4 + extra)[None] >= extra
        found.append((bug(words, places, row, visible) - alone).norm().item())
    axes.plot(range(9), found, "o-", color=ORANGE)
    axes.set(xlabel="longest prompt minus this one", ylabel="change of its vector")


def sum_in_groups(axes: Axes, bug: Bug) -> None:
    """right: all dots on the dashed line"""
    lengths = torch.randint(1, 9, (64,), generator=torch.Generator().manual_seed(0))
    numbers = torch.ones(64, 8).double()
    axes.scatter(lengths, bug(numbers, lengths, 32), s=12, color=ORANGE)
    axes.plot([1, 8], [1, 8], "--", color=RULE, lw=1)
    axes.set(xlabel="length of a row of ones", ylabel="its sum")


def label_replies(axes: Axes, bug: Bug) -> None:
    """right: the share stays near 0"""
    # A table of next tokens learns from six replies; before, three of ten tokens ended a response.
    prompts, replies = [[7, 8]] * 6, [[5] * size + [2] for size in (1, 2, 3, 4, 5, 6)]
    tokens, labels = bug(prompts, replies, 2)
    table = torch.full((9, 9), 0.0875).double().log()
    table[:, 2] = math.log(0.3)
    losses, at_limit = [], []
    for _ in range(60):
        goes_on = table.softmax(1) * (torch.arange(9) != 2)
        at_limit.append(torch.linalg.matrix_power(goes_on, 12)[8].sum().item())
        leaf = table.clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy(leaf[tokens[:, :-1]].flatten(0, 1), labels[:, 1:].flatten())
        table = table - 2 * torch.autograd.grad(loss, leaf)[0]
        losses.append(loss.item())
    axes.plot(losses, color=BLUE, label="training loss")
    axes.plot(at_limit, color=ORANGE, label="share at the length limit")
    axes.set(xlabel="gradient step of fine-tuning")


def train_chain(axes: Axes, bug: Bug) -> None:
    """right: the value loss begins above 0 and falls"""
    noise, payoff = _draw(60, 32, 5, uniform=True), 1 + _draw(5, 3, seed=2)
    run = bug(noise, payoff, torch.zeros(5, 3).double(), 0.2, 0.95)
    axes.plot(run.reward, color=BLUE, label="reward")
    axes.plot(run.value_loss, color=ORANGE, label="value loss")
    axes.set(xlabel="update")


def train_bandit(axes: Axes, bug: Bug) -> None:
    """right: more curiosity, more entropy"""
    noise, payoff = _draw(40, 32, uniform=True), torch.tensor([0.0, 0.4, 0.5, 0.1]).double()
    for curiosity, color in ((0.0, GREEN), (0.1, BLUE), (0.3, ORANGE)):
        run = bug(noise, payoff, torch.zeros(4).double(), 0.5, 0.2, 3, curiosity)
        axes.plot(run.entropy, color=color, label=f"curiosity {curiosity:g}")
    axes.set(xlabel="update", ylabel="entropy")


def train_sliced(axes: Axes, bug: Bug) -> None:
    """right: a flat line"""
    replies = torch.randint(0, 5, (12, 10), generator=torch.Generator().manual_seed(3))
    lengths, weights = torch.tensor([1, 10, 2, 9, 1, 1, 8, 10, 2, 1, 3, 10]), _draw(12, seed=1)
    sizes, found = [1, 2, 3, 4, 6, 12], []
    for rows in sizes:
        table = bug(replies, lengths, weights, torch.zeros(5, 5).double(), 1.0, 5, rows)
        found.append(table.std().item())
    axes.plot(sizes, found, "o-", color=ORANGE)
    axes.set(xlabel="replies per slice", ylabel="std of the trained table", xticks=sizes)


def train_contexts(axes: Axes, bug: Bug) -> None:
    """right: at first larger ratios, many outside"""
    noise, payoff = _draw(30, 16, 4, uniform=True), _draw(4, 3, seed=5)
    run = bug(noise, payoff, torch.zeros(4, 3).double(), 6.0, 0.2, 8)
    axes.plot(run.ratio, color=BLUE, label="largest ratio, pass 8")
    axes.plot(run.outside, color=ORANGE, label="share outside")
    axes.set(xlabel="update", ylim=(-0.1, 1.6))


def _panels(height: float, *panels: Callable[[Axes, Bug], None]) -> Figure:
    """Two columns; each panel is headed by its block's name, and by what a right block would show."""
    figure, grid = pyplot.subplots(len(panels) // 2, 2, figsize=(WIDTH, height), layout="constrained")
    for axes, panel in zip(grid.flat, panels, strict=True):
        name = panel.__name__
        panel(axes, with_change(LESSON, suspects(LESSON)[name]).function(LESSON, name))
        if axes.get_legend_handles_labels()[0] and axes.get_legend() is None:
            axes.legend(fontsize=8)
        axes.set_title(f"{name}\n", loc="left")
        axes.annotate(panel.__doc__, (0, 1), (0, 4), "axes fraction", "offset points", color=INK, fontsize=8.5)
    return figure


def symptoms_of_the_blocks() -> Figure:
    first = credit_packed, pessimistic_gain, bounded_error, merge_moments
    return _panels(9.8, *first, sampled_drift, read_prompts, sum_in_groups, label_replies)


def symptoms_of_the_trainers() -> Figure:
    return _panels(5.2, train_chain, train_bandit, train_sliced, train_contexts)


FIGURES = (symptoms_of_the_blocks, symptoms_of_the_trainers)
