"""Mistakes in lesson 1, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first, instead

WRONG = "What people get wrong"


class GatherLogProbs(Wrong, of="gather_log_probs"):
    temperature_ignored = edit(" / temperature => ")
    """temperature has no effect, so you score another policy than the one that sampled; divide the logits by it"""
    log_probs_divided_by_temperature = edit(
        " / temperature => ", "chosen - scaled.logsumexp(dim=-1) => (chosen - scaled.logsumexp(dim=-1)) / temperature"
    )
    """you divide the log-probabilities by temperature, so the probabilities no longer sum to 1; divide the logits,
    then normalize"""
    only_the_picked_logit_divided = edit(" / temperature => ", "chosen - scaled => chosen / temperature - scaled")
    """temperature divides only the picked logit, but the normalizer needs it too, or nothing sums to 1; divide all
    logits first"""
    logit_not_normalized = edit(" - scaled.logsumexp(dim=-1) => ")
    """you return the logit itself, which is no log-probability until the logsumexp is subtracted"""
    probability_without_the_log = edit("chosen - scaled.logsumexp(dim=-1) => (chosen - scaled.logsumexp(dim=-1)).exp()")
    """you return the probability, but its logarithm is asked for"""
    cross_entropy_without_a_minus = edit("chosen - scaled.logsumexp(dim=-1) => scaled.logsumexp(dim=-1) - chosen")
    """this is the cross-entropy, which is minus the log-probability; a log-probability is never above 0"""
    softmax_over_time = edit("scaled.gather => scaled.log_softmax(dim=1).gather", " - scaled.logsumexp(dim=-1) => ")
    """your softmax runs over the positions, but the probabilities should sum to 1 over the vocabulary, the last
    dimension"""
    shifted_too_early = first("logits, tokens = logits[:, :-1], tokens[:, 1:]")
    """you shift here, but these logits already stand at their token's place; response_log_probs does the shift"""
    log_of_a_softmax = edit("scaled.gather => scaled.softmax(dim=-1).log().gather", " - scaled.logsumexp(dim=-1) => ")
    """you take the log of a softmax that is rounded to 0, so the answer is -inf where -1000 is right; use logsumexp"""
    small_number_inside_the_log = edit(
        "scaled.gather => (scaled.softmax(dim=-1) + 1e-8).log().gather", " - scaled.logsumexp(dim=-1) => "
    )
    """you add a small number inside the log, so every answer is a little off, and for rare tokens far off"""
    computed_in_bfloat16 = edit(
        "_at_least_float32(logits) / temperature => (logits / temperature).log_softmax(dim=-1)",
        " - scaled.logsumexp(dim=-1) => ",
    )
    """you compute in bfloat16, whose two digits are too few for a ratio near 1; compute in float32"""


class ResponseLogProbs(Wrong, of="response_log_probs"):
    logits_not_shifted = edit("prompt_length - 1 : -1 => prompt_length:")
    """the logits aren't shifted, but logits[:, i] predict the token at i + 1, so the token at P is scored at P - 1"""
    first_response_token_lost = instead(
        "return gather_log_probs(logits[:, :-1], input_ids[:, 1:], temperature)[:, prompt_length:]"
    )
    """you slice at P after the shift, so the first response token is lost; after the shift the response begins at P -
    1"""
    prompt_scored_too = first("prompt_length = 1")
    """you score the tokens of the prompt as well, but the policy did not write them"""
    one_token_too_early = instead(
        "scored = gather_log_probs(logits[:, :-1], input_ids[:, 1:], temperature)\n"
        "return torch.nn.functional.pad(scored, (1, 0))[:, prompt_length - 1 : -1]"
    )
    """the tokens begin one too early, so the last prompt token is scored and the last response token is not"""
    temperature_not_passed_on = edit(", temperature => ")
    """you don't pass temperature on, so the ratio to the sampling policy is not 1 at the start"""
    computed_first_cut_later = instead(
        "return gather_log_probs(logits[:, :-1], input_ids[:, 1:], temperature)[:, prompt_length - 1 :]"
    )
    """you compute all positions and then slice, so NaN logits of padding reach the gradient; slice the logits first"""


class TokenEntropy(Wrong, of="token_entropy"):
    nan_at_forbidden_tokens = edit(".masked_fill(log_probs == -torch.inf, 0.0) => ")
    """a forbidden token gives 0 * -inf, which is NaN, but p log p goes to 0 there; replace its log-probability first"""
    nan_replaced_too_late = edit(
        ".masked_fill(log_probs == -torch.inf, 0.0) => ",
        "(probs * log_probs) => (probs * log_probs).nan_to_num(nan=0.0)",
    )
    """you replace NaN after the product, so the value is right but its gradient is NaN; replace the -inf before"""
    forbidden_tokens_at_logit_0 = first("logits = logits.masked_fill(logits == -torch.inf, 0.0)")
    """-inf becomes 0 in the logits, so a forbidden token gets a probability; replace it in the log-probabilities"""
    infinite_slope_at_probability_0 = edit("-(probs * log_probs) => torch.special.entr(probs)")
    """entr and xlogy have an infinite slope at p = 0, so the value is right but the gradient is NaN; start from
    log_softmax"""
    entropy_by_categorical = instead(
        "return torch.distributions.Categorical(logits=_at_least_float32(logits) / temperature).entropy()"
    )
    """Categorical puts the lowest float in place of -inf, so with a weight above 1 its gradient overflows to NaN"""
    entropy_of_divided_log_probs = edit(
        "(_at_least_float32(logits) / temperature).log_softmax(dim=-1) => "
        "_at_least_float32(logits).log_softmax(dim=-1) / temperature",
        "(_at_least_float32(logits) / temperature).softmax(dim=-1) => log_probs.exp()",
    )
    """you divide the log-probabilities by temperature, so their exp no longer adds up to 1; divide the logits"""
    entropy_divided_by_temperature = edit(
        "(_at_least_float32(logits) / temperature).log_softmax => _at_least_float32(logits).log_softmax",
        "(_at_least_float32(logits) / temperature).softmax => _at_least_float32(logits).softmax",
        "sum(dim=-1) => sum(dim=-1) / temperature",
    )
    """you divide the entropy by temperature, but it should divide the logits, before the softmax"""
    mean_over_the_vocabulary = edit("sum(dim=-1) => mean(dim=-1)")
    """you take the mean over the vocabulary, but the probabilities are already the weights; take the sum"""
    log_probs_not_weighted = edit("probs *  => ")
    """you leave the probabilities out, but each -log p[v] has to be weighted by its p[v]"""
    logits_taken_for_log_probs = edit(".log_softmax(dim=-1) => ")
    """you use logits as log-probabilities, but a shift of the logits must change nothing; subtract the logsumexp
    first"""
    small_number_inside_the_log_of_entropy = edit("probs * log_probs => probs * (probs + 1e-8).log()")
    """you add a small number inside the log, which makes every answer a little wrong"""
    entropy_over_time = first("logits = logits.transpose(1, 2)")
    """your softmax runs over the positions, but it belongs to the vocabulary, the last dimension"""
    probabilities_detached = edit("probs * => probs.detach() *")
    """you detach the probabilities, and the gradient of what is left is 0, so the entropy bonus does nothing"""


class MaskedMean(Wrong, of="masked_mean"):
    divided_by_every_column = edit("values[mask] => values.masked_fill(~mask, 0.0)")
    """you divide the sum by all columns, so the mean shrinks as padding grows; divide by the number of real tokens"""
    mean_of_row_means = instead(
        "rows = values.masked_fill(~mask, 0.0).sum(dim=1) / mask.sum(dim=1).clamp(min=1)\nreturn rows.mean()"
    )
    """you take the mean of row means, so a token of a short response counts more than one of a long response"""
    divided_by_the_rows = edit("mean() => sum() / len(values)")
    """you divide the sum by the number of rows, so long responses weigh more"""
    sum_for_mean = edit("mean() => sum()")
    """you return the sum, which still has to be divided by the number of real tokens"""
    multiplied_by_the_mask = instead("return (values * mask).sum() / mask.sum()")
    """you multiply the values by the mask, but 0 * NaN is NaN, so padding still enters; select with values[mask]"""
    zeros_taken_for_padding = instead("kept = values.masked_fill(~mask, 0.0)\nreturn kept.sum() / (kept != 0).sum()")
    """you take a value of 0 for padding, but a real value may be 0, and only the mask tells"""
    small_number_in_the_count = edit("mean() => sum() / (mask.sum() + 1e-6)")
    """you add a small number to the count, so the answer is a little off; an empty mask is an error instead"""


class MaskedWhiten(Wrong, of="masked_whiten"):
    shift_mean_inverted = edit("not shift_mean => shift_mean", read=WRONG)
    """shift_mean is the wrong way round; True should center the numbers, and only False adds the mean back"""
    mean_scaled_too = edit("whitened + mean => real * torch.rsqrt(variance + 1e-8)")
    """with shift_mean=False you scale the mean as well; center the numbers, divide, and then add the mean back"""
    biased_variance = edit("max(real.numel() - 1, 1) => real.numel()")
    """you divide the sum of squares by n, which gives a biased variance; divide it by n - 1"""
    padding_in_the_statistics = edit(
        "real.mean() => values.mean()",
        "(real - mean).square().sum() / max(real.numel() => (values - mean).square().sum() / max(values.numel()",
    )
    """your mean and variance include the padding; select the real tokens first"""
    padding_not_zero = edit(
        "whitened = (real - mean) => whitened = (values - mean)",
        "torch.zeros_like(values).masked_scatter(mask, whitened) => whitened",
    )
    """you whiten the padding as well, so it holds a number far from 0, and it should be 0"""
    mean_added_to_the_padding = edit(
        "torch.zeros_like(values) => (torch.zeros_like(values) if shift_mean else mean.expand_as(values))"
    )
    """you add the mean back to the padding as well, but padding should be 0 whatever shift_mean is"""
    statistics_times_the_mask = instead(
        "mean = (values * mask).sum() / mask.sum()\n"
        "variance = ((values - mean).square() * mask).sum() / (mask.sum() - 1).clamp(min=1)\n"
        "whitened = (values - mean) * torch.rsqrt(variance + 1e-8)\n"
        "return (whitened if shift_mean else whitened + mean) * mask"
    )
    """you multiply the values by the mask, but 0 * NaN is NaN, so padding enters mean and variance; select first"""
    nan_for_a_single_token = edit("max(real.numel() - 1, 1) => (real.numel() - 1)")
    """for one token you compute 0 / 0, which is NaN, because n - 1 is 0; the variance of a single token is 0"""
    mean_left_in_the_variance = edit("(real - mean).square().sum() => real.square().sum()")
    """your variance is made of the values themselves, but it should be made of their distances from the mean"""
    small_number_beside_the_root = edit("* torch.rsqrt(variance + 1e-8) => / (variance.sqrt() + 1e-8)")
    """you add the small number to the standard deviation, but it belongs under the root, to the variance"""
    no_small_number = edit(" + 1e-8 => ")
    """you leave the small number out, so equal values give 0 / 0 = NaN"""
    divided_by_the_variance = edit("* torch.rsqrt(variance + 1e-8) => / (variance + 1e-8)")
    """you divide the centered values by the variance instead of the standard deviation; take its square root"""
    whitened_row_by_row = first(
        "if len(values) > 1:\n"
        "    rows = zip(values.split(1), mask.split(1))\n"
        "    return torch.cat([masked_whiten(*row, shift_mean) if row[1].any() else 0 * row[0] for row in rows])"
    )
    """you whiten each row by itself, but mean and variance belong to the whole batch"""
    variance_from_squares = edit(
        "(real - mean).square().sum() => (real.square().mean() - mean.square()).clamp(min=0) * real.numel()"
    )
    """you subtract the squared mean from the mean square, which loses all digits far from 0; subtract the mean before
    you square"""
    statistics_detached = edit(
        "real.mean() => real.mean().detach()", "(real - mean).square() => (real.detach() - mean).square()"
    )
    """you detach mean and variance, but each number also moves them, and that belongs to the gradient"""


class FirstTrueIndex(Wrong, of="first_true_index"):
    zero_where_there_is_none = instead("return flags.long().argmax(dim=1)")
    """argmax gives 0 for a row without a True, which means the first column, but such a row should get T"""
    minus_one_where_there_is_none = edit(
        "nothing_yet.sum(dim=1) => nothing_yet.sum(dim=1).masked_fill(~flags.any(dim=1), -1)"
    )
    """a row without a True gets -1, which indexes the last column, but it should get T"""
    last_column_where_there_is_none = edit(
        "nothing_yet.sum(dim=1) => nothing_yet.sum(dim=1).clamp(max=flags.shape[1] - 1)"
    )
    """a row without a True gets T - 1, as if its last column were True, but it should get T"""
    last_true_index = instead(
        "last = (flags * torch.arange(flags.shape[1])).amax(dim=1)\n"
        "return last.masked_fill(~flags.any(dim=1), flags.shape[1])"
    )
    """you find the last True instead of the first"""
    every_false_counted = instead("return (~flags).sum(dim=1)")
    """you count every False, even those after the first True"""
    counted_from_one_column = edit("nothing_yet.sum(dim=1) => (nothing_yet.sum(dim=1) + 1).clamp(max=flags.shape[1])")
    """the index is one too large, because columns are counted from 0"""


class ResponseMask(Wrong, of="response_mask"):
    stop_token_left_out = edit(" - stops => ")
    """the stop token is masked out, but the policy chose it and learns to stop only if it's kept"""
    only_the_stop_tokens_masked = edit("stops_before == 0 => stops == 0", read=WRONG)
    """`!= stop` masks only the stop tokens themselves, so what follows the first one stays in"""
    zeros_and_stops_masked = edit("stops_before == 0 => (responses != 0) & (stops == 0)", read=WRONG)
    """`!= pad` and `!= stop` look at each token alone, but text may follow the stop token, which itself is real"""
    up_to_the_last_stop = edit(
        "stops_before == 0 => (stops.flip(1).cumsum(dim=1).flip(1) > 0) | (stops.sum(dim=1, keepdim=True) == 0)"
    )
    """the mask runs up to the last stop token, but the response ends at the first"""
    up_to_the_second_stop = edit(" - stops => ", "== 0 => <= 1")
    """the mask runs up to the second stop token, but the response ends at the first"""
    one_token_after_the_stop = edit(
        "stops_before == 0 => torch.nn.functional.pad(stops_before[:, :-1] == 0, (1, 0), value=True)"
    )
    """you take one token after the stop for real, but the stop token is the last one"""
    only_the_first_stop_id = first("stop_token_ids = stop_token_ids[:1]")
    """you look for the first of the stop ids only, but any of them ends the response"""
    true_for_padding = edit("== 0 => > 0")
    """this is a padding mask, but True should mean a real token"""
    unfinished_rows_dropped = edit("stops_before == 0 => (stops_before == 0) & (stops.sum(dim=1, keepdim=True) > 0)")
    """a response that never stops is masked out, but the policy wrote all its tokens, so all are real"""
    trailing_stops_stripped = edit(
        "stops_before == 0 => "
        "torch.nn.functional.pad((1 - stops).flip(1).cumsum(dim=1).flip(1)[:, :-1] > 0, (1, 0), value=True)"
    )
    """stop tokens are stripped from the end, but the response ends at its first stop token, even if more text
    follows"""


class TruncateAfterStop(Wrong, of="truncate_after_stop"):
    stop_token_overwritten = edit(
        "~response_mask(responses, stop_token_ids) => is_stop(responses, stop_token_ids).cumsum(dim=1) > 0"
    )
    """you overwrite the stop token as well, but it belongs to the response"""
    zeros_for_padding = edit("pad_token_id => 0")
    """you write zeros instead of pad_token_id, which need not be 0"""
    filled_with_the_stop_token = edit("pad_token_id => stop_token_ids[0] if stop_token_ids else pad_token_id")
    """you repeat the stop token instead of writing pad_token_id"""
    cut_at_the_first_stop_id_only = first("stop_token_ids = stop_token_ids[:1]")
    """you look for the first of the stop ids only, but any of them ends the response"""
    pad_taken_for_a_stop = first("stop_token_ids = (*stop_token_ids, pad_token_id)")
    """you take the padding id for a stop, but it may be a normal token, and only stop_token_ids end a response"""
    response_overwritten = edit("~ => ")
    """you overwrite the response and keep the rest, but you should fill where the mask is False"""


class PositionIds(Wrong, of="position_ids"):
    columns_numbered = instead("return torch.arange(attention_mask.shape[1]).repeat(len(attention_mask), 1)")
    """you number the columns, so left padding moves the text; count the real tokens only"""
    counted_from_one = edit(" - 1 => ")
    """you count positions from 1, but the first real token is at position 0"""
    minus_one_on_left_padding = edit(" * is_real => ")
    """left padding gets -1, which no table of positions has, but padding should get 0"""
    one_on_padding = edit(" * is_real => .masked_fill(attention_mask == 0, 1)")
    """padding gets 1, as in some libraries, but here it should get 0"""
    last_position_repeated = edit(" * is_real => .clamp(min=0)")
    """right padding repeats the last position, but padding should get 0 on either side"""
    right_padding_assumed = edit("(is_real.cumsum(dim=1) - 1) => torch.arange(attention_mask.shape[1])")
    """column numbers times the mask are right only if all padding is on the right, so left padding moves the text"""
    columns_from_the_first_real_token = edit(
        "is_real.cumsum(dim=1) - 1 => torch.arange(is_real.shape[1]) - is_real.argmax(dim=1, keepdim=True)"
    )
    """you count columns from the first real token, so a gap moves what follows; count the real tokens"""
    counted_over_rows = edit("dim=1 => dim=0")
    """you count down the batch, from row to row; count along each row"""
