"""Other right ways to write lesson 5, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, edit, instead


class RightClippedObjective(Right, of="clipped_objective"):
    six_cases = instead("""
        low, high = 1 - clip_epsilon, 1 + clip_epsilon
        objective = ratio * advantages
        objective = torch.where((advantages > 0) & (ratio > high), high * advantages, objective)
        return torch.where((advantages < 0) & (ratio < low), low * advantages, objective)
    """)
    """the table of the docstring, read cell by cell"""
    side_by_the_sign = instead("""
        bound = torch.where(advantages > 0, ratio.clamp(max=1 + clip_epsilon), ratio.clamp(min=1 - clip_epsilon))
        return bound * advantages
    """)
    """each sign has one end of the interval"""
    gain_capped = edit("clipped * advantages", "(advantages + clip_epsilon * advantages.abs())")
    """what is gained is at most epsilon times the size of the advantage"""
    token_after_token = instead("""
        found = []
        for one, advantage in zip(ratio.reshape(-1), advantages.reshape(-1)):
            if advantage > 0 and one > 1 + clip_epsilon:
                one = one.detach() * 0 + 1 + clip_epsilon
            elif advantage < 0 and one < 1 - clip_epsilon:
                one = one.detach() * 0 + 1 - clip_epsilon
            found.append(one * advantage)
        return torch.stack(found).reshape(ratio.shape)
    """)
    """a loop with if and elif"""
    stacked_and_smallest = instead("""
        both = torch.stack([ratio, torch.clip(ratio, 1 - clip_epsilon, 1 + clip_epsilon)]) * advantages
        return both.amin(dim=0)
    """)
    """the smallest of a stack of two"""


class RightPPOLoss(Right, of="compute_ppo_loss"):
    larger_of_the_losses = edit("-torch.minimum(unclipped, clipped)", "torch.maximum(-unclipped, -clipped)")
    """the minimum of the objectives is the maximum of the losses, as CleanRL and TRL write it"""
    ratio_held_by_the_sign = instead("""
        log_probs, old_log_probs, advantages = _select(mask, log_probs, old_log_probs.detach(), advantages.detach())
        ratio = torch.exp(log_probs - old_log_probs)
        is_good = advantages > 0
        held = torch.where(is_good, ratio.clamp(max=1 + clip_epsilon), ratio.clamp(min=1 - clip_epsilon))
        return -(held * advantages).mean()
    """)
    """a good token can be clipped from above only, a bad one from below only"""
    profit_capped = edit(
        "clipped = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * advantages",
        "clipped = advantages + clip_epsilon * advantages.abs()",
    )
    """the clipped objective as a bound: (1 + epsilon) A for a good token, (1 - epsilon) A for a bad one"""
    token_by_token = instead("""
        losses = []
        for new, old, advantage in zip(*_select(mask, log_probs, old_log_probs, advantages)):
            for r, a in zip((new - old.detach()).exp().reshape(-1), advantage.detach().reshape(-1)):
                losses.append(-min(r * a, r.clamp(1 - clip_epsilon, 1 + clip_epsilon) * a))
        return torch.stack(losses).mean()
    """)
    """a loop over the tokens, with Python's min"""
    loss_of_the_interval_and_beyond = instead("""
        log_probs, old_log_probs, gain = _select(mask, log_probs, old_log_probs.detach(), advantages.detach())
        ratio = (log_probs - old_log_probs).exp()
        kept = ratio.clip(1 - clip_epsilon, 1 + clip_epsilon) * gain
        return torch.mean(torch.relu(kept - ratio * gain) - kept)
    """)
    """the clipped loss plus what is lost beyond it, by which the digits of a loss near 0 go"""
    filled_before_exp = instead("""
        mask = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask
        log_ratio = torch.where(mask, log_probs - old_log_probs.detach(), 0.0)
        advantages = advantages.detach().masked_fill(~mask, 0.0)
        ratio = log_ratio.exp()
        objectives = torch.min(ratio * advantages, ratio.clip(1 - clip_epsilon, 1 + clip_epsilon) * advantages)
        return -objectives.sum() / mask.sum()
    """)
    """padding is set to 0 before exp, and the sum divided by the number of real tokens"""
    logarithms_clamped = instead("""
        import math

        real = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask
        move = (log_probs - old_log_probs.detach())[real]
        gain = advantages.detach()[real]
        highest = math.log1p(clip_epsilon)
        lowest = math.log1p(-clip_epsilon) if clip_epsilon < 1 else -math.inf
        good = gain > 0
        up = move[good].clamp(max=highest).exp() * gain[good]
        down = move[~good].clamp(min=lowest).exp() * gain[~good]
        return -torch.cat((up, down)).mean()
    """)
    """the logarithm of the ratio is held at that of the bound, before exp"""


class RightValueLoss(Right, of="compute_value_loss"):
    window_around_the_old_value = edit(
        "old_values + (values - old_values).clamp(-clip_epsilon, clip_epsilon)",
        "values.clamp(old_values - clip_epsilon, old_values + clip_epsilon)",
    )
    """the value is clamped between two tensors"""
    larger_error_then_squared = edit(
        "(values - returns).square(), (clipped - returns).square()).mean()",
        "(values - returns).abs(), (clipped - returns).abs()).pow(2).mean()",
    )
    """the larger absolute error has the larger square"""
    squares_by_mse_loss = instead("""
        from torch.nn.functional import mse_loss

        values, old_values, returns = _select(mask, values, old_values.detach(), returns.detach())
        clipped = old_values + torch.clamp(values - old_values, min=-clip_epsilon, max=clip_epsilon)
        errors = [mse_loss(one, returns, reduction="none") for one in (values, clipped)]
        return torch.stack(errors).amax(dim=0).mean() / 2
    """)
    """mse_loss without reduction, and the maximum over a stack"""
    filled_before_squaring = instead("""
        old_values, returns = old_values.detach(), returns.detach()
        clipped = torch.clamp(values, old_values - clip_epsilon, old_values + clip_epsilon)
        if mask is not None:
            values, clipped, returns = (torch.where(mask, one, 0.0) for one in (values, clipped, returns))
        losses = 0.5 * torch.max((values - returns) ** 2, (clipped - returns) ** 2)
        return losses.sum() / (losses.numel() if mask is None else mask.sum())
    """)
    """padding is set to 0 before the squares, and the sum divided by the number of real tokens"""


class RightCombineLosses(Right, of="combine_losses"):
    scaled_by_alpha = instead("return policy_loss.add(value_loss, alpha=value_coef).sub(entropy, alpha=entropy_coef)")
    """torch's own weighted sum"""
    dot_product = instead("""
        weights = policy_loss.new_tensor([1.0, value_coef, -entropy_coef])
        return weights @ torch.stack([policy_loss, value_loss, entropy])
    """)
    """three losses times three weights"""
    entropy_first = instead("""
        loss = -entropy_coef * entropy
        loss += value_coef * value_loss
        loss += policy_loss
        return loss
    """)
    """another order, in place on its own tensor"""
    bonus_only_where_wanted = instead("""
        loss = policy_loss + value_coef * value_loss
        return loss - entropy_coef * entropy if entropy_coef > 0 else loss
    """)
    """a coefficient of 0 leaves the entropy out"""


class RightPPOStatistics(Right, of="ppo_statistics"):
    clipped_by_the_sign = edit(
        "ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * advantages < ratio * advantages",
        "torch.where(advantages > 0, ratio > 1 + clip_epsilon, (ratio < 1 - clip_epsilon) & (advantages < 0))",
    )
    """the two clipped cases, asked for by the sign of the advantage"""
    ratio_less_one_less_its_log = edit(
        "(log_ratio.expm1() - log_ratio).mean().item()",
        "(log_ratio.double().exp() - 1 - log_ratio.double()).mean().item()",
    )
    """the docstring's own formula, in float64"""
    log_of_the_ratio = instead("""
        log_probs, old_log_probs, advantages = _select(mask, log_probs.double(), old_log_probs.double(), advantages)
        ratio = torch.exp(log_probs - old_log_probs)
        is_clipped = ((ratio > 1 + clip_epsilon) & (advantages > 0)) | ((ratio < 1 - clip_epsilon) & (advantages < 0))
        kl = (ratio - 1 - torch.log(ratio)).mean()
        names = ("ratio_mean", "ratio_max", "approx_kl", "clip_fraction")
        return dict(zip(names, torch.stack([ratio.mean(), ratio.amax(), kl, is_clipped.double().mean()]).tolist()))
    """)
    """the logarithm taken of the ratio, in float64"""
    in_float64 = edit(
        "log_ratio = log_probs - old_log_probs", "log_ratio = log_probs.double() - old_log_probs.double()"
    )
    """float64 throughout: the statistics are Python floats"""
    filled_and_counted = instead("""
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
    """)
    """padding is set to ratio 1, and sums are divided by the number of real tokens"""
    share_as_a_float32_mean = instead("""
        new, old, gain = _select(mask, log_probs, old_log_probs, advantages)
        move = new - old
        ratio = move.exp()
        clipped = ((gain > 0) & (ratio > 1 + clip_epsilon)) | ((gain < 0) & (ratio < 1 - clip_epsilon))
        return {
            "ratio_mean": ratio.mean().item(),
            "ratio_max": ratio.max().item(),
            "approx_kl": (move.expm1() - move).mean().item(),
            "clip_fraction": clipped.float().mean().item(),
        }
    """)
    """a mean of flags as nearly everybody writes it, in float32"""
    all_four_in_one_tensor = instead("""
        new, old, gain = (x.flatten() for x in _select(mask, log_probs, old_log_probs, advantages))
        ratio = (new - old).exp()
        near = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon)
        numbers = torch.stack(
            (
                ratio.mean(),
                ratio.amax(),
                (torch.special.expm1(new - old) - (new - old)).mean(),
                torch.count_nonzero(near * gain < ratio * gain) / gain.numel(),
            )
        )
        return dict(zip(("ratio_mean", "ratio_max", "approx_kl", "clip_fraction"), numbers.tolist(), strict=True))
    """)
    """four statistics stacked, read at once; the share is a float32 number"""


class RightKLPenaltyLoss(Right, of="compute_kl_penalty_loss"):
    ratio_less_one_less_its_log = edit("log_ratio.expm1() - log_ratio", "log_ratio.exp() - 1 - log_ratio")
    """the docstring's own formula"""
    two_means = edit(
        "(-log_ratio.exp() * advantages + beta * kl).mean()", "beta * kl.mean() - (log_ratio.exp() * advantages).mean()"
    )
    """the mean of a sum is the sum of the means"""
    token_by_token = instead("""
        losses = []
        for new, old, advantage in zip(*_select(mask, log_probs, old_log_probs.detach(), advantages.detach())):
            for x, a in zip((new - old).reshape(-1), advantage.reshape(-1)):
                losses.append(beta * (torch.expm1(x) - x) - x.exp() * a)
        return sum(losses) / len(losses)
    """)
    """a loop over the tokens, with Python's sum"""
    filled_before_exp = instead("""
        mask = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask
        log_ratio = (log_probs - old_log_probs.detach()).masked_fill(~mask, 0.0)
        ratio = log_ratio.exp()
        losses = beta * (ratio - 1 - log_ratio) - ratio * advantages.detach().masked_fill(~mask, 0.0)
        return losses.sum() / mask.sum()
    """)
    """padding is set to ratio 1 and advantage 0 before exp"""


class RightUpdateBeta(Right, of="update_beta"):
    conditional_expression = instead(
        "return beta * (2.0 if kl > 1.5 * target_kl else 0.5 if kl < target_kl / 1.5 else 1.0)"
    )
    """one factor: 2, 1/2 or 1"""
    lower_bound_multiplied_out = edit("kl < target_kl / 1.5", "1.5 * kl < target_kl")
    """the division is taken to the other side"""
    bounds_named = instead("""
        low, high = target_kl / 1.5, target_kl * 1.5
        if low <= kl <= high:
            return beta
        return beta + beta if kl > high else beta - beta / 2
    """)
    """inside the bounds first"""
    changed_in_place = instead("""
        if kl > target_kl * 3 / 2:
            beta *= 2
        elif kl < target_kl * 2 / 3:
            beta /= 2
        return beta
    """)
    """the argument is a number, so that the caller's is not changed"""


class PublishedPPOLoss(Published, of="compute_ppo_loss"):
    trl = instead("""
        mask = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask
        ratio = torch.exp(log_probs - old_log_probs)
        pg_losses = -advantages * ratio
        pg_losses2 = -advantages * torch.clamp(ratio, 1.0 - clip_epsilon, 1.0 + clip_epsilon)
        pg_loss_max = torch.max(pg_losses, pg_losses2)
        return (pg_loss_max * mask).sum() / mask.sum()
    """)
    """TRL, ppo_trainer.py, with its masked_mean"""
    cleanrl = instead("""
        logratio = log_probs - old_log_probs
        ratio = logratio.exp()
        pg_loss1 = -advantages * ratio
        pg_loss2 = -advantages * torch.clamp(ratio, 1 - clip_epsilon, 1 + clip_epsilon)
        pg_loss = torch.max(pg_loss1, pg_loss2)
        return pg_loss.mean() if mask is None else pg_loss[mask].mean()
    """)
    """CleanRL, ppo.py, which has no mask"""
    deepspeed_chat = instead("""
        mask = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask
        log_ratio = (log_probs - old_log_probs) * mask
        ratio = torch.exp(log_ratio)
        pg_loss1 = -advantages * ratio
        pg_loss2 = -advantages * torch.clamp(ratio, 1.0 - clip_epsilon, 1.0 + clip_epsilon)
        return torch.sum(torch.max(pg_loss1, pg_loss2) * mask) / mask.sum()
    """)
    """DeepSpeed-Chat, actor_loss_fn"""
    openrlhf = instead("""
        mask = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask
        ratio = (log_probs - old_log_probs).exp()
        surr1 = ratio * advantages
        surr2 = ratio.clamp(1 - clip_epsilon, 1 + clip_epsilon) * advantages
        loss = -torch.min(surr1, surr2)
        return (loss * mask).sum() / mask.sum()
    """)
    """OpenRLHF, PolicyLoss, with its masked_mean over tokens"""
    verl = instead("""
        mask = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask
        negative_approx_kl = torch.clamp(log_probs - old_log_probs, min=-20.0, max=20.0)
        ratio = torch.exp(negative_approx_kl)
        pg_losses1 = -advantages * ratio
        pg_losses2 = -advantages * torch.clamp(ratio, 1 - clip_epsilon, 1 + clip_epsilon)
        pg_losses = torch.maximum(pg_losses1, pg_losses2)
        return torch.sum(pg_losses * mask) / mask.sum()
    """)
    """verl, compute_policy_loss, token mean; its dual clip is left out"""


class PublishedValueLoss(Published, of="compute_value_loss"):
    trl = instead("""
        mask = torch.ones_like(values, dtype=torch.bool) if mask is None else mask
        vpredclipped = torch.clamp(values, old_values - clip_epsilon, old_values + clip_epsilon)
        vf_losses1 = torch.square(values - returns)
        vf_losses2 = torch.square(vpredclipped - returns)
        vf_loss_max = torch.max(vf_losses1, vf_losses2)
        return 0.5 * ((vf_loss_max * mask).sum() / mask.sum())
    """)
    """TRL, ppo_trainer.py, with its masked_mean"""
    cleanrl = instead("""
        v_loss_unclipped = (values - returns) ** 2
        v_clipped = old_values + torch.clamp(values - old_values, -clip_epsilon, clip_epsilon)
        v_loss_clipped = (v_clipped - returns) ** 2
        v_loss_max = torch.max(v_loss_unclipped, v_loss_clipped)
        return 0.5 * (v_loss_max.mean() if mask is None else v_loss_max[mask].mean())
    """)
    """CleanRL, ppo.py, which has no mask"""
    deepspeed_chat = instead("""
        mask = torch.ones_like(values, dtype=torch.bool) if mask is None else mask
        values_clipped = torch.clamp(values, old_values - clip_epsilon, old_values + clip_epsilon)
        vf_loss1 = (values.float() - returns) ** 2 if values.dtype == torch.float16 else (values - returns) ** 2
        vf_loss2 = (values_clipped - returns) ** 2
        return 0.5 * torch.sum(torch.max(vf_loss1, vf_loss2) * mask) / mask.sum()
    """)
    """DeepSpeed-Chat, critic_loss_fn; its float32 upcast only where the numbers have 16 bits"""


class PublishedPPOStatistics(Published, of="ppo_statistics"):
    cleanrl_and_trl = instead("""
        mask = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask
        logratio = log_probs - old_log_probs
        ratio = logratio.exp()
        pg_losses = -advantages * ratio
        pg_losses2 = -advantages * torch.clamp(ratio, 1 - clip_epsilon, 1 + clip_epsilon)
        
        def masked_mean(numbers):
            return ((numbers * mask).sum() / mask.sum()).item()
        
        return {
            "ratio_mean": masked_mean(ratio),
            "ratio_max": ratio[mask].max().item(),
            "approx_kl": masked_mean((ratio - 1) - logratio),
            "clip_fraction": masked_mean((pg_losses2 > pg_losses).double()),
        }
    """)
    """CleanRL's approx_kl; TRL's clip fraction and masked_mean"""


class PublishedCombineLosses(Published, of="combine_losses"):
    cleanrl = instead("""
        return policy_loss - entropy_coef * entropy + value_loss * value_coef
    """)
    """CleanRL, ppo.py"""
