"""Mistakes in lesson 3, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first, instead

WRONG = "What people get wrong"


class RewardsToGo(Wrong, of="rewards_to_go"):
    whole_return_for_every_token = edit("torch.stack(to_go[::-1], dim=1) => to_go_t.unsqueeze(1).expand_as(rewards)")
    """every token gets the return of the whole response, even the rewards that came before it"""
    answer_in_reverse_order = edit("[::-1] => ")
    """you fill the list from the last token on and never reverse it"""
    rewards_so_far = edit("reversed(range(rewards.shape[1])) => range(rewards.shape[1])", "[::-1] => ")
    """you sum forwards, so a token gets the rewards of its past, which it can no longer change"""
    gamma_ignored = first("gamma = 1.0")
    """gamma is never used, so later rewards count as much as this one"""

    own_reward_left_out = edit("torch.stack(to_go[::-1], dim=1) => (torch.stack(to_go[::-1], dim=1) - rewards)")
    """you leave out the token's own reward, so the sum begins one token too late"""
    stored_before_the_reward = edit(
        "to_go_t = torch.where => to_go.append(to_go_t)\n    to_go_t = torch.where",
        "to_go_t)\n    to_go.append(to_go_t)\nreturn => to_go_t)\nreturn",
    )
    """you store the sum before the token's own reward is in it, so it holds only what comes after"""
    own_reward_discounted = edit("rewards[:, t] + gamma * to_go_t => gamma * (rewards[:, t] + to_go_t)")
    """the token's own reward is discounted as well, but it comes now, so its factor is 1"""
    discounted_from_the_first_token = edit(
        "gamma * to_go_t => to_go_t",
        "to_go = [] => rewards = rewards * gamma ** (mask.cumsum(dim=1) - 1).to(rewards.dtype)\nto_go = []",
    )
    """you discount from the start of the response, but gamma counts the tokens from t on"""
    gap_decays = edit(
        "torch.where(mask[:, t], rewards[:, t] + gamma * to_go_t, to_go_t) => rewards[:, t] + gamma * to_go_t"
    )
    """gamma is applied in each column, so a gap also discounts what follows it, and it should be skipped"""
    gap_ends_the_sum = edit(", to_go_t) => , 0.0)")
    """a False inside a row ends the sum, so the rewards after it don't reach the tokens before it"""
    padding_earns = edit(
        "rewards.masked_fill(~mask, 0.0) => rewards",
        "torch.where(mask[:, t], rewards[:, t] + gamma * to_go_t, to_go_t) => rewards[:, t] + gamma * to_go_t",
    )
    """you sum values under the mask as well, but padding and a tool's token earn nothing"""
    mask_multiplied = edit(
        "rewards.masked_fill(~mask, 0.0) => rewards * mask",
        "torch.where(mask[:, t], rewards[:, t] + gamma * to_go_t, to_go_t) => "
        "rewards[:, t] + gamma ** mask[:, t].to(rewards.dtype) * to_go_t",
        ".masked_fill(~mask, 0.0) =>  * mask",
        read=WRONG,
    )
    """you multiply by the mask, but 0 * NaN is NaN; select with masked_fill or where"""
    padding_left_filled = edit("dim=1).masked_fill(~mask, 0.0) => dim=1)")
    """masked places hold the sum carried from later tokens, but the answer should be 0 where the mask is False"""


class LeaveOneOutBaseline(Wrong, of="leave_one_out_baseline"):
    mean_of_all = instead("return scores.mean(dim=1, keepdim=True).expand_as(scores)")
    """the mean is over all K scores, the response's own included, so the gradient shrinks by (K - 1) / K"""
    divided_by_k = edit("(scores.shape[1] - 1) => scores.shape[1]")
    """you sum the others but divide by K, and there are only K - 1 of them"""
    own_score_not_taken_out = edit(" - scores) => ).expand_as(scores)")
    """you sum all K scores and divide by K - 1; take the response's own score out first"""
    sum_of_the_others = edit(" / (scores.shape[1] - 1) => ")
    """you sum the others but don't average them; divide by K - 1"""
    mean_over_the_prompts = edit("dim=1 => dim=0", "scores.shape[1] - 1 => len(scores) - 1")
    """you average over the prompts, but the other responses to the same prompt are in the same row"""
    mean_of_the_batch_without_this_one = edit("sum(dim=1, keepdim=True) => sum()", "scores.shape[1] => scores.numel()")
    """you average over the whole batch, but another prompt's scores say nothing about this prompt"""
    advantage_returned = edit("return => return scores -")
    """the baseline is already subtracted here, but you should return it, because the caller subtracts"""
    mean_of_the_earlier = instead("return (scores.cumsum(dim=1) - scores) / torch.arange(scores.shape[1]).clamp(min=1)")
    """you average only the responses before this one, but all K - 1 others count"""


class ReinforceLoss(Wrong, of="reinforce_loss"):
    good_tokens_made_rare = edit("-masked_mean => masked_mean")
    """the minus sign is missing, so minimizing this loss makes good tokens less likely"""
    mean_over_padding_too = edit("masked_mean(weights * log_probs, mask) => (weights * log_probs).mean()")
    """the mean is over all columns, so padding shrinks the loss, and it should be over real tokens only"""
    summed_over_tokens = edit("masked_mean(weights * log_probs, mask) => (weights * log_probs).sum()")
    """the tokens are summed, not averaged, so the step grows with the number of tokens in the batch"""
    mean_of_row_means = edit(
        "return -masked_mean(weights * log_probs, mask) => "
        "rows = mask.any(dim=1)\n"
        "return -((weights * log_probs).sum(dim=1)[rows] / mask.sum(dim=1)[rows]).mean()"
    )
    """each row is averaged first, so a token of a short response counts more than another"""
    divided_by_the_rows = edit("masked_mean(weights * log_probs, mask) => (weights * log_probs).sum() / len(weights)")
    """the sum is divided by the number of rows, but it should be divided by the number of real tokens"""
    weights_not_detached = edit(".detach() => ")
    """a gradient flows into the weights, but they are plain data here, so detach them"""
    probabilities_weighted = edit("weights * log_probs => weights * log_probs.exp()")
    """probabilities are used instead of log-probs, but the gradient is E[weight * grad log p]"""
    means_multiplied = edit(
        "masked_mean(weights * log_probs, mask) => masked_mean(weights, mask) * masked_mean(log_probs, mask)"
    )
    """you multiply the mean of the weights by the mean of the log-probs, but each token needs a product of its own"""
    weights_ignored = edit("weights *  => ")
    """you don't use the weights, so this is supervised training on the policy's own samples"""
    weights_centred = edit("weights * log_probs => (weights - masked_mean(weights, mask)) * log_probs", read=WRONG)
    """the weights' mean is subtracted here, but a baseline is the caller's choice"""
    only_good_tokens = edit("weights * log_probs => weights.clamp(min=0.0) * log_probs")
    """you leave out bad tokens, but a negative weight has to make its token less likely"""
    loss_mask_multiplied = instead("return -(weights.detach() * log_probs * mask).sum() / mask.sum()", read=WRONG)
    """you multiply by the mask, but 0 * NaN is NaN; select before you compute"""
    selected_after_the_product = instead("return -masked_mean(weights.detach() * log_probs, mask)", read=WRONG)
    """you select after the product, so the value is right, but in the backward pass 0 * NaN leaks into log_probs"""
