"""Mistakes in lesson 8, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first, instead

CACHE = "The cache, the mask and the positions"
CUTS = "Top-k and top-p, and why PPO uses neither"
FOUR = "Four sets of numbers, and who gives them"
PITFALLS = "What people get wrong"


class SampleToken(Wrong, of="sample_token"):
    temperature_ignored = edit(" / temperature => ")
    """the temperature is ignored; it divides the logits before all else"""
    temperature_after_the_cut = edit(
        " / temperature => ", "logits.softmax(dim=1), 1 => (logits / temperature).softmax(dim=1), 1", read=CUTS
    )
    """top_p is applied at temperature 1 and the temperature comes after, but it changes which tokens are in; divide by
    it first"""
    top_k_ignored = first("top_k = 0")
    """top_k is ignored, so tokens beyond the k most likely ones still come"""
    one_bound_for_all_rows = edit("values[:, -1:] => values.min()")
    """the k-th largest logit is taken from the whole batch, but each row has its own"""
    least_likely_tokens_kept = edit(", descending=True => ", read=CUTS)
    """the tokens are sorted in ascending order, so unlikely ones fill top_p and the most likely one may go; say
    descending=True"""
    crossing_token_dropped = edit(
        "mass_before >= top_p => (mass_before + ordered > top_p) & (mass_before > 0)", read=CUTS
    )
    """the token that crosses top_p is dropped, but what is kept has to *reach* top_p, so it stays"""
    sorted_mask_on_unsorted_tokens = edit(".gather(1, order.argsort(dim=1)) => ", read=CUTS)
    """the mask was made for sorted tokens and is used on unsorted ones; gather it back to where each token was"""
    kth_token_dropped = edit("logits < smallest_kept => logits <= smallest_kept")
    """the k-th most likely token is cut as well, because `<=` is used where `<` should be"""
    top_p_of_the_whole_vocabulary = edit(
        "logits = logits / temperature => logits = logits / temperature\nwhole = logits.softmax(dim=1)",
        "logits.softmax(dim=1).sort => whole.sort",
        read=CUTS,
    )
    """top_p counts the whole vocabulary, but it should count only what top_k has left, rescaled to sum to 1"""
    rank_taken_for_the_token = edit(
        "logits.masked_fill((mass_before >= top_p).gather(1, order.argsort(dim=1)), -torch.inf) => "
        "logits.gather(1, order).masked_fill(mass_before >= top_p, -torch.inf)"
    )
    """you draw from sorted probabilities and return the rank, but the token's number is asked for; gather it from the
    order"""
    argmax_taken = instead("return logits.argmax(dim=1)")
    """the most likely token is taken instead of drawn, so nothing else is ever tried"""
    cut_tokens_at_logit_0 = edit("smallest_kept, -torch.inf => smallest_kept, 0.0")
    """removed tokens get the logit 0, which is a probability like any other, and they should get -inf"""
    global_generator_used = edit(", generator=generator => ")
    """the generator isn't used, because torch.multinomial draws from the global one; hand it generator="""
    generator_seeded_anew = first("generator = torch.Generator().manual_seed(0)")
    """the generator is seeded anew in each call, so every call draws the same"""
    one_draw_for_all_rows = edit(
        "logits.softmax(dim=1), 1 => logits[:1].softmax(dim=1), 1", ".squeeze(1) => .squeeze(1).repeat(len(logits))"
    )
    """one token is drawn for the whole batch, but each row has its own distribution"""


class Generate(Wrong, of="generate"):
    stop_token_masked_out = edit(
        "response_mask(sampled, stop_token_ids) => "
        "response_mask(sampled, stop_token_ids) & ~is_stop(sampled, stop_token_ids)"
    )
    """the stop token is masked out, but the policy chose to stop, so it's an action and has to be trained"""
    mask_by_the_pad_token = edit(
        "response_mask(sampled, stop_token_ids) => "
        "truncate_after_stop(sampled, stop_token_ids, pad_token_id) != pad_token_id",
        read=PITFALLS,
    )
    """the mask is `!= pad`, so real tokens are lost where the pad token is a stop token or is sampled; go by the first
    stop"""
    first_stop_token_only = first("stop_token_ids = stop_token_ids[:1]", read=PITFALLS)
    """only the first of the stop tokens is looked for, but any of them ends a row"""
    loop_ends_at_the_first_stop_token_only = edit(
        "is_stop(tokens, stop_token_ids) => is_stop(tokens, stop_token_ids[:1])", read=PITFALLS
    )
    """the loop looks for the first of the stop tokens only, so it goes on after the others; any of them ends a row"""
    never_ends_early = edit("if not is_writing.any(): => if False:")
    """the loop runs to max_new_tokens although all rows have stopped, but T should be the length of the longest row"""
    stopped_rows_not_remembered = edit("is_writing & ~is_stop => ~is_stop")
    """a row that stopped earlier isn't remembered, so the loop ends only when all rows stop in the same step"""
    ends_with_the_first_row = edit("is_writing.any() => is_writing.all()")
    """the loop ends when the first row has stopped, so the others are cut off in mid-sentence"""
    junk_after_the_stop = edit("truncate_after_stop(sampled, stop_token_ids, pad_token_id) => sampled")
    """what was sampled after a row's stop token is left standing, but those places should hold the pad token"""
    padded_with_0 = first("pad_token_id = 0")
    """the padding is filled with 0; the pad token has its own number, pad_token_id"""
    log_probs_on_the_padding = edit(".masked_fill(~mask, 0.0) => ")
    """log-probs of tokens after the stop are left in, but they should be 0 where the mask is False"""
    log_probs_at_temperature_1 = edit("tokens.unsqueeze(1), temperature => tokens.unsqueeze(1)", read=PITFALLS)
    """the tokens are sampled at the temperature and recorded at 1, so the old log-probs are of a policy that never
    sampled"""
    log_probs_divided_by_temperature = edit(
        "tokens.unsqueeze(1), temperature).squeeze(1) => tokens.unsqueeze(1)).squeeze(1) / temperature", read=PITFALLS
    )
    """you divide the log-probabilities by the temperature, so the probabilities don't sum to 1; divide the logits"""
    log_probs_of_the_cut_distribution = edit(
        "logits.unsqueeze(1), tokens.unsqueeze(1), temperature => "
        "cut(logits / temperature).unsqueeze(1), tokens.unsqueeze(1)",
        "responses, log_probs = [], [] => "
        "responses, log_probs = [], []\n"
        "\n"
        "def cut(logits):\n"
        "    if top_k:\n"
        "        logits = logits.masked_fill(logits < logits.topk(top_k, dim=1).values[:, -1:], -torch.inf)\n"
        "    probabilities = logits.softmax(dim=1)\n"
        "    ordered = probabilities.sort(dim=1, descending=True).values\n"
        "    kept = ordered.masked_fill(ordered.cumsum(dim=1) - ordered >= top_p, 1.0)\n"
        "    return logits.masked_fill(probabilities < kept.amin(dim=1, keepdim=True), -torch.inf)\n",
        read=CUTS,
    )
    """the log-probs are those of the distribution after top_k and top_p; training recomputes the whole one, so store
    that"""
    padding_counted_in_the_positions = edit("position_ids=positions => position_ids=None", read=CACHE)
    """the model gets no position_ids, so it counts the padding, and a row's text depends on its neighbors' length"""
    position_is_the_column = edit(
        "positions[:, -1:] + 1 => torch.full_like(positions[:, -1:], visible.shape[1])", read=CACHE
    )
    """a new token's position is the number of its column, which counts the padding; it should be the last position plus
    1"""
    padding_read_as_text = edit("attention_mask=visible => attention_mask=None", read=CACHE)
    """the model gets no attention_mask, so the prompt's padding is read as text"""
    mask_not_lengthened = edit("torch.cat([visible, torch.ones_like(visible[:, :1])], dim=1) => visible", read=CACHE)
    """the attention mask stays as long as the prompt, but it should cover the cache and the new token, one column more
    each step"""
    text_read_again_each_step = edit(
        "use_cache=True => use_cache=False",
        "next_ids, positions = tokens.unsqueeze(1), positions[:, -1:] + 1 => "
        "next_ids = torch.cat([next_ids, tokens.unsqueeze(1)], dim=1)\n"
        "        positions = torch.cat([positions, positions[:, -1:] + 1], dim=1)",
        read=CACHE,
    )
    """the whole text is read again for each token; pass past_key_values on and feed only the new token"""
    dropout_left_on = edit("evaluation_mode(policy) => torch.no_grad()", read=PITFALLS)
    """dropout is on, so the policy that samples isn't the one that is trained; use evaluation_mode"""
    mode_not_put_back = first("policy.eval()")
    """the policy is left in eval mode; evaluation_mode puts each mode back"""
    sampled_at_temperature_1 = edit("sample_token(logits, temperature => sample_token(logits, 1.0")
    """the temperature isn't handed to sample_token, so the log-probs are of another sampler"""
    temperature_never_used = first("temperature = 1.0")
    """the temperature is ignored, but the draw and the log-probs both need it"""
    top_p_not_passed_on = edit("top_k, top_p => top_k, 1.0")
    """top_p isn't handed to sample_token, so the unlikely rest still comes"""
    generator_not_passed_on = edit("top_p, generator => top_p")
    """the generator isn't handed to sample_token, so a run can't be repeated"""
    generated_in_inference_mode = edit("return Generation( => with torch.inference_mode():\n    return Generation(")
    """inference_mode gives tensors that no later gradient may touch, and training reads the log-probs; use no_grad"""


class Rows(Wrong, of="Experience.rows"):
    prompt_padding_kept = edit("int(prompt_is_used.long().argmax()) => 0")
    """the padding on the left of the prompts is kept, so every pass computes columns that no row needs"""
    response_padding_kept = edit("int(self.mask[index].any(dim=0).nonzero().max()) + 1 => self.mask.shape[1]")
    """the padding on the right of the responses is kept, so every pass computes columns that no row needs"""
    cut_to_the_shortest_response = edit(
        "int(self.mask[index].any(dim=0).nonzero().max()) + 1 => int(self.mask[index].sum(dim=1).min())"
    )
    """everything is cut to the shortest response, so the ends of the longer ones are lost"""
    cut_to_the_shortest_prompt = edit("self.prompt_length].any( => self.prompt_length].all(")
    """everything is cut to the shortest prompt, but a column should go only where *all* rows have padding"""
    last_column_cut_off = edit(" + 1 => ")
    """the last real column is cut off, because a slice ends *before* its end; add 1"""
    padding_by_token_number = edit(
        "self.attention_mask[index => (self.input_ids != 0)[index", "self.mask[index] => (self.responses != 0)[index]"
    )
    """padding is recognized by token number 0, which may be a real token; the masks know where padding is"""
    order_of_the_index_lost = first("index = index.sort().values")
    """the rows come back sorted, but the index says which rows, and in which order"""
    length_by_counting = edit(
        "int(self.mask[index].any(dim=0).nonzero().max()) + 1 => int(self.mask[index].sum(dim=1).max())"
    )
    """the longest response is found by counting its real tokens, and a gap in the mask makes the count too small"""


class Minibatches(Wrong, of="ExperienceBuffer.minibatches"):
    new_order_for_each_minibatch = edit(
        "for index in torch.randperm(len(self), generator=generator).split(size) => "
        "for start in range(0, len(self), size)",
        "rows(index) => rows(torch.randperm(len(self), generator=generator)[start : start + size])",
    )
    """each minibatch draws an order of its own, so some rows come twice and others never; draw one order, and split
    it"""
    never_shuffled = edit("torch.randperm(len(self), generator=generator) => torch.arange(len(self))")
    """the rows come in the order in which they were stored, but every epoch should draw a new one"""
    rest_dropped = edit("    yield =>     if len(index) == size:\n        yield")
    """the rows left over at the end are dropped, but every row should be yielded, in a last minibatch that is
    smaller"""
    drawn_with_replacement = edit("torch.randperm(len(self) => torch.randint(len(self), (len(self),)")
    """rows are drawn with replacement, so some come twice and others never; a permutation has each once"""
    batches_never_mixed = instead(
        "for stored in self._stored:\n"
        "    for index in torch.randperm(len(stored), generator=generator).split(size):\n"
        "        yield stored.rows(index)"
    )
    """each appended batch is yielded for itself, but a minibatch should take rows of all of them"""
    padding_of_the_whole_buffer_kept = edit(
        "self._stored[0].rows(index) => "
        "Experience(**{name: tensor[index] for name, tensor in vars(self._stored[0]).items()})"
    )
    """a minibatch keeps the padding of the longest row of the whole buffer; take it with rows(...)"""
    minibatches_shuffled_not_rows = edit(
        "for index in torch.randperm(len(self), generator=generator).split(size) => "
        "parts = torch.arange(len(self)).split(size)\n"
        "for number in torch.randperm(len(parts), generator=generator)",
        "rows(index) => rows(parts[number])",
    )
    """neighbors stay together, because only the minibatches are shuffled, not the rows"""
    order_from_the_global_generator = edit(", generator=generator => ")
    """the generator isn't used, because torch.randperm draws from the global one; hand it generator="""
    same_order_in_every_epoch = first(
        "generator = torch.Generator().manual_seed(generator.initial_seed() if generator else 0)"
    )
    """the generator is seeded anew, so every epoch yields the rows in the same order"""
    minibatches_made_equally_large = edit(".split(size) => .chunk(-(-len(self) // size))")
    """you make the minibatches about equally large, but each has `size` rows, and only the last one may have fewer"""
    size_taken_for_the_number_of_minibatches = edit(".split(size) => .chunk(size)")
    """size is taken for the number of minibatches, but it's the number of rows in one"""
    # deepspeedai/DeepSpeedExamples#457
    prompts_merged_on_the_wrong_side = edit(
        "[merge_experiences(self._stored)] => [merge_experiences(self._stored)]\n"
        "    whole, first = self._stored[0], slice(self._stored[0].prompt_length)\n"
        "    to_the_left = (~whole.attention_mask[:, first]).long().argsort(dim=1, stable=True)\n"
        "    for tensor in (whole.input_ids, whole.attention_mask):\n"
        "        tensor[:, first] = tensor[:, first].gather(1, to_the_left)",
        read=PITFALLS,
    )
    """shorter prompts are padded on the right when batches are merged, so padding then stands inside the text"""


class EvaluateResponses(Wrong, of="evaluate_responses"):
    everything_visible = edit(
        "torch.cat([attention_mask.bool(), generation.mask], dim=1) => torch.ones_like(sequences).bool()"
    )
    """the padding is read as text, but only the prompt's real tokens and then the response's should be visible"""
    padding_of_responses_visible = edit("generation.mask], dim=1 => torch.ones_like(generation.mask)], dim=1")
    """the padding behind a response is read as text, but only what generation.mask says should be visible there"""
    policy_taken_for_the_reference = first("reference = model.policy", read=FOUR)
    """the policy is its own reference, so the KL is measured against nothing that stays"""
    reference_left_in_eval_mode = first("reference = reference and reference.eval()")
    """the reference is put into eval mode and left there, but its mode is its owner's to set, like the model's"""
    whitened_after_gae = edit(
        "if config.whiten_rewards: => raw = rewards\nif config.whiten_rewards:",
        "compute_response_gae(rewards, => compute_response_gae(raw,",
    )
    """GAE gets the rewards from before the whitening, but advantages and returns are made of the whitened ones"""
    adapter_left_on = first("reference = reference or model.policy")
    """without a reference model the adapter stays on; reference_mode switches it off"""
    reference_at_temperature_1 = edit("generation.responses, config.temperature => generation.responses", read=PITFALLS)
    """the reference is read at temperature 1, but both log-probs of a KL need the temperature of the sampling"""
    reference_one_token_late = edit(
        "reference_policy, sequences, visible => reference_policy, sequences.roll(-1, dims=1), visible.roll(-1, dims=1)"
    )
    """token t is scored by the logits that stand *at* it; those before it predicted it"""
    values_after_the_token = edit(
        "model.response_values(sequences, visible => "
        "model.response_values(sequences.roll(-1, dims=1), visible.roll(-1, dims=1)"
    )
    """values[t] is read after token t, but it's V of the text before it, so the slice should start at P - 1"""
    scores_stored_after_the_penalty = edit("penalize_missing_stop( => scores := penalize_missing_stop(")
    """the score is stored after the penalty, but `scores` should be what the reward model said"""
    penalty_after_the_clip = edit(
        "    config.clip_score,\n =>     1e9,\n",
        "penalize_missing_stop(scores => penalize_missing_stop(scores.clamp(-config.clip_score, config.clip_score)",
    )
    """the penalty is taken off after the clip, but a high score should be reduced by it before it's clipped"""
    missing_stop_not_penalized = edit("config.missing_stop_penalty => 0.0")
    """a response that never stopped isn't penalized, so the policy doesn't learn to stop"""
    other_stop_tokens_penalized = edit("config.stop_token_ids => config.stop_token_ids[:1]", read=PITFALLS)
    """only the first stop token counts, so a response that ended with another one is penalized"""
    whiten_rewards_ignored = edit("if config.whiten_rewards: => if False:", read=PITFALLS)
    """whiten_rewards is accepted and never used, so the rewards keep their scale"""
    rewards_centred = edit(", shift_mean=False => ")
    """the whitened rewards lose their mean, so a good batch looks like a bad one; shift_mean=False keeps it"""
    advantages_whitened = edit("advantages=advantages => advantages=masked_whiten(advantages, generation.mask)")
    """the advantages are whitened here, but the experience holds raw ones, and the trainer whitens after the returns"""
    critic_with_dropout = edit("evaluation_mode(model) => nullcontext()", read=PITFALLS)
    """dropout is on while the critic evaluates, so its values are noise; use evaluation_mode"""
    model_left_in_eval_mode = first("model.eval()")
    """the model is left in eval mode; evaluation_mode puts each mode back"""
    model_left_in_train_mode = edit("return Experience( => model.train()\nreturn Experience(")
    """train() afterwards switches on what was off before; evaluation_mode puts each module's mode back"""
    evaluated_in_inference_mode = edit("return Experience( => with torch.inference_mode():\n    return Experience(")
    """inference_mode gives tensors that no later gradient may touch, and training reads them; use no_grad"""
    values_left_in_16_bits = edit("values.to(ref_log_probs.dtype) => values")
    """the values stay in the critic's 16 bits, but GAE adds them up; make them as wide as the log-probs"""
    old_log_probs_computed_anew = edit(
        "    values = model => "
        "    own_logits = response_logits(model.policy, sequences, visible, prompt_length)\n"
        "    values = model",
        "values = values.to => "
        "own_log_probs = gather_log_probs(own_logits, generation.responses, config.temperature)\n"
        "generation = generation._replace(log_probs=own_log_probs.masked_fill(~generation.mask, 0.0))\n"
        "values = values.to",
        read=FOUR,
    )
    """the old log-probs are computed anew, but sampling has already given them, and for free"""
    old_and_reference_swapped = edit(
        "    log_probs= =>     ref_log_probs=",
        "    ref_log_probs=ref_log_probs =>     log_probs=ref_log_probs",
        read=FOUR,
    )
    """old and reference log-probs are swapped, but the sampler's are for the ratio and the reference's for the KL"""
    visible_by_the_pad_token = edit(
        "attention_mask.bool(), generation.mask => attention_mask.bool(), generation.responses != config.pad_token_id",
        read=PITFALLS,
    )
    """real tokens are found by `!= pad`, so a stop token that is the padding token, or a sampled one, is lost"""
    response_scored_without_its_prompt = edit(
        "score(sequences, visible, prompt_length) => score(sequences[:, prompt_length:], visible[:, prompt_length:], 0)"
    )
    """the reward model sees the response alone, but it has to know what was asked"""
    padding_not_zeroed = edit(
        "=ref_log_probs.masked_fill(~generation.mask, 0.0) => =ref_log_probs",
        "values=values.masked_fill(~generation.mask, 0.0) => values=values",
    )
    """what reference and critic say about padding is stored, but every (B, T) number should be 0 where masked"""
