"""Lesson 5: the losses of PPO. Each is minimized; each is a mean over real tokens; `mask=None` means all are real.

`old_log_probs` is the policy that sampled the tokens, frozen while the epochs run. It is not the reference
model: that one belongs to the reward (lesson 6). `(...)` is one shape, of one dimension or more. Floats are float32 or
float64, and an answer has their precision. No function changes its arguments; a NaN of a real token, in any of them,
shows in a loss.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ppo_by_hand.core.shapes import check_mask, check_number, check_shapes


def clipped_objective(ratio: Tensor, advantages: Tensor, clip_epsilon: float = 0.2) -> Tensor:
    """Return what each token adds to PPO's objective: six cases, by its advantage and by where its ratio is.

                     below the interval     inside      above the interval
    advantage > 0    ratio A                ratio A     held
    advantage < 0    held                   ratio A     ratio A

    The interval reaches from 1 - epsilon to 1 + epsilon. Held: the objective stays what it was where the ratio left the
    interval, and has no slope. So a token gains nothing more once it has moved far enough in the direction of its
    advantage; one that went the other way keeps its slope and comes back.

    Args:
        ratio: (...) > 0 and finite, the token's probability now / when it was sampled. It receives a gradient.
        advantages: same shape; 0 gives 0. Detached by the caller, so you needn't do it here.
        clip_epsilon: > 0; from 1 on the interval has no end below.

    Returns:
        (...) to be maximized, one number per token: no mean, no sign. At the ends of the interval either slope is
        right; a NaN in either tensor shows. Written without `compute_ppo_loss`, which generalizes it.

    Raises:
        ValueError: shapes disagree, or clip_epsilon is not positive.
    """
    check_shapes(ratio=(ratio, "..."), advantages=(advantages, "..."))
    check_number("clip_epsilon", clip_epsilon, 0.0, open_low=True)
    # region solution
    clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)
    return torch.minimum(ratio * advantages, clipped * advantages)
    # endregion


def compute_ppo_loss(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, clip_epsilon: float = 0.2, mask: Tensor | None = None
) -> Tensor:
    """Follow the advantage, but gain nothing from moving a token out of the interval around ratio 1 (PPO-Clip).

    ratio     = probability of the token now / its probability when it was sampled
    objective = mean over the tokens of what `clipped_objective` gives for the ratio and the advantage

    The loss is minus the objective, which is a pessimistic bound: a token that has already moved the wrong way keeps
    its full gradient.

    Args:
        log_probs: (...) of the policy in training, in nats; the only argument that receives a gradient.
        old_log_probs: same shape, of the policy that sampled; near enough that no real token's ratio overflows.
        advantages: same shape; usually whitened by the caller.
        clip_epsilon: > 0, half the width of the interval.
        mask: same shape, bool, or None; where it is False the tensors may hold anything, NaN included.

    Returns:
        () scalar to minimize.

    Raises:
        ValueError: shapes disagree, no token is real, the mask is not bool, or clip_epsilon is not positive.

    Source: Schulman et al., "Proximal Policy Optimization Algorithms", 2017, equation 7.
    """
    _check_policy_terms(log_probs, old_log_probs, advantages, mask)
    check_number("clip_epsilon", clip_epsilon, 0.0, open_low=True)
    # region solution
    log_probs, old_log_probs, advantages = _select(mask, log_probs, old_log_probs.detach(), advantages.detach())
    ratio = torch.exp(log_probs - old_log_probs)
    unclipped = ratio * advantages
    clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * advantages
    return -torch.minimum(unclipped, clipped).mean()
    # endregion


def compute_value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, clip_epsilon: float = 0.2, mask: Tensor | None = None
) -> Tensor:
    """Return half the larger of two squared errors: of the new value, and of the new value kept near the old one.

    clipped V = old V + clip(V - old V, -epsilon, epsilon)
    loss      = mean over the tokens of 1/2 max((V - R)^2, (clipped V - R)^2),   R the return

    The maximum is the pessimistic choice, as the minimum is in the policy loss: a large error stays visible.

    Args:
        values: (...) of the critic in training; the only argument that receives a gradient.
        old_values: same shape, of the critic when the responses were collected.
        returns: same shape, the targets.
        clip_epsilon: > 0, in units of value, not a ratio.
        mask: same shape, bool, or None; where it is False the tensors may hold anything, NaN included.

    Returns:
        () scalar to minimize, >= 0.

    Raises:
        ValueError: shapes disagree, no token is real, the mask is not bool, or clip_epsilon is not positive.
    """
    check_shapes(values=(values, "..."), old_values=(old_values, "..."), returns=(returns, "..."), mask=(mask, "..."))
    _check_tokens(values, mask)
    check_number("clip_epsilon", clip_epsilon, 0.0, open_low=True)
    # region solution
    values, old_values, returns = _select(mask, values, old_values.detach(), returns.detach())
    clipped = old_values + (values - old_values).clamp(-clip_epsilon, clip_epsilon)
    return 0.5 * torch.maximum((values - returns).square(), (clipped - returns).square()).mean()
    # endregion


def combine_losses(
    policy_loss: Tensor, value_loss: Tensor, entropy: Tensor, value_coef: float = 0.1, entropy_coef: float = 0.0
) -> Tensor:
    """Combine the losses to the one number that is minimized: the paper's equation 9 with all signs reversed.

    objective (maximized) = policy objective - c1 value loss + c2 entropy

    The entropy is a bonus: more of it makes the loss smaller. Its sign is set here and nowhere else.

    Args:
        policy_loss: () scalar.
        value_loss: () scalar, with its factor 1/2.
        entropy: () scalar, mean over real tokens, in nats.
        value_coef: c1, >= 0.
        entropy_coef: c2, >= 0.

    Returns:
        () scalar to minimize; gradients 1, value_coef and -entropy_coef.

    Raises:
        ValueError: an argument is not a scalar, or a coefficient is negative.
    """
    for name, tensor in {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}.items():
        if tensor.dim() != 0:
            raise ValueError(f"expected {name} to be a scalar, got shape {tuple(tensor.shape)}; reduce it first")
    check_number("value_coef", value_coef, 0.0)
    check_number("entropy_coef", entropy_coef, 0.0)
    # region solution
    return policy_loss + value_coef * value_loss - entropy_coef * entropy
    # endregion


@torch.no_grad()
def ppo_statistics(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, clip_epsilon: float = 0.2, mask: Tensor | None = None
) -> dict[str, float]:
    """Measure how far the policy has moved from the one that sampled, and how often the clip acts.

    Args:
        log_probs: (...) of the policy in training, in nats.
        old_log_probs: same shape, of the policy that sampled.
        advantages: same shape; their sign decides which side of the interval can be clipped.
        clip_epsilon: > 0, as in `compute_ppo_loss`.
        mask: same shape, bool, or None; where it is False the tensors may hold anything, NaN included.

    Returns:
        dict of four Python floats:
        ratio_mean: mean ratio; 1 before the first step, then a few percent from it.
        ratio_max: largest ratio; NaN if there is one, which Python's `max` may hide.
        approx_kl: mean of ratio - 1 - log(ratio), in nats: KL(old || new) from samples of the old policy, >= 0.
            Close to ratio 1 the three terms cancel, and float32 loses digits unless they are computed with care.
        clip_fraction: share of tokens whose gradient the clip sets to 0: clipped objective strictly the smaller.

    Raises:
        ValueError: shapes disagree, no token is real, the mask is not bool, or clip_epsilon is not positive.
    """
    _check_policy_terms(log_probs, old_log_probs, advantages, mask)
    check_number("clip_epsilon", clip_epsilon, 0.0, open_low=True)
    # region solution
    log_probs, old_log_probs, advantages = _select(mask, log_probs, old_log_probs, advantages)
    log_ratio = log_probs - old_log_probs
    ratio = log_ratio.exp()
    is_clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * advantages < ratio * advantages
    return {
        "ratio_mean": ratio.mean().item(),
        "ratio_max": ratio.max().item(),
        "approx_kl": (log_ratio.expm1() - log_ratio).mean().item(),
        "clip_fraction": is_clipped.double().mean().item(),
    }
    # endregion


@torch.no_grad()
def value_statistics(
    values: Tensor, old_values: Tensor, returns: Tensor, clip_epsilon: float = 0.2, mask: Tensor | None = None
) -> dict[str, float]:
    """Measure how often the clip of `compute_value_loss`, whose arguments these are, stops the critic. Given.

    Returns:
        dict of one Python float: value_clip_fraction, the share of tokens whose clipped error is strictly the larger.

    Raises:
        ValueError: as `compute_value_loss`.
    """
    check_shapes(values=(values, "..."), old_values=(old_values, "..."), returns=(returns, "..."), mask=(mask, "..."))
    _check_tokens(values, mask)
    values, old_values, returns = _select(mask, values, old_values, returns)
    clipped = values.clamp(old_values - clip_epsilon, old_values + clip_epsilon)  # inside it is the value, to the bit
    is_held = (clipped - returns).abs() > (values - returns).abs()
    return {"value_clip_fraction": is_held.double().mean().item()}


def compute_kl_penalty_loss(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, beta: float, mask: Tensor | None = None
) -> Tensor:
    """Penalize the KL from the policy that sampled, instead of clipping (PPO-Penalty).

    loss = mean over the tokens of -ratio A + beta (ratio - 1 - log(ratio))

    The second term estimates KL(old || new) without bias, in value and in gradient, because the tokens come
    from the *old* policy.

    Args:
        log_probs: (...) of the policy in training, in nats; the only argument that receives a gradient.
        old_log_probs: same shape, of the policy that sampled.
        advantages: same shape.
        beta: >= 0, the coefficient of the KL; `update_beta` adapts it.
        mask: same shape, bool, or None; where it is False the tensors may hold anything, NaN included.

    Returns:
        () scalar to minimize.

    Raises:
        ValueError: shapes disagree, no token is real, the mask is not bool, or beta is negative.

    Source: Schulman et al., "Proximal Policy Optimization Algorithms", 2017, equation 8.
    """
    _check_policy_terms(log_probs, old_log_probs, advantages, mask)
    check_number("beta", beta, 0.0)
    # region solution
    log_probs, old_log_probs, advantages = _select(mask, log_probs, old_log_probs.detach(), advantages.detach())
    log_ratio = log_probs - old_log_probs
    kl = log_ratio.expm1() - log_ratio
    return (-log_ratio.exp() * advantages + beta * kl).mean()
    # endregion


def update_beta(beta: float, kl: float, target_kl: float) -> float:
    """Adapt the coefficient of PPO-Penalty, so that an update moves the policy by about target_kl.

    It is doubled when the KL is above 1.5 targets, and halved when it is below target / 1.5.

    Args:
        beta: the present coefficient, >= 0.
        kl: KL(old || new) measured after an update, in nats.
        target_kl: > 0, the KL that one update should have.

    Returns:
        The coefficient for the next update; unchanged between the two bounds, which are themselves inside.

    Raises:
        ValueError: beta is negative, or target_kl is not positive.

    Source: Schulman et al., "Proximal Policy Optimization Algorithms", 2017, section 4.
    """
    check_number("beta", beta, 0.0)
    check_number("target_kl", target_kl, 0.0, open_low=True)
    # region solution
    if kl > 1.5 * target_kl:
        return beta * 2
    if kl < target_kl / 1.5:
        return beta / 2
    return beta
    # endregion


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
