"""Wrong ideas about the trainer, as code. Each is rejected by the basic suite, and named when it is submitted."""

from __future__ import annotations

import copy
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch

from solutions.lesson01_masked_sequences import gather_log_probs, masked_mean, masked_whiten, token_entropy
from solutions.lesson05_ppo_loss import combine_losses, compute_ppo_loss, compute_value_loss, ppo_statistics
from solutions.lesson06_kl_rewards import compute_rewards as token_rewards
from solutions.lesson06_kl_rewards import penalize_missing_stop
from solutions.lesson07_actor_critic import make_reference
from solutions.lesson08_rollout import ExperienceBuffer, collect_experience, evaluate_responses, generate
from solutions.lesson09_ppo_trainer.checkpoints import CHECKPOINT_FILE, global_generators, read_checkpoint
from solutions.lesson09_ppo_trainer.prompts import PromptQueue
from solutions.lesson09_ppo_trainer.run_log import RunLog
from solutions.lesson09_ppo_trainer.trainer import _merge, _weighted
from testcases.engine import misconception

WRONG = "What people get wrong"
GENERATE = "generate_responses: let the policy write"
REWARDS = "compute_rewards: what the policy is paid"
LOSS = "compute_loss: one batch, one number"
STEP = "optimiser_step: microbatches, clip, guard, step"
EPOCHS = "optimise: epochs of minibatches"
UPDATE = "training_step: one update"
TRAIN = "train: the whole run"
SAVE = "save_checkpoint: all or nothing"
LOAD = "load_checkpoint: as if nothing had happened"


# generate_responses


def _generate(self, prompts, policy=None, **changed):
    config = self.config
    options = {
        "max_new_tokens": config.max_new_tokens,
        "stop_token_ids": config.stop_token_ids,
        "pad_token_id": config.pad_token_id,
        "temperature": config.temperature,
        "generator": self.sampling,
        **changed,
    }
    return generate(self.policy if policy is None else policy, *self._encode(prompts), **options)


@misconception(
    "PPOTrainer.generate_responses",
    why="config.temperature is not passed on: the policy samples at 1, and the loss then asks about another one",
    read=GENERATE,
)
def sampled_at_temperature_1(self, prompts):
    return _generate(self, prompts, temperature=1.0)


@misconception(
    "PPOTrainer.generate_responses",
    why="the likeliest token is taken: without chance the policy never tries anything, and PPO has nothing to compare",
    read=GENERATE,
)
def always_the_likeliest_token(self, prompts):
    return _generate(self, prompts, top_k=1)


@misconception(
    "PPOTrainer.generate_responses",
    why="drawn from torch's global generator: with self.sampling a run can be repeated, and resumed",
    read=GENERATE,
)
def sampled_with_the_global_generator(self, prompts):
    return _generate(self, prompts, generator=None)


@misconception(
    "PPOTrainer.generate_responses",
    why="drawn from self.shuffling, which orders the rows; the sampling has its own generator, self.sampling",
    read=GENERATE,
)
def sampled_with_the_shuffling_generator(self, prompts):
    return _generate(self, prompts, generator=self.shuffling)


@misconception(
    "PPOTrainer.generate_responses",
    why="the generator is seeded anew in each call, so that every update meets the same random numbers",
    read=GENERATE,
)
def seeded_anew_in_each_call(self, prompts):
    return _generate(self, prompts, generator=torch.Generator().manual_seed(self.config.seed))


@misconception(
    "PPOTrainer.generate_responses",
    why="the frozen reference writes the responses: PPO learns from what the policy itself writes",
    read=GENERATE,
)
def written_by_the_reference(self, prompts):
    return _generate(self, prompts, policy=self.ref_model)


@misconception(
    "PPOTrainer.generate_responses",
    why="only the first stop token counts; any of config.stop_token_ids ends a response",
    read=GENERATE,
)
def one_stop_token_only(self, prompts):
    return _generate(self, prompts, stop_token_ids=self.config.stop_token_ids[:1])


@misconception(
    "PPOTrainer.generate_responses",
    why="self.model.policy is not there on several processes, where the model is wrapped; self.policy looks inside",
    read=GENERATE,
)
def policy_asked_of_the_wrapper(self, prompts):
    return _generate(self, prompts, policy=self.model.policy)


@misconception(
    "PPOTrainer.generate_responses",
    why="the model is put into training mode afterwards: generate leaves the mode as it was, and so should you",
    read=GENERATE,
)
def training_mode_after_sampling(self, prompts):
    self.model.eval()
    answer = _generate(self, prompts)
    self.model.train()
    return answer


@misconception(
    "PPOTrainer.generate_responses",
    why="one token more than config.max_new_tokens: that is the number of tokens of a response, the stop included",
    read=GENERATE,
)
def one_token_too_many(self, prompts):
    return _generate(self, prompts, max_new_tokens=self.config.max_new_tokens + 1)


@misconception(
    "PPOTrainer.generate_responses",
    why="the padding on the left is called real: the attention mask of the encoded prompts has to be passed on",
    read=GENERATE,
)
def prompt_padding_taken_for_text(self, prompts):
    input_ids, attention_mask = self._encode(prompts)
    config = self.config
    return generate(
        self.policy,
        input_ids,
        torch.ones_like(attention_mask),
        config.max_new_tokens,
        config.stop_token_ids,
        config.pad_token_id,
        config.temperature,
        generator=self.sampling,
    )


@misconception(
    "PPOTrainer.generate_responses",
    why="the stop token ends the rows here but padding is written as token 0: use config.pad_token_id",
    read=GENERATE,
)
def padded_with_token_0(self, prompts):
    return _generate(self, prompts, pad_token_id=0)


# compute_rewards


def _evaluate(self, responses, prompts, **changed):
    parts = {
        "model": self.accelerator.unwrap_model(self.model),
        "reference": self.ref_model,
        "config": self.config,
        "kl_coef": self.kl_controller.value,
        **changed,
    }
    input_ids, attention_mask = self._encode(prompts)
    return evaluate_responses(
        score=self.score, input_ids=input_ids, attention_mask=attention_mask, generation=responses, **parts
    )


@misconception(
    "PPOTrainer.compute_rewards",
    why="config.kl_coef is only where the price starts: the controller moves it, so ask self.kl_controller.value",
    read=REWARDS,
)
def price_of_the_beginning(self, responses, prompts):
    return _evaluate(self, responses, prompts, kl_coef=self.config.kl_coef).rewards


@misconception(
    "PPOTrainer.compute_rewards",
    why="the KL price is left out: only the score is paid, and nothing keeps the policy near the reference",
    read=REWARDS,
)
def score_without_kl_price(self, responses, prompts):
    return _evaluate(self, responses, prompts, kl_coef=0.0).rewards


@misconception(
    "PPOTrainer.compute_rewards",
    why="the KL is added, not subtracted: the policy is paid for leaving the reference",
    read=REWARDS,
)
def kl_is_rewarded(self, responses, prompts):
    bare = _evaluate(self, responses, prompts, kl_coef=0.0).rewards
    return 2 * bare - _evaluate(self, responses, prompts).rewards


@misconception(
    "PPOTrainer.compute_rewards",
    why="the policy is compared with itself: the KL needs the log-probs of the frozen self.ref_model",
    read=REWARDS,
)
def policy_as_its_own_reference(self, responses, prompts):
    return _evaluate(self, responses, prompts, reference=self.policy).rewards


@misconception(
    "PPOTrainer.compute_rewards",
    why="new responses are sampled: the ones that were handed in are to be judged, with their own log-probs",
    read=REWARDS,
)
def new_responses_judged(self, responses, prompts):
    return _evaluate(self, self.generate_responses(prompts), prompts).rewards


@misconception(
    "PPOTrainer.compute_rewards",
    why="the log-probs are computed again by the present policy: the KL is that of the policy that sampled",
    read=REWARDS,
)
def log_probs_of_the_present_policy(self, responses, prompts):
    input_ids, attention_mask = self._encode(prompts)
    sequences = torch.cat([input_ids, responses.responses], dim=1)
    visible = torch.cat([attention_mask, responses.mask], dim=1)
    with torch.no_grad():
        logits = self.model(sequences, visible, input_ids.shape[1]).logits
    log_probs = gather_log_probs(logits, responses.responses, self.config.temperature)
    return _evaluate(self, responses._replace(log_probs=log_probs), prompts).rewards


@misconception(
    "PPOTrainer.compute_rewards",
    why="these are the returns, the sums of what comes; the rewards are what each token itself is paid",
    read=REWARDS,
)
def returns_in_place_of_rewards(self, responses, prompts):
    return _evaluate(self, responses, prompts).returns


@misconception(
    "PPOTrainer.compute_rewards",
    why="a response that never stopped is paid in full: config.missing_stop_penalty is subtracted from its score",
    read=REWARDS,
)
def no_penalty_for_a_missing_stop(self, responses, prompts):
    return _evaluate(self, responses, prompts, config=replace(self.config, missing_stop_penalty=0.0)).rewards


@misconception(
    "PPOTrainer.compute_rewards",
    why="the reference is read at temperature 1; both log-probs need the temperature that sampled",
    read=REWARDS,
)
def reference_at_temperature_1(self, responses, prompts):
    return _evaluate(self, responses, prompts, config=replace(self.config, temperature=1.0)).rewards


@misconception(
    "PPOTrainer.compute_rewards",
    why="self.model may be wrapped, and a wrapper has no critic: hand in self.accelerator.unwrap_model(self.model)",
    read=REWARDS,
)
def rewards_of_the_wrapped_model(self, responses, prompts):
    return _evaluate(self, responses, prompts, model=self.model).rewards


@misconception(
    "PPOTrainer.compute_rewards",
    why="the score is given to every token: it is paid once, on the last real one",
    read=REWARDS,
)
def score_on_every_token(self, responses, prompts):
    judged = _evaluate(self, responses, prompts)
    config = self.config
    scores = penalize_missing_stop(
        judged.scores, responses.responses, config.stop_token_ids, config.missing_stop_penalty
    ).clamp(-config.clip_score, config.clip_score)
    price = token_rewards(
        torch.zeros_like(scores),
        judged.log_probs,
        judged.ref_log_probs,
        judged.mask,
        self.kl_controller.value,
        estimator=config.kl_estimator,
    )
    return torch.where(judged.mask, price + scores.unsqueeze(1), 0.0)


# compute_loss


def _forward(self, batch, temperature=None, model=None):
    outputs = (model or self.model)(batch.input_ids, batch.attention_mask, batch.prompt_length)
    temperature = self.config.temperature if temperature is None else temperature
    log_probs = gather_log_probs(outputs.logits, batch.responses, temperature)
    return outputs, log_probs, masked_mean(token_entropy(outputs.logits, temperature), batch.mask)


def _loss(
    self,
    batch,
    *,
    temperature=None,
    old=None,
    advantages=None,
    targets=None,
    mask=None,
    value_clip=None,
    entropy=None,
    model=None,
):
    """The reference's loss with some parts replaced; a callable part gets (outputs, log_probs)."""
    config = self.config
    outputs, log_probs, bonus = _forward(self, batch, temperature, model)
    old = batch.log_probs if old is None else old(outputs, log_probs)
    advantages = batch.advantages if advantages is None else advantages(outputs, log_probs)
    targets = batch.returns if targets is None else targets(outputs, log_probs)
    mask = batch.mask if mask is None else mask
    bonus = bonus if entropy is None else entropy(outputs, log_probs)
    policy_loss = compute_ppo_loss(log_probs, old, advantages, config.clip_epsilon, mask)
    value_loss = compute_value_loss(
        outputs.values, batch.values, targets, value_clip or config.value_clip_epsilon, batch.mask
    )
    loss = combine_losses(policy_loss, value_loss, bonus, config.value_coef, config.entropy_coef)
    statistics = {
        "policy_loss": policy_loss.item(),
        "value_loss": value_loss.item(),
        "entropy": bonus.item(),
        **ppo_statistics(log_probs, old, advantages, config.clip_epsilon, mask),
    }
    return loss, statistics


@misconception(
    "PPOTrainer.compute_loss",
    why="the ratio is taken against the reference model; it belongs to batch.log_probs, the policy that sampled",
    read=LOSS,
)
def ratio_to_the_reference_model(self, batch):
    return _loss(self, batch, old=lambda outputs, log_probs: batch.ref_log_probs)


@misconception(
    "PPOTrainer.compute_loss",
    why="the old log-probs are computed from the present policy: the ratio is then 1 for ever, and nothing is clipped",
    read=LOSS,
)
def old_log_probs_of_the_present_policy(self, batch):
    return _loss(self, batch, old=lambda outputs, log_probs: log_probs.detach())


@misconception(
    "PPOTrainer.compute_loss",
    why="the temperature is forgotten: log-probs of another distribution than the one that sampled, so the ratio lies",
    read=LOSS,
)
def loss_at_temperature_1(self, batch):
    return _loss(self, batch, temperature=1.0)


@misconception(
    "PPOTrainer.compute_loss",
    why="the entropy is that at temperature 1; it is the sampling policy's, so its logits are divided as well",
    read=LOSS,
)
def entropy_at_temperature_1(self, batch):
    return _loss(self, batch, entropy=lambda outputs, log_probs: masked_mean(token_entropy(outputs.logits), batch.mask))


@misconception(
    "PPOTrainer.compute_loss",
    why="the unwrapped model is called: on several processes the wrapper averages the gradients; call self.model",
    read=LOSS,
)
def loss_of_the_unwrapped_model(self, batch):
    return _loss(self, batch, model=self.accelerator.unwrap_model(self.model))


@misconception(
    "PPOTrainer.compute_loss",
    why="the advantages are made from the present critic: they are fixed when the rollout ends, and stay so",
    read=LOSS,
)
def advantages_from_the_present_critic(self, batch):
    return _loss(self, batch, advantages=lambda outputs, log_probs: (batch.returns - outputs.values).detach())


@misconception(
    "PPOTrainer.compute_loss",
    why="the advantages of each batch are whitened: that is done once, over the whole rollout, in training_step",
    read=LOSS,
)
def whitened_in_every_batch(self, batch):
    return _loss(self, batch, advantages=lambda outputs, log_probs: masked_whiten(batch.advantages, batch.mask))


@misconception(
    "PPOTrainer.compute_loss",
    why="padding is counted in the policy's mean: pass batch.mask, so that only real tokens count",
    read=LOSS,
)
def padding_in_the_policy_loss(self, batch):
    return _loss(self, batch, mask=torch.ones_like(batch.mask))


@misconception(
    "PPOTrainer.compute_loss",
    why="an advantage of 0 is taken for padding: such a token is real, and counts in every mean; use batch.mask alone",
    read=LOSS,
)
def zero_advantages_taken_for_padding(self, batch):
    return _loss(self, replace(batch, mask=batch.mask & (batch.advantages != 0)))


@misconception(
    "PPOTrainer.compute_loss",
    why="self.model.eval() in a training pass: dropout is 0 already, and gradient checkpointing needs training mode",
    read=LOSS,
)
def loss_in_evaluation_mode(self, batch):
    self.model.eval()
    return _loss(self, batch)


@misconception(
    "PPOTrainer.compute_loss",
    why="the critic is trained towards the rewards of single tokens; its targets are batch.returns",
    read=LOSS,
)
def critic_towards_the_rewards(self, batch):
    return _loss(self, batch, targets=lambda outputs, log_probs: batch.rewards)


@misconception(
    "PPOTrainer.compute_loss",
    why="clip_epsilon clips the critic too: values have their own unit, and their own value_clip_epsilon",
    read=LOSS,
)
def one_epsilon_for_both(self, batch):
    return _loss(self, batch, value_clip=self.config.clip_epsilon)


@misconception(
    "PPOTrainer.compute_loss",
    why="the entropy is averaged over padding as well; it is a mean over real tokens like the losses",
    read=LOSS,
)
def entropy_of_the_padding(self, batch):
    temperature = self.config.temperature
    return _loss(self, batch, entropy=lambda outputs, log_probs: token_entropy(outputs.logits, temperature).mean())


@misconception(
    "PPOTrainer.compute_loss",
    why="the entropy is negated before combine_losses, which subtracts it: the minus is written there and nowhere else",
    read=LOSS,
)
def entropy_negated_twice(self, batch):
    temperature = self.config.temperature
    return _loss(
        self,
        batch,
        entropy=lambda outputs, log_probs: -masked_mean(token_entropy(outputs.logits, temperature), batch.mask),
    )


@misconception(
    "PPOTrainer.compute_loss",
    why="the entropy never sends a gradient: as a bonus it has to, wherever entropy_coef > 0",
    read=LOSS,
)
def entropy_without_gradient(self, batch):
    temperature = self.config.temperature
    return _loss(
        self,
        batch,
        entropy=lambda outputs, log_probs: masked_mean(token_entropy(outputs.logits, temperature), batch.mask).detach(),
    )


@misconception(
    "PPOTrainer.compute_loss",
    why="the weights are those of combine_losses' defaults: pass config.value_coef and config.entropy_coef",
    read=LOSS,
)
def weights_of_the_config_ignored(self, batch):
    config = self.config
    outputs, log_probs, entropy = _forward(self, batch)
    _, statistics = _loss(self, batch)
    policy_loss = compute_ppo_loss(log_probs, batch.log_probs, batch.advantages, config.clip_epsilon, batch.mask)
    value_loss = compute_value_loss(outputs.values, batch.values, batch.returns, config.value_clip_epsilon, batch.mask)
    return combine_losses(policy_loss, value_loss, entropy), statistics


@misconception(
    "PPOTrainer.compute_loss",
    why="the mean of the rows' means: a token of a short response then weighs more than one of a long response",
    read=LOSS,
)
def every_row_weighs_the_same(self, batch):
    one = torch.arange(len(batch), device=batch.mask.device).split(1)
    losses = [_loss(self, batch.rows(row))[0] for row in one]
    return torch.stack(losses).mean(), _loss(self, batch)[1]


@misconception(
    "PPOTrainer.compute_loss",
    why="approx_kl is logged as the mean of log(new / old): that is the negative of an estimate, and below 0 mostly",
    read=LOSS,
)
def approx_kl_of_the_wrong_sign(self, batch):
    loss, statistics = _loss(self, batch)
    _, log_probs, _ = _forward(self, batch)
    difference = (log_probs - batch.log_probs)[batch.mask].mean().item()
    return loss, {**statistics, "approx_kl": difference}


@misconception(
    "PPOTrainer.compute_loss",
    why="the statistics are made with the default interval: pass config.clip_epsilon to ppo_statistics as well",
    read=LOSS,
)
def statistics_of_the_default_interval(self, batch):
    loss, statistics = _loss(self, batch)
    _, log_probs, _ = _forward(self, batch)
    return loss, {**statistics, **ppo_statistics(log_probs, batch.log_probs, batch.advantages, mask=batch.mask)}


# optimiser_step


def _step(
    self,
    minibatch,
    *,
    weight=lambda micro, mini, count: int(micro.mask.sum()) / int(mini.mask.sum()),
    before=lambda trainer: None,
    after=lambda trainer: None,
    is_spike=lambda trainer, merged: not merged["ratio_mean"] <= trainer.config.ratio_threshold,
    clip=lambda trainer: float(
        trainer.accelerator.clip_grad_norm_(trainer.model.parameters(), trainer.config.max_grad_norm)
    ),
    merge=_weighted,
    forget=lambda trainer, skipped: trainer.optimizer.zero_grad(set_to_none=True),
):
    """The reference's step with some parts replaced."""
    parts, weights, shares = [], [], []
    split = torch.arange(len(minibatch)).split(self.config.micro_batch_size or len(minibatch))
    for index in split:
        microbatch = minibatch.rows(index)
        weights.append(weight(microbatch, minibatch, len(split)))
        shares.append(int(microbatch.mask.sum()) / int(minibatch.mask.sum()))
        before(self)
        loss, statistics = self.compute_loss(microbatch)
        self.accelerator.backward(loss * weights[-1])
        after(self)
        parts.append(statistics)
    merged = merge(parts, shares)
    skipped = is_spike(self, merged)
    grad_norm = 0.0
    if not skipped:
        grad_norm = clip(self)
        self.optimizer.step()
    forget(self, skipped)
    return merged | {"grad_norm": grad_norm, "skipped_share": float(skipped)}


@misconception(
    "PPOTrainer.optimiser_step",
    why="each microbatch counts the same: with ragged rows its weight is its share of the minibatch's real tokens",
    read=STEP,
)
def mean_of_microbatch_means(self, minibatch):
    return _step(self, minibatch, weight=lambda micro, mini, count: 1 / count)


@misconception(
    "PPOTrainer.optimiser_step",
    why="the microbatches' losses are summed without weights: twice as many microbatches, twice the gradient",
    read=STEP,
)
def microbatches_summed(self, minibatch):
    return _step(self, minibatch, weight=lambda micro, mini, count: 1.0)


@misconception(
    "PPOTrainer.optimiser_step",
    why="a microbatch is weighted by its share of the rows: the losses are means over tokens, so count tokens",
    read=STEP,
)
def weighted_by_rows(self, minibatch):
    return _step(self, minibatch, weight=lambda micro, mini, count: len(micro) / len(mini))


@misconception(
    "PPOTrainer.optimiser_step",
    why="the gradients are zeroed before each microbatch: only the last one is left when the step is taken",
    read=STEP,
)
def only_the_last_microbatch_learns(self, minibatch):
    return _step(self, minibatch, before=lambda trainer: trainer.optimizer.zero_grad())


@misconception(
    "PPOTrainer.optimiser_step",
    why="a step is taken after every microbatch: they are parts of one minibatch, and of one step",
    read=STEP,
)
def one_step_for_each_microbatch(self, minibatch):
    steps = [
        (_step(self, minibatch.rows(index)), int(minibatch.rows(index).mask.sum()) / int(minibatch.mask.sum()))
        for index in torch.arange(len(minibatch)).split(self.config.micro_batch_size or len(minibatch))
    ]
    return _weighted([step for step, _ in steps], [share for _, share in steps])


@misconception(
    "PPOTrainer.optimiser_step",
    why="the gradients are never forgotten: the next step takes those of this one as well",
    read=STEP,
)
def gradients_pile_up(self, minibatch):
    return _step(self, minibatch, forget=lambda trainer, skipped: None)


@misconception(
    "PPOTrainer.optimiser_step",
    why="a skipped step keeps its gradients, and the next step takes the spike after all: forget them in both cases",
    read=STEP,
)
def a_skipped_spike_is_kept(self, minibatch):
    return _step(self, minibatch, forget=lambda trainer, skipped: None if skipped else trainer.optimizer.zero_grad())


def _norm(trainer):
    slopes = [weight.grad for weight in trainer.model.parameters() if weight.grad is not None]
    return torch.stack([slope.norm() for slope in slopes]).norm().item()


@misconception(
    "PPOTrainer.optimiser_step",
    why="the norm is measured but nothing is clipped: config.max_grad_norm has no effect",
    read=STEP,
)
def gradients_not_clipped(self, minibatch):
    return _step(self, minibatch, clip=_norm)


@misconception(
    "PPOTrainer.optimiser_step",
    why="clipped at 1, the default, whatever config.max_grad_norm says",
    read=STEP,
)
def clipped_at_1(self, minibatch):
    return _step(
        self,
        minibatch,
        clip=lambda trainer: float(trainer.accelerator.clip_grad_norm_(trainer.model.parameters(), 1.0)),
    )


@misconception(
    "PPOTrainer.optimiser_step",
    why="only the actor's gradients are clipped; the norm is that of all trained weights together",
    read=STEP,
)
def only_the_actor_is_clipped(self, minibatch):
    return _step(
        self,
        minibatch,
        clip=lambda trainer: float(
            trainer.accelerator.clip_grad_norm_(trainer.policy.parameters(), trainer.config.max_grad_norm)
        ),
    )


@misconception(
    "PPOTrainer.optimiser_step",
    why="the sum so far is clipped after each microbatch: clip once, when the minibatch is complete",
    read=STEP,
)
def clipped_after_each_microbatch(self, minibatch):
    return _step(
        self,
        minibatch,
        after=lambda trainer: trainer.accelerator.clip_grad_norm_(
            trainer.model.parameters(), trainer.config.max_grad_norm
        ),
    )


@misconception(
    "PPOTrainer.optimiser_step",
    why="grad_norm is measured after clipping, where it cannot show a spike: report the norm before",
    read=STEP,
)
def norm_after_clipping(self, minibatch):
    def clip(trainer):
        trainer.accelerator.clip_grad_norm_(trainer.model.parameters(), trainer.config.max_grad_norm)
        return _norm(trainer)

    return _step(self, minibatch, clip=clip)


@misconception(
    "PPOTrainer.optimiser_step",
    why="there is no ratio guard: a minibatch whose mean ratio is above config.ratio_threshold must be skipped",
    read=STEP,
)
def spikes_are_learned(self, minibatch):
    return _step(self, minibatch, is_spike=lambda trainer, merged: False)


@misconception(
    "PPOTrainer.optimiser_step",
    why="ratio_mean > threshold is False for NaN, so a broken minibatch is learned: ask for `not ratio <= threshold`",
    read=STEP,
)
def nan_passes_the_guard(self, minibatch):
    return _step(
        self, minibatch, is_spike=lambda trainer, merged: merged["ratio_mean"] > trainer.config.ratio_threshold
    )


@misconception(
    "PPOTrainer.optimiser_step",
    why="the guard looks at the largest ratio: one rare token then stops the whole minibatch; it looks at the mean",
    read=STEP,
)
def guard_on_the_largest_ratio(self, minibatch):
    return _step(
        self,
        minibatch,
        is_spike=lambda trainer, merged: (
            not (
                merged["ratio_mean"] <= trainer.config.ratio_threshold
                and merged["ratio_max"] <= trainer.config.ratio_threshold
            )
        ),
    )


@misconception(
    "PPOTrainer.optimiser_step",
    why="the guard sees the last microbatch only: a spike in an earlier one is learned; ask the merged ratio_mean",
    read=STEP,
)
def guard_on_the_last_microbatch(self, minibatch):
    last = {}

    def merge(parts, shares):
        last.update(parts[-1])
        return _weighted(parts, shares)

    return _step(
        self,
        minibatch,
        merge=merge,
        is_spike=lambda trainer, merged: not last["ratio_mean"] <= trainer.config.ratio_threshold,
    )


@misconception(
    "PPOTrainer.optimiser_step",
    why="the threshold is fixed at 10, its default; config.ratio_threshold is ignored",
    read=STEP,
)
def threshold_fixed_at_10(self, minibatch):
    return _step(self, minibatch, is_spike=lambda trainer, merged: not merged["ratio_mean"] <= 10.0)


@misconception(
    "PPOTrainer.optimiser_step",
    why="each microbatch overwrites the statistics: report token-weighted means over all of them",
    read=STEP,
)
def statistics_of_the_last_microbatch(self, minibatch):
    return _step(self, minibatch, merge=lambda parts, shares: dict(parts[-1]))


@misconception(
    "PPOTrainer.optimiser_step",
    why="ratio_max is averaged over the microbatches: the largest ratio of the minibatch is the largest of theirs",
    read=STEP,
)
def largest_ratio_averaged(self, minibatch):
    return _step(
        self,
        minibatch,
        merge=lambda parts, shares: {
            name: sum(share * part[name] for share, part in zip(shares, parts, strict=True)) for name in parts[0]
        },
    )


@misconception(
    "PPOTrainer.optimiser_step",
    why="the critic's gradients are thrown away: one step moves actor and critic",
    read=STEP,
)
def the_critic_stands_still(self, minibatch):
    def clip(trainer):
        norm = float(trainer.accelerator.clip_grad_norm_(trainer.model.parameters(), trainer.config.max_grad_norm))
        for weight in trainer.accelerator.unwrap_model(trainer.model).value_model.parameters():
            weight.grad = None
        return norm

    return _step(self, minibatch, clip=clip)


# optimise


@misconception(
    "PPOTrainer.optimise",
    why="the order is drawn once for all epochs: draw it anew in each, by asking the buffer again",
    read=EPOCHS,
)
def same_order_in_every_epoch(self, buffer):
    minibatches = list(buffer.minibatches(self.config.minibatch_size, self.shuffling))
    return _epochs(self, [minibatches] * self.config.num_epochs)


@misconception(
    "PPOTrainer.optimise",
    why="each minibatch is repeated before the next one comes (B1 B1 B2 B2): an epoch passes over all rows once",
    read=EPOCHS,
)
def each_minibatch_repeated(self, buffer):
    minibatches = buffer.minibatches(self.config.minibatch_size, self.shuffling)
    return _epochs(self, [[one] * self.config.num_epochs for one in minibatches])


@misconception(
    "PPOTrainer.optimise",
    why="one epoch only: config.num_epochs passes are made over the same experience",
    read=EPOCHS,
)
def one_epoch_only(self, buffer):
    return _epochs(self, [buffer.minibatches(self.config.minibatch_size, self.shuffling)])


@misconception(
    "PPOTrainer.optimise",
    why="the *number* of minibatches is passed where their size is meant: that is config.minibatch_size",
    read=EPOCHS,
)
def number_taken_for_size(self, buffer):
    size = self.config.num_minibatches
    return _epochs(self, (buffer.minibatches(size, self.shuffling) for _ in range(self.config.num_epochs)))


@misconception(
    "PPOTrainer.optimise",
    why="shuffled by torch's global generator: with self.shuffling a run can be repeated, and resumed",
    read=EPOCHS,
)
def shuffled_with_the_global_generator(self, buffer):
    return _epochs(self, (buffer.minibatches(self.config.minibatch_size) for _ in range(self.config.num_epochs)))


@misconception(
    "PPOTrainer.optimise",
    why="the rows of each minibatch are drawn with replacement: in an epoch every row comes exactly once",
    read=EPOCHS,
)
def rows_drawn_with_replacement(self, buffer):
    (rows,) = buffer.minibatches(len(buffer), torch.Generator().manual_seed(0))
    size = self.config.minibatch_size

    def epoch():
        for first in range(0, len(rows), size):
            yield rows.rows(torch.randint(len(rows), (min(size, len(rows) - first),), generator=self.shuffling))

    return _epochs(self, (epoch() for _ in range(self.config.num_epochs)))


def _fresh(self, buffer):
    return (buffer.minibatches(self.config.minibatch_size, self.shuffling) for _ in range(self.config.num_epochs))


def _epochs(self, epochs, merge=_merge, leaves=lambda kl, limit: kl > limit, leaves_all=True, counts_last=True):
    steps, limit = [], self.config.max_update_kl
    for epoch in epochs:
        for minibatch in epoch:
            steps.append(self.optimiser_step(minibatch))
            if limit is not None and leaves(steps[-1]["approx_kl"], limit):
                if leaves_all:
                    return merge(steps if counts_last or len(steps) == 1 else steps[:-1])
                break
    return merge(steps)


@misconception(
    "PPOTrainer.optimise",
    why="config.max_update_kl is never looked at: the epochs go on although the policy has moved far enough",
    read=EPOCHS,
)
def never_stops_early(self, buffer):
    return _epochs(self, _fresh(self, buffer), leaves=lambda kl, limit: False)


@misconception(
    "PPOTrainer.optimise",
    why="the mean approx_kl so far is asked: small first steps hide a large one; look at the last step's alone",
    read=EPOCHS,
)
def stops_by_the_mean_so_far(self, buffer):
    seen = []

    def leaves(kl, limit):
        seen.append(kl)
        return sum(seen) / len(seen) > limit

    return _epochs(self, _fresh(self, buffer), leaves=leaves)


@misconception(
    "PPOTrainer.optimise",
    why="break leaves only the present epoch, and the next one begins: the whole update has to end",
    read=EPOCHS,
)
def only_this_epoch_is_left(self, buffer):
    return _epochs(self, _fresh(self, buffer), leaves_all=False)


@misconception(
    "PPOTrainer.optimise",
    why="the step that went too far is left out of the statistics, so nobody sees why the update ended",
    read=EPOCHS,
)
def last_step_not_counted(self, buffer):
    return _epochs(self, _fresh(self, buffer), counts_last=False)


@misconception(
    "PPOTrainer.optimise",
    why="stops when approx_kl equals the limit; it has to exceed it",
    read=EPOCHS,
)
def stops_at_the_limit(self, buffer):
    return _epochs(self, _fresh(self, buffer), leaves=lambda kl, limit: kl >= limit)


@misconception(
    "PPOTrainer.optimise",
    why="the statistics of the last step stand for all: report means over the update's steps",
    read=EPOCHS,
)
def statistics_of_the_last_step(self, buffer):
    return _epochs(
        self,
        _fresh(self, buffer),
        merge=lambda steps: {
            **steps[-1],
            "first_ratio_max": steps[0]["ratio_max"],
            "optimiser_steps": float(len(steps)),
        },
    )


@misconception(
    "PPOTrainer.optimise",
    why="ratio_max is averaged over the steps: the largest ratio of an update is the largest of its steps",
    read=EPOCHS,
)
def largest_ratio_of_steps_averaged(self, buffer):
    def merge(steps):
        mean = sum(step["ratio_max"] for step in steps) / len(steps)
        return {**_merge(steps), "ratio_max": mean}

    return _epochs(self, _fresh(self, buffer), merge=merge)


@misconception(
    "PPOTrainer.optimise",
    why="first_ratio_max is taken from all steps: it is the first step's alone, which has to be 1",
    read=EPOCHS,
)
def first_ratio_of_all_steps(self, buffer):
    return _epochs(
        self,
        _fresh(self, buffer),
        merge=lambda steps: {**_merge(steps), "first_ratio_max": max(step["ratio_max"] for step in steps)},
    )


# training_step


def _update(
    self,
    batch,
    *,
    prepare=lambda trainer, one: (
        replace(one, advantages=masked_whiten(one.advantages, one.mask)) if trainer.config.whiten_advantages else one
    ),
    price=lambda metrics, experience: (metrics["kl"], len(experience)),
    clear=True,
    rate="before",
    counts=True,
    first=lambda trainer: None,
    buffer=None,
):
    """The reference's update with some parts replaced."""
    first(self)
    experience = self._collect(batch)
    metrics = self._rollout_metrics(experience)
    buffer = ExperienceBuffer() if buffer is None else buffer
    buffer.append(prepare(self, experience))
    if rate == "before":
        self._set_learning_rate()
    metrics |= self.optimise(buffer)
    if rate == "after":
        self._set_learning_rate()
    if clear:
        buffer.clear()
    if price:
        self.kl_controller.update(*price(metrics, experience))
    if counts:
        self.updates_done += 1
    return metrics


@misconception(
    "PPOTrainer.training_step",
    why="returns are made again from whitened advantages: the critic's targets then have the wrong scale",
    read=UPDATE,
)
def returns_from_whitened_advantages(self, batch):
    def prepare(trainer, one):
        white = masked_whiten(one.advantages, one.mask)
        return replace(one, advantages=white, returns=(white + one.values).masked_fill(~one.mask, 0.0))

    return _update(self, batch, prepare=prepare)


@misconception(
    "PPOTrainer.training_step",
    why="the advantages are never whitened; config.whiten_advantages asks for it",
    read=UPDATE,
)
def advantages_not_whitened(self, batch):
    return _update(self, batch, prepare=lambda trainer, one: one)


@misconception(
    "PPOTrainer.training_step",
    why="whitened whatever config.whiten_advantages says",
    read=UPDATE,
)
def whitened_always(self, batch):
    return _update(
        self,
        batch,
        prepare=lambda trainer, one: replace(one, advantages=masked_whiten(one.advantages, one.mask)),
    )


@misconception(
    "PPOTrainer.training_step",
    why="the padding takes part in mean and variance: whiten over the real tokens only",
    read=UPDATE,
)
def whitened_over_padding(self, batch):
    def prepare(trainer, one):
        if not trainer.config.whiten_advantages:
            return one
        white = (one.advantages - one.advantages.mean()) / (one.advantages.std() + 1e-8)
        return replace(one, advantages=white.masked_fill(~one.mask, 0.0))

    return _update(self, batch, prepare=prepare)


@misconception(
    "PPOTrainer.training_step",
    why="each response is whitened by itself, so that no response is better than another: whiten the whole rollout",
    read=UPDATE,
)
def every_response_whitened_alone(self, batch):
    def prepare(trainer, one):
        if not trainer.config.whiten_advantages:
            return one
        pairs = zip(one.advantages.split(1), one.mask.split(1), strict=True)
        return replace(one, advantages=torch.cat([masked_whiten(row, real) for row, real in pairs]))

    return _update(self, batch, prepare=prepare)


@misconception(
    "PPOTrainer.training_step",
    why="scaled but not centred: whitened advantages have mean 0",
    read=UPDATE,
)
def whitened_around_the_old_mean(self, batch):
    def prepare(trainer, one):
        if not trainer.config.whiten_advantages:
            return one
        return replace(one, advantages=masked_whiten(one.advantages, one.mask, shift_mean=False))

    return _update(self, batch, prepare=prepare)


@misconception(
    "PPOTrainer.training_step",
    why="the controller is fed with approx_kl, the movement of one update: it steers the KL from the reference",
    read=UPDATE,
)
def controller_fed_with_approx_kl(self, batch):
    return _update(self, batch, price=lambda metrics, experience: (metrics["approx_kl"], len(experience)))


@misconception(
    "PPOTrainer.training_step",
    why="the controller is told the number of tokens: its horizon counts responses",
    read=UPDATE,
)
def controller_told_the_tokens(self, batch):
    return _update(self, batch, price=lambda metrics, experience: (metrics["kl"], int(experience.mask.sum())))


@misconception(
    "PPOTrainer.training_step",
    why="the controller gets the KL of a token; its target is that of a whole response, the sum over its tokens",
    read=UPDATE,
)
def controller_fed_with_kl_of_a_token(self, batch):
    return _update(
        self,
        batch,
        price=lambda metrics, experience: (metrics["kl"] / metrics["response_length"], len(experience)),
    )


@misconception(
    "PPOTrainer.training_step",
    why="the KL price never moves: update the controller once an update",
    read=UPDATE,
)
def controller_never_moved(self, batch):
    return _update(self, batch, price=None)


@misconception(
    "PPOTrainer.training_step",
    why="the price moves before the epochs: it moves when the update is over, by the KL that was seen",
    read=UPDATE,
)
def price_moved_too_early(self, batch):
    def prepare(trainer, one):
        trainer.kl_controller.update(trainer._rollout_metrics(one)["kl"], len(one))
        white = masked_whiten(one.advantages, one.mask)
        return replace(one, advantages=white) if trainer.config.whiten_advantages else one

    return _update(self, batch, prepare=prepare, price=None)


@misconception(
    "PPOTrainer.training_step",
    why="the buffer that the trainer keeps is not cleared: what an old policy wrote is trained on again",
    read=UPDATE,
)
def buffer_not_cleared(self, batch):
    self.buffer = getattr(self, "buffer", ExperienceBuffer())
    return _update(self, batch, clear=False, buffer=self.buffer)


@misconception(
    "PPOTrainer.training_step",
    why="the learning rate is set after the epochs: each update is one late; it belongs before them",
    read=UPDATE,
)
def learning_rate_set_too_late(self, batch):
    return _update(self, batch, rate="after")


@misconception(
    "PPOTrainer.training_step",
    why="the learning rate is never set: it follows its line only if _set_learning_rate runs before the epochs",
    read=UPDATE,
)
def learning_rate_stands_still(self, batch):
    return _update(self, batch, rate=None)


@misconception(
    "PPOTrainer.training_step",
    why="updates_done is not counted: learning rate, checkpoints and the end of the run depend on it",
    read=UPDATE,
)
def updates_not_counted(self, batch):
    return _update(self, batch, counts=False)


@misconception(
    "PPOTrainer.training_step",
    why="the metrics of the rollout are lost: return them together with those of optimise",
    read=UPDATE,
)
def rollout_metrics_lost(self, batch):
    metrics = _update(self, batch)
    kept = ("score", "kl", "kl_coef", "response_length", "stopped_share", "explained_variance")
    return {name: value for name, value in metrics.items() if name not in kept}


@misconception(
    "PPOTrainer.training_step",
    why="the reference is refreshed with the policy at each update: in RLHF it stays the SFT model for the whole run",
    read=UPDATE,
)
def reference_refreshed(self, batch):
    def first(trainer):
        trainer.ref_model = make_reference(trainer.policy)

    return _update(self, batch, first=first)


@misconception(
    "PPOTrainer.training_step",
    why="the price of the beginning is charged in every rollout: it is self.kl_controller.value that counts",
    read=UPDATE,
)
def rollout_at_the_price_of_the_beginning(self, batch):
    def collect(prompts):
        return collect_experience(
            self.accelerator.unwrap_model(self.model),
            self.ref_model,
            self.score,
            *self._encode(prompts),
            self.config,
            self.config.kl_coef,
            self.sampling,
        )

    self._collect = collect
    return _update(self, batch)


# train


def _run(
    self,
    prompts,
    on_update,
    *,
    updates=None,
    take=lambda trainer, available: trainer.prompt_queue.take(trainer.config.batch_size, available),
    keep=lambda trainer, metrics: trainer.history.append(metrics),
    writes=True,
    number=lambda trainer, round_: trainer.updates_done,
    call_first=False,
    log_last=False,
):
    """The reference's loop with some parts replaced."""
    updates = range(self.updates_done, self.config.num_updates) if updates is None else updates
    with RunLog(self.config.log_dir if writes else None, self.history) as log:
        for round_, _ in enumerate(updates):
            numbers = take(self, len(prompts))
            metrics = self.training_step([prompts[one] for one in numbers])
            if call_first and on_update is not None:
                on_update(self)
            keep(self, metrics)
            if not log_last:
                log.write(number(self, round_), metrics)
            if not call_first and on_update is not None:
                on_update(self)
            if log_last:
                log.write(number(self, round_), metrics)
    return self.history


@misconception(
    "PPOTrainer.train",
    why="a resumed run does all its updates again: only those that are left, from self.updates_done on",
    read=TRAIN,
)
def starts_again_from_update_0(self, prompts, on_update=None):
    return _run(self, prompts, on_update, updates=range(self.config.num_updates))


@misconception("PPOTrainer.train", why="one update too few: the last one is config.num_updates - 1, from 0", read=TRAIN)
def one_update_too_few(self, prompts, on_update=None):
    return _run(self, prompts, on_update, updates=range(self.updates_done, self.config.num_updates - 1))


@misconception(
    "PPOTrainer.train",
    why="prompts are drawn with replacement: each is to be used once before any comes again",
    read=TRAIN,
)
def prompts_drawn_with_replacement(self, prompts, on_update=None):
    def take(trainer, available):
        return torch.randint(available, (trainer.config.batch_size,), generator=trainer.prompt_queue.generator).tolist()

    return _run(self, prompts, on_update, take=take)


@misconception(
    "PPOTrainer.train",
    why="the prompts come in the order of the list; the queue deals them out shuffled",
    read=TRAIN,
)
def prompts_in_their_order(self, prompts, on_update=None):
    def take(trainer, available):
        size = trainer.config.batch_size
        return [one % available for one in range(trainer.updates_done * size, (trainer.updates_done + 1) * size)]

    return _run(self, prompts, on_update, take=take)


@misconception(
    "PPOTrainer.train",
    why="the first batch_size prompts are used in every update: take the next ones from self.prompt_queue",
    read=TRAIN,
)
def always_the_first_prompts(self, prompts, on_update=None):
    return _run(self, prompts, on_update, take=lambda trainer, available: range(trainer.config.batch_size))


@misconception(
    "PPOTrainer.train",
    why="a new queue in every update deals out the same prompts again: keep to self.prompt_queue",
    read=TRAIN,
)
def new_queue_in_every_update(self, prompts, on_update=None):
    return _run(
        self,
        prompts,
        on_update,
        take=lambda trainer, available: PromptQueue(trainer.config.seed).take(trainer.config.batch_size, available),
    )


@misconception(
    "PPOTrainer.train",
    why="on_update runs before the metrics are in self.history, so it evaluates and saves without them",
    read=TRAIN,
)
def on_update_before_the_history(self, prompts, on_update=None):
    return _run(self, prompts, on_update, call_first=True)


@misconception(
    "PPOTrainer.train",
    why="on_update runs before log.write: a run that has diverged is saved before the checks can stop it",
    read=TRAIN,
)
def on_update_before_the_log(self, prompts, on_update=None):
    return _run(self, prompts, on_update, log_last=True)


@misconception("PPOTrainer.train", why="on_update is never called: after each update, with the trainer", read=TRAIN)
def on_update_never_called(self, prompts, on_update=None):
    return _run(self, prompts, None)


@misconception(
    "PPOTrainer.train",
    why="on_update is called once, at the end: it is to be called after each update",
    read=TRAIN,
)
def on_update_at_the_end_only(self, prompts, on_update=None):
    history = _run(self, prompts, None)
    if on_update is not None:
        on_update(self)
    return history


@misconception(
    "PPOTrainer.train",
    why="history begins anew: that of the updates before the checkpoint is lost",
    read=TRAIN,
)
def history_begins_anew(self, prompts, on_update=None):
    self.history = []
    return _run(self, prompts, on_update)


@misconception(
    "PPOTrainer.train",
    why="the metrics reach self.history only when the run is finished: an interrupted run has nothing",
    read=TRAIN,
)
def history_kept_at_the_end_only(self, prompts, on_update=None):
    found = []
    _run(self, prompts, on_update, keep=lambda trainer, metrics: found.append(metrics))
    self.history.extend(found)
    return self.history


@misconception(
    "PPOTrainer.train",
    why="only the metrics of the last update are kept: append them all to self.history",
    read=TRAIN,
)
def history_of_the_last_update(self, prompts, on_update=None):
    def keep(trainer, metrics):
        trainer.history[:] = [metrics]

    return _run(self, prompts, on_update, keep=keep)


@misconception("PPOTrainer.train", why="nothing is written although config.log_dir is set", read=TRAIN)
def log_dir_ignored(self, prompts, on_update=None):
    return _run(self, prompts, on_update, writes=False)


@misconception(
    "PPOTrainer.train",
    why="the log's numbers begin again in a resumed run, and its curves lie over the old ones",
    read=TRAIN,
)
def log_counts_from_the_resume(self, prompts, on_update=None):
    return _run(self, prompts, on_update, number=lambda trainer, round_: round_ + 1)


@misconception(
    "PPOTrainer.train",
    why="the log's first update is number 1, as updates_done counts them and as checkpoints are named",
    read=TRAIN,
)
def log_counts_from_0(self, prompts, on_update=None):
    return _run(self, prompts, on_update, number=lambda trainer, round_: trainer.updates_done - 1)


# save_checkpoint


def _save(self, directory, change=lambda trainer, state: state, name=CHECKPOINT_FILE, move=os.replace):
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = directory / (name + ".unfinished")
    torch.save(change(self, self._state()), unfinished)
    move(unfinished, directory / name)


@misconception(
    "PPOTrainer.save_checkpoint",
    why="written straight over the old file: an interrupted write leaves no checkpoint at all; write beside, then move",
    read=SAVE,
)
def written_over_the_old_one(self, directory):
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    torch.save(self._state(), directory / CHECKPOINT_FILE)


@misconception(
    "PPOTrainer.save_checkpoint",
    why="the old checkpoint is deleted before the new one is whole; os.replace does both at once",
    read=SAVE,
)
def old_one_deleted_first(self, directory):
    shutil.rmtree(directory, ignore_errors=True)
    _save(self, directory)


@misconception(
    "PPOTrainer.save_checkpoint",
    why="the old checkpoint is deleted before the new one has its name: a stop between the two leaves none; os.replace",
    read=SAVE,
)
def old_one_deleted_before_the_move(self, directory):
    def move(unfinished, target):
        Path(target).unlink(missing_ok=True)
        os.replace(unfinished, target)

    _save(self, directory, move=move)


@misconception(
    "PPOTrainer.save_checkpoint",
    why="the unfinished file lies in another folder: on another disk it could not be moved at once; write it beside",
    read=SAVE,
)
def written_in_another_folder(self, directory):
    Path(directory).mkdir(parents=True, exist_ok=True)
    unfinished = Path(CHECKPOINT_FILE + ".unfinished")
    torch.save(self._state(), unfinished)
    os.replace(unfinished, Path(directory) / CHECKPOINT_FILE)


@misconception(
    "PPOTrainer.save_checkpoint",
    why="an older checkpoint is kept: a run would be resumed from its first save",
    read=SAVE,
)
def first_checkpoint_kept(self, directory):
    if not (Path(directory) / CHECKPOINT_FILE).exists():
        _save(self, directory)


@misconception(
    "PPOTrainer.save_checkpoint",
    why="the OSError is swallowed: the run goes on for days, and nobody knows that nothing is saved; let it through",
    read=SAVE,
)
def disk_errors_swallowed(self, directory):
    with suppress(OSError):
        _save(self, directory)


@misconception(
    "PPOTrainer.save_checkpoint",
    why="self.model.eval() before saving, and the training goes on in evaluation mode; saving needs no mode",
    read=SAVE,
)
def saved_in_evaluation_mode(self, directory):
    self.model.eval()
    _save(self, directory)


@misconception(
    "PPOTrainer.save_checkpoint",
    why="the directory is not created; mkdir(parents=True, exist_ok=True)",
    read=SAVE,
)
def directory_not_created(self, directory):
    unfinished = Path(directory) / (CHECKPOINT_FILE + ".unfinished")
    torch.save(self._state(), unfinished)
    os.replace(unfinished, Path(directory) / CHECKPOINT_FILE)


@misconception(
    "PPOTrainer.save_checkpoint",
    why="the unfinished file is copied and stays: a reader may take it for a checkpoint; move it",
    read=SAVE,
)
def unfinished_file_left_behind(self, directory):
    _save(self, directory, move=shutil.copyfile)


@misconception(
    "PPOTrainer.save_checkpoint",
    why="saved under another name than CHECKPOINT_FILE, where load_checkpoint does not look",
    read=SAVE,
)
def saved_under_another_name(self, directory):
    _save(self, directory, name="model.pt")


@misconception(
    "PPOTrainer.save_checkpoint",
    why="only the models are saved: a resumed run also needs optimiser, price, prompts, random states and counters",
    read=SAVE,
)
def only_the_models_saved(self, directory):
    _save(self, directory, lambda trainer, state: {"model": state["model"]})


@misconception(
    "PPOTrainer.save_checkpoint",
    why="only the policy is saved: the critic has learned as well, and starts from nothing when it is not kept",
    read=SAVE,
)
def critic_not_saved(self, directory):
    def change(trainer, state):
        fresh = {name: torch.zeros_like(weight) for name, weight in state["model"].items()}
        kept = {name: weight for name, weight in state["model"].items() if name.startswith("policy.")}
        return {**state, "model": {**fresh, **kept}}

    _save(self, directory, change)


@misconception(
    "PPOTrainer.save_checkpoint",
    why="the optimiser's moments are not saved: Adam starts again, with steps that are too large",
    read=SAVE,
)
def optimiser_not_saved(self, directory):
    _save(self, directory, lambda trainer, state: {**state, "optimizer": {**state["optimizer"], "state": {}}})


@misconception(
    "PPOTrainer.save_checkpoint",
    why="the price of the config is saved, not the one that the controller has come to",
    read=SAVE,
)
def price_of_the_config_saved(self, directory):
    _save(self, directory, lambda trainer, state: {**state, "kl_coef": trainer.config.kl_coef})


@misconception(
    "PPOTrainer.save_checkpoint",
    why="the random states are those of a new run: the resumed run would repeat the first updates' numbers",
    read=SAVE,
)
def random_states_not_saved(self, directory):
    def change(trainer, state):
        fresh = torch.Generator().manual_seed(trainer.config.seed).get_state()
        own = dict.fromkeys(("sampling", "shuffling", "prompts"), fresh)
        return {**state, "generators": {**state["generators"], **own}}

    _save(self, directory, change)


# load_checkpoint


GLOBAL = tuple(global_generators())


def _load(
    self,
    directory,
    *,
    skips=(),
    refuses=True,
    explains=True,
    change=lambda trainer, state: None,
    inside=lambda trainer: trainer.accelerator.unwrap_model(trainer.model),
    strict=True,
):
    """The reference's load, leaving some entries as they are."""
    state = read_checkpoint(directory, self._state())
    change(self, state)
    try:
        inside(self).load_state_dict(state["model"], strict=strict)
    except RuntimeError as error:
        if refuses:
            raise (ValueError(str(error)) if explains else error) from None
    if "optimizer" not in skips:
        self.optimizer.load_state_dict(state["optimizer"])
    if "price" not in skips:
        self.kl_controller.value = state["kl_coef"]
    if "waiting" not in skips:
        self.prompt_queue.waiting = state["prompts_waiting"]
    if "counter" not in skips:
        self.updates_done = state["updates_done"]
    if "history" not in skips:
        self.history = state["history"]
    for name, generator in self._generators().items():
        if name not in skips:
            generator.set_state(state["generators"][name])


@misconception(
    "PPOTrainer.load_checkpoint",
    why="only the models are restored: the run goes on with a new optimiser, price, queue and other random numbers",
    read=LOAD,
)
def only_the_models_restored(self, directory):
    everything = ("optimizer", "price", "waiting", "counter", "history", "sampling", "shuffling", "prompts", *GLOBAL)
    _load(self, directory, skips=everything)


@misconception(
    "PPOTrainer.load_checkpoint",
    why="the rest is restored before the models: where those are refused, the run is half another one; models first",
    read=LOAD,
)
def restored_before_the_models(self, directory):
    def change(trainer, state):
        trainer.optimizer.load_state_dict(state["optimizer"])
        trainer.kl_controller.value = state["kl_coef"]
        trainer.prompt_queue.waiting = state["prompts_waiting"]
        trainer.updates_done, trainer.history = state["updates_done"], state["history"]
        for name, generator in trainer._generators().items():
            generator.set_state(state["generators"][name])

    _load(self, directory, change=change)


@misconception(
    "PPOTrainer.load_checkpoint",
    why="the critic keeps its fresh weights: restore both models",
    read=LOAD,
)
def critic_not_restored(self, directory):
    def change(trainer, state):
        own = trainer.accelerator.unwrap_model(trainer.model).state_dict()
        for name in state["model"]:
            if not name.startswith("policy."):
                state["model"][name] = own[name].clone()

    _load(self, directory, change=change)


@misconception(
    "PPOTrainer.load_checkpoint",
    why="the optimiser is not restored: Adam's moments start at 0, and the learning rate is that of a new run",
    read=LOAD,
)
def optimiser_not_restored(self, directory):
    _load(self, directory, skips=("optimizer",))


@misconception(
    "PPOTrainer.load_checkpoint",
    why="the KL price is not restored: it starts again at config.kl_coef",
    read=LOAD,
)
def price_not_restored(self, directory):
    _load(self, directory, skips=("price",))


@misconception(
    "PPOTrainer.load_checkpoint",
    why="the prompts that are waiting are not restored: some come twice, others not at all",
    read=LOAD,
)
def waiting_prompts_not_restored(self, directory):
    _load(self, directory, skips=("waiting",))


@misconception(
    "PPOTrainer.load_checkpoint",
    why="updates_done is not restored: the run does all its updates again, at the first learning rate",
    read=LOAD,
)
def counter_not_restored(self, directory):
    _load(self, directory, skips=("counter",))


@misconception(
    "PPOTrainer.load_checkpoint",
    why="the history is not restored: the metrics before the interruption are lost",
    read=LOAD,
)
def history_not_restored(self, directory):
    _load(self, directory, skips=("history",))


@misconception(
    "PPOTrainer.load_checkpoint",
    why="the history is appended to the trainer's own: loading replaces everything",
    read=LOAD,
)
def history_appended(self, directory):
    before = self.history
    _load(self, directory)
    self.history = before + self.history


@misconception(
    "PPOTrainer.load_checkpoint",
    why="the random states are not restored: the resumed run samples and shuffles other than the undisturbed one",
    read=LOAD,
)
def random_states_not_restored(self, directory):
    fresh = {name: generator.get_state() for name, generator in self._generators().items()}
    _load(self, directory)
    for name, state in fresh.items():
        self._generators()[name].set_state(state)


@misconception(
    "PPOTrainer.load_checkpoint",
    why="only the sampling's random state is restored; shuffling and the queue of prompts have their own",
    read=LOAD,
)
def only_sampling_state_restored(self, directory):
    fresh = {name: generator.get_state() for name, generator in self._generators().items() if name != "sampling"}
    _load(self, directory)
    for name, state in fresh.items():
        self._generators()[name].set_state(state)


@misconception(
    "PPOTrainer.load_checkpoint",
    why="the global generators are not restored, from which a reward function may draw: all of self._generators()",
    read=LOAD,
)
def global_random_states_not_restored(self, directory):
    _load(self, directory, skips=GLOBAL)


@misconception(
    "PPOTrainer.load_checkpoint",
    why="torch's states are restored, Python's and numpy's are not: a reward function may draw from any of them",
    read=LOAD,
)
def only_torch_states_restored(self, directory):
    _load(self, directory, skips=("python", "numpy"))


@misconception(
    "PPOTrainer.load_checkpoint",
    why="self.model may be wrapped, and then calls its weights otherwise; load into unwrap_model(self.model)",
    read=LOAD,
)
def loaded_into_the_wrapper(self, directory):
    _load(self, directory, inside=lambda trainer: trainer.model)


@misconception(
    "PPOTrainer.load_checkpoint",
    why="strict=False: the weights of other models are passed over without a word, and the run starts from new ones",
    read=LOAD,
)
def other_models_taken_silently(self, directory):
    _load(self, directory, strict=False)


@misconception(
    "PPOTrainer.load_checkpoint",
    why="self.model.eval() after loading, and the training goes on in evaluation mode; loading needs no mode",
    read=LOAD,
)
def loaded_in_evaluation_mode(self, directory):
    _load(self, directory)
    self.model.eval()


@misconception(
    "PPOTrainer.load_checkpoint",
    why="torch's RuntimeError comes through: a checkpoint of other shapes is bad input, so a ValueError that says so",
    read=LOAD,
)
def shapes_not_explained(self, directory):
    _load(self, directory, explains=False)


@misconception(
    "PPOTrainer.load_checkpoint",
    why="a new model is put in place: the optimiser still holds the old one's weights, and trains those",
    read=LOAD,
)
def optimiser_holds_the_old_model(self, directory):
    self.model = copy.deepcopy(self.model)
    _load(self, directory)


@misconception(
    "PPOTrainer.load_checkpoint",
    why="the error of another shape is swallowed: half of a checkpoint that does not fit is loaded without a word",
    read=LOAD,
)
def shape_error_swallowed(self, directory):
    _load(self, directory, refuses=False)
