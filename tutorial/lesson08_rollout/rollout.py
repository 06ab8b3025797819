"""Lesson 8, third part: the rollout. The policy writes; reward model, reference and critic judge."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from ..lesson01_masked_sequences import gather_log_probs, masked_whiten
from ..lesson04_gae import compute_response_gae
from ..lesson06_kl_rewards import ESTIMATORS, compute_rewards, penalize_missing_stop
from ..lesson07_actor_critic import (
    PolicyAndValue,
    SharedPolicyAndValue,
    evaluation_mode,
    reference_mode,
    response_logits,
)
from ..shapes import check_number, check_shapes
from .experience import Experience
from .generation import Generation, generate

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

Scorer = Callable[[Tensor, Tensor, int], Tensor]
"""(input_ids (B, L), attention_mask (B, L), prompt_length) -> scores (B,)."""


@dataclass(frozen=True, kw_only=True)
class RolloutConfig:
    """How responses are sampled and turned into rewards and advantages."""

    stop_token_ids: tuple[int, ...]
    """Any of these ends a response."""
    pad_token_id: int
    """Fills the rows that have ended; may be a stop token."""
    max_new_tokens: int = 24
    """T at most, >= 1."""
    temperature: float = 1.0
    """> 0; the same when sampling, for the reference and in training."""
    gamma: float = 1.0
    """Discount in [0, 1]."""
    lam: float = 0.95
    """GAE's lambda in [0, 1]."""
    kl_estimator: str = "k1"
    """KL price on each token: "k1", "k2" or "k3"."""
    clip_score: float = 5.0
    """> 0; scores are clipped to +- this before they become rewards."""
    missing_stop_penalty: float = 1.0
    """>= 0; subtracted from the score of a response that never stopped."""
    whiten_rewards: bool = False
    """Scale the rewards to variance 1 before GAE, keeping their mean."""

    def __post_init__(self) -> None:
        if not self.stop_token_ids:
            raise ValueError("expected at least one stop token in stop_token_ids, got none; no response could end")
        if self.kl_estimator not in ESTIMATORS:
            raise ValueError(f"expected kl_estimator to be one of {', '.join(ESTIMATORS)}, got {self.kl_estimator!r}")
        check_number("pad_token_id", self.pad_token_id, 0)
        check_number("max_new_tokens", self.max_new_tokens, 1)
        check_number("temperature", self.temperature, 0.0, open_low=True)
        check_number("gamma", self.gamma, 0.0, 1.0)
        check_number("lam", self.lam, 0.0, 1.0)
        check_number("clip_score", self.clip_score, 0.0, open_low=True)
        check_number("missing_stop_penalty", self.missing_stop_penalty, 0.0)

    def sampling(self) -> dict[str, Any]:
        """The keyword arguments of `generate` that the rollout decides."""
        return {
            "max_new_tokens": self.max_new_tokens,
            "stop_token_ids": self.stop_token_ids,
            "pad_token_id": self.pad_token_id,
            "temperature": self.temperature,
        }


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
    """Sample a response to each prompt, then judge it.

    Args:
        model: actor and critic.
        reference: the frozen model the KL is measured against; None for a LoRA policy that is its own.
        score: the reward model: (input_ids (B, L), attention_mask (B, L), P) -> (B,).
        input_ids: (B, P) int64, left-padded prompts.
        attention_mask: (B, P) bool.
        config: sampling and reward settings.
        kl_coef: >= 0, the present price of a nat.
        generator: source of the sampling's randomness; None uses the global one.

    Returns:
        Experience with raw advantages, free of gradients, 0 where masked. The log-probabilities are those that
        sampling gave.

    Raises:
        ValueError: as `generate` and `evaluate_responses`.
    """
    raise NotImplementedError("lesson08: collect_experience")


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
    """Judge sampled responses: reference log-probs, values, scores, rewards, advantages, returns, in this order.

    1. reference and critic read prompt + response, `model` with dropout off; the mode of both is as before afterwards
    2. `score` reads the same; its scores are stored as they come
    3. a response without a stop token loses `missing_stop_penalty`, then the score is clipped and the KL priced
    4. with `whiten_rewards` the rewards are scaled, keeping their mean, before advantages and returns are made

    Args: as `collect_experience`, and
        generation: the responses and what their sampling gave.

    Returns:
        Experience with raw advantages, free of gradients; every (B, T) number is 0 where masked. The values have the
        dtype of the reference's log-probs, also where the critic answers in 16 bits.

    Raises:
        ValueError: `score` gives anything but one finite number for each response.
    """
    raise NotImplementedError("lesson08: evaluate_responses")


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
