"""What all methods of one seed share: the SFT model, a reward model, its pairs, and the prompts."""

import random
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.scoring import Scorer, make_scorer
from tiny_models.checkpoints import SFT
from tiny_models.language import sample_prompts
from tiny_models.preferences import Preference
from tiny_models.presets import Preset, find_preset
from tiny_models.tokenizer import build_tokenizer
from tiny_models.verifier import verify

from ..demo.stages import annotated_pairs, train_reward_stage
from ..lesson02_reward_model import RewardModel

UPDATES, BATCH, GROUP = 32, 64, 4
RESPONSES = UPDATES * BATCH
"""Sampled by every method that samples: the budget."""
EVALUATION_PROMPTS = 512
MAX_UPDATE_KL = 0.02
"""An update ends early when the policy has moved this far, in every method with a ratio."""
PRESET = find_preset("tiny")
SITUATIONS = {"as the course has it": PRESET.preference_pairs, "few labels": 512}
"""Prompts that are answered twice, with PRESET.held_out_pairs more, so that a reward model can learn from comparisons.
Pairs in which annotators see no difference are dropped, so about 3,670 and 340 comparisons are left to learn from. With
few of them a reward model is easier to fool, so a method that optimizes it harder should lose more: that is why the
second situation is run."""
HOME, FEW = SITUATIONS


@dataclass
class World:
    """One seed's. The reward model, and with it the proxy, is the seed's own; every method meets the same."""

    seed: int
    situation: str = HOME

    @property
    def preset(self) -> Preset:
        return replace(PRESET, preference_pairs=SITUATIONS[self.situation])

    @cached_property
    def tokenizer(self) -> Any:
        return build_tokenizer()

    @cached_property
    def sft(self) -> Any:
        return AutoModelForCausalLM.from_pretrained(SFT).eval()

    @cached_property
    def reward_model(self) -> RewardModel:
        return train_reward_stage(self.sft, self.preset, self.tokenizer, self.seed).reward_model

    @cached_property
    def pairs(self) -> list[Preference]:
        """Those that the reward model learned from."""
        return annotated_pairs(self.sft, self.preset, self.tokenizer, self.seed)[0][PRESET.held_out_pairs :]

    @cached_property
    def proxy(self) -> Scorer:
        return make_scorer(self.reward_model)

    @cached_property
    def prompts(self) -> list[str]:
        """To train on."""
        return sample_prompts(RESPONSES, random.Random(10_000 + self.seed))

    @cached_property
    def evaluation_prompts(self) -> list[str]:
        return sample_prompts(EVALUATION_PROMPTS, random.Random(20_000 + self.seed))

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    def config(self, **settings: Any) -> PPOConfig:
        """The settings that all methods share, and these."""
        return PPOConfig(
            stop_token_ids=(self.tokenizer.eos_token_id,),
            pad_token_id=self.tokenizer.pad_token_id,
            max_new_tokens=PRESET.max_new_tokens,
            num_updates=UPDATES,
            batch_size=BATCH,
            max_update_kl=MAX_UPDATE_KL,
            seed=self.seed,
            **settings,
        )


def verified(prompts: list[str], responses: list[str]) -> list[float]:
    """The verifier as a reward function."""
    return [verify(prompt, response) for prompt, response in zip(prompts, responses, strict=True)]
