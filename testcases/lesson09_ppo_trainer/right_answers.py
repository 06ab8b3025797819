"""Other right answers, written as people write them. Both suites accept each."""

from __future__ import annotations

from testcases.engine import Right, edit, instead


class GenerateResponses(Right, of="PPOTrainer.generate_responses"):
    every_argument_by_name = instead(
        """
        input_ids, attention_mask = self._encode(prompts)
        return generate(
            policy=self.policy,
            input_ids=input_ids,
            attention_mask=attention_mask,
            max_new_tokens=self.config.max_new_tokens,
            stop_token_ids=self.config.stop_token_ids,
            pad_token_id=self.config.pad_token_id,
            temperature=self.config.temperature,
            top_k=0,
            top_p=1.0,
            generator=self.sampling,
        )
        """,
        why="all settings are written out",
    )
    unwrapped_by_hand = instead(
        """
        model = self.accelerator.unwrap_model(self.model)
        ids, visible = self._encode(list(prompts))
        with torch.no_grad(), self.accelerator.autocast():
            responses, log_probs, mask = generate(
                model.policy, ids, visible, **self.config.sampling(), generator=self.sampling
            )
        return Generation(responses=responses, log_probs=log_probs, mask=mask)
        """,
        why="what self.policy does, and the contexts that generate needs no more",
    )


class ComputeRewards(Right, of="PPOTrainer.compute_rewards"):
    evaluated_by_hand = instead(
        """
        input_ids, attention_mask = self._encode(prompts)
        model = self.accelerator.unwrap_model(self.model)
        experience = evaluate_responses(
            model, self.ref_model, self.score, input_ids, attention_mask, responses, self.config,
            kl_coef=self.kl_controller.value,
        )
        return experience.rewards.detach()
        """,
        why="lesson 8's function with all that the trainer has",
    )
    from_log_probs_and_scores = instead(
        """
        from ..lesson06_kl_rewards import compute_rewards, penalize_missing_stop

        config, evaluated = self.config, self._evaluate(responses, prompts)
        scores = penalize_missing_stop(
            evaluated.scores, responses.responses, config.stop_token_ids, config.missing_stop_penalty
        )
        rewards = compute_rewards(
            scores, responses.log_probs, evaluated.ref_log_probs, responses.mask, self.kl_controller.value,
            config.clip_score, config.kl_estimator,
        )
        return masked_whiten(rewards, responses.mask, shift_mean=False) if config.whiten_rewards else rewards
        """,
        why="lesson 6's blocks on what reference and reward model said",
    )


class ComputeLoss(Right, of="PPOTrainer.compute_loss"):
    log_softmax_by_hand = instead(
        """
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
        return loss, statistics
        """,
        why="one log-softmax for log-probs and entropy",
    )
    real_tokens_only = instead(
        """
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
        return combine_losses(policy_loss, value_loss, entropy, config.value_coef, config.entropy_coef), {
            "policy_loss": float(policy_loss),
            "value_loss": float(value_loss),
            "entropy": float(entropy),
        } | ppo_statistics(*rows, config.clip_epsilon)
        """,
        why="the padding is taken out first, and the losses are written out on one long row",
    )


class OptimiserStep(Right, of="PPOTrainer.optimiser_step"):
    clipped_by_hand = edit(
        "float(self.accelerator.clip_grad_norm_(self._parameters, self.config.max_grad_norm))",
        "sum(float(one.grad.square().sum()) for one in self._parameters if one.grad is not None) ** 0.5\n"
        "    for one in self._parameters:\n"
        "        if one.grad is not None:\n"
        "            one.grad.mul_(min(1.0, self.config.max_grad_norm / max(grad_norm, 1e-12)))",
        why="scaled to exactly the norm; torch adds 1e-6",
    )
    sums_divided_at_the_end = instead(
        """
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
        """,
        why="gradients of sums, divided by all tokens once",
    )


class Optimise(Right, of="PPOTrainer.optimise"):
    as_one_stream = instead(
        """
        config, steps = self.config, []
        stream = (
            minibatch
            for _ in range(config.num_epochs)
            for minibatch in buffer.minibatches(config.minibatch_size, self.shuffling)
        )
        for minibatch in stream:
            steps.append(self.optimiser_step(minibatch))
            if config.max_update_kl is not None and steps[-1]["approx_kl"] > config.max_update_kl:
                break
        return _merge(steps)
        """,
        why="the epochs are chained, so that one break is enough",
    )
    with_a_flag = instead(
        """
        limit = float("inf") if self.config.max_update_kl is None else self.config.max_update_kl
        steps, epoch, is_far = [], 0, False
        while epoch < self.config.num_epochs and not is_far:
            for minibatch in buffer.minibatches(self.config.minibatch_size, generator=self.shuffling):
                step = self.optimiser_step(minibatch)
                steps.append(step)
                is_far = step["approx_kl"] > limit
                if is_far:
                    break
            epoch += 1
        means = {name: sum(step[name] for step in steps) / len(steps) for name in steps[0]}
        means["ratio_max"] = max(step["ratio_max"] for step in steps)
        means["first_ratio_max"] = steps[0]["ratio_max"]
        means["optimiser_steps"] = len(steps)
        return means
        """,
        why="a while loop with a flag, and the means written out",
    )


class TrainingStep(Right, of="PPOTrainer.training_step"):
    epochs_written_out = edit(
        "metrics |= self.optimise(buffer)",
        "steps = []\n"
        "for _ in range(self.config.num_epochs):\n"
        "    for minibatch in buffer.minibatches(self.config.minibatch_size, self.shuffling):\n"
        "        steps.append(self.optimiser_step(minibatch))\n"
        "        if self.config.max_update_kl is not None and steps[-1]['approx_kl'] > self.config.max_update_kl:\n"
        "            break\n"
        "    else:\n"
        "        continue\n"
        "    break\n"
        "metrics |= _merge(steps)",
        why="`optimise` is not called: its loops stand here",
    )
    rolled_out_by_hand = instead(
        """
        with self.accelerator.autocast():
            responses = self.generate_responses(batch)
        experience = self._evaluate(responses, batch)
        rollout = self._rollout_metrics(experience)
        advantages, mask = experience.advantages, experience.mask
        if self.config.whiten_advantages:
            real = advantages[mask]
            white = (real - real.mean()) / (real.var() + 1e-8).sqrt()
            advantages = torch.zeros_like(advantages).masked_scatter(mask, white)
        self._set_learning_rate()
        buffer = ExperienceBuffer()
        buffer.append(replace(experience, advantages=advantages))
        metrics = {**rollout, **self.optimise(buffer)}
        buffer.clear()
        self.updates_done = self.updates_done + 1
        self.kl_controller.update(rollout["kl"], experience.responses.shape[0])
        return metrics
        """,
        why="the given rollout and the whitening written out, the rate set earlier, kl_coef changed at the end",
    )


class Train(Right, of="PPOTrainer.train"):
    while_updates_are_left = instead(
        """
        with RunLog(self.config.log_dir, self.history) as log:
            while self.updates_done < self.config.num_updates:
                batch = [prompts[i] for i in self.prompt_queue.take(self.config.batch_size, available=len(prompts))]
                metrics = self.training_step(batch)
                self.history += [metrics]
                log.write(update=self.updates_done, metrics=metrics)
                if on_update:
                    on_update(self)
        return self.history
        """,
        why="no range and no progress bar",
    )
    in_two_functions = instead(
        """
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
        """,
        why="the number of the update comes from the loop",
    )


class SaveCheckpoint(Right, of="PPOTrainer.save_checkpoint"):
    through_a_temporary_file = instead(
        """
        import tempfile

        Path(directory).mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
            torch.save(self._state(), file)
        Path(file.name).replace(Path(directory) / CHECKPOINT_FILE)
        """,
        why="a temporary file in the same folder, renamed by pathlib",
    )
    serialised_in_memory = instead(
        """
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
        """,
        why="bytes first, and on the disk before the old file goes",
    )


class LoadCheckpoint(Right, of="PPOTrainer.load_checkpoint"):
    the_other_way_round = instead(
        """
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
        """,
        why="models first, all else in another order, as copies",
    )
    shapes_checked_first = instead(
        """
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
        """,
        why="names and shapes are compared before anything is copied",
    )
