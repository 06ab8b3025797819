"""Evaluation: the only place of the course that may look at the gold reward, the true quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ppo_by_hand.core.shapes import is_stop
from ppo_by_hand.core.texts import Scorer
from tiny_models.gold import gold_score, is_well_formed

from ..lesson01_masked_sequences import gather_log_probs
from ..lesson06_kl_rewards import estimate_kl
from ..lesson07_actor_critic import evaluation_mode, response_logits
from ..lesson08_rollout import generate, sampling_options
from ..lesson09_ppo_trainer import PPOConfig, encode_prompts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

EVALUATION_SEED = 2024
"""Of a generator of its own: an evaluation leaves the random state of the training unchanged."""


@dataclass(frozen=True)
class Evaluation:
    """How good a policy's responses are, and how far it has moved."""

    gold: float
    """Mean gold reward."""
    proxy: float
    """Mean proxy reward: the score of the reward model."""
    valid: float
    """Share of responses that are grammatical (`is_well_formed`) and have a stop token."""
    kl: float
    """KL(policy || reference) of a whole response, in nats: mean over responses of the sum of k1."""
    responses: tuple[str, ...]
    """The responses, in the order of the prompts."""


@torch.no_grad()
def evaluate_policy(
    policy: PreTrainedModel,
    reference: PreTrainedModel,
    score: Scorer,
    prompts: Sequence[str],
    tokenizer: Any,
    config: PPOConfig,
) -> Evaluation:
    """Sample one response to each prompt, all in one batch, and evaluate them.

    The random numbers come from a generator that starts at EVALUATION_SEED, so they are the same for every policy.

    Args:
        policy: the language model to evaluate; each of its parts is left in the mode it was in.
        reference: the SFT model; read with dropout off and at `config.temperature`, and likewise left in its mode.
        score: the reward model as a scorer: (input_ids, attention_mask, prompt_length) -> (B,) float32 or float64.
        prompts: texts.
        tokenizer: the policy's.
        config: sampling settings; the same as in training. `kl_estimator` is for its rewards, not for the KL here.

    Returns:
        Means over the prompts. A response has gold reward 0 if its own text is not `is_well_formed`, or if it was cut
        before any of the stop tokens; then it does not count as `valid` either. A text holds none of the tokenizer's
        special tokens: decoding drops all of them, also one that the policy wrote in the middle. Padding is one of
        them. The models' logits are float32 or float64.
    """
    # region solution
    input_ids, attention_mask = (
        tensor.to(policy.device) for tensor in encode_prompts(prompts, tokenizer, config.pad_token_id)
    )
    generator = torch.Generator(device=policy.device).manual_seed(EVALUATION_SEED)
    responses, log_probs, mask = generate(
        policy, input_ids, attention_mask, **sampling_options(config), generator=generator
    )
    sequences = torch.cat([input_ids, responses], dim=1)
    visible = torch.cat([attention_mask, mask], dim=1)
    with evaluation_mode(reference):
        ref_logits = response_logits(reference, sequences, visible, input_ids.shape[1])
    kl = estimate_kl(log_probs, gather_log_probs(ref_logits, responses, config.temperature))
    texts = [tokenizer.decode(row[real], skip_special_tokens=True) for row, real in zip(responses, mask, strict=True)]
    stopped = is_stop(responses, config.stop_token_ids).any(dim=1).tolist()
    valid = [is_well_formed(text) and stop for text, stop in zip(texts, stopped, strict=True)]
    gold = [gold_score(*pair) if ok else 0.0 for pair, ok in zip(zip(prompts, texts, strict=True), valid, strict=True)]
    return Evaluation(
        gold=sum(gold) / len(gold),
        proxy=score(sequences, visible, input_ids.shape[1]).mean().item(),
        valid=sum(valid) / len(valid),
        kl=kl.masked_fill(~mask, 0.0).sum(dim=1).mean().item(),
        responses=tuple(texts),
    )
    # endregion
