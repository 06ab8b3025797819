"""Lesson 13, second part: the token losses of GRPO and its successors, and what they are divided by.

Where a mask is False the tensors may hold anything, NaN included; it reaches neither a value nor a gradient. Floats are
float32 or float64, and an answer has their precision. No function changes its arguments; a NaN of a real token shows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ppo_by_hand.core.shapes import check_mask, check_number, check_shapes

DENOMINATORS = ("tokens", "responses", "constant")


def clipped_token_losses(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
) -> Tensor:
    """Return PPO's clipped loss of each token, with two bounds: a higher `clip_high` leaves rare tokens room to grow.

    ratio = probability of the token now / its probability when it was sampled
    loss  = -min(ratio A, clip(ratio, 1 - clip_low, 1 + clip_high) A)

    Args:
        log_probs: (B, T) of the policy in training, in nats; the only argument that receives a gradient.
        old_log_probs: (B, T) of the policy that sampled.
        advantages: (B,), one for each response, the same for all its tokens.
        mask: (B, T) bool, True on real tokens.
        clip_low: in (0, 1], how far a ratio may fall below 1.
        clip_high: > 0, how far it may rise above 1.

    Returns:
        (B, T), not yet averaged, 0 where masked.

    Raises:
        ValueError: shapes disagree, the mask is not bool or is False everywhere, a bound is out of range.

    Source: Yu et al., "DAPO", 2025, section 3.1 ("Clip-Higher"), equation 10.
    """
    check_shapes(
        log_probs=(log_probs, "B T"),
        old_log_probs=(old_log_probs, "B T"),
        advantages=(advantages, "B"),
        mask=(mask, "B T"),
    )
    check_mask(mask)
    check_number("clip_low", clip_low, 0.0, 1.0, open_low=True)
    check_number("clip_high", clip_high, 0.0, open_low=True)
    raise NotImplementedError("lesson13: clipped_token_losses")


def cispo_token_losses(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, mask: Tensor, ratio_cap: float
) -> Tensor:
    """Weigh each token's log-probability by its ratio, cut off at a cap: in CISPO's loss every token keeps a gradient.

    ratio  = probability of the token now / its probability when it was sampled
    weight = min(ratio, ratio_cap), held constant
    loss   = -weight A log(probability now)

    Args:
        log_probs: (B, T) of the policy in training, in nats; the only argument that receives a gradient.
        old_log_probs: (B, T) of the policy that sampled.
        advantages: (B,), one for each response, the same for all its tokens.
        mask: (B, T) bool, True on real tokens.
        ratio_cap: >= 1, the largest weight. The paper tunes it and gives no number; Khatri et al. (2025) tried 4 to 8.

    Returns:
        (B, T), not yet averaged, 0 where masked. The slope by `log_probs` is -weight A, also outside of the interval
        where PPO clips. Only this slope is meant: the value has no meaning of its own.

    Raises:
        ValueError: shapes disagree, the mask is not bool or is False everywhere, or ratio_cap is below 1: it would
            shrink the step of a policy that has not moved.

    Source: MiniMax, "MiniMax-M1", 2025, section 3.1, equations 4 and 5, without the bound below, which the paper sets
        so low that it never acts.
    """
    check_shapes(
        log_probs=(log_probs, "B T"),
        old_log_probs=(old_log_probs, "B T"),
        advantages=(advantages, "B"),
        mask=(mask, "B T"),
    )
    check_mask(mask)
    check_number("ratio_cap", ratio_cap, 1.0)
    raise NotImplementedError("lesson13: cispo_token_losses")


def reduce_losses(
    losses: Tensor, mask: Tensor, denominator: str = "tokens", total: float | None = None, constant: float | None = None
) -> Tensor:
    """Reduce token losses to one number: what their sum is divided by decides whose tokens count more.

    "tokens":     sum of all losses / number of real tokens                         DAPO
    "responses":  mean over the responses of (sum of its losses / its real tokens)  GRPO
    "constant":   sum of all losses / (number of responses * constant)              Dr. GRPO
    A response without a real token has the loss 0 and counts among the responses.

    Args:
        losses: (B, T); where the mask is False anything, NaN included.
        mask: (B, T) bool, True on real tokens.
        denominator: one of `DENOMINATORS`.
        total: of the whole accumulation window, of which `losses` is one microbatch: its real tokens for "tokens", its
            responses for the other two. Then the microbatches' answers sum up to that of the window. None: of `losses`.
        constant: > 0, for "constant" alone: the same for every step, usually the longest response allowed.

    Returns:
        () scalar to minimize.

    Raises:
        ValueError: shapes disagree, the mask is not bool or is False everywhere, the denominator is unknown, `total`
            is not positive, or `constant` is missing, not positive, or given without "constant".

    Source: DAPO, equation 12 (there the tokens of one group; in its code, of the batch); Shao et al., "DeepSeekMath",
        2024, equation 3; Liu et al., 2025.
    """
    check_shapes(losses=(losses, "B T"), mask=(mask, "B T"))
    check_mask(mask)
    _check_denominator(denominator, total, constant)
    raise NotImplementedError("lesson13: reduce_losses")


def sequence_ratio(log_probs: Tensor, old_log_probs: Tensor, mask: Tensor, per_token: bool = True) -> Tensor:
    """Return one ratio for a whole response: its probability now over its probability when it was sampled.

    ratio = exp(mean over its real tokens of (log_probs - old_log_probs))   GSPO: the length-th root of the one below
    ratio = exp(sum over its real tokens of (log_probs - old_log_probs))    with `per_token=False`

    Args:
        log_probs: (B, T) of the policy in training, in nats.
        old_log_probs: (B, T) of the policy that sampled; receives no gradient.
        mask: (B, T) bool, True on real tokens, at least one in each row.
        per_token: take the mean of the log-ratios; False: their sum.

    Returns:
        (B,), with a gradient into `log_probs`.

    Raises:
        ValueError: shapes disagree, the mask is not bool, or a response has no real token.

    Source: Zheng et al., "Group Sequence Policy Optimization", 2025, equation 7.
    """
    check_shapes(log_probs=(log_probs, "B T"), old_log_probs=(old_log_probs, "B T"), mask=(mask, "B T"))
    check_mask(mask, per_row=True)
    raise NotImplementedError("lesson13: sequence_ratio")


def kl_token_losses(log_probs: Tensor, old_log_probs: Tensor, ref_log_probs: Tensor, mask: Tensor) -> Tensor:
    """Penalize the KL in the loss: each token, given its prefix, has the *gradient* of KL(policy || reference).

    k3   = reference / policy - 1 - log(reference / policy)     probabilities of the token
    loss = ratio * k3,    ratio = probability of the token now / when it was sampled

    The tokens come from the old policy, so the mean of k3 alone is not the KL of the present one, and its gradient is
    that of another divergence even at the first step. The ratio corrects both, after several steps as well. The
    gradient flows through both factors. It is not the KL of the whole response, because what a token does to the tokens
    after it is left out, and the prefixes stay those of the old policy.

    Args:
        log_probs: (B, T) of the policy in training, in nats; the only argument that receives a gradient.
        old_log_probs: (B, T) of the policy that sampled.
        ref_log_probs: (B, T) of the frozen reference.
        mask: (B, T) bool, True on real tokens.

    Returns:
        (B, T), >= 0, 0 where masked, not yet averaged or multiplied by a coefficient. In float32 the relative error is
        about 0.1 % where policy and reference are 1e-4 nats apart, and smaller where they are farther apart.

    Raises:
        ValueError: shapes disagree, the mask is not bool or is False everywhere.

    Source: DeepSeek-AI, "DeepSeek-V3.2", 2025, section 3.1 ("Unbiased KL Estimate").
    """
    terms = {"log_probs": log_probs, "old_log_probs": old_log_probs, "ref_log_probs": ref_log_probs, "mask": mask}
    check_shapes(**{name: (tensor, "B T") for name, tensor in terms.items()})
    check_mask(mask)
    raise NotImplementedError("lesson13: kl_token_losses")


def truncated_importance_weights(
    log_probs: Tensor, sampler_log_probs: Tensor, mask: Tensor, cap: float = 2.0
) -> Tensor:
    """Weigh tokens that another program sampled: an engine whose probabilities differ from the trainer's.

    weight = min(probability by the trainer / probability by the sampler, cap)

    Without them the gradient belongs to a policy that sampled nothing. The cap keeps one token that the sampler held
    for impossible from outweighing all others; it makes the mean a little wrong, and its variance finite.

    Args:
        log_probs: (B, T) by the trainer, of the policy that the sampler was given, in nats.
        sampler_log_probs: (B, T) by the sampler.
        mask: (B, T) bool, True on real tokens.
        cap: >= 1, the largest weight.

    Returns:
        (B, T) in [0, cap], 0 where masked, without gradient: weights are data.

    Raises:
        ValueError: shapes disagree, the mask is not bool or is False everywhere, or cap is below 1: it would shrink
            the weights of two programs that agree.

    Source: Yao et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training", 2025; Ionides,
        "Truncated Importance Sampling", 2008.
    """
    check_shapes(log_probs=(log_probs, "B T"), sampler_log_probs=(sampler_log_probs, "B T"), mask=(mask, "B T"))
    check_mask(mask)
    check_number("cap", cap, 1.0)
    raise NotImplementedError("lesson13: truncated_importance_weights")


def _check_denominator(denominator: str, total: float | None, constant: float | None) -> None:
    if denominator not in DENOMINATORS:
        raise ValueError(f"expected denominator to be one of {', '.join(DENOMINATORS)}, got {denominator!r}")
    if total is not None:
        check_number("total", total, 0.0, open_low=True)
    if (constant is None) == (denominator == "constant"):
        need = "a constant with" if constant is None else "no constant without"
        raise ValueError(f'expected {need} denominator="constant", got constant={constant}, {denominator!r}')
    if constant is not None:
        check_number("constant", constant, 0.0, open_low=True)
