"""Other right ways to write lesson 3, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, instead


class RightRewardsToGo(Right, of="rewards_to_go"):
    by_a_matrix_of_weights = instead("""
        place = mask.cumsum(dim=1)
        apart = place.unsqueeze(1) - place.unsqueeze(2)
        later = mask.unsqueeze(1) & mask.unsqueeze(2) & (apart >= 0)
        weights = torch.where(later, gamma ** apart.clamp(min=0).to(rewards.dtype), 0.0)
        return torch.einsum("btk,bk->bt", weights, rewards.masked_fill(~mask, 0.0))
    """)
    """without a loop: real tokens are numbered, and a matrix holds gamma^(places apart)"""


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


class RightReinforceLoss(Right, of="reinforce_loss"):
    token_by_token = instead("""
        losses = []
        for row, column in mask.nonzero().tolist():
            losses.append(-log_probs[row, column] * weights[row, column].detach())
        return sum(losses) / len(losses)
    """)
    """a loop over the real tokens, with Python's sum"""


class PublishedRewardsToGo(Published, of="rewards_to_go"):
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
    spinning_up = instead("return -(log_probs * weights)[mask].mean()")
    """Spinning Up, compute_loss: -(logp * weights).mean(), over the real tokens"""
