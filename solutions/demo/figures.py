"""The three figures of a capstone run: the training, the over-optimization, and one response taken apart."""

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import torch

from ppo_by_hand.core.prompts import encode_prompts
from tiny_models.gold import GOLD_MAX

from ..lesson06_kl_rewards import estimate_kl
from ..lesson08_rollout import Experience, collect_experience
from .run import CapstoneRun, PPORun, ppo_config

matplotlib.use("Agg")
# Okabe and Ito's colors, which color-blind readers can tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#7F7F7F"


def draw_figures(run: CapstoneRun) -> list[Path]:
    """Write `training_curves.png`, `overoptimization.png` and `response.png` into the run's folder."""
    figures = {
        "training_curves.png": training_curves(run),
        "overoptimization.png": overoptimization(run),
        "response.png": response_by_token(run),
    }
    for name, figure in figures.items():
        figure.savefig(run.plan.out / name, dpi=120)
        plt.close(figure)
    return [run.plan.out / name for name in figures]


def training_curves(run: CapstoneRun) -> Any:
    """Six panels: the losses of the first two stages, and four metrics of both PPO runs."""
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
    figure.suptitle("From imitation to preference: SFT, reward model, PPO")
    sft, accuracy, score, kl, entropy, critic = axes.flat
    sft.plot(run.sft.losses, color=GREY, alpha=0.35, linewidth=0.8)
    sft.plot(_smooth(run.sft.losses), color=BLUE)
    sft.set(title="SFT learns the grammar", xlabel="optimizer step", ylabel="loss (nats per token)", ylim=(0.8, None))
    steps = [row["accuracy"] for row in run.reward.history]
    accuracy.plot(steps, color=GREY, alpha=0.35, linewidth=0.8)
    accuracy.plot(_smooth(steps), color=BLUE)
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
            axis.plot(_metric(ppo, name), color=color, label=text)
        axis.set(title=title, xlabel="PPO update", ylabel=label)
        axis.legend()
    kl.set_yscale("symlog", linthresh=5)
    kl.set_yticks([0, 2, 5, 10, 50, 100], ["0", "2", "5", "10", "50", "100"])
    critic.set_ylim(-0.5, 1.05)
    return figure


def overoptimization(run: CapstoneRun) -> Any:
    """The picture of the course: proxy and gold against the distance from the SFT model, both runs."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained", sharey=True)
    runs = ((axes[0], run.ppo, f"kl_coef {run.plan.preset.kl_coef}"), (axes[1], run.no_kl, "no KL penalty"))
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


def response_by_token(run: CapstoneRun) -> Any:
    """One response of the tuned policy: reward, KL, value and advantage of each token."""
    experience, tokens = _one_response(run)
    kl = estimate_kl(experience.log_probs, experience.ref_log_probs)[0]
    figure, axes = plt.subplots(4, 1, figsize=(10, 8), layout="constrained", sharex=True)
    prompt = run.plan.prompts[0]
    figure.suptitle(f'"{prompt}"\nThe score comes once, at the end; the critic and GAE spread it over the tokens')
    rows = (
        (experience.rewards[0], "reward\n(score units)", "bar", ORANGE),
        (kl, "KL, k1\n(nats)", "bar", GREEN),
        (experience.values[0], "value before\nthe token", "line", BLUE),
        (experience.advantages[0], "advantage\n(raw)", "bar", GREY),
    )
    for axis, (numbers, label, kind, color) in zip(axes, rows, strict=True):
        if kind == "bar":
            axis.bar(range(len(tokens)), numbers.tolist(), color=color)
        else:
            axis.plot(range(len(tokens)), numbers.tolist(), "o-", color=color)
        axis.axhline(0.0, color="black", linewidth=0.6)
        axis.set_ylabel(label)
        axis.margins(y=0.25)
        for position, number in enumerate(numbers.tolist()):
            axis.annotate(
                f"{number:.2f}",
                (position, number),
                textcoords="offset points",
                xytext=(0, 4 if number >= 0 else -11),
                ha="center",
                fontsize=8,
            )
    axes[-1].set_xticks(range(len(tokens)), tokens, rotation=30)
    axes[-1].set_xlabel("token of the response")
    return figure


def _one_response(run: CapstoneRun) -> tuple[Experience, list[str]]:
    trainer = run.ppo.result.trainer
    config = ppo_config(run.plan.preset, run.plan.tokenizer, run.plan.seed, run.plan.preset.kl_coef)
    input_ids, attention_mask = encode_prompts(run.plan.prompts[:1], run.plan.tokenizer, config.pad_token_id)
    device = trainer.accelerator.device
    sampling = torch.Generator(device=device).manual_seed(run.plan.seed)
    experience = collect_experience(
        trainer.accelerator.unwrap_model(trainer.model),
        run.sft.policy,
        trainer.score,
        input_ids.to(device),
        attention_mask.to(device),
        config,
        config.kl_coef,
        sampling,
    )
    return experience, run.plan.tokenizer.convert_ids_to_tokens(experience.responses[0].tolist())


def _metric(run: PPORun, name: str) -> list[float]:
    return [metrics[name] for metrics in run.result.trainer.history]


def _smooth(numbers: list[float], window: int = 25) -> list[float]:
    """Mean over the last `window` numbers."""
    return [sum(numbers[max(0, i - window + 1) : i + 1]) / min(i + 1, window) for i in range(len(numbers))]
