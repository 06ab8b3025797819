"""Notebook 9: one short training, run again and again, with functions of the lessons replaced by wrong ones."""

import copy
import io
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from figures.models import EOS, PAD, TOKENIZER, sft_model
from torch import nn

from tiny_models import builders, checkpoints, language

SETTINGS = {
    "max_new_tokens": 20,
    "num_updates": 9,
    "batch_size": 24,
    "num_epochs": 2,
    "num_minibatches": 2,
    "kl_coef": 0.09,
}
LATE = 3
"""Updates at the end whose mean is compared, since that of a single one is noisy."""


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

    def number(self, name: str, when: str) -> float:
        """One number of a metric: "late", "largest" or that of "update 1"."""
        if when == "late":
            return self.late(name)
        return max(self.of(name)) if when == "largest" else self.of(name)[0]


class Training:
    """The toy environment's SFT model, its reward model, and a PPO trainer for them.

    Args:
        course: the lessons, as `blocks.course` gives them.
    """

    def __init__(self, course: SimpleNamespace) -> None:
        self.course = course
        self.sft = sft_model()
        self.reward_model = course.reward_model.RewardModel.from_pretrained(checkpoints.REWARD_MODEL)

    def trainer(self, reference: nn.Module | None = None, **changed: Any) -> Any:
        """A new trainer; its critic starts as the reward model, its learning rate rises over two updates."""
        lesson, actor_critic = self.course.ppo_trainer, self.course.actor_critic
        config = lesson.PPOConfig(stop_token_ids=(EOS,), pad_token_id=PAD, **(SETTINGS | changed))
        critic = actor_critic.critic_from_reward_model(self.reward_model)
        model = actor_critic.PolicyAndValue(copy.deepcopy(self.sft).requires_grad_(True), critic)
        reference = reference or actor_critic.make_reference(self.sft)

        def schedule(done: int) -> float:
            return min((done + 1) / 3, 1 - done / config.num_updates)

        return lesson.PPOTrainer(model, self.reward_model, reference, config, TOKENIZER, schedule=schedule)

    def run(self, wrong: dict[str, Callable] | None = None, seed: int = 0, **changed: Any) -> Run:
        """A whole run.

        Args:
            wrong: by the name of a function that the trainer calls, a function that is called in its place, as
                wrong(right, ...), where right is the lesson's.
            seed: of the run.
            changed: settings, or the `reference`.
        """
        steps: list[dict[str, float]] = []
        trainer_class = self.course.ppo_trainer.PPOTrainer
        original = trainer_class.optimizer_step

        def watched(trainer: Any, minibatch: Any) -> dict[str, float]:
            steps.append(original(trainer, minibatch))
            return steps[-1]

        with ExitStack() as patched, redirect_stderr(io.StringIO()) as warnings:
            patched.enter_context(patch.object(trainer_class, "optimizer_step", watched))
            for name, function in (wrong or {}).items():
                patched.enter_context(self._replaced(name, function))
            torch.manual_seed(seed)
            history = self.trainer(seed=seed, **changed).train(language.all_prompts())
        return Run(history, warnings.getvalue().splitlines(), steps)

    def _replaced(self, name: str, function: Callable) -> Any:
        """A context in which the trainer, or the sampler that it calls, finds the wrong function under this name."""
        trainer, sampler = self.course.trainer, self.course.rollout.generation
        owner = trainer if hasattr(trainer, name) else sampler
        right = getattr(owner, name)
        return patch.object(owner, name, lambda *given, **named: function(right, *given, **named))

    def minibatch(self) -> Any:
        """Experience of the first rollout, ready for an optimizer step."""
        trainer, prompts = self.trainer(), language.all_prompts()[: SETTINGS["batch_size"]]
        experience = trainer.compute_rewards(trainer.generate_responses(prompts), prompts)
        whitened = self.course.masked_sequences.masked_whiten(experience.advantages, experience.mask)
        return replace(experience, advantages=whitened)


def random_model() -> nn.Module:
    """A model of the SFT model's shape that has learned nothing."""
    special = {"eos_token_id": EOS, "pad_token_id": PAD}
    return builders.build_gpt2(len(TOKENIZER), n_layer=2, n_embd=64, n_head=4, seed=5, **special)
