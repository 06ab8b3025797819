"""The figures of lesson 3: what a baseline does, and which rewards count for a token."""

import torch
from matplotlib.figure import Figure

from solutions.lesson01_masked_sequences import gather_log_probs
from solutions.lesson03_policy_gradient import reinforce_loss, rewards_to_go

from . import BLUE, GREEN, ORANGE
from .style import CENTER, INK, RULE, canvas

WORD_REWARDS = (9.0, 11.0)


def gradient_estimate(word: int, baseline: float) -> float:
    """What the sampled word says about d J / d logit_0, both words having probability 1/2."""
    logits = torch.zeros(1, 1, 2, dtype=torch.float64, requires_grad=True)
    log_probs = gather_log_probs(logits, torch.tensor([[word]]))
    weights = torch.tensor([[WORD_REWARDS[word] - baseline]], dtype=torch.float64)
    loss = reinforce_loss(log_probs, weights, torch.ones(1, 1, dtype=torch.bool))
    return -torch.autograd.grad(loss, logits)[0][0, 0, 0].item()


def a_baseline() -> Figure:
    baselines = [step / 2 for step in range(33)]
    estimates = [[gradient_estimate(word, baseline) for baseline in baselines] for word in (0, 1)]
    variance = [((first - second) / 2) ** 2 for first, second in zip(*estimates, strict=True)]
    figure, (left, right) = canvas(2.7, 2)
    for word, (line, color, style) in enumerate(zip(estimates, (BLUE, ORANGE), ("-", "--"), strict=True)):
        left.plot(baselines, line, style, color=color, label=f"word {word} sampled, reward {WORD_REWARDS[word]:g}")
    left.axhline(-0.5, color=RULE, lw=1)
    left.text(0.2, -0.35, "mean: -0.5", fontsize=8.5, color=INK, va="bottom")
    left.plot(10, -0.5, "o", color=INK)
    left.set(xlabel="baseline", ylim=(-7, 9), title="Estimate of the gradient")
    left.legend(loc="upper right", fontsize=8.5)
    right.plot(baselines, variance, color=GREEN)
    right.plot(10, 0, "o", color=INK, clip_on=False)
    right.text(10, 2.2, "expected\nreward", ha="center", fontsize=8.5)
    right.set(xlabel="baseline", ylim=(0, 27), title="Variance of the estimate")
    return figure


def which_rewards_count() -> Figure:
    mask = torch.tensor([True, True, False, True, True]).expand(5, -1)
    to_go = rewards_to_go(torch.eye(5), mask, gamma=0.5).T
    whole = (mask & mask.T).float()
    figure, panels = canvas(2.9, 2)
    titles = ("Whole return", "Rewards to go, gamma = 0.5")
    labels = ["0", "1", "tool", "3", "4"]
    for axes, weights, title in zip(panels, (whole, to_go), titles, strict=True):
        for token in range(5):
            for reward in range(5):
                weight = weights[token, reward].item()
                center = reward, token
                if weight:
                    box = {"boxstyle": "square,pad=0.45", "facecolor": BLUE, "edgecolor": "none"}
                    axes.text(*center, "      ", **CENTER, fontsize=9, bbox=box | {"alpha": 0.2 + 0.8 * weight})
                    axes.text(*center, f"{weight:g}", **CENTER, fontsize=9)
                else:
                    axes.text(*center, "·", **CENTER, color=RULE)
        axes.set(xlim=(-0.6, 4.6), ylim=(4.6, -0.6), xlabel="reward of token", ylabel="weight of token", title=title)
        axes.set_xticks(range(5), labels)
        axes.set_yticks(range(5), labels)
    return figure


FIGURES = (a_baseline, which_rewards_count)
