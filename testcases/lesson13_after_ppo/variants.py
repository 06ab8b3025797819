"""Other right ways to write lesson 13, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, instead


class RightGroupAdvantages(Right, of="group_advantages"):
    by_a_loop = instead("""
        import torch

        rows = []
        for row in scores.detach():
            centered = row - row.sum() / len(row)
            scale = (centered.square().sum() / (len(row) - 1)).sqrt() + epsilon
            rows.append(centered / scale if divide_by_std else centered)
        return torch.stack(rows)
    """)
    """group by group, the variance written out"""


class RightClippedTokenLosses(Right, of="clipped_token_losses"):
    by_where = instead("""
        zero = torch.zeros_like(log_probs)
        with torch.no_grad():
            old = torch.where(mask, old_log_probs, zero)
            gain = advantages[:, None].expand_as(zero)
        ratio = torch.exp(torch.where(mask, log_probs, zero) - old)
        outside = torch.where(gain > 0, ratio > 1 + clip_high, ratio < 1 - clip_low)
        bound = torch.where(gain > 0, torch.full_like(zero, 1 + clip_high), torch.full_like(zero, 1 - clip_low))
        kept = torch.where(outside, bound, ratio)
        return torch.where(mask, -kept * gain, zero)
    """)
    """the case in which the clip acts, written out"""


class RightCispoTokenLosses(Right, of="cispo_token_losses"):
    by_truncated_weights = instead("""
        weights = truncated_importance_weights(log_probs, old_log_probs, mask, ratio_cap)
        return -weights * advantages.detach()[:, None].where(mask, 0.0) * log_probs.where(mask, 0.0)
    """)
    """a weight from a later exercise of this file"""


class RightReduceLosses(Right, of="reduce_losses"):
    three_branches = instead("""
        kept = torch.where(mask, losses, torch.zeros_like(losses))
        if denominator == "tokens":
            return kept.sum() / (mask.sum() if total is None else total)
        rows = losses.shape[0] if total is None else total
        if denominator == "constant":
            return kept.sum() / constant / rows
        return sum(row.sum() / max(1, int(real.sum())) for row, real in zip(kept, mask)) / rows
    """)
    """each choice by itself"""


class RightSequenceRatio(Right, of="sequence_ratio"):
    row_by_row = instead("""
        rows = [(a[real] - b[real].detach()) for a, b, real in zip(log_probs, old_log_probs, mask)]
        return torch.stack([torch.exp(row.mean() if per_token else row.sum()) for row in rows])
    """)
    """the real tokens of each response"""


class RightKlTokenLosses(Right, of="kl_token_losses"):
    real_tokens_only = instead("""
        losses = torch.zeros_like(log_probs)
        now, then, ref = log_probs[mask], old_log_probs[mask].detach(), ref_log_probs[mask].detach()
        gap = ref - now
        losses[mask] = torch.exp(now - then) * (torch.expm1(gap) - gap)
        return losses
    """)
    """the real tokens as one row, written back"""


class RightTruncatedImportanceWeights(Right, of="truncated_importance_weights"):
    by_where = instead("""
        with torch.no_grad():
            gap = torch.where(mask, log_probs - sampler_log_probs, -torch.inf)
            return gap.exp().clamp(max=cap)
    """)
    """padding is exp(-inf) = 0"""


class RightDpoLoss(Right, of="dpo_loss"):
    by_softplus = instead("""
        with torch.no_grad():
            before = ref_chosen - ref_rejected
        return torch.nn.functional.softplus(-beta * ((chosen - rejected) - before)).mean()
    """)
    """log(1 + e^-x), and the two ratios in another order"""


class RightExpectedBestOfN(Right, of="expected_best_of_n"):
    by_the_shares_of_those_below = instead("""
        count = scores.shape[1]
        ordered, _ = torch.sort(scores.detach(), dim=1)
        total, share = torch.zeros_like(ordered[:, 0]), n / count
        for i in reversed(range(count)):
            total = total + share * ordered[:, i]
            share = share * (i - n + 1) / i if i else 0.0
        return total
    """)
    """from the best down: each share from the one above it"""
    by_fractions = instead("""
        from fractions import Fraction

        ordered = [sorted(row) for row in scores.tolist()]
        count = scores.shape[1]
        shares = [Fraction(math.comb(i, n - 1), math.comb(count, n)) for i in range(count)]
        best = [sum(float(share) * one for share, one in zip(shares, row)) for row in ordered]
        return torch.tensor(best, dtype=scores.dtype)
    """)
    """exact fractions"""


class RightBestOfNKl(Right, of="best_of_n_kl"):
    in_python = instead("""
        total, below = 0.0, 0.0
        for chance in probabilities.tolist():
            up_to = min(1.0, below + chance)
            best = up_to**n - below**n
            if best > 0:
                total += best * math.log(best / chance)
            below = up_to
        return max(0.0, total)
    """)
    """response by response"""
    by_the_cumulative_sum = instead("""
        p = probabilities.to(torch.float64)
        upper = torch.cumsum(p, 0).clamp(max=1.0)
        lower = (upper - p).clamp(min=0.0)
        q = upper**n - lower**n
        real = q > 0
        return float((q[real] * (q[real].log() - p[real].log())).sum().clamp(min=0.0))
    """)
    """the sum up to each response, and up to the one before it"""


class PublishedGroupAdvantages(Published, of="group_advantages"):
    trl = instead("""
        mean_grouped_rewards = scores.mean(dim=1, keepdim=True)
        std_grouped_rewards = scores.std(dim=1, keepdim=True)
        advantages = scores - mean_grouped_rewards
        if divide_by_std:
            advantages = advantages / (std_grouped_rewards + epsilon)
        return advantages
    """)
    """TRL, GRPOTrainer, with the groups as rows"""


class PublishedClippedTokenLosses(Published, of="clipped_token_losses"):
    trl = instead("""
        coef_1 = torch.exp(log_probs - old_log_probs)
        coef_2 = torch.clamp(coef_1, 1 - clip_low, 1 + clip_high)
        per_token_loss1 = coef_1 * advantages.unsqueeze(1)
        per_token_loss2 = coef_2 * advantages.unsqueeze(1)
        return -torch.min(per_token_loss1, per_token_loss2) * mask
    """)
    """TRL, GRPOTrainer; masked tokens are 0 as the contract says"""


class PublishedCispoTokenLosses(Published, of="cispo_token_losses"):
    trl = instead("""
        clamped_ratios = torch.clamp(torch.exp(log_probs - old_log_probs), max=ratio_cap).detach()
        return -clamped_ratios * advantages.unsqueeze(1) * log_probs * mask
    """)
    """TRL, GRPOTrainer: loss_type cispo; masked tokens are 0 as the contract says"""


class PublishedReduceLosses(Published, of="reduce_losses"):
    trl = instead("""
        if denominator == "responses":
            per_response = (losses * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)
            return per_response.mean() if total is None else per_response.sum() / total
        if denominator == "tokens":
            return (losses * mask).sum() / (mask.sum().clamp(min=1.0) if total is None else total)
        return (losses * mask).sum() / ((losses.size(0) if total is None else total) * constant)
    """)
    """TRL, GRPOTrainer: loss_type grpo, bnpo and dr_grpo; a window's total divides in their places"""


class PublishedSequenceRatio(Published, of="sequence_ratio"):
    trl = instead("""
        log_ratio = log_probs - old_log_probs
        log_importance_weights = (log_ratio * mask).sum(-1)
        if per_token:
            log_importance_weights = log_importance_weights / mask.sum(-1).clamp(min=1.0)
        return torch.exp(log_importance_weights)
    """)
    """TRL, GRPOTrainer: importance_sampling_level sequence"""


class PublishedKlTokenLosses(Published, of="kl_token_losses"):
    trl = instead("""
        coef_1 = torch.exp(log_probs - old_log_probs)
        per_token_kl = torch.exp(ref_log_probs - log_probs) - (ref_log_probs - log_probs) - 1
        return per_token_kl * coef_1 * mask
    """)
    """TRL, GRPOTrainer: use_bias_correction_kl; masked tokens are 0 as the contract says"""


class PublishedTruncatedImportanceWeights(Published, of="truncated_importance_weights"):
    trl = instead("""
        return torch.clamp(torch.exp(log_probs - sampler_log_probs), max=cap) * mask
    """)
    """TRL, GRPOTrainer: importance_sampling_ratio of vLLM, times the mask"""


class PublishedDpoLoss(Published, of="dpo_loss"):
    trl = instead("""
        chosen_logratios = chosen - ref_chosen
        rejected_logratios = rejected - ref_rejected
        logits = chosen_logratios - rejected_logratios
        return -torch.nn.functional.logsigmoid(beta * logits).mean()
    """)
    """TRL, DPOTrainer: loss_type sigmoid"""
