"""The two figures of a capstone run: the training, and the over-optimization."""

from typing import Any

import matplotlib
import matplotlib.pyplot as plt

from tiny_models.gold import GOLD_MAX

from .run import Capstone

matplotlib.use("Agg")
# Okabe and Ito's colors, which color-blind readers can tell apart.
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#7F7F7F"


def draw_figures(run: Capstone) -> None:
    """Write `training_curves.png` and `overoptimization.png` into the run's folder."""
    for draw in (training_curves, overoptimization):
        figure = draw(run)
        figure.savefig(run.out / f"{draw.__name__}.png", dpi=120)
        plt.close(figure)


def training_curves(run: Capstone) -> Any:
    """Draw six panels: the losses of the first two stages, and four metrics of both PPO runs."""
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
    figure.suptitle("From imitation to preference: SFT, reward model, PPO")
    sft, accuracy, score, kl, entropy, critic = axes.flat
    for axis, numbers in ((sft, run.sft.losses), (accuracy, [row["accuracy"] for row in run.reward.history])):
        axis.plot(numbers, color=GREY, alpha=0.35, linewidth=0.8)
        axis.plot(_smooth(numbers), color=BLUE)
    sft.set(title="SFT learns the grammar", xlabel="optimizer step", ylabel="loss (nats per token)", ylim=(0.8, None))
    accuracy.axhline(0.5, color=GREY, linestyle=":", label="chance")
    accuracy.set(
        title=f"The reward model learns the choices\n(held out: {run.reward.accuracy:.0%} right)",
        xlabel="optimizer step",
        ylabel="accuracy on the batch",
    )
    accuracy.legend(loc="lower right")
    panels = (
        (score, "score", "The proxy rises in both runs", "reward model's score (std of SFT)"),
        (kl, "kl", "Only the penalty keeps the policy near", "KL from the SFT model (nats per response)"),
        (entropy, "entropy", "Without it the policy collapses", "entropy (nats per token)"),
        (critic, "explained_variance", "The critic learns to predict", "explained variance of the returns"),
    )
    for axis, name, title, label in panels:
        for ppo, color, text in ((run.ppo, BLUE, "with KL penalty"), (run.no_kl, ORANGE, "without")):
            axis.plot([row[name] for row in ppo.result.trainer.history], color=color, label=text)
        axis.set(title=title, xlabel="PPO update", ylabel=label)
        axis.legend()
    kl.set_yscale("symlog", linthresh=5)
    kl.set_yticks([0, 2, 5, 10, 50, 100], ["0", "2", "5", "10", "50", "100"])
    critic.set_ylim(-0.5, 1.05)
    return figure


def overoptimization(run: Capstone) -> Any:
    """Draw the picture of the course: proxy and gold against the distance from the SFT model, for both runs."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained", sharey=True)
    runs = ((axes[0], run.ppo, f"kl_coef {run.preset.kl_coef}"), (axes[1], run.no_kl, "no KL penalty"))
    for axis, ppo, name in runs:
        trace = [*ppo.trace, ppo.final]
        distance = [max(point.kl, 0.0) for point in trace]
        gold, proxy = [point.gold for point in trace], [point.proxy for point in trace]
        axis.plot(distance, proxy, "s--", color=ORANGE, label="proxy: what the reward model sees (std)")
        axis.plot(distance, gold, "o-", color=BLUE, label="gold: the truth (points)")
        axis.plot(distance[-1], gold[-1], "o", color=BLUE, markersize=11, markerfacecolor="white", markeredgewidth=2)
        axis.plot(distance[-1], proxy[-1], "s", color=ORANGE, markersize=10, markerfacecolor="white", markeredgewidth=2)
        axis.axhline(GOLD_MAX, color=GREY, linestyle=":", linewidth=1)
        axis.text(0.02, GOLD_MAX + 0.03, "best possible gold", color=GREY, transform=axis.get_yaxis_transform())
        verb = "follows it" if gold[-1] > gold[0] else "falls"
        axis.set(
            title=f"{name}: the proxy rises, gold {verb}\n"
            f"proxy {proxy[0]:+.2f} -> {proxy[-1]:+.2f}, gold {gold[0]:.2f} -> {gold[-1]:.2f}",
            xlabel="KL from the SFT model (nats per response, square-root scale)",
        )
        axis.set_xscale("function", functions=(lambda x: abs(x) ** 0.5, lambda x: x**2))
        axis.set_xlim(0, max(distance) * 1.05)
    axes[0].set_ylabel("score")
    axes[0].legend(loc="lower right")
    figure.suptitle("Reward over-optimization (open markers: end of training)")
    return figure


def _smooth(numbers: list[float], window: int = 25) -> list[float]:
    """Mean over the last `window` numbers."""
    return [sum(numbers[max(0, i - window + 1) : i + 1]) / min(i + 1, window) for i in range(len(numbers))]
