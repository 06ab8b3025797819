"""Notebook 6: estimators of the KL, where each of them leads, and the adaptive controller."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor

from book.figures import BLUE, GREEN, ORANGE, YELLOW
from tiny_models.language import all_prompts

from . import suptitle
from .models import EOS, PAD, TOKENIZER, sft_model

NAMES = ("k1", "k2", "k3")
COLORS = dict(zip(NAMES, (BLUE, ORANGE, GREEN), strict=True))
STYLES = dict(zip(NAMES, ("-", ":", "--"), strict=True))

PROBS = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
UNIFORM = torch.full((4,), 0.25, dtype=torch.float64)


def exact_kl(probs: Tensor, reference: Tensor) -> float:
    return (probs * (probs / reference).log()).sum().item()


def moments(probs: Tensor, estimates: Tensor) -> tuple[float, float]:
    """Mean and standard deviation of an estimate over all words, each weighted by its probability."""
    mean = (probs * estimates).sum()
    return mean.item(), (probs * (estimates - mean) ** 2).sum().sqrt().item()


def path_to(probs: Tensor, count: int = 30) -> list[Tensor]:
    """Policies from almost the uniform reference to `probs`."""
    return [UNIFORM + share * (probs - UNIFORM) for share in torch.logspace(-1, 0, count, dtype=torch.float64).tolist()]


def four_words(probs: Tensor, estimates: dict[str, Tensor], deviations: dict[str, list[float]]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    words = [f"p = {p:g}" for p in probs.tolist()]
    for place, name in enumerate(NAMES):
        left.bar(torch.arange(4) + 0.27 * (place - 1), estimates[name], width=0.25, color=COLORS[name], label=name)
        right.plot(deviations["KL"], deviations[name], STYLES[name], color=COLORS[name], label=name)
    left.axhline(0, color="black", linewidth=0.6)
    left.set_xticks(range(4), words)
    left.set(xlabel="word that was drawn", ylabel="estimate from it (nats)")
    left.legend(loc="upper left")
    right.plot(deviations["KL"], deviations["KL"], color="black", linewidth=0.8, label="equal to the KL")
    right.set(xscale="log", yscale="log", xlabel="KL(policy || reference) (nats)", ylabel="standard deviation (nats)")
    right.legend(loc="lower right")
    suptitle(figure, "Three estimates of one KL divergence")
    return figure, (
        "Left: the three estimates at each of the four words; k1 is negative at the two rare words. Right, on log "
        "scales: the standard deviation of k1 is far above the KL, and the further above, the smaller the KL; "
        "those of k2 and k3 are close to it."
    )


class Responses:
    """1152 responses of a perturbed copy of the SFT model, with both models' log-probabilities."""

    def __init__(self, masked: ModuleType, actor_critic: ModuleType, rollout: ModuleType, noise: float = 0.015) -> None:
        reference = actor_critic.freeze(sft_model())
        policy = actor_critic.make_reference(reference)
        draw = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in policy.parameters():
                weight += noise * torch.randn(weight.shape, generator=draw)
        prompts = TOKENIZER(all_prompts() * 24, padding=True, return_tensors="pt")
        ids, seen, start = prompts.input_ids, prompts.attention_mask.bool(), prompts.input_ids.shape[1]
        made = rollout.generate(policy, ids, seen, 20, [EOS], PAD, generator=draw)
        self.log_probs, self.mask = made.log_probs, made.mask
        ids, seen = torch.cat([ids, made.responses], 1), torch.cat([seen, made.mask], 1)
        with torch.no_grad():
            full = actor_critic.response_logits(policy, ids, seen, start).log_softmax(-1)
            ref_full = actor_critic.response_logits(reference, ids, seen, start).log_softmax(-1)
        self.ref_log_probs = masked.gather_log_probs(ref_full, made.responses)
        self.exact = self.per_response((full.exp() * (full - ref_full)).sum(-1)).mean().item()
        """Mean KL of a response, each token's over the whole vocabulary."""
        self._order = torch.randperm(len(ids), generator=draw)

    def per_response(self, per_token: Tensor) -> Tensor:
        return per_token.masked_fill(~self.mask, 0.0).sum(1)

    def batch_means(self, per_token: Tensor, size: int = 32) -> Tensor:
        """Mean KL of a response in each batch of 32, as a trainer would log it."""
        return self.per_response(per_token)[self._order].view(-1, size).mean(1)


def batches(means: dict[str, Tensor], exact: float) -> tuple[Figure, str]:
    draw = torch.Generator().manual_seed(0)
    figure, axis = pyplot.subplots()
    for row, name in enumerate(NAMES):
        jitter = row + 0.5 * (torch.rand(len(means[name]), generator=draw) - 0.5)
        axis.plot(means[name], jitter, "o", color=COLORS[name], alpha=0.6)
    axis.axvline(exact, color="black", linewidth=1)
    axis.text(exact + 0.003, 2.5, f"over the whole vocabulary: {exact:.3f}")
    axis.axvline(0, color="gray", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(3), [f"{name}\nstd {means[name].std():.3f}" for name in NAMES])
    axis.set(xlabel="mean KL of a response in a batch of 32 (nats)", ylim=(-0.5, 2.75))
    axis.set_title("The KL that a trainer would log, batch by batch")
    return figure, (
        "Three rows of dots, one dot per batch of 32 responses. Those of k1 reach from below 0 to far above the "
        "exact KL; most of those of k2 and k3 are close to it, and none is below 0."
    )


def clamped(kl: Sequence[float], estimate: Sequence[float], real: tuple[float, float]) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    axis.plot(kl, kl, color="black", label="the KL (mean of k1 and of k3)")
    axis.plot(kl, estimate, "--", color=ORANGE, label="mean of k1 clamped at 0")
    axis.plot(*real, "o", color=ORANGE, label="clamped, real responses (per token)")
    for place, x, y in ((0, 1.05 * kl[0], 0.006), (-1, 1.05 * kl[-1], 0.29)):
        arrow = {"arrowstyle": "->", "color": "gray"}
        axis.annotate("", (kl[place], estimate[place]), (kl[place], kl[place]), arrowprops=arrow)
        axis.text(x, y, f"times {estimate[place] / kl[place]:.2g}")
    axis.set(xscale="log", yscale="log", xlim=(0.0018, 0.4))
    axis.set(xlabel="KL(policy || reference) of a token (nats)", ylabel="mean of the estimate (nats)")
    axis.legend(loc="lower right")
    axis.set_title("k1 clamped at 0, against the KL")
    return figure, (
        "Mean of the estimate against the KL, on log scales. The KL itself is the diagonal. The clamped k1 is "
        "above it and falls half as steeply, so the ratio is largest where the KL is small. The dot of real "
        "responses is near the clamped line."
    )


def gradients(found: dict[tuple[str, str], Tensor], wanted: Tensor) -> tuple[Figure, str]:
    """Mean gradient of each estimator in the loss and in the reward; those that equal `wanted` are blue."""
    figure, axes = pyplot.subplots(2, 3, sharex=True, sharey=True, figsize=(8, 4.2))
    for axis, ((place, name), slopes) in zip(axes.flat, found.items(), strict=True):
        axis.bar(range(4), slopes, color=BLUE if torch.allclose(slopes, wanted) else YELLOW)
        axis.plot(range(4), wanted, "_", color="black", markersize=22, markeredgewidth=2)
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set_title(f"{name} in the {place}", fontweight="normal", fontsize=10)
        axis.set_xticks(range(4), [f"{p:g}" for p in PROBS.tolist()])
    figure.supxlabel("probability of the word under the policy (black dashes: gradient of the KL)", fontsize=10)
    figure.supylabel("mean gradient (nats per logit)", fontsize=10)
    return figure, (
        "Six bar charts of the mean gradient at the four words, with dashes for the gradient of the KL. In the "
        "loss: k1 is 0, k2 agrees with the dashes, k3 does not. In the reward: k1 agrees; k2 and k3 do not, and k3 "
        "has the wrong sign at the first and last word."
    )


def training_runs(
    runs: dict[tuple[str, str], tuple[Tensor, list[float]]], best: Tensor, largest: float, scores: Tensor
) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2, width_ratios=(1, 1.25))
    styles: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (1, 3)))
    for number, (((place, name), (final, curve)), style) in enumerate(zip(runs.items(), styles, strict=True)):
        (line,) = left.plot(curve, linestyle=style, label=f"{name} in the {place}")
        right.bar(torch.arange(4) + 0.16 * (number - 2), final, width=0.15, color=line.get_color())
    right.hlines(best, torch.arange(4) - 0.42, torch.arange(4) + 0.42, color="black", linewidth=1.5)
    left.axhline(largest, color="black", linewidth=0.8)
    left.set(
        xlabel="step",
        ylabel="score - kl_coef * KL",
        ylim=(min(curve[0] for _, curve in runs.values()) - 0.1, largest + 0.03),
    )
    left.legend(loc=(0.48, 0.2), fontsize=8)
    right.set_xticks(range(4), [f"score {score:g}" for score in scores.tolist()])
    right.set(xlabel="word (black line: the best policy)", ylabel="probability after 1000 steps")
    suptitle(figure, "Five training runs that differ in the estimator and its place (one seed)")
    return figure, (
        "Left: the objective against the step for five runs. k1 in the reward and k2 in the loss reach the black "
        "line of the best policy; k3 in the loss stays slightly below it, k3 in the reward lower, and k1 in the "
        "loss rises and then falls far below. Right: the final probabilities of the four words; k1 in the loss has "
        "nearly everything on the first word."
    )


def controllers(found: dict[int, tuple[Tensor, list[float]]], target: float, change: int = 200) -> tuple[Figure, str]:
    figure, (top, bottom) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 4.6), height_ratios=(1.5, 1))
    top.axhspan(0.8 * target, 1.2 * target, color="lightgray", label="target ± 20 %")
    for (horizon, (kls, coefficients)), style in zip(found.items(), (":", "-", "--"), strict=True):
        top.plot(kls, style, label=f"horizon {horizon}")
        bottom.plot(coefficients, style)
    for axis in (top, bottom):
        axis.axvline(change, color="black", linewidth=0.8)
    top.text(change - 3, 3.8, "scores double", ha="right")
    top.set(ylabel="KL of a response (nats)", ylim=(0, 4.4))
    top.legend(ncols=2, loc="upper right")
    bottom.set(xlabel="batch (64 responses each)", ylabel="kl_coef", yscale="log")
    suptitle(figure, "The adaptive controller with three horizons")
    return figure, (
        "Above: the KL over 400 batches with a band around the target. Horizon 20 oscillates through the band all "
        "the time; horizon 400 overshoots once, settles in the band, and returns after the scores double; horizon "
        "5000 is above the band most of the time. Below: kl_coef on a log scale: jagged, smooth, and almost flat."
    )


SCORES = torch.tensor([1.0, 0.8, 0.4, 0.0], dtype=torch.float64)
START = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64).log()
"""Section 5: what the four words are worth, and the reference's log-probabilities, which favor the bad ones."""


def objective(log_probs: Tensor, kl_coef: float) -> float:
    """Mean score minus kl_coef times the exact KL."""
    return (log_probs.exp() * (SCORES - kl_coef * (log_probs - START))).sum().item()


def train(lesson: ModuleType, place: str, name: str, kl_coef: float) -> tuple[Tensor, list[float]]:
    """1000 steps of REINFORCE on 256 drawn words each; the KL estimate is in the reward or in the loss."""
    draw, logits, curve = torch.Generator().manual_seed(0), START.clone().requires_grad_(), []
    for _ in range(1000):
        log_probs = logits.log_softmax(0)
        words = torch.multinomial(log_probs.detach().exp(), 256, replacement=True, generator=draw)
        kl = lesson.estimate_kl(log_probs[words], START[words], name)
        reward = SCORES[words] - (kl_coef * kl.detach() if place == "reward" else 0)
        loss = -((reward - reward.mean()) * log_probs[words]).mean() + (kl_coef * kl.mean() if place == "loss" else 0)
        logits.data -= 0.3 * torch.autograd.grad(loss, logits)[0]
        curve.append(objective(log_probs.detach(), kl_coef))
    return log_probs.detach().exp(), curve


def control(lesson: ModuleType, controller: Any, step: float = 0.1) -> tuple[Tensor, list[float]]:
    """KL and coefficient of 400 batches: the policy moves a small step towards its best, 64 responses give the KL.

    It chooses among 2000 responses with random scores, which double in batch 200.
    """
    quality = torch.randn(2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    reference = torch.zeros(2000, dtype=torch.float64).log_softmax(0)
    draw, log_probs, kls, coefficients = torch.Generator().manual_seed(1), reference, [], []
    for batch in range(400):
        score = quality * (2 if batch >= 200 else 1)
        log_probs = (log_probs + step * (score - controller.value * (log_probs - reference))).log_softmax(0)
        seen = torch.multinomial(log_probs.exp(), 64, replacement=True, generator=draw)
        current = lesson.estimate_kl(log_probs[seen], reference[seen], "k1").mean().item()
        kls.append((log_probs.exp() * (log_probs - reference)).sum().item())
        coefficients.append(controller.value)
        controller.update(current, n_steps=64)
    return torch.tensor(kls), coefficients
