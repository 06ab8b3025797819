"""Mistakes in lesson 12, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first, instead


class SFTLoss(Wrong, of="sft_loss"):
    logits_not_shifted = instead(
        "from ..lesson01_masked_sequences import gather_log_probs\n"
        "\n"
        "return -masked_mean(gather_log_probs(logits, input_ids), loss_mask)"
    )
    """each token is scored by the logits at its own position, which have read it; those one position before predict
    it"""
    logits_shifted_with_the_tokens = edit("log_probs(logits => log_probs(logits.roll(-1, dims=1)")
    """logits and tokens are both shifted, so each token is still scored by logits that have read it; shift logits[:,
    :-1] only"""
    # huggingface/transformers#37830
    logits_shifted_twice = edit(
        "logits, input_ids => logits[:, :-1], input_ids[:, 1:]", "loss_mask[:, 1:] => loss_mask[:, 2:]"
    )
    """you shift twice, but token i + 1 is predicted by the logits at i, not by those before that"""
    mask_not_shifted = edit("loss_mask[:, 1:] => loss_mask[:, :-1]")
    """the tokens are shifted and the mask isn't, but it belongs to the tokens, so it should lose its first column"""
    every_token_learned = edit("loss_mask[:, 1:] => torch.ones_like(loss_mask[:, 1:])")
    """the mask isn't used, so prompt and padding are learned as well"""
    likelihood_minimized = edit("-masked => masked")
    """the mean log-likelihood has no minus sign, so minimizing it unlearns the demonstrations"""
    tokens_summed = edit("loss_mask[:, 1:]) => loss_mask[:, 1:]) * loss_mask[:, 1:].sum()")
    """you take the sum over the tokens, so a long batch takes larger steps, and it should be a mean"""
    mean_of_row_means = instead(
        "log_probs = response_log_probs(logits, input_ids, prompt_length=1)\n"
        "rows = [row[real].mean() for row, real in zip(log_probs, loss_mask[:, 1:], strict=True) if real.any()]\n"
        "return -torch.stack(rows).mean()"
    )
    """you take the mean of the rows' means, so a token of a short response weighs more than one of a long response"""
    multiplied_by_the_mask = instead(
        "mask = loss_mask[:, 1:]\n"
        "return -(response_log_probs(logits, input_ids, prompt_length=1) * mask).sum() / mask.sum()"
    )
    """you multiply by the mask before the sum, but NaN * 0 is NaN; select with the mask"""


IN_PARTS = """
    optimizer = torch.optim.AdamW(policy.parameters(), lr=config.learning_rate, weight_decay=0.0)
    order = torch.randperm(len(data.input_ids), generator=torch.Generator().manual_seed(config.seed))
    batches, losses = order.split(config.batch_size), []
    policy.train()
    for rows in batches:
        optimizer.param_groups[0]["lr"] = config.learning_rate * (1 - len(losses) / len(batches))
        optimizer.zero_grad()
        losses.append(0.0)
        parts = rows[data.attention_mask[rows].sum(dim=1).argsort(descending=True)].chunk(2)
        total = int(data.loss_mask[rows, 1:].sum())
        for part in parts:
            ids, seen, learned = (tensor[part] for tensor in data)
            output = policy(input_ids=ids, attention_mask=seen, position_ids=position_ids(seen))
            loss = sft_loss(output["logits"], ids, learned) * ({weight})
            loss.backward()
            losses[-1] += loss.item()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
    policy.eval()
    return losses
"""


class TrainSFT(Wrong, of="train_sft"):
    prompts_learned_too = first("data = data._replace(loss_mask=data.attention_mask)")
    """the prompt is learned too; data.loss_mask marks the response, and data.attention_mask all that isn't padding"""
    learning_rate_not_decayed = edit("decay.step() => pass")
    """the learning rate doesn't decay linearly to 0 over all steps of the training"""
    every_demonstration_twice = edit("order.split(config.batch_size) => 2 * order.split(config.batch_size)")
    """you pass twice over the demonstrations, but each should be seen once, or it's learned by heart"""
    sft_gradients_pile_up = edit("optimizer.zero_grad(set_to_none=True) => pass")
    """the gradients are never forgotten, so each step takes all earlier ones again"""
    sft_gradients_not_clipped = edit("nn.utils.clip_grad_norm_(policy.parameters(), 1.0) => pass")
    """the gradients aren't clipped to the norm 1, so one odd batch can throw the model far off"""
    weights_decayed = edit("weight_decay=0.0,  => ")
    """AdamW's default weight decay pulls the weights towards 0; here it is 0"""
    trained_in_eval_mode = edit("policy.train() => policy.eval()")
    """you train in eval mode, so dropout, where a model has it, is never used"""
    left_in_train_mode = edit("policy.eval() => policy.train()")
    """the model is left in train mode, so the next stage samples from it with dropout on"""
    parts_of_a_batch_averaged = instead(IN_PARTS.format(weight="1 / len(parts)"))
    """the parts of a batch count alike; weight each by its share of the tokens to learn"""


class EvaluatePolicy(Wrong, of="evaluate_policy"):
    everything_visible = edit("torch.cat([attention_mask, mask], dim=1) => torch.ones_like(sequences).bool()")
    """the padding is read as text, but only the prompt's real tokens and then the response's should be visible"""
    cut_responses_are_valid = edit(" and stop => ")
    """a response that was cut counts as valid, but it must also have stopped by itself"""
    one_stop_token_counts = edit("(responses, config.stop_token_ids) => (responses, config.stop_token_ids[:1])")
    """only the first stop token counts, but a response has stopped with any of config.stop_token_ids"""
    padding_means_stopped = edit("is_stop(responses, config.stop_token_ids) => (~mask)")
    """a response counts as stopped if padding follows, but the longest has none, and may have stopped; look for a
    stop"""
    padding_told_by_its_id = edit(
        "sequences = torch.cat( => mask = responses != config.pad_token_id\nsequences = torch.cat("
    )
    """padding is found by its id, so the stop is lost where the two are the same; generate returns the mask"""
    reference_read_with_dropout = edit("with evaluation_mode(reference): => if True:")
    """the reference is read in the mode it's in, and with dropout on its KL is noise; use evaluation_mode"""
    reference_put_into_eval_mode = edit("with evaluation_mode(reference): => if reference.eval():")
    """the reference is left in eval mode, but an evaluation should leave all as it was; use evaluation_mode"""
    policy_left_in_eval_mode = first("policy.eval()")
    """the policy is left in eval mode, and its training goes on afterwards; generate restores the mode by itself"""
    kl_of_a_token = edit("kl.masked_fill(~mask, 0.0).sum(dim=1) => kl[mask]")
    """you report the KL of a token, but it should be the sum over a response's tokens, then the mean over responses"""
    kl_by_the_estimator_of_the_config = edit("config.temperature)) => config.temperature), config.kl_estimator)")
    """config.kl_estimator is for the rewards of the training, but the KL reported here is always the sum of k1"""
    kl_of_the_padding = edit("kl.masked_fill(~mask, 0.0) => kl")
    """the KL is summed over padding as well; mask it first"""
    kl_reversed = edit(
        "estimate_kl(log_probs, gather_log_probs(ref_logits, responses, config.temperature)) => "
        "estimate_kl(gather_log_probs(ref_logits, responses, config.temperature), log_probs)"
    )
    """you take reference minus policy, but KL(policy || reference) is the mean of policy minus reference, over its
    samples"""
    kl_from_itself = first("reference = policy")
    """the policy is compared with itself, but the KL is measured against the SFT model"""
    evaluation_at_temperature_1 = edit("responses, config.temperature => responses")
    """the reference is read at temperature 1, but both log-probs need config.temperature"""
    special_tokens_in_the_text = edit("skip_special_tokens=True => skip_special_tokens=False")
    """the stop token stays in the text, so no response is well-formed; decode with skip_special_tokens=True"""
    gold_of_the_valid_only = edit("sum(gold) / len(gold) => sum(gold) / max(1, sum(valid))")
    """gold is averaged over the grammatical responses only, but any other one should count, with 0"""
    gold_against_the_first_prompt = edit("zip(prompts, texts => zip(len(texts) * [prompts[0]], texts")
    """every response is held against the first prompt, but each has its own topic"""
    evaluated_without_chance = edit("generator=generator => generator=generator, top_k=1")
    """the most likely token is always taken, but PPO trains the distribution, so samples of it should be evaluated"""
    evaluated_with_the_global_generator = edit(", generator=generator => ")
    """you sample with the global generator, so evaluating would change the training, and each policy would meet other
    luck"""


class TrainPolicy(Wrong, of="train_policy"):
    resume_from_ignored = first("resume_from = None")
    """resume_from is ignored, so the updates before the checkpoint are done again; trainer.load_checkpoint comes
    first"""
    sft_model_trained_in_place = edit(
        "model =  => reference = make_reference(sft.policy)\nmodel = ",
        "copy.deepcopy(sft.policy) => sft.policy",
        "make_reference(sft.policy), config => reference, config",
    )
    """the SFT model itself is trained, but stage 1's policy is the starting point of other runs; train a copy"""
    sft_model_becomes_the_reference = edit("make_reference(sft.policy) => sft.policy.requires_grad_(False).eval()")
    """the SFT model itself becomes the reference, so it's frozen for whoever uses it next; make_reference copies"""
    copy_stays_frozen = edit(".requires_grad_(True) => ")
    """the copy stays frozen where the SFT model was, so the policy never moves; call requires_grad_(True)"""
    policy_is_the_reference = edit("make_reference(sft.policy) => model.policy")
    """the trained policy is its own reference, so freezing it stops the training, and the KL is always 0"""
    critic_from_nothing = edit(
        "trainer = PPO => for weight in model.value_model.parameters():\n    weight.data.fill_(0.5)\ntrainer = PPO"
    )
    """the critic starts from nothing, but a copy of the reward model is already right at the last token"""
    critic_shares_the_reward_model = edit(
        "trainer = PPO => model.value_model.backbone = reward.reward_model.backbone\ntrainer = PPO"
    )
    """the critic shares the reward model's backbone, so it's frozen with it, or changes the reward as it learns; copy
    it"""
    sft_model_returned = edit("PPOResult(trainer.policy => PPOResult(sft.policy")
    """the SFT model is returned, but the tuned policy is trainer.policy"""
    sft_model_left_in_eval_mode = first("sft.policy.eval()")
    """the SFT model is left in eval mode, but stage 1 should stay as it was; a copy may be put into any mode"""
    global_generator_seeded = first("import torch\n\ntorch.manual_seed(config.seed)")
    """torch.manual_seed resets the caller's random numbers, but the trainer has generators of its own, from
    config.seed"""
    prompts_of_one_batch = first("prompts = prompts[: config.batch_size]")
    """only the first batch of prompts is trained on; trainer.train takes them all and draws the batches"""
    trained_on_the_truth = edit(
        "PPOTrainer(model, reward.reward_model => PPOTrainer(model, gold",
        "trainer = PPO => "
        "from tiny_models.gold import gold_score\n"
        "\n"
        "reward.reward_model.requires_grad_(False)\n"
        "\n"
        "def gold(asked, answers):\n"
        "    return [gold_score(prompt, text) for prompt, text in zip(asked, answers, strict=True)]\n"
        "\n"
        "trainer = PPO",
    )
    """the gold score is the reward, but the truth is for the evaluation only; training has the reward model"""
