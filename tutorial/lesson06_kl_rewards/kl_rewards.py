"""Lesson 6: the rewards that PPO maximizes: a KL penalty on every token, the reward model's score on the last one.

`ref_log_probs` come from the frozen reference model (the SFT model), which never changes during PPO. They are not
those of the policy that sampled (`old_log_probs`, lesson 5).
Unless stated otherwise, floats are float32 or float64, and an answer has their precision. No function changes its
arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ppo_by_hand.core.config import ESTIMATORS
from ppo_by_hand.core.shapes import check_mask, check_number, check_shapes, is_stop

from ..lesson02_reward_model import last_token_index

MAX_LOG_RATIO = 20.0
"""exp(20) is 5e8: a token that the reference finds that much more likely is never sampled in a correct run."""


def nonnegative_kl(log_probs: Tensor, ref_log_probs: Tensor) -> Tensor:
    """Estimate KL(policy || reference) at each token, right on average and negative at none: Schulman's k3.

    The log-ratio r = log_probs - ref_log_probs has the right mean over the tokens that the policy samples, but it is
    negative wherever the reference finds the token more likely. Something with the mean 0 over these tokens may be
    added without moving that mean: the ratio reference / policy has a mean that does not depend on the models.

    Args:
        log_probs: (...) of the policy that sampled the tokens, in nats. float16 and bfloat16 become float32.
        ref_log_probs: same shape, of the reference model.

    Returns:
        Same shape, in nats, >= 0, and 0 only where the models agree; nothing is masked, summed or detached. It depends
        on r alone, its slope at r = 0 is 0. Where it takes exp, the exponent is capped at 20 (`MAX_LOG_RATIO`), so
        that it cannot overflow; near r = 0 it keeps digits: in float32 two or more at r = 0.0001, where the plain
        formula has none. Written without `estimate_kl`, which generalizes it.

    Raises:
        ValueError: shapes disagree.

    Source: Schulman, "Approximating KL Divergence", 2020.
    """
    check_shapes(log_probs=(log_probs, "..."), ref_log_probs=(ref_log_probs, "..."))
    raise NotImplementedError("lesson06: nonnegative_kl")


def estimate_kl(log_probs: Tensor, ref_log_probs: Tensor, estimator: str = "k1") -> Tensor:
    """Estimate KL(policy || reference) at each token from the one token the policy sampled.

    With r = log_probs - ref_log_probs:
    k1 = r                     unbiased, may be negative at a token
    k2 = r^2 / 2               biased, never negative, low variance near the reference
    k3 = `nonnegative_kl`      unbiased, never negative, low variance near the reference

    Any of them may be reported. In the *reward* only k1 gives the gradient of this KL. As a *loss*, k2 does: there
    the expected gradient of k1 is 0, and that of k3 is the gradient of the reversed KL(reference || policy).

    Args:
        log_probs: (...) of the policy that sampled the tokens, in nats. float16 and bfloat16 become float32.
        ref_log_probs: same shape, of the reference model.
        estimator: "k1", "k2" or "k3".

    Returns:
        Same shape, in nats; nothing is masked, summed or detached.

    Raises:
        ValueError: shapes disagree, or the estimator is unknown.

    Source: Schulman, "Approximating KL Divergence", 2020.
    """
    check_shapes(log_probs=(log_probs, "..."), ref_log_probs=(ref_log_probs, "..."))
    if estimator not in ESTIMATORS:
        raise ValueError(f"expected estimator to be one of {', '.join(ESTIMATORS)}, got {estimator!r}")
    raise NotImplementedError("lesson06: estimate_kl")


@torch.no_grad()
def compute_rewards(
    scores: Tensor,
    log_probs: Tensor,
    ref_log_probs: Tensor,
    mask: Tensor,
    kl_coef: float = 0.1,
    clip_score: float = 5.0,
    estimator: str = "k1",
) -> Tensor:
    """Return the reward of each token: the KL penalty on every real token, plus the clipped score on the last one.

    Each token pays `kl_coef` for every nat of its KL estimate. The last one receives the score as well, limited to what
    lies between -clip_score and clip_score.

    Args:
        scores: (B,) of the reward model, one for each response.
        log_probs: (B, T) of the policy that sampled, in any precision, as in `estimate_kl`: the rewards of 16-bit
            numbers are float32. Where the mask is False any value, NaN included.
        ref_log_probs: (B, T) of the reference model; likewise.
        mask: (B, T) bool, True on real tokens, the stop token included; each row has at least one.
        kl_coef: >= 0, the weight beta of the KL penalty: units of score per nat.
        clip_score: > 0. Only the score is clipped, never the KL.
        estimator: as in `estimate_kl`.

    Returns:
        (B, T), 0 where masked, a new tensor without gradient. Its dtype is that of the KL estimate: with float32
        log-probs it is float32, even if the scores are float64. NaN of a real token, or of a score, stays NaN.

    Raises:
        ValueError: shapes disagree, a row of the mask has no True, a coefficient is out of range, the estimator is
            unknown (at any `kl_coef`).

    Source: Stiennon et al., "Learning to summarize from human feedback", 2020, section 3.4.
    """
    check_shapes(
        scores=(scores, "B"), log_probs=(log_probs, "B T"), ref_log_probs=(ref_log_probs, "B T"), mask=(mask, "B T")
    )
    check_mask(mask, per_row=True)
    check_number("kl_coef", kl_coef, 0.0)
    check_number("clip_score", clip_score, 0.0, open_low=True)
    raise NotImplementedError("lesson06: compute_rewards")


def penalize_missing_stop(scores: Tensor, responses: Tensor, stop_token_ids: Sequence[int], penalty: float) -> Tensor:
    """Subtract `penalty` from the score of each response without a stop token; one in the padding counts as a stop.

    No mask is needed: `generate` (lesson 8) pads only after a stop token, so a row with padding has stopped anyway.
    Subtracting keeps the order of two unfinished responses; replacing the score by a constant would lose it.

    Args:
        scores: (B,) of the reward model.
        responses: (B, T) int64, right-padded.
        stop_token_ids: the ids that end a response.
        penalty: >= 0, in units of score.

    Returns:
        (B,), a new tensor; nothing is detached.

    Raises:
        ValueError: shapes disagree, or the penalty is negative.
    """
    check_shapes(scores=(scores, "B"), responses=(responses, "B T"))
    check_number("penalty", penalty, 0.0)
    raise NotImplementedError("lesson06: penalize_missing_stop")


class FixedKLController:
    """The same KL coefficient for the whole run.

    Args:
        kl_coef: >= 0, units of score per nat.
    """

    def __init__(self, kl_coef: float) -> None:
        check_number("kl_coef", kl_coef, 0.0)
        self.value = kl_coef

    def update(self, current: float, n_steps: int) -> None:
        """Do nothing: `current` and `n_steps` are those of `AdaptiveKLController.update`."""


class AdaptiveKLController:
    """A proportional controller: raise the KL coefficient while the KL is above its target, lower it while below.

    e    = clip(KL / target - 1, -0.2, 0.2)
    beta <- beta (1 + e n / horizon)       with n responses in the batch

    Args:
        kl_coef: > 0, the coefficient at the start.
        target: > 0, the desired KL(policy || reference) of a whole response, in nats.
        horizon: > 0, the number of responses after which an error of 0.2 has changed the coefficient by about a fifth.

    Source: Ziegler et al., "Fine-Tuning Language Models from Human Preferences", 2019, section 2.2.
    """

    def __init__(self, kl_coef: float, target: float, horizon: int) -> None:
        check_number("kl_coef", kl_coef, 0.0, open_low=True)
        check_number("target", target, 0.0, open_low=True)
        check_number("horizon", horizon, 0.0, open_low=True)
        self.value = kl_coef
        self.target = target
        self.horizon = horizon

    def update(self, current: float, n_steps: int) -> None:
        """Adapt `value` after a batch.

        Args:
            current: mean KL(policy || reference) of the responses just seen, in nats; not the approx_kl of lesson 5.
            n_steps: number of those responses.

        Raises:
            ValueError: `current` is not finite, or `n_steps` is negative.
        """
        check_number("current", current, -math.inf)
        check_number("n_steps", n_steps, 0)
        raise NotImplementedError("lesson06: AdaptiveKLController.update")
