"""Other ways to write the policy gradient. All of them must pass."""

from __future__ import annotations

from testcases.engine import Right, edit, instead


class RewardsToGo(Right, of="rewards_to_go"):
    row_by_row = instead(
        """
        to_go = torch.zeros_like(rewards)
        for row in range(len(rewards)):
            total = 0.0
            for t in mask[row].nonzero().flatten().tolist()[::-1]:
                total = rewards[row, t] + gamma * total
                to_go[row, t] = total
        return to_go
        """,
        why="two loops, over the rows and over the real tokens of each",
    )
    by_the_powers_of_gamma = instead(
        """
        to_go = torch.zeros_like(rewards)
        for row, real in enumerate(mask):
            kept = rewards[row][real]
            powers = torch.tensor([gamma**k for k in range(len(kept))], dtype=rewards.dtype)
            sums = [(powers[: len(kept) - t] * kept[t:]).sum() for t in range(len(kept))]
            to_go[row, real] = torch.stack(sums) if sums else kept
        return to_go
        """,
        why="the sum itself: gamma^0, gamma^1, ... times the rewards from each token on",
    )
    by_a_matrix_of_weights = instead(
        """
        place = mask.cumsum(dim=1)
        apart = place.unsqueeze(1) - place.unsqueeze(2)
        later = mask.unsqueeze(1) & mask.unsqueeze(2) & (apart >= 0)
        weights = torch.where(later, gamma ** apart.clamp(min=0).to(rewards.dtype), 0.0)
        return torch.einsum("btk,bk->bt", weights, rewards.masked_fill(~mask, 0.0))
        """,
        why="without a loop: real tokens are numbered, and a matrix holds gamma^(places apart)",
    )
    factor_1_in_a_gap = instead(
        """
        rewards = torch.where(mask, rewards, 0.0)
        factors = gamma ** mask.to(rewards.dtype)
        to_go = torch.zeros_like(rewards)
        carry = torch.zeros_like(rewards[:, 0])
        for t in range(rewards.shape[1] - 1, -1, -1):
            carry = rewards[:, t] + factors[:, t] * carry
            to_go[:, t] = carry
        return to_go.where(mask, 0.0)
        """,
        why="a gap has reward 0 and factor 1; the sums are written into a tensor of zeros",
    )
    packed_to_the_left = instead(
        """
        order = mask.long().argsort(dim=1, descending=True, stable=True)
        packed = rewards.masked_fill(~mask, 0.0).gather(1, order)
        sums = [packed[:, -1]]
        for column in packed.unbind(1)[-2::-1]:
            sums.append(column + gamma * sums[-1])
        return torch.zeros_like(rewards).scatter(1, order, torch.stack(sums, 1).flip(1)) * mask
        """,
        why="the real tokens are moved to the left, summed without any mask, and moved back",
    )
    in_float64_rounded_once = edit(
        "rewards = rewards.masked_fill(~mask, 0.0)",
        "dtype, rewards = rewards.dtype, rewards.double().masked_fill(~mask, 0.0)",
        "dim=1).masked_fill(~mask, 0.0)",
        "dim=1).masked_fill(~mask, 0.0).to(dtype)",
        why="computed in float64 and rounded once, at the end",
    )


class LeaveOneOutBaseline(Right, of="leave_one_out_baseline"):
    one_deleted = instead(
        """
        means = [torch.cat([scores[:, :i], scores[:, i + 1 :]], dim=1).mean(dim=1) for i in range(scores.shape[1])]
        return torch.stack(means, dim=1)
        """,
        why="the docstring's own sentence: delete one response and take the mean of the others",
    )
    by_a_matrix = instead(
        """
        count = scores.shape[1]
        others = 1 - torch.eye(count, dtype=scores.dtype, device=scores.device)
        return scores @ (others / (count - 1))
        """,
        why="a product with a matrix: 0 on the diagonal, 1 / (K - 1) beside it",
    )
    from_the_mean_of_all = instead(
        """
        count, mean = scores.shape[1], scores.mean(dim=1, keepdim=True)
        return (count * mean - scores) / (count - 1)
        """,
        why="K times the mean is the sum",
    )
    times_the_reciprocal = edit(
        "/ (scores.shape[1] - 1)", "* (1 / (scores.shape[1] - 1))", why="multiplied by 1 / (K - 1)"
    )
    own_score_masked_out = instead(
        """
        own = torch.eye(scores.shape[1], dtype=torch.bool)
        others = scores.unsqueeze(1).expand(-1, len(own), -1)[:, ~own].view(len(scores), len(own), -1)
        return others.mean(dim=-1)
        """,
        why="a table (B, K, K - 1) of the others, and its mean",
    )
    from_the_centered_scores = instead(
        """
        count = scores.shape[1]
        return scores - (scores - scores.mean(dim=1, keepdim=True)) * count / (count - 1)
        """,
        why="score minus baseline is K / (K - 1) times the distance from the mean",
    )
    in_float64_rounded_once = instead(
        """
        wide = scores.to(torch.float64)
        return ((wide.sum(1, keepdim=True) - wide) / (wide.size(1) - 1)).to(scores.dtype)
        """,
        why="computed in float64 and rounded once, at the end",
    )


class ReinforceLoss(Right, of="reinforce_loss"):
    selected_first = instead(
        "return -(weights[mask].detach() * log_probs[mask]).mean()",
        why="the real tokens are selected before anything is computed",
    )
    sum_over_count = edit(
        "masked_mean(weights * log_probs, mask)",
        "(weights * log_probs).sum() / mask.sum()",
        why="the padding is 0 by now, so the plain sum is right; divided by the number of real tokens",
    )
    dot_product = instead(
        """
        with torch.no_grad():
            weights = weights.masked_select(mask)
        return -torch.dot(weights, log_probs.masked_select(mask)) / len(weights)
        """,
        why="a dot product of the real tokens, the weights taken under no_grad",
    )
    token_by_token = instead(
        """
        losses = []
        for row, column in mask.nonzero().tolist():
            losses.append(-log_probs[row, column] * weights[row, column].detach())
        return sum(losses) / len(losses)
        """,
        why="a loop over the real tokens, with Python's sum",
    )
    share_of_each_token = instead(
        """
        shares = torch.where(mask, weights.detach(), 0.0) / mask.sum()
        return torch.einsum("bt,bt->", -shares, log_probs.where(mask, 0.0))
        """,
        why="each weight is divided by the number of real tokens before the sum",
    )
    in_float64_rounded_once = instead(
        "return -(weights.detach().double()[mask] * log_probs.double()[mask]).mean().to(log_probs.dtype)",
        why="computed in float64 and rounded once, at the end",
    )
