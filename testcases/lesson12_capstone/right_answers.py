"""Other ways to write the three stages. All of them must pass."""

from __future__ import annotations

from testcases.engine import Right, edit, instead


class SFTLoss(Right, of="sft_loss"):
    cross_entropy_of_the_chosen = instead(
        """
        mask = loss_mask[:, 1:]
        return nn.functional.cross_entropy(logits[:, :-1][mask], input_ids[:, 1:][mask])
        """,
        why="torch's cross entropy of the positions to learn",
    )
    token_by_token = instead(
        """
        losses = [
            logits[row, place - 1].logsumexp(dim=0) - logits[row, place - 1, input_ids[row, place]]
            for row, place in loss_mask.nonzero().tolist()
            if place > 0
        ]
        return torch.stack(losses).mean()
        """,
        why="a loop over the tokens to learn: logsumexp of the logits before it, minus its own",
    )


class TrainSFT(Right, of="train_sft"):
    rate_by_hand = edit(
        ", fused=True",
        "",
        "decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=len(batches))\n",
        "",
        "    optimizer.zero_grad(set_to_none=True)\n",
        "    optimizer.param_groups[0]['lr'] = config.learning_rate * (1 - len(losses) / len(batches))\n"
        "    policy.zero_grad()\n",
        "    decay.step()\n",
        "",
        why="plain AdamW, and its learning rate written out",
    )
    exactly_to_the_norm = edit(
        "    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)\n",
        "    slopes = [weight.grad for weight in policy.parameters() if weight.grad is not None]\n"
        "    norm = sum(slope.square().sum() for slope in slopes).sqrt()\n"
        "    if norm > 1:\n"
        "        for slope in slopes:\n"
        "            slope.div_(norm)\n",
        why="gradients scaled to exactly the norm 1, where torch adds 1e-6",
    )
    adam_without_decay = edit(
        "AdamW(policy.parameters(), lr=config.learning_rate, weight_decay=0.0, fused=True)",
        "Adam(policy.parameters(), lr=config.learning_rate)",
        "batches = order.split(config.batch_size)",
        "batches = [order[i : i + config.batch_size] for i in range(0, len(order), config.batch_size)]",
        "LinearLR(optimizer, 1.0, 0.0, total_iters=len(batches))",
        "LambdaLR(optimizer, lambda step: 1 - step / len(batches))",
        why="without weight decay AdamW is Adam",
    )


class EvaluatePolicy(Right, of="evaluate_policy"):
    response_by_response = edit(
        "texts = [tokenizer",
        "nats = [float(one[real].sum()) for one, real in zip(kl, mask, strict=True)]\n"
        "scores = score(sequences, visible, input_ids.shape[1]).tolist()\n"
        "texts = [tokenizer",
        "stopped = is_stop(responses, config.stop_token_ids).any(dim=1).tolist()",
        "stopped = [any(token in config.stop_token_ids for token in row) for row in responses.tolist()]",
        "score(sequences, visible, input_ids.shape[1]).mean().item()",
        "sum(scores) / len(scores)",
        "kl.masked_fill(~mask, 0.0).sum(dim=1).mean().item()",
        "sum(nats) / len(nats)",
        why="numbers of single responses, averaged in Python",
    )
    whole_pass_with_modes_by_hand = edit(
        "with evaluation_mode(reference):\n"
        "    ref_logits = response_logits(reference, sequences, visible, input_ids.shape[1])\n"
        "kl = estimate_kl(log_probs, gather_log_probs(ref_logits, responses, config.temperature))\n",
        "modes = [(part, part.training) for part in reference.modules()]\n"
        "reference.eval()\n"
        "positions = (visible.long().cumsum(dim=1) - 1).clamp(min=0)\n"
        "output = reference(input_ids=sequences, attention_mask=visible, position_ids=positions)\n"
        "for part, mode in modes:\n"
        "    part.training = mode\n"
        "log_softmax = (output.logits[:, input_ids.shape[1] - 1 : -1] / config.temperature).log_softmax(dim=-1)\n"
        "kl = log_probs - log_softmax.gather(2, responses.unsqueeze(2)).squeeze(2)\n",
        why="the reference reads the whole text, and k1 is a difference",
    )


class TrainPolicy(Right, of="train_policy"):
    copies_part_by_part = edit(
        "copy.deepcopy(sft.policy).requires_grad_(True), critic_from_reward_model(reward.reward_model)\n",
        "policy, critic\n",
        "model = PolicyAndValue",
        "policy, reference = copy.deepcopy(sft.policy), copy.deepcopy(sft.policy)\n"
        "policy.requires_grad_(True).train()\n"
        "reference.requires_grad_(False).eval()\n"
        "critic = critic_from_reward_model(reward.reward_model)\n"
        "model = PolicyAndValue",
        "make_reference(sft.policy)",
        "reference",
        why="policy, reference and critic are made first, by hand",
    )
    reward_model_frozen_first = edit(
        "trainer = PPOTrainer(model, reward.reward_model, make_reference(sft.policy), config, tokenizer)",
        "scorer = reward.reward_model.requires_grad_(False).eval()\n"
        "trainer = PPOTrainer(model, scorer, make_reference(sft.policy), config, tokenizer)",
        "trainer.train(prompts, on_update)",
        "trainer.train(list(prompts), lambda one: on_update(one) if on_update else None)",
        "PPOResult(trainer.policy, trainer)",
        "PPOResult(policy=model.policy, trainer=trainer)",
        why="the reward model is frozen by the stage itself, and the callback wrapped",
    )
