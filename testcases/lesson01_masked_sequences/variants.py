"""Other right ways to write lesson 1, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, instead


class RightGatherLogProbs(Right, of="gather_log_probs"):
    minus_cross_entropy = instead("""
        scaled = _at_least_float32(logits) / temperature
        loss = torch.nn.functional.cross_entropy(scaled.flatten(0, 1), tokens.flatten(), reduction="none")
        return -loss.view_as(tokens)
    """)
    """the cross-entropy of each token, with a minus"""


class RightResponseLogProbs(Right, of="response_log_probs"):
    by_categorical = instead("""
        scores = _at_least_float32(logits[:, prompt_length - 1 : -1]) / temperature
        return torch.distributions.Categorical(logits=scores).log_prob(input_ids[:, prompt_length:])
    """)
    """torch's own distribution, over the logits that score the response"""


class RightTokenEntropy(Right, of="token_entropy"):
    in_float64_rounded_once = instead("""
        log_probs = (logits.double() / temperature).log_softmax(dim=-1)
        weighted = log_probs.exp() * log_probs.masked_fill(log_probs.isneginf(), 0.0)
        return -weighted.sum(dim=-1).to(_at_least_float32(logits).dtype)
    """)
    """computed in float64 and rounded once, at the end"""


class RightMaskedMean(Right, of="masked_mean"):
    token_by_token = instead("""
        total, count = 0.0, 0
        for value, is_real in zip(values.flatten(), mask.flatten()):
            if is_real:
                total, count = total + value, count + 1
        return total / count
    """)
    """a loop over all tokens"""


class RightMaskedWhiten(Right, of="masked_whiten"):
    in_float64_rounded_once = instead("""
        real = values[mask].double()
        mean = real.mean()
        variance = (real - mean).square().sum() / max(real.numel() - 1, 1)
        whitened = (real - mean) / (variance + 1e-8).sqrt() + (0 if shift_mean else mean)
        return torch.zeros_like(values).masked_scatter(mask, whitened.to(values.dtype))
    """)
    """computed in float64 and rounded once, at the end"""


class RightFirstTrueIndex(Right, of="first_true_index"):
    argmax_where_there_is_one = instead(
        "return torch.where(flags.any(dim=1), flags.long().argmax(dim=1), flags.shape[1])"
    )
    """argmax, and T where no flag is set"""


class RightResponseMask(Right, of="response_mask"):
    columns_up_to_the_first_stop = instead("""
        first = first_true_index(is_stop(responses, stop_token_ids))
        return torch.arange(responses.shape[1]) <= first.unsqueeze(1)
    """)
    """the columns up to the first stop token, found with first_true_index"""


class RightTruncateAfterStop(Right, of="truncate_after_stop"):
    row_by_row = instead("""
        lengths = response_mask(responses, stop_token_ids).sum(dim=1).tolist()
        rows = [row[:n] + [pad_token_id] * (len(row) - n) for row, n in zip(responses.tolist(), lengths)]
        return torch.tensor(rows, dtype=responses.dtype)
    """)
    """Python lists, row by row"""


class RightPositionIds(Right, of="position_ids"):
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
        logp = torch.nn.functional.log_softmax(logits.float() / temperature, dim=-1)
        return torch.gather(logp, 2, tokens.unsqueeze(2)).squeeze(-1)
    """)
    """TRL and DeepSpeed-Chat, logprobs_from_logits and gather_log_probs; always in float32, as transformers casts"""


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
    trl = instead("return (values * mask).sum() / mask.sum()")
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
