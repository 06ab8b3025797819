"""Other ways to write the rollout. All of them must pass."""

from __future__ import annotations

from testcases.engine import Right, edit, instead


class SampleToken(Right, of="sample_token"):
    gumbel_noise = edit(
        "torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)",
        "(logits.double() - torch.empty(logits.shape, dtype=torch.float64)"
        ".exponential_(generator=generator).log()).argmax(dim=1)",
        why="the largest of the logits after Gumbel noise is drawn from their softmax",
    )
    inverse_of_the_distribution = edit(
        "return torch.multinomial(logits.softmax(dim=1), 1, generator=generator).squeeze(1)",
        "sums = logits.double().softmax(dim=1).cumsum(dim=1)\n"
        "drawn = torch.rand(len(logits), 1, generator=generator, dtype=sums.dtype) * sums[:, -1:]\n"
        "return torch.searchsorted(sums, drawn, right=True).squeeze(1)",
        why="a uniform number, looked up among the cumulative probabilities",
    )
    rank_drawn = instead(
        """
        ordered, order = (logits / temperature).sort(dim=1, descending=True)
        rank = torch.arange(logits.shape[1], device=logits.device)
        if top_k:
            last = ordered[:, min(top_k, len(rank)) - 1].unsqueeze(1)
            ordered = torch.where(ordered >= last, ordered, -torch.inf)
        probabilities = ordered.softmax(dim=1)
        if top_p < 1:
            is_over = probabilities.cumsum(dim=1) >= top_p
            is_over = torch.cat([torch.zeros_like(is_over[:, :1]), is_over[:, :-1]], dim=1)
            probabilities = probabilities.masked_fill(is_over, 0.0)
        return order.gather(1, torch.multinomial(probabilities, 1, generator=generator)).squeeze(1)
        """,
        why="cut and drawn in the order of likelihood, and then looked up; multinomial rescales by itself",
    )
    row_by_row = instead(
        """
        import math

        drawn = []
        for row in logits.double().tolist():
            weights = [math.exp((logit - max(row)) / temperature) for logit in row]
            if top_k:
                smallest = sorted(weights, reverse=True)[:top_k][-1]
                weights = [weight if weight >= smallest else 0.0 for weight in weights]
            reached, total = 0.0, sum(weights)
            for token in sorted(range(len(row)), key=weights.__getitem__, reverse=True):
                weight = weights[token]
                if reached >= top_p * total and top_p < 1:
                    weights[token] = 0.0
                reached += weight
            drawn.append(torch.multinomial(torch.tensor(weights), 1, generator=generator))
        return torch.cat(drawn)
        """,
        why="a loop over rows and tokens, on weights that do not sum to 1",
    )


class Generate(Right, of="generate"):
    cache_of_transformers = edit(
        "visible, positions, cache",
        "from transformers import DynamicCache\n\nvisible, positions, cache",
        "position_ids(attention_mask), None",
        "position_ids(attention_mask), DynamicCache(config=policy.config)",
        why="the cache is made before the first pass, as Hugging Face's own generate does",
    )
    ended_rows_write_padding = instead(
        """
        count = len(input_ids)
        responses = torch.full((count, max_new_tokens), pad_token_id, dtype=torch.int64, device=input_ids.device)
        log_probs = None
        mask = torch.zeros_like(responses, dtype=torch.bool)
        visible = torch.cat([attention_mask.bool(), torch.ones_like(mask)], dim=1)
        is_writing = torch.ones(count, dtype=torch.bool, device=input_ids.device)
        past, tokens, prompt_length = None, None, input_ids.shape[1]
        length = attention_mask.sum(dim=1, keepdim=True)
        with evaluation_mode(policy):
            for step in range(max_new_tokens):
                output = policy(
                    input_ids=input_ids if past is None else tokens[:, None],
                    attention_mask=visible[:, : prompt_length + step],
                    position_ids=position_ids(attention_mask) if past is None else length + step - 1,
                    past_key_values=past,
                    use_cache=True,
                )
                past, logits = output.past_key_values, output.logits[:, -1]
                tokens = sample_token(logits, temperature, top_k, top_p, generator)
                tokens = torch.where(is_writing, tokens, pad_token_id)
                found = (logits / temperature).log_softmax(dim=-1).gather(1, tokens[:, None])[:, 0]
                if log_probs is None:
                    log_probs = found.new_zeros(responses.shape)
                responses[:, step], mask[:, step] = tokens, is_writing
                log_probs[is_writing, step] = found[is_writing]
                for stop in stop_token_ids:
                    is_writing = is_writing & (tokens != stop)
                if not is_writing.any():
                    break
        return Generation(responses[:, : step + 1], log_probs[:, : step + 1], mask[:, : step + 1])
        """,
        why="tensors of the full size are filled step by step; rows that have ended are fed padding",
    )
    modes_by_hand = edit(
        "with evaluation_mode(policy):",
        "modes = [(module, module.training) for module in policy.modules()]\npolicy.eval()\ntry:",
        "sampled = torch.stack",
        "finally:\n    for module, was_on in modes:\n        module.training = was_on\nsampled = torch.stack",
        why="the modes are put back in finally",
    )
    all_logits_then_the_last = edit(
        "        logits_to_keep=1,\n",
        "",
        "gather_log_probs(logits.unsqueeze(1), tokens.unsqueeze(1), temperature).squeeze(1)",
        "torch.log_softmax(logits / temperature, dim=1)[torch.arange(len(tokens)), tokens]",
        "positions[:, -1:] + 1",
        "attention_mask.sum(dim=1, keepdim=True) + len(responses) - 1",
        why="the model computes all logits, the log-probability is indexed, the position counted from the mask",
    )


class Rows(Right, of="Experience.rows"):
    by_counting_the_prompts = edit(
        "int(prompt_is_used.long().argmax())",
        "self.prompt_length - int(self.attention_mask[index, : self.prompt_length].sum(dim=1).max())",
        why="prompts are padded on the left, so the longest one says where the first of them begins",
    )
    columns_by_number = edit(
        "sequence = slice(first, self.prompt_length + length)",
        "sequence = torch.arange(first, self.prompt_length + length)",
        "tensor[index, sequence",
        "tensor[index].index_select(1, sequence",
        "slice(length)]",
        "torch.arange(length))",
        why="columns are selected by their numbers",
    )
    field_by_field = instead(
        """
        rows = {name: tensor.index_select(0, index) for name, tensor in vars(self).items()}
        prompt_length, length = self.prompt_length, self.mask.shape[1]
        while not rows["mask"][:, length - 1].any():
            length -= 1
        first = 0
        while not rows["attention_mask"][:, first].any():
            first += 1
        for name in ("input_ids", "attention_mask"):
            rows[name] = rows[name][:, first : prompt_length + length]
        for name in ("mask", "log_probs", "ref_log_probs", "values", "rewards", "advantages", "returns"):
            rows[name] = rows[name][:, :length]
        return Experience(**rows)
        """,
        why="columns are dropped one by one, from both ends",
    )


class Minibatches(Right, of="ExperienceBuffer.minibatches"):
    samplers_of_torch = instead(
        """
        from torch.utils.data import BatchSampler, RandomSampler

        whole = merge_experiences(self._stored)
        for index in BatchSampler(RandomSampler(range(len(self)), generator=generator), size, drop_last=False):
            yield whole.rows(torch.tensor(index))
        """,
        why="torch's own samplers deal the row numbers",
    )
    order_of_random_numbers = edit(
        "torch.randperm(len(self), generator=generator)",
        "torch.rand(len(self), generator=generator, dtype=torch.float64).argsort()",
        why="rows in the order of random numbers",
    )
    sliced_by_hand = instead(
        """
        order = torch.randperm(len(self), generator=generator)
        for start in range(0, len(order), size):
            yield merge_experiences(self._stored).rows(order[start : start + size])
        """,
        why="what is stored stays as it was appended, and is merged for each minibatch",
    )


class EvaluateResponses(Right, of="evaluate_responses"):
    whole_pass_of_the_reference = edit(
        "ref_logits = response_logits(reference_policy, sequences, visible, prompt_length)",
        "positions = (visible.long().cumsum(dim=1) - 1).clamp(min=0)\n"
        "        ref_logits = reference_policy(\n"
        "            input_ids=sequences, attention_mask=visible, position_ids=positions, use_cache=False\n"
        "        ).logits[:, prompt_length - 1 : -1]",
        why="the reference computes the logits of the prompt as well",
    )
    judges_in_another_order = instead(
        """
        mask, prompt_length = generation.mask, input_ids.shape[1]
        sequences = torch.cat([input_ids, generation.responses], dim=1)
        visible = torch.cat([attention_mask.bool(), mask], dim=1)
        scores = _checked_scores(score(sequences, visible, prompt_length), len(sequences))
        with evaluation_mode(model):
            values = model.response_values(sequences, visible, prompt_length)
        with evaluation_mode(model):
            if reference is None:
                with reference_mode(model.policy) as own:
                    logits = response_logits(own, sequences, visible, prompt_length)
            else:
                logits = response_logits(reference, sequences, visible, prompt_length)
        chosen = (logits / config.temperature).log_softmax(dim=-1).gather(2, generation.responses[..., None])[..., 0]
        ref_log_probs = torch.where(mask, chosen, torch.zeros_like(chosen))
        values = torch.where(mask, values.to(chosen.dtype), torch.zeros_like(chosen))
        paid = penalize_missing_stop(
            scores, generation.responses, config.stop_token_ids, config.missing_stop_penalty
        ).clamp(-config.clip_score, config.clip_score)
        rewards = compute_rewards(
            paid, generation.log_probs, ref_log_probs, mask, kl_coef, config.clip_score, estimator=config.kl_estimator
        )
        rewards = masked_whiten(rewards, mask, False) if config.whiten_rewards else rewards
        found = compute_response_gae(rewards, values, mask, gamma=config.gamma, lam=config.lam)
        judged = (generation.log_probs, ref_log_probs, values, scores, rewards, *found)
        return Experience(sequences, visible, mask, *judged)
        """,
        why="scores first, then values, then the reference; masked before use; clipped by hand",
    )
    modes_by_hand = edit(
        "with evaluation_mode(model):",
        "modes = [(module, module.training) for module in model.modules()]\ntry:\n    model.eval()",
        "ref_log_probs = gather",
        "finally:\n    for module, was_on in modes:\n        module.training = was_on\nref_log_probs = gather",
        why="the modes are put back in finally",
    )


class CollectExperience(Right, of="collect_experience"):
    settings_one_by_one = edit(
        "**config.sampling(), generator=generator",
        "config.max_new_tokens, config.stop_token_ids, config.pad_token_id, config.temperature, 0, 1.0, generator",
        why="the settings are handed on by place",
    )
    without_gradients_from_the_start = edit(
        "generation = generate(model.policy, input_ids, attention_mask,",
        "with torch.no_grad(), evaluation_mode(model):\n"
        "    generation = generate(model.policy, input_ids, attention_mask.bool(),",
        why="dropout and gradients are off around a call that switches them off itself",
    )
