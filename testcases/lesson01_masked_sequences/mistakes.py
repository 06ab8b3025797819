"""Mistakes in lesson 1, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first, instead

WRONG = "What people get wrong"


class GatherLogProbs(Wrong, of="gather_log_probs"):
    temperature_ignored = edit(" / temperature => ")
    """temperature is ignored: the policy that is scored is not the one that sampled"""
    log_probs_divided_by_temperature = edit(
        " / temperature => ", "chosen - scaled.logsumexp(dim=-1) => (chosen - scaled.logsumexp(dim=-1)) / temperature"
    )
    """log-probabilities are divided by temperature: they no longer sum to 1; divide the logits, then normalize"""
    logit_not_normalized = edit(" - scaled.logsumexp(dim=-1) => ")
    """the logit itself is returned: without subtracting the logsumexp it is no log-probability"""
    probability_without_the_log = edit("chosen - scaled.logsumexp(dim=-1) => (chosen - scaled.logsumexp(dim=-1)).exp()")
    """the probability is returned, not its logarithm"""
    cross_entropy_without_a_minus = edit("chosen - scaled.logsumexp(dim=-1) => scaled.logsumexp(dim=-1) - chosen")
    """this is the cross-entropy: minus the log-probability; a log-probability is never above 0"""
    softmax_over_time = edit("scaled.gather => scaled.log_softmax(dim=1).gather", " - scaled.logsumexp(dim=-1) => ")
    """the softmax runs over positions; probabilities sum to 1 over the vocabulary, the last dimension"""
    most_likely_token_scored = edit("chosen - => scaled.amax(dim=-1) -")
    """the most likely token is scored, not the one in tokens: the policy sampled, it was not greedy"""
    shifted_too_early = first("logits, tokens = logits[:, :-1], tokens[:, 1:]")
    """the shift is made here: these logits stand at the token's own place, response_log_probs shifts"""
    log_of_a_softmax = edit("scaled.gather => scaled.softmax(dim=-1).log().gather", " - scaled.logsumexp(dim=-1) => ")
    """the log is taken of a softmax that is rounded to 0: -inf where -1000 is right; use logsumexp"""
    small_number_inside_the_log = edit(
        "scaled.gather => (scaled.softmax(dim=-1) + 1e-8).log().gather", " - scaled.logsumexp(dim=-1) => "
    )
    """a small number is added inside the log: every answer is a little off, and rare tokens are far off"""
    computed_in_bfloat16 = edit(
        "_at_least_float32(logits) / temperature => (logits / temperature).log_softmax(dim=-1)",
        " - scaled.logsumexp(dim=-1) => ",
    )
    """you compute in bfloat16, whose two digits are too few for a ratio near 1; compute in float32"""
    float64_cut_down = edit("_at_least_float32(logits) => logits.float()")
    """float64 is converted to float32, but only bfloat16 and float16 should be converted"""


class ResponseLogProbs(Wrong, of="response_log_probs"):
    logits_not_shifted = edit("prompt_length - 1 : -1 => prompt_length:")
    """the logits aren't shifted, but logits[:, i] predict the token at i + 1, so the token at P is scored at P - 1"""
    first_response_token_lost = instead(
        "return gather_log_probs(logits[:, :-1], input_ids[:, 1:], temperature)[:, prompt_length:]"
    )
    """after the shift the response begins at P - 1, not at P: the first response token is lost"""
    prompt_scored_too = first("prompt_length = 1")
    """the tokens of the prompt are scored as well: the policy did not write them"""
    one_token_too_early = instead(
        "scored = gather_log_probs(logits[:, :-1], input_ids[:, 1:], temperature)\n"
        "return torch.nn.functional.pad(scored, (1, 0))[:, prompt_length - 1 : -1]"
    )
    """the tokens begin one too early, so the last prompt token is scored and the last response token is not"""
    temperature_not_passed_on = edit(", temperature => ")
    """temperature is not passed on: the ratio to the sampling policy is then not 1 at the start"""
    computed_first_cut_later = instead(
        "return gather_log_probs(logits[:, :-1], input_ids[:, 1:], temperature)[:, prompt_length - 1 :]"
    )
    """all positions are computed, then sliced: NaN logits of padding reach the gradient; slice the logits first"""


class TokenEntropy(Wrong, of="token_entropy"):
    nan_at_forbidden_tokens = edit(".masked_fill(log_probs == -torch.inf, 0.0) => ")
    """a forbidden token gives 0 * -inf = NaN; p log p goes to 0 there: replace its log-probability first"""
    nan_replaced_too_late = edit(
        ".masked_fill(log_probs == -torch.inf, 0.0) => ",
        "(probs * log_probs) => (probs * log_probs).nan_to_num(nan=0.0)",
    )
    """NaN is replaced after the product: the value is right, its gradient is NaN; replace the -inf before"""
    infinite_slope_at_probability_0 = edit("-(probs * log_probs) => torch.special.entr(probs)")
    """p log p (entr, xlogy) has an infinite slope at p = 0: right value, NaN gradient; start from log_softmax"""
    entropy_by_categorical = instead(
        "return torch.distributions.Categorical(logits=_at_least_float32(logits) / temperature).entropy()"
    )
    """Categorical puts the lowest float in place of -inf: weighted by more than 1 its gradient overflows to NaN"""
    entropy_of_divided_log_probs = edit(
        "(_at_least_float32(logits) / temperature).log_softmax(dim=-1) => "
        "_at_least_float32(logits).log_softmax(dim=-1) / temperature",
        "(_at_least_float32(logits) / temperature).softmax(dim=-1) => log_probs.exp()",
    )
    """the log-probabilities are divided by temperature: their exp no longer adds up to 1; divide the logits"""
    mean_over_the_vocabulary = edit("sum(dim=-1) => mean(dim=-1)")
    """you take the mean over the vocabulary, but the probabilities are already the weights; take the sum"""
    entropy_in_bits = edit("return => import math\nreturn", "sum(dim=-1) => sum(dim=-1) / math.log(2)")
    """log to the base 2 gives bits; this course uses nats, the natural log"""
    log_probs_not_weighted = edit("probs *  => ")
    """the probabilities are left out: -log p[v] has to be weighted by p[v]"""
    logits_taken_for_log_probs = edit(".log_softmax(dim=-1) => ")
    """logits stand in for log-probabilities: subtract the logsumexp first, a shift must change nothing"""
    small_number_inside_the_log_of_entropy = edit("probs * log_probs => probs * (probs + 1e-8).log()")
    """a small number inside the log makes every answer a little wrong"""
    entropy_over_time = first("logits = logits.transpose(1, 2)")
    """the softmax runs over positions; it belongs to the vocabulary, the last dimension"""
    probabilities_detached = edit("probs * => probs.detach() *")
    """the probabilities are detached: what is left has the gradient 0, so the bonus does nothing"""


class MaskedMean(Wrong, of="masked_mean"):
    divided_by_every_column = edit("values[mask] => values.masked_fill(~mask, 0.0)")
    """the sum is divided by all columns: the mean shrinks with the padding; divide by the real tokens"""
    mean_of_row_means = instead(
        "rows = values.masked_fill(~mask, 0.0).sum(dim=1) / mask.sum(dim=1).clamp(min=1)\n"
        "return rows[mask.any(dim=1)].mean()"
    )
    """you take the mean of row means, so a token of a short response counts more than one of a long response"""
    divided_by_the_rows = edit("mean() => sum() / len(values)")
    """the sum is divided by the rows, so long responses weigh more"""
    sum_for_mean = edit("mean() => sum()")
    """the sum is not divided by the number of real tokens"""
    multiplied_by_the_mask = instead("return (values * mask).sum() / mask.sum()")
    """the values are multiplied by the mask, but 0 * NaN is NaN, so padding still enters; select with values[mask]"""
    zeros_taken_for_padding = instead("kept = values.masked_fill(~mask, 0.0)\nreturn kept.sum() / (kept != 0).sum()")
    """a value of 0 is taken for padding, but a real value may be 0, and only the mask tells"""
    small_number_in_the_count = edit("mean() => sum() / (mask.sum() + 1e-6)")
    """a small number is added to the count: the answer is a little off; an empty mask is an error instead"""
    padding_overwritten = first("values.masked_fill_(~mask, 0.0)")
    """the padding of the caller's tensor is overwritten: masked_fill, not masked_fill_"""


class MaskedWhiten(Wrong, of="masked_whiten"):
    shift_mean_inverted = edit("not shift_mean => shift_mean", read=WRONG)
    """the flag is inverted: shift_mean=True has to center, and the mean is added back only if it is False"""
    mean_scaled_too = edit("whitened + mean => real * torch.rsqrt(variance + 1e-8)")
    """shift_mean=False leaves the mean in before the division: it is scaled too; center, divide, add the mean"""
    biased_variance = edit("max(real.numel() - 1, 1) => real.numel()")
    """the sum of squares is divided by n, which gives a biased variance; divide it by n - 1"""
    variance_over_every_column = edit("real.numel() => values.numel()")
    """the variance is divided by the number of columns, padding included; count the real tokens"""
    padding_in_the_statistics = edit(
        "real.mean() => values.mean()",
        "(real - mean).square().sum() / max(real.numel() => (values - mean).square().sum() / max(values.numel()",
    )
    """mean and variance are taken over the padding too; select the real tokens first"""
    padding_not_zero = edit(
        "whitened = (real - mean) => whitened = (values - mean)",
        "torch.zeros_like(values).masked_scatter(mask, whitened) => whitened",
    )
    """the padding is whitened too and not set to 0: it holds a number far from 0"""
    mean_added_to_the_padding = edit(
        "torch.zeros_like(values) => (torch.zeros_like(values) if shift_mean else mean.expand_as(values))"
    )
    """the mean is added back to the padding as well, but padding should be 0 whatever shift_mean is"""
    statistics_times_the_mask = instead(
        "mean = (values * mask).sum() / mask.sum()\n"
        "variance = ((values - mean).square() * mask).sum() / (mask.sum() - 1).clamp(min=1)\n"
        "whitened = (values - mean) * torch.rsqrt(variance + 1e-8)\n"
        "return (whitened if shift_mean else whitened + mean) * mask"
    )
    """the values are multiplied by the mask, but 0 * NaN is NaN, so padding enters mean and variance; select first"""
    nan_for_a_single_token = edit("max(real.numel() - 1, 1) => (real.numel() - 1)")
    """one token gives 0 / 0 = NaN: n - 1 is 0 there, and the variance of a single token is 0"""
    small_number_beside_the_root = edit("* torch.rsqrt(variance + 1e-8) => / (variance.sqrt() + 1e-8)")
    """the small number is added to the standard deviation; it belongs under the root, to the variance"""
    no_small_number = edit(" + 1e-8 => ")
    """the small number is left out: equal values give 0 / 0 = NaN"""
    divided_by_the_variance = edit("* torch.rsqrt(variance + 1e-8) => / (variance + 1e-8)")
    """the centered values are divided by the variance instead of the standard deviation; take its square root"""
    centred_but_not_scaled = edit(" * torch.rsqrt(variance + 1e-8) => ")
    """only the mean is removed: the variance is not brought to 1"""
    whitened_row_by_row = first(
        "if len(values) > 1:\n"
        "    rows = zip(values.split(1), mask.split(1))\n"
        "    return torch.cat([masked_whiten(*row, shift_mean) if row[1].any() else 0 * row[0] for row in rows])"
    )
    """each row is whitened by itself: mean and variance belong to the whole batch"""
    variance_from_squares = edit(
        "(real - mean).square().sum() => (real.square().mean() - mean.square()).clamp(min=0) * real.numel()"
    )
    """sum of squares minus squared mean loses all digits far from 0: subtract the mean before you square"""
    statistics_detached = edit(
        "real.mean() => real.mean().detach()", "(real - mean).square() => (real.detach() - mean).square()"
    )
    """mean and variance are detached: each number also moves them, and that belongs to the gradient"""
    whitened_in_place = edit(
        "torch.zeros_like(values).masked_scatter(mask, whitened) => "
        "values.copy_(torch.zeros_like(values).masked_scatter(mask, whitened))"
    )
    """the result is written into the caller's tensor; make a new one"""


class FirstTrueIndex(Wrong, of="first_true_index"):
    zero_where_there_is_none = instead("return flags.long().argmax(dim=1)")
    """argmax alone gives 0 for a row without a True; 0 means the first column, so that row needs T"""
    minus_one_where_there_is_none = edit(
        "nothing_yet.sum(dim=1) => nothing_yet.sum(dim=1).masked_fill(~flags.any(dim=1), -1)"
    )
    """a row without a True gets -1, which indexes the last column; T is due"""
    last_column_where_there_is_none = edit(
        "nothing_yet.sum(dim=1) => nothing_yet.sum(dim=1).clamp(max=flags.shape[1] - 1)"
    )
    """a row without a True gets T - 1, as if its last column were True"""
    last_true_index = instead(
        "last = (flags * torch.arange(flags.shape[1])).amax(dim=1)\n"
        "return last.masked_fill(~flags.any(dim=1), flags.shape[1])"
    )
    """the last True is found, not the first"""
    every_false_counted = instead("return (~flags).sum(dim=1)")
    """every False is counted, those after the first True too"""
    counted_from_one_column = edit("nothing_yet.sum(dim=1) => (nothing_yet.sum(dim=1) + 1).clamp(max=flags.shape[1])")
    """the index is one too large, because columns are counted from 0"""
    column_before_the_first = edit("nothing_yet.sum(dim=1) => nothing_yet.sum(dim=1) - 1")
    """the index is one too small, since it's the column before the first True"""
    down_the_columns = first("flags = flags.T")
    """it looks down the columns: one answer for each row is due"""


class ResponseMask(Wrong, of="response_mask"):
    stop_token_left_out = edit(" - stops => ")
    """the stop token is masked out, but the policy chose it and learns to stop only if it's kept"""
    only_the_stop_tokens_masked = edit("stops_before == 0 => stops == 0", read=WRONG)
    """the test `!= stop` masks each stop token and nothing else: what follows the first one stays in"""
    zeros_and_stops_masked = edit("stops_before == 0 => (responses != 0) & (stops == 0)", read=WRONG)
    """`!= pad` and `!= stop` look at each token alone: text may follow the stop token, which itself is real"""
    up_to_the_last_stop = edit(
        "stops_before == 0 => (stops.flip(1).cumsum(dim=1).flip(1) > 0) | (stops.sum(dim=1, keepdim=True) == 0)"
    )
    """the mask runs up to the last stop token, but the response ends at the first"""
    up_to_the_second_stop = edit(" - stops => ", "== 0 => <= 1")
    """the mask runs up to the second stop token; the first one ends the response"""
    one_token_after_the_stop = edit(
        "stops_before == 0 => torch.nn.functional.pad(stops_before[:, :-1] == 0, (1, 0), value=True)"
    )
    """one token after the stop is still taken for real"""
    only_the_first_stop_id = first("stop_token_ids = stop_token_ids[:1]")
    """only the first of the stop ids is looked for; any of them ends it"""
    true_for_padding = edit("== 0 => > 0")
    """this is a padding mask: True has to mean a real token"""
    unfinished_rows_dropped = edit("stops_before == 0 => (stops_before == 0) & (stops.sum(dim=1, keepdim=True) > 0)")
    """a response that never stops is masked out, but the policy wrote all its tokens, so all are real"""
    trailing_stops_stripped = edit(
        "stops_before == 0 => "
        "torch.nn.functional.pad((1 - stops).flip(1).cumsum(dim=1).flip(1)[:, :-1] > 0, (1, 0), value=True)"
    )
    """stop tokens are stripped from the end: a response with more text after its first stop goes on"""
    rows_run_together = edit("stops.cumsum(dim=1) => stops.flatten().cumsum(dim=0).view_as(stops)")
    """the rows are run together: a stop in one row ends the rows after it"""


class TruncateAfterStop(Wrong, of="truncate_after_stop"):
    stop_token_overwritten = edit(
        "~response_mask(responses, stop_token_ids) => is_stop(responses, stop_token_ids).cumsum(dim=1) > 0"
    )
    """the stop token is overwritten as well, but it belongs to the response"""
    zeros_for_padding = edit("pad_token_id => 0")
    """zeros are written instead of pad_token_id, which need not be 0"""
    filled_with_the_stop_token = edit("pad_token_id => stop_token_ids[0] if stop_token_ids else pad_token_id")
    """the stop token is repeated in place of the padding id"""
    truncated_in_place = edit("masked_fill( => masked_fill_(")
    """the caller's tensor is overwritten; a new one is due"""
    cut_at_the_first_stop_id_only = first("stop_token_ids = stop_token_ids[:1]")
    """only the first of the stop ids is looked for; any of them ends it"""
    pad_taken_for_a_stop = first("stop_token_ids = (*stop_token_ids, pad_token_id)")
    """the padding id is taken for a stop: only stop_token_ids end a response, it may be a normal token"""
    response_overwritten = edit("~ => ")
    """the response is overwritten and the rest is kept, but you should fill where the mask is False"""


class PositionIds(Wrong, of="position_ids"):
    columns_numbered = instead("return torch.arange(attention_mask.shape[1]).repeat(len(attention_mask), 1)")
    """the columns are numbered, so left padding moves the text: count the real tokens only"""
    counted_from_one = edit(" - 1 => ")
    """positions are counted from 1; the first real token is at position 0"""
    minus_one_on_left_padding = edit(" * is_real => ")
    """left padding gets -1, which no table of positions has; padding gets 0"""
    one_on_padding = edit(" * is_real => .masked_fill(attention_mask == 0, 1)")
    """padding gets 1, as in some libraries; here padding gets 0"""
    last_position_repeated = edit(" * is_real => .clamp(min=0)")
    """right padding repeats the last position; padding gets 0 on either side"""
    right_padding_assumed = edit("(is_real.cumsum(dim=1) - 1) => torch.arange(attention_mask.shape[1])")
    """column numbers times the mask are right only if all padding is on the right, so left padding moves the text"""
    columns_from_the_first_real_token = edit(
        "is_real.cumsum(dim=1) - 1 => torch.arange(is_real.shape[1]) - is_real.argmax(dim=1, keepdim=True)"
    )
    """counted in columns from the first real token: padding inside moves what follows"""
    counted_over_rows = edit("dim=1 => dim=0")
    """you count down the batch, from row to row; count along each row"""
