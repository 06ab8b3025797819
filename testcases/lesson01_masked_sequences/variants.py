"""Other right ways to write lesson 1, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, instead


class RightGatherLogProbs(Right, of="gather_log_probs"):
    log_softmax_then_gather = instead("""
        log_probs = torch.log_softmax(_at_least_float32(logits) / temperature, dim=-1)
        return log_probs.gather(2, tokens[..., None])[..., 0]
    """)
    """log_softmax over the vocabulary, then gather"""
    minus_cross_entropy = instead("""
        scaled = _at_least_float32(logits) / temperature
        loss = torch.nn.functional.cross_entropy(scaled.flatten(0, 1), tokens.flatten(), reduction="none")
        return -loss.view_as(tokens)
    """)
    """the cross-entropy of each token, with a minus"""
    indexed_by_row_and_position = instead("""
        rows, positions = torch.meshgrid(
            torch.arange(logits.shape[0]), torch.arange(logits.shape[1]), indexing="ij"
        )
        scaled = _at_least_float32(logits).div(temperature)
        return scaled[rows, positions, tokens] - torch.logsumexp(scaled, -1)
    """)
    """indexed with three tensors in place of gather"""
    largest_logit_subtracted = instead("""
        scaled = _at_least_float32(logits) * (1 / temperature)
        scaled = scaled - scaled.amax(dim=-1, keepdim=True).detach()
        return torch.take_along_dim(scaled, tokens.unsqueeze(-1), -1).squeeze(-1) - scaled.exp().sum(-1).log()
    """)
    """a stable logsumexp written out: the largest logit is taken off first"""
    by_categorical = instead(
        "return torch.distributions.Categorical(logits=_at_least_float32(logits) / temperature).log_prob(tokens)"
    )
    """torch's own distribution"""
    position_by_position = instead("""
        columns = []
        for t in range(tokens.shape[1]):
            scaled = _at_least_float32(logits[:, t]) / temperature
            columns.append(scaled.log_softmax(-1)[torch.arange(len(tokens)), tokens[:, t]])
        return torch.stack(columns, dim=1)
    """)
    """a loop over the positions"""
    in_float64_rounded_once = instead("""
        log_probs = (logits.double() / temperature).log_softmax(dim=-1)
        chosen = log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        return chosen if logits.dtype == torch.float64 else chosen.float()
    """)
    """computed in float64 and rounded once, at the end"""
    with_its_own_backward = instead("""
        class LogProb(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, chosen):
                log_p = x.log_softmax(-1)
                ctx.save_for_backward(log_p, chosen)
                return log_p.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)

            @staticmethod
            def backward(ctx, grad):
                log_p, chosen = ctx.saved_tensors
                slope = -log_p.exp()
                slope.scatter_add_(-1, chosen.unsqueeze(-1), torch.ones_like(slope[..., :1]))
                return slope * grad.unsqueeze(-1), None


        return LogProb.apply(_at_least_float32(logits) / temperature, tokens)
    """)
    """the slope of a log-probability is one-hot minus the distribution"""


class RightResponseLogProbs(Right, of="response_log_probs"):
    shifted_first = instead("""
        logits, targets = logits[:, :-1], input_ids[:, 1:]
        start = prompt_length - 1
        return gather_log_probs(logits[:, start:], targets[:, start:], temperature)
    """)
    """logits and tokens are shifted against each other, then both are cut at P - 1"""
    counted_from_the_end = instead("""
        length = input_ids.shape[1] - prompt_length
        return gather_log_probs(logits[:, -length - 1 : -1], input_ids[:, -length:], temperature=temperature)
    """)
    """the response are the last T tokens"""
    narrowed = instead("""
        length = input_ids.size(1) - prompt_length
        scores = logits.narrow(1, prompt_length - 1, length)
        return gather_log_probs(scores, input_ids.narrow(1, prompt_length, length), temperature)
    """)
    """narrow in place of slices"""
    ids_rolled = instead("""
        next_ids = input_ids.roll(-1, dims=1)
        return gather_log_probs(logits[:, prompt_length - 1 : -1], next_ids[:, prompt_length - 1 : -1], temperature)
    """)
    """the tokens are rolled by one, so that each stands at the position that scores it"""
    by_categorical = instead("""
        scores = _at_least_float32(logits[:, prompt_length - 1 : -1]) / temperature
        return torch.distributions.Categorical(logits=scores).log_prob(input_ids[:, prompt_length:])
    """)
    """torch's own distribution, over the logits that score the response"""
    token_by_token = instead("""
        scores = [
            gather_log_probs(logits[:, t - 1 : t], input_ids[:, t : t + 1], temperature)
            for t in range(prompt_length, input_ids.shape[1])
        ]
        return torch.cat(scores, dim=1)
    """)
    """a loop over the response's tokens"""


class RightTokenEntropy(Right, of="token_entropy"):
    logsumexp_minus_mean_logit = instead("""
        scaled = _at_least_float32(logits) / temperature
        finite = scaled.masked_fill(scaled.isneginf(), 0.0)
        return scaled.logsumexp(dim=-1) - (scaled.softmax(dim=-1) * finite).sum(dim=-1)
    """)
    """H = logsumexp - sum_v p_v logits_v"""
    exp_of_log_probs = instead("""
        log_probs = torch.log_softmax(_at_least_float32(logits) / temperature, -1)
        safe = torch.where(torch.isfinite(log_probs), log_probs, 0.0)
        return -torch.einsum("btv,btv->bt", log_probs.exp(), safe)
    """)
    """the probabilities are the exponentials of the log-probabilities"""
    lowest_log_capped = instead("""
        probs = torch.softmax(_at_least_float32(logits) / temperature, dim=-1)
        tiny = torch.finfo(probs.dtype).tiny
        return -(probs * probs.clamp(min=tiny).log()).sum(dim=-1)
    """)
    """p log p, with p inside the log kept above the smallest normal number"""
    allowed_tokens_only = instead("""
        scaled = _at_least_float32(logits) / temperature
        rows = []
        for position in scaled.flatten(0, 1):
            allowed = position[position != -torch.inf].log_softmax(dim=0)
            rows.append(-(allowed.exp() * allowed).sum())
        return torch.stack(rows).view(logits.shape[:2])
    """)
    """a loop over the positions, each with its allowed tokens alone"""
    log_probs_filled_before_the_softmax = instead("""
        scaled = _at_least_float32(logits) / temperature
        forbidden = scaled == float("-inf")
        log_probs = (scaled - scaled.logsumexp(-1, keepdim=True)).masked_fill(forbidden, 0.0)
        probs = log_probs.exp().masked_fill(forbidden, 0.0)
        return (probs * -log_probs).sum(-1)
    """)
    """forbidden tokens are filled in both, the log-probabilities and the probabilities"""
    in_float64_rounded_once = instead("""
        log_probs = (logits.double() / temperature).log_softmax(dim=-1)
        weighted = log_probs.exp() * log_probs.masked_fill(log_probs.isneginf(), 0.0)
        return -weighted.sum(dim=-1).to(_at_least_float32(logits).dtype)
    """)
    """computed in float64 and rounded once, at the end"""
    with_its_own_backward = instead("""
        class Entropy(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                log_p = x.log_softmax(-1)
                p = log_p.exp()
                safe = log_p.clone()
                safe[p == 0] = 0
                h = -(p * safe).sum(-1)
                ctx.save_for_backward(p, safe, h)
                return h

            @staticmethod
            def backward(ctx, grad):
                p, safe, h = ctx.saved_tensors
                return -p * (safe + h.unsqueeze(-1)) * grad.unsqueeze(-1)


        return Entropy.apply(_at_least_float32(logits) / temperature)
    """)
    """the slope of the entropy is -p (log p + H), written down"""


class RightMaskedMean(Right, of="masked_mean"):
    sum_over_count = instead("return values.masked_fill(~mask, 0.0).sum() / mask.sum()")
    """filled with 0, summed, divided by the count"""
    chosen_with_where = instead(
        "return torch.where(mask, values, torch.zeros_like(values)).sum().div(mask.count_nonzero())"
    )
    """where in place of masked_fill"""
    masked_select = instead("return torch.mean(torch.masked_select(values, mask))")
    """torch's masked_select, and its mean"""
    token_by_token = instead("""
        total, count = 0.0, 0
        for value, is_real in zip(values.flatten(), mask.flatten()):
            if is_real:
                total, count = total + value, count + 1
        return total / count
    """)
    """a loop over all tokens"""
    row_sums_first = instead("""
        sums = [row[real].sum() for row, real in zip(values, mask)]
        return torch.stack(sums).sum() / mask.sum(dim=1).sum()
    """)
    """summed row by row, divided once"""
    in_float64_rounded_once = instead("return values[mask].mean(dtype=torch.float64).to(values.dtype)")
    """computed in float64 and rounded once, at the end"""


class RightMaskedWhiten(Right, of="masked_whiten"):
    torch_var = instead("""
        real = values[mask]
        mean, variance = real.mean(), real.var(correction=min(1, real.numel() - 1))
        whitened = (real - mean) / (variance + 1e-8).sqrt() + (0.0 if shift_mean else mean)
        answer = torch.zeros_like(values)
        answer[mask] = whitened
        return answer
    """)
    """torch's variance, without its correction where there is one token"""
    over_all_columns = instead("""
        mean = masked_mean(values, mask)
        centered = torch.where(mask, values - mean, 0.0)
        variance = centered.pow(2).sum() / (mask.sum() - 1).clamp(min=1)
        whitened = centered * (variance + 1e-8).rsqrt()
        return whitened if shift_mean else torch.where(mask, whitened + mean, 0.0)
    """)
    """the shape stays (B, T): padding is 0 after the mean is subtracted"""
    filled_first = instead("""
        values, count = values.masked_fill(~mask, 0.0), mask.sum()
        mean = values.sum() / count
        variance = (values - mean)[mask].square().sum() / max(int(count) - 1, 1)
        whitened = (values - mean) / torch.sqrt(variance + 1e-8)
        if not shift_mean:
            whitened += mean
        return whitened.masked_fill(~mask, 0.0)
    """)
    """padding is filled first and emptied again at the end"""
    by_dot_product = instead("""
        centered = values[mask] - values[mask].mean()
        variance = torch.dot(centered, centered) / max(len(centered) - 1, 1)
        whitened = centered / torch.pow(variance + 1e-8, 0.5)
        if shift_mean is False:
            whitened = whitened + values[mask].mean()
        return torch.zeros_like(values).index_put(mask.nonzero(as_tuple=True), whitened)
    """)
    """the variance is a dot product, and index_put brings the numbers back"""
    in_float64_rounded_once = instead("""
        real = values[mask].double()
        mean = real.mean()
        variance = (real - mean).square().sum() / max(real.numel() - 1, 1)
        whitened = (real - mean) / (variance + 1e-8).sqrt() + (0 if shift_mean else mean)
        return torch.zeros_like(values).masked_scatter(mask, whitened.to(values.dtype))
    """)
    """computed in float64 and rounded once, at the end"""
    by_layer_norm = instead("""
        from torch.nn.functional import layer_norm

        real = values[mask]
        n = real.numel()
        if n == 1:
            answer = real - real
        else:
            share = (n - 1) / n
            answer = layer_norm(real, (n,), eps=1e-8 * share) * share**0.5
        if not shift_mean:
            answer = answer + real.mean()
        return values.new_zeros(values.shape).index_put(mask.nonzero(as_tuple=True), answer)
    """)
    """layer_norm divides by n, so its variance and epsilon are put right for n - 1"""
    differences_of_all_pairs = instead("""
        real = values[mask]
        n = real.numel()
        differences = real.unsqueeze(0) - real.unsqueeze(1)
        variance = differences.square().sum() / (2 * n * max(n - 1, 1))
        centered = differences.mean(dim=0)
        answer = centered / torch.sqrt(variance + 1e-8)
        if not shift_mean:
            answer = answer + real.mean()
        out = values.new_zeros(values.shape)
        out[mask] = answer
        return out
    """)
    """the variance is half the mean square of all differences, and a mean of them centers"""


class RightFirstTrueIndex(Right, of="first_true_index"):
    argmax_where_there_is_one = instead(
        "return torch.where(flags.any(dim=1), flags.long().argmax(dim=1), flags.shape[1])"
    )
    """argmax, and T where no flag is set"""
    sentinel_column = instead("""
        always = torch.ones_like(flags[:, :1])
        return torch.cat([flags, always], dim=1).int().argmax(dim=1)
    """)
    """a column of True is put behind the last one"""
    smallest_index = instead("""
        columns = torch.arange(flags.shape[1]).expand_as(flags)
        return columns.masked_fill(~flags, flags.shape[1]).amin(dim=1)
    """)
    """the smallest of the indices at which a flag is set"""
    row_by_row = instead("""
        found = []
        for row in flags.tolist():
            found.append(row.index(True) if True in row else len(row))
        return torch.tensor(found, dtype=torch.int64, device=flags.device)
    """)
    """Python's index on each row"""
    product_of_what_is_not_set = instead("return (~flags).long().cumprod(dim=1).sum(dim=1)")
    """the running product of `not flag` is 1 until the first"""


class RightResponseMask(Right, of="response_mask"):
    columns_up_to_the_first_stop = instead("""
        first = first_true_index(is_stop(responses, stop_token_ids))
        return torch.arange(responses.shape[1]) <= first.unsqueeze(1)
    """)
    """the columns up to the first stop token, found with first_true_index"""
    column_by_column = instead("""
        stops = is_stop(responses, stop_token_ids)
        goes_on, columns = torch.ones_like(stops[:, 0]), []
        for t in range(responses.shape[1]):
            columns.append(goes_on)
            goes_on = goes_on & ~stops[:, t]
        return torch.stack(columns, dim=1)
    """)
    """a loop over the columns that keeps in mind which rows go on"""
    shifted_by_one = instead("""
        stopped = is_stop(responses, stop_token_ids).cumsum(dim=1) > 0
        return ~torch.nn.functional.pad(stopped[:, :-1], (1, 0))
    """)
    """stopped up to here, shifted by one column: stopped before here"""
    ids_compared_one_by_one = instead("""
        stopped = torch.zeros_like(responses, dtype=torch.bool)
        for stop in stop_token_ids:
            stopped |= responses == stop
        return stopped.int().cumsum(dim=1) - stopped.int() < 1
    """)
    """the ids are compared one by one"""
    row_by_row = instead("""
        rows = []
        for row in responses.tolist():
            ends = [t + 1 for t, token in enumerate(row) if token in stop_token_ids]
            rows.append([t < min(ends, default=len(row)) for t in range(len(row))])
        return torch.tensor(rows, dtype=torch.bool)
    """)
    """Python lists, row by row"""


class RightTruncateAfterStop(Right, of="truncate_after_stop"):
    chosen_with_where = instead("return torch.where(response_mask(responses, stop_token_ids), responses, pad_token_id)")
    """where in place of masked_fill"""
    written_into_a_copy = instead("""
        truncated = responses.clone()
        truncated[~response_mask(responses, stop_token_ids)] = pad_token_id
        return truncated
    """)
    """the padding is written into a copy"""
    copied_onto_padding = instead("""
        mask = response_mask(responses, stop_token_ids)
        return torch.full_like(responses, pad_token_id).masked_scatter(mask, responses[mask])
    """)
    """a tensor of padding, onto which the response is copied"""
    columns_after_the_first_stop = instead("""
        first = first_true_index(is_stop(responses, stop_token_ids)).unsqueeze(1)
        return responses.masked_fill(torch.arange(responses.shape[1]) > first, pad_token_id)
    """)
    """the columns after the first stop token, found with first_true_index"""
    row_by_row = instead("""
        lengths = response_mask(responses, stop_token_ids).sum(dim=1).tolist()
        rows = [row[:n] + [pad_token_id] * (len(row) - n) for row, n in zip(responses.tolist(), lengths)]
        return torch.tensor(rows, dtype=responses.dtype)
    """)
    """Python lists, row by row"""


class RightPositionIds(Right, of="position_ids"):
    filled_where_padded = instead("""
        positions = attention_mask.long().cumsum(dim=-1) - 1
        return positions.masked_fill(attention_mask == 0, 0)
    """)
    """Hugging Face's way: count, subtract 1, and fill where the mask is 0"""
    clamped_and_multiplied = instead("""
        real = torch.tensor(attention_mask, dtype=torch.int64)
        return real.cumsum(1).sub(1).clamp(min=0) * (attention_mask != 0)
    """)
    """a copy that torch warns of, clamped at 0 before the padding is multiplied away"""
    real_tokens_before = instead("""
        real = attention_mask.bool()
        return torch.where(real, real.cumsum(dim=1) - real.long(), 0)
    """)
    """the position is the number of real tokens before this one"""
    numbers_written_row_by_row = instead("""
        positions = torch.zeros_like(attention_mask, dtype=torch.int64)
        for row, real in enumerate(attention_mask.bool()):
            positions[row, real] = torch.arange(int(real.sum()))
        return positions
    """)
    """0, 1, 2, ... written onto the real tokens of each row"""
    counted_in_python = instead("""
        rows = []
        for row in attention_mask.tolist():
            count, places = 0, []
            for is_real in row:
                places.append(count if is_real else 0)
                count += bool(is_real)
            rows.append(places)
        return torch.tensor(rows)
    """)
    """a counter for each row"""


class PublishedGatherLogProbs(Published, of="gather_log_probs"):
    trl = instead("""
        logp = torch.nn.functional.log_softmax(logits / temperature, dim=-1)
        return torch.gather(logp, 2, tokens.unsqueeze(2)).squeeze(-1)
    """)
    """TRL and DeepSpeed-Chat, logprobs_from_logits and gather_log_probs"""


class PublishedResponseLogProbs(Published, of="response_log_probs"):
    deepspeed_chat = instead("""
        log_probs = gather_log_probs(logits[:, :-1, :], input_ids[:, 1:], temperature)
        return log_probs[:, prompt_length - 1 :]
    """)
    """DeepSpeed-Chat: all positions, then those from start on"""


class PublishedTokenEntropy(Published, of="token_entropy"):
    trl = instead("""
        logits = logits / temperature
        pd = torch.nn.functional.softmax(logits, dim=-1)
        return torch.logsumexp(logits, dim=-1) - torch.sum(pd * logits, dim=-1)
    """)
    """TRL and verl, entropy_from_logits"""


class PublishedMaskedMean(Published, of="masked_mean"):
    trl = instead("""
        return (values * mask).sum() / mask.sum()
    """)
    """TRL, masked_mean"""


class PublishedMaskedWhiten(Published, of="masked_whiten"):
    trl = instead("""
        mean = (values * mask).sum() / mask.sum()
        variance = ((values - mean) ** 2 * mask).sum() / mask.sum()
        mask_sum = mask.sum()
        variance = variance * (mask_sum / (mask_sum - 1))
        whitened = (values - mean) * torch.rsqrt(variance + 1e-8)
        if not shift_mean:
            whitened += mean
        return torch.masked_fill(whitened, ~mask, 0)
    """)
    """TRL and verl, masked_whiten with Bessel's correction; masked tokens are 0 as the contract says"""


class PublishedFirstTrueIndex(Published, of="first_true_index"):
    trl = instead("""
        row_len = flags.size(-1)
        index = torch.arange(row_len, dtype=torch.long, device=flags.device)
        zero_or_index = row_len * (~flags).type(torch.long) + index
        return torch.min(zero_or_index, dim=-1).values
    """)
    """TRL, first_true_indices"""


class PublishedResponseMask(Published, of="response_mask"):
    verl = instead("""
        eos_token = torch.tensor(list(stop_token_ids), dtype=torch.long, device=responses.device)
        eos_mask = torch.isin(responses, eos_token).int()
        return (torch.cumsum(eos_mask, dim=1) - eos_mask).eq(0)
    """)
    """verl, get_response_mask"""


class PublishedTruncateAfterStop(Published, of="truncate_after_stop"):
    trl = instead("""
        stops = torch.tensor(list(stop_token_ids), dtype=torch.long, device=responses.device)
        trunc_idxs = first_true_index(torch.isin(responses, stops)).unsqueeze(-1)
        idxs = torch.arange(responses.shape[1], device=responses.device).view(1, -1)
        return torch.masked_fill(responses, idxs > trunc_idxs, pad_token_id)
    """)
    """TRL, truncate_response, with several stop tokens"""


class PublishedPositionIds(Published, of="position_ids"):
    transformers = instead("""
        position_ids = attention_mask.long().cumsum(-1) - 1
        return position_ids.masked_fill(attention_mask == 0, 0)
    """)
    """transformers and OpenRLHF, which write 1 on padding; here it is 0"""
