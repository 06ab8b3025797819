"""Wrong ideas about the policy gradient, as code. Each is rejected by the basic suite, and named when submitted."""

from __future__ import annotations

import torch

from testcases.engine import misconception

TO_GO = "rewards_to_go: what a token can still influence"
BASELINE = "leave_one_out_baseline: the mean of the others"
LOSS = "reinforce_loss: a loss with the right gradient"
WRONG = "What people get wrong"


def _sweep(rewards, mask, gamma):
    """The right recursion over the columns, before the padding is set to 0 again."""
    to_go, after = [], torch.zeros_like(rewards[:, 0])
    for t in reversed(range(rewards.shape[1])):
        after = torch.where(mask[:, t], rewards[:, t] + gamma * after, after)
        to_go.append(after)
    return torch.stack(to_go[::-1], dim=1)


def _to_go(rewards, mask, gamma):
    return _sweep(rewards.masked_fill(~mask, 0.0), mask, gamma).masked_fill(~mask, 0.0)


def _number_in_row(mask):
    """0 for the first real token of a row, 1 for the second, and so on."""
    return mask.cumsum(dim=1) - 1


# rewards_to_go


@misconception(
    "rewards_to_go", why="every token gets the return of the whole response, what came before it included", read=TO_GO
)
def whole_return_for_every_token(rewards, mask, gamma=1.0):
    rewards = rewards.masked_fill(~mask, 0.0)
    total = _sweep(rewards, mask, gamma)[:, :1]
    return total.expand_as(rewards).masked_fill(~mask, 0.0)


@misconception("rewards_to_go", why="the list is filled from the last token on and never turned round", read=TO_GO)
def answer_in_reverse_order(rewards, mask, gamma=1.0):
    return _sweep(rewards.masked_fill(~mask, 0.0), mask, gamma).flip(1).masked_fill(~mask, 0.0)


@misconception(
    "rewards_to_go", why="summed forwards: a token is paid for its past, which it can no longer change", read=TO_GO
)
def rewards_so_far(rewards, mask, gamma=1.0):
    return _to_go(rewards.flip(1), mask.flip(1), gamma).flip(1)


@misconception("rewards_to_go", why="gamma is never used: later rewards count as much as this one", read=TO_GO)
def gamma_ignored(rewards, mask, gamma=1.0):
    return _to_go(rewards, mask, 1.0)


@misconception("rewards_to_go", why="gamma is 0.99 where it is not given; the default is 1 here", read=TO_GO)
def default_gamma_of_099(rewards, mask, gamma=0.99):
    return _to_go(rewards, mask, gamma)


@misconception(
    "rewards_to_go", why="the reward of the token itself is left out: the sum begins one too late", read=TO_GO
)
def own_reward_left_out(rewards, mask, gamma=1.0):
    return _to_go(rewards, mask, gamma) - rewards.masked_fill(~mask, 0.0)


@misconception(
    "rewards_to_go", why="the token's own reward is discounted as well: it comes now, with factor 1", read=TO_GO
)
def own_reward_discounted(rewards, mask, gamma=1.0):
    return gamma * _to_go(rewards, mask, gamma)


@misconception(
    "rewards_to_go",
    why="discounted from the start of the response: gamma counts the tokens from t on, not from the first",
    read=TO_GO,
)
def discounted_from_the_first_token(rewards, mask, gamma=1.0):
    factors = gamma ** _number_in_row(mask).to(rewards.dtype)
    return _to_go(factors * rewards.masked_fill(~mask, 0.0), mask, 1.0)


@misconception(
    "rewards_to_go", why="only the next reward is added: the carry is the sum G[t + 1], not rewards[t + 1]", read=TO_GO
)
def looks_one_step_ahead(rewards, mask, gamma=1.0):
    rewards = rewards.masked_fill(~mask, 0.0)
    following, after = [], torch.zeros_like(rewards[:, 0])
    for t in reversed(range(rewards.shape[1])):
        following.append(after)
        after = torch.where(mask[:, t], rewards[:, t], after)
    return (rewards + gamma * torch.stack(following[::-1], dim=1)).masked_fill(~mask, 0.0)


@misconception(
    "rewards_to_go",
    why="only the last reward is passed back: the rewards in between reach the earlier tokens as well",
    read=TO_GO,
)
def only_the_final_reward_reaches_back(rewards, mask, gamma=1.0):
    rewards = rewards.masked_fill(~mask, 0.0)
    last = mask & (mask.flip(1).cumsum(dim=1).flip(1) == 1)
    return (rewards.masked_fill(last, 0.0) + _to_go(rewards.masked_fill(~last, 0.0), mask, gamma)).masked_fill(
        ~mask, 0.0
    )


@misconception(
    "rewards_to_go", why="gamma is applied in each column, so a gap decays what follows: skip it instead", read=TO_GO
)
def gap_decays(rewards, mask, gamma=1.0):
    return _sweep(rewards.masked_fill(~mask, 0.0), torch.ones_like(mask), gamma).masked_fill(~mask, 0.0)


@misconception("rewards_to_go", why="a gap ends the sum: nothing behind it reaches the tokens before it", read=TO_GO)
def gap_ends_the_sum(rewards, mask, gamma=1.0):
    rewards = rewards.masked_fill(~mask, 0.0)
    to_go, after = [], torch.zeros_like(rewards[:, 0])
    for t in reversed(range(rewards.shape[1])):
        after = torch.where(mask[:, t], rewards[:, t] + gamma * after, 0.0)
        to_go.append(after)
    return torch.stack(to_go[::-1], dim=1)


@misconception(
    "rewards_to_go", why="what stands under the mask is summed too: a pad and a tool's token earn nothing", read=TO_GO
)
def padding_earns(rewards, mask, gamma=1.0):
    return _sweep(rewards, torch.ones_like(mask), gamma).masked_fill(~mask, 0.0)


@misconception(
    "rewards_to_go", why="the mask is multiplied in: 0 * NaN is NaN, so select with masked_fill or where", read=WRONG
)
def mask_multiplied(rewards, mask, gamma=1.0):
    rewards = rewards * mask
    to_go, after = [], torch.zeros_like(rewards[:, 0])
    for t in reversed(range(rewards.shape[1])):
        after = rewards[:, t] + torch.where(mask[:, t], gamma, 1.0).to(rewards.dtype) * after
        to_go.append(after)
    return torch.stack(to_go[::-1], dim=1) * mask


@misconception(
    "rewards_to_go",
    why="the mask comes last: by then the padding is in the sums, and 0 * NaN is NaN; set it to 0 first, and skip it",
    read=WRONG,
)
def mask_multiplied_at_the_end(rewards, mask, gamma=1.0):
    return _sweep(rewards, torch.ones_like(mask), gamma) * mask


@misconception("rewards_to_go", why="masked places keep the carry: the answer is 0 there", read=TO_GO)
def padding_left_filled(rewards, mask, gamma=1.0):
    return _sweep(rewards.masked_fill(~mask, 0.0), mask, gamma)


@misconception("rewards_to_go", why="the mask is taken for a padding mask: True is a real token", read=TO_GO)
def mask_inverted(rewards, mask, gamma=1.0):
    return _to_go(rewards, ~mask, gamma)


@misconception("rewards_to_go", why="summed over the rows: time is dimension 1, the batch is dimension 0", read=TO_GO)
def summed_down_the_batch(rewards, mask, gamma=1.0):
    return _to_go(rewards.T, mask.T, gamma).T


@misconception(
    "rewards_to_go", why="divided by the number of tokens that are left: this is a mean, a sum is asked for", read=TO_GO
)
def mean_to_go(rewards, mask, gamma=1.0):
    left = mask.flip(1).cumsum(dim=1).flip(1).clamp(min=1)
    return _to_go(rewards, mask, gamma) / left


@misconception(
    "rewards_to_go", why="the padding is overwritten in the caller's tensor: masked_fill, not masked_fill_", read=WRONG
)
def padding_overwritten_in_place(rewards, mask, gamma=1.0):
    rewards.masked_fill_(~mask, 0.0)
    return _to_go(rewards, mask, gamma)


@misconception("rewards_to_go", why="the graph is cut: nothing is detached here, the loss does that", read=WRONG)
def to_go_without_gradient(rewards, mask, gamma=1.0):
    return _to_go(rewards, mask, gamma).detach()


# leave_one_out_baseline


def _leave_one_out(scores):
    return (scores.sum(dim=1, keepdim=True) - scores) / (scores.shape[1] - 1)


@misconception(
    "leave_one_out_baseline",
    why="the mean of all K, the score itself included: the gradient then shrinks by (K - 1) / K",
    read=BASELINE,
)
def mean_of_all(scores):
    return scores.mean(dim=1, keepdim=True).expand_as(scores)


@misconception(
    "leave_one_out_baseline",
    why="the mean of all K as one column (B, 1): each response has a baseline of its own",
    read=BASELINE,
)
def one_baseline_for_the_prompt(scores):
    return scores.mean(dim=1, keepdim=True)


@misconception(
    "leave_one_out_baseline", why="the others are summed but divided by K: there are only K - 1", read=BASELINE
)
def divided_by_k(scores):
    return (scores.sum(dim=1, keepdim=True) - scores) / scores.shape[1]


@misconception(
    "leave_one_out_baseline", why="all K are summed and divided by K - 1: take the own score out first", read=BASELINE
)
def own_score_not_taken_out(scores):
    return (scores.sum(dim=1, keepdim=True) / (scores.shape[1] - 1)).expand_as(scores)


@misconception("leave_one_out_baseline", why="the others are summed, not averaged: divide by K - 1", read=BASELINE)
def sum_of_the_others(scores):
    return scores.sum(dim=1, keepdim=True) - scores


@misconception(
    "leave_one_out_baseline",
    why="averaged over the prompts: the other responses to the same prompt are in the same row",
    read=BASELINE,
)
def mean_over_the_prompts(scores):
    return (scores.sum(dim=0, keepdim=True) - scores) / max(1, scores.shape[0] - 1)


@misconception(
    "leave_one_out_baseline",
    why="averaged over the whole batch: another prompt's scores say nothing about this prompt",
    read=BASELINE,
)
def mean_of_the_batch_without_this_one(scores):
    return (scores.sum() - scores) / (scores.numel() - 1)


@misconception(
    "leave_one_out_baseline",
    why="the baseline is subtracted already: return the baseline, the caller subtracts",
    read=BASELINE,
)
def advantage_returned(scores):
    return scores - _leave_one_out(scores)


@misconception(
    "leave_one_out_baseline",
    why="each takes the score of its neighbour: one other response, not the mean of all",
    read=BASELINE,
)
def score_of_the_neighbour(scores):
    return scores.roll(1, dims=1)


@misconception(
    "leave_one_out_baseline", why="the best of the others is taken: the baseline is their mean", read=BASELINE
)
def best_of_the_others(scores):
    responses = scores.shape[1]
    others = scores.unsqueeze(1).expand(-1, responses, -1)
    own = torch.eye(responses, dtype=torch.bool)
    return others.masked_fill(own, -torch.inf).amax(dim=2)


@misconception(
    "leave_one_out_baseline",
    why="the median of the row is taken: the baseline is the mean of the others",
    read=BASELINE,
)
def median_of_the_row(scores):
    return scores.median(dim=1, keepdim=True).values.expand_as(scores)


@misconception(
    "leave_one_out_baseline",
    why="the sign is turned round: the caller subtracts, so the baseline itself is asked for",
    read=BASELINE,
)
def minus_the_baseline(scores):
    return -_leave_one_out(scores)


@misconception(
    "leave_one_out_baseline",
    why="only the responses before this one are averaged: all K - 1 others count",
    read=BASELINE,
)
def mean_of_the_earlier(scores):
    before = scores.cumsum(dim=1) - scores
    return before / torch.arange(scores.shape[1]).clamp(min=1)


@misconception(
    "leave_one_out_baseline", why="the graph is cut: nothing is detached here, the loss does that", read=WRONG
)
def baseline_without_gradient(scores):
    return _leave_one_out(scores).detach()


@misconception("leave_one_out_baseline", why="the caller's scores are changed in place: make a new tensor", read=WRONG)
def scores_changed_in_place(scores):
    total = scores.sum(dim=1, keepdim=True)
    return scores.neg_().add_(total) / (scores.shape[1] - 1)


# reinforce_loss


def _filled(log_probs, weights, mask):
    return log_probs.masked_fill(~mask, 0.0), weights.detach().masked_fill(~mask, 0.0)


@misconception(
    "reinforce_loss",
    why="the sign is missing: descending this makes good tokens less likely, the loss is minus",
    read=LOSS,
)
def good_tokens_made_rare(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    return (weights * log_probs)[mask].mean()


@misconception(
    "reinforce_loss", why="averaged over all columns: padding shrinks the loss, count real tokens only", read=LOSS
)
def mean_over_padding_too(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    return -(weights * log_probs).mean()


@misconception(
    "reinforce_loss", why="summed, not averaged: the step then grows with the number of tokens in the batch", read=LOSS
)
def summed_over_tokens(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    return -(weights * log_probs).sum()


@misconception(
    "reinforce_loss",
    why="averaged in each row first: a token of a short response then counts more than another",
    read=LOSS,
)
def mean_of_row_means(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    rows = mask.any(dim=1)
    means = (weights * log_probs).sum(dim=1)[rows] / mask.sum(dim=1)[rows]
    return -means.mean()


@misconception(
    "reinforce_loss", why="summed in each row and divided by the rows: divide by the number of real tokens", read=LOSS
)
def divided_by_the_rows(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    return -(weights * log_probs).sum(dim=1).mean()


@misconception(
    "reinforce_loss", why="divided by the sum of the weights: divide by the number of real tokens", read=LOSS
)
def divided_by_the_weights(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    return -(weights * log_probs).sum() / weights.sum()


@misconception("reinforce_loss", why="not reduced: one number for each token, a scalar is asked for", read=LOSS)
def loss_of_each_token(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    return -weights * log_probs


@misconception(
    "reinforce_loss", why="a gradient flows into the weights: they are data, detach them, whoever made them", read=LOSS
)
def weights_not_detached(log_probs, weights, mask):
    weights = weights.masked_fill(~mask, 0.0)
    return -(weights * log_probs.masked_fill(~mask, 0.0))[mask].mean()


@misconception(
    "reinforce_loss",
    why="two things are missing: the weights are not detached, and NaN padding is multiplied before it is left out",
    read=LOSS,
)
def neither_detached_nor_filled(log_probs, weights, mask):
    return -(weights * log_probs)[mask].mean()


@misconception(
    "reinforce_loss",
    why="two things are missing: the weights are not detached, and 0 * NaN is NaN, so fill before you multiply",
    read=LOSS,
)
def not_detached_and_mask_multiplied(log_probs, weights, mask):
    return -(weights * log_probs * mask).sum() / mask.sum()


@misconception(
    "reinforce_loss", why="the log-probs are detached: that is the one place where the gradient has to flow", read=LOSS
)
def log_probs_detached(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    return -(weights * log_probs.detach())[mask].mean()


@misconception(
    "reinforce_loss", why="probabilities in place of log-probs: the gradient is E[weight * grad log p]", read=LOSS
)
def probabilities_weighted(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    return -(weights * log_probs.exp())[mask].mean()


@misconception(
    "reinforce_loss", why="the weights are not used: this is supervised training on the own samples", read=LOSS
)
def weights_ignored(log_probs, weights, mask):
    return -log_probs[mask].mean()


@misconception(
    "reinforce_loss",
    why="the weights are centred here: a baseline is the caller's choice, and not this one",
    read=WRONG,
)
def weights_centred(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    return -((weights - weights[mask].mean()) * log_probs)[mask].mean()


@misconception(
    "reinforce_loss", why="bad tokens are left out: a negative weight has to make its token less likely", read=LOSS
)
def only_good_tokens(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    return -(weights.clamp(min=0.0) * log_probs)[mask].mean()


@misconception(
    "reinforce_loss", why="the size of the weight counts but not its sign: bad tokens are made likelier", read=LOSS
)
def sign_of_the_weight_lost(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    return -(weights.abs() * log_probs)[mask].mean()


@misconception(
    "reinforce_loss", why="the mean of the weights times the mean of the log-probs: multiply token by token", read=LOSS
)
def means_multiplied(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, mask)
    return -weights[mask].mean() * log_probs[mask].mean()


@misconception(
    "reinforce_loss", why="the mask is multiplied in: 0 * NaN is NaN, so select before you compute", read=WRONG
)
def loss_mask_multiplied(log_probs, weights, mask):
    return -(weights.detach() * log_probs * mask).sum() / mask.sum()


@misconception(
    "reinforce_loss",
    why="selected after the product: the value is right, but in the backward pass 0 * NaN leaks into log_probs",
    read=WRONG,
)
def selected_after_the_product(log_probs, weights, mask):
    return -(weights.detach() * log_probs)[mask].mean()


@misconception("reinforce_loss", why="the mask is not used: padding is trained on as if it had been sampled", read=LOSS)
def loss_mask_ignored(log_probs, weights, mask):
    return -(weights.detach() * log_probs).mean()


@misconception("reinforce_loss", why="the mask is taken for a padding mask: True is a real token", read=LOSS)
def loss_mask_inverted(log_probs, weights, mask):
    log_probs, weights = _filled(log_probs, weights, ~mask)
    return -(weights * log_probs)[~mask].mean()
