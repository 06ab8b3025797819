"""The figures of lesson 5: the clipped objective, the clipped value loss, and runs with and without the clip."""

import torch
from matplotlib.figure import Figure

from solutions.lesson05_ppo_loss import compute_ppo_loss, compute_value_loss

from . import BLUE, ORANGE, PINK
from .style import INK, RULE, canvas

CASES = (0.5, 1.0, 1.5)


def objective(ratio: float, advantage: float, clip_epsilon: float = 0.2) -> tuple[float, float]:
    """Objective of one token, and its slope with respect to the log-probability."""
    log_prob = torch.tensor(ratio).double().log().requires_grad_()
    value = -compute_ppo_loss(log_prob, torch.zeros(()).double(), torch.tensor(advantage).double(), clip_epsilon)
    (slope,) = torch.autograd.grad(value, log_prob)
    return value.item(), slope.item()


def six_cases() -> tuple[Figure, str]:
    figure, panels = canvas(3.0, 2)
    ratios = torch.linspace(0.25, 1.75, 61).tolist()
    for axes, advantage, name in zip(panels, (1.0, -1.0), ("good token, A = +1", "bad token, A = -1"), strict=True):
        axes.axvspan(0.8, 1.2, color=RULE, alpha=0.2, lw=0)
        axes.plot(ratios, [ratio * advantage for ratio in ratios], "--", color=ORANGE, label="ratio · A, unclipped")
        axes.plot(ratios, [objective(ratio, advantage)[0] for ratio in ratios], color=BLUE, label="objective")
        for ratio in CASES:
            value, slope = objective(ratio, advantage)
            axes.plot(ratio, value, "o", ms=8, color=BLUE if slope else PINK)
            wrong_way = (ratio - 1) * advantage < 0
            axes.annotate(
                "stop" if slope == 0 else "go back" if wrong_way else "push up" if advantage > 0 else "push down",
                (ratio, value),
                ((-9, 4) if value == 1.0 else (9, -9 if advantage > 0 else 3))
                if slope
                else (14 if advantage > 0 else 0, -17),
                textcoords="offset points",
                ha="center" if not slope else "right" if value == 1.0 else "left",
                fontsize=9,
                color=INK,
            )
        axes.set(xlabel="ratio", title=name, xlim=(0.0, 2.0))
    panels[0].set(ylabel="objective (maximized)", ylim=(0, 1.9))
    panels[1].set(ylim=(-1.9, 0))
    panels[0].legend(loc="upper left", fontsize=9)
    alt = (
        "The clipped objective against the ratio, clip_epsilon 0.2. Left, advantage +1: it rises with the ratio and is "
        "flat above 1.2. Right, advantage -1: it is flat below 0.8 and falls with the ratio above. Of the six dots of "
        "the table two have gradient 0 and stop: ratio 1.5 of the good token and ratio 0.5 of the bad one. Two have "
        "moved the wrong way and go back."
    )
    return figure, alt


def value_loss() -> tuple[Figure, str]:
    figure, (axes,) = canvas(2.6)
    old_value, target = torch.tensor(1.0).double(), torch.tensor(2.0).double()
    values = torch.linspace(0.25, 3.25, 241).double()
    for clip_epsilon, style, color, label in ((1e9, "--", ORANGE, "unclipped"), (0.2, "-", BLUE, "clip_epsilon 0.2")):
        losses = [compute_value_loss(value, old_value, target, clip_epsilon).item() for value in values]
        axes.plot(values, losses, style, color=color, label=label)
    for value, height in ((1.0, 0.93), (2.0, 0.55)):
        axes.axvline(value, ymax=0.75, color=RULE, lw=0.8)
        axes.text(value + 0.03, height, "old value" if value == 1.0 else "return", color=INK)
    axes.plot([1.5, 0.5], [0.32, 1.125], "o", ms=8, color=BLUE)
    axes.annotate("0.32, gradient 0", (1.5, 0.32), (0, 8), textcoords="offset points", ha="center", color=INK)
    axes.annotate("1.125, full gradient", (0.5, 1.125), (10, 0), textcoords="offset points", color=INK)
    axes.set(xlabel="new value", ylabel="value loss", ylim=(0, 1.4))
    axes.legend(loc="upper right")
    alt = (
        "Value loss against the new value; old value 1, return 2. Unclipped it is a parabola with its minimum at 2. "
        "Clipped it follows the parabola up to 1.2, is flat at 0.32 from 1.2 to 2.8 and follows the parabola again. "
        "The two examples of the text are marked: 0.32 at 1.5 and 1.125 at 0.5."
    )
    return figure, alt


def train(clip_epsilon: float, rounds: int, seed: int) -> list[float]:
    """The practice of the text: expected worth of a token after each round."""
    worth = torch.randn(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    draw, logits, history = torch.Generator().manual_seed(seed), torch.zeros(50, dtype=torch.float64), []
    for _ in range(rounds):
        old = logits.log_softmax(0)
        history.append((old.exp() @ worth).item())
        tokens = torch.multinomial(old.exp(), 64, replacement=True, generator=draw)
        scores = worth[tokens] + 3 * torch.randn(64, generator=draw, dtype=torch.float64)
        for _ in range(20):
            logits.requires_grad_()
            log_probs = logits.log_softmax(0)[tokens]
            loss = compute_ppo_loss(log_probs, old[tokens], scores - scores.mean(), clip_epsilon)
            (slope,) = torch.autograd.grad(loss, logits)
            logits = (logits - slope).detach()
    return [*history, (logits.softmax(0) @ worth).item()]


def with_and_without_clip() -> tuple[Figure, str]:
    figure, panels = canvas(2.6, 2, sharey=True)
    for axes, clip_epsilon, name in zip(panels, (1e9, 0.2), ("unclipped", "clip_epsilon = 0.2"), strict=True):
        for seed, style in zip((1, 2, 3), ("-", "--", ":"), strict=True):
            history = train(clip_epsilon, 60, seed)
            axes.plot(history, style, label=f"run {seed}")
        axes.axhline(2.83, color=RULE, lw=0.8)
        axes.set(xlabel="batch of 64 tokens, 20 steps each", title=name)
    panels[0].set(ylabel="expected worth of a token", ylim=(-0.3, 3.2))
    panels[0].text(60, 2.9, "best token", ha="right", color=INK)
    panels[1].legend(loc="lower right")
    alt = (
        "Expected worth of a token over 60 batches, three runs each. Unclipped, the runs jump in the first batches and "
        "stay at 0.18, 2.83 and 1.49. With clip_epsilon 0.2 all three rise to about 2.8, that of the best token."
    )
    return figure, alt


FIGURES = {"six-cases": six_cases, "value-loss": value_loss, "with-and-without-clip": with_and_without_clip}
