"""Lesson 5: the losses of PPO. Each is minimised; each is a mean over real tokens; `mask=None` means all are real.

`old_log_probs` is the policy that sampled the tokens, frozen while the epochs run. It is not the reference
model: that one belongs to the reward (lesson 6).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..given.shapes import check_mask, check_number, check_shapes


def compute_ppo_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    clip_epsilon: float = 0.2,
    mask: Tensor | None = None,
) -> Tensor:
    """PPO-Clip: follow the advantage, but take no profit from moving further than the interval.

    ratio = exp(log_probs - old_log_probs)
    loss  = -mean( min(ratio * advantages, clip(ratio, 1 - clip_epsilon, 1 + clip_epsilon) * advantages) )

    The minimum is taken of the *objectives*, before the sign: a bound that is never too optimistic. So a token
    that has already moved the wrong way keeps its full gradient.

    Args:
        log_probs: (...) of the policy in training, in nats; the only argument that receives a gradient.
        old_log_probs: same shape, of the policy that sampled.
        advantages: same shape; usually whitened by the caller.
        clip_epsilon: > 0, half the width of the interval.
        mask: same shape, bool, or None; under a False anything may stand, NaN included.

    Returns:
        () scalar to minimise.

    Raises:
        ValueError: shapes disagree, no token is real, the mask is not bool, or clip_epsilon is not positive.

    Source: Schulman et al., "Proximal Policy Optimization Algorithms", 2017, equation 7.
    """
    _check_policy_terms(log_probs, old_log_probs, advantages, mask)
    check_number("clip_epsilon", clip_epsilon, 0.0, open_low=True)
    raise NotImplementedError("lesson05: compute_ppo_loss")


def compute_value_loss(
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    clip_epsilon: float = 0.2,
    mask: Tensor | None = None,
) -> Tensor:
    """Half the larger of two squared errors: of the new value, and of the new value kept near the old one.

    clipped = old_values + clip(values - old_values, -clip_epsilon, clip_epsilon)
    loss    = mean( 1/2 max((values - returns)^2, (clipped - returns)^2) )

    The maximum is the pessimistic choice, as the minimum is in the policy loss: a large error stays visible.

    Args:
        values: (...) of the critic in training; the only argument that receives a gradient.
        old_values: same shape, of the critic when the responses were collected.
        returns: same shape, the targets.
        clip_epsilon: > 0, in units of value, not a ratio.
        mask: same shape, bool, or None; under a False anything may stand, NaN included.

    Returns:
        () scalar to minimise, >= 0.

    Raises:
        ValueError: shapes disagree, no token is real, the mask is not bool, or clip_epsilon is not positive.
    """
    check_shapes(values=(values, "..."), old_values=(old_values, "..."), returns=(returns, "..."), mask=(mask, "..."))
    _check_tokens(values, mask)
    check_number("clip_epsilon", clip_epsilon, 0.0, open_low=True)
    raise NotImplementedError("lesson05: compute_value_loss")


def combine_losses(
    policy_loss: Tensor, value_loss: Tensor, entropy: Tensor, value_coef: float = 0.1, entropy_coef: float = 0.0
) -> Tensor:
    """The one number that is minimised: policy_loss + value_coef * value_loss - entropy_coef * entropy.

    The entropy is a bonus: more of it makes the loss smaller, hence the minus, written here and nowhere else.

    Args:
        policy_loss: () scalar.
        value_loss: () scalar, its one half already inside.
        entropy: () scalar, mean over real tokens, in nats.
        value_coef: >= 0.
        entropy_coef: >= 0.

    Returns:
        () scalar to minimise; gradients 1, value_coef and -entropy_coef.

    Raises:
        ValueError: an argument is not a scalar, or a coefficient is negative.
    """
    for name, tensor in {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}.items():
        if tensor.dim() != 0:
            raise ValueError(f"expected {name} to be a scalar, got shape {tuple(tensor.shape)}; reduce it first")
    check_number("value_coef", value_coef, 0.0)
    check_number("entropy_coef", entropy_coef, 0.0)
    raise NotImplementedError("lesson05: combine_losses")


@torch.no_grad()
def ppo_statistics(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    clip_epsilon: float = 0.2,
    mask: Tensor | None = None,
) -> dict[str, float]:
    """What to watch while the epochs run.

    Args:
        log_probs: (...) of the policy in training, in nats.
        old_log_probs: same shape, of the policy that sampled.
        advantages: same shape; their sign decides which side of the interval can be clipped.
        clip_epsilon: > 0.
        mask: same shape, bool, or None; under a False anything may stand, NaN included.

    Returns:
        dict of four Python floats:
        ratio_mean: mean ratio; 1 before the first step, and near it ever after.
        ratio_max: largest ratio.
        approx_kl: mean of ratio - 1 - log(ratio), in nats: KL(old || new) from samples of the old policy, >= 0.
            Close to ratio 1 the three terms cancel; `expm1` keeps the digits.
        clip_fraction: share of tokens whose gradient the clip cuts: clipped objective strictly the smaller.

    Raises:
        ValueError: shapes disagree, no token is real, the mask is not bool, or clip_epsilon is not positive.
    """
    _check_policy_terms(log_probs, old_log_probs, advantages, mask)
    check_number("clip_epsilon", clip_epsilon, 0.0, open_low=True)
    raise NotImplementedError("lesson05: ppo_statistics")


def compute_kl_penalty_loss(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, beta: float, mask: Tensor | None = None
) -> Tensor:
    """PPO-Penalty: instead of a clip, a price on every nat of movement away from the policy that sampled.

    loss = mean( -ratio * advantages + beta * (ratio - 1 - log(ratio)) )

    The second term estimates KL(old || new) without bias, in value and in gradient, because the tokens come
    from the *old* policy.

    Args:
        log_probs: (...) of the policy in training, in nats; the only argument that receives a gradient.
        old_log_probs: same shape, of the policy that sampled.
        advantages: same shape.
        beta: >= 0, the price of a nat; `update_beta` sets it.
        mask: same shape, bool, or None; under a False anything may stand, NaN included.

    Returns:
        () scalar to minimise.

    Raises:
        ValueError: shapes disagree, no token is real, the mask is not bool, or beta is negative.

    Source: Schulman et al., "Proximal Policy Optimization Algorithms", 2017, equation 8.
    """
    _check_policy_terms(log_probs, old_log_probs, advantages, mask)
    check_number("beta", beta, 0.0)
    raise NotImplementedError("lesson05: compute_kl_penalty_loss")


def update_beta(beta: float, kl: float, target_kl: float) -> float:
    """Steer the price of PPO-Penalty: doubled when kl > 1.5 * target_kl, halved when kl < target_kl / 1.5.

    Args:
        beta: the present price, >= 0.
        kl: KL(old || new) measured after an update, in nats.
        target_kl: > 0, the movement wanted from one update.

    Returns:
        The price for the next update; unchanged between the two bounds, which are themselves inside.

    Raises:
        ValueError: beta is negative, or target_kl is not positive.

    Source: Schulman et al., "Proximal Policy Optimization Algorithms", 2017, section 4.
    """
    check_number("beta", beta, 0.0)
    check_number("target_kl", target_kl, 0.0, open_low=True)
    raise NotImplementedError("lesson05: update_beta")


def _check_policy_terms(log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, mask: Tensor | None) -> None:
    check_shapes(
        log_probs=(log_probs, "..."),
        old_log_probs=(old_log_probs, "..."),
        advantages=(advantages, "..."),
        mask=(mask, "..."),
    )
    _check_tokens(log_probs, mask)


def _check_tokens(tensor: Tensor, mask: Tensor | None) -> None:
    check_mask(mask)
    if tensor.numel() == 0:
        raise ValueError(f"expected at least one token, got shape {tuple(tensor.shape)}; their mean is undefined")


def _select(mask: Tensor | None, *tensors: Tensor) -> tuple[Tensor, ...]:
    """The real tokens of each tensor, as one long row: what is masked can then reach neither value nor gradient."""
    return tensors if mask is None else tuple(tensor[mask] for tensor in tensors)
