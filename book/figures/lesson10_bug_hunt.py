"""The figures of lesson 10: what each suspect shows, computed by the suspect as it is handed out."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from matplotlib.figure import Figure

from testcases.harness.oracle.mutations import suspects
from testcases.harness.oracle.reference import with_change

from . import BLUE, GREEN, ORANGE, PINK
from .style import INK, RULE, pyplot

LESSON = "lesson10_bug_hunt"


@cache
def suspect(name: str) -> Callable[..., Any]:
    """The function of an exercise with the bug that is handed out."""
    return with_change(LESSON, suspects(LESSON)[name]).function(LESSON, name)


def _draw(*shape: int, seed: int = 0, uniform: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand if uniform else torch.randn)(shape, generator=generator, dtype=torch.float64)


def _packed(axes: Any) -> None:
    sizes, gaps = [1, 2, 4, 8, 16], []
    for rows in sizes:
        lengths = [6] * rows
        rewards, critic = _draw(6).repeat(rows), 3 + _draw(6, seed=1).repeat(rows)
        gaps.append(suspect("credit_packed")(rewards, critic, lengths, 1.0, 0.95).mean().item())
    axes.plot(sizes, gaps, "o-", color=ORANGE)
    axes.set(title="credit_packed", xlabel="responses per stream", ylabel="mean credit", xscale="log")


def _pessimism(axes: Any) -> None:
    """A table policy of 16 places and 8 words that starts at itself."""
    start, merits = 0.5 * _draw(16, 8, seed=2), _draw(16, 8, seed=3)
    for bonus, color, label in ((0.0, BLUE, "alone"), (0.2, ORANGE, "+ entropy bonus")):
        table, seen = start, []
        for _ in range(80):
            leaf = table.clone().requires_grad_()
            log_probs = leaf.log_softmax(1)
            ratios = (log_probs - start.log_softmax(1)).exp()
            entropy = -(log_probs.exp() * log_probs).sum(1).mean()
            gain = suspect("pessimistic_gain")(ratios.flatten(), merits.flatten(), 0.2)
            table = table + 8 * torch.autograd.grad(gain + bonus * entropy, leaf)[0]
            seen.append(ratios.max().item())
        axes.plot(seen, color=color, label=label)
    axes.axhline(1.2, color=RULE, ls="--", lw=1)
    axes.legend(fontsize=8)
    axes.set(title="pessimistic_gain", xlabel="gradient step", ylabel="largest ratio", yscale="log")


def _bounded(axes: Any) -> None:
    anchors, targets = torch.zeros(64).double(), 2 + _draw(64, seed=4)
    estimates = 0.5 * _draw(64, seed=5)
    away = (estimates * targets.sign()) < -0.2
    farthest, gaps = [], []
    for _ in range(40):
        leaf = estimates.clone().requires_grad_()
        error = suspect("bounded_error")(leaf, anchors, targets, 0.2)
        estimates = estimates - 6 * torch.autograd.grad(error, leaf)[0]
        farthest.append((estimates - anchors).abs().max().item())
        gap = (estimates - targets).abs()
        gaps.append((gap[away].mean().item(), gap[~away].mean().item()))
    axes.plot(farthest, color=PINK, label="farthest from its anchor")
    axes.plot([gap for gap, _ in gaps], color=ORANGE, label=f"to the target: {int(away.sum())} moved away")
    axes.plot([gap for _, gap in gaps], color=BLUE, label=f"to the target: {int((~away).sum())} others")
    axes.axhline(0.2, color=RULE, ls="--", lw=1)
    axes.set(title="bounded_error", xlabel="gradient step", ylabel="distance (room 0.2)", ylim=(-0.3, 9))
    axes.legend(fontsize=8, loc="upper right")


def _moments(axes: Any) -> None:
    for size, color in ((1, GREEN), (4, BLUE), (16, ORANGE)):
        moments, means = (200.0, 0.0, 1.0), []
        scores = 5 + _draw(320, 1, seed=6)
        for batch in scores.reshape(-1, 2, size).split(1):
            moments = suspect("merge_moments")(*moments, batch[0])
            means.append(moments[1])
        axes.plot(torch.linspace(0, 320, len(means)), means, color=color, label=f"responses per prompt: {size}")
    axes.legend(fontsize=8, loc="upper left")
    axes.set(title="merge_moments", xlabel="scores of mean 5, after 200 of mean 0", ylabel="mean of all")
    axes.set_ylim(-0.1, 4.4)


def _drift(axes: Any) -> None:
    logits, heats = 2 * _draw(64, 8, 12, seed=7), [0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0]
    means = []
    for heat in heats:
        chances = (logits / heat).softmax(-1).reshape(-1, 12)
        generator = torch.Generator().manual_seed(1)
        tokens = torch.multinomial(chances, 1, generator=generator).reshape(64, 8)
        means.append(suspect("sampled_drift")(logits, logits, tokens, heat).mean().item())
    axes.plot(heats, means, "o-", color=ORANGE)
    axes.axhline(0, color=RULE, lw=1)
    axes.set(title="sampled_drift", xlabel="temperature", ylabel="drift at step 0")


def _reader(axes: Any) -> None:
    words, places, tokens = _draw(9, 4, seed=8), _draw(12, 4, seed=9), torch.tensor([1, 2, 3, 4])
    alone = suspect("read_prompts")(words, places, tokens[None], torch.ones(1, 4).bool())
    found = []
    for extra in range(9):
        row = torch.cat([torch.zeros(extra, dtype=torch.long), tokens])[None]
        visible = torch.arange(4 + extra)[None] >= extra
        found.append((suspect("read_prompts")(words, places, row, visible) - alone).norm().item())
    axes.plot(range(9), found, "o-", color=ORANGE)
    axes.set(title="read_prompts", xlabel="longest prompt minus this one", ylabel="change of its vector")


def _grouped(axes: Any) -> None:
    lengths = torch.randint(1, 9, (64,), generator=torch.Generator().manual_seed(0))
    numbers = torch.ones(64, 8).double()
    axes.scatter(lengths, suspect("sum_in_groups")(numbers, lengths, 32), s=12, color=ORANGE)
    axes.plot([1, 8], [1, 8], "--", color=RULE, lw=1)
    axes.set(title="sum_in_groups", xlabel="length of a row of ones", ylabel="its sum")


def _labels(axes: Any) -> None:
    """A table of next tokens learns from six replies; before, three of ten tokens ended a response."""
    prompts, replies = [[7, 8]] * 6, [[5] * size + [2] for size in (1, 2, 3, 4, 5, 6)]
    tokens, labels = suspect("label_replies")(prompts, replies, 2)
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
    axes.legend(fontsize=8)
    axes.set(title="label_replies", xlabel="gradient step of fine-tuning")


def _chain(axes: Any) -> None:
    noise, payoff = _draw(60, 32, 5, uniform=True), 1 + _draw(5, 3, seed=2)
    run = suspect("train_chain")(noise, payoff, torch.zeros(5, 3).double(), 0.2, 0.95)
    axes.plot(run.reward, color=BLUE, label="reward")
    axes.plot(run.value_loss, color=ORANGE, label="value loss")
    axes.legend(fontsize=8)
    axes.set(title="train_chain", xlabel="update")


def _bandit(axes: Any) -> None:
    noise, payoff = _draw(40, 32, uniform=True), torch.tensor([0.0, 0.4, 0.5, 0.1]).double()
    for curiosity, color in ((0.0, GREEN), (0.1, BLUE), (0.3, ORANGE)):
        run = suspect("train_bandit")(noise, payoff, torch.zeros(4).double(), 0.5, 0.2, 3, curiosity)
        axes.plot(run.entropy, color=color, label=f"curiosity {curiosity:g}")
    axes.legend(fontsize=8)
    axes.set(title="train_bandit", xlabel="update", ylabel="entropy")


def _sliced(axes: Any) -> None:
    replies = torch.randint(0, 5, (12, 10), generator=torch.Generator().manual_seed(3))
    lengths, weights = torch.tensor([1, 10, 2, 9, 1, 1, 8, 10, 2, 1, 3, 10]), _draw(12, seed=1)
    sizes, found = [1, 2, 3, 4, 6, 12], []
    for rows in sizes:
        table = suspect("train_sliced")(replies, lengths, weights, torch.zeros(5, 5).double(), 1.0, 5, rows)
        found.append(table.std().item())
    axes.plot(sizes, found, "o-", color=ORANGE)
    axes.set(title="train_sliced", xlabel="replies per slice", ylabel="std of the trained table", xticks=sizes)


def _contexts(axes: Any) -> None:
    noise, payoff = _draw(30, 16, 4, uniform=True), _draw(4, 3, seed=5)
    run = suspect("train_contexts")(noise, payoff, torch.zeros(4, 3).double(), 6.0, 0.2, 8)
    axes.plot(run.ratio, color=BLUE, label="largest ratio, pass 8")
    axes.plot(run.outside, color=ORANGE, label="share outside")
    axes.legend(fontsize=8)
    axes.set(title="train_contexts", xlabel="update", ylim=(-0.1, 1.6))


RIGHT = {
    "credit_packed": "right: the same, however many share a stream",
    "pessimistic_gain": "right: both learn, and stay below 3",
    "bounded_error": "right: none goes farther, the 19 come nearer",
    "merge_moments": "right: nearly one curve for all three",
    "sampled_drift": "right: 0 at each temperature",
    "read_prompts": "right: 0, whoever is in the batch",
    "sum_in_groups": "right: all dots on the dashed line",
    "label_replies": "right: the share stays near 0",
    "train_chain": "right: the value loss begins above 0 and falls",
    "train_bandit": "right: more curiosity, more entropy",
    "train_sliced": "right: a flat line",
    "train_contexts": "right: at first larger ratios, many outside",
}
"""What the panel of a right block would show."""

BLOCKS = (_packed, _pessimism, _bounded, _moments, _drift, _reader, _grouped, _labels)
TRAINERS = (_chain, _bandit, _sliced, _contexts)


def _panels(panels: tuple[Callable[[Any], None], ...], height: float) -> Figure:
    figure, grid = pyplot.subplots(len(panels) // 2, 2, figsize=(7.2, height), layout="constrained")
    for axes, panel in zip(grid.flat, panels, strict=True):
        panel(axes)
        name = axes.get_title(loc="left") or axes.get_title()
        axes.set_title(f"{name}\n", loc="left")
        axes.annotate(RIGHT[name], (0, 1), (0, 4), "axes fraction", "offset points", color=INK, fontsize=8.5)
    return figure


def symptoms_of_the_blocks() -> tuple[Figure, str]:
    alt = (
        "Eight panels, one for each block as it is handed out, each with what a right one would show: "
        "the mean credit changes with the number of responses in a stream; the largest ratio stays 1 alone, and with "
        "an entropy bonus grows past 1.2 to more than 10; the "
        "estimates move farther than their room, and those that have moved away from their target never come back; the "
        "mean of the same scores depends on the responses per prompt; equal models have a drift other than 0 except at "
        "temperature 1; a prompt's vector changes with the longest prompt; sums of ones are not the lengths; "
        "while the loss of fine-tuning falls, the share of responses at the length limit rises from 0 to 0.9."
    )
    return _panels(BLOCKS, 9.8), alt


def symptoms_of_the_trainers() -> tuple[Figure, str]:
    alt = (
        "Four panels, one for each trainer as it is handed out, and what a right one would show: the value loss of "
        "train_chain is 0 in every update; "
        "the entropy of train_bandit falls sooner with more curiosity; what train_sliced learns depends on the replies "
        "per slice; the ratio of train_contexts is 1 in every update and nothing lies outside."
    )
    return _panels(TRAINERS, 5.2), alt


FIGURES = {"symptoms-of-the-blocks": symptoms_of_the_blocks, "symptoms-of-the-trainers": symptoms_of_the_trainers}
