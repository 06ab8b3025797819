"""Lesson 8, third part: the rollout. The policy writes; reward model, reference and critic evaluate."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from ppo_by_hand.core.config import RolloutConfig
from ppo_by_hand.core.scoring import Scorer
from ppo_by_hand.core.shapes import check_shapes

from ..lesson01_masked_sequences import gather_log_probs, masked_whiten
from ..lesson04_gae import compute_response_gae
from ..lesson06_kl_rewards import compute_rewards, penalize_missing_stop
from ..lesson07_actor_critic import (
    PolicyAndValue,
    SharedPolicyAndValue,
    evaluation_mode,
    reference_mode,
    response_logits,
)
from .experience import Experience
from .generation import Generation, generate

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel


def collect_experience(
    model: PolicyAndValue | SharedPolicyAndValue,
    reference: PreTrainedModel | None,
    score: Scorer,
    input_ids: Tensor,
    attention_mask: Tensor,
    config: RolloutConfig,
    kl_coef: float,
    generator: torch.Generator | None = None,
) -> Experience:
    """Sample a response to each prompt, then evaluate it. Given.

    Args:
        model: actor and critic.
        reference: the frozen model the KL is measured against; None for a LoRA policy that is its own.
        score: the reward model: (input_ids (B, L), attention_mask (B, L), P) -> (B,).
        input_ids: (B, P) int64, left-padded prompts.
        attention_mask: (B, P) bool.
        config: sampling and reward settings.
        kl_coef: >= 0, the KL coefficient of this rollout.
        generator: source of the sampling's randomness; None uses the global one.

    Returns:
        Experience with raw advantages, free of gradients, 0 where masked. The log-probabilities are those that
        sampling gave.

    Raises:
        ValueError: as `generate` and `evaluate_responses`.
    """
    generation = generate(model.policy, input_ids, attention_mask, **config.sampling(), generator=generator)
    return evaluate_responses(model, reference, score, input_ids, attention_mask, generation, config, kl_coef)


@torch.no_grad()
def evaluate_responses(
    model: PolicyAndValue | SharedPolicyAndValue,
    reference: PreTrainedModel | None,
    score: Scorer,
    input_ids: Tensor,
    attention_mask: Tensor,
    generation: Generation,
    config: RolloutConfig,
    kl_coef: float,
) -> Experience:
    """Evaluate sampled responses: reference log-probs, values, scores, rewards, advantages, returns, in this order.

    1. reference and critic read prompt + response, `model` with dropout off; at the end all modes, and all else of the
       models, are as before
    2. `score` reads the same, in one call; its scores are stored as they come
    3. a response without a stop token loses `missing_stop_penalty`; the score is clipped, the KL penalty
       (its estimator is `config.kl_estimator`) subtracted
    4. with `whiten_rewards` the rewards are scaled, keeping their mean, before advantages and returns are made

    Args: as `collect_experience`, and
        generation: the responses and what their sampling gave, its log-probs 0 where masked.

    Returns:
        Experience with raw advantages, free of gradients; every (B, T) number is 0 where masked. The models'
        logits are float32 or float64; the values have the dtype of the reference's log-probs, also where the critic
        answers in 16 bits.

    Raises:
        ValueError: `score` gives anything but one finite number for each response.
    """
    # region solution
    prompt_length = input_ids.shape[1]
    sequences = torch.cat([input_ids, generation.responses], dim=1)
    visible = torch.cat([attention_mask.bool(), generation.mask], dim=1)
    with evaluation_mode(model):
        with (
            nullcontext(reference)
            if reference is not None
            else reference_mode(cast("PeftModel", model.policy)) as reference_policy
        ):
            ref_logits = response_logits(reference_policy, sequences, visible, prompt_length)
        values = model.response_values(sequences, visible, prompt_length)
    ref_log_probs = gather_log_probs(ref_logits, generation.responses, config.temperature)
    values = values.to(ref_log_probs.dtype)  # under autocast the critic answers in 16 bits; GAE needs 32
    scores = _checked_scores(score(sequences, visible, prompt_length), len(sequences))
    rewards = compute_rewards(
        penalize_missing_stop(scores, generation.responses, config.stop_token_ids, config.missing_stop_penalty),
        generation.log_probs,
        ref_log_probs,
        generation.mask,
        kl_coef,
        config.clip_score,
        config.kl_estimator,
    )
    if config.whiten_rewards:
        rewards = masked_whiten(rewards, generation.mask, shift_mean=False)
    advantages, returns = compute_response_gae(rewards, values, generation.mask, config.gamma, config.lam)
    return Experience(
        input_ids=sequences,
        attention_mask=visible,
        mask=generation.mask,
        log_probs=generation.log_probs,
        ref_log_probs=ref_log_probs.masked_fill(~generation.mask, 0.0),
        values=values.masked_fill(~generation.mask, 0.0),
        scores=scores,
        rewards=rewards,
        advantages=advantages,
        returns=returns,
    )
    # endregion


def _checked_scores(scores: Tensor, count: int) -> Tensor:
    check_shapes(scores=(scores, "B"))
    if len(scores) != count:
        raise ValueError(
            f"expected the reward model to give one score for each of {count} responses, got {len(scores)}"
        )
    if not scores.isfinite().all():
        row = int((~scores.isfinite()).nonzero()[0, 0])
        raise ValueError(f"expected finite scores from the reward model, got {scores[row].item()} for response {row}")
    return scores
