"""The competitors: a copy of the SFT model goes in, a tuned policy comes out. The loop of some is in `loop.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tiny_models.preferences import Preference

from ..demo.stages import encode_preferences
from ..lesson01_masked_sequences import response_log_probs
from ..lesson02_reward_model import PreferenceBatch
from ..lesson07_actor_critic import PolicyAndValue, critic_from_reward_model, make_reference
from ..lesson09_ppo_trainer import PPOTrainer
from ..lesson12_capstone import SFTConfig, encode_demonstrations, train_sft
from ..lesson13_after_ppo import dpo_loss
from . import loop
from .loop import Rollout, copy_of_sft, make_optimizer, sample, set_learning_rate, step
from .world import BATCH, MAX_UPDATE_KL, MINIBATCHES, RESPONSES, UPDATES, Job, Progress, World

PAIRS, PAIRS_IN_A_BATCH = RESPONSES // 2, 32
"""As many pairs as the budget samples."""
ROUNDS = 4
"""Of rejection-sampling fine-tuning: each samples with the policy of the round before."""


def ppo(world: World, job: Job) -> Progress:
    """Train with lesson 9's trainer; the critic starts as the reward model."""
    config = world.config(
        num_updates=UPDATES,
        batch_size=BATCH,
        num_minibatches=MINIBATCHES,
        max_update_kl=MAX_UPDATE_KL,
        seed=world.seed,
        learning_rate=job.learning_rate,
        num_epochs=job.epochs,
        kl_coef=job.coefficient,
    )
    model = PolicyAndValue(copy_of_sft(world), critic_from_reward_model(world.reward_model))
    trainer = PPOTrainer(model, world.reward_model, make_reference(world.sft), config, world.tokenizer)
    tokens = 0
    for number in range(UPDATES):
        metrics = trainer.training_step(world.prompts[number * BATCH : (number + 1) * BATCH])
        tokens += round(metrics["response_tokens"])
        yield (number + 1) * BATCH, tokens, trainer.policy


def dpo(pairs_of: Callable[[World], tuple[list[Preference], int]], world: World, job: Job) -> Progress:
    """Train with lesson 13's loss on pairs, in minibatches; the reference reads all of them once."""
    preferences, tokens = pairs_of(world)
    pairs, policy = encode_preferences(world.tokenizer, preferences), copy_of_sft(world).eval()
    with torch.no_grad():
        ref_chosen, ref_rejected = _sums(world.sft, pairs)
    optimizer, shuffling = make_optimizer(policy), world.generator()
    orders = [torch.randperm(len(preferences), generator=shuffling) for _ in range(job.epochs)]
    batches = [index for order in orders for index in order.split(PAIRS_IN_A_BATCH)]
    for number, index in enumerate(batches):
        chosen, rejected = _sums(policy, pairs.rows(index))
        loss = dpo_loss(chosen, rejected, ref_chosen[index], ref_rejected[index], job.coefficient)
        set_learning_rate(optimizer, job, number, number / len(batches))
        step(loss, policy, optimizer)
    yield (RESPONSES if tokens else 0), tokens, policy


def all_pairs(world: World) -> tuple[list[Preference], int]:
    """Return the pairs that the reward model learned from, and how many tokens were sampled for it: none."""
    return world.pairs, 0


def own_pairs(world: World) -> tuple[list[Preference], int]:
    """Return as many of these pairs as can be sampled."""
    return world.pairs[:PAIRS], 0


def sampled_pairs(world: World) -> tuple[list[Preference], int]:
    """Sample two SFT responses to each of PAIRS prompts; the proxy chooses, and equal scores are dropped."""
    sampling, prompts = world.generator(), world.prompts[:PAIRS]
    one, other = (sample(world, world.sft, prompts, sampling) for _ in range(2))
    texts = zip(texts_of(world, one), texts_of(world, other), strict=True)
    rows = zip(prompts, texts, one.scores.tolist(), other.scores.tolist(), strict=True)
    preferences = [
        Preference(prompt, *(pair if first > second else pair[::-1]))
        for prompt, pair, first, second in rows
        if first != second
    ]
    return preferences, int(one.mask.sum() + other.mask.sum())


def rejection_sampling(world: World, job: Job) -> Progress:
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
        yield (number + 1) * per_round, tokens, policy


def texts_of(world: World, rollout: Rollout) -> list[str]:
    rows = zip(rollout.responses, rollout.mask, strict=True)
    return [world.tokenizer.decode(row[real], skip_special_tokens=True) for row, real in rows]


def _sums(policy: Any, pairs: PreferenceBatch) -> tuple[Tensor, ...]:
    """Log-probabilities of the whole chosen and rejected texts; in DPO's margin the prompt's tokens cancel."""
    ids = torch.cat([pairs.chosen_ids, pairs.rejected_ids])
    visible = torch.cat([pairs.chosen_mask, pairs.rejected_mask])
    logits = policy(input_ids=ids, attention_mask=visible, use_cache=False).logits
    found = response_log_probs(logits, ids, prompt_length=1).masked_fill(~visible[:, 1:], 0.0).sum(dim=1)
    return found.chunk(2)


@dataclass(frozen=True)
class Method:
    """One competitor."""

    run: Callable[[World, Job], Progress]
    coefficients: tuple[float, ...]
    """A curve's five; the third one is that of the tuning."""
    rates: tuple[float, ...] = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3)
    """Learning rates that the tuning tries, each with 1 and 2 epochs."""

    @property
    def middle(self) -> float:
        return self.coefficients[2]


IN_THE_REWARD, IN_THE_LOSS, NOT_DIVIDED = (
    (0.02, 0.05, 0.1, 0.2, 0.4),
    (0.1, 0.2, 0.4, 0.8, 1.6),
    (0.05, 0.1, 0.2, 0.4, 0.8),
)
BETAS, OF_PAIRS = (0.1, 0.2, 0.5, 1.0, 2.0), (2e-4, 5e-4, 1e-3, 2e-3, 4e-3)
KEPT_OF, OF_IMITATION = (2.0, 4.0, 8.0, 16.0, 32.0), (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3)
METHODS: dict[str, Method] = {
    "PPO": Method(ppo, IN_THE_REWARD),
    "RLOO": Method(partial(loop.train, loop.rloo_advantages, loop.rloo_loss), IN_THE_REWARD),
    "GRPO": Method(partial(loop.train, loop.grpo_advantages, loop.grpo_loss), IN_THE_LOSS),
    "Dr. GRPO": Method(partial(loop.train, loop.dr_grpo_advantages, loop.dr_grpo_loss), NOT_DIVIDED),
    "DAPO": Method(partial(loop.train, loop.grpo_advantages, loop.dapo_loss), IN_THE_LOSS),
    "DPO, all pairs": Method(partial(dpo, all_pairs), BETAS, OF_PAIRS),
    "DPO, own pairs": Method(partial(dpo, own_pairs), BETAS, OF_PAIRS),
    "DPO, sampled pairs": Method(partial(dpo, sampled_pairs), BETAS, OF_PAIRS),
    "rejection sampling": Method(rejection_sampling, KEPT_OF, OF_IMITATION),
}
