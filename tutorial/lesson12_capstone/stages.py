"""The third stage of RLHF from the blocks of the earlier lessons, and the results of all three stages."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..lesson02_reward_model import RewardModel
from ..lesson07_actor_critic import PolicyAndValue, critic_from_reward_model, make_reference
from ..lesson09_ppo_trainer import PPOConfig, PPOTrainer

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class SFTResult:
    """Result of supervised fine-tuning."""

    policy: PreTrainedModel
    """The SFT model: where PPO starts, and its reference."""
    losses: list[float]
    """Loss of every optimizer step, in nats for each token."""


@dataclass(frozen=True)
class RewardModelResult:
    """Result of reward modeling."""

    reward_model: RewardModel
    """Calibrated: mean 0 and standard deviation 1 on the SFT model's responses."""
    history: list[dict[str, float]]
    """Loss and accuracy of every optimizer step."""
    accuracy: float
    """On comparisons that were held out."""


@dataclass(frozen=True)
class PPOResult:
    """Result of PPO."""

    policy: PreTrainedModel
    """The tuned policy."""
    trainer: PPOTrainer
    """With its critic and its metrics."""


def train_policy(
    sft: SFTResult,
    reward: RewardModelResult,
    config: PPOConfig,
    tokenizer: Any,
    prompts: Sequence[str],
    on_update: Callable[[PPOTrainer], None] | None = None,
    resume_from: Path | None = None,
) -> PPOResult:
    """Run stage 3: PPO from the SFT model, which is also the reference, with a critic that starts as the reward model.

    Args:
        sft: the SFT policy, left as it is, its mode too: a copy is trained, a frozen copy is the reference; gradients
            that `train_sft` left on it are in neither.
        reward: the reward model; it is frozen, and left so.
        config: every number of the run.
        tokenizer: the policy's.
        prompts: texts to write responses to.
        on_update: called after each update, to evaluate or to save.
        resume_from: the folder of a checkpoint of this run to go on from; None starts at the first update.

    Returns:
        The tuned policy and its trainer. The global random generator is not seeded: the trainer has its own.

    Raises:
        FileNotFoundError: there is no whole checkpoint in `resume_from`.
    """
    raise NotImplementedError("lesson12: train_policy")
