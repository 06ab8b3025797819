"""Other right ways to write lesson 3, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, edit, instead


class RightRewardsToGo(Right, of="rewards_to_go"):
    row_by_row = instead("""
        to_go = torch.zeros_like(rewards)
        for row in range(len(rewards)):
            total = 0.0
            for t in mask[row].nonzero().flatten().tolist()[::-1]:
                total = rewards[row, t] + gamma * total
                to_go[row, t] = total
        return to_go
    """)
    """two loops, over the rows and over the real tokens of each"""
    by_the_powers_of_gamma = instead("""
        to_go = torch.zeros_like(rewards)
        for row, real in enumerate(mask):
            kept = rewards[row][real]
            powers = torch.tensor([gamma**k for k in range(len(kept))], dtype=rewards.dtype)
            sums = [(powers[: len(kept) - t] * kept[t:]).sum() for t in range(len(kept))]
            to_go[row, real] = torch.stack(sums) if sums else kept
        return to_go
    """)
    """the sum itself: gamma^0, gamma^1, ... times the rewards from each token on"""
    by_a_matrix_of_weights = instead("""
        place = mask.cumsum(dim=1)
        apart = place.unsqueeze(1) - place.unsqueeze(2)
        later = mask.unsqueeze(1) & mask.unsqueeze(2) & (apart >= 0)
        weights = torch.where(later, gamma ** apart.clamp(min=0).to(rewards.dtype), 0.0)
        return torch.einsum("btk,bk->bt", weights, rewards.masked_fill(~mask, 0.0))
    """)
    """without a loop: real tokens are numbered, and a matrix holds gamma^(places apart)"""
    factor_1_in_a_gap = instead("""
        rewards = torch.where(mask, rewards, 0.0)
        factors = gamma ** mask.to(rewards.dtype)
        to_go = torch.zeros_like(rewards)
        carry = torch.zeros_like(rewards[:, 0])
        for t in range(rewards.shape[1] - 1, -1, -1):
            carry = rewards[:, t] + factors[:, t] * carry
            to_go[:, t] = carry
        return to_go.where(mask, 0.0)
    """)
    """a gap has reward 0 and factor 1; the sums are written into a tensor of zeros"""
    packed_to_the_left = instead("""
        order = mask.long().argsort(dim=1, descending=True, stable=True)
        packed = rewards.masked_fill(~mask, 0.0).gather(1, order)
        sums = [packed[:, -1]]
        for column in packed.unbind(1)[-2::-1]:
            sums.append(column + gamma * sums[-1])
        return torch.zeros_like(rewards).scatter(1, order, torch.stack(sums, 1).flip(1)) * mask
    """)
    """the real tokens are moved to the left, summed without any mask, and moved back"""
    in_float64_rounded_once = edit(
        "rewards = rewards.masked_fill(~mask, 0.0)",
        "dtype, rewards = rewards.dtype, rewards.double().masked_fill(~mask, 0.0)",
        "dim=1).masked_fill(~mask, 0.0)",
        "dim=1).masked_fill(~mask, 0.0).to(dtype)",
    )
    """computed in float64 and rounded once, at the end"""
    doubled_in_log_steps = instead("""
        from torch.nn.functional import pad

        order = (~mask).long().argsort(dim=1, stable=True)
        x = rewards.masked_fill(~mask, 0.0).gather(1, order)
        step = 1
        while step < x.shape[1]:
            x = x + gamma**step * pad(x, (0, step))[:, step:]
            step *= 2
        return torch.zeros_like(x).scatter(1, order, x).masked_fill(~mask, 0.0)
    """)
    """after k steps each token has summed 2^k of those to come"""


class RightLeaveOneOutBaseline(Right, of="leave_one_out_baseline"):
    one_deleted = instead("""
        means = [torch.cat([scores[:, :i], scores[:, i + 1 :]], dim=1).mean(dim=1) for i in range(scores.shape[1])]
        return torch.stack(means, dim=1)
    """)
    """the docstring's own sentence: delete one response and take the mean of the others"""
    by_a_matrix = instead("""
        count = scores.shape[1]
        others = 1 - torch.eye(count, dtype=scores.dtype, device=scores.device)
        return scores @ (others / (count - 1))
    """)
    """a product with a matrix: 0 on the diagonal, 1 / (K - 1) beside it"""
    from_the_mean_of_all = instead("""
        count, mean = scores.shape[1], scores.mean(dim=1, keepdim=True)
        return (count * mean - scores) / (count - 1)
    """)
    """K times the mean is the sum"""
    times_the_reciprocal = edit("/ (scores.shape[1] - 1)", "* (1 / (scores.shape[1] - 1))")
    """multiplied by 1 / (K - 1)"""
    own_score_masked_out = instead("""
        own = torch.eye(scores.shape[1], dtype=torch.bool)
        others = scores.unsqueeze(1).expand(-1, len(own), -1)[:, ~own].view(len(scores), len(own), -1)
        return others.mean(dim=-1)
    """)
    """a table (B, K, K - 1) of the others, and its mean"""
    from_the_centered_scores = instead("""
        count = scores.shape[1]
        return scores - (scores - scores.mean(dim=1, keepdim=True)) * count / (count - 1)
    """)
    """score minus baseline is K / (K - 1) times the distance from the mean"""
    in_float64_rounded_once = instead("""
        wide = scores.to(torch.float64)
        return ((wide.sum(1, keepdim=True) - wide) / (wide.size(1) - 1)).to(scores.dtype)
    """)
    """computed in float64 and rounded once, at the end"""


class RightReinforceLoss(Right, of="reinforce_loss"):
    selected_first = instead("return -(weights[mask].detach() * log_probs[mask]).mean()")
    """the real tokens are selected before anything is computed"""
    sum_over_count = edit("masked_mean(weights * log_probs, mask)", "(weights * log_probs).sum() / mask.sum()")
    """the padding is 0 by now, so the plain sum is right; divided by the number of real tokens"""
    dot_product = instead("""
        with torch.no_grad():
            weights = weights.masked_select(mask)
        return -torch.dot(weights, log_probs.masked_select(mask)) / len(weights)
    """)
    """a dot product of the real tokens, the weights taken under no_grad"""
    token_by_token = instead("""
        losses = []
        for row, column in mask.nonzero().tolist():
            losses.append(-log_probs[row, column] * weights[row, column].detach())
        return sum(losses) / len(losses)
    """)
    """a loop over the real tokens, with Python's sum"""
    share_of_each_token = instead("""
        shares = torch.where(mask, weights.detach(), 0.0) / mask.sum()
        return torch.einsum("bt,bt->", -shares, log_probs.where(mask, 0.0))
    """)
    """each weight is divided by the number of real tokens before the sum"""
    in_float64_rounded_once = instead(
        "return -(weights.detach().double()[mask] * log_probs.double()[mask]).mean().to(log_probs.dtype)"
    )
    """computed in float64 and rounded once, at the end"""


class PublishedRewardsToGo(Published, of="rewards_to_go"):
    openrlhf = instead("""
        rewards = mask * rewards
        returns = torch.zeros_like(rewards)
        cumulative_return = torch.zeros(rewards.size(0), dtype=rewards.dtype, device=rewards.device)
        for t in reversed(range(rewards.size(1))):
            cumulative_return = rewards[:, t] + gamma * cumulative_return
            returns[:, t] = cumulative_return
        return returns
    """)
    """OpenRLHF, get_cumulative_returns"""
    verl = instead("""
        returns = torch.zeros_like(rewards)
        running_return = 0
        for t in reversed(range(rewards.shape[1])):
            running_return = rewards[:, t] + gamma * running_return
            returns[:, t] = running_return
            running_return = running_return * mask[:, t]
        return returns * mask
    """)
    """verl, REINFORCE++; masked tokens are 0 as the contract says"""


class PublishedReinforceLoss(Published, of="reinforce_loss"):
    spinning_up = instead("""
        return -(log_probs * weights)[mask].mean()
    """)
    """Spinning Up, compute_loss: -(logp * weights).mean(), over the real tokens"""
    openrlhf = instead("""
        loss = -log_probs * weights
        return (loss * mask).sum() / mask.sum()
    """)
    """OpenRLHF's masked_mean"""
