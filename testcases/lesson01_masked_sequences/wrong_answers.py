"""Wrong ideas about logits, masks and stops, as code. Each is rejected by the basic suite, and named when submitted."""

from __future__ import annotations

import math

import torch

from testcases.engine import misconception

GATHER = "gather_log_probs: the log-probability of a token"
SHIFT = "response_log_probs: the shift"
ENTROPY = "token_entropy: how undecided is the policy"
MEAN = "masked_mean: each token counts once"
WHITEN = "masked_whiten: variance 1, mean 0 or kept"
FIRST = "first_true_index: where does it begin"
STOP = "response_mask: up to the first stop token"
TRUNCATE = "truncate_after_stop: padding after the end"
POSITION = "position_ids: padding does not move a text"
WRONG = "What people get wrong"


def _float32(logits):
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


def _scaled(logits, temperature):
    return _float32(logits) / temperature


def _log_probs(logits, temperature):
    return _scaled(logits, temperature).log_softmax(-1)


def _pick(numbers, tokens):
    return numbers.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def _gather(logits, tokens, temperature):
    return _pick(_log_probs(logits, temperature), tokens)


# gather_log_probs


@misconception(
    "gather_log_probs", why="temperature is ignored: the policy that is scored is not the one that sampled", read=GATHER
)
def temperature_ignored(logits, tokens, temperature=1.0):
    return _gather(logits, tokens, 1.0)


@misconception(
    "gather_log_probs",
    why="log-probabilities are divided by temperature: they no longer sum to 1; divide the logits, then normalise",
    read=GATHER,
)
def log_probs_divided_by_temperature(logits, tokens, temperature=1.0):
    return _gather(logits, tokens, 1.0) / temperature


@misconception(
    "gather_log_probs", why="logits are multiplied by temperature; a high temperature flattens: divide", read=GATHER
)
def logits_times_temperature(logits, tokens, temperature=1.0):
    return _gather(logits, tokens, 1 / temperature)


@misconception(
    "gather_log_probs",
    why="temperature divides the chosen logit but not those in the logsumexp: both need the same logits",
    read=GATHER,
)
def temperature_on_the_chosen_logit_only(logits, tokens, temperature=1.0):
    return _pick(_scaled(logits, temperature), tokens) - _float32(logits).logsumexp(-1)


@misconception(
    "gather_log_probs",
    why="the logit itself is returned: without subtracting the logsumexp it is no log-probability",
    read=GATHER,
)
def logit_not_normalised(logits, tokens, temperature=1.0):
    return _pick(_scaled(logits, temperature), tokens)


@misconception("gather_log_probs", why="the probability is returned, not its logarithm", read=GATHER)
def probability_without_the_log(logits, tokens, temperature=1.0):
    return _gather(logits, tokens, temperature).exp()


@misconception(
    "gather_log_probs",
    why="this is the cross-entropy: minus the log-probability; a log-probability is never above 0",
    read=GATHER,
)
def cross_entropy_without_a_minus(logits, tokens, temperature=1.0):
    return -_gather(logits, tokens, temperature)


@misconception(
    "gather_log_probs",
    why="the softmax runs over positions; probabilities sum to 1 over the vocabulary, the last dimension",
    read=GATHER,
)
def softmax_over_time(logits, tokens, temperature=1.0):
    return _pick(_scaled(logits, temperature).log_softmax(1), tokens)


@misconception(
    "gather_log_probs",
    why="the most likely token is scored, not the one in tokens: the policy sampled, it was not greedy",
    read=GATHER,
)
def most_likely_token_scored(logits, tokens, temperature=1.0):
    return _log_probs(logits, temperature).amax(-1)


@misconception(
    "gather_log_probs",
    why="the shift is made here: these logits stand at the token's own place, response_log_probs shifts",
    read=GATHER,
)
def shifted_too_early(logits, tokens, temperature=1.0):
    return _gather(logits[:, :-1], tokens[:, 1:], temperature)


@misconception("gather_log_probs", why="gather keeps the vocabulary as a size of 1: squeeze it away", read=GATHER)
def last_size_not_squeezed(logits, tokens, temperature=1.0):
    return _gather(logits, tokens, temperature).unsqueeze(-1)


@misconception(
    "gather_log_probs", why="the response is summed up: each token keeps its own log-probability", read=GATHER
)
def summed_over_the_tokens(logits, tokens, temperature=1.0):
    return _gather(logits, tokens, temperature).sum(-1)


@misconception(
    "gather_log_probs",
    why="the log is taken of a softmax that is rounded to 0: -inf where -1000 is right; use logsumexp",
    read=GATHER,
)
def log_of_a_softmax(logits, tokens, temperature=1.0):
    return _pick(_scaled(logits, temperature).softmax(-1).log(), tokens)


@misconception(
    "gather_log_probs",
    why="a small number is added inside the log: every answer is a little off, and rare tokens are far off",
    read=GATHER,
)
def small_number_inside_the_log(logits, tokens, temperature=1.0):
    return (_pick(_scaled(logits, temperature).softmax(-1), tokens) + 1e-8).log()


@misconception(
    "gather_log_probs",
    why="bfloat16 stays bfloat16: two digits are too few for a ratio near 1; compute in float32",
    read=GATHER,
)
def computed_in_bfloat16(logits, tokens, temperature=1.0):
    return _pick((logits / temperature).log_softmax(-1), tokens)


@misconception(
    "gather_log_probs",
    why="the cast to float32 comes after the division: the digits are lost already; cast first",
    read=GATHER,
)
def cast_to_float32_too_late(logits, tokens, temperature=1.0):
    return _gather(_float32(logits / temperature), tokens, 1.0)


@misconception(
    "gather_log_probs", why="float64 is cut down to float32: only bfloat16 and float16 are converted", read=GATHER
)
def float64_cut_down(logits, tokens, temperature=1.0):
    return _gather(logits.float(), tokens, temperature)


@misconception(
    "gather_log_probs", why="the graph is cut: the policy learns through exactly this log-probability", read=GATHER
)
def scored_without_gradient(logits, tokens, temperature=1.0):
    return _gather(logits, tokens, temperature).detach()


# response_log_probs


@misconception(
    "response_log_probs",
    why="not shifted: logits[:, i] predict the token at i + 1, so the token at P is scored at P - 1",
    read=SHIFT,
)
def logits_not_shifted(logits, input_ids, prompt_length, temperature=1.0):
    return _gather(logits[:, prompt_length:], input_ids[:, prompt_length:], temperature)


@misconception(
    "response_log_probs",
    why="shifted the wrong way: logits[:, i] are held against the token at i - 1, which the model has read",
    read=SHIFT,
)
def logits_held_against_the_token_before(logits, input_ids, prompt_length, temperature=1.0):
    return _gather(logits[:, prompt_length:], input_ids[:, prompt_length - 1 : -1], temperature)


@misconception(
    "response_log_probs",
    why="after the shift the response begins at P - 1, not at P: the first token is lost and the end wraps round",
    read=SHIFT,
)
def rolled_and_cut_at_p(logits, input_ids, prompt_length, temperature=1.0):
    return _gather(logits, input_ids.roll(-1, 1), temperature)[:, prompt_length:]


@misconception(
    "response_log_probs",
    why="after the shift the response begins at P - 1, not at P: the first response token is lost",
    read=SHIFT,
)
def first_response_token_lost(logits, input_ids, prompt_length, temperature=1.0):
    return _gather(logits[:, :-1], input_ids[:, 1:], temperature)[:, prompt_length:]


@misconception("response_log_probs", why="the last response token is lost; only its logits score nothing", read=SHIFT)
def last_response_token_lost(logits, input_ids, prompt_length, temperature=1.0):
    return _gather(logits[:, prompt_length - 1 : -2], input_ids[:, prompt_length:-1], temperature)


@misconception(
    "response_log_probs", why="the tokens of the prompt are scored as well: the policy did not write them", read=SHIFT
)
def prompt_scored_too(logits, input_ids, prompt_length, temperature=1.0):
    return _gather(logits[:, :-1], input_ids[:, 1:], temperature)


@misconception(
    "response_log_probs",
    why="one token too early: the last prompt token is scored, and the last response token is not",
    read=SHIFT,
)
def one_token_too_early(logits, input_ids, prompt_length, temperature=1.0):
    scored = _gather(logits[:, :-1], input_ids[:, 1:], temperature)
    return torch.cat([torch.zeros_like(scored[:, :1]), scored], dim=1)[:, prompt_length - 1 : -1]


@misconception(
    "response_log_probs",
    why="temperature is not passed on: the ratio to the sampling policy is then not 1 at the start",
    read=SHIFT,
)
def temperature_not_passed_on(logits, input_ids, prompt_length, temperature=1.0):
    return _gather(logits[:, prompt_length - 1 : -1], input_ids[:, prompt_length:], 1.0)


@misconception(
    "response_log_probs",
    why="temperature is applied twice: here and again in gather_log_probs",
    read=SHIFT,
)
def temperature_applied_twice(logits, input_ids, prompt_length, temperature=1.0):
    return _gather(logits[:, prompt_length - 1 : -1] / temperature, input_ids[:, prompt_length:], temperature)


@misconception(
    "response_log_probs",
    why="all positions are computed, then cut: NaN logits of padding reach the gradient; cut the logits first",
    read=SHIFT,
)
def computed_first_cut_later(logits, input_ids, prompt_length, temperature=1.0):
    return _gather(logits[:, :-1], input_ids[:, 1:], temperature)[:, prompt_length - 1 :]


@misconception(
    "response_log_probs", why="the graph is cut: the policy learns through exactly these numbers", read=SHIFT
)
def response_scored_without_gradient(logits, input_ids, prompt_length, temperature=1.0):
    return _gather(logits[:, prompt_length - 1 : -1], input_ids[:, prompt_length:], temperature).detach()


# token_entropy


def _surprise(logits, temperature):
    """Probabilities and log-probabilities, 0 for the log of a forbidden token."""
    log_probs = _log_probs(logits, temperature)
    log_probs = log_probs.masked_fill(log_probs == -math.inf, 0.0)
    return _scaled(logits, temperature).softmax(-1), log_probs


def _entropy(logits, temperature):
    probs, log_probs = _surprise(logits, temperature)
    return -(probs * log_probs).sum(-1)


@misconception(
    "token_entropy",
    why="a forbidden token gives 0 * -inf = NaN; p log p goes to 0 there: replace its log-probability first",
    read=ENTROPY,
)
def nan_at_forbidden_tokens(logits, temperature=1.0):
    log_probs = _log_probs(logits, temperature)
    return -(log_probs.exp() * log_probs).sum(-1)


@misconception(
    "token_entropy",
    why="NaN is replaced after the product: the value is right, its gradient is NaN; replace the -inf before",
    read=ENTROPY,
)
def nan_replaced_too_late(logits, temperature=1.0):
    log_probs = _log_probs(logits, temperature)
    return -(log_probs.exp() * log_probs).nan_to_num(nan=0.0).sum(-1)


@misconception(
    "token_entropy",
    why="p log p (entr, xlogy) has an infinite slope at p = 0: right value, NaN gradient; start from log_softmax",
    read=ENTROPY,
)
def infinite_slope_at_probability_0(logits, temperature=1.0):
    return torch.special.entr(_scaled(logits, temperature).softmax(-1)).sum(-1)


@misconception(
    "token_entropy",
    why="Categorical puts the lowest float in place of -inf: weighted by more than 1 its gradient overflows to NaN",
    read=ENTROPY,
)
def entropy_by_categorical(logits, temperature=1.0):
    return torch.distributions.Categorical(logits=_scaled(logits, temperature)).entropy()


@misconception("token_entropy", why="the sign is missing: sum p log p is negative, entropy is not", read=ENTROPY)
def entropy_with_the_wrong_sign(logits, temperature=1.0):
    return -_entropy(logits, temperature)


@misconception("token_entropy", why="temperature is ignored: it divides the logits here as well", read=ENTROPY)
def entropy_without_temperature(logits, temperature=1.0):
    return _entropy(logits, 1.0)


@misconception("token_entropy", why="the entropy is divided by temperature, and not the logits", read=ENTROPY)
def entropy_divided_by_temperature(logits, temperature=1.0):
    return _entropy(logits, 1.0) / temperature


@misconception("token_entropy", why="logits are multiplied by temperature; divide them", read=ENTROPY)
def entropy_of_logits_times_temperature(logits, temperature=1.0):
    return _entropy(logits, 1 / temperature)


@misconception(
    "token_entropy", why="the mean over the vocabulary is taken; the probabilities are the weights: sum", read=ENTROPY
)
def mean_over_the_vocabulary(logits, temperature=1.0):
    return _entropy(logits, temperature) / logits.shape[-1]


@misconception(
    "token_entropy", why="log to the base 2 gives bits; this course uses nats, the natural log", read=ENTROPY
)
def entropy_in_bits(logits, temperature=1.0):
    return _entropy(logits, temperature) / math.log(2)


@misconception(
    "token_entropy", why="divided by log V: the scale is nats, between 0 and log V, not 0 to 1", read=ENTROPY
)
def entropy_scaled_to_one(logits, temperature=1.0):
    return _entropy(logits, temperature) / math.log(logits.shape[-1])


@misconception(
    "token_entropy", why="the probabilities are left out: -log p[v] has to be weighted by p[v]", read=ENTROPY
)
def surprises_not_weighted(logits, temperature=1.0):
    return -_surprise(logits, temperature)[1].sum(-1)


@misconception(
    "token_entropy", why="only the likeliest token is looked at; entropy is the mean surprise of all", read=ENTROPY
)
def surprise_of_the_likeliest_token(logits, temperature=1.0):
    return -_log_probs(logits, temperature).amax(-1)


@misconception(
    "token_entropy",
    why="logits stand in for log-probabilities: subtract the logsumexp first, a shift must change nothing",
    read=ENTROPY,
)
def logits_taken_for_log_probs(logits, temperature=1.0):
    scaled = _scaled(logits, temperature)
    return -(scaled.softmax(-1) * scaled.masked_fill(scaled == -math.inf, 0.0)).sum(-1)


@misconception("token_entropy", why="a small number inside the log makes every answer a little wrong", read=ENTROPY)
def small_number_inside_the_log_of_entropy(logits, temperature=1.0):
    probs = _scaled(logits, temperature).softmax(-1)
    return -(probs * (probs + 1e-8).log()).sum(-1)


@misconception(
    "token_entropy",
    why="the softmax runs over positions; it belongs to the vocabulary, the last dimension",
    read=ENTROPY,
)
def entropy_over_time(logits, temperature=1.0):
    return _entropy(logits.transpose(1, 2), temperature)


@misconception("token_entropy", why="averaged over all tokens: one number for each position is due", read=ENTROPY)
def entropy_averaged_over_tokens(logits, temperature=1.0):
    return _entropy(logits, temperature).mean()


@misconception(
    "token_entropy",
    why="the probabilities are detached: what is left has the gradient 0, so the bonus does nothing",
    read=ENTROPY,
)
def probabilities_detached(logits, temperature=1.0):
    probs, log_probs = _surprise(logits, temperature)
    return -(probs.detach() * log_probs).sum(-1)


@misconception("token_entropy", why="the graph is cut: an entropy bonus has to reach the logits", read=ENTROPY)
def entropy_without_gradient(logits, temperature=1.0):
    return _entropy(logits, temperature).detach()


@misconception("token_entropy", why="bfloat16 stays bfloat16: compute in float32", read=ENTROPY)
def entropy_in_bfloat16(logits, temperature=1.0):
    probs = (logits / temperature).softmax(-1)
    log_probs = (logits / temperature).log_softmax(-1)
    return -(probs * log_probs.masked_fill(log_probs == -math.inf, 0.0)).sum(-1)


# masked_mean


@misconception("masked_mean", why="the padding is averaged as well: the mask is never used", read=MEAN)
def padding_averaged_too(values, mask):
    return values.mean()


@misconception(
    "masked_mean",
    why="the sum is divided by all columns: the mean shrinks with the padding; divide by the real tokens",
    read=MEAN,
)
def divided_by_every_column(values, mask):
    return values.masked_fill(~mask, 0.0).mean()


@misconception(
    "masked_mean",
    why="the mean of row means: a token of a short response then counts more than one of a long response",
    read=MEAN,
)
def mean_of_row_means(values, mask):
    rows = values.masked_fill(~mask, 0.0).sum(1) / mask.sum(1).clamp(min=1)
    return rows[mask.any(1)].mean()


@misconception("masked_mean", why="one mean for each row: the answer is one number for the batch", read=MEAN)
def one_mean_for_each_row(values, mask):
    return values.masked_fill(~mask, 0.0).sum(1) / mask.sum(1).clamp(min=1)


@misconception("masked_mean", why="the sum is divided by the rows, so long responses weigh more", read=MEAN)
def divided_by_the_rows(values, mask):
    return values.masked_fill(~mask, 0.0).sum() / values.shape[0]


@misconception("masked_mean", why="the sum is not divided by the number of real tokens", read=MEAN)
def sum_for_mean(values, mask):
    return values[mask].sum()


@misconception(
    "masked_mean",
    why="multiplied by the mask: 0 * NaN is NaN, so padding still enters; select with values[mask]",
    read=MEAN,
)
def multiplied_by_the_mask(values, mask):
    return (values * mask).sum() / mask.sum()


@misconception("masked_mean", why="True is taken for padding; True is a real token", read=MEAN)
def mean_of_the_padding(values, mask):
    return values[~mask].mean()


@misconception("masked_mean", why="zeros are taken for padding, not the mask: a real value may be 0", read=MEAN)
def zeros_taken_for_padding(values, mask):
    kept = values.masked_fill(~mask, 0.0)
    return kept.sum() / (kept != 0).sum()


@misconception(
    "masked_mean",
    why="a small number is added to the count: the answer is a little off; an empty mask is an error instead",
    read=MEAN,
)
def small_number_in_the_count(values, mask):
    return values[mask].sum() / (mask.sum() + 1e-6)


@misconception("masked_mean", why="the graph is cut: losses are made with this mean", read=MEAN)
def mean_without_gradient(values, mask):
    return values[mask].mean().detach()


@misconception(
    "masked_mean", why="the padding of the caller's tensor is overwritten: masked_fill, not masked_fill_", read=MEAN
)
def padding_overwritten(values, mask):
    values.masked_fill_(~mask, 0.0)
    return values.sum() / mask.sum()


# masked_whiten


def _variance(real, mean):
    return (real - mean).square().sum() / max(real.numel() - 1, 1)


def _put_back(values, mask, whitened):
    return torch.zeros_like(values).masked_scatter(mask, whitened)


def _whiten(values, mask, shift_mean, variance=None, mean=None):
    real = values[mask]
    mean = real.mean() if mean is None else mean
    whitened = (real - mean) * torch.rsqrt((_variance(real, mean) if variance is None else variance) + 1e-8)
    return _put_back(values, mask, whitened if shift_mean else whitened + mean)


@misconception(
    "masked_whiten",
    why="the flag is inverted: shift_mean=True has to centre, and the mean is added back only if it is False",
    read=WRONG,
)
def shift_mean_inverted(values, mask, shift_mean=True):
    return _whiten(values, mask, not shift_mean)


@misconception("masked_whiten", why="shift_mean is ignored: the mean is always removed", read=WHITEN)
def mean_always_removed(values, mask, shift_mean=True):
    return _whiten(values, mask, True)


@misconception("masked_whiten", why="shift_mean is ignored: the mean is always added back", read=WHITEN)
def mean_always_kept(values, mask, shift_mean=True):
    return _whiten(values, mask, False)


@misconception(
    "masked_whiten",
    why="shift_mean=False leaves the mean in before the division: it is scaled too; centre, divide, add the mean",
    read=WHITEN,
)
def mean_scaled_too(values, mask, shift_mean=True):
    real = values[mask]
    factor = torch.rsqrt(_variance(real, real.mean()) + 1e-8)
    return _put_back(values, mask, (real - real.mean() if shift_mean else real) * factor)


@misconception("masked_whiten", why="the variance is divided by n; the unbiased one is divided by n - 1", read=WHITEN)
def biased_variance(values, mask, shift_mean=True):
    return _whiten(values, mask, shift_mean, variance=(values[mask] - values[mask].mean()).square().mean())


@misconception(
    "masked_whiten",
    why="the variance is divided by the number of columns, padding included; count the real tokens",
    read=WHITEN,
)
def variance_over_every_column(values, mask, shift_mean=True):
    squares = (values[mask] - values[mask].mean()).square().sum()
    return _whiten(values, mask, shift_mean, variance=squares / max(values.numel() - 1, 1))


@misconception(
    "masked_whiten", why="mean and variance are taken over the padding too; select the real tokens first", read=WHITEN
)
def padding_in_the_statistics(values, mask, shift_mean=True):
    mean = values.mean()
    return _whiten(values, mask, shift_mean, variance=_variance(values.flatten(), mean), mean=mean)


@misconception(
    "masked_whiten", why="the padding is whitened too and not set to 0: it holds a number far from 0", read=WHITEN
)
def padding_not_zero(values, mask, shift_mean=True):
    mean = values[mask].mean()
    whitened = (values - mean) * torch.rsqrt(_variance(values[mask], mean) + 1e-8)
    return whitened if shift_mean else whitened + mean


@misconception(
    "masked_whiten",
    why="the mean is added back to the padding as well: 0 where masked, with either flag",
    read=WHITEN,
)
def mean_added_to_the_padding(values, mask, shift_mean=True):
    whitened = _whiten(values, mask, True)
    return whitened if shift_mean else whitened + values[mask].mean()


@misconception(
    "masked_whiten",
    why="multiplied by the mask: 0 * NaN is NaN, so padding enters mean and variance; select first",
    read=WHITEN,
)
def statistics_times_the_mask(values, mask, shift_mean=True):
    count = mask.sum()
    mean = (values * mask).sum() / count
    variance = ((values - mean).square() * mask).sum() / (count - 1).clamp(min=1)
    whitened = (values - mean) * torch.rsqrt(variance + 1e-8)
    return (whitened if shift_mean else whitened + mean) * mask


@misconception(
    "masked_whiten",
    why="one token gives 0 / 0 = NaN: n - 1 is 0 there, and the variance of a single token is 0",
    read=WHITEN,
)
def nan_for_a_single_token(values, mask, shift_mean=True):
    real = values[mask]
    return _whiten(values, mask, shift_mean, variance=(real - real.mean()).square().sum() / (real.numel() - 1))


@misconception(
    "masked_whiten",
    why="the small number is added to the standard deviation; it belongs under the root, to the variance",
    read=WHITEN,
)
def small_number_beside_the_root(values, mask, shift_mean=True):
    real, mean = values[mask], values[mask].mean()
    whitened = (real - mean) / (_variance(real, mean).sqrt() + 1e-8)
    return _put_back(values, mask, whitened if shift_mean else whitened + mean)


@misconception("masked_whiten", why="the small number is left out: equal values give 0 / 0 = NaN", read=WHITEN)
def no_small_number(values, mask, shift_mean=True):
    real, mean = values[mask], values[mask].mean()
    whitened = (real - mean) / _variance(real, mean).sqrt()
    return _put_back(values, mask, whitened if shift_mean else whitened + mean)


@misconception(
    "masked_whiten", why="the small number is a floor, clamp(min=1e-8): it is added to the variance", read=WHITEN
)
def small_number_as_a_floor(values, mask, shift_mean=True):
    real, mean = values[mask], values[mask].mean()
    whitened = (real - mean) / _variance(real, mean).clamp(min=1e-8).sqrt()
    return _put_back(values, mask, whitened if shift_mean else whitened + mean)


@misconception("masked_whiten", why="divided by the variance; divide by its square root", read=WHITEN)
def divided_by_the_variance(values, mask, shift_mean=True):
    real, mean = values[mask], values[mask].mean()
    whitened = (real - mean) / (_variance(real, mean) + 1e-8)
    return _put_back(values, mask, whitened if shift_mean else whitened + mean)


@misconception("masked_whiten", why="only the mean is removed: the variance is not brought to 1", read=WHITEN)
def centred_but_not_scaled(values, mask, shift_mean=True):
    real = values[mask]
    return _put_back(values, mask, real - real.mean() if shift_mean else real)


@misconception(
    "masked_whiten", why="each row is whitened by itself: mean and variance belong to the whole batch", read=WHITEN
)
def whitened_row_by_row(values, mask, shift_mean=True):
    pairs = zip(values.split(1), mask.split(1), strict=True)
    return torch.cat([_whiten(row, real, shift_mean) if real.any() else torch.zeros_like(row) for row, real in pairs])


@misconception(
    "masked_whiten",
    why="sum of squares minus squared mean loses all digits far from 0: subtract the mean before you square",
    read=WHITEN,
)
def variance_from_squares(values, mask, shift_mean=True):
    real = values[mask]
    spread = (real.square().mean() - real.mean().square()).clamp(min=0)
    return _whiten(values, mask, shift_mean, variance=spread * real.numel() / max(real.numel() - 1, 1))


@misconception("masked_whiten", why="True is taken for padding; True is a real token", read=WHITEN)
def padding_whitened_instead(values, mask, shift_mean=True):
    return _whiten(values, ~mask, shift_mean)


@misconception(
    "masked_whiten",
    why="mean and variance are detached: each number also moves them, and that belongs to the gradient",
    read=WHITEN,
)
def statistics_detached(values, mask, shift_mean=True):
    real = values[mask].detach()
    return _whiten(values, mask, shift_mean, variance=_variance(real, real.mean()), mean=real.mean())


@misconception("masked_whiten", why="the graph is cut; the caller decides what is detached", read=WHITEN)
def whitened_without_gradient(values, mask, shift_mean=True):
    return _whiten(values, mask, shift_mean).detach()


@misconception("masked_whiten", why="the result is written into the caller's tensor; make a new one", read=WHITEN)
def whitened_in_place(values, mask, shift_mean=True):
    return values.copy_(_whiten(values.clone(), mask, shift_mean))


# first_true_index


def _first(flags):
    return (flags.long().cumsum(1) == 0).sum(1)


@misconception(
    "first_true_index",
    why="argmax alone says 0 for a row without a True; 0 means the first column, so that row needs T",
    read=FIRST,
)
def zero_where_there_is_none(flags):
    return flags.long().argmax(1)


@misconception(
    "first_true_index", why="a row without a True gets -1, which indexes the last column; T is due", read=FIRST
)
def minus_one_where_there_is_none(flags):
    return _first(flags).masked_fill(~flags.any(1), -1)


@misconception("first_true_index", why="a row without a True gets T - 1, as if the last column were one", read=FIRST)
def last_column_where_there_is_none(flags):
    return _first(flags).clamp(max=flags.shape[1] - 1)


@misconception("first_true_index", why="the last True is found, not the first", read=FIRST)
def last_true_index(flags):
    return (flags.shape[1] - 1 - _first(flags.flip(1))).masked_fill(~flags.any(1), flags.shape[1])


@misconception("first_true_index", why="every False is counted, those after the first True too", read=FIRST)
def every_false_counted(flags):
    return (~flags).sum(1)


@misconception("first_true_index", why="the True flags are counted: how many there are, not where", read=FIRST)
def every_true_counted(flags):
    return flags.sum(1)


@misconception("first_true_index", why="one too many: columns are counted from 0", read=FIRST)
def counted_from_one_column(flags):
    return (_first(flags) + 1).clamp(max=flags.shape[1])


@misconception(
    "first_true_index",
    why="one too few: this is the column before the first True, as for a last real token",
    read=FIRST,
)
def column_before_the_first(flags):
    return _first(flags) - 1


@misconception("first_true_index", why="it looks down the columns: one answer for each row is due", read=FIRST)
def down_the_columns(flags):
    return (flags.long().cumsum(0) == 0).sum(0)


@misconception("first_true_index", why="the answer is (B, 1): drop the size of 1", read=FIRST)
def index_with_a_size_of_one(flags):
    return _first(flags).unsqueeze(1)


@misconception("first_true_index", why="a float cannot index: the answer is int64", read=FIRST)
def index_as_a_float(flags):
    return _first(flags).double()


# response_mask


def _is_stop(responses, stop_token_ids):
    return torch.isin(responses, torch.tensor(tuple(stop_token_ids), dtype=responses.dtype))


def _upto_first(is_stop):
    return is_stop.long().cumsum(1) - is_stop.long() == 0


@misconception(
    "response_mask",
    why="the stop token is masked out: the policy chose it, and without it never learns to stop",
    read=STOP,
)
def stop_token_left_out(responses, stop_token_ids):
    return _is_stop(responses, stop_token_ids).long().cumsum(1) == 0


@misconception(
    "response_mask",
    why="the test `!= stop` masks each stop token and nothing else: what follows the first one stays in",
    read=WRONG,
)
def only_the_stop_tokens_masked(responses, stop_token_ids):
    return ~_is_stop(responses, stop_token_ids)


@misconception(
    "response_mask", why="it runs up to the last stop token: everything after the first is not the policy's", read=STOP
)
def up_to_the_last_stop(responses, stop_token_ids):
    is_stop = _is_stop(responses, stop_token_ids)
    stops_later = is_stop.flip(1).long().cumsum(1).flip(1) > 0
    return stops_later | ~is_stop.any(1, keepdim=True)


@misconception("response_mask", why="it runs to the second stop token; the first one ends the response", read=STOP)
def up_to_the_second_stop(responses, stop_token_ids):
    return _is_stop(responses, stop_token_ids).long().cumsum(1) <= 1


@misconception("response_mask", why="one token after the stop is still taken for real", read=STOP)
def one_token_after_the_stop(responses, stop_token_ids):
    upto = _upto_first(_is_stop(responses, stop_token_ids))
    return torch.cat([torch.ones_like(upto[:, :1]), upto[:, :-1]], dim=1)


@misconception("response_mask", why="only the first of the stop ids is looked for; any of them ends it", read=STOP)
def only_the_first_stop_id(responses, stop_token_ids):
    return _upto_first(_is_stop(responses, stop_token_ids[:1]))


@misconception("response_mask", why="this is a padding mask: True has to mean a real token", read=STOP)
def true_for_padding(responses, stop_token_ids):
    return ~_upto_first(_is_stop(responses, stop_token_ids))


@misconception(
    "response_mask",
    why="a response that never stops is masked out: all its tokens were written by the policy",
    read=STOP,
)
def unfinished_rows_dropped(responses, stop_token_ids):
    is_stop = _is_stop(responses, stop_token_ids)
    return _upto_first(is_stop) & is_stop.any(1, keepdim=True)


@misconception(
    "response_mask",
    why="stop tokens are stripped from the end: a response with more text after its first stop goes on",
    read=STOP,
)
def trailing_stops_stripped(responses, stop_token_ids):
    text_later = (~_is_stop(responses, stop_token_ids)).flip(1).long().cumsum(1).flip(1) > 0
    return torch.cat([torch.ones_like(text_later[:, :1]), text_later[:, :-1]], dim=1)


@misconception("response_mask", why="the rows are run together: a stop in one row ends the rows after it", read=STOP)
def rows_run_together(responses, stop_token_ids):
    is_stop = _is_stop(responses, stop_token_ids)
    return _upto_first(is_stop.reshape(1, -1)).reshape(is_stop.shape)


@misconception("response_mask", why="the mask is made of 0 and 1: numbers index, a mask has to be bool", read=STOP)
def mask_of_numbers(responses, stop_token_ids):
    return _upto_first(_is_stop(responses, stop_token_ids)).long()


# truncate_after_stop


def _truncated(responses, mask, fill):
    return responses.masked_fill(~mask, fill)


@misconception(
    "truncate_after_stop", why="the stop token is overwritten as well: it belongs to the response", read=TRUNCATE
)
def stop_token_overwritten(responses, stop_token_ids, pad_token_id):
    return _truncated(responses, stop_token_left_out(responses, stop_token_ids), pad_token_id)


@misconception("truncate_after_stop", why="zeros are written: the padding id is an argument", read=TRUNCATE)
def zeros_for_padding(responses, stop_token_ids, pad_token_id):
    return _truncated(responses, _upto_first(_is_stop(responses, stop_token_ids)), 0)


@misconception("truncate_after_stop", why="the stop token is repeated in place of the padding id", read=TRUNCATE)
def filled_with_the_stop_token(responses, stop_token_ids, pad_token_id):
    fill = stop_token_ids[0] if stop_token_ids else pad_token_id
    return _truncated(responses, _upto_first(_is_stop(responses, stop_token_ids)), fill)


@misconception("truncate_after_stop", why="the caller's tensor is overwritten; a new one is due", read=TRUNCATE)
def truncated_in_place(responses, stop_token_ids, pad_token_id):
    return responses.masked_fill_(~_upto_first(_is_stop(responses, stop_token_ids)), pad_token_id)


@misconception("truncate_after_stop", why="it is cut after the last stop token; the first one ends it", read=TRUNCATE)
def cut_after_the_last_stop(responses, stop_token_ids, pad_token_id):
    return _truncated(responses, up_to_the_last_stop(responses, stop_token_ids), pad_token_id)


@misconception(
    "truncate_after_stop", why="only the first of the stop ids is looked for; any of them ends it", read=TRUNCATE
)
def cut_at_the_first_stop_id_only(responses, stop_token_ids, pad_token_id):
    return _truncated(responses, only_the_first_stop_id(responses, stop_token_ids), pad_token_id)


@misconception("truncate_after_stop", why="one token after the stop is kept", read=TRUNCATE)
def one_token_kept_too_many(responses, stop_token_ids, pad_token_id):
    return _truncated(responses, one_token_after_the_stop(responses, stop_token_ids), pad_token_id)


@misconception(
    "truncate_after_stop",
    why="the padding id is taken for a stop: only stop_token_ids end a response, it may be a normal token",
    read=TRUNCATE,
)
def pad_taken_for_a_stop(responses, stop_token_ids, pad_token_id):
    return _truncated(responses, _upto_first(_is_stop(responses, (*stop_token_ids, pad_token_id))), pad_token_id)


@misconception(
    "truncate_after_stop",
    why="the response is overwritten and the rest kept: fill where the mask is False",
    read=TRUNCATE,
)
def response_overwritten(responses, stop_token_ids, pad_token_id):
    return responses.masked_fill(_upto_first(_is_stop(responses, stop_token_ids)), pad_token_id)


@misconception(
    "truncate_after_stop",
    why="columns are cut off: the tensor keeps its size, other tensors of the batch must fit it",
    read=TRUNCATE,
)
def columns_cut_off(responses, stop_token_ids, pad_token_id):
    mask = _upto_first(_is_stop(responses, stop_token_ids))
    return _truncated(responses, mask, pad_token_id)[:, : int(mask.sum(1).max())]


@misconception(
    "truncate_after_stop",
    why="a response that never stops is overwritten from its start: it has to stay as it is",
    read=TRUNCATE,
)
def unfinished_rows_overwritten(responses, stop_token_ids, pad_token_id):
    return _truncated(responses, unfinished_rows_dropped(responses, stop_token_ids), pad_token_id)


# position_ids


def _columns(attention_mask):
    return torch.arange(attention_mask.shape[1]).expand(attention_mask.shape)


@misconception(
    "position_ids",
    why="the columns are numbered, so left padding moves the text: count the real tokens only",
    read=POSITION,
)
def columns_numbered(attention_mask):
    return _columns(attention_mask).clone()


@misconception("position_ids", why="counted from 1; the first real token stands at position 0", read=POSITION)
def counted_from_one(attention_mask):
    return attention_mask.long().cumsum(1) * attention_mask.long()


@misconception(
    "position_ids", why="left padding gets -1, which no table of positions has; padding gets 0", read=POSITION
)
def minus_one_on_left_padding(attention_mask):
    return attention_mask.long().cumsum(1) - 1


@misconception("position_ids", why="padding gets 1, as in some libraries; here padding gets 0", read=POSITION)
def one_on_padding(attention_mask):
    return (attention_mask.long().cumsum(1) - 1).masked_fill(attention_mask == 0, 1)


@misconception(
    "position_ids", why="right padding repeats the last position; padding gets 0 on either side", read=POSITION
)
def last_position_repeated(attention_mask):
    return (attention_mask.long().cumsum(1) - 1).clamp(min=0)


@misconception(
    "position_ids",
    why="right padding gets the number of real tokens, one beyond the last position; padding gets 0",
    read=POSITION,
)
def one_beyond_on_right_padding(attention_mask):
    return attention_mask.long().cumsum(1) - attention_mask.long()


@misconception(
    "position_ids", why="columns times mask: right for right padding only, a left-padded text is moved", read=POSITION
)
def right_padding_assumed(attention_mask):
    return _columns(attention_mask) * attention_mask.long()


@misconception(
    "position_ids",
    why="the number of pads is subtracted from the column: right for left padding only",
    read=POSITION,
)
def left_padding_assumed(attention_mask):
    real = attention_mask.long()
    pads = attention_mask.shape[1] - real.sum(1, keepdim=True)
    return (_columns(attention_mask) - pads).clamp(min=0) * real


@misconception(
    "position_ids",
    why="counted in columns from the first real token: padding inside moves what follows",
    read=POSITION,
)
def columns_from_the_first_real_token(attention_mask):
    real = attention_mask.long()
    return (_columns(attention_mask) - (real.cumsum(1) == 0).sum(1, keepdim=True)) * real


@misconception("position_ids", why="it counts down the batch, over rows; count along each row", read=POSITION)
def counted_over_rows(attention_mask):
    real = attention_mask.long()
    return (real.cumsum(0) - 1) * real


@misconception("position_ids", why="a position is an index: int64, not a float", read=POSITION)
def positions_as_floats(attention_mask):
    real = attention_mask.double()
    return (real.cumsum(1) - 1) * real
