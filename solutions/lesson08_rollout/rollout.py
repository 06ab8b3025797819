"""Lesson 8, third part: the rollout. The policy writes; reward model, reference and critic evaluate."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from ppo_by_hand.core.config import NO_CLIP, PPOConfig, RolloutConfig
from ppo_by_hand.core.shapes import check_shapes, is_stop
from ppo_by_hand.core.texts import Scorer

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
from .generation import Generation, generate, sampling_options

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
    generation = generate(model.policy, input_ids, attention_mask, **sampling_options(config), generator=generator)
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

    1. reference and critic read prompt + response, `model` with dropout off, also as its own reference; at the end all
       modes, and all else of the models, are as before
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


@torch.no_grad()
def recompute_log_probs(
    policy: nn.Module, input_ids: Tensor, attention_mask: Tensor, generation: Generation, temperature: float
) -> Generation:
    """Give the same responses the policy's own log-probs, from one pass over prompt and response. Given."""
    sequences = torch.cat([input_ids, generation.responses], dim=1)
    visible = torch.cat([attention_mask, generation.mask], dim=1)
    with evaluation_mode(policy):
        logits = response_logits(policy, sequences, visible, input_ids.shape[1])
    log_probs = gather_log_probs(logits, generation.responses, temperature)
    return generation._replace(log_probs=log_probs.masked_fill(~generation.mask, 0.0))


def rollout_metrics(experience: Experience, config: PPOConfig) -> dict[str, float]:
    """Compute the metrics of a rollout, before anything is learned from it. Given.

    `kl` is the k1 estimate, summed over each response. `stop_rate` counts stop tokens under the mask alone, while
    `penalize_missing_stop` also accepts one in the padding: of what `generate` writes both find the same rows, since it
    pads only after a stop token. `explained_variance` is the share of the variance of what really came that the
    critic's values predict. (The returns of GAE are no measure of a critic: with lam < 1 they are made of its own next
    values, and on a long response any smooth curve seems to predict them.)

    With `recompute_log_probs` also `sampler_kl`, the k3 estimate per token of KL(sampler || policy),
    and `sampler_ratio_max`, the largest ratio; neither where the sampler gave no log-probs (NaN).
    """
    mask, scores = experience.mask, experience.scores
    kl = (experience.log_probs - experience.ref_log_probs).masked_fill(~mask, 0.0).sum(dim=1)
    returns, values = experience.returns[mask], experience.values[mask]
    nothing = torch.zeros_like(experience.values)
    came = compute_response_gae(experience.rewards, nothing, mask, config.gamma, lam=1.0).returns[mask]
    unexplained = (came - values).var(correction=0) / came.var(correction=0).clamp(min=1e-8)
    has_stopped = (is_stop(experience.responses, config.stop_token_ids) & mask).any(dim=1)
    clipped = scores - config.missing_stop_penalty * (~has_stopped).to(scores.dtype)
    metrics = {
        "score": scores.mean().item(),
        "score_std": scores.std(correction=0).item(),
        "score_clip_fraction": (clipped.abs() > (config.clip_score or NO_CLIP)).float().mean().item(),
        "return_std": returns.std(correction=0).item(),
        "value_mean": values.mean().item(),
        "advantage_mean": experience.advantages[mask].mean().item(),
        "kl": kl.mean().item(),
        "response_tokens": float(mask.sum()),
        "response_length": mask.sum(dim=1).float().mean().item(),
        "stop_rate": has_stopped.float().mean().item(),
        "explained_variance": 1.0 - unexplained.item(),
    }
    log_ratio = (experience.log_probs - experience.sampler_log_probs)[mask]
    if config.recompute_log_probs and not log_ratio.isnan().any():
        metrics["sampler_kl"] = (log_ratio.expm1() - log_ratio).mean().item()
        metrics["sampler_ratio_max"] = log_ratio.exp().max().item()
    return metrics


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
