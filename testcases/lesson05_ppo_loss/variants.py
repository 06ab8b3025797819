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
    gain_capped = edit("clipped * advantages => (advantages + clip_epsilon * advantages.abs())")
    """what is gained is at most epsilon times the size of the advantage"""


class RightPPOLoss(Right, of="compute_ppo_loss"):
    token_by_token = instead("""
        losses = []
        for new, old, advantage in zip(*_select(mask, log_probs, old_log_probs, advantages)):
            for r, a in zip((new - old.detach()).exp().reshape(-1), advantage.detach().reshape(-1)):
                losses.append(-min(r * a, r.clamp(1 - clip_epsilon, 1 + clip_epsilon) * a))
        return torch.stack(losses).mean()
    """)
    """a loop over the tokens, with Python's min"""


class RightValueLoss(Right, of="compute_value_loss"):
    larger_error_then_squared = edit(
        "(values - returns).square(), (clipped - returns).square()).mean() => "
        "(values - returns).abs(), (clipped - returns).abs()).pow(2).mean()"
    )
    """the larger absolute error has the larger square"""


class RightCombineLosses(Right, of="combine_losses"):
    dot_product = instead("""
        weights = policy_loss.new_tensor([1.0, value_coef, -entropy_coef])
        return weights @ torch.stack([policy_loss, value_loss, entropy])
    """)
    """three losses times three weights"""


class RightPPOStatistics(Right, of="ppo_statistics"):
    log_of_the_ratio = instead("""
        log_probs, old_log_probs, advantages = _select(mask, log_probs.double(), old_log_probs.double(), advantages)
        ratio = torch.exp(log_probs - old_log_probs)
        is_clipped = ((ratio > 1 + clip_epsilon) & (advantages > 0)) | ((ratio < 1 - clip_epsilon) & (advantages < 0))
        kl = (ratio - 1 - torch.log(ratio)).mean()
        names = ("ratio_mean", "ratio_max", "approx_kl", "clip_fraction")
        return dict(zip(names, torch.stack([ratio.mean(), ratio.amax(), kl, is_clipped.double().mean()]).tolist()))
    """)
    """the logarithm taken of the ratio, in float64"""


class RightKLPenaltyLoss(Right, of="compute_kl_penalty_loss"):
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
    deepspeed_chat = instead("""
        mask = torch.ones_like(log_probs, dtype=torch.bool) if mask is None else mask
        log_ratio = (log_probs - old_log_probs) * mask
        ratio = torch.exp(log_ratio)
        pg_loss1 = -advantages * ratio
        pg_loss2 = -advantages * torch.clamp(ratio, 1.0 - clip_epsilon, 1.0 + clip_epsilon)
        return torch.sum(torch.max(pg_loss1, pg_loss2) * mask) / mask.sum()
    """)
    """DeepSpeed-Chat, actor_loss_fn"""
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
    cleanrl = instead("return policy_loss - entropy_coef * entropy + value_loss * value_coef")
    """CleanRL, ppo.py"""
