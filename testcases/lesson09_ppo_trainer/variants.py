"""Other right ways to write lesson 9, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, edit, instead


class RightGenerateResponses(Right, of="PPOTrainer.generate_responses"):
    every_option_by_its_name = edit(
        "generate if self.sampler is None else self.sampler => self.sampler or generate",
        "options = {**sampling_options(self.config) => "
        "config = self.config\n"
        "options = {\n"
        '    "max_new_tokens": config.max_new_tokens,\n'
        '    "stop_token_ids": config.stop_token_ids,\n'
        '    "pad_token_id": config.pad_token_id,\n'
        '    "temperature": config.temperature',
    )
    """the options are written out"""
    one_chunk_not_merged = edit(
        "    parts = =>     policy = self.accelerator.unwrap_model(self.model).policy\n    parts =",
        "sample(self.policy, => sample(policy,",
        "return => if len(parts) == 1:\n    return parts[0]\nreturn",
    )
    """the policy is taken from the unwrapped model, and what comes at once needs no merging"""


class RightComputeRewards(Right, of="PPOTrainer.compute_rewards"):
    whitened_by_hand = edit(
        "return replace(experience, rewards=masked_whiten(experience.rewards, experience.mask, shift_mean=False)) => "
        "real = experience.rewards[experience.mask]\n"
        "variance = real.var() if len(real) > 1 else torch.zeros(())\n"
        "white = (real - real.mean()) / (variance + 1e-8).sqrt() + real.mean()\n"
        "rewards = torch.zeros_like(experience.rewards)\n"
        "return replace(experience, rewards=rewards.masked_scatter(experience.mask, white))"
    )
    """the whitening is written out"""
    with_its_own_advantages = edit(
        "prompts=chunk => prompts=prompts[rows]",
        "return replace(experience, rewards=masked_whiten(experience.rewards, experience.mask, shift_mean=False)) => "
        "rewards, mask = masked_whiten(experience.rewards, experience.mask, False), experience.mask\n"
        "made = compute_response_gae(rewards, experience.values, mask, self.config.gamma, self.config.lam)\n"
        "return replace(experience, rewards=rewards, advantages=made[0], returns=made[1])",
    )
    """the rows as they came, and advantages and returns of the whitened rewards, which training_step makes again"""


class RightComputeLoss(Right, of="PPOTrainer.compute_loss"):
    log_softmax_by_hand = edit(
        "log_probs = gather_log_probs(outputs.logits, batch.responses, config.temperature) => "
        "all_log_probs = torch.log_softmax(outputs.logits / config.temperature, dim=-1)\n"
        "log_probs = all_log_probs.gather(-1, batch.responses.unsqueeze(-1)).squeeze(-1)",
        "with torch.set_grad_enabled(config.entropy_coef > 0):\n => ",
        "    entropy = masked_mean(token_entropy(outputs.logits, config.temperature), batch.mask) => "
        "entropy = -(all_log_probs.exp() * all_log_probs).sum(dim=-1)[batch.mask].mean()",
        "loss = combine_losses(policy_loss, value_loss, entropy, config.value_coef, config.entropy_coef) => "
        "loss = policy_loss + config.value_coef * value_loss - config.entropy_coef * entropy",
    )
    """one log-softmax for log-probs and entropy, and the sum written out"""


class RightOptimizerStep(Right, of="PPOTrainer.optimizer_step"):
    clipped_by_hand = edit(
        "float(self.accelerator.clip_grad_norm_(self._parameters, self.config.max_grad_norm)) => "
        "sum(float(one.grad.square().sum()) for one in self._parameters if one.grad is not None) ** 0.5\n"
        "    for one in self._parameters:\n"
        "        if one.grad is not None:\n"
        "            one.grad.mul_(min(1.0, self.config.max_grad_norm / max(grad_norm, 1e-12)))"
    )
    """scaled to exactly the norm; torch adds 1e-6"""
    sums_divided_at_the_end = edit(
        "backward(loss * weights[-1]) => backward(loss * int(microbatch.mask.sum()))",
        "merged = _weighted => "
        "for parameter in self.model.parameters():\n"
        "    if parameter.grad is not None:\n"
        "        parameter.grad /= tokens\n"
        "merged = _weighted",
        "float(self.accelerator.clip_grad_norm_(self._parameters, self.config.max_grad_norm)) => "
        "torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm).item()",
    )
    """gradients of sums, divided by all tokens once"""


class RightTrainingStep(Right, of="PPOTrainer.training_step"):
    means_written_out = edit(
        "metrics |= _merge(self.steps) => "
        "steps = self.steps\n"
        "metrics |= {name: torch.tensor([step[name] for step in steps]).mean().item() for name in steps[0]}\n"
        'metrics["ratio_max"] = max(step["ratio_max"] for step in steps)\n'
        'metrics["first_ratio_max"] = steps[0]["ratio_max"]\n'
        'metrics["optimizer_steps"] = len(steps)'
    )
    """the means written out, in torch's default dtype"""
    while_loop_with_a_flag = edit(
        "self._set_learning_rate()\nself.steps = []\n => ",
        "buffer = => self._set_learning_rate()\nbuffer =",
        "epochs = (buffer.minibatches(self.minibatch_size, self.shuffling) for _ in range(config.num_epochs))\n => "
        "self.steps, epoch, is_far = [], 0, False\n"
        'limit = float("inf") if config.max_update_kl is None else config.max_update_kl\n'
        "while epoch < config.num_epochs and not is_far:\n",
        "for minibatch in chain.from_iterable(epochs):\n"
        "    self.steps.append(self.optimizer_step(minibatch))\n"
        '    if config.max_update_kl is not None and self.steps[-1]["approx_kl"] > config.max_update_kl:\n'
        "        break\n => "
        "    for minibatch in buffer.minibatches(self.minibatch_size, generator=self.shuffling):\n"
        "        self.steps += [self.optimizer_step(minibatch)]\n"
        '        is_far = self.steps[-1]["approx_kl"] > limit\n'
        "        if is_far:\n"
        "            break\n"
        "    epoch += 1\n",
    )
    """a while loop with a flag, and the rate set earlier"""


class RightTrain(Right, of="PPOTrainer.train"):
    while_updates_are_left = instead("""
        with RunLog(self.config.log_dir, self.history) as log:
            while self.updates_done < self.config.num_updates:
                batch = [prompts[i] for i in self.prompt_queue.take(self.config.batch_size, available=len(prompts))]
                metrics = self.training_step(batch)
                self.history += [metrics]
                log.write(update=self.updates_done, metrics=metrics)
                if on_update:
                    on_update(self)
        return self.history
    """)
    """no range and no progress bar"""
    counted_by_the_loop = edit(
        "for _ in progress => for number in progress",
        "log.write(self.updates_done => log.write(number + 1",
        "return self.history => return list(self.history)",
    )
    """the number of the update comes from the loop, and the answer is a copy"""


class RightSaveCheckpoint(Right, of="PPOTrainer.save_checkpoint"):
    through_a_temporary_file = instead("""
        import tempfile

        Path(directory).mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
            torch.save(obj=self._state(), f=file)
        Path(file.name).replace(Path(directory) / CHECKPOINT_FILE)
    """)
    """a temporary file in the same folder, renamed by pathlib"""
    serialized_in_memory = edit(
        "torch.save(self._state(), unfinished) => "
        "import io\n\ncontent = io.BytesIO()\ntorch.save(self._state(), content)\n"
        "unfinished.write_bytes(content.getvalue())",
        "os.replace(unfinished, directory / CHECKPOINT_FILE) => unfinished.rename(directory / CHECKPOINT_FILE)",
    )
    """bytes first, then one write"""


class RightLoadCheckpoint(Right, of="PPOTrainer.load_checkpoint"):
    models_checked_by_torch = edit(
        'self.accelerator.unwrap_model(self.model).load_state_dict(state["model"], strict=False)\n => ',
        "self.optimizer.load => "
        "try:\n"
        '    self.accelerator.unwrap_model(self.model).load_state_dict(state["model"], strict=True)\n'
        "except RuntimeError as error:\n"
        '    raise ValueError(f"expected the same models, got others: {error}") from None\n'
        "self.optimizer.load",
        'state["prompts_waiting"] => list(state["prompts_waiting"])',
    )
    """torch compares names and shapes; what is restored is a copy"""
    shapes_checked_first = edit(
        'self.accelerator.unwrap_model(self.model).load_state_dict(state["model"], strict=False)\n => '
        "own = self.accelerator.unwrap_model(self.model).state_dict()\n"
        'saved = state["model"]\n'
        "if own.keys() != saved.keys() or any(own[name].shape != saved[name].shape for name in own):\n"
        '    raise ValueError("expected a checkpoint of the same models, got weights of another shape")\n'
        "with torch.no_grad():\n"
        "    for name, weight in own.items():\n"
        "        weight.copy_(saved[name])\n"
    )
    """names and shapes are compared before anything is copied"""


class PublishedComputeLoss(Published, of="PPOTrainer.compute_loss"):
    trl = instead("""
        config, mask = self.config, batch.mask

        def masked(numbers):
            return (numbers * mask).sum() / mask.sum()

        outputs = self.model(batch.input_ids, batch.attention_mask, batch.prompt_length)
        logits, values = outputs.logits / config.temperature, outputs.values
        log_probs = logits.log_softmax(dim=-1).gather(2, batch.responses.unsqueeze(2)).squeeze(2)
        ratio = torch.exp(log_probs - batch.log_probs)
        clipped = torch.clamp(ratio, 1 - config.clip_epsilon, 1 + config.clip_epsilon)
        policy_loss = masked(torch.max(-batch.advantages * ratio, -batch.advantages * clipped))
        width = config.value_clip_epsilon
        near = torch.clamp(values, batch.values - width, batch.values + width)
        value_loss = 0.5 * masked(torch.max((values - batch.returns) ** 2, (near - batch.returns) ** 2))
        entropy = masked(torch.logsumexp(logits, -1) - (logits.softmax(-1) * logits).sum(-1))
        loss = policy_loss + config.value_coef * value_loss - config.entropy_coef * entropy
        return loss, {
            "policy_loss": policy_loss.item(),
            "value_loss": value_loss.item(),
            "entropy": entropy.item(),
            **ppo_statistics(log_probs, batch.log_probs, batch.advantages, config.clip_epsilon, mask),
            **value_statistics(values, batch.values, batch.returns, width, mask),
        }
    """)
    """TRL, ppo_trainer.py, the loss of a minibatch with its masked_mean, all in one place"""
