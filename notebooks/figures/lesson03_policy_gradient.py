"""Notebook 3: estimates of the policy gradient for four words and for the course's language model."""

import copy
import random
from collections.abc import Sequence
from types import ModuleType

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor
from transformers import PreTrainedModel

from book.figures import BLUE, GREEN, ORANGE
from solutions.lesson02_reward_model import RewardModel
from solutions.lesson08_rollout import generate
from tiny_models import checkpoints
from tiny_models.language import sample_prompts

from . import suptitle
from .models import EOS, PAD, TOKENIZER, sft_model


class FourWords:
    """A policy that chooses one of four words; for it the exact gradient is known."""

    def __init__(self, lesson: ModuleType, masked: ModuleType, bandit: ModuleType) -> None:
        self.lesson, self.masked = lesson, masked
        self.chance = torch.Generator().manual_seed(0)
        self.logits = torch.tensor(bandit.LOGITS, dtype=torch.float64)
        self.rewards = torch.tensor(bandit.REWARDS, dtype=torch.float64)
        self.probs = self.logits.softmax(0)
        self.exact = -self.probs * (self.rewards - (self.probs * self.rewards).sum())
        """Gradient of the loss, so with a minus."""

    def sample(self, times: int, size: int) -> Tensor:
        return torch.multinomial(self.probs, times * size, replacement=True, generator=self.chance).view(times, size)

    def estimates(self, words: Tensor, weights: Tensor, logits: Tensor | None = None) -> Tensor:
        """One estimate of the gradient for each row of words: (times, 4)."""
        times, size = words.shape
        leaves = self.logits.repeat(times, 1) if logits is None else logits
        leaves.requires_grad_()  # each row has its own copy of the four logits
        log_probs = self.masked.gather_log_probs(leaves.unsqueeze(1).expand(-1, size, -1), words)
        loss = self.lesson.reinforce_loss(log_probs, weights, torch.ones_like(words, dtype=torch.bool))
        return torch.autograd.grad(times * loss, leaves)[0]

    def learn(self, use_baseline: bool, runs: int = 200, steps: int = 150, size: int = 4, rate: float = 0.15) -> Tensor:
        """Expected reward of each run after each step."""
        chance, logits, history = torch.Generator().manual_seed(1), self.logits.repeat(runs, 1), []
        for _ in range(steps):
            probs = logits.softmax(1)
            history.append(probs @ self.rewards)
            words = torch.multinomial(probs, size, replacement=True, generator=chance)
            scores = self.rewards[words]
            weights = scores - self.lesson.leave_one_out_baseline(scores) if use_baseline else scores
            slopes = self.estimates(words, weights, logits)
            logits = logits.detach() - rate * slopes
        return torch.stack(history)


def slopes(found: dict[str, Tensor], exact: Tensor) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(1, 2, sharey=True)
    bins = torch.linspace(-3.5, 3.5, 57).tolist()
    for axis, (name, estimate), color in zip(axes, found.items(), (ORANGE, BLUE), strict=True):
        axis.hist(estimate[:, 0], bins, color=color)
        axis.axvline(exact[0], color="black", linestyle="--", label=f"exact: {exact[0]:.3f}")
        axis.set(xlim=(-3.5, 3.5), xlabel="estimated slope of the loss for word 0", title=name)
        axis.legend(loc="upper left")
    axes[0].set(ylabel="number of estimates", yscale="log")
    suptitle(figure, "2000 estimates of one slope")
    return figure, (
        "Two histograms of 2000 estimates on the same axis, with a dashed line at the exact slope 0.335. Without a "
        "baseline they lie between -3 and 3. With leave-one-out they form one narrow tower at the line."
    )


def shares(sizes: Sequence[int], kept: dict[str, list[float]], error: dict[str, list[float]]) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    smooth = torch.linspace(2, 16, 100)
    axis.plot(smooth, torch.ones(100), color=BLUE, linewidth=1)
    axis.plot(smooth, (smooth - 1) / smooth, color=ORANGE, linewidth=1, label="(K - 1) / K")
    for (name, share), style, color in zip(kept.items(), ("o", "s"), (BLUE, ORANGE), strict=True):
        axis.errorbar(sizes, share, error[name], fmt=style, color=color, label=f"{name} (± 2 s.e.)")
    axis.set_xticks(sizes)
    axis.set(xlabel="K, responses to one prompt", ylabel="mean gradient / exact gradient", ylim=(0, 1.15))
    axis.legend(loc="lower right")
    axis.set_title("The share of the gradient that is left, for two baselines")
    return figure, (
        "Share of the exact gradient against K. Leave-one-out stays at 1. The mean of all K begins at a half for K = 2 "
        "and climbs along the curve (K - 1) / K, to 0.94 at K = 16."
    )


def ones_and_zeros(times: int, tokens: int, chance: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Logits that are 0, words that earn 1 or 0 with these logits, and the words' log-probabilities."""
    logits = torch.zeros(times, tokens, dtype=torch.float64, requires_grad=True)
    ones = torch.rand(times, tokens, generator=chance) < 0.5
    return logits, ones, torch.where(ones, logits.sigmoid(), 1 - logits.sigmoid()).log()


def three_weights(by_token: dict[str, Tensor], of_all: dict[str, float]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2, width_ratios=[1.6, 1])
    for (name, curve), style in zip(by_token.items(), ("o-", "s--", "^:"), strict=True):
        left.plot(curve, style, markersize=4, label=name)
    left.set(xlabel="token t", ylabel="standard deviation of its part", ylim=(0, 0.37))
    left.set_xticks(range(0, 20, 4))
    left.legend(ncols=3, loc="upper center", fontsize=8)
    bars = right.bar(range(3), list(of_all.values()), color=[BLUE, ORANGE, GREEN])
    right.bar_label(bars, fmt="%.2f")
    right.set_xticks(range(3), ["whole\nreturn", "to go", "to go -\nexpected"])
    right.set(ylabel="standard deviation of the estimate")
    right.margins(y=0.12)
    suptitle(figure, "Three kinds of weights: the noise of each token's part, and of the whole")
    return figure, (
        "Left, standard deviation of each token's part of the estimate. For the whole return it is the same at all "
        "tokens; for rewards to go it falls in a straight line to the end; with the expected part removed it is low "
        "everywhere. Right, bars for the whole estimate: 1.15, 0.68 and 0.17."
    )


class Language:
    """The course's small language model, its reward model, and K sampled responses to each prompt."""

    def __init__(self, lesson: ModuleType, masked: ModuleType, k: int, chance: torch.Generator) -> None:
        self.lesson, self.masked, self.k, self.chance = lesson, masked, k, chance
        self.policy = sft_model()
        self.reward_model = RewardModel.from_pretrained(checkpoints.REWARD_MODEL).eval().requires_grad_(False)
        self.prompts = random.Random(0)

    def write(self, model: PreTrainedModel, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """K responses to each of `count` prompts: ids, attention mask, response mask, scores (count, K)."""
        prompts = [prompt for prompt in sample_prompts(count, self.prompts) for _ in range(self.k)]
        batch = TOKENIZER(prompts, padding=True, return_tensors="pt")
        seen = batch.attention_mask.bool()
        made = generate(model, batch.input_ids, seen, 20, [EOS], PAD, generator=self.chance)
        ids, attention = torch.cat([batch.input_ids, made.responses], 1), torch.cat([seen, made.mask], 1)
        return ids, attention, made.mask, self.reward_model(ids, attention).view(count, self.k)

    def log_probs(self, model: PreTrainedModel, ids: Tensor, attention: Tensor, mask: Tensor) -> Tensor:
        positions = self.masked.position_ids(attention)
        logits = model(input_ids=ids, attention_mask=attention, position_ids=positions).logits
        return self.masked.response_log_probs(logits, ids, ids.shape[1] - mask.shape[1])

    def loss(self, log_probs: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
        """REINFORCE's loss; each token of a response has the weight of its response."""
        return self.lesson.reinforce_loss(log_probs, weight.view(-1, 1).expand(-1, mask.shape[1]), mask)

    def gradients(self, batch: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
        """For each kind of weights the gradient of all parameters: a row for each batch of responses to 4 prompts."""
        rows, parameters = [], list(self.policy.parameters())
        for index in torch.arange(weights[0].numel()).split(4 * self.k):
            part = [tensor[index] for tensor in batch]
            log_probs, found = self.log_probs(self.policy, *part), []
            for weight in weights:
                loss = self.loss(log_probs, part[-1], weight.view(-1)[index])
                slopes = torch.autograd.grad(loss, parameters, retain_graph=True)
                found.append(torch.cat([slope.flatten() for slope in slopes]))
            rows.append(found)
        return [torch.stack(kind) for kind in zip(*rows, strict=True)]

    def reinforce(self, use_baseline: bool, seed: int, offset: float, updates: int = 24, rate: float = 1e-3) -> Tensor:
        """Mean score of the responses of each update; the weights are the scores plus `offset`."""
        self.chance.manual_seed(seed)
        self.prompts.seed(seed)
        model, history = copy.deepcopy(self.policy).requires_grad_(True), []
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        for _ in range(updates):
            *batch, scores = self.write(model, 8)
            history.append(scores.mean().item())
            weights = scores + offset
            if use_baseline:
                weights = weights - self.lesson.leave_one_out_baseline(weights)
            optimizer.zero_grad()
            self.loss(self.log_probs(model, *batch), batch[-1], weights).backward()
            optimizer.step()
        return torch.tensor(history)


def offsets_and_variance(offsets: Tensor, plain: Tensor, with_baseline: Tensor) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    best = offsets[plain.argmin()].item()
    axis.plot(offsets, plain, label="no baseline", color=ORANGE)
    axis.axhline(with_baseline, label="leave-one-out, whatever the offset", color=BLUE, linestyle="--")
    axis.plot(best, plain.min(), "o", color=ORANGE)
    arrow = {"arrowstyle": "->", "shrinkB": 5}
    axis.annotate(f"least at {best:g}", (best, plain.min()), (best, 0.35 * plain.max()), ha="center", arrowprops=arrow)
    axis.set(xlabel="offset added to all scores", ylabel="variance of the gradient", ylim=(0, None))
    axis.legend(loc="upper left")
    axis.set_title("Variance of the language model's gradient against the offset of the scores")
    return figure, (
        "Variance of the gradient of the language model against the offset of the scores. Without a baseline it is a "
        "parabola, lowest where the mean score is near 0. With leave-one-out it is a flat dashed line a little above "
        "the bottom of the parabola."
    )


def four_word_runs(curves: dict[str, Tensor]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(1, 2, sharey=True)
    for axis, (name, curve), color in zip(axes, curves.items(), (ORANGE, BLUE), strict=True):
        axis.plot(curve[:, :60], color=color, linewidth=0.5, alpha=0.5)
        axis.plot(curve.mean(dim=1), color="black", label=f"mean of {curve.shape[1]} runs")
        axis.set(xlabel="step", title=name, ylim=(8.9, 11.4))
        axis.legend(loc="upper left")
    axes[0].set_ylabel("expected reward")
    suptitle(figure, "60 of the runs, and the mean of all")
    return figure, (
        "Expected reward against the step, 60 thin lines in each panel, and the mean of all 200 runs in black. Without "
        "a baseline lines run apart to plateaus at 9, 10, 10.5 and 11. With leave-one-out all climb together."
    )


def language_runs(runs: dict[str, Tensor]) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    for (name, histories), style, color in zip(runs.items(), ("s--", "o-"), (ORANGE, BLUE), strict=True):
        axis.plot(histories.T, color=color, linewidth=0.7, alpha=0.6)
        axis.plot(histories.mean(dim=0), style, color=color, markersize=4, label=f"{name}, mean of 3 runs")
    axis.axhline(0, color="black", linewidth=0.8)
    axis.set(xlabel="update", ylabel="mean score of 32 responses")
    axis.legend(loc="upper left")
    axis.set_title("The language model, with scores that carry an offset")
    return figure, (
        "Mean score against the update. Three thin lines and their mean for each kind. From near 0 all climb; with "
        "leave-one-out they climb faster and end higher in each of the three runs."
    )
