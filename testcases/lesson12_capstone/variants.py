"""Other right ways to write lesson 12, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, edit, instead

from .mistakes import IN_PARTS


class RightSFTLoss(Right, of="sft_loss"):
    cross_entropy_of_the_chosen = instead("""
        mask = loss_mask[:, 1:]
        return nn.functional.cross_entropy(logits[:, :-1][mask], input_ids[:, 1:][mask])
    """)
    """torch's cross entropy of the positions to learn"""


class RightTrainSFT(Right, of="train_sft"):
    loss_of_the_model = edit(
        "logits = policy( => loss = policy(",
        "use_cache=False,\n"
        "    ).logits\n"
        "    loss = sft_loss(logits, input_ids, loss_mask)\n => "
        "labels=input_ids.masked_fill(~loss_mask, -100),\n"
        "    ).loss\n",
    )
    """the loss that a model of Hugging Face makes from labels, -100 where nothing is learned"""
    batch_read_in_parts = instead(IN_PARTS.format(weight="int(learned[:, 1:].sum()) / total"))
    """gradients added up over the parts of a batch, its longest rows first"""


class RightEvaluatePolicy(Right, of="evaluate_policy"):
    policy_read_once_more = edit(
        "with evaluation_mode(reference): => "
        "with evaluation_mode(policy):\n"
        "    own = response_logits(policy, sequences, visible, input_ids.shape[1])\n"
        "with evaluation_mode(reference):",
        "estimate_kl(log_probs,  => estimate_kl(gather_log_probs(own, responses, config.temperature), ",
        "[tokenizer.decode(row[real], skip_special_tokens=True) for row, real in zip(responses, mask, strict=True)] => "
        "tokenizer.batch_decode(responses, skip_special_tokens=True)",
    )
    """log-probs of a forward pass over whole sequences, in place of those of the sampling; all texts decoded at once"""
    response_by_response = edit(
        "texts = [tokenizer => "
        "nats = [float(one[real].sum()) for one, real in zip(kl, mask, strict=True)]\n"
        "scores = score(sequences, visible, input_ids.shape[1]).tolist()\n"
        "texts = [tokenizer",
        "stopped = is_stop(responses, config.stop_token_ids).any(dim=1).tolist() => "
        "stopped = [any(token in config.stop_token_ids for token in row) for row in responses.tolist()]",
        "score(sequences, visible, input_ids.shape[1]).mean().item() => sum(scores) / len(scores)",
        "kl.masked_fill(~mask, 0.0).sum(dim=1).mean().item() => sum(nats) / len(nats)",
    )
    """numbers of single responses, averaged in Python"""


class RightTrainPolicy(Right, of="train_policy"):
    copies_part_by_part = edit(
        "copy.deepcopy(sft.policy).requires_grad_(True), critic_from_reward_model(reward.reward_model)\n => "
        "policy, critic\n",
        "model = PolicyAndValue => "
        "policy, reference = copy.deepcopy(sft.policy), copy.deepcopy(sft.policy)\n"
        "policy.requires_grad_(True).train()\n"
        "reference.requires_grad_(False).eval()\n"
        "critic = critic_from_reward_model(reward.reward_model)\n"
        "model = PolicyAndValue",
        "make_reference(sft.policy) => reference",
    )
    """policy, reference and critic are made first, by hand"""
    reward_model_frozen_first = edit(
        "trainer = PPOTrainer(model, reward.reward_model, make_reference(sft.policy), config, tokenizer) => "
        "scorer = reward.reward_model.requires_grad_(False).eval()\n"
        "trainer = PPOTrainer(model, scorer, make_reference(sft.policy), config, tokenizer)",
        "trainer.train(prompts, on_update) => "
        "trainer.train(list(prompts), lambda one: on_update(one) if on_update else None)",
        "PPOResult(trainer.policy, trainer) => PPOResult(policy=model.policy, trainer=trainer)",
    )
    """the reward model is frozen by the stage itself, and the callback wrapped"""


class PublishedSFTLoss(Published, of="sft_loss"):
    transformers = instead("""
        labels = input_ids.masked_fill(~loss_mask, -100)[:, 1:]
        scores = logits.float()[:, :-1]
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=-100)
    """)
    """transformers, ForCausalLMLoss: labels of -100 are not learned, and logits are cast to float32"""
