"""Other ways to write the advantages. All of them must pass."""

from __future__ import annotations

from testcases.engine import Right, edit, instead


class TdErrors(Right, of="td_errors"):
    by_a_loop = instead(
        """
        deltas = []
        for t in range(rewards.shape[-1]):
            next_value = torch.where(dones[..., t].bool(), 0.0, values[..., t + 1])
            deltas.append(rewards[..., t] + gamma * next_value - values[..., t])
        return torch.stack(deltas, dim=-1)
        """,
        why="step by step, the next value chosen with where",
    )
    chosen_at_the_end = instead(
        "return torch.where(dones.bool(), rewards, rewards + gamma * values[..., 1:]) - values[..., :-1]",
        why="two targets, with the bootstrap and without, and where chooses between them",
    )
    zeros_written_into_a_copy = instead(
        """
        next_values = values[..., 1:].clone()
        next_values[dones != 0] = 0.0
        return rewards + gamma * next_values - values[..., :-1]
        """,
        why="the values behind a done are overwritten, in a copy",
    )
    another_order = edit(
        "rewards + gamma * next_values - values[..., :-1]",
        "torch.add(rewards.sub(values[..., :-1]), next_values, alpha=gamma)",
        why="the same sum in another order, and with torch's names",
    )
    in_float64_rounded_once = instead(
        """
        before, after = values.double()[..., :-1], values.double()[..., 1:]
        return (rewards.double() + gamma * after.masked_fill(dones.bool(), 0.0) - before).to(rewards.dtype)
        """,
        why="computed in float64 and rounded once, at the end",
    )


class NStepAdvantages(Right, of="n_step_advantages"):
    by_the_definition = instead(
        """
        advantages = []
        for t in range(rewards.shape[-1]):
            last = min(t + n, rewards.shape[-1])
            total, ended = -values[..., t], torch.zeros_like(dones[..., t], dtype=torch.bool)
            for k in range(t, last):
                total = total + gamma ** (k - t) * rewards[..., k].masked_fill(ended, 0.0)
                ended = ended | dones[..., k].bool()
            advantages.append(total + gamma ** (last - t) * values[..., last].masked_fill(ended, 0.0))
        return torch.stack(advantages, dim=-1)
        """,
        why="the sum in the docstring: n rewards, then the critic",
    )
    returns_first = instead(
        """
        returns = values
        for _ in range(min(n, rewards.shape[-1])):
            later = returns[..., 1:].masked_fill(dones.bool(), 0.0)
            returns = torch.cat([rewards + gamma * later, values[..., -1:]], dim=-1)
        return returns[..., :-1] - values[..., :-1]
        """,
        why="the n-step returns by their own recursion, and the values subtracted at the end",
    )
    by_recursion = instead(
        """
        deltas = td_errors(rewards, values, dones, gamma)
        if n == 1 or rewards.shape[-1] == 1:
            return deltas
        ahead = n_step_advantages(rewards, values, dones, min(n, rewards.shape[-1]) - 1, gamma)
        later = torch.nn.functional.pad(ahead[..., 1:], (0, 1)).masked_fill(dones.bool(), 0.0)
        return deltas + gamma * later
        """,
        why="the function calls itself for n - 1 steps",
    )
    sum_of_td_errors = instead(
        """
        steps = rewards.shape[-1]
        shifted = td_errors(rewards, values, dones, gamma)
        ended = torch.zeros_like(dones, dtype=torch.bool)
        total, factor = shifted, 1.0
        for k in range(1, min(n, steps)):
            before = dones[..., k - 1 :].bool()
            ended = ended | torch.nn.functional.pad(before, (0, k - 1), value=True)
            shifted = torch.nn.functional.pad(shifted[..., 1:], (0, 1))
            factor *= gamma
            total = total + factor * shifted.masked_fill(ended, 0.0)
        return total
        """,
        why="the TD errors ahead, each shifted into place and discounted, up to the end of the episode",
    )
    by_a_matrix_of_weights = instead(
        """
        deltas, steps = td_errors(rewards, values, dones, gamma), rewards.shape[-1]
        apart = torch.arange(steps) - torch.arange(steps).unsqueeze(1)
        episode = dones.long().cumsum(dim=-1) - dones.long()
        seen = (apart >= 0) & (apart < n) & (episode.unsqueeze(-1) == episode.unsqueeze(-2))
        weights = torch.where(seen, gamma ** apart.clamp(min=0).to(deltas.dtype), 0.0)
        return torch.einsum("...tk,...k->...t", weights, deltas)
        """,
        why="one product with a matrix that holds gamma^(k - t) inside the episode and the n steps",
    )


class ComputeGae(Right, of="compute_gae"):
    written_into_a_tensor = instead(
        """
        deltas = td_errors(rewards, values, dones, gamma)
        advantages, carry = torch.zeros_like(deltas), 0.0
        for t in range(deltas.shape[-1] - 1, -1, -1):
            carry = deltas[..., t] + torch.where(dones[..., t].bool(), 0.0, gamma * lam * carry)
            advantages[..., t] = carry
        return AdvantagesAndReturns(advantages=advantages, returns=advantages + values[..., :-1])
        """,
        why="the advantages are written into a tensor of zeros",
    )
    factor_of_the_formula = edit(
        "advantage.masked_fill(dones[..., t].bool(), 0.0)",
        "(1 - dones[..., t].to(deltas.dtype)) * advantage",
        why="the carry is multiplied by 1 - dones[t], as the formula has it",
    )
    returns_first = instead(
        """
        returns = [values[..., -1]]
        for t in reversed(range(rewards.shape[-1])):
            later = (1 - lam) * values[..., t + 1] + lam * returns[0]
            returns.insert(0, rewards[..., t] + gamma * later.masked_fill(dones[..., t].bool(), 0.0))
        returns = torch.stack(returns[:-1], dim=-1)
        return AdvantagesAndReturns(returns - values[..., :-1], returns)
        """,
        why="the lambda-returns by their own recursion, and the values subtracted at the end",
    )
    mix_of_n_step_advantages = instead(
        """
        steps = rewards.shape[-1]
        deltas = td_errors(rewards, values, dones, gamma)
        ahead = mix = torch.zeros_like(deltas)
        for n in range(1, steps + 1):
            later = torch.cat([ahead[..., 1:], torch.zeros_like(ahead[..., :1])], dim=-1)
            ahead = deltas + gamma * later.masked_fill(dones.bool(), 0.0)
            mix = mix + (1 - lam if n < steps else 1.0) * lam ** (n - 1) * ahead
        return AdvantagesAndReturns(mix, mix + values[..., :-1])
        """,
        why="the definition: (1 - lam) lam^(n - 1) times the n-step advantages, the rest of the weight on the last",
    )
    by_a_matrix_of_weights = instead(
        """
        deltas, steps = td_errors(rewards, values, dones, gamma), rewards.shape[-1]
        apart = torch.arange(steps) - torch.arange(steps).unsqueeze(1)
        episode = dones.long().cumsum(dim=-1) - dones.long()
        seen = (apart >= 0) & (episode.unsqueeze(-1) == episode.unsqueeze(-2))
        weights = torch.where(seen, (gamma * lam) ** apart.clamp(min=0).to(deltas.dtype), 0.0)
        advantages = (weights @ deltas.unsqueeze(-1)).squeeze(-1)
        return AdvantagesAndReturns(advantages, advantages + values[..., :-1])
        """,
        why="one product with a matrix that holds (gamma lam)^(k - t) inside the episode",
    )
    in_float64_rounded_once = instead(
        """
        deltas = td_errors(rewards.double(), values.double(), dones, gamma)
        advantages = [deltas[..., -1]]
        for delta, done in list(zip(deltas.unbind(-1), dones.bool().unbind(-1)))[-2::-1]:
            advantages.append(delta + gamma * lam * advantages[-1].masked_fill(done, 0.0))
        advantages = torch.stack(advantages, dim=-1).flip(-1)
        returns = advantages + values[..., :-1]
        return AdvantagesAndReturns(advantages.to(rewards.dtype), returns.to(rewards.dtype))
        """,
        why="computed in float64 and rounded once, at the end",
    )


class ComputeResponseGae(Right, of="compute_response_gae"):
    row_by_row = instead(
        """
        advantages = torch.zeros_like(rewards)
        for row, real in enumerate(mask):
            if real.any():
                kept = torch.cat([values[row, real], values.new_zeros(1)])
                dones = torch.zeros_like(rewards[row, real])
                advantages[row, real] = compute_gae(rewards[row, real], kept, dones, gamma, lam).advantages
        return AdvantagesAndReturns(advantages, advantages + torch.where(mask, values, 0.0))
        """,
        why="each row alone: its real tokens, and compute_gae with 0 after the last",
    )
    packed_to_the_left = instead(
        """
        order = mask.long().argsort(dim=1, descending=True, stable=True)
        rewards, values = torch.where(mask, rewards, 0.0), torch.where(mask, values, 0.0)
        after = torch.zeros_like(values[:, :1])
        packed_values = torch.cat([values.gather(1, order), after], dim=1)
        packed = compute_gae(rewards.gather(1, order), packed_values, torch.zeros_like(mask), gamma, lam)
        advantages = torch.zeros_like(rewards).scatter(1, order, packed.advantages).masked_fill(~mask, 0.0)
        return AdvantagesAndReturns(advantages, advantages + values)
        """,
        why="the real tokens are moved to the left, compute_gae runs over the batch, and each moves back",
    )
    arithmetic_in_place_of_where = instead(
        """
        rewards, values, keep = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0), mask.to(rewards.dtype)
        advantages, next_value, carry = [], 0.0, 0.0
        for t in range(mask.shape[1] - 1, -1, -1):
            delta = rewards[:, t] + gamma * next_value - values[:, t]
            carry = keep[:, t] * (delta + gamma * lam * carry) + (1 - keep[:, t]) * carry
            next_value = values[:, t] + (1 - keep[:, t]) * next_value
            advantages.insert(0, keep[:, t] * carry)
        advantages = torch.stack(advantages, dim=1)
        return AdvantagesAndReturns(advantages, advantages + values)
        """,
        why="the padding is filled first, so multiplying by the mask is harmless from then on",
    )
    returns_first = instead(
        """
        rewards, values = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)
        later, returns = torch.zeros_like(values[:, 0]), torch.zeros_like(values)
        for t in reversed(range(mask.shape[1])):
            returns[:, t] = torch.where(mask[:, t], rewards[:, t] + gamma * later, 0.0)
            later = torch.where(mask[:, t], (1 - lam) * values[:, t] + lam * returns[:, t], later)
        return AdvantagesAndReturns(returns - values, returns)
        """,
        why="the lambda-returns by their own recursion, and the values subtracted at the end",
    )
    by_a_matrix_of_weights = instead(
        """
        values = values.masked_fill(~mask, 0.0)
        place = mask.cumsum(dim=1)
        apart = place.unsqueeze(1) - place.unsqueeze(2)
        pairs = mask.unsqueeze(1) & mask.unsqueeze(2)
        next_values = ((pairs & (apart == 1)).to(values.dtype) @ values.unsqueeze(2)).squeeze(2)
        deltas = rewards.masked_fill(~mask, 0.0) + gamma * next_values - values
        weights = ((gamma * lam) ** apart.clamp(min=0).to(values.dtype)).masked_fill(~(pairs & (apart >= 0)), 0.0)
        advantages = torch.einsum("btk,bk->bt", weights, deltas)
        return AdvantagesAndReturns(advantages, advantages + values)
        """,
        why="without a loop: real tokens are numbered, and a matrix holds (gamma lam)^(places apart)",
    )
    in_float64_rounded_once = edit(
        "rewards, values = rewards.masked_fill(~mask, 0.0), values.masked_fill(~mask, 0.0)",
        "dtype = rewards.dtype\n"
        "rewards, values = rewards.double().masked_fill(~mask, 0.0), values.double().masked_fill(~mask, 0.0)",
        "(stacked, stacked + values)",
        "(stacked.to(dtype), (stacked + values).to(dtype))",
        why="computed in float64 and rounded once, at the end",
    )
