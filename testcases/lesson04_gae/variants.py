"""Other right ways to write lesson 4, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, instead


class RightTdErrors(Right, of="td_errors"):
    in_float64_rounded_once = instead("""
        before, after = values.double()[..., :-1], values.double()[..., 1:]
        return (rewards.double() + gamma * after.masked_fill(dones.bool(), 0.0) - before).to(rewards.dtype)
    """)
    """computed in float64 and rounded once, at the end"""


class PublishedTdErrors(Published, of="td_errors"):
    cleanrl = instead("return rewards + gamma * values[..., 1:] * (1.0 - dones.float()) - values[..., :-1]")
    """CleanRL, ppo.py: delta = rewards[t] + gamma * nextvalues * nextnonterminal - values[t]"""


class RightGaeEnds(Right, of="gae_ends"):
    sum_of_td_errors = instead("""
        deltas = td_errors(rewards, values, dones, gamma)
        total, rows = torch.zeros_like(deltas[..., 0]), []
        for t in range(rewards.shape[-1] - 1, -1, -1):
            total = deltas[..., t] + gamma * torch.where(dones[..., t].bool(), 0.0, total)
            rows.insert(0, total)
        return GAEEnds(lam_0=deltas, lam_1=torch.stack(rows, dim=-1))
    """)
    """the expectations in the middle cancel: discounted TD errors"""
    recursion_on_the_last_axis = instead("""
        def waiting(t):
            if t == rewards.shape[-1]:
                return [values[..., t]]
            later = waiting(t + 1)
            return [rewards[..., t] + gamma * later[0].masked_fill(dones[..., t] != 0, 0.0), *later]

        return GAEEnds(td_errors(rewards, values, dones, gamma), torch.stack(waiting(0)[:-1], -1) - values[..., :-1])
    """)
    """a function that calls itself for what follows"""


class RightNStepAdvantages(Right, of="n_step_advantages"):
    by_the_definition = instead("""
        advantages = []
        for t in range(rewards.shape[-1]):
            last = min(t + n, rewards.shape[-1])
            total, ended = -values[..., t], torch.zeros_like(dones[..., t], dtype=torch.bool)
            for k in range(t, last):
                total = total + gamma ** (k - t) * rewards[..., k].masked_fill(ended, 0.0)
                ended = ended | dones[..., k].bool()
            advantages.append(total + gamma ** (last - t) * values[..., last].masked_fill(ended, 0.0))
        return torch.stack(advantages, dim=-1)
    """)
    """the sum in the docstring: n rewards, then the critic"""
    by_a_matrix_of_weights = instead("""
        deltas, steps = td_errors(rewards, values, dones, gamma), rewards.shape[-1]
        apart = torch.arange(steps) - torch.arange(steps).unsqueeze(1)
        episode = dones.long().cumsum(dim=-1) - dones.long()
        seen = (apart >= 0) & (apart < n) & (episode.unsqueeze(-1) == episode.unsqueeze(-2))
        weights = torch.where(seen, gamma ** apart.clamp(min=0).to(deltas.dtype), 0.0)
        return torch.einsum("...tk,...k->...t", weights, deltas)
    """)
    """one product with a matrix that holds gamma^(k - t) inside the episode and the n steps"""


class RightComputeGae(Right, of="compute_gae"):
    returns_first = instead("""
        returns = [values[..., -1]]
        for t in reversed(range(rewards.shape[-1])):
            later = (1 - lam) * values[..., t + 1] + lam * returns[0]
            returns.insert(0, rewards[..., t] + gamma * later.masked_fill(dones[..., t].bool(), 0.0))
        returns = torch.stack(returns[:-1], dim=-1)
        return AdvantagesAndReturns(returns - values[..., :-1], returns)
    """)
    """the lambda-returns by their own recursion, and the values subtracted at the end"""


class PublishedComputeGae(Published, of="compute_gae"):
    cleanrl = instead("""
        advantages = torch.zeros_like(rewards)
        lastgaelam = 0.0
        for t in reversed(range(rewards.shape[-1])):
            nextnonterminal = 1.0 - dones[..., t].float()
            delta = rewards[..., t] + gamma * values[..., t + 1] * nextnonterminal - values[..., t]
            advantages[..., t] = lastgaelam = delta + gamma * lam * nextnonterminal * lastgaelam
        return AdvantagesAndReturns(advantages, advantages + values[..., :-1])
    """)
    """CleanRL, ppo.py; here dones[t] is the end of step t itself"""


class RightComputeResponseGae(Right, of="compute_response_gae"):
    one_long_episode_after_another = instead("""
        real_from_here = mask.flip(1).cumsum(dim=1).flip(1)
        dones, kept = (real_from_here == 1)[mask], values[mask]
        found = compute_gae(rewards[mask], torch.cat([kept, kept.new_zeros(1)]), dones, gamma, lam)
        advantages, returns = (torch.zeros_like(values).masked_scatter(mask, part) for part in found)
        return AdvantagesAndReturns(advantages, returns)
    """)
    """the real tokens of all rows as one rollout of many episodes, with a done at the end of each"""


class PublishedComputeResponseGae(Published, of="compute_response_gae"):
    trl = instead("""
        values, rewards = torch.masked_fill(values, ~mask, 0), torch.masked_fill(rewards, ~mask, 0)
        lastgaelam = 0
        advantages_reversed = []
        gen_length = mask.shape[1]
        for t in reversed(range(gen_length)):
            nextvalues = values[:, t + 1] if t < gen_length - 1 else 0.0
            delta = rewards[:, t] + gamma * nextvalues - values[:, t]
            lastgaelam = delta + gamma * lam * lastgaelam
            advantages_reversed.append(lastgaelam)
        advantages = torch.stack(advantages_reversed[::-1], axis=1)
        returns = advantages + values
        return AdvantagesAndReturns(torch.masked_fill(advantages, ~mask, 0), returns)
    """)
    """TRL, ppo_trainer.py; its whitening is left out"""
    verl = instead("""
        nextvalues, lastgaelam = 0, 0
        advantages_reversed = []
        response_mask = mask.to(values.dtype)
        for t in reversed(range(rewards.shape[-1])):
            delta = rewards[:, t] + gamma * nextvalues - values[:, t]
            lastgaelam_ = delta + gamma * lam * lastgaelam
            nextvalues = values[:, t] * response_mask[:, t] + (1 - response_mask[:, t]) * nextvalues
            lastgaelam = lastgaelam_ * response_mask[:, t] + (1 - response_mask[:, t]) * lastgaelam
            advantages_reversed.append(lastgaelam)
        advantages = torch.stack(advantages_reversed[::-1], dim=1)
        return AdvantagesAndReturns(advantages * response_mask, (advantages + values) * response_mask)
    """)
    """verl, compute_gae_advantage_return; its whitening is left out, and masked tokens are 0 as the contract says"""
