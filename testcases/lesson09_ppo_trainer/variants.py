"""Other right ways to write lesson 9, and those of published code."""

from testcases.harness.oracle.mutations import Published, Right, edit, instead


class RightGenerateResponses(Right, of="PPOTrainer.generate_responses"):
    chunk_by_chunk = instead("""
        config, parts = self.config, []
        for rows, chunk in self._chunks(prompts):
            input_ids, attention_mask = self._encode(chunk)
            with self.accelerator.autocast():
                answer = (self.sampler or generate)(
                    self.policy,
                    input_ids,
                    attention_mask,
                    max_new_tokens=config.max_new_tokens,
                    stop_token_ids=config.stop_token_ids,
                    pad_token_id=config.pad_token_id,
                    temperature=config.temperature,
                    generator=self.sampling,
                )
            parts.append(answer)
        return parts[0] if len(parts) == 1 else merge_generations(parts, config.pad_token_id)
    """)
    """one loop, with every option by its name"""
    as_a_list = instead("""
        with self.accelerator.autocast():
            if self.sampler is not None:
                sample = self.sampler
            else:
                sample = generate
            answers = list(
                map(
                    lambda chunk: sample(
                        self.accelerator.unwrap_model(self.model).policy,
                        *self._encode(chunk[1]),
                        generator=self.sampling,
                        **sampling_options(self.config),
                    ),
                    self._chunks(prompts),
                )
            )
        return merge_generations(answers, pad_token_id=self.config.pad_token_id)
    """)
    """mapped over the chunks"""


class RightComputeRewards(Right, of="PPOTrainer.compute_rewards"):
    whitened_by_hand = instead("""
        config, parts = replace(self.config, whiten_rewards=False), []
        for rows, chunk in self._chunks(prompts):
            some = sampled = Generation(responses.responses[rows], responses.log_probs[rows], responses.mask[rows])
            with self.accelerator.autocast():
                if config.recompute_log_probs:
                    some = self._recomputed(some, chunk)
                part = evaluate_responses(
                    self.accelerator.unwrap_model(self.model),
                    self.ref_model,
                    lambda *texts, chunk=chunk: self.score(*texts, prompts=chunk),
                    *self._encode(chunk),
                    some,
                    config,
                    self.kl_controller.value,
                )
            parts.append(replace(part, sampler_log_probs=sampled.log_probs))
        found = parts[0] if len(parts) == 1 else merge_experiences(parts)
        if self.config.whiten_rewards:
            real = found.rewards[found.mask]
            variance = real.var() if len(real) > 1 else torch.zeros(())
            white = (real - real.mean()) / (variance + 1e-8).sqrt() + real.mean()
            found = replace(found, rewards=torch.zeros_like(found.rewards).masked_scatter(found.mask, white))
        return found
    """)
    """one chunk is not merged, and the whitening is written out"""
    with_its_own_advantages = instead("""
        self_config = self.config
        with self.accelerator.autocast():
            parts = []
            for rows, chunk in self._chunks(prompts):
                some = Generation(*[tensor[rows] for tensor in responses])
                some = self._recomputed(some, chunk) if self_config.recompute_log_probs else some
                parts.append(
                    evaluate_responses(
                        self.accelerator.unwrap_model(self.model),
                        self.ref_model,
                        partial(self.score, prompts=chunk),
                        *self._encode(chunk),
                        some,
                        replace(self_config, whiten_rewards=False),
                        float(self.kl_controller.value),
                    )
                )
            whole = merge_experiences(parts)
            whole = replace(whole, sampler_log_probs=responses.log_probs)
            if self_config.whiten_rewards:
                rewards = masked_whiten(whole.rewards, whole.mask, False)
                advantages, returns = compute_response_gae(
                    rewards, whole.values, whole.mask, self_config.gamma, self_config.lam
                )
                whole = replace(whole, rewards=rewards, advantages=advantages, returns=returns)
        return whole
    """)
    """advantages and returns of the whitened rewards, which training_step makes again"""


class RightComputeLoss(Right, of="PPOTrainer.compute_loss"):
    log_softmax_by_hand = instead("""
        config = self.config
        logits, values = self.model(batch.input_ids, batch.attention_mask, batch.prompt_length)
        all_log_probs = torch.log_softmax(logits / config.temperature, dim=-1)
        log_probs = all_log_probs.gather(-1, batch.responses.unsqueeze(-1)).squeeze(-1)
        entropy = -(all_log_probs.exp() * all_log_probs).sum(dim=-1)[batch.mask].mean()
        policy_loss = compute_ppo_loss(
            log_probs, batch.log_probs, batch.advantages, clip_epsilon=config.clip_epsilon, mask=batch.mask
        )
        value_loss = compute_value_loss(
            values, batch.values, batch.returns, clip_epsilon=config.value_clip_epsilon, mask=batch.mask
        )
        loss = policy_loss + config.value_coef * value_loss - config.entropy_coef * entropy
        statistics = ppo_statistics(log_probs, batch.log_probs, batch.advantages, config.clip_epsilon, batch.mask)
        statistics["policy_loss"] = policy_loss.item()
        statistics["value_loss"] = value_loss.item()
        statistics["entropy"] = entropy.item()
        critic = value_statistics(values, batch.values, batch.returns, config.value_clip_epsilon, batch.mask)
        return loss, {**critic, **statistics}
    """)
    """one log-softmax for log-probs and entropy"""
    real_tokens_only = instead("""
        config, mask = self.config, batch.mask
        output = self.model(batch.input_ids, batch.attention_mask, batch.prompt_length)
        policy = torch.distributions.Categorical(logits=output.logits[mask] / config.temperature)
        log_probs, entropy = policy.log_prob(batch.responses[mask]), policy.entropy().mean()
        ratio = (log_probs - batch.log_probs[mask]).exp()
        gains = ratio * batch.advantages[mask]
        clipped = ratio.clamp(1 - config.clip_epsilon, 1 + config.clip_epsilon) * batch.advantages[mask]
        policy_loss = -torch.minimum(gains, clipped).mean()
        values, old, returns = output.values[mask], batch.values[mask], batch.returns[mask]
        near = old + (values - old).clamp(-config.value_clip_epsilon, config.value_clip_epsilon)
        value_loss = 0.5 * torch.maximum((values - returns) ** 2, (near - returns) ** 2).mean()
        rows = [part.unsqueeze(0) for part in (log_probs, batch.log_probs[mask], batch.advantages[mask])]
        fraction = value_statistics(values, old, returns, config.value_clip_epsilon)
        return combine_losses(policy_loss, value_loss, entropy, config.value_coef, config.entropy_coef), {
            "policy_loss": float(policy_loss),
            "value_loss": float(value_loss),
            "entropy": float(entropy),
        } | ppo_statistics(*rows, config.clip_epsilon) | fraction
    """)
    """the padding is taken out first, and the losses are written out on one long row"""


class RightOptimizerStep(Right, of="PPOTrainer.optimizer_step"):
    clipped_by_hand = edit(
        "float(self.accelerator.clip_grad_norm_(self._parameters, self.config.max_grad_norm)) => "
        "sum(float(one.grad.square().sum()) for one in self._parameters if one.grad is not None) ** 0.5\n"
        "    for one in self._parameters:\n"
        "        if one.grad is not None:\n"
        "            one.grad.mul_(min(1.0, self.config.max_grad_norm / max(grad_norm, 1e-12)))"
    )
    """scaled to exactly the norm; torch adds 1e-6"""
    sums_divided_at_the_end = instead("""
        tokens, parts, counts = 0, [], []
        self.optimizer.zero_grad()
        for microbatch in self._microbatches(minibatch):
            counts.append(microbatch.mask.sum().item())
            loss, statistics = self.compute_loss(microbatch)
            self.accelerator.backward(loss * counts[-1])
            parts.append(statistics)
        total = sum(counts)
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad /= total
        merged = {name: sum(n * part[name] for n, part in zip(counts, parts)) / total for name in parts[0]}
        merged["ratio_max"] = max(part["ratio_max"] for part in parts)
        merged |= {"grad_norm": 0.0, "skipped_share": 1.0}
        if merged["ratio_mean"] <= self.config.ratio_threshold:
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm)
            self.optimizer.step()
            merged |= {"grad_norm": norm.item(), "skipped_share": 0.0}
        self.optimizer.zero_grad()
        return merged
    """)
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
    rolled_out_by_hand = instead("""
        limit = float("inf") if self.config.max_update_kl is None else self.config.max_update_kl
        generation = self.generate_responses(batch)
        whole = self.compute_rewards(generation, batch)
        mask, gamma = whole.mask, self.config.gamma
        critic_lam = self.config.lam if self.config.critic_lam is None else self.config.critic_lam
        advantages = compute_response_gae(whole.rewards, whole.values, mask, gamma, self.config.lam)[0]
        returns = compute_response_gae(whole.rewards, whole.values, mask, gamma, critic_lam)[1]
        rollout = self._rollout_metrics(replace(whole, advantages=advantages, returns=returns))
        if self.config.whiten_advantages:
            real = advantages[mask]
            white = (real - real.mean()) / ((real.var() if len(real) > 1 else 1.0) + 1e-8) ** 0.5
            advantages = torch.zeros_like(advantages).masked_scatter(mask, white)
        self._set_learning_rate()
        buffer = ExperienceBuffer()
        buffer.append(replace(whole, advantages=advantages, returns=returns))
        self.steps, epoch, is_far = [], 0, False
        while epoch < self.config.num_epochs and not is_far:
            for minibatch in buffer.minibatches(self.minibatch_size, generator=self.shuffling):
                self.steps += [self.optimizer_step(minibatch)]
                is_far = self.steps[-1]["approx_kl"] > limit
                if is_far:
                    break
            epoch += 1
        self.updates_done = self.updates_done + 1
        self.kl_controller.update(rollout["kl"], whole.responses.shape[0])
        return {**rollout, **_merge(self.steps)}
    """)
    """a while loop with a flag, the whitening written out, the rate set earlier, kl_coef changed at the end"""


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
    in_two_functions = instead("""
        def update():
            rows = self.prompt_queue.take(self.config.batch_size, len(prompts))
            self.history.append(self.training_step([prompts[row] for row in rows]))

        with RunLog(self.config.log_dir, list(self.history)) as log:
            for number in range(self.updates_done + 1, self.config.num_updates + 1):
                update()
                log.write(number, self.history[-1])
                if on_update is not None:
                    on_update(self)
        return self.history
    """)
    """the number of the update comes from the loop"""


class RightSaveCheckpoint(Right, of="PPOTrainer.save_checkpoint"):
    through_a_temporary_file = instead("""
        import tempfile

        Path(directory).mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
            torch.save(obj=self._state(), f=file)
        Path(file.name).replace(Path(directory) / CHECKPOINT_FILE)
    """)
    """a temporary file in the same folder, renamed by pathlib"""
    serialized_in_memory = instead("""
        import io

        os.makedirs(directory, exist_ok=True)
        target = os.path.join(directory, CHECKPOINT_FILE)
        content = io.BytesIO()
        torch.save(self._state(), content)
        with open(target + ".tmp", "wb") as file:
            file.write(content.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.rename(target + ".tmp", target)
    """)
    """bytes first, and on the disk before the old file goes"""


class RightLoadCheckpoint(Right, of="PPOTrainer.load_checkpoint"):
    the_other_way_round = instead("""
        model = self.accelerator.unwrap_model(self.model)
        try:
            model.load_state_dict(state["model"], strict=True)
        except RuntimeError as error:
            raise ValueError(f"expected the same models, got weights of another shape or name: {error}") from None
        for name, generator in self._generators().items():
            generator.set_state(state["generators"][name])
        self.history = list(state["history"])
        self.updates_done = int(state["updates_done"])
        self.prompt_queue.waiting = list(state["prompts_waiting"])
        self.kl_controller.value = float(state["kl_coef"])
        self.optimizer.load_state_dict(state["optimizer"])
    """)
    """models first, all else in another order, as copies"""
    shapes_checked_first = instead("""
        own = self.accelerator.unwrap_model(self.model).state_dict()
        saved = state["model"]
        if own.keys() != saved.keys() or any(own[name].shape != saved[name].shape for name in own):
            raise ValueError("expected a checkpoint of the same models, got weights of another shape")
        with torch.no_grad():
            for name, weight in own.items():
                weight.copy_(saved[name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.kl_controller.value, self.prompt_queue.waiting = state["kl_coef"], state["prompts_waiting"]
        self.updates_done, self.history = state["updates_done"], state["history"]
        generators = self._generators()
        for name in state["generators"].keys() & generators.keys():
            generators[name].set_state(state["generators"][name])
    """)
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
