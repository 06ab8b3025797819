"""Mistakes in lesson 3, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first, instead

WRONG = "What people get wrong"


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
