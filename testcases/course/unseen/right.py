"""Our own answers, written from the stubs alone."""

RIGHT = {
    "gather_log_probs": """
        scaled = _at_least_float32(logits) / temperature
        log_probs = torch.log_softmax(scaled, dim=-1)
        return log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    """,
    "token_entropy": """
        log_p = torch.log_softmax(_at_least_float32(logits) / temperature, dim=-1)
        p = log_p.exp()
        finite = torch.where(log_p == -torch.inf, 0.0, log_p)
        return -(p * finite).sum(dim=-1)
    """,
    "masked_mean": """
        kept = torch.where(mask, values, 0.0)
        return kept.sum() / mask.sum()
    """,
    "masked_whiten": """
        n = mask.sum()
        kept = torch.where(mask, values, 0.0)
        mean = kept.sum() / n
        centered = torch.where(mask, values - mean, 0.0)
        variance = (centered**2).sum() / (n - 1).clamp(min=1)
        white = centered * torch.rsqrt(variance + 1e-8)
        if not shift_mean:
            white = torch.where(mask, white + mean, 0.0)
        return white
    """,
    "first_true_index": """
        length = flags.shape[1]
        steps = torch.arange(length, device=flags.device)
        found = torch.where(flags, steps, length)
        return found.min(dim=1).values if length else found.new_zeros(len(flags))
    """,
    "response_mask": """
        stops = is_stop(responses, stop_token_ids)
        first = first_true_index(stops)
        steps = torch.arange(responses.shape[1], device=responses.device)
        return steps <= first.unsqueeze(1)
    """,
    "truncate_after_stop": """
        keep = response_mask(responses, stop_token_ids)
        return torch.where(keep, responses, pad_token_id)
    """,
    "position_ids": """
        real = attention_mask.bool()
        counted = real.long().cumsum(dim=1) - 1
        return counted.masked_fill(~real, 0)
    """,
    "last_token_index": """
        length = attention_mask.shape[1]
        steps = torch.arange(length, device=attention_mask.device)
        return torch.where(attention_mask.bool(), steps, -1).max(dim=1).values
    """,
    "pairwise_loss": """
        margin = 0.0 if margin is None else margin
        return -logsigmoid(chosen - rejected - margin).mean()
    """,
    "rewards_to_go": """
        totals = []
        running = torch.zeros_like(rewards[:, 0])
        for t in reversed(range(rewards.shape[1])):
            real = mask[:, t]
            running = torch.where(real, rewards[:, t] + gamma * running, running)
            totals.append(torch.where(real, running, 0.0))
        return torch.stack(totals[::-1], dim=1)
    """,
    "reinforce_loss": """
        log_p = log_probs[mask]
        weight = weights[mask].detach()
        return -(weight * log_p).mean()
    """,
    "n_step_advantages": """
        steps = rewards.shape[-1]
        ongoing = ~dones.bool()
        columns = []
        for t in range(steps):
            last = min(t + n, steps)
            total = values[..., last]
            for k in reversed(range(t, last)):
                total = rewards[..., k] + gamma * torch.where(ongoing[..., k], total, 0.0)
            columns.append(total - values[..., t])
        return torch.stack(columns, dim=-1)
    """,
    "compute_gae": """
        deltas = td_errors(rewards, values, dones, gamma)
        ongoing = ~dones.bool()
        carry = torch.zeros_like(deltas[..., 0])
        found = []
        for t in reversed(range(deltas.shape[-1])):
            carry = deltas[..., t] + gamma * lam * torch.where(ongoing[..., t], carry, 0.0)
            found.append(carry)
        advantages = torch.stack(found[::-1], dim=-1)
        return AdvantagesAndReturns(advantages, advantages + values[..., :-1])
    """,
    "compute_response_gae": """
        order = torch.argsort((~mask).long(), dim=1, stable=True)
        kept = mask.gather(1, order)
        packed_rewards = torch.where(kept, rewards.gather(1, order), 0.0)
        packed_values = torch.where(kept, values.gather(1, order), 0.0)
        last = mask.sum(dim=1, keepdim=True) - 1
        dones = torch.arange(mask.shape[1], device=mask.device) == last
        padded = torch.cat([packed_values, torch.zeros_like(packed_values[:, :1])], dim=1)
        packed = compute_gae(packed_rewards, padded, dones, gamma, lam)
        back = torch.argsort(order, dim=1)
        advantages = torch.where(mask, packed.advantages.gather(1, back), 0.0)
        returns = torch.where(mask, packed.returns.gather(1, back), 0.0)
        return AdvantagesAndReturns(advantages, returns)
    """,
    "compute_ppo_loss": """
        log_probs, old_log_probs, advantages = _select(mask, log_probs, old_log_probs, advantages)
        ratio = (log_probs - old_log_probs.detach()).exp()
        objective = clipped_objective(ratio, advantages.detach(), clip_epsilon)
        return -objective.mean()
    """,
    "nonnegative_kl": """
        wide = torch.promote_types(log_probs.dtype, torch.float32)
        gap = ref_log_probs.to(wide) - log_probs.to(wide)
        return torch.expm1(gap.clamp(max=MAX_LOG_RATIO)) - gap
    """,
    "estimate_kl": """
        wide = torch.promote_types(log_probs.dtype, torch.float32)
        gap = log_probs.to(wide) - ref_log_probs.to(wide)
        if estimator == "k1":
            return gap
        if estimator == "k2":
            return gap**2 / 2
        return nonnegative_kl(log_probs, ref_log_probs)
    """,
    "compute_rewards": """
        kl = estimate_kl(log_probs, ref_log_probs, estimator)
        rewards = torch.where(mask, -kl_coef * kl, 0.0)
        last = last_token_index(mask).unsqueeze(1)
        score = scores.clamp(-clip_score, clip_score).unsqueeze(1)
        return rewards.scatter_add(1, last, score.to(rewards.dtype))
    """,
    "sample_token": """
        scaled = logits / temperature
        if 0 < top_k < scaled.shape[1]:
            least = scaled.topk(top_k, dim=-1).values[:, -1:]
            scaled = scaled.masked_fill(scaled < least, -torch.inf)
        if top_p < 1:
            ordered, index = scaled.sort(dim=-1, descending=True)
            p = ordered.softmax(dim=-1)
            before = p.cumsum(dim=-1) - p
            ordered = ordered.masked_fill(before >= top_p, -torch.inf)
            scaled = torch.full_like(scaled, -torch.inf).scatter(1, index, ordered)
        return torch.multinomial(scaled.softmax(dim=-1), 1, generator=generator).squeeze(1)
    """,
}
