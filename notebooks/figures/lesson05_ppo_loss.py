"""Notebook 5: the six cases of the clip, a pessimistic bound on a real policy, and three ways to limit a step."""

import random
from types import ModuleType

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor

from book.figures import BLUE, GREEN, YELLOW
from book.figures.shared import Loss, clip_panel
from tiny_models.checkpoints import REWARD_MODEL
from tiny_models.language import sample_prompts

from . import suptitle
from .models import EOS, PAD, TOKENIZER, sft_model

RATES = torch.tensor([0, 0.001, 0.002, 0.003, 0.005, 0.01, 0.015, 0.02, 0.03])
WORTH = torch.randn(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LOOKS = {"unclipped": (YELLOW, "--"), "clip": (BLUE, "-"), "penalty": (GREEN, "-.")}


def six_cases(loss_of: Loss, cases: Tensor, clip_epsilon: float) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    clip_panel(left, loss_of, cases, 1.0, clip_epsilon)
    clip_panel(right, loss_of, cases, -1.0, clip_epsilon)
    left.set_title("good token, A = 1", fontweight="normal")
    left.set_ylabel("objective (dot: its gradient)")
    right.set_title("bad token, A = -1", fontweight="normal")
    left.legend(loc="upper left")
    suptitle(figure, "The objective of one token against its ratio")
    return figure, (
        "Two panels, the interval in gray. Good token: the objective rises with the ratio and is flat above the "
        "interval. Bad token: it is flat below the interval and falls with the ratio above. Dots mark three ratios and "
        "say what the gradient does: stop at 1.5 of the good and at 0.5 of the bad token, push or go back elsewhere."
    )


class RealPolicy:
    """The SFT model, batches of its reviews, and their scores."""

    def __init__(self, masked: ModuleType, reward: ModuleType, rollout: ModuleType) -> None:
        self.masked, self.rollout = masked, rollout
        self.policy = sft_model()
        self.reward_model = reward.RewardModel.from_pretrained(REWARD_MODEL).eval()
        self.start = [parameter.detach().clone() for parameter in self.policy.parameters()]

    def write(self, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Ids, attention mask, response mask and scores of sampled reviews."""
        draw = torch.Generator().manual_seed(seed)
        prompts = TOKENIZER(sample_prompts(count, random.Random(seed)), return_tensors="pt", padding=True)
        written = self.rollout.generate(
            self.policy, prompts.input_ids, prompts.attention_mask, 24, [EOS], PAD, generator=draw
        )
        input_ids = torch.cat([prompts.input_ids, written.responses], dim=1)
        attention_mask = torch.cat([prompts.attention_mask.bool(), written.mask], dim=1)
        with torch.no_grad():
            return input_ids, attention_mask, written.mask, self.reward_model(input_ids, attention_mask)

    def log_probs(self, input_ids: Tensor, attention_mask: Tensor, mask: Tensor) -> Tensor:
        positions = self.masked.position_ids(attention_mask)
        logits = self.policy(input_ids, attention_mask=attention_mask, position_ids=positions).logits
        return self.masked.response_log_probs(logits, input_ids, prompt_length=input_ids.shape[1] - mask.shape[1])

    @torch.no_grad()
    def move(self, rate: float, directions: list[Tensor]) -> None:
        for parameter, start, direction in zip(self.policy.parameters(), self.start, directions, strict=True):
            parameter.copy_(start - rate * direction)

    def try_all_rates(self, ppo: ModuleType, seed: int, clip_epsilon: float) -> Tensor:
        """For each learning rate of one step: unclipped and clipped objective, and the score of fresh reviews."""
        *texts, scores = self.write(64, seed)
        mask = texts[-1]
        advantages = self.masked.masked_whiten(scores.unsqueeze(1).expand(mask.shape), mask)
        self.policy.zero_grad()
        log_probs = self.log_probs(*texts)
        old = log_probs.detach()
        ppo.compute_ppo_loss(log_probs, old, advantages, clip_epsilon=clip_epsilon, mask=mask).backward()
        directions, rows = [parameter.grad.sign() for parameter in self.policy.parameters()], []
        for rate in RATES.tolist():
            self.move(rate, directions)
            now = self.log_probs(*texts).detach()
            bounds = [-ppo.compute_ppo_loss(now, old, advantages, width, mask) for width in (1e9, clip_epsilon)]
            rows.append(torch.stack([*bounds, self.write(128, seed=100 + seed)[-1].mean()]))
        self.move(0.0, directions)
        return torch.stack(rows)


def one_step(batches: Tensor) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    for which, (axes, color, style, label) in enumerate(
        ((left, YELLOW, "--", "unclipped"), (left, BLUE, "-", "clipped"), (right, GREEN, "-", "fresh reviews"))
    ):
        axes.plot(RATES, batches[:, :, which].T, style, color=color, linewidth=0.8, alpha=0.6)
        axes.plot(RATES, batches[:, :, which].mean(0), style, color=color, linewidth=3, label=label)
        axes.set(xlabel="learning rate of the step", xticks=[0, 0.01, 0.02, 0.03])
    left.axhline(0, color="black", linewidth=0.8)
    left.set_ylabel("objective on the 64 reviews")
    left.legend(loc="upper left")
    right.axhline(batches[:, 0, 2].mean(), color="black", linewidth=0.8, label="before the step")
    right.set_ylabel("mean score of fresh reviews")
    right.legend(loc="lower left")
    suptitle(figure, "One step of a real policy, from small to large (thin: eight batches; thick: their mean)")
    return figure, (
        "Left: against the learning rate of one step the unclipped objective rises steeply and stays high; the clipped "
        "one has its maximum at a small step and then falls below 0. Right: the mean score of fresh reviews rises "
        "until about 0.015, then falls."
    )


def value_and_gradient(loss_of: Loss, value: float, clip_epsilon: float) -> tuple[float, float]:
    """Value loss of one token with old value 1 and return 2, and its slope."""
    new = torch.tensor(value).double().requires_grad_()
    loss = loss_of(new, torch.tensor(1.0).double(), torch.tensor(2.0).double(), clip_epsilon)
    return loss.item(), torch.autograd.grad(loss, new)[0].item()


def steps_on_one_batch(loss_of: Loss, clip_epsilon: float) -> list[float]:
    values = [1.0]
    for _ in range(200):
        values.append(values[-1] - 0.02 * value_and_gradient(loss_of, values[-1], clip_epsilon)[1])
    return values


def critic(loss_of: Loss, paths: dict[float, list[float]]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    grid = torch.linspace(0.2, 3.0, 141).tolist()
    for width, style, color in ((1e9, "--", YELLOW), (0.2, "-", BLUE)):
        label = "unclipped" if width > 1 else f"clip_epsilon = {width:g}"
        left.plot(grid, [value_and_gradient(loss_of, x, width)[0] for x in grid], style, color=color, label=label)
    left.set(xlabel="new value (old value 1, return 2)", ylabel="value loss")
    left.legend(loc="upper right")
    for (width, path), style, color in zip(paths.items(), ("-", "-.", "--"), (BLUE, GREEN, YELLOW), strict=True):
        right.plot(path, style, color=color, label="unclipped" if width > 1 else f"clip_epsilon = {width:g}")
    right.axhline(2, color="black", linewidth=0.8)
    right.set(xlabel="gradient steps on one batch", ylabel="value", ylim=(0.6, 2.1))
    right.legend(loc="lower right")
    suptitle(figure, "The value loss of one token, and 200 steps on it")
    return figure, (
        "Left: unclipped, the loss is a parabola with its minimum at 2; clipped it is flat from 1.2 to 2.8. Right: "
        "over 200 steps the value stops at 1.2 or 1.5 with the clip, and comes close to 2 without."
    )


def one_batch() -> tuple[Tensor, Tensor, Tensor]:
    """Old log-probabilities of fifty tokens, 64 of them sampled, and their noisy advantages."""
    draw, old = torch.Generator().manual_seed(1), torch.zeros(50, dtype=torch.float64).log_softmax(0)
    tokens = torch.multinomial(old.exp(), 64, replacement=True, generator=draw)
    scores = WORTH[tokens] + 3 * torch.randn(64, generator=draw, dtype=torch.float64)
    return old, tokens, scores - scores.mean()


def many_steps(loss_of: Loss, beta: float = 20.0) -> Tensor:
    """Smallest ratio, largest ratio and KL before each of 41 steps on one batch."""
    old, tokens, advantages = one_batch()
    logits, rows = torch.zeros(50, dtype=torch.float64), []
    for _ in range(41):
        logits.requires_grad_()
        new = logits.log_softmax(0)
        ratios = (new - old).exp()[tokens].detach()
        rows.append([ratios.min().item(), ratios.max().item(), (old.exp() * (old - new)).sum().item()])
        (slope,) = torch.autograd.grad(loss_of(new[tokens], old[tokens], advantages, beta), logits)
        logits = (logits - slope).detach()
    return torch.tensor(rows)


def three_policies(paths: dict[str, Tensor]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    left.axhspan(0.8, 1.2, color="0.88")
    for name, path in paths.items():
        color, style = LOOKS[name]
        left.plot(path[:, 1], style, color=color, label=f"{name}: {path[20, 0]:.2f} to {path[20, 1]:.2f}")
        left.plot(path[:, 0], style, color=color)
        right.plot(path[:, 2], style, color=color, label=f"{name}: {path[20, 2]:.3f}")
    left.set(xlabel="steps on the batch", ylabel="smallest and largest ratio", yscale="log", ylim=(2e-3, 5e3))
    left.legend(title="after 20 steps", loc="upper left")
    right.set(xlabel="steps on the batch", ylabel="KL(old || new) (nats)", yscale="log", ylim=(1e-3, None))
    right.legend(title="after 20 steps", loc="center right")
    suptitle(figure, "Three losses, one batch, many steps")
    return figure, (
        "Left, log scale: unclipped, the ratios move from 1 to below 0.01 and above 40 within 40 steps; with the clip "
        "they stop just outside the band from 0.8 to 1.2, with the penalty a little further out. Right: the KL passes "
        "4 nats unclipped and levels off near 0.02 for the other two."
    )


def many_rounds(ppo: ModuleType, loss_of: Loss, rounds: int = 40, runs: int = 48) -> Tensor:
    """Expected worth of 48 policies after each round of 64 tokens and 20 Adam steps."""
    draw, beta, worths = torch.Generator().manual_seed(0), 10.0, []
    logits = torch.zeros(runs, 50, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([logits], lr=0.2)
    for _ in range(rounds):
        old = logits.detach().log_softmax(1)
        tokens = torch.multinomial(old.exp(), 64, replacement=True, generator=draw)
        scores = WORTH[tokens] + 3 * torch.randn(runs, 64, generator=draw, dtype=torch.float64)
        advantages = scores - scores.mean(1, keepdim=True)
        for _ in range(20):
            loss = runs * loss_of(logits.log_softmax(1).gather(1, tokens), old.gather(1, tokens), advantages, beta)
            adam.zero_grad()
            loss.backward()
            adam.step()
        new = logits.detach().log_softmax(1)
        moved = ppo.ppo_statistics(new.gather(1, tokens), old.gather(1, tokens), advantages)
        beta = ppo.update_beta(beta, moved["approx_kl"], target_kl=0.03)
        worths.append(new.exp() @ WORTH)
    return torch.stack(worths)


def rounds(found: dict[str, Tensor]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots()
    for name, worths in found.items():
        color, style = LOOKS[name]
        steps = torch.arange(1, len(worths) + 1)
        low, middle, high = worths.quantile(torch.tensor([0.25, 0.5, 0.75]).double(), dim=1)
        axes.plot(steps, middle, style, color=color, label=f"{name}: mean {worths[-1].mean():.2f} at the end")
        axes.fill_between(steps, low, high, color=color, alpha=0.15)
    axes.axhline(WORTH.max(), color="black", linewidth=0.8)
    axes.annotate(f"best token: {WORTH.max():.2f}", (1, WORTH.max()), (0, -12), textcoords="offset points")
    axes.set(xlabel="round", ylabel="expected worth of a token", ylim=(0, 3))
    axes.legend(loc="lower right")
    suptitle(figure, "48 policies: median, and the middle half of them")
    return figure, (
        "Expected worth over 40 rounds. Unclipped, the median rises steeply in three rounds, then stays flat, with a "
        "wide band. Clip and adaptive penalty rise more slowly and end higher, close to the best token."
    )
