"""A trainer's rollouts, sampled and evaluated in chunks, so that memory does not grow with the batch.

Functions of the lessons are passed in, since what is given imports none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .dropout import check_no_dropout
from .engines import SamplerGap
from .groups import with_group_advantages
from .heads import text_config
from .metrics import rollout_metrics
from .prompts import Prompt, encode_prompts, tokenize
from .rows import Encoded
from .scoring import with_place


@dataclass(frozen=True)
class Blocks:
    """Functions of the lessons of which a rollout is made, by their names there."""

    gather_log_probs: Callable[..., Tensor]
    masked_whiten: Callable[..., Tensor]
    leave_one_out_baseline: Callable[..., Tensor]
    evaluation_mode: Callable[..., Any]
    response_logits: Callable[..., Tensor]
    checked_generation: Callable[..., Any]
    merge_generations: Callable[..., Any]
    evaluate_responses: Callable[..., Any]
    merge_experiences: Callable[..., Any]
    with_rewards_whitened: Callable[..., Any]


class Collector:
    """Collects the experience of one update after another.

    Args:
        trainer: whose models, settings, sampler and random state it uses, as they are at each call.
        blocks: the lessons' functions.

    Attributes:
        gap: how far a sampler was from the policy in the last rollout.
        is_measured: whether the first rollout has found the model without dropout.
    """

    def __init__(self, trainer: Any, blocks: Blocks) -> None:
        self.trainer, self.blocks = trainer, blocks
        self.gap = SamplerGap(trainer.config.importance_cap)
        self.is_measured = False

    def collect(self, prompts: Sequence[Prompt]) -> Any:
        """Lesson 8's `Experience`: a response to each prompt, evaluated, ready for `ExperienceBuffer`."""
        prompts = tokenize(prompts, self.trainer.tokenizer)  # once, for both
        return self.compared(self.evaluate(self.generate(prompts), prompts))

    def generate(self, prompts: Sequence[Prompt]) -> Any:
        """Lesson 8's `Generation`, by the trainer's sampler where it has one.

        Raises:
            ValueError: the model is random in train mode; asked once, before the first rollout.
        """
        trainer, config = self.trainer, self.trainer.config
        sample = trainer.generate_responses if trainer.sampler is None else self._sample
        with trainer.accelerator.autocast():  # the precision that the training passes have; else no first ratio is 1
            if not self.is_measured:
                model = trainer.accelerator.unwrap_model(trainer.model)
                check_no_dropout(model, config, trainer.accelerator.device)
                self.is_measured = True
            parts = [sample(prompts[rows]) for rows in self.chunks(len(prompts))]
            generation = parts[0] if len(parts) == 1 else self.blocks.merge_generations(parts, config.pad_token_id)
            return self._recomputed(generation, prompts) if config.recompute_log_probs else generation

    def evaluate(self, generation: Any, prompts: Sequence[Prompt]) -> Any:
        """Let reference, critic and reward model read sampled responses, each once, and make rewards and advantages."""
        config = self.trainer.config
        if len(self.chunks(len(prompts))) == 1:
            return self.evaluate_chunks(generation, prompts, config.whiten_rewards)
        return self.whitened(self.evaluate_chunks(generation, prompts), self.blocks.masked_whiten)

    def evaluate_chunks(self, generation: Any, prompts: Sequence[Prompt], whiten_rewards: bool = False) -> Any:
        """The same without what takes all rows: a chunk's rewards can be whitened only where it is the rollout."""
        trainer = self.trainer
        config = replace(trainer.config, whiten_rewards=whiten_rewards)
        prompts = tokenize(prompts, trainer.tokenizer)
        with trainer.accelerator.autocast():  # the precision that the training passes have
            parts = [
                self.blocks.evaluate_responses(
                    trainer.accelerator.unwrap_model(trainer.model),
                    trainer.ref_model,
                    self.scorer(prompts[rows]),
                    *self.encode(prompts[rows]),
                    type(generation)(*(tensor[rows] for tensor in generation)),
                    config,
                    self.kl_in_rewards,
                )
                for rows in self.chunks(len(prompts))
            ]
        return parts[0] if len(parts) == 1 else self.blocks.merge_experiences(parts)

    def scorer(self, prompts: Sequence[Any]) -> Callable[..., Tensor]:
        """The trainer's, which reads these prompts as they were written where they came as rows."""
        is_written = any(isinstance(prompt, Encoded) for prompt in prompts)
        return partial(self.trainer.score, prompts=prompts) if is_written else self.trainer.score

    def whitened(self, experience: Any, whiten: Callable[..., Tensor]) -> Any:
        """With whitened rewards, if the config says so, and the advantages of those.

        Args:
            experience: of `evaluate_chunks`.
            whiten: `masked_whiten`, or a function that whitens over the tokens of all processes.
        """
        config = self.trainer.config
        return self.blocks.with_rewards_whitened(experience, config, whiten) if config.whiten_rewards else experience

    def compared(self, experience: Any) -> Any:
        """Advantages of groups in place of the critic's, where the config says so; and how far a sampler is."""
        self.gap.measure(experience)
        if self.gap.log_probs is not None:
            experience = replace(experience, sampler_log_probs=self.gap.log_probs.to(experience.mask.device))
        if self.trainer.config.advantages == "gae":
            return experience
        return with_group_advantages(experience, self.trainer.config, self.blocks.leave_one_out_baseline)

    def metrics(self, experience: Any) -> dict[str, float]:
        """Of the rollout, before anything is learned from it."""
        trainer, config = self.trainer, self.trainer.config
        now = trainer.kl_controller.value, trainer.updates_done
        found = rollout_metrics(experience, config, *now, trainer.schedule) | self.gap.metrics
        is_other = trainer.sampler is not None and not config.recompute_log_probs
        scaler = trainer.accelerator.scaler  # of float16's gradients, or none
        return (
            found | ({"own_sampler": 1.0} if is_other else {}) | ({"loss_scale": scaler.get_scale()} if scaler else {})
        )

    @property
    def policy(self) -> Any:
        """The language model in training, without any wrapper of Accelerate."""
        return self.trainer.accelerator.unwrap_model(self.trainer.model).policy

    def encode(self, prompts: Sequence[Prompt]) -> tuple[Tensor, Tensor]:
        """Token ids and attention mask (B, P), padded on the left, where the models are."""
        trainer = self.trainer
        input_ids, attention_mask = encode_prompts(prompts, trainer.tokenizer, trainer.config.pad_token_id)
        return input_ids.to(trainer.accelerator.device), attention_mask.to(trainer.accelerator.device)

    def chunks(self, count: int) -> list[slice]:
        """Rows that are sampled and evaluated at once."""
        size = self.trainer.config.micro_rollout_batch_size or count
        return [slice(start, start + size) for start in range(0, count, size)]

    @property
    def kl_in_rewards(self) -> float:
        """The KL coefficient of this rollout's rewards."""
        return self.trainer.kl_controller.value if self.trainer.config.kl_in == "reward" else 0.0

    def _sample(self, prompts: Sequence[Prompt]) -> Any:
        trainer, config = self.trainer, self.trainer.config
        options = {**config.sampling(), "generator": trainer.sampling}
        try:
            with self.blocks.evaluation_mode(self.policy):
                answer = trainer.sampler(self.policy, *self.encode(prompts), **options)
        except (TypeError, AttributeError, LookupError) as error:
            call = f"(policy, input_ids, attention_mask, {', '.join(options)})"
            raise RuntimeError(f"expected a sampler of {call}, got {with_place(error)}") from error
        known = getattr(text_config(self.policy), "vocab_size", None)
        checked = self.blocks.checked_generation(answer, len(prompts), config, known)
        return checked._make(tensor.to(trainer.accelerator.device) for tensor in checked)

    @torch.no_grad()
    def _recomputed(self, generation: Any, prompts: Sequence[Prompt]) -> Any:
        """With the policy's own log-probabilities; the sampler's are kept, to say how far they are from them."""
        own, policy = [], self.policy
        with self.blocks.evaluation_mode(policy):
            for part in self.chunks(len(prompts)):
                input_ids, attention_mask = self.encode(prompts[part])
                responses, _, mask = (tensor[part] for tensor in generation)
                rows = torch.cat([input_ids, responses], dim=1), torch.cat([attention_mask, mask], dim=1)
                logits = self.blocks.response_logits(policy, *rows, input_ids.shape[1])
                log_probs = self.blocks.gather_log_probs(logits, responses, self.trainer.config.temperature)
                own.append(log_probs.masked_fill(~mask, 0.0))
        self.gap.log_probs = generation.log_probs
        return generation._replace(log_probs=torch.cat(own))


class WithCollector:
    """A trainer's side of its collector: the two names that lesson 9 calls."""

    collector: Collector

    def _collect(self, prompts: Sequence[Prompt]) -> Any:
        return self.collector.collect(prompts)

    def _rollout_metrics(self, experience: Any) -> dict[str, float]:
        return self.collector.metrics(experience)
