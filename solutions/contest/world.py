"""What all methods of one seed share: the SFT model, a reward model, its pairs, and the prompts."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM

from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.texts import Scorer, make_scorer
from tiny_models.checkpoints import SFT
from tiny_models.language import sample_prompts
from tiny_models.preferences import Preference
from tiny_models.presets import find_preset
from tiny_models.tokenizer import build_tokenizer

from ..demo.stages import annotated_pairs, train_reward_stage
from ..lesson02_reward_model import RewardModel

UPDATES, BATCH, GROUP, MINIBATCHES, WARMUP = 32, 64, 4, 4, 5
RESPONSES = UPDATES * BATCH
"""Sampled by every method that samples: the budget."""
MAX_UPDATE_KL = 0.02
"""An update ends early when the policy has moved this far, in every method with a ratio."""
EVALUATION_PROMPTS = 512
PRESET = find_preset("tiny")
Progress = Iterator[tuple[int, int, Any]]
"""Of a run, after each update: the responses and the tokens sampled so far, and the policy."""


class Job(NamedTuple):
    """One run: a method, a seed, what is tuned, and the coefficient that a curve runs over."""

    method: str
    seed: int
    learning_rate: float
    epochs: int
    coefficient: float
    """kl_coef; of DPO beta; of best of n, and of rejection sampling, which keeps the best of n, that n."""


@dataclass(frozen=True)
class World:
    """One seed's. The reward model, and with it the proxy, is the seed's own; every method meets the same."""

    seed: int
    tokenizer: Any
    sft: Any
    reward_model: RewardModel
    pairs: list[Preference]
    """Those that the reward model learned from."""
    proxy: Scorer
    prompts: list[str]
    """To train on."""
    evaluation_prompts: list[str]

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    def config(self, **settings: Any) -> PPOConfig:
        """Return how responses are sampled, with these settings."""
        return PPOConfig(
            stop_token_ids=(self.tokenizer.eos_token_id,),
            pad_token_id=self.tokenizer.pad_token_id,
            max_new_tokens=PRESET.max_new_tokens,
            **settings,
        )


def make_world(seed: int) -> World:
    tokenizer, sft = build_tokenizer(), AutoModelForCausalLM.from_pretrained(SFT).eval()
    reward_model = train_reward_stage(sft, PRESET, tokenizer, seed).reward_model
    pairs, *_ = annotated_pairs(sft, PRESET, tokenizer, seed)
    prompts = sample_prompts(RESPONSES, random.Random(10_000 + seed))
    others = sample_prompts(EVALUATION_PROMPTS, random.Random(20_000 + seed))
    own = pairs[PRESET.held_out_pairs :]
    return World(seed, tokenizer, sft, reward_model, own, make_scorer(reward_model), prompts, others)
