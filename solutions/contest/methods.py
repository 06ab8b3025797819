"""The competitors: a copy of the SFT model goes in, a tuned policy comes out. The loop of some is in `loop.py`."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tiny_models.preferences import Preference

from ..demo.run import ppo_config
from ..demo.stages import encode_preferences
from ..lesson01_masked_sequences import response_log_probs
from ..lesson02_reward_model import PreferenceBatch
from ..lesson07_actor_critic import PolicyAndValue, critic_from_reward_model, make_reference
from ..lesson09_ppo_trainer import PPOTrainer
from ..lesson12_capstone import SFTConfig, encode_demonstrations, train_sft
from ..lesson13_after_ppo import dpo_loss
from . import loop
from .loop import Job, Rollout, Trained, World, copy_of_sft, sample, step

RESPONSES = loop.UPDATES * loop.BATCH
"""Sampled by every method that samples: the budget."""
PAIRS, PAIRS_IN_A_BATCH = RESPONSES // 2, 32
"""As many pairs as the budget samples."""
ROUNDS = 4
"""Of rejection-sampling fine-tuning: each samples with the policy of the round before."""


def ppo(world: World, job: Job) -> Trained:
    """Train with lesson 9's trainer; the critic starts as the reward model."""
    config = replace(
        ppo_config(loop.PRESET, world.tokenizer, world.seed, kl_coef=job.coefficient),
        num_updates=loop.UPDATES,
        num_minibatches=loop.MINIBATCHES,
        num_epochs=job.epochs,
        learning_rate=job.learning_rate,
    )
    model = PolicyAndValue(copy_of_sft(world), critic_from_reward_model(world.reward_model))
    trainer = PPOTrainer(model, world.reward_model, make_reference(world.sft), config, world.tokenizer)
    tokens = 0
    for number in range(loop.UPDATES):
        metrics = trainer.training_step(world.prompts[number * loop.BATCH : (number + 1) * loop.BATCH])
        tokens += round(metrics["response_tokens"])
    return tokens, trainer.policy


def dpo(pairs_of: Callable[[World], tuple[list[Preference], int]], world: World, job: Job) -> Trained:
    """Train with lesson 13's loss on pairs, in minibatches; the reference reads all of them once."""
    preferences, tokens = pairs_of(world)
    pairs, policy = encode_preferences(world.tokenizer, preferences), copy_of_sft(world).eval()
    with torch.no_grad():
        ref_chosen, ref_rejected = _sums(world.sft, pairs)
    optimizer, shuffling = loop.make_optimizer(policy), world.generator()
    orders = [torch.randperm(len(preferences), generator=shuffling) for _ in range(job.epochs)]
    batches = [index for order in orders for index in order.split(PAIRS_IN_A_BATCH)]
    for number, index in enumerate(batches):
        chosen, rejected = _sums(policy, pairs.rows(index))
        loss = dpo_loss(chosen, rejected, ref_chosen[index], ref_rejected[index], job.coefficient)
        loop.set_learning_rate(optimizer, job, number, number / len(batches))
        step(loss, policy, optimizer)
    return tokens, policy


def sampled_pairs(world: World) -> tuple[list[Preference], int]:
    """Sample two SFT responses to each of PAIRS prompts; the proxy chooses, and equal scores are dropped.

    Returns:
        Pairs, and how many tokens were sampled for them.
    """
    sampling, prompts = world.generator(), world.prompts[:PAIRS]
    one, other = (sample(world, world.sft, prompts, sampling) for _ in range(2))
    rows = zip(prompts, texts_of(world, one), texts_of(world, other), (one.scores - other.scores).tolist(), strict=True)
    preferences = [
        Preference(prompt, *((first, second) if gap > 0 else (second, first)))
        for prompt, first, second, gap in rows
        if gap
    ]
    return preferences, int(one.mask.sum() + other.mask.sum())


def rejection_sampling(world: World, job: Job) -> Trained:
    """Sample n responses to each prompt, keep the best by proxy, imitate it, and begin again."""
    policy, n, per_round = copy_of_sft(world).eval(), int(job.coefficient), RESPONSES // ROUNDS
    sampling, tokens = world.generator(), 0
    for number in range(ROUNDS):
        first = number * per_round // n
        prompts = [one for one in world.prompts[first : first + per_round // n] for _ in range(n)]
        rollout = sample(world, policy, prompts, sampling)
        tokens += int(rollout.mask.sum())
        best = rollout.scores.view(-1, n).argmax(dim=1) + torch.arange(0, len(prompts), n)
        data = encode_demonstrations(world.tokenizer, prompts[::n], texts_of(world, rollout.rows(best)))
        for epoch in range(job.epochs):
            train_sft(policy, data, SFTConfig(job.learning_rate, 16, seed=world.seed + epoch))
    return tokens, policy


def texts_of(world: World, rollout: Rollout) -> list[str]:
    return world.tokenizer.batch_decode(rollout.responses, skip_special_tokens=True)


def _sums(policy: Any, pairs: PreferenceBatch) -> tuple[Tensor, ...]:
    """Log-probabilities of the whole chosen and rejected texts; in DPO's margin the prompt's tokens cancel."""
    ids = torch.cat([pairs.chosen_ids, pairs.rejected_ids])
    visible = torch.cat([pairs.chosen_mask, pairs.rejected_mask])
    logits = policy(input_ids=ids, attention_mask=visible, use_cache=False).logits
    found = response_log_probs(logits, ids, prompt_length=1).masked_fill(~visible[:, 1:], 0.0).sum(dim=1)
    return found.chunk(2)


@dataclass(frozen=True)
class Method:
    """One competitor, with the learning rate and the epochs that the tuning chose."""

    run: Callable[[World, Job], Trained]
    coefficients: tuple[float, ...]
    """A curve's five; the third one is that of the tuning."""
    learning_rate: float
    epochs: int

    @property
    def middle(self) -> float:
        return self.coefficients[2]


REWARD_COEFS, LOSS_COEFS, DR_COEFS = (0.02, 0.05, 0.1, 0.2, 0.4), (0.1, 0.2, 0.4, 0.8, 1.6), (0.05, 0.1, 0.2, 0.4, 0.8)
BETAS, KEPT_OF = (0.1, 0.2, 0.5, 1.0, 2.0), (2.0, 4.0, 8.0, 16.0, 32.0)
METHODS: dict[str, Method] = {
    "PPO": Method(ppo, REWARD_COEFS, 4e-3, 2),
    "RLOO": Method(partial(loop.train, loop.rloo_advantages, loop.rloo_loss), REWARD_COEFS, 4e-3, 2),
    "GRPO": Method(partial(loop.train, loop.grpo_advantages, loop.grpo_loss), LOSS_COEFS, 4e-3, 1),
    "Dr. GRPO": Method(partial(loop.train, loop.dr_grpo_advantages, loop.dr_grpo_loss), DR_COEFS, 2e-3, 1),
    "DAPO": Method(partial(loop.train, loop.grpo_advantages, loop.dapo_loss), LOSS_COEFS, 8e-3, 2),
    "DPO, all pairs": Method(partial(dpo, lambda world: (world.pairs, 0)), BETAS, 1e-3, 2),
    "DPO, own pairs": Method(partial(dpo, lambda world: (world.pairs[:PAIRS], 0)), BETAS, 4e-3, 1),
    "DPO, sampled pairs": Method(partial(dpo, sampled_pairs), BETAS, 1e-3, 2),
    "rejection sampling": Method(rejection_sampling, KEPT_OF, 2e-3, 1),
}
