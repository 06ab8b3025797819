"""Other right ways to write lesson 6, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, instead


class RightNonnegativeKL(Right, of="nonnegative_kl"):
    computed_in_float64 = instead("""
        dtype = torch.promote_types(torch.promote_types(log_probs.dtype, ref_log_probs.dtype), torch.float32)
        r = log_probs.double() - ref_log_probs.double()
        return (torch.exp((-r).clamp(max=20.0)) - 1 + r).to(dtype)
    """)
    """the plain formula in float64, which has digits to spare"""


class RightEstimateKL(Right, of="estimate_kl"):
    in_float64_and_rounded_once = instead("""
        dtype = torch.promote_types(torch.promote_types(log_probs.dtype, ref_log_probs.dtype), torch.float32)
        log_ratio = log_probs.double() - ref_log_probs.double()
        estimates = {
            "k1": log_ratio,
            "k2": 0.5 * log_ratio**2,
            "k3": torch.expm1((-log_ratio).clamp(max=MAX_LOG_RATIO)) + log_ratio,
        }
        return estimates[estimator].to(dtype)
    """)
    """wider than needed, so a small KL keeps more digits"""


class RightComputeRewards(Right, of="compute_rewards"):
    only_real_tokens_estimated = instead("""
        kl = estimate_kl(log_probs[mask], ref_log_probs[mask], estimator)
        rewards = kl.new_zeros(mask.shape)
        rewards[mask] = -kl_coef * kl
        last = last_token_index(mask).unsqueeze(1)
        clipped = scores.clamp(-clip_score, clip_score).unsqueeze(1).to(rewards.dtype)
        return rewards.scatter_add(1, last, clipped)
    """)
    """the mask selects before the estimate; the score comes by scatter_add"""


class RightPenalizeMissingStop(Right, of="penalize_missing_stop"):
    python_lists = instead("""
        unfinished = [not any(token in stop_token_ids for token in row) for row in responses.tolist()]
        return scores - penalty * torch.tensor(unfinished, dtype=scores.dtype)
    """)
    """rows as lists; the penalty is multiplied by 0 or 1"""
    compared_with_each_stop_token = instead("""
        stops = torch.tensor(stop_token_ids).view(1, 1, -1)
        has_stopped = (responses.unsqueeze(-1) == stops).flatten(1).any(dim=1)
        return scores.where(has_stopped, scores - penalty)
    """)
    """all tokens against all stop tokens by broadcasting"""


class RightUpdate(Right, of="AdaptiveKLController.update"):
    numpy_clip = instead("""
        import numpy as np

        error = np.clip(current / self.target - 1, -0.2, 0.2)
        self.value = self.value * (1 + error * n_steps / self.horizon)
    """)
    """a numpy.float64 is a float"""
    clamped_in_float32 = instead("""
        error = torch.tensor(current / self.target - 1).clamp(-0.2, 0.2).item()
        self.value *= 1 + error * n_steps / self.horizon
    """)
    """a float on its way through a tensor has float32's precision"""


class PublishedNonnegativeKL(Published, of="nonnegative_kl"):
    trl = instead("""
        logr = ref_log_probs - log_probs
        return (logr.exp() - 1) - logr
    """)
    """TRL, ppo_trainer.py, kl_estimator k3, and Schulman's page"""


class PublishedEstimateKL(Published, of="estimate_kl"):
    openrlhf = instead("""
        log_ratio = log_probs - ref_log_probs
        if estimator == "k2":
            log_ratio = log_ratio**2 / 2.0
        if estimator == "k3":
            log_ratio = -log_ratio
            log_ratio = log_ratio.exp() - 1 - log_ratio
        return log_ratio
    """)
    """OpenRLHF, compute_approx_kl"""


class PublishedComputeRewards(Published, of="compute_rewards"):
    deepspeed_chat = instead("""
        rewards = -kl_coef * estimate_kl(log_probs, ref_log_probs, estimator)
        ends = mask.sum(1)
        reward_clip = torch.clamp(scores, -clip_score, clip_score)
        for j in range(len(rewards)):
            rewards[j, : ends[j]][-1] += reward_clip[j]
        return rewards * mask
    """)
    """DeepSpeed-Chat, compute_rewards; masked tokens are 0 as the contract says"""
    trl = instead("""
        rewards = -kl_coef * estimate_kl(log_probs, ref_log_probs, estimator)
        sequence_lengths = mask.sum(1) - 1
        actual_start = torch.arange(rewards.size(0), device=rewards.device)
        rewards[actual_start, sequence_lengths] += torch.clamp(scores, -clip_score, clip_score)
        return torch.masked_fill(rewards, ~mask, 0)
    """)
    """TRL, ppo_trainer.py, with the score on the last real token and clipped"""
