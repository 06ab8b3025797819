"""Other right ways to write lesson 8, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, edit, instead


class RightSampleToken(Right, of="sample_token"):
    inverse_of_the_distribution = edit(
        "return torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1) => "
        "sums = logits.double().softmax(dim=1).cumsum(dim=1)\n"
        "drawn = torch.rand(len(logits), 1, generator=generator, dtype=sums.dtype) * sums[:, -1:]\n"
        "return torch.searchsorted(sums, drawn, right=True).squeeze(1)"
    )
    """a uniform number, looked up among the cumulative probabilities"""


class RightGenerate(Right, of="generate"):
    cache_of_transformers = edit(
        "visible, positions, cache => from transformers import DynamicCache\n\nvisible, positions, cache",
        "position_ids(attention_mask), None => position_ids(attention_mask), DynamicCache(config=policy.config)",
    )
    """the cache is made before the first pass, as Hugging Face's own generate does"""
    ended_rows_leave_the_batch = instead("""
        batch = len(input_ids)
        rows = torch.arange(batch, device=input_ids.device)
        responses = [[] for _ in range(batch)]
        log_probs = [[] for _ in range(batch)]
        seen = attention_mask.bool()
        places = position_ids(seen)
        feed, cache = input_ids, None
        with evaluation_mode(policy):
            for step in range(max_new_tokens):
                output = policy(
                    input_ids=feed, attention_mask=seen, position_ids=places, past_key_values=cache, logits_to_keep=1
                )
                logits, cache = output.logits[:, -1:], output.past_key_values
                token = sample_token(logits[:, 0], temperature, top_k, top_p, generator).unsqueeze(1)
                chosen = gather_log_probs(logits, token, temperature)
                for row, one, log_prob in zip(rows.tolist(), token[:, 0], chosen[:, 0], strict=True):
                    responses[row].append(one)
                    log_probs[row].append(log_prob)
                going_on = ~is_stop(token[:, 0], stop_token_ids)
                if not going_on.any():
                    break
                (left,) = going_on.nonzero(as_tuple=True)
                if len(left) < len(going_on):
                    cache.reorder_cache(left)
                rows, feed = rows[left], token[left]
                seen = pad(seen[left], (0, 1), value=True)
                places = places[left, -1:] + 1
        parts = [
            Generation(torch.stack(r)[None], torch.stack(p)[None], torch.ones(1, len(r), dtype=torch.bool))
            for r, p in zip(responses, log_probs, strict=True)
        ]
        return merge_generations(parts, pad_token_id)
    """)
    """the cache keeps the rows that go on, by reorder_cache"""


class RightRows(Right, of="Experience.rows"):
    by_counting_the_prompts = edit(
        "int(prompt_is_used.long().argmax()) => "
        "self.prompt_length - int(self.attention_mask[index, : self.prompt_length].sum(dim=1).max())"
    )
    """prompts are padded on the left, so the longest one says where the first of them begins"""
    columns_by_number = edit(
        "sequence = slice(first, self.prompt_length + length) => "
        "sequence = torch.arange(first, self.prompt_length + length)",
        "tensor[index, sequence => tensor[index].index_select(1, sequence",
        "slice(length)] => torch.arange(length))",
    )
    """columns are selected by their numbers"""


class RightMinibatches(Right, of="ExperienceBuffer.minibatches"):
    samplers_of_torch = instead("""
        from torch.utils.data import BatchSampler, RandomSampler

        whole = merge_experiences(self._stored)
        for index in BatchSampler(RandomSampler(range(len(self)), generator=generator), size, drop_last=False):
            yield whole.rows(torch.tensor(index))
    """)
    """torch's own samplers give the row numbers"""
    drawn_at_the_call = instead("""
        whole = merge_experiences(self._stored)
        device = whole.input_ids.device
        keys = torch.rand(len(whole), generator=generator, device="cpu" if generator is None else generator.device)
        order = keys.argsort().to(device)
        return (whole.rows(order[start : start + size]) for start in range(0, len(whole), size))
    """)
    """random keys drawn at the call, minibatches made when they are asked for"""


class RightEvaluateResponses(Right, of="evaluate_responses"):
    whole_pass_of_the_reference = edit(
        "ref_logits = response_logits(reference_policy, sequences, visible, prompt_length) => "
        "positions = (visible.long().cumsum(dim=1) - 1).clamp(min=0)\n"
        "        ref_logits = reference_policy(\n"
        "            input_ids=sequences, attention_mask=visible, position_ids=positions, use_cache=False\n"
        "        ).logits[:, prompt_length - 1 : -1]"
    )
    """the reference computes the logits of the prompt as well"""
    scores_first = edit(
        "scores = _checked_scores(score(sequences, visible, prompt_length), len(sequences))\n => ",
        "with evaluation_mode(model):\n => "
        "scores = _checked_scores(score(sequences, visible, prompt_length), len(sequences))\n"
        "with evaluation_mode(model):\n",
        "gather_log_probs(ref_logits, generation.responses, config.temperature) => "
        "(ref_logits / config.temperature).log_softmax(dim=-1)\n"
        "ref_log_probs = ref_log_probs.gather(2, generation.responses[..., None])[..., 0]\n"
        "ref_log_probs = torch.where(generation.mask, ref_log_probs, torch.zeros_like(ref_log_probs))",
        "config.missing_stop_penalty), => config.missing_stop_penalty).clamp(-config.clip_score, config.clip_score),",
        "ref_log_probs=ref_log_probs.masked_fill(~generation.mask, 0.0) => ref_log_probs=ref_log_probs",
    )
    """scores come before the models' passes; masked before use, clipped by hand"""


class PublishedSampleToken(Published, of="sample_token"):
    transformers = instead("""
        scores = logits / temperature
        if top_k > 0:
            top_k = min(top_k, scores.size(-1))
            indices_to_remove = scores < torch.topk(scores, top_k)[0][..., -1, None]
            scores = scores.masked_fill(indices_to_remove, -float("inf"))
        if top_p < 1.0:
            sorted_logits, sorted_indices = torch.sort(scores, descending=False)
            cumulative_probs = sorted_logits.softmax(dim=-1).cumsum(dim=-1)
            sorted_indices_to_remove = cumulative_probs <= (1 - top_p)
            sorted_indices_to_remove[..., -1:] = 0
            indices_to_remove = sorted_indices_to_remove.scatter(1, sorted_indices, sorted_indices_to_remove)
            scores = scores.masked_fill(indices_to_remove, -float("inf"))
        probs = torch.nn.functional.softmax(scores, dim=-1)
        return torch.multinomial(probs, num_samples=1, generator=generator).squeeze(1)
    """)
    """transformers, the warpers of generate: temperature, top-k, top-p"""
