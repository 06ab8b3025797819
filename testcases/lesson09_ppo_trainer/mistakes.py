"""Mistakes in lesson 9, as changes of the reference."""

from testcases.harness.oracle.mutations import Wrong, edit, first


class GenerateResponses(Wrong, of="PPOTrainer.generate_responses"):
    sampler_ignored = edit("generate if self.sampler is None else self.sampler => generate")
    """self.sampler is never asked, but where the user gave one, it samples instead of generate"""
    sampled_with_the_global_generator = edit('"generator": self.sampling => "generator": None')
    """the responses come from torch's global generator, but only with self.sampling can a run be repeated, and
    resumed"""
    sampled_at_temperature_1 = edit('"generator": self.sampling => "generator": self.sampling, "temperature": 1.0')
    """you sample at temperature 1, but the responses and their log-probs should be those of config.temperature"""
    new_generator_in_every_call = edit(
        "self.sampling} => torch.Generator(self.accelerator.device).manual_seed(self.config.seed)}"
    )
    """there is a new generator in every call, so the same prompts always get the same responses; draw from
    self.sampling"""
    all_rows_at_once = edit("self._chunks(prompts) => [(None, tokenize(prompts, self.tokenizer))]")
    """all prompts are sampled at once, but micro_rollout_batch_size limits how many, and so the memory"""
    last_chunk_first = edit("merge_generations(parts => merge_generations(parts[::-1]")
    """the chunks are merged in another order, but row i of the responses answers prompt i"""
    not_in_autocast = edit("with self.accelerator.autocast():\n    parts => parts")
    """you sample outside of autocast, so with mixed precision the ratio of the first step wouldn't be 1"""
    in_evaluation_mode_for_good = first("self.model.eval()")
    """self.model.eval() comes before sampling, and nobody switches back; generate does both itself"""


class ComputeRewards(Wrong, of="PPOTrainer.compute_rewards"):
    initial_kl_coef = edit("self.kl_controller.value => self.config.kl_coef")
    """the coefficient is always config.kl_coef, where it starts; self.kl_controller.value is what it is now"""
    every_chunk_whitened_alone = edit(
        "self._unwhitened => self.config",
        "if not self.config.whiten_rewards:\n"
        "    return experience\n"
        "return replace(experience, rewards=masked_whiten(experience.rewards, experience.mask, shift_mean=False)) => "
        "return experience",
    )
    """each chunk is whitened by itself, but you should whiten once, over all rows of the rollout"""
    rewards_not_whitened = edit("not self.config.whiten_rewards => True")
    """config.whiten_rewards has no effect, but it asks for rewards of variance 1"""
    whitened_to_mean_0 = edit(", shift_mean=False)) => ))")
    """the rewards are centered too, but whitened rewards keep their mean, or a bad text would be paid like a good
    one"""
    log_probs_never_recomputed = edit("self.config.recompute_log_probs => False")
    """config.recompute_log_probs has no effect, so the sampler's log-probs stand for those of the policy"""
    columns_of_other_rows = edit("prompts=chunk) => prompts=self._chunks(prompts)[0][1])")
    """every chunk is scored with the prompts of the first one, but a reward function needs those of its own rows"""
    all_rows_read_at_once = edit("self._chunks(prompts) => [(slice(None), tokenize(prompts, self.tokenizer))]")
    """all rows are evaluated at once, but micro_rollout_batch_size limits how many, and so the memory"""
    policy_as_its_own_reference = edit("model, self.ref_model, score => model, self.policy, score")
    """the KL is measured against the policy itself, so it's 0 for ever; the reference is self.ref_model"""
    read_without_autocast = edit("with self.accelerator.autocast():\n => with torch.enable_grad():\n")
    """you evaluate outside of autocast, so with mixed precision the recomputed log-probs would be other numbers"""
    sampler_forgotten = edit("replace(part, sampler_log_probs=sampled.log_probs) => part")
    """the sampler's log-probs are lost where they are recomputed, but the experience keeps them as sampler_log_probs"""


class ComputeLoss(Wrong, of="PPOTrainer.compute_loss"):
    ratio_to_the_reference_model = first("batch = replace(batch, log_probs=batch.ref_log_probs)")
    """the ratio is taken against the reference model; it belongs to batch.log_probs, the policy that sampled"""
    ratio_to_the_samplers_own_log_probs = first("batch = replace(batch, log_probs=batch.sampler_log_probs)")
    """the ratio is taken against the sampler's own numbers, but batch.log_probs are those that were recomputed"""
    old_values_from_the_returns = first("batch = replace(batch, values=batch.returns - batch.advantages)")
    """the old values are taken as returns - advantages, but those advantages are whitened; batch.values has them"""
    old_log_probs_of_the_present_policy = edit(
        "with torch => batch = replace(batch, log_probs=log_probs.detach())\nwith torch"
    )
    """the old log-probs are computed from the present policy, so the ratio is 1 for ever, and nothing is clipped"""
    loss_at_temperature_1 = edit("config = self.config => config = replace(self.config, temperature=1.0)")
    """the temperature is forgotten, so these log-probs aren't of the distribution that sampled, and the ratio isn't 1
    at first"""
    entropy_at_temperature_1 = edit("outputs.logits, config.temperature => outputs.logits")
    """the entropy is that at temperature 1; it is the sampling policy's, so its logits are divided as well"""
    loss_of_the_unwrapped_model = edit("self.model( => self.accelerator.unwrap_model(self.model)(")
    """the unwrapped model is called, but on several processes the wrapper averages the gradients; call self.model"""
    advantages_from_the_present_critic = edit(
        "log_probs = gather => "
        "batch = replace(batch, advantages=(batch.returns - outputs.values).detach())\n"
        "log_probs = gather"
    )
    """the advantages are made from the present critic, but they are fixed when the rollout ends, and should stay so"""
    whitened_in_every_batch = first("batch = replace(batch, advantages=masked_whiten(batch.advantages, batch.mask))")
    """the advantages of each batch are whitened, but training_step does that once, over the whole rollout"""
    padding_in_the_policy_loss = edit("config.clip_epsilon, batch.mask => config.clip_epsilon, batch.mask | True")
    """padding is counted in the policy's mean; pass batch.mask, so that only real tokens count"""
    zero_advantages_taken_for_padding = first("batch = replace(batch, mask=batch.mask & (batch.advantages != 0))")
    """an advantage of 0 is taken for padding, but such a token is real, and counts in every mean; use batch.mask
    alone"""
    loss_in_evaluation_mode = first("self.model.eval()")
    """self.model.eval() stands in a training pass, but dropout is 0 already, and gradient checkpointing needs training
    mode"""
    critic_towards_the_rewards = edit("batch.returns => batch.rewards")
    """the critic is trained towards the rewards of single tokens; its targets are batch.returns"""
    one_epsilon_for_both = edit("config.value_clip_epsilon => config.clip_epsilon")
    """clip_epsilon clips the critic too, but values have their own unit, and their own value_clip_epsilon"""
    entropy_of_the_padding = edit(
        "masked_mean(token_entropy(outputs.logits, config.temperature), batch.mask) => "
        "token_entropy(outputs.logits, config.temperature).mean()"
    )
    """the entropy is averaged over padding as well; it is a mean over real tokens like the losses"""
    entropy_negated_twice = edit("entropy = masked_mean => entropy = -masked_mean")
    """you negate the entropy before combine_losses, which already subtracts it"""
    weights_of_the_config_ignored = edit(", config.value_coef, config.entropy_coef => ")
    """the weights are the defaults of combine_losses; pass config.value_coef and config.entropy_coef"""


class OptimizerStep(Wrong, of="PPOTrainer.optimizer_step"):
    mean_of_microbatch_means = edit("loss * weights[-1] => loss / len(self._microbatches(minibatch))")
    """each microbatch counts the same, but with ragged rows its weight should be its share of the minibatch's real
    tokens"""
    microbatches_summed = edit("loss * weights[-1] => loss")
    """the microbatches' losses are summed without weights, so twice as many microbatches give twice the gradient"""
    weighted_by_rows = edit("int(microbatch.mask.sum()) / tokens => len(microbatch) / len(minibatch)")
    """a microbatch is weighted by its share of the rows, but the losses are means over tokens; count tokens"""
    only_the_last_microbatch_learns = edit(
        "    loss, statistics =>     self.optimizer.zero_grad()\n    loss, statistics"
    )
    """the gradients are zeroed before each microbatch, so only the last one is left when the step is taken"""
    one_step_for_each_microbatch = first(
        "pieces = self._microbatches(minibatch)\n"
        "if len(pieces) > 1:\n"
        "    shares = [int(piece.mask.sum()) / int(minibatch.mask.sum()) for piece in pieces]\n"
        "    return _weighted([self.optimizer_step(piece) for piece in pieces], shares)"
    )
    """a step is taken after every microbatch, but microbatches are parts of one minibatch, and of one step"""
    gradients_pile_up = edit("self.optimizer.zero_grad(set_to_none=True)\n => ")
    """the gradients are never forgotten, so the next step takes those of this one as well"""
    a_skipped_spike_is_kept = edit("self.optimizer.zero_grad => is_spike or self.optimizer.zero_grad")
    """a skipped step keeps its gradients, so the next step takes the spike after all; forget them in both cases"""
    gradients_not_clipped = edit('self.config.max_grad_norm => float("inf")')
    """the norm is measured but nothing is clipped, so config.max_grad_norm has no effect"""
    only_the_actor_is_clipped = edit("self._parameters => self.policy.parameters()")
    """only the actor's gradients are clipped; the norm is that of all trained weights together"""
    norm_after_clipping = edit(
        "    self.optimizer.step => "
        '    grad_norm = float(self.accelerator.clip_grad_norm_(self._parameters, float("inf")))\n'
        "    self.optimizer.step"
    )
    """grad_norm is measured after clipping, where it can't show a spike; report the norm before"""
    spikes_are_learned = edit('not merged["ratio_mean"] <= self.config.ratio_threshold => False')
    """there is no ratio guard, but a minibatch whose mean ratio is above config.ratio_threshold must be skipped"""
    nan_passes_the_guard = edit('not merged["ratio_mean"] <= => merged["ratio_mean"] >')
    """ratio_mean > threshold is False for NaN, so a broken minibatch is learned; ask for `not ratio <= threshold`"""
    guard_on_the_largest_ratio = edit('not merged["ratio_mean"] => not merged["ratio_max"]')
    """the guard looks at the largest ratio, so one rare token stops the whole minibatch; it should look at the mean"""
    guard_on_each_microbatch = edit(
        'merged["ratio_mean"] <= self.config.ratio_threshold => '
        'all(part["ratio_mean"] <= self.config.ratio_threshold for part in parts)'
    )
    """the guard looks at each microbatch, so it depends on micro_batch_size; ask the mean ratio of the minibatch"""
    guard_on_the_last_microbatch = edit('not merged["ratio_mean"] => not statistics["ratio_mean"]')
    """the guard sees the last microbatch only, so a spike in an earlier one is learned; ask the merged ratio_mean"""
    statistics_of_the_last_microbatch = edit("merged = _weighted(parts, weights) => merged = statistics")
    """each microbatch overwrites the statistics; report token-weighted means over all of them"""
    largest_ratio_averaged = edit(
        'is_spike = => merged["ratio_max"] = sum(w * part["ratio_max"] for w, part in zip(weights, parts))\nis_spike ='
    )
    """ratio_max is averaged over the microbatches, but the largest ratio of the minibatch is the largest of theirs"""
    the_critic_stands_still = edit(
        "    self.optimizer.step => "
        "    self.accelerator.unwrap_model(self.model).value_model.zero_grad()\n"
        "    self.optimizer.step"
    )
    """the critic's gradients are thrown away, but one step should move actor and critic"""


class TrainingStep(Wrong, of="PPOTrainer.training_step"):
    returns_from_whitened_advantages = edit(
        "masked_whiten(advantages, mask))\n => "
        "masked_whiten(advantages, mask))\n"
        "    returns = (experience.advantages + values).masked_fill(~mask, 0.0)\n"
        "    experience = replace(experience, returns=returns)\n"
    )
    """returns are made again from whitened advantages, so the critic's targets have the wrong scale"""
    advantages_not_whitened = edit("config.whiten_advantages => False")
    """the advantages are never whitened; config.whiten_advantages asks for it"""
    whitened_over_padding = edit(
        "masked_whiten(advantages, mask) => "
        "((advantages - advantages.mean()) / (advantages.std() + 1e-8)).masked_fill(~mask, 0.0)"
    )
    """the padding takes part in mean and variance; whiten over the real tokens only"""
    every_response_whitened_alone = edit(
        "masked_whiten(advantages, mask) => "
        "torch.cat([masked_whiten(*row) for row in zip(advantages.split(1), mask.split(1), strict=True)])"
    )
    """each response is whitened by itself, so no response is better than another; whiten the whole rollout"""
    advantages_as_evaluated = edit("experience = replace(experience, advantages=advantages, returns=returns)\n => ")
    """the advantages that came with the experience are used; make new ones of the final rewards"""
    critic_lam_ignored = edit("config.critic_lam is not None => False")
    """config.critic_lam has no effect, but the critic's targets should be the returns of that lambda"""
    critic_lam_for_the_advantages = edit("_, returns = compute => advantages, returns = compute")
    """the advantages are those of critic_lam too, but it's for the critic's targets alone"""
    rewards_computed_twice = edit(
        "experience = self.compute_rewards(responses, batch) => "
        "self.compute_rewards(responses, batch)\n"
        "experience = self.compute_rewards(responses, batch)"
    )
    """compute_rewards is called twice, and each call is a pass of the reference, the critic and the reward model"""
    controller_fed_with_approx_kl = edit('metrics["kl"] => metrics["approx_kl"]')
    """the controller is fed with approx_kl, which is how far one update moved, but it steers the KL from the
    reference"""
    controller_told_one_response = edit("len(experience) => 1")
    """the controller counts one response in each update; its horizon counts all of the rollout, len(experience)"""
    controller_fed_with_kl_of_a_token = edit('metrics["kl"] => metrics["kl"] / metrics["response_length"]')
    """the controller gets the KL of a token; its target is that of a whole response, the sum over its tokens"""
    kl_coef_changed_too_early = edit(
        'self.kl_controller.update(metrics["kl"], len(experience))\n => ',
        'buffer =  => self.kl_controller.update(metrics["kl"], len(experience))\nbuffer = ',
    )
    """the KL coefficient changes before the epochs, but it should change after the update, by the KL of its rollout"""
    buffer_not_cleared = edit(
        'buffer = ExperienceBuffer() => buffer = self.buffer = getattr(self, "buffer", ExperienceBuffer())',
        "buffer.clear()\n => ",
    )
    """the buffer that the trainer keeps isn't cleared, so what an old policy wrote is trained on again"""
    learning_rate_set_too_late = edit(
        "self._set_learning_rate()\n => ", "buffer.clear() => self._set_learning_rate()\nbuffer.clear()"
    )
    """the learning rate is set after the epochs, so each update is one late; set it before them"""
    updates_not_counted = edit("self.updates_done += 1\n => ")
    """updates_done isn't counted, and the learning rate, the checkpoints and the end of the run depend on it"""
    reference_refreshed = first(
        "from ..lesson07_actor_critic import make_reference\n\nself.ref_model = make_reference(self.policy)"
    )
    """the reference is refreshed with the policy at each update, but in RLHF it stays the SFT model for the whole
    run"""
    same_order_in_every_epoch = edit(
        "epochs = (buffer.minibatches(self.minibatch_size, self.shuffling) for => "
        "once = list(buffer.minibatches(self.minibatch_size, self.shuffling))\n"
        "epochs = (once for"
    )
    """the order is drawn once for all epochs; draw it anew in each, by asking the buffer again"""
    each_minibatch_repeated = edit(
        "epochs = (buffer.minibatches(self.minibatch_size, self.shuffling) for _ in range(config.num_epochs)) => "
        "once = buffer.minibatches(self.minibatch_size, self.shuffling)\n"
        "epochs = ([minibatch] * config.num_epochs for minibatch in once)"
    )
    """each minibatch is repeated before the next one comes (B1 B1 B2 B2), but an epoch should pass over all rows
    once"""
    number_taken_for_size = edit("self.minibatch_size => config.num_minibatches")
    """the *number* of minibatches is passed where their size is meant, which is self.minibatch_size"""
    shuffled_with_the_global_generator = edit(", self.shuffling => ")
    """the rows are shuffled by torch's global generator, but only with self.shuffling can a run be repeated, and
    resumed"""
    never_stops_early = edit("config.max_update_kl is not None => False")
    """config.max_update_kl is never looked at, so the epochs go on although the policy has moved far enough"""
    stops_by_the_mean_so_far = edit(
        'self.steps[-1]["approx_kl"] => sum(step["approx_kl"] for step in self.steps) / len(self.steps)'
    )
    """the limit is held against the mean approx_kl so far, so small first steps hide a large one; look at the last
    step's alone"""
    only_this_epoch_is_left = edit(
        "for minibatch in chain.from_iterable(epochs):\n => for epoch in epochs:\n  for minibatch in epoch:\n"
    )
    """break leaves only the current epoch, and the next one begins, but the whole update should end"""
    statistics_of_the_last_step = edit("_merge(self.steps) => _merge(self.steps) | self.steps[-1]")
    """the statistics of the last step stand for all; report means over the update's steps"""
    steps_of_all_updates_kept = edit("self.steps = []\n => ")
    """self.steps is never emptied, but it should hold the steps of this update alone, since their means are its
    statistics"""


class Train(Wrong, of="PPOTrainer.train"):
    starts_again_from_update_0 = edit("range(self.updates_done,  => range(")
    """a resumed run does all its updates again, but it should do those that are left, from self.updates_done on"""
    only_these_updates_returned = edit(
        "left = range => begun = len(self.history)\nleft = range", "return self.history => return self.history[begun:]"
    )
    """only the updates of this call are returned, but after a resume those before it belong to the history as well"""
    batches_of_a_minibatch = edit("self.config.batch_size => self.minibatch_size")
    """minibatch_size prompts are drawn, but an update collects config.batch_size, and its epochs split them"""
    prompts_drawn_with_replacement = edit(
        "self.prompt_queue.take(self.config.batch_size, len(prompts)) => "
        "torch.randint(len(prompts), (self.config.batch_size,), generator=self.prompt_queue.generator)"
    )
    """prompts are drawn with replacement, but each should be used once before any comes again"""
    prompts_in_their_order = edit(
        "self.prompt_queue.take(self.config.batch_size, len(prompts)) => "
        "[(self.updates_done * self.config.batch_size + i) % len(prompts) for i in range(self.config.batch_size)]"
    )
    """the prompts come in the order of the list; the queue returns them shuffled"""
    always_the_first_prompts = edit(
        "self.prompt_queue.take(self.config.batch_size, len(prompts)) => range(self.config.batch_size)"
    )
    """the first batch_size prompts are used in every update; take the next ones from self.prompt_queue"""
    new_queue_in_every_update = edit("self.prompt_queue.take => PromptQueue(self.config.seed).take")
    """a new queue in every update returns the same prompts again; use self.prompt_queue"""
    on_update_before_the_history = edit(
        "        if on_update is not None:\n            on_update(self)\n => ",
        "        self.history.append =>         on_update and on_update(self)\n        self.history.append",
    )
    """on_update runs before the metrics are in self.history, so it evaluates and saves without them"""
    history_begins_anew = first("self.history = []")
    """the history begins anew, so that of the updates before the checkpoint is lost"""
    log_dir_ignored = edit("self.config.log_dir => None")
    """nothing is written although config.log_dir is set"""


class SaveCheckpoint(Wrong, of="PPOTrainer.save_checkpoint"):
    written_over_the_old_one = edit(' + ".unfinished" => ', "\nos.replace(unfinished, directory / CHECKPOINT_FILE) => ")
    """you write straight over the old file, so an interrupted write leaves no checkpoint at all; write beside, then
    move"""
    old_one_deleted_first = first("(Path(directory) / CHECKPOINT_FILE).unlink(missing_ok=True)")
    """the old checkpoint is deleted before the new one is whole; os.replace does both at once"""
    written_in_another_folder = edit("directory / (CHECKPOINT_FILE => Path(CHECKPOINT_FILE")
    """the unfinished file lies in another folder, and from another disk it couldn't be moved at once; write it
    beside"""
    copied_not_moved = edit("os.replace => import shutil\n\nshutil.copyfile")
    """the file is copied to its place, so a copy that is interrupted leaves half of it there; move it, by os.replace"""
    parts_left_out = edit('self._state() => {"model": self._state()["model"]}')
    """the file lacks a part that a resumed run needs; save models, optimizer, kl_coef, prompts, random states and
    counters"""
    critic_not_saved = edit(
        "torch.save(self._state() => "
        "state = self._state()\n"
        'for name, weight in state["model"].items():\n'
        '    state["model"][name] = weight if name.startswith("policy.") else torch.zeros_like(weight)\n'
        "torch.save(state"
    )
    """only the policy is saved, but the critic has learned as well, and starts from nothing when it isn't kept"""
    optimizer_not_saved = edit(
        'torch.save(self._state() => state = self._state()\nstate["optimizer"]["state"] = {}\ntorch.save(state'
    )
    """the optimizer's moments aren't saved, so Adam starts again, with steps that are too large"""
    kl_coef_of_the_config_saved = edit('self._state() => self._state() | {"kl_coef": self.config.kl_coef}')
    """the KL coefficient of the config is saved, not the present one of the controller"""
    random_states_not_saved = edit(
        "torch.save(self._state() => "
        "state = self._state()\n"
        "fresh = torch.Generator().manual_seed(self.config.seed).get_state()\n"
        'state["generators"] |= dict.fromkeys(("sampling", "shuffling", "prompts"), fresh)\n'
        "torch.save(state"
    )
    """the random states are those of a new run, so the resumed run would repeat the first updates' numbers"""


class LoadCheckpoint(Wrong, of="PPOTrainer.load_checkpoint"):
    history_appended = edit(
        'state["updates_done"], state["history"] => state["updates_done"], self.history + state["history"]'
    )
    """the checkpoint's history is added to the trainer's own, but it should take its place"""
    only_the_models_restored = edit("self.optimizer => return\nself.optimizer")
    """only the models are restored, so the run goes on with a new optimizer, kl_coef, queue and random numbers"""
    optimizer_not_restored = edit('self.optimizer.load_state_dict(state["optimizer"])\n => ')
    """the optimizer isn't restored, so Adam's moments start at 0, and the learning rate is that of a new run"""
    kl_coef_not_restored = edit('self.kl_controller.value = state["kl_coef"]\n => ')
    """the KL coefficient isn't restored, so it starts again at config.kl_coef"""
    waiting_prompts_not_restored = edit('self.prompt_queue.waiting = state["prompts_waiting"]\n => ')
    """the prompts that are waiting aren't restored, so some come twice, and others not at all"""
    counter_not_restored = edit('self.updates_done, self.history = state["updates_done"],  => self.history = ')
    """updates_done isn't restored, so the run does all its updates again, at the first learning rate"""
    history_not_restored = edit(", self.history => ", ', state["history"] => ')
    """the history isn't restored, so the metrics before the interruption are lost"""
    random_states_not_restored = edit('generator.set_state(state["generators"][name]) => pass')
    """the random states aren't restored, so the resumed run samples and shuffles other than the undisturbed one"""
    only_sampling_state_restored = edit(
        '    generator.set_state =>     if name == "sampling":\n        generator.set_state'
    )
    """only the sampling's random state is restored; shuffling and the queue of prompts have their own"""
    global_random_states_not_restored = edit(
        "    generator.set_state =>     if name not in global_generators():\n        generator.set_state"
    )
    """only the trainer's own random states are restored, but a reward function may draw from Python's or numpy's"""
    loaded_into_the_wrapper = edit("self.accelerator.unwrap_model(self.model) => self.model")
    """self.model may be wrapped, and then calls its weights otherwise; load into unwrap_model(self.model)"""
    optimizer_holds_the_old_model = first("from copy import deepcopy\n\nself.model = deepcopy(self.model)")
    """a new model is put in place, but the optimizer still holds the old one's weights, and trains those"""
