"""Wrong ideas about reward models, as code. Each is rejected by the basic suite, and named when it is submitted."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import logsigmoid

from solutions.lesson01_masked_sequences import first_true_index, position_ids
from solutions.lesson02_reward_model import pairwise_loss as _pairwise_loss
from solutions.lesson02_reward_model import preference_accuracy as _accuracy
from testcases.engine import misconception

LAST = "last_token_index: where a text ends"
FORWARD = "RewardModel.forward: one score for a text"
PAIRWISE = "pairwise_loss: what a comparison costs"
RANKING = "ranking_loss: more than two responses"
TOKENS = "token_pairwise_loss: compare at every token"
ACCURACY = "preference_accuracy: how often the model agrees"
CALIBRATE = "calibrate: mean 0, standard deviation 1"
TRAIN = "train_reward_model: fit it to the comparisons"
WRONG = "What people get wrong"


# last_token_index


@misconception(
    "last_token_index",
    why="counts the real tokens: that is the last index only if the padding stands on the right",
    read=LAST,
)
def number_of_tokens_minus_one(attention_mask):
    return attention_mask.long().sum(dim=1) - 1


@misconception("last_token_index", why="always the last column, which is padding in a right-padded row", read=LAST)
def always_the_last_column(attention_mask):
    return torch.full_like(attention_mask[:, 0], attention_mask.shape[1] - 1, dtype=torch.int64)


@misconception("last_token_index", why="this is the first real token, not the last one", read=LAST)
def first_real_token(attention_mask):
    return first_true_index(attention_mask.bool())


@misconception(
    "last_token_index",
    why="counted from the right: the index in the flipped mask has to be turned back, length - 1 - index",
    read=LAST,
)
def counted_from_the_right(attention_mask):
    return first_true_index(attention_mask.bool().flip(dims=[1]))


@misconception("last_token_index", why="one too far: turned back with length instead of length - 1", read=LAST)
def one_past_the_last(attention_mask):
    return attention_mask.shape[1] - first_true_index(attention_mask.bool().flip(dims=[1]))


@misconception(
    "last_token_index",
    why="the token before the first pad: right only if padding stands on the right, and -1 if there is none",
    read=LAST,
)
def before_the_first_pad(attention_mask):
    return attention_mask.long().argmin(dim=1) - 1


@misconception("last_token_index", why="one index for all rows: each row has its own length", read=LAST)
def the_longest_row_decides(attention_mask):
    last = (attention_mask.long() * torch.arange(attention_mask.shape[1])).amax(dim=1)
    return last.max().expand(len(last)).clone()


@misconception("last_token_index", why="the index comes back as (B, 1): one number a row is due, (B,)", read=LAST)
def index_kept_as_a_column(attention_mask):
    last = attention_mask.shape[1] - 1 - first_true_index(attention_mask.bool().flip(dims=[1]))
    return last.unsqueeze(1)


@misconception("last_token_index", why="the mask is read as a padding mask: True is a real token", read=LAST)
def last_pad(attention_mask):
    real = attention_mask.bool()
    return (~real * torch.arange(real.shape[1])).amax(dim=1)


# RewardModel.forward


def _hidden(self, input_ids, mask, **changed):
    options = {"attention_mask": mask, "position_ids": position_ids(mask), **changed}
    return self.backbone(input_ids=input_ids, **options).last_hidden_state


def _last(attention_mask):
    return attention_mask.shape[1] - 1 - first_true_index(attention_mask.bool().flip(dims=[1]))


def _at(hidden, index):
    return hidden[torch.arange(len(hidden)), index]


@misconception(
    "RewardModel.forward", why="reads [:, -1]: in a right-padded row that is the score of a pad", read=FORWARD
)
def last_column_read(self, input_ids, attention_mask):
    return self.head(_hidden(self, input_ids, attention_mask)[:, -1]).squeeze(-1)


@misconception(
    "RewardModel.forward",
    why="position_ids are not passed: the body then counts the padding on the left, and the score moves with it",
    read=FORWARD,
)
def positions_not_passed(self, input_ids, attention_mask):
    hidden = _hidden(self, input_ids, attention_mask, position_ids=None)
    return self.head(_at(hidden, _last(attention_mask))).squeeze(-1)


@misconception("RewardModel.forward", why="positions count from 1: the first real token is at 0", read=FORWARD)
def positions_from_one(self, input_ids, attention_mask):
    hidden = _hidden(self, input_ids, attention_mask, position_ids=attention_mask.long().cumsum(dim=1))
    return self.head(_at(hidden, _last(attention_mask))).squeeze(-1)


@misconception(
    "RewardModel.forward",
    why="the mask is not passed to the body: it reads the padding on the left as text",
    read=FORWARD,
)
def mask_not_passed(self, input_ids, attention_mask):
    hidden = _hidden(self, input_ids, attention_mask, attention_mask=None)
    return self.head(_at(hidden, _last(attention_mask))).squeeze(-1)


@misconception(
    "RewardModel.forward", why="reads the first real token: a causal model has seen nothing else there", read=FORWARD
)
def first_token_read(self, input_ids, attention_mask):
    hidden = _hidden(self, input_ids, attention_mask)
    return self.head(_at(hidden, first_true_index(attention_mask.bool()))).squeeze(-1)


@misconception(
    "RewardModel.forward",
    why="reads one token too early, as if a score were shifted like a log-probability",
    read=FORWARD,
)
def token_before_the_last_read(self, input_ids, attention_mask):
    hidden = _hidden(self, input_ids, attention_mask)
    return self.head(_at(hidden, (_last(attention_mask) - 1).clamp(min=0))).squeeze(-1)


@misconception(
    "RewardModel.forward", why="averages over the real tokens: the score is read at the last one", read=FORWARD
)
def mean_over_the_tokens(self, input_ids, attention_mask):
    real = attention_mask.bool().unsqueeze(-1)
    hidden = _hidden(self, input_ids, attention_mask).masked_fill(~real, 0.0)
    return self.head(hidden.sum(dim=1) / real.sum(dim=1)).squeeze(-1)


@misconception(
    "RewardModel.forward", why="adds up the scores of all tokens: long texts then win by their length", read=FORWARD
)
def sum_over_the_tokens(self, input_ids, attention_mask):
    scores = self.head(_hidden(self, input_ids, attention_mask)).squeeze(-1)
    return scores.masked_fill(~attention_mask.bool(), 0.0).sum(dim=1)


@misconception(
    "RewardModel.forward",
    why="indexes by the number of real tokens: under left padding that is some token in the middle",
    read=FORWARD,
)
def read_at_the_number_of_tokens(self, input_ids, attention_mask):
    hidden = _hidden(self, input_ids, attention_mask)
    return self.head(_at(hidden, attention_mask.long().sum(dim=1) - 1)).squeeze(-1)


@misconception(
    "RewardModel.forward",
    why="padding is found by its id (0 here): a text may end in that very token, as with pad == eos",
    read=WRONG,
)
def padding_found_by_its_id(self, input_ids, attention_mask):
    real = input_ids != 0
    return self.head(_at(_hidden(self, input_ids, real), _last(real))).squeeze(-1)


@misconception("RewardModel.forward", why="a score for every position, (B, L): one for each text is due", read=FORWARD)
def score_for_every_position(self, input_ids, attention_mask):
    return self.head(_hidden(self, input_ids, attention_mask)).squeeze(-1)


@misconception("RewardModel.forward", why="the head's last dimension is kept: (B, 1) instead of (B,)", read=FORWARD)
def score_kept_as_a_column(self, input_ids, attention_mask):
    return self.head(_at(_hidden(self, input_ids, attention_mask), _last(attention_mask)))


@misconception(
    "RewardModel.forward",
    why="squeeze() without a dimension: a batch of one row becomes a number, squeeze(-1) leaves it a row",
    read=FORWARD,
)
def squeezed_to_a_number(self, input_ids, attention_mask):
    return self.head(_at(_hidden(self, input_ids, attention_mask), _last(attention_mask))).squeeze()


@misconception(
    "RewardModel.forward",
    why="squashed by a sigmoid: the score may be any number, the sigmoid is in the loss",
    read=PAIRWISE,
)
def score_squashed(self, input_ids, attention_mask):
    return self.head(_at(_hidden(self, input_ids, attention_mask), _last(attention_mask))).squeeze(-1).sigmoid()


@misconception("RewardModel.forward", why="the bias of the head is left out: call the head, it adds it", read=FORWARD)
def head_without_its_bias(self, input_ids, attention_mask):
    return _at(_hidden(self, input_ids, attention_mask), _last(attention_mask)) @ self.head.weight[0]


@misconception(
    "RewardModel.forward",
    why="the body is cut off (detach or no_grad): body and head are trained together",
    read=FORWARD,
)
def body_detached(self, input_ids, attention_mask):
    hidden = _hidden(self, input_ids, attention_mask).detach()
    return self.head(_at(hidden, _last(attention_mask))).squeeze(-1)


# pairwise_loss


def _less(chosen, rejected, margin):
    return chosen - rejected if margin is None else chosen - rejected - margin


@misconception(
    "pairwise_loss",
    why="log(sigmoid(x)), or log(1 + exp(-x)): far below 0 the sigmoid is 0 and the loss infinite; use logsigmoid",
    read=PAIRWISE,
)
def log_of_a_rounded_sigmoid(chosen, rejected, margin=None):
    return -torch.log(torch.sigmoid(_less(chosen, rejected, margin))).mean()


@misconception(
    "pairwise_loss",
    why="a small number inside the logarithm hides the infinity, but bends the loss and kills the gradient",
    read=PAIRWISE,
)
def log_of_sigmoid_plus_epsilon(chosen, rejected, margin=None):
    return -torch.log(torch.sigmoid(_less(chosen, rejected, margin)) + 1e-8).mean()


@misconception(
    "pairwise_loss", why="chosen and rejected are swapped: the loss falls when the worse one wins", read=PAIRWISE
)
def chosen_and_rejected_swapped(chosen, rejected, margin=None):
    return -logsigmoid(_less(rejected, chosen, margin)).mean()


@misconception(
    "pairwise_loss", why="the minus in front is missing: a log-likelihood is maximised, a loss minimised", read=PAIRWISE
)
def minus_forgotten(chosen, rejected, margin=None):
    return logsigmoid(_less(chosen, rejected, margin)).mean()


@misconception("pairwise_loss", why="the sum over the pairs: it must be their mean", read=PAIRWISE)
def summed_over_the_pairs(chosen, rejected, margin=None):
    return -logsigmoid(_less(chosen, rejected, margin)).sum()


@misconception("pairwise_loss", why="one loss for each pair: their mean is due, a single number", read=PAIRWISE)
def not_averaged(chosen, rejected, margin=None):
    return -logsigmoid(_less(chosen, rejected, margin))


@misconception(
    "pairwise_loss", why="the loss of the mean difference: the curve comes first, then the mean", read=PAIRWISE
)
def loss_of_the_mean_difference(chosen, rejected, margin=None):
    return -logsigmoid(_less(chosen, rejected, margin).mean())


@misconception(
    "pairwise_loss",
    why="each chosen one against each rejected one: they answer different prompts, only partners are compared",
    read=PAIRWISE,
)
def every_chosen_against_every_rejected(chosen, rejected, margin=None):
    difference = chosen.unsqueeze(1) - rejected.unsqueeze(0)
    return -logsigmoid(difference if margin is None else difference - margin.unsqueeze(1)).mean()


@misconception("pairwise_loss", why="the margin is ignored", read=PAIRWISE)
def margin_ignored(chosen, rejected, margin=None):
    return -logsigmoid(chosen - rejected).mean()


@misconception(
    "pairwise_loss", why="the margin is added: it must be harder to win by more, so it is taken off", read=PAIRWISE
)
def margin_added(chosen, rejected, margin=None):
    return -logsigmoid(chosen - rejected + (0.0 if margin is None else margin)).mean()


@misconception(
    "pairwise_loss",
    why="the margin is added to the loss: it belongs into the difference, inside the sigmoid",
    read=PAIRWISE,
)
def margin_outside_the_sigmoid(chosen, rejected, margin=None):
    return (-logsigmoid(chosen - rejected) + (0.0 if margin is None else margin)).mean()


@misconception(
    "pairwise_loss",
    why="one margin for all pairs, their mean: each pair has its own",
    read=PAIRWISE,
)
def margins_averaged(chosen, rejected, margin=None):
    return -logsigmoid(chosen - rejected - (0.0 if margin is None else margin.mean())).mean()


@misconception(
    "pairwise_loss",
    why="the probability of being wrong, without a logarithm: it hardly punishes a sure mistake",
    read=PAIRWISE,
)
def probability_without_logarithm(chosen, rejected, margin=None):
    return 1 - torch.sigmoid(_less(chosen, rejected, margin)).mean()


@misconception(
    "pairwise_loss", why="a hinge, max(0, 1 - x): it stops at 1; Bradley-Terry is -log sigmoid(x)", read=PAIRWISE
)
def hinge_loss(chosen, rejected, margin=None):
    return (1 - _less(chosen, rejected, margin)).clamp(min=0).mean()


@misconception(
    "pairwise_loss",
    why="squared errors against 1 and 0: no one said what a text is worth, only which one is better",
    read=WRONG,
)
def squared_error_against_labels(chosen, rejected, margin=None):
    return ((chosen - 1).square() + rejected.square()).mean() / 2


@misconception(
    "pairwise_loss",
    why="the rejected score is detached: the gradient lifts one and pushes the other down",
    read=PAIRWISE,
)
def rejected_detached(chosen, rejected, margin=None):
    return -logsigmoid(_less(chosen, rejected.detach(), margin)).mean()


# ranking_loss


def _pairs(count, offset=1):
    return torch.triu_indices(count, count, offset=offset)


@misconception("ranking_loss", why="neighbours only: all K (K - 1) / 2 pairs are compared", read=RANKING)
def neighbours_only(scores):
    return -logsigmoid(scores[:, :-1] - scores[:, 1:]).mean()


@misconception("ranking_loss", why="only the best one against the others: the others have an order, too", read=RANKING)
def best_against_the_rest(scores):
    return -logsigmoid(scores[:, :1] - scores[:, 1:]).mean()


@misconception("ranking_loss", why="only the best against the worst: all pairs are compared", read=RANKING)
def best_against_the_worst(scores):
    return -logsigmoid(scores[:, 0] - scores[:, -1]).mean()


@misconception("ranking_loss", why="the order is read backwards: the best one stands first", read=RANKING)
def worst_first(scores):
    better, worse = _pairs(scores.shape[1])
    return -logsigmoid(scores[:, worse] - scores[:, better]).mean()


@misconception(
    "ranking_loss", why="each response is compared with itself as well: a constant log 2 is mixed in", read=RANKING
)
def diagonal_included(scores):
    better, worse = _pairs(scores.shape[1], offset=0)
    return -logsigmoid(scores[:, better] - scores[:, worse]).mean()


@misconception("ranking_loss", why="each pair is taken both ways round: that says that both are better", read=RANKING)
def both_ways_round(scores):
    count = scores.shape[1]
    difference = scores.unsqueeze(2) - scores.unsqueeze(1)
    return -logsigmoid(difference)[:, ~torch.eye(count, dtype=torch.bool)].mean()


@misconception(
    "ranking_loss",
    why="all K x K pairs, both ways round and each with itself: only i before j says anything",
    read=RANKING,
)
def all_k_times_k_pairs(scores):
    return -logsigmoid(scores.unsqueeze(2) - scores.unsqueeze(1)).mean()


@misconception(
    "ranking_loss", why="summed over the pairs of a prompt: divide by K (K - 1) / 2, or large K dominates", read=RANKING
)
def summed_over_the_pairs_of_a_prompt(scores):
    better, worse = _pairs(scores.shape[1])
    return -logsigmoid(scores[:, better] - scores[:, worse]).sum(dim=1).mean()


@misconception("ranking_loss", why="divided by K instead of the number of pairs, K (K - 1) / 2", read=RANKING)
def divided_by_k(scores):
    better, worse = _pairs(scores.shape[1])
    return -logsigmoid(scores[:, better] - scores[:, worse]).sum(dim=1).mean() / scores.shape[1]


@misconception("ranking_loss", why="summed over the prompts: it is a mean over pairs and prompts", read=RANKING)
def summed_over_the_prompts(scores):
    better, worse = _pairs(scores.shape[1])
    return -logsigmoid(scores[:, better] - scores[:, worse]).mean(dim=1).sum()


@misconception(
    "ranking_loss",
    why="the scores are sorted first: the order is the label, the scores must not choose it",
    read=RANKING,
)
def sorted_by_score(scores):
    scores = scores.sort(dim=1, descending=True).values
    better, worse = _pairs(scores.shape[1])
    return -logsigmoid(scores[:, better] - scores[:, worse]).mean()


@misconception(
    "ranking_loss",
    why="pairs across prompts: scores are only comparable among responses to one prompt",
    read=RANKING,
)
def pairs_across_prompts(scores):
    flat = scores.flatten()
    better, worse = _pairs(flat.numel())
    return -logsigmoid(flat[better] - flat[worse]).mean()


@misconception(
    "ranking_loss",
    why="a softmax over all that are left, place by place (Plackett-Luce): here it is the mean over pairs",
    read=RANKING,
)
def softmax_over_the_rest(scores):
    count = scores.shape[1]
    losses = [scores[:, place:].logsumexp(dim=1) - scores[:, place] for place in range(count - 1)]
    return torch.stack(losses, dim=1).mean()


@misconception(
    "ranking_loss", why="log(sigmoid(x)) is -infinity where sigmoid rounds to 0; use logsigmoid", read=PAIRWISE
)
def ranking_by_log_of_sigmoid(scores):
    better, worse = _pairs(scores.shape[1])
    return -torch.log(torch.sigmoid(scores[:, better] - scores[:, worse])).mean()


# token_pairwise_loss


def _ends(chosen_ids, rejected_ids, pad_token_id):
    return first_true_index(chosen_ids == pad_token_id), first_true_index(rejected_ids == pad_token_id)


def _between(chosen_ids, start, end):
    position = torch.arange(chosen_ids.shape[1])
    return (position >= start.unsqueeze(1)) & (position < end.unsqueeze(1))


def _span(chosen_ids, rejected_ids, pad_token_id):
    end = torch.maximum(*_ends(chosen_ids, rejected_ids, pad_token_id))
    return _between(chosen_ids, first_true_index(chosen_ids != rejected_ids), end)


def _token_loss(chosen_scores, rejected_scores, compared):
    difference = (chosen_scores - rejected_scores).masked_fill(~compared, 0.0)
    losses = -logsigmoid(difference) * compared
    return (losses.sum(dim=1) / compared.sum(dim=1)).mean()


@misconception(
    "token_pairwise_loss",
    why="starts at the first token: the common prefix is scored alike and says nothing, start where they differ",
    read=TOKENS,
)
def prefix_compared(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    end = torch.maximum(*_ends(chosen_ids, rejected_ids, pad_token_id))
    return _token_loss(chosen_scores, rejected_scores, _between(chosen_ids, torch.zeros_like(end), end))


@misconception(
    "token_pairwise_loss", why="starts after the first token that differs: that token counts as well", read=TOKENS
)
def starts_one_late(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    end = torch.maximum(*_ends(chosen_ids, rejected_ids, pad_token_id))
    start = torch.minimum(first_true_index(chosen_ids != rejected_ids) + 1, end - 1)
    return _token_loss(chosen_scores, rejected_scores, _between(chosen_ids, start, end))


@misconception("token_pairwise_loss", why="ends with the shorter text: the longer one decides", read=TOKENS)
def ends_with_the_shorter(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    end = torch.minimum(*_ends(chosen_ids, rejected_ids, pad_token_id))
    start = first_true_index(chosen_ids != rejected_ids)
    return _token_loss(chosen_scores, rejected_scores, _between(chosen_ids, start, torch.maximum(end, start + 1)))


@misconception("token_pairwise_loss", why="ends with the chosen text, however long the rejected one is", read=TOKENS)
def ends_with_the_chosen(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    end, _ = _ends(chosen_ids, rejected_ids, pad_token_id)
    start = first_true_index(chosen_ids != rejected_ids)
    return _token_loss(chosen_scores, rejected_scores, _between(chosen_ids, start, torch.maximum(end, start + 1)))


@misconception(
    "token_pairwise_loss",
    why="one pad is counted to the text (num_padding_at_beginning = 1 fits OPT only): the end is the first pad",
    read=WRONG,
)
def one_pad_counted(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    end = torch.maximum(*_ends(chosen_ids, rejected_ids, pad_token_id)) + 1
    return _token_loss(
        chosen_scores, rejected_scores, _between(chosen_ids, first_true_index(chosen_ids != rejected_ids), end)
    )


@misconception("token_pairwise_loss", why="all columns to the end: scores on padding mean nothing", read=TOKENS)
def padding_compared(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    start = first_true_index(chosen_ids != rejected_ids)
    return _token_loss(
        chosen_scores,
        rejected_scores,
        _between(chosen_ids, start, torch.full_like(start, chosen_ids.shape[1])),
    )


@misconception(
    "token_pairwise_loss",
    why="only where the two tokens differ: after the first difference every position reads another text",
    read=TOKENS,
)
def only_where_tokens_differ(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    compared = _span(chosen_ids, rejected_ids, pad_token_id) & (chosen_ids != rejected_ids)
    return _token_loss(chosen_scores, rejected_scores, compared)


@misconception(
    "token_pairwise_loss", why="only the first token that differs: all up to the end are compared", read=TOKENS
)
def only_the_first_difference(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    start = first_true_index(chosen_ids != rejected_ids)
    return _token_loss(chosen_scores, rejected_scores, _between(chosen_ids, start, start + 1))


@misconception(
    "token_pairwise_loss", why="only the last position: this is the loss of whole texts, not of tokens", read=TOKENS
)
def only_the_last_position(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    end = torch.maximum(*_ends(chosen_ids, rejected_ids, pad_token_id))
    return _token_loss(chosen_scores, rejected_scores, _between(chosen_ids, end - 1, end))


@misconception(
    "token_pairwise_loss",
    why="the mean over all tokens of the batch: each pair is averaged by itself, then the pairs",
    read=TOKENS,
)
def each_token_counts_once(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    compared = _span(chosen_ids, rejected_ids, pad_token_id)
    return -logsigmoid(chosen_scores[compared] - rejected_scores[compared]).mean()


@misconception("token_pairwise_loss", why="summed over the positions of a pair: they are averaged", read=TOKENS)
def summed_over_the_positions(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    compared = _span(chosen_ids, rejected_ids, pad_token_id)
    difference = (chosen_scores - rejected_scores).masked_fill(~compared, 0.0)
    return (-logsigmoid(difference) * compared).sum(dim=1).mean()


@misconception(
    "token_pairwise_loss",
    why="divided by the width of the batch: divide by the number of positions that are compared",
    read=TOKENS,
)
def divided_by_the_width(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    compared = _span(chosen_ids, rejected_ids, pad_token_id)
    difference = (chosen_scores - rejected_scores).masked_fill(~compared, 0.0)
    return (-logsigmoid(difference) * compared).mean()


@misconception(
    "token_pairwise_loss",
    why="what is not compared is set to a difference of 0, and its log 2 is averaged in",
    read=TOKENS,
)
def zeros_averaged_in(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    compared = _span(chosen_ids, rejected_ids, pad_token_id)
    return -logsigmoid((chosen_scores - rejected_scores).masked_fill(~compared, 0.0)).mean()


@misconception(
    "token_pairwise_loss",
    why="the mask is multiplied on afterwards: 0 * NaN is NaN, so select before you compute",
    read=TOKENS,
)
def masked_after_the_loss(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    compared = _span(chosen_ids, rejected_ids, pad_token_id)
    losses = -logsigmoid(chosen_scores - rejected_scores) * compared
    return (losses.sum(dim=1) / compared.sum(dim=1)).mean()


@misconception(
    "token_pairwise_loss", why="one start and one end for the whole batch: each pair has its own", read=TOKENS
)
def one_span_for_the_batch(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    compared = _span(chosen_ids, rejected_ids, pad_token_id).any(dim=0).expand_as(chosen_scores)
    return _token_loss(chosen_scores, rejected_scores, compared)


@misconception("token_pairwise_loss", why="chosen and rejected are swapped", read=PAIRWISE)
def token_sides_swapped(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    return _token_loss(rejected_scores, chosen_scores, _span(chosen_ids, rejected_ids, pad_token_id))


@misconception(
    "token_pairwise_loss",
    why="the scores are averaged before they are compared: the loss is taken at each position",
    read=TOKENS,
)
def loss_of_the_mean_scores(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    compared = _span(chosen_ids, rejected_ids, pad_token_id)
    difference = (chosen_scores - rejected_scores).masked_fill(~compared, 0.0)
    return -logsigmoid(difference.sum(dim=1) / compared.sum(dim=1)).mean()


@misconception("token_pairwise_loss", why="the pad is taken to be token 0; pad_token_id is ignored", read=TOKENS)
def pad_fixed_at_0(chosen_scores, rejected_scores, chosen_ids, rejected_ids, pad_token_id):
    return _token_loss(chosen_scores, rejected_scores, _span(chosen_ids, rejected_ids, 0))


# preference_accuracy


@misconception(
    "preference_accuracy",
    why="a tie counts as right: a model that gives every text one score would be perfect",
    read=ACCURACY,
)
def ties_are_right(chosen, rejected):
    return (chosen >= rejected).float().mean()


@misconception(
    "preference_accuracy", why="a tie counts as half right: only a strictly higher score is right", read=ACCURACY
)
def ties_are_half_right(chosen, rejected):
    return ((chosen > rejected).float() + 0.5 * (chosen == rejected).float()).mean()


@misconception(
    "preference_accuracy", why="chosen and rejected are swapped: this is the share of mistakes", read=ACCURACY
)
def share_of_mistakes(chosen, rejected):
    return (chosen < rejected).float().mean()


@misconception(
    "preference_accuracy",
    why="asks for a positive score: only the difference of two scores means anything",
    read=ACCURACY,
)
def positive_is_right(chosen, rejected):
    return (chosen > 0).float().mean()


@misconception(
    "preference_accuracy", why="compares the mean scores: each pair is right or wrong by itself", read=ACCURACY
)
def mean_scores_compared(chosen, rejected):
    return (chosen.mean() > rejected.mean()).float()


@misconception("preference_accuracy", why="the number of right pairs: their share is due", read=ACCURACY)
def number_of_right_pairs(chosen, rejected):
    return (chosen > rejected).float().sum()


@misconception("preference_accuracy", why="in per cent: a share between 0 and 1 is due", read=ACCURACY)
def accuracy_in_per_cent(chosen, rejected):
    return 100 * (chosen > rejected).float().mean()


@misconception(
    "preference_accuracy",
    why="the mean probability of the chosen one: a pair that is just won would count about half",
    read=ACCURACY,
)
def mean_probability(chosen, rejected):
    return torch.sigmoid(chosen - rejected).detach().float().mean()


@misconception(
    "preference_accuracy",
    why="each chosen one against each rejected one: only the partners of one prompt are compared",
    read=ACCURACY,
)
def all_against_all(chosen, rejected):
    return (chosen.unsqueeze(1) > rejected.unsqueeze(0)).float().mean()


@misconception(
    "preference_accuracy",
    why="a Python number: return a float32 tensor of shape (), .item() makes a GPU wait",
    read=ACCURACY,
)
def accuracy_as_a_python_number(chosen, rejected):
    return (chosen > rejected).float().mean().item()


# calibrate


def _all_scores(model, batches):
    return torch.cat([model(input_ids, attention_mask) for input_ids, attention_mask in batches])


def _apply(model, mean, std):
    model.head.weight.div_(std)
    model.head.bias.sub_(mean).div_(std)


@misconception("calibrate", why="the deviation is divided by n: here it is the unbiased one, by n - 1", read=CALIBRATE)
@torch.no_grad()
def deviation_divided_by_n(model, batches):
    scores = _all_scores(model, batches)
    _apply(model, scores.mean(), scores.std(correction=0))


@misconception(
    "calibrate",
    why="means and deviations are averaged over the batches: the statistics are those of all rows together",
    read=CALIBRATE,
)
@torch.no_grad()
def averaged_over_batches(model, batches):
    parts = [model(input_ids, attention_mask) for input_ids, attention_mask in batches]
    stds = torch.stack([part.std() if len(part) > 1 else part.new_zeros(()) for part in parts])
    _apply(model, torch.stack([part.mean() for part in parts]).mean(), stds.mean())


@misconception(
    "calibrate",
    why="each batch is calibrated in turn: the last one decides, put all rows together first",
    read=CALIBRATE,
)
@torch.no_grad()
def the_last_batch_decides(model, batches):
    for input_ids, attention_mask in batches:
        scores = model(input_ids, attention_mask)
    std = scores.std() if len(scores) > 1 else scores.new_ones(())
    _apply(model, scores.mean(), std)


@misconception("calibrate", why="only the first batch is used", read=CALIBRATE)
@torch.no_grad()
def the_first_batch_decides(model, batches):
    scores = model(*next(iter(batches)))
    std = scores.std() if len(scores) > 1 else scores.new_ones(())
    _apply(model, scores.mean(), std)


@misconception("calibrate", why="the mean is taken off, but nothing is scaled", read=CALIBRATE)
@torch.no_grad()
def only_shifted(model, batches):
    model.head.bias.sub_(_all_scores(model, batches).mean())


@misconception("calibrate", why="the scores are scaled, but their mean is not moved to 0", read=CALIBRATE)
@torch.no_grad()
def only_scaled(model, batches):
    std = _all_scores(model, batches).std()
    model.head.weight.div_(std)
    model.head.bias.div_(std)


@misconception(
    "calibrate", why="the bias is shifted but not divided: (w h + b - mean) / std divides every term", read=CALIBRATE
)
@torch.no_grad()
def bias_not_divided(model, batches):
    scores = _all_scores(model, batches)
    model.head.weight.div_(scores.std())
    model.head.bias.sub_(scores.mean())


@misconception(
    "calibrate",
    why="first divided, then shifted: the mean is in the old units, take it off before you divide",
    read=CALIBRATE,
)
@torch.no_grad()
def divided_before_shifted(model, batches):
    scores = _all_scores(model, batches)
    model.head.weight.div_(scores.std())
    model.head.bias.div_(scores.std()).sub_(scores.mean())


@misconception(
    "calibrate",
    why="b - mean / std divides the mean only: the old bias is divided as well, (b - mean) / std",
    read=CALIBRATE,
)
@torch.no_grad()
def only_the_mean_divided(model, batches):
    scores = _all_scores(model, batches)
    model.head.weight.div_(scores.std())
    model.head.bias.sub_(scores.mean() / scores.std())


@misconception(
    "calibrate", why="the old bias is thrown away: it is part of the scores that were measured", read=CALIBRATE
)
@torch.no_grad()
def old_bias_lost(model, batches):
    scores = _all_scores(model, batches)
    model.head.weight.div_(scores.std())
    model.head.bias.copy_(-scores.mean() / scores.std())


@misconception("calibrate", why="divided by the variance: the standard deviation is its root", read=CALIBRATE)
@torch.no_grad()
def divided_by_the_variance(model, batches):
    scores = _all_scores(model, batches)
    _apply(model, scores.mean(), scores.var())


@misconception(
    "calibrate", why="multiplied by the deviation instead of divided: a wide spread gets wider", read=CALIBRATE
)
@torch.no_grad()
def multiplied_by_the_deviation(model, batches):
    scores = _all_scores(model, batches)
    _apply(model, scores.mean(), 1 / scores.std())


@misconception("calibrate", why="the weight is scaled, the bias is left as it was", read=CALIBRATE)
@torch.no_grad()
def bias_forgotten(model, batches):
    model.head.weight.div_(_all_scores(model, batches).std())


@misconception(
    "calibrate",
    why="new parameters replace those of the head: an optimiser still holds the old ones, change them in place",
    read=CALIBRATE,
)
@torch.no_grad()
def head_replaced(model, batches):
    scores = _all_scores(model, batches)
    model.head.weight = nn.Parameter(model.head.weight / scores.std())
    model.head.bias = nn.Parameter((model.head.bias - scores.mean()) / scores.std())


@misconception(
    "calibrate", why="the model is left in train mode: its dropout would then make every score noisy", read=CALIBRATE
)
@torch.no_grad()
def calibrated_into_train_mode(model, batches):
    scores = _all_scores(model, batches)
    _apply(model, scores.mean(), scores.std())
    model.train()


# train_reward_model


def _order(pairs, config, epochs=None, seed=None):
    draw = torch.Generator().manual_seed(config.seed if seed is None else seed)
    count = len(pairs.chosen_ids)
    return [torch.randperm(count, generator=draw) for _ in range(config.epochs if epochs is None else epochs)]


def _loss(model, batch, swapped=False, chosen_mask=False):
    rejected_mask = batch.chosen_mask if chosen_mask else batch.rejected_mask
    scores = model(torch.cat([batch.chosen_ids, batch.rejected_ids]), torch.cat([batch.chosen_mask, rejected_mask]))
    chosen, rejected = scores.chunk(2)
    return _pairwise_loss(*((rejected, chosen) if swapped else (chosen, rejected))), chosen, rejected


def _fit(
    model,
    pairs,
    config,
    order=None,
    batches=None,
    optimizer=None,
    factor=lambda k, n: 1 - k / n,
    parameters=None,
    max_grad_norm=None,
    clip="before",
    zero_grad=True,
    rejected_order=None,
    train_mode=(True, False),
    record="before",
    **options,
):
    """The right training loop, with one part changed at a time."""
    parameters = list(model.parameters() if parameters is None else parameters)
    optimizer = optimizer or torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=0.0)
    order = _order(pairs, config) if order is None else order
    batches = [index for epoch in order for index in epoch.split(config.batch_size)] if batches is None else batches
    norm = config.max_grad_norm if max_grad_norm is None else max_grad_norm
    history = []
    model.train(train_mode[0])
    for k, index in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * factor(k, len(batches))
        batch = pairs.rows(index)
        if rejected_order is not None:
            other = pairs.rows(rejected_order[index])
            batch = batch._replace(rejected_ids=other.rejected_ids, rejected_mask=other.rejected_mask)
        loss, chosen, rejected = _loss(model, batch, **options)
        if zero_grad:
            optimizer.zero_grad()
        loss.backward()
        if clip == "before":
            nn.utils.clip_grad_norm_(parameters, norm)
        elif clip == "each":
            for parameter in parameters:
                nn.utils.clip_grad_norm_([parameter], norm)
        elif clip == "value":
            nn.utils.clip_grad_value_(parameters, norm)
        optimizer.step()
        if record == "after":
            with torch.no_grad():
                loss, chosen, rejected = _loss(model, batch, **options)
        history.append({"loss": loss.item(), "accuracy": _accuracy(chosen, rejected).item()})
    model.train(train_mode[1])
    return history


@misconception(
    "train_reward_model", why="never shuffled: the comparisons come in the order they were given", read=TRAIN
)
def order_as_given(model, pairs, config):
    return _fit(model, pairs, config, order=[torch.arange(len(pairs.chosen_ids))] * config.epochs)


@misconception("train_reward_model", why="shuffled once: each epoch needs a new order", read=TRAIN)
def one_order_for_all_epochs(model, pairs, config):
    return _fit(model, pairs, config, order=_order(pairs, config, epochs=1) * config.epochs)


@misconception("train_reward_model", why="config.seed is ignored: every run has the same order", read=TRAIN)
def seed_ignored(model, pairs, config):
    return _fit(model, pairs, config, order=_order(pairs, config, seed=0))


@misconception(
    "train_reward_model",
    why="the order comes from the global generator: draw from a torch.Generator seeded with config.seed",
    read=TRAIN,
)
def order_from_the_global_generator(model, pairs, config):
    torch.manual_seed(config.seed)
    return _fit(model, pairs, config, order=[torch.randperm(len(pairs.chosen_ids)) for _ in range(config.epochs)])


@misconception(
    "train_reward_model", why="the smaller last batch is dropped: those comparisons are never seen", read=TRAIN
)
def last_batch_dropped(model, pairs, config):
    batches = [index for epoch in _order(pairs, config) for index in epoch.split(config.batch_size)]
    full = [index for index in batches if len(index) == min(config.batch_size, len(pairs.chosen_ids))]
    return _fit(model, pairs, config, batches=full)


@misconception(
    "train_reward_model", why="batches run across the end of an epoch: split each epoch by itself", read=TRAIN
)
def batches_across_epochs(model, pairs, config):
    return _fit(model, pairs, config, batches=torch.cat(_order(pairs, config)).split(config.batch_size))


@misconception(
    "train_reward_model", why="drawn with replacement: some comparisons come twice and others never", read=TRAIN
)
def drawn_with_replacement(model, pairs, config):
    draw, count = torch.Generator().manual_seed(config.seed), len(pairs.chosen_ids)
    order = [torch.randint(count, (count,), generator=draw) for _ in range(config.epochs)]
    return _fit(model, pairs, config, order=order)


@misconception("train_reward_model", why="one epoch, whatever config.epochs says", read=TRAIN)
def always_one_epoch(model, pairs, config):
    return _fit(model, pairs, config, order=_order(pairs, config, epochs=1))


@misconception("train_reward_model", why="config.batch_size is ignored: all comparisons in one step", read=TRAIN)
def batch_size_ignored(model, pairs, config):
    return _fit(model, pairs, config, batches=_order(pairs, config))


@misconception(
    "train_reward_model",
    why="chosen and rejected are shuffled apart: the two responses then answer different prompts",
    read=TRAIN,
)
def pairs_torn_apart(model, pairs, config):
    other = torch.Generator().manual_seed(config.seed + 1)
    return _fit(model, pairs, config, rejected_order=torch.randperm(len(pairs.chosen_ids), generator=other))


@misconception(
    "train_reward_model", why="chosen and rejected are swapped: it learns to prefer the worse one", read=TRAIN
)
def trained_on_the_wrong_side(model, pairs, config):
    return _fit(model, pairs, config, swapped=True)


@misconception(
    "train_reward_model", why="the mask of the chosen response is used for the rejected one, too", read=TRAIN
)
def one_mask_for_both(model, pairs, config):
    return _fit(model, pairs, config, chosen_mask=True)


@misconception("train_reward_model", why="the learning rate stays as it is: it decays linearly to 0", read=TRAIN)
def learning_rate_constant(model, pairs, config):
    return _fit(model, pairs, config, factor=lambda k, n: 1.0)


@misconception(
    "train_reward_model", why="the learning rate decays before the first step: step 0 uses the full one", read=TRAIN
)
def decays_before_the_first_step(model, pairs, config):
    return _fit(model, pairs, config, factor=lambda k, n: 1 - (k + 1) / n)


@misconception(
    "train_reward_model",
    why="the learning rate is 0 at the last step, which then does nothing: 0 is what would come after it",
    read=TRAIN,
)
def last_step_wasted(model, pairs, config):
    return _fit(model, pairs, config, factor=lambda k, n: 1 - k / max(n - 1, 1))


@misconception("train_reward_model", why="the learning rate decays once an epoch: it decays at every step", read=TRAIN)
def decays_by_epoch(model, pairs, config):
    return _fit(model, pairs, config, factor=lambda k, n: 1 - (k * config.epochs // n) / config.epochs)


@misconception(
    "train_reward_model",
    why="the learning rate decays in every epoch anew: one line runs over all epochs",
    read=TRAIN,
)
def decay_starts_anew_each_epoch(model, pairs, config):
    return _fit(model, pairs, config, factor=lambda k, n: 1 - (k % (n // config.epochs)) / (n // config.epochs))


@misconception(
    "train_reward_model", why="gradients are not clipped: one odd batch can throw the model far off", read=TRAIN
)
def gradients_not_clipped(model, pairs, config):
    return _fit(model, pairs, config, clip=None)


@misconception("train_reward_model", why="the norm is fixed at 1: config.max_grad_norm is ignored", read=TRAIN)
def norm_fixed_at_1(model, pairs, config):
    return _fit(model, pairs, config, max_grad_norm=1.0)


@misconception(
    "train_reward_model",
    why="each gradient number is clipped by itself: that turns the direction, clip the norm",
    read=TRAIN,
)
def clipped_by_value(model, pairs, config):
    return _fit(model, pairs, config, clip="value")


@misconception(
    "train_reward_model",
    why="each parameter is clipped by itself: the norm is that of all gradients together",
    read=TRAIN,
)
def each_parameter_clipped_alone(model, pairs, config):
    return _fit(model, pairs, config, clip="each")


@misconception("train_reward_model", why="gradients are never zeroed: those of all earlier steps pile up", read=TRAIN)
def gradients_pile_up(model, pairs, config):
    return _fit(model, pairs, config, zero_grad=False)


@misconception("train_reward_model", why="only the head is trained: the body learns, too", read=TRAIN)
def only_the_head_trained(model, pairs, config):
    return _fit(model, pairs, config, parameters=model.head.parameters())


@misconception(
    "train_reward_model", why="AdamW's own weight_decay of 0.01 is left on: this exercise asks for none", read=TRAIN
)
def weight_decay_left_on(model, pairs, config):
    return _fit(model, pairs, config, optimizer=torch.optim.AdamW(model.parameters(), lr=config.learning_rate))


@misconception("train_reward_model", why="plain gradient descent: the optimiser is AdamW", read=TRAIN)
def plain_gradient_descent(model, pairs, config):
    return _fit(model, pairs, config, optimizer=torch.optim.SGD(model.parameters(), lr=config.learning_rate))


@misconception(
    "train_reward_model", why="the model is left in train mode: with dropout its scores are then random", read=TRAIN
)
def left_in_train_mode(model, pairs, config):
    return _fit(model, pairs, config, train_mode=(True, True))


@misconception("train_reward_model", why="trained in eval mode: model.train() is missing", read=TRAIN)
def trained_in_eval_mode(model, pairs, config):
    return _fit(model, pairs, config, train_mode=(False, False))


@misconception(
    "train_reward_model",
    why="loss and accuracy are measured after the step, on the pairs it has just learnt: too rosy",
    read=TRAIN,
)
def measured_after_the_step(model, pairs, config):
    return _fit(model, pairs, config, record="after")


@misconception("train_reward_model", why="only the last step is reported: one dict for each step is due", read=TRAIN)
def only_the_last_step_reported(model, pairs, config):
    return _fit(model, pairs, config)[-1:]


@misconception("train_reward_model", why="the history holds tensors: .item() makes numbers of them", read=TRAIN)
def history_of_tensors(model, pairs, config):
    history = _fit(model, pairs, config)
    return [{name: torch.tensor(number, dtype=torch.float64) for name, number in entry.items()} for entry in history]
