"""What lesson 3 is asked, and wrong and right answers to it, as changes of the reference."""

import math

import torch

from testcases.harness.doubles.drawing import generator, normal_from, ragged_from
from testcases.harness.execution.messages import Request
from testcases.harness.oracle.mutations import Published, Right, Wrong, edit, first, instead
from testcases.harness.suite.checks import request
from tutorial.lesson03_policy_gradient import leave_one_out_baseline, reinforce_loss, rewards_to_go

WRONG = "What people get wrong"


def examples(seed: int) -> list[Request]:
    """O(1) numbers in float64; ragged rows, each with a gap in the first; B != T, B == T and one row."""
    draw = generator(seed)
    found = []
    for rows, steps, garbage in ((3, 6, None), (4, 4, None), (4, 7, math.nan), (1, 5, math.nan), (2, 3, 1e6)):
        mask = ragged_from(draw, rows, steps)
        rewards, log_probs, weights = (normal_from(draw, rows, steps) for _ in range(3))
        if garbage is not None:
            rewards, log_probs, weights = (x.masked_fill(~mask, garbage) for x in (rewards, log_probs, weights))
        gamma = 0.5 + 0.4 * float(torch.rand((), generator=draw))
        slopes = normal_from(draw, rows, steps)
        found += [
            request(rewards_to_go, rewards, mask, gamma, grad_of="rewards"),
            request(rewards_to_go, rewards, mask, gamma / 2, grad_of="rewards", grad_weights=slopes),
            request(rewards_to_go, rewards=rewards, mask=mask, grad_of="rewards"),
            request(reinforce_loss, log_probs, weights, mask, grad_of=("log_probs", "weights")),
            request(reinforce_loss, log_probs=log_probs - 2, weights=weights + 3, mask=mask, grad_of="log_probs"),
        ]
    # NaN in one of the two only.
    mask, log_probs, weights = ragged_from(draw, 3, 5), normal_from(draw, 3, 5), normal_from(draw, 3, 5)
    for pair in ((log_probs.masked_fill(~mask, math.nan), weights), (log_probs, weights.masked_fill(~mask, math.nan))):
        found.append(request(reinforce_loss, *pair, mask, grad_of=("log_probs", "weights")))
    full = torch.ones(3, 5, dtype=torch.bool)
    found += [
        request(rewards_to_go, weights, full, 0.8, grad_of="rewards"),
        request(reinforce_loss, log_probs, weights, full, grad_of=("log_probs", "weights")),
        request(rewards_to_go, weights.float(), mask, 0.8),
        request(reinforce_loss, log_probs.float(), weights.float(), mask),
    ]
    for prompts, responses in ((3, 5), (4, 4), (1, 3), (5, 2)):
        scores, slopes = normal_from(draw, prompts, responses), normal_from(draw, prompts, responses)
        found += [
            request(leave_one_out_baseline, scores, grad_of="scores", grad_weights=slopes),
            request(leave_one_out_baseline, scores=4 + scores.float()),
        ]
    # Plain ones: padding on the right, finite numbers in it.
    for rows, steps in ((3, 5), (4, 6)):
        mask = ragged_from(draw, rows, steps, gap=False)
        rewards, log_probs, weights = (normal_from(draw, rows, steps) for _ in range(3))
        found += [
            request(rewards_to_go, rewards, mask, 0.7, grad_of="rewards"),
            request(rewards_to_go, rewards=rewards, mask=mask, grad_of="rewards"),
            request(reinforce_loss, log_probs - 1, weights, mask, grad_of="log_probs"),
        ]
    return found


class RewardsToGo(Wrong, of="rewards_to_go"):
    whole_return_for_every_token = edit("torch.stack(to_go[::-1], dim=1)", "to_go_t.unsqueeze(1).expand_as(rewards)")
    """every token gets the return of the whole response, what came before it included"""
    answer_in_reverse_order = edit("[::-1]", "")
    """the list is filled from the last token on and never reversed"""
    rewards_so_far = edit("reversed(range(rewards.shape[1]))", "range(rewards.shape[1])", "[::-1]", "")
    """summed forwards: a token gets the rewards of its past, which it can no longer change"""
    gamma_ignored = first("gamma = 1.0")
    """gamma is never used: later rewards count as much as this one"""

    def default_gamma_of_099(rewards, mask, gamma=0.99):
        """gamma is 0.99 where it is not given; the default is 1 here"""
        from solutions.lesson03_policy_gradient import rewards_to_go

        return rewards_to_go(rewards, mask, gamma)

    own_reward_left_out = edit("torch.stack(to_go[::-1], dim=1)", "(torch.stack(to_go[::-1], dim=1) - rewards)")
    """the reward of the token itself is left out: the sum begins one too late"""
    own_reward_discounted = edit("rewards[:, t] + gamma * to_go_t", "gamma * (rewards[:, t] + to_go_t)")
    """the token's own reward is discounted as well: it comes now, with factor 1"""
    discounted_from_the_first_token = edit(
        "gamma * to_go_t",
        "to_go_t",
        "to_go = []",
        "rewards = rewards * gamma ** (mask.cumsum(dim=1) - 1).to(rewards.dtype)\nto_go = []",
    )
    """discounted from the start of the response: gamma counts the tokens from t on, not from the first"""
    looks_one_step_ahead = edit(
        "to_go_t = torch.where(mask[:, t], rewards[:, t] + gamma * to_go_t, to_go_t)",
        "to_go.append(rewards[:, t] + gamma * to_go_t)",
        "to_go.append(to_go_t)",
        "to_go_t = torch.where(mask[:, t], rewards[:, t], to_go_t)",
    )
    """only the next reward is added: the carry is the sum G[t + 1], not rewards[t + 1]"""
    only_the_final_reward_reaches_back = edit(
        "to_go = []",
        "last = mask & (mask.flip(1).cumsum(dim=1).flip(1) == 1)\n"
        "own, rewards = rewards.masked_fill(last, 0.0), rewards.masked_fill(~last, 0.0)\n"
        "to_go = []",
        "torch.stack(to_go[::-1], dim=1)",
        "(own + torch.stack(to_go[::-1], dim=1))",
    )
    """only the last reward is passed back: the rewards in between reach the earlier tokens as well"""
    gap_decays = edit(
        "torch.where(mask[:, t], rewards[:, t] + gamma * to_go_t, to_go_t)", "rewards[:, t] + gamma * to_go_t"
    )
    """gamma is applied in each column, so a gap discounts what follows: skip it instead"""
    gap_ends_the_sum = edit(", to_go_t)", ", 0.0)")
    """a gap ends the sum: nothing behind it reaches the tokens before it"""
    padding_earns = edit(
        "rewards.masked_fill(~mask, 0.0)",
        "rewards",
        "torch.where(mask[:, t], rewards[:, t] + gamma * to_go_t, to_go_t)",
        "rewards[:, t] + gamma * to_go_t",
    )
    """values under the mask are summed too: padding and a tool's token earn nothing"""
    mask_multiplied = edit(
        "rewards.masked_fill(~mask, 0.0)",
        "rewards * mask",
        "torch.where(mask[:, t], rewards[:, t] + gamma * to_go_t, to_go_t)",
        "rewards[:, t] + gamma ** mask[:, t].to(rewards.dtype) * to_go_t",
        ".masked_fill(~mask, 0.0)",
        " * mask",
        read=WRONG,
    )
    """the mask is multiplied in: 0 * NaN is NaN, so select with masked_fill or where"""
    mask_multiplied_at_the_end = edit(
        "rewards.masked_fill(~mask, 0.0)",
        "rewards",
        "torch.where(mask[:, t], rewards[:, t] + gamma * to_go_t, to_go_t)",
        "rewards[:, t] + gamma * to_go_t",
        ".masked_fill(~mask, 0.0)",
        " * mask",
        read=WRONG,
    )
    """the mask comes last: by then the padding is in the sums, and 0 * NaN is NaN; set it to 0 first, and skip it"""
    padding_left_filled = edit("dim=1).masked_fill(~mask, 0.0)", "dim=1)")
    """masked places keep the carry: the answer is 0 there"""
    mask_inverted = first("mask = ~mask")
    """the mask is taken for a padding mask: True is a real token"""
    summed_down_the_batch = edit(
        "rewards = rewards",
        "rewards, mask = rewards.T, mask.T\nrewards = rewards",
        "dim=1).masked_fill(~mask, 0.0)",
        "dim=1).masked_fill(~mask, 0.0).T",
    )
    """summed over the rows: time is dimension 1, the batch is dimension 0"""
    mean_to_go = edit(
        "torch.stack(to_go[::-1], dim=1)",
        "(torch.stack(to_go[::-1], dim=1) / mask.flip(1).cumsum(dim=1).flip(1).clamp(min=1))",
    )
    """divided by the number of tokens that are left: this is a mean, a sum is asked for"""
    padding_overwritten_in_place = edit("rewards.masked_fill(", "rewards.masked_fill_(", read=WRONG)
    """the caller's tensor is overwritten: masked_fill, not masked_fill_, and a new tensor for what is computed"""
    to_go_without_gradient = first("rewards = rewards.detach()", read=WRONG)
    """no gradient flows: nothing is detached here, the loss does that"""


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


class LeaveOneOutBaseline(Wrong, of="leave_one_out_baseline"):
    mean_of_all = instead("return scores.mean(dim=1, keepdim=True).expand_as(scores)")
    """the mean of all K, the score itself included: the gradient then shrinks by (K - 1) / K"""
    one_baseline_for_the_prompt = instead("return scores.mean(dim=1, keepdim=True)")
    """the mean of all K as one column (B, 1): each response has a baseline of its own"""
    divided_by_k = edit("(scores.shape[1] - 1)", "scores.shape[1]")
    """the others are summed but divided by K: there are only K - 1"""
    own_score_not_taken_out = edit(" - scores)", ").expand_as(scores)")
    """all K are summed and divided by K - 1: take the own score out first"""
    sum_of_the_others = edit(" / (scores.shape[1] - 1)", "")
    """the others are summed, not averaged: divide by K - 1"""
    mean_over_the_prompts = edit("dim=1", "dim=0", "scores.shape[1] - 1", "max(1, len(scores) - 1)")
    """averaged over the prompts: the other responses to the same prompt are in the same row"""
    mean_of_the_batch_without_this_one = edit("sum(dim=1, keepdim=True)", "sum()", "scores.shape[1]", "scores.numel()")
    """averaged over the whole batch: another prompt's scores say nothing about this prompt"""
    advantage_returned = edit("return", "return scores -")
    """the baseline is subtracted already: return the baseline, the caller subtracts"""
    score_of_the_neighbor = instead("return scores.roll(1, dims=1)")
    """each takes the score of its neighbor: one other response, not the mean of all"""
    best_of_the_others = instead(
        "own = torch.eye(scores.shape[1], dtype=torch.bool)\n"
        "return scores.unsqueeze(1).expand(-1, len(own), -1).masked_fill(own, -torch.inf).amax(dim=2)"
    )
    """the best of the others is taken: the baseline is their mean"""
    median_of_the_row = instead("return scores.median(dim=1, keepdim=True).values.expand_as(scores)")
    """the median of the row is taken: the baseline is the mean of the others"""
    minus_the_baseline = edit("return", "return -")
    """the sign is inverted: the caller subtracts, so the baseline itself is asked for"""
    mean_of_the_earlier = instead("return (scores.cumsum(dim=1) - scores) / torch.arange(scores.shape[1]).clamp(min=1)")
    """only the responses before this one are averaged: all K - 1 others count"""
    baseline_without_gradient = first("scores = scores.detach()", read=WRONG)
    """no gradient flows: nothing is detached here, the loss does that"""
    scores_changed_in_place = edit(
        "(scores.sum(dim=1, keepdim=True) - scores)", "scores.sub_(scores.sum(dim=1, keepdim=True)).neg_()", read=WRONG
    )
    """the caller's scores are changed in place: make a new tensor"""


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


class ReinforceLoss(Wrong, of="reinforce_loss"):
    good_tokens_made_rare = edit("-masked_mean", "masked_mean")
    """the sign is missing: descending this makes good tokens less likely, the loss is minus"""
    mean_over_padding_too = edit("masked_mean(weights * log_probs, mask)", "(weights * log_probs).mean()")
    """averaged over all columns: padding shrinks the loss, count real tokens only"""
    summed_over_tokens = edit("masked_mean(weights * log_probs, mask)", "(weights * log_probs).sum()")
    """summed, not averaged: the step then grows with the number of tokens in the batch"""
    mean_of_row_means = edit(
        "return -masked_mean(weights * log_probs, mask)",
        "rows = mask.any(dim=1)\nreturn -((weights * log_probs).sum(dim=1)[rows] / mask.sum(dim=1)[rows]).mean()",
    )
    """averaged in each row first: a token of a short response then counts more than another"""
    divided_by_the_rows = edit("masked_mean(weights * log_probs, mask)", "(weights * log_probs).sum() / len(weights)")
    """summed in each row and divided by the rows: divide by the number of real tokens"""
    divided_by_the_weights = edit(
        "masked_mean(weights * log_probs, mask)", "(weights * log_probs).sum() / weights.sum()"
    )
    """divided by the sum of the weights: divide by the number of real tokens"""
    loss_of_each_token = edit("masked_mean(weights * log_probs, mask)", "weights * log_probs")
    """not reduced: one number for each token, a scalar is asked for"""
    weights_not_detached = edit(".detach()", "")
    """a gradient flows into the weights: they are data, detach them, whoever made them"""
    neither_detached_nor_filled = instead("return -masked_mean(weights * log_probs, mask)")
    """two things are missing: the weights are not detached, and NaN padding is multiplied before it is left out"""
    not_detached_and_mask_multiplied = instead("return -(weights * log_probs * mask).sum() / mask.sum()")
    """two things are missing: the weights are not detached, and 0 * NaN is NaN, so fill before you multiply"""
    log_probs_detached = first("log_probs = log_probs.detach()")
    """the log-probs are detached: that is the one place where the gradient has to flow"""
    probabilities_weighted = edit("weights * log_probs", "weights * log_probs.exp()")
    """probabilities in place of log-probs: the gradient is E[weight * grad log p]"""
    weights_ignored = edit("weights * ", "")
    """the weights are not used: this is supervised training on the own samples"""
    weights_centred = edit("weights * log_probs", "(weights - masked_mean(weights, mask)) * log_probs", read=WRONG)
    """the weights are centred here: a baseline is the caller's choice, and not this one"""
    only_good_tokens = edit("weights * log_probs", "weights.clamp(min=0.0) * log_probs")
    """bad tokens are left out: a negative weight has to make its token less likely"""
    sign_of_the_weight_lost = edit("weights * log_probs", "weights.abs() * log_probs")
    """the size of the weight counts but not its sign: bad tokens are made more likely"""
    means_multiplied = edit(
        "masked_mean(weights * log_probs, mask)", "masked_mean(weights, mask) * masked_mean(log_probs, mask)"
    )
    """the mean of the weights times the mean of the log-probs: multiply token by token"""
    loss_mask_multiplied = instead("return -(weights.detach() * log_probs * mask).sum() / mask.sum()", read=WRONG)
    """the mask is multiplied in: 0 * NaN is NaN, so select before you compute"""
    selected_after_the_product = instead("return -masked_mean(weights.detach() * log_probs, mask)", read=WRONG)
    """selected after the product: the value is right, but in the backward pass 0 * NaN leaks into log_probs"""
    loss_mask_ignored = instead("return -(weights.detach() * log_probs).mean()")
    """the mask is not used: padding is trained on as if it had been sampled"""
    loss_mask_inverted = first("mask = ~mask")
    """the mask is taken for a padding mask: True is a real token"""


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
