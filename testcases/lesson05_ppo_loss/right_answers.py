"""Other ways to write PPO's losses. All of them must pass."""

from __future__ import annotations

from testcases.engine import Right, edit, instead


class PPOLoss(Right, of="compute_ppo_loss"):
    larger_of_the_losses = edit(
        "-torch.minimum(unclipped, clipped)",
        "torch.maximum(-unclipped, -clipped)",
        why="the minimum of the objectives is the maximum of the losses, as CleanRL and TRL write it",
    )
    ratio_held_by_the_sign = instead(
        """
        log_probs, old_log_probs, advantages = _select(mask, log_probs, old_log_probs.detach(), advantages.detach())
        ratio = torch.exp(log_probs - old_log_probs)
        is_good = advantages > 0
        held = torch.where(is_good, ratio.clamp(max=1 + clip_epsilon), ratio.clamp(min=1 - clip_epsilon))
        return -(held * advantages).mean()
        """,
        why="a good token can be clipped from above only, a bad one from below only",
    )
    profit_capped = edit(
        "clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * advantages",
        "clipped = advantages + clip_epsilon * advantages.abs()",
        why="the clipped objective as a bound: (1 + epsilon) A for a good token, (1 - epsilon) A for a bad one",
    )
    token_by_token = instead(
        """
        losses = []
        for new, old, advantage in zip(*_select(mask, log_probs, old_log_probs, advantages)):
            for r, a in zip((new - old.detach()).exp().reshape(-1), advantage.detach().reshape(-1)):
                losses.append(-min(r * a, r.clamp(1 - clip_epsilon, 1 + clip_epsilon) * a))
        return torch.stack(losses).mean()
        """,
        why="a loop over the tokens, with Python's min",
    )
    filled_before_exp = instead(
        """
        mask = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask
        log_ratio = torch.where(mask, log_probs - old_log_probs.detach(), 0.0)
        advantages = advantages.detach().masked_fill(~mask, 0.0)
        ratio = log_ratio.exp()
        objectives = torch.min(ratio * advantages, ratio.clip(1 - clip_epsilon, 1 + clip_epsilon) * advantages)
        return -objectives.sum() / mask.sum()
        """,
        why="padding is set to 0 before exp, and the sum divided by the number of real tokens",
    )


class ValueLoss(Right, of="compute_value_loss"):
    window_around_the_old_value = edit(
        "old_values + (values - old_values).clamp(-clip_epsilon, clip_epsilon)",
        "values.clamp(old_values - clip_epsilon, old_values + clip_epsilon)",
        why="the value is clamped between two tensors",
    )
    larger_error_then_squared = edit(
        "(values - returns).square(), (clipped - returns).square()).mean()",
        "(values - returns).abs(), (clipped - returns).abs()).pow(2).mean()",
        why="the larger absolute error has the larger square",
    )
    squares_by_mse_loss = instead(
        """
        from torch.nn.functional import mse_loss

        values, old_values, returns = _select(mask, values, old_values.detach(), returns.detach())
        clipped = old_values + torch.clamp(values - old_values, min=-clip_epsilon, max=clip_epsilon)
        errors = [mse_loss(one, returns, reduction="none") for one in (values, clipped)]
        return torch.stack(errors).amax(dim=0).mean() / 2
        """,
        why="mse_loss without reduction, and the maximum over a stack",
    )
    filled_before_squaring = instead(
        """
        old_values, returns = old_values.detach(), returns.detach()
        clipped = torch.clamp(values, old_values - clip_epsilon, old_values + clip_epsilon)
        if mask is not None:
            values, clipped, returns = (torch.where(mask, one, 0.0) for one in (values, clipped, returns))
        losses = 0.5 * torch.max((values - returns) ** 2, (clipped - returns) ** 2)
        return losses.sum() / (losses.numel() if mask is None else mask.sum())
        """,
        why="padding is set to 0 before the squares, and the sum divided by the number of real tokens",
    )


class CombineLosses(Right, of="combine_losses"):
    scaled_by_alpha = instead(
        "return policy_loss.add(value_loss, alpha=value_coef).sub(entropy, alpha=entropy_coef)",
        why="torch's own weighted sum",
    )
    dot_product = instead(
        """
        weights = policy_loss.new_tensor([1.0, value_coef, -entropy_coef])
        return weights @ torch.stack([policy_loss, value_loss, entropy])
        """,
        why="three losses times three weights",
    )
    entropy_first = instead(
        """
        loss = -entropy_coef * entropy
        loss += value_coef * value_loss
        loss += policy_loss
        return loss
        """,
        why="another order, in place on its own tensor",
    )
    bonus_only_where_wanted = instead(
        """
        loss = policy_loss + value_coef * value_loss
        return loss - entropy_coef * entropy if entropy_coef > 0 else loss
        """,
        why="a coefficient of 0 leaves the entropy out",
    )


class PPOStatistics(Right, of="ppo_statistics"):
    clipped_by_the_sign = edit(
        "ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * advantages < ratio * advantages",
        "torch.where(advantages > 0, ratio > 1 + clip_epsilon, (ratio < 1 - clip_epsilon) & (advantages < 0))",
        why="the two clipped cases, asked for by the sign of the advantage",
    )
    ratio_less_one_less_its_log = edit(
        "(log_ratio.expm1() - log_ratio).mean().item()",
        "(log_ratio.double().exp() - 1 - log_ratio.double()).mean().item()",
        why="the docstring's own formula, in float64",
    )
    log_of_the_ratio = instead(
        """
        log_probs, old_log_probs, advantages = _select(mask, log_probs.double(), old_log_probs.double(), advantages)
        ratio = torch.exp(log_probs - old_log_probs)
        is_clipped = ((ratio > 1 + clip_epsilon) & (advantages > 0)) | ((ratio < 1 - clip_epsilon) & (advantages < 0))
        kl = (ratio - 1 - torch.log(ratio)).mean()
        names = ("ratio_mean", "ratio_max", "approx_kl", "clip_fraction")
        return dict(zip(names, torch.stack([ratio.mean(), ratio.amax(), kl, is_clipped.double().mean()]).tolist()))
        """,
        why="the logarithm taken of the ratio, in float64",
    )
    in_float64 = edit(
        "log_ratio = log_probs - old_log_probs",
        "log_ratio = log_probs.double() - old_log_probs.double()",
        why="float64 throughout: the statistics are Python floats",
    )
    filled_and_counted = instead(
        """
        mask = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask
        count = mask.sum()
        log_ratio = torch.where(mask, log_probs - old_log_probs, 0.0)
        advantages = advantages.where(mask, 0.0)
        ratio = torch.exp(log_ratio)
        objectives = ratio * advantages
        held = torch.minimum(objectives, torch.clamp(ratio, 1 - clip_epsilon, 1 + clip_epsilon) * advantages)
        return {
            "ratio_mean": float((ratio * mask).sum() / count),
            "ratio_max": float(ratio.masked_fill(~mask, -torch.inf).max()),
            "approx_kl": float((torch.expm1(log_ratio) - log_ratio).sum() / count),
            "clip_fraction": int((held < objectives).sum()) / int(count),
        }
        """,
        why="padding is set to ratio 1, and sums are divided by the number of real tokens",
    )


class KLPenaltyLoss(Right, of="compute_kl_penalty_loss"):
    ratio_less_one_less_its_log = edit(
        "log_ratio.expm1() - log_ratio", "log_ratio.exp() - 1 - log_ratio", why="the docstring's own formula"
    )
    two_means = edit(
        "(-log_ratio.exp() * advantages + beta * kl).mean()",
        "beta * kl.mean() - (log_ratio.exp() * advantages).mean()",
        why="the mean of a sum is the sum of the means",
    )
    token_by_token = instead(
        """
        losses = []
        for new, old, advantage in zip(*_select(mask, log_probs, old_log_probs.detach(), advantages.detach())):
            for x, a in zip((new - old).reshape(-1), advantage.reshape(-1)):
                losses.append(beta * (torch.expm1(x) - x) - x.exp() * a)
        return sum(losses) / len(losses)
        """,
        why="a loop over the tokens, with Python's sum",
    )
    filled_before_exp = instead(
        """
        mask = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask
        log_ratio = (log_probs - old_log_probs.detach()).masked_fill(~mask, 0.0)
        ratio = log_ratio.exp()
        losses = beta * (ratio - 1 - log_ratio) - ratio * advantages.detach().masked_fill(~mask, 0.0)
        return losses.sum() / mask.sum()
        """,
        why="padding is set to ratio 1 and advantage 0 before exp",
    )


class UpdateBeta(Right, of="update_beta"):
    conditional_expression = instead(
        "return beta * (2.0 if kl > 1.5 * target_kl else 0.5 if kl < target_kl / 1.5 else 1.0)",
        why="one factor: 2, 1/2 or 1",
    )
    lower_bound_multiplied_out = edit(
        "kl < target_kl / 1.5", "1.5 * kl < target_kl", why="the division is taken to the other side"
    )
    bounds_named = instead(
        """
        low, high = target_kl / 1.5, target_kl * 1.5
        if low <= kl <= high:
            return beta
        return beta + beta if kl > high else beta - beta / 2
        """,
        why="inside the bounds first",
    )
    changed_in_place = instead(
        """
        if kl > target_kl * 3 / 2:
            beta *= 2
        elif kl < target_kl * 2 / 3:
            beta /= 2
        return beta
        """,
        why="the argument is a number, so that the caller's is not changed",
    )
