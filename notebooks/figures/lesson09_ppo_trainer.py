"""Notebook 9: one short training, run again and again with one detail wrong, and what its metrics say."""

import copy
import io
from collections.abc import Callable, Iterable
from contextlib import ExitStack, redirect_stderr
from dataclasses import dataclass, replace
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from torch import Tensor, nn

from book.figures import BLUE, ORANGE, SKY
from tiny_models import builders, checkpoints, language

from . import suptitle
from .models import EOS, PAD, TOKENIZER, sft_model

SETTINGS = {
    "max_new_tokens": 20,
    "num_updates": 9,
    "batch_size": 24,
    "num_epochs": 2,
    "num_minibatches": 2,
    "warmup_updates": 2,
    "kl_coef": 0.09,
}
LATE = 3
GRAY = "0.75"

Patch = tuple[Any, str, Callable]
"""A module or class of the lessons, the name of one of its functions, and what stands in its place."""


@dataclass(frozen=True)
class Run:
    """The metrics of each update, what the live checks printed, and the statistics of each optimizer step."""

    history: list[dict[str, float]]
    warnings: list[str]
    steps: list[dict[str, float]]

    def of(self, name: str) -> list[float]:
        return [update[name] for update in self.history]

    def late(self, name: str) -> float:
        """Mean over the last updates."""
        return sum(self.of(name)[-LATE:]) / LATE


class Training:
    """The toy environment's SFT model, its reward model, and a PPO trainer for them."""

    def __init__(self, lessons: SimpleNamespace) -> None:
        self.lessons = lessons
        self.sft = sft_model()
        self.reward_model = lessons.reward.RewardModel.from_pretrained(checkpoints.REWARD_MODEL)

    def trainer(self, reference: nn.Module | None = None, **changed: Any) -> Any:
        """A new trainer; its critic starts as the reward model."""
        lessons, given = self.lessons, SETTINGS | changed
        config = lessons.ppo.PPOConfig(stop_token_ids=(EOS,), pad_token_id=PAD, **given)
        critic = lessons.actor_critic.critic_from_reward_model(self.reward_model)
        model = lessons.actor_critic.PolicyAndValue(copy.deepcopy(self.sft).requires_grad_(True), critic)
        reference = reference or lessons.actor_critic.make_reference(self.sft)
        return lessons.ppo.PPOTrainer(model, self.reward_model, reference, config, TOKENIZER)

    def run(self, patches: Iterable[Patch] = (), seed: int = 0, **changed: Any) -> Run:
        """A whole run, in which functions of the lessons may be exchanged for wrong ones."""
        steps: list[dict[str, float]] = []
        original = self.lessons.ppo.PPOTrainer.optimizer_step

        def watched(trainer: Any, minibatch: Any) -> dict[str, float]:
            steps.append(original(trainer, minibatch))
            return steps[-1]

        with ExitStack() as patched, redirect_stderr(io.StringIO()) as warnings:
            for owner, name, new in ((self.lessons.ppo.PPOTrainer, "optimizer_step", watched), *patches):
                patched.enter_context(patch.object(owner, name, new))
            torch.manual_seed(seed)
            history = self.trainer(seed=seed, **changed).train(language.all_prompts())
        return Run(history, warnings.getvalue().splitlines(), steps)

    def minibatch(self) -> Any:
        """Experience of the first rollout, ready for an optimizer step."""
        size = SETTINGS["batch_size"]
        trainer, prompts = self.trainer(), language.all_prompts()[:size]
        experience = trainer.compute_rewards(trainer.generate_responses(prompts), prompts)
        whitened = self.lessons.masked.masked_whiten(experience.advantages, experience.mask)
        return replace(experience, advantages=whitened)


def gradient(trainer: Any, experience: Any, rows_each: int, by_tokens: bool) -> Tensor:
    """The gradient of all weights, as one vector, summed over microbatches of some rows each."""
    trainer.model.zero_grad()
    pieces = torch.arange(len(experience)).split(rows_each)
    for index in pieces:
        piece = experience.rows(index)
        share = piece.mask.sum() / experience.mask.sum() if by_tokens else 1 / len(pieces)
        (trainer.compute_loss(piece)[0] * share).backward()
    return torch.cat([weight.grad.flatten() for weight in trainer.model.parameters()])


def faults(lessons: SimpleNamespace) -> dict[str, dict[str, Any]]:
    """What `Training.run` takes for each faulty run: a changed setting, or functions to exchange."""
    masked, gae, trainer = lessons.masked, lessons.gae, lessons.trainer

    def whitened_returns(rewards, values, mask, gamma, lam):
        advantages = gae.compute_response_gae(rewards, values, mask, gamma, lam).advantages
        advantages = masked.masked_whiten(advantages, mask)
        return gae.gae.AdvantagesAndReturns(advantages, advantages + values)

    def over_padding(rewards, values, mask, gamma, lam):
        dones = torch.zeros_like(mask)
        dones[:, -1] = True
        pair = gae.compute_gae(rewards, torch.cat([values, values[:, :1] * 0], dim=1), dones, gamma, lam)
        return gae.gae.AdvantagesAndReturns(*(part.masked_fill(~mask, 0.0) for part in pair))

    def shifted(logits, tokens, temperature):
        return masked.gather_log_probs(logits.roll(-1, dims=1), tokens, temperature)

    def without_eos(responses, stop_token_ids):
        is_stop = torch.isin(responses, torch.tensor(stop_token_ids))
        return masked.response_mask(responses, stop_token_ids) & ~is_stop

    unmasked = ("compute_ppo_loss", "compute_value_loss", "masked_whiten")
    special = {"eos_token_id": EOS, "pad_token_id": PAD}
    random_weights = builders.build_gpt2(len(TOKENIZER), n_layer=2, n_embd=64, n_head=4, seed=5, **special)
    return {
        "whitened returns": {"patches": [(trainer, "compute_response_gae", whitened_returns)]},
        "no mask": {"patches": [_without_mask(trainer, name) for name in unmasked]},
        "GAE over padding": {"patches": [(trainer, "compute_response_gae", over_padding)]},
        "wrong shift": {"patches": [(trainer, "gather_log_probs", shifted)]},
        # The trainer measures this before its first update and refuses it, so the look is switched off as well.
        "dropout on": {
            "patches": [(trainer, "disable_dropout", _enable_dropout), (trainer, "check_no_dropout", lambda *_: None)]
        },
        "wrong reference": {"reference": random_weights},
        "sign of the entropy": {"patches": [(trainer, "combine_losses", _entropy_added)], "entropy_coef": 1.0},
        "critic not trained": {"value_coef": 0.0},
        "EOS masked out": {"patches": [(lessons.generation, "response_mask", without_eos)]},
    }


def _without_mask(trainer: ModuleType, name: str) -> Patch:
    function = getattr(trainer, name)
    return trainer, name, lambda *arguments: function(*arguments[:-1], torch.ones_like(arguments[-1]))


def _enable_dropout(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.1
    model.train()


def _entropy_added(policy_loss, value_loss, entropy, value_coef, entropy_coef):
    return policy_loss + value_coef * value_loss + entropy_coef * entropy


def steps_of_updates(moved: Tensor) -> tuple[Figure, str]:
    """Args: moved: (updates, steps) approx_kl."""
    figure, axes = pyplot.subplots(figsize=(6.4, 3.2))
    steps = range(1, moved.shape[1] + 1)
    for update in moved:
        axes.plot(steps, update, color=SKY, linewidth=0.8)
    axes.plot(steps, moved.median(0).values, "s--", color=ORANGE, label="median")
    axes.set(xlabel="optimizer step of the update", ylabel="approx_kl (nats per token)", xticks=steps)
    axes.set_yscale("symlog", linthresh=1e-4)
    axes.set_yticks([0, 1e-4, 1e-3, 1e-2, 1e-1], ["0", "0.0001", "0.001", "0.01", "0.1"])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-2e-5, None)
    axes.legend(loc="lower right")
    suptitle(figure, f"How far the policy has moved before each step, in {len(moved)} updates")
    return figure, (
        "approx_kl against the number of the optimizer step, one line per update. All lines begin at 0 in step 1 and "
        "are above 0 from step 2 on; they rise to values that differ widely, around the dashed median."
    )


def score_courses(baselines: list[Run], faulty: dict[str, Run], harmed: list[str]) -> tuple[Figure, str]:
    figure, grid = pyplot.subplots(3, 3, sharex=True, sharey=True, figsize=(8, 4.8))
    usual = [run.late("score") for run in baselines]
    for axes, (name, run) in zip(grid.flat, faulty.items(), strict=True):
        for baseline in baselines:
            axes.plot(baseline.of("score"), color=GRAY, linewidth=1.2)
        color, style = (ORANGE, "--") if name in harmed else (BLUE, "-")
        axes.plot(run.of("score"), style, color=color)
        axes.set_title(name, color=color, fontsize=10)
        axes.text(0.97, 0.34, f"late {run.late('score'):.2f}", ha="right", transform=axes.transAxes, fontsize=9)
    figure.supxlabel("update", fontsize=10)
    figure.supylabel("score (standard deviations)", fontsize=10)
    usually = f"{min(usual):.2f} to {max(usual):.2f}"
    suptitle(figure, f"Nine faulty runs. Late: mean score of the last {LATE} updates (baselines: {usually})")
    return figure, (
        f"Nine panels, one per fault: the score over {len(baselines[0].history)} updates, with the three baseline runs "
        f"in gray. Orange and dashed, far below them at the end: {' and '.join(harmed)}. The others, in blue, stay "
        "near the gray lines or, with the EOS token masked out, end above them."
    )


METRICS: dict[str, Callable[[Run], float]] = {
    "score": lambda run: run.late("score"),
    "first_ratio_max": lambda run: max(run.of("first_ratio_max")),
    "kl": lambda run: run.of("kl")[0],
    "entropy": lambda run: run.late("entropy"),
    "explained_variance": lambda run: run.late("explained_variance"),
    "stop rate": lambda run: run.of("stop_rate")[0],
    "response_length": lambda run: run.late("response_length"),
}
WHEN = ["late", "largest", "update 1", "late", "late", "update 1", "late"]
TOLERANCES = {
    "score": 0.2,
    "first_ratio_max": 0.05,
    "kl": 0.05,
    "entropy": 0.2,
    "explained_variance": 0.5,
    "stop rate": 0.5,
    "response_length": 1.5,
}
"""How far outside of the baselines' range a number must be to count: more than chance explains in so few responses."""


def departures(baselines: list[Run], faulty: dict[str, Run]) -> dict[str, set[str]]:
    """For each fault the metrics that show it: outside of the baselines' range by more than the tolerance."""
    return {name: {metric for metric in METRICS if _excess(metric, run, baselines) > 1} for name, run in faulty.items()}


def _excess(metric: str, run: Run, baselines: list[Run]) -> float:
    """Distance from the range of the baselines, in units of the tolerance."""
    number, usual = METRICS[metric](run), [METRICS[metric](baseline) for baseline in baselines]
    return max(min(usual) - number, number - max(usual), 0.0) / TOLERANCES[metric]


def metrics_table(baselines: list[Run], faulty: dict[str, Run]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(figsize=(8, 4.4))
    excess = torch.tensor([[_excess(metric, run, baselines) for metric in METRICS] for run in faulty.values()])
    axes.imshow((excess > 1).float(), cmap="Oranges", vmin=0, vmax=2, aspect="auto")
    for row, run in enumerate(faulty.values()):
        for column, read in enumerate(METRICS.values()):
            weight = "bold" if excess[row, column] > 1 else "normal"
            axes.text(column, row, f"{_rounded(read(run))}", ha="center", va="center", fontsize=9, fontweight=weight)
    labels = []
    for (metric, read), when in zip(METRICS.items(), WHEN, strict=True):
        usual = sorted(_rounded(read(run)) for run in baselines)
        between = usual[0] if usual[0] == usual[-1] else f"{usual[0]} to {usual[-1]}"
        labels.append(f"{metric.replace('_', chr(10), 1)}\n({when})\n{between}")
    axes.set_xticks(range(len(METRICS)), labels, fontsize=8)
    axes.set_yticks(range(len(faulty)), faulty)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    suptitle(figure, "Seven metrics of nine faulty runs, and the range of the baselines (bold: far outside)")
    found = departures(baselines, faulty)
    return figure, "A table, one row per fault and one column per metric. Bold: " + "; ".join(
        f"{name}: {', '.join(metric for metric in METRICS if metric in found[name]) or 'nothing'}" for name in faulty
    )


def _rounded(number: float) -> str:
    return f"{number:.0f}" if number >= 30 else f"{number + 0.0:.2f}".replace("-0.00", "0.00")


PANELS = {
    "first_ratio_max": ("dropout on", "largest ratio at the\nfirst minibatch"),
    "kl": ("wrong reference", "KL from the reference\n(nats per response)"),
    "entropy": ("sign of the entropy", "entropy\n(nats per token)"),
    "explained_variance": ("critic not trained", "explained variance\nof the returns"),
    "stop_rate": ("EOS masked out", "stop rate"),
    "score": ("EOS masked out", "score\n(standard deviations)"),
}


def dashboard(baselines: list[Run], faulty: dict[str, Run]) -> tuple[Figure, str]:
    figure, grid = pyplot.subplots(2, 3, sharex=True, figsize=(8, 4.6))
    for axes, (metric, (fault, label)) in zip(grid.flat, PANELS.items(), strict=True):
        others = [run for name, run in faulty.items() if name != fault]
        lines = [axes.plot(run.of(metric), color=GRAY, linewidth=1)[0] for run in others]
        lines += [axes.plot(run.of(metric), color=BLUE)[0] for run in baselines]
        lines += axes.plot(faulty[fault].of(metric), "--", color=ORANGE)
        axes.set_ylabel(label, fontsize=9)
        axes.set_title(fault, color=ORANGE, fontsize=10)
    grid[0, 0].set_yscale("log")
    grid[0, 0].set_yticks([1, 10, 100], ["1", "10", "100"])
    grid[0, 0].minorticks_off()
    for axes in grid[1]:
        axes.set(xlabel="update", xticks=range(0, len(baselines[0].history), 3))
    labels = ["three baselines", "the fault named above", "the other faults"]
    figure.legend([lines[-2], lines[-1], lines[0]], labels, loc="outside lower center", ncols=3)
    suptitle(figure, "One metric for each of five faults, and the score of one of them")
    return figure, (
        "Six panels over the updates, baselines in blue, one fault in dashed orange, the others in gray. Largest first "
        "ratio: 1 for the baselines, far above with dropout. KL: 0 at first for the baselines, 35 with the wrong "
        "reference. Entropy: falls below the baselines with the wrong sign. Explained variance: below 0 with an "
        "untrained critic. Stop rate: 1 for the baselines, 0 with the EOS token masked out. Score: the run with the "
        "EOS token masked out ends above the baselines."
    )
