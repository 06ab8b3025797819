"""Lesson 9: the trainer. One update of PPO, in the order of lesson 0, and the method that makes each part of it:

    for each batch of prompts:                                                              training_step
        the policy writes responses and keeps the log-probs of their tokens                 generate_responses
        reference, critic and reward model read them; the reward of each token is
            -kl_coef * (log_probs - ref_log_probs), and the last one also gets the score    compute_rewards
        GAE makes advantages and returns of rewards and values; the advantages are whitened (in training_step)
        for each epoch, for each minibatch:
            for each microbatch: loss, backward; then clip the gradient and step            optimizer_step
                ratio = exp(new log_probs - log_probs)
                loss = -min(ratio A, clip(ratio) A) + value_coef value_loss - entropy_coef entropy   compute_loss
        kl_coef moves towards its target                                                    (in training_step)

Each method stands below those that it calls, so `training_step` comes last of these five. Then come `train`, which
draws the batches, the checkpoints, and helpers, which are given. Prompts become a `Generation`, this an `Experience`,
and minibatches and microbatches are some rows of it, so they are `Experience` as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from tqdm import tqdm

from ppo_by_hand.core.checkpoints import CHECKPOINT_FILE, global_generators, read_checkpoint, state_of
from ppo_by_hand.core.checks import RunLog
from ppo_by_hand.core.config import PPOConfig
from ppo_by_hand.core.optimizer import OptimizerMaker, Schedule, make_optimizer, prepared
from ppo_by_hand.core.processes import check_configuration
from ppo_by_hand.core.texts import Prompt, PromptQueue, RewardFunction, encode_prompts, make_scorer, prepare, tokenize
from ppo_by_hand.core.validate import check_no_dropout, check_parts

from ..lesson01_masked_sequences import gather_log_probs, masked_mean, masked_whiten, token_entropy
from ..lesson04_gae import compute_response_gae
from ..lesson05_ppo_loss import combine_losses, compute_ppo_loss, compute_value_loss, ppo_statistics, value_statistics
from ..lesson06_kl_rewards import AdaptiveKLController, FixedKLController
from ..lesson07_actor_critic import PolicyAndValue, SharedPolicyAndValue, disable_dropout, freeze
from ..lesson08_rollout import (
    Experience,
    ExperienceBuffer,
    Generation,
    checked_sampler,
    evaluate_responses,
    generate,
    merge_experiences,
    merge_generations,
    recompute_log_probs,
    rollout_metrics,
    sampling_options,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class PPOTrainer:
    """Proximal policy optimization of a language model against a reward.

    Args:
        model: actor and critic; trained in place, in train mode and without its dropout; a rollout reads it in eval
            mode.
        reward_model: a module (input_ids, attention_mask) -> (B,), or any Python function
            (prompts, responses) -> numbers.
        ref_model: the frozen reference, or None for a LoRA policy that is its own (`reference_mode`).
        config: every number of the run.
        tokenizer: needed where prompts are texts or the reward is a function.
        sampler: replaces lesson 8's `generate`; it takes the same arguments and returns the same.
        optimizer: makes another one than AdamW of parameter groups: `lambda groups: AdamW(groups, weight_decay=0.01)`.
        schedule: updates done -> factor of the learning rates, instead of a warm-up and a decay to 0.

    Attributes:
        updates_done: int, updates so far, each a rollout and its optimizer steps.
        history: one dict of metrics for each of them.
        steps: the statistics of each optimizer step of the last update, to plot for example `approx_kl` inside it.

    Raises:
        ValueError: a part is not what it should be, or it runs in several processes, which would all do the same work.
    """

    _is_alone = True  # lesson 11's trainer isn't

    def __init__(
        self,
        model: PolicyAndValue | SharedPolicyAndValue,
        reward_model: nn.Module | RewardFunction,
        ref_model: PreTrainedModel | None,
        config: PPOConfig,
        tokenizer: Any = None,
        sampler: Callable[..., Generation] | None = None,
        optimizer: OptimizerMaker | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        check_parts(model, reward_model, ref_model, config)
        self.config, self.tokenizer = config, tokenizer
        self.accelerator = Accelerator()
        check_configuration(self.accelerator, self._is_alone)
        device = self.accelerator.device
        disable_dropout(model)
        self.ref_model = None if ref_model is None else freeze(ref_model.to(device))
        self.reward_model = freeze(reward_model.to(device)) if isinstance(reward_model, nn.Module) else reward_model
        self.score = make_scorer(reward_model, tokenizer)
        self.sampler = None if sampler is None else checked_sampler(sampler, config)
        self.schedule = warm_up_then_decay(config.num_updates) if schedule is None else schedule
        self.model, self.optimizer = prepared(model, make_optimizer(model, config, optimizer), self.accelerator)
        self.model.train()  # where gradient checkpointing acts
        check_no_dropout(self.model, config, self.accelerator)
        self.kl_controller: FixedKLController | AdaptiveKLController = FixedKLController(config.kl_coef)
        if config.kl_target is not None:
            self.kl_controller = AdaptiveKLController(config.kl_coef, config.kl_target, config.kl_horizon)
        self.minibatch_size = -(-config.batch_size // config.num_minibatches)
        self.sampling = torch.Generator(device=device).manual_seed(config.seed)
        self.shuffling = torch.Generator().manual_seed(config.seed)
        self.prompt_queue = PromptQueue(config.seed, config.samples_per_prompt)
        self.updates_done = 0
        self.history: list[dict[str, float]] = []
        self.steps: list[dict[str, float]] = []
        self._parameters = list(self.model.parameters())
        self._unwhitened = replace(config, whiten_rewards=False)

    @property
    def policy(self) -> PreTrainedModel:
        """The language model in training, without any wrapper of Accelerate."""
        policy: PreTrainedModel = self.accelerator.unwrap_model(self.model).policy
        return policy

    def generate_responses(self, prompts: Sequence[Prompt]) -> Generation:
        """Sample a response to each prompt from the current policy, in the precision of the training passes.

        Encode each chunk of the prompts, sample with `self.sampler`, or with lesson 8's `generate` if that is None, and
        merge the chunks, all under `self.accelerator.autocast()`. Both take the policy, the encoded prompts,
        `sampling_options(config)` and the generator `self.sampling`.

        Args:
            prompts: B texts, lists of token ids, or rows with more columns.

        Returns:
            Generation: responses (B, T), their log-probs (B, T) and mask (B, T).

        Raises:
            ValueError: there are no prompts (`self._chunks` raises it), or prompt + response do not fit the context.
        """
        raise NotImplementedError("lesson09: PPOTrainer.generate_responses")

    def compute_rewards(self, responses: Generation, prompts: Sequence[Prompt]) -> Experience:
        """Let reference, critic and reward model read the responses, each once, and make the reward of every token.

        1. evaluate each chunk with lesson 8's `evaluate_responses`, under `self.accelerator.autocast()`, at the KL
           controller's present coefficient and by the settings `self._unwhitened`. With `config.recompute_log_probs`
           it gets the policy's own log-probs (`self._recomputed`); `sampler_log_probs` stay those of `responses`
        2. merge the chunks
        3. with `config.whiten_rewards` whiten the rewards over the whole rollout, keeping their mean

        Args:
            responses: what `generate_responses(prompts)` gave.
            prompts: the same B prompts.

        Returns:
            Experience of B rows: `rewards` (B, T), 0 where masked and without gradient, and all that they are made of.
            Its advantages and returns may be anything, since `training_step` makes them.

        Raises:
            ValueError: the reward model gives anything but one finite number for each response.
        """
        raise NotImplementedError("lesson09: PPOTrainer.compute_rewards")

    def compute_loss(self, batch: Experience) -> tuple[Tensor, dict[str, float]]:
        """Compute the loss of PPO on a batch of experience, and its statistics.

        loss = policy_loss + value_coef * value_loss - entropy_coef * entropy, each a mean over real tokens

        The model is in train mode already; leave it there, where it may checkpoint gradients. Its outputs are float32
        or float64.

        Args:
            batch: experience whose advantages are ready to use (whitened, if configured).

        Returns:
            loss: () scalar with gradients into actor and critic.
            statistics: policy_loss, value_loss, entropy, and those of `ppo_statistics` and `value_statistics`.
        """
        raise NotImplementedError("lesson09: PPOTrainer.compute_loss")

    def optimizer_step(self, minibatch: Experience) -> dict[str, float]:
        """Add up the gradients of the microbatches, clip their norm, step once, clear the gradients.

        Each microbatch has a forward and a backward pass of its own. Its loss is weighted by its share of the
        minibatch's real tokens, so the step does not depend on `micro_batch_size`. Where the mean ratio exceeds
        `config.ratio_threshold`, or is NaN, the step is skipped.

        Args:
            minibatch: rows of the experience. Before the call, and after it, the gradient of each weight is None.

        Returns:
            Statistics of `compute_loss`, token-weighted over the microbatches (`ratio_max`: the largest),
            `grad_norm` before clipping (0 if skipped) and `skipped_share` (1 if skipped).
        """
        raise NotImplementedError("lesson09: PPOTrainer.optimizer_step")

    def training_step(self, batch: Sequence[Prompt]) -> dict[str, float]:
        """Make one update: a rollout on a batch of prompts, then epochs x minibatches of optimizer steps.

        1. `generate_responses`, then `compute_rewards` of them
        2. make advantages and returns of the rewards and values with lesson 4's `compute_response_gae`. With
           `config.critic_lam` the returns are those of that lambda
        3. take the metrics of the rollout (`self._rollout_metrics`), then whiten the advantages over the whole rollout
           if `config.whiten_advantages` says so; the returns stay as they are
        4. set the learning rate of this update; for each epoch, for each minibatch of `self.minibatch_size` rows, in
           a new order from `self.shuffling`: call `optimizer_step`, and keep what it returns in `self.steps`. The
           epochs end at once after a step whose `approx_kl` exceeded `config.max_update_kl` (NaN exceeds nothing)
        5. after all of them: merge their statistics (`_merge`), update the KL coefficient with the KL of the rollout
           and the number of its responses, and count the update

        Args:
            batch: prompts: texts, lists of token ids, or rows with more columns.

        Returns:
            Metrics of the update: those of the rollout, the means over the optimizer steps of their statistics, with
            `ratio_max` the largest, `first_ratio_max` of the first step alone, and `optimizer_steps`, their number.
        """
        raise NotImplementedError("lesson09: PPOTrainer.training_step")

    def train(
        self, prompts: Sequence[Prompt], on_update: Callable[[PPOTrainer], object] | None = None
    ) -> list[dict[str, float]]:
        """Run the updates that are left of `config.num_updates`, drawing prompts without replacement.

        Args:
            prompts: all of the run; each is used once before any comes again, also within one batch.
            on_update: called with the trainer after each update, to evaluate or to save a checkpoint.

        Returns:
            `history`, or a copy: the metrics of every update so far. `history` is kept when the run is interrupted.

        Raises:
            ValueError: the given `prepare` refuses a prompt, or as `training_step`.
            DivergedError: a live check found that nothing more can be learned; `on_update` is not called for it.
        """
        prompts = prepare(prompts, self.tokenizer, self.policy, self.reward_model, self.config)
        self.optimizer.zero_grad(set_to_none=True)  # of a step that was interrupted
        raise NotImplementedError("lesson09: PPOTrainer.train")

    def save_checkpoint(self, directory: str | Path) -> None:
        """Write one file, with all that a resumed run needs; an interrupted write leaves the previous checkpoint whole.

        What it holds is `self._state()`. The learning rate follows from the number of updates, and frozen weights are
        those that the model was loaded with.

        Args:
            directory: created where missing.

        Raises:
            OSError: the directory cannot be written.
        """
        raise NotImplementedError("lesson09: PPOTrainer.save_checkpoint")

    def load_checkpoint(self, directory: str | Path) -> None:
        """Continue where `save_checkpoint` left off: the same numbers as a run that was never interrupted.

        What the checkpoint has replaces what the trainer holds, its history too. The rest stays as it is: the config,
        which `read_checkpoint` compares, and `steps`, which the next update begins anew.

        Args:
            directory: as given to `save_checkpoint`.

        Raises:
            FileNotFoundError: there is no whole checkpoint in the directory.
            ValueError: it is damaged or of another run; the trainer is then as it was.
        """
        state = read_checkpoint(directory, self._state())
        raise NotImplementedError("lesson09: PPOTrainer.load_checkpoint")

    def _chunks(self, prompts: Sequence[Prompt]) -> list[tuple[slice, Sequence[list[int]]]]:
        """The rows that are sampled and evaluated at once, and their token ids, with the columns of each."""
        prompt_ids = tokenize(prompts, self.tokenizer)
        size = self.config.micro_rollout_batch_size or len(prompt_ids)
        starts = range(0, len(prompt_ids), size)
        return [(slice(start, start + size), prompt_ids[start : start + size]) for start in starts]

    def _encode(self, prompt_ids: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        """Token ids and attention mask (B, P), padded on the left, where the models are."""
        input_ids, attention_mask = encode_prompts(prompt_ids, self.tokenizer, self.config.pad_token_id)
        return input_ids.to(self.accelerator.device), attention_mask.to(self.accelerator.device)

    def _recomputed(self, responses: Generation, prompt_ids: Sequence[list[int]]) -> Generation:
        """The same responses with the policy's own log-probs, from one pass over prompt and response."""
        return recompute_log_probs(self.policy, *self._encode(prompt_ids), responses, self.config.temperature)

    def _rollout_metrics(self, experience: Experience) -> dict[str, float]:
        """Metrics of the rollout, and what acts in this update."""
        metrics = rollout_metrics(experience, self.config) | {
            "kl_coef": self.kl_controller.value,
            "learning_rate": self.optimizer.param_groups[0]["initial_lr"] * self.schedule(self.updates_done),
            "max_grad_norm": self.config.max_grad_norm,
        }
        if self.sampler is not None and not self.config.recompute_log_probs:
            metrics["own_sampler"] = 1.0
        return metrics

    def _set_learning_rate(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * self.schedule(self.updates_done)

    def _microbatches(self, minibatch: Experience) -> list[Experience]:
        if self.config.micro_batch_size is None:
            return [minibatch]
        rows = torch.arange(len(minibatch), device=minibatch.mask.device)
        return [minibatch.rows(index) for index in rows.split(self.config.micro_batch_size)]

    def _generators(self) -> dict[str, Any]:
        own = {"sampling": self.sampling, "shuffling": self.shuffling, "prompts": self.prompt_queue.generator}
        return own | global_generators()

    def _state(self) -> dict[str, Any]:
        return state_of(self, self._generators())


def warm_up_then_decay(num_updates: int) -> Schedule:
    """Raise the learning rates over five updates, before which Adam doesn't know the gradients' scale; then to 0."""
    return lambda updates_done: min((updates_done + 1) / 6, 1.0 - updates_done / num_updates)


def _weighted(parts: list[dict[str, float]], weights: list[float]) -> dict[str, float]:
    """Statistics of a minibatch from those of its microbatches: token-weighted means, and the largest ratio."""
    merged = {name: sum(w * part[name] for w, part in zip(weights, parts, strict=True)) for name in parts[0]}
    return merged | {"ratio_max": max(part["ratio_max"] for part in parts)}


def _merge(steps: list[dict[str, float]]) -> dict[str, float]:
    """Statistics of an update from those of its optimizer steps."""
    merged = _weighted(steps, [1 / len(steps)] * len(steps))
    return merged | {"first_ratio_max": steps[0]["ratio_max"], "optimizer_steps": float(len(steps))}
