"""The first two stages of RLHF in the toy environment: SFT, and the reward model."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch

from ppo_by_hand.core.texts import encode_prompts
from tiny_models.language import sample_prompts, sample_review
from tiny_models.preferences import Preference, make_preferences
from tiny_models.presets import Preset

from ..lesson02_reward_model import (
    PreferenceBatch,
    RewardModel,
    RewardModelConfig,
    calibrate,
    preference_accuracy,
    train_reward_model,
)
from ..lesson08_rollout import generate
from ..lesson12_capstone import RewardModelResult, SFTConfig, SFTResult, encode_demonstrations, train_sft

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def train_sft_stage(preset: Preset, tokenizer: Any, seed: int) -> SFTResult:
    """Run stage 1: build a policy with random weights and teach it to write reviews, on demonstrations."""
    from tiny_models.builders import build_gpt2  # transformers costs seconds; the other stages do not need it

    rng = random.Random(seed)
    policy = build_gpt2(
        len(tokenizer),
        n_layer=preset.n_layer,
        n_embd=preset.n_embd,
        n_head=preset.n_head,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        seed=seed,
    ).to("cuda" if torch.cuda.is_available() else "cpu")  # type: ignore[arg-type]  # transformers wraps .to, and the wrapper loses its types
    prompts = sample_prompts(preset.demonstrations, rng)
    data = encode_demonstrations(tokenizer, prompts, [sample_review(prompt, rng) for prompt in prompts])
    losses = train_sft(policy, data, SFTConfig(preset.sft_learning_rate, preset.sft_batch_size, seed))
    return SFTResult(policy, losses)


def train_reward_stage(policy: PreTrainedModel, preset: Preset, tokenizer: Any, seed: int) -> RewardModelResult:
    """Run stage 2: let annotators compare pairs of SFT responses, and fit a reward model to their choices."""
    preferences, prompts, first = annotated_pairs(policy, preset, tokenizer, seed)
    held_out = encode_preferences(tokenizer, preferences[: preset.held_out_pairs])
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        reward_model = RewardModel(cast("PreTrainedModel", copy.deepcopy(policy.base_model))).to(policy.device)
    history = train_reward_model(
        reward_model,
        _to(encode_preferences(tokenizer, preferences[preset.held_out_pairs :]), policy.device),
        RewardModelConfig(learning_rate=preset.reward_learning_rate, batch_size=preset.reward_batch_size, seed=seed),
    )
    accuracy = held_out_accuracy(reward_model, _to(held_out, policy.device))
    written = _to(encode_demonstrations(tokenizer, prompts[:512], first[:512]), policy.device)
    calibrate(reward_model, [(written.input_ids, written.attention_mask)])
    return RewardModelResult(reward_model, history, accuracy)


def annotated_pairs(
    policy: PreTrainedModel, preset: Preset, tokenizer: Any, seed: int
) -> tuple[list[Preference], list[str], list[str]]:
    """Return what this seed's reward model learns from, held-out pairs first; all prompts, and a response to each."""
    rng = random.Random(seed + 1)
    sampling = torch.Generator(device=policy.device).manual_seed(seed)
    prompts = sample_prompts(preset.preference_pairs + preset.held_out_pairs, rng)
    first, second = (sample_texts(policy, prompts, preset, tokenizer, sampling) for _ in range(2))
    return make_preferences(zip(prompts, first, second, strict=True), rng), prompts, first


def encode_preferences(tokenizer: Any, preferences: Sequence[Preference]) -> PreferenceBatch:
    """Encode comparisons as token ids, stop token included, all padded to one length."""
    prompts, chosen, rejected = zip(*preferences, strict=True)
    data = encode_demonstrations(tokenizer, prompts + prompts, chosen + rejected)
    count = len(preferences)
    return PreferenceBatch(
        data.input_ids[:count], data.attention_mask[:count], data.input_ids[count:], data.attention_mask[count:]
    )


@torch.no_grad()
def held_out_accuracy(reward_model: RewardModel, pairs: PreferenceBatch) -> float:
    """Return the share of comparisons that the reward model gets right."""
    chosen = reward_model(pairs.chosen_ids, pairs.chosen_mask)
    rejected = reward_model(pairs.rejected_ids, pairs.rejected_mask)
    return preference_accuracy(chosen, rejected).item()


def sample_texts(
    policy: PreTrainedModel, prompts: Sequence[str], preset: Preset, tokenizer: Any, sampling: torch.Generator
) -> list[str]:
    """Sample one response to each prompt, as text without special tokens."""
    input_ids, attention_mask = encode_prompts(prompts, tokenizer, tokenizer.pad_token_id)
    generation = generate(
        policy,
        input_ids.to(policy.device),
        attention_mask.to(policy.device),
        preset.max_new_tokens,
        (tokenizer.eos_token_id,),
        tokenizer.pad_token_id,
        generator=sampling,
    )
    return tokenizer.batch_decode(generation.responses, skip_special_tokens=True)


def _to(batch: Any, device: torch.device) -> Any:
    return type(batch)(*(tensor.to(device) for tensor in batch))
