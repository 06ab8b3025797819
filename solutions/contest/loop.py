"""What came after PPO, on one screen: lesson 0's loop without a critic. Read it beside `lesson00_one_screen/ppo.py`.

    for each batch of prompts, each of them GROUP times:
        responses, log_probs = policy.generate(prompts)                   sample, lesson 8
        ref_log_probs, scores = reference, reward model                   sample
        advantages = scores, compared within each group                   lessons 3 and 13
        for each epoch, for each minibatch:
            loss = token losses of the method / its denominator           lesson 13
            clip the gradient, step                                       step

A method is two functions: what the advantage of a response is, and what the loss is. Nothing else differs.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from ppo_by_hand.core.texts import Scorer, encode_prompts
from tiny_models.preferences import Preference
from tiny_models.presets import find_preset

from ..lesson01_masked_sequences import gather_log_probs
from ..lesson02_reward_model import RewardModel
from ..lesson03_policy_gradient import leave_one_out_baseline
from ..lesson05_ppo_loss import ppo_statistics
from ..lesson06_kl_rewards import estimate_kl, penalize_missing_stop
from ..lesson07_actor_critic import response_logits
from ..lesson08_rollout import generate
from ..lesson13_after_ppo import clipped_token_losses, group_advantages, kl_token_losses, reduce_losses

PRESET = find_preset("tiny")
UPDATES, BATCH, GROUP, MINIBATCHES, WARMUP = 32, PRESET.ppo_batch_size, 4, 4, 5
MAX_UPDATE_KL = 0.02
"""An update ends early when the policy has moved this far, in every method with a ratio."""
CLIP, CLIP_HIGH = 0.2, 0.28
"""PPO's interval, and DAPO's bound above."""


class Job(NamedTuple):
    """One run: a method, a seed, what is tuned, and the coefficient that a curve runs over."""

    method: str
    seed: int
    learning_rate: float
    epochs: int
    coefficient: float
    """kl_coef; of DPO beta; of best of n, and of rejection sampling, which keeps the best of n, that n."""


@dataclass(frozen=True)
class World:
    """What all methods of one seed share: the SFT model, the seed's own reward model, its pairs, and the prompts."""

    seed: int
    tokenizer: Any
    sft: Any
    reward_model: RewardModel
    proxy: Scorer
    pairs: list[Preference]
    prompts: list[str]
    evaluation_prompts: list[str]

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)


@dataclass(frozen=True)
class Rollout:
    """Responses of one update. The GROUP responses to a prompt are neighboring rows."""

    ids: Tensor
    visible: Tensor
    mask: Tensor
    log_probs: Tensor
    ref_log_probs: Tensor
    scores: Tensor

    @property
    def responses(self) -> Tensor:
        return self.ids[:, -self.mask.shape[1] :]

    def rows(self, index: Tensor) -> "Rollout":
        return Rollout(**{name: tensor[index] for name, tensor in vars(self).items()})


Trained = tuple[int, Any]
"""How many tokens a method has sampled, and the tuned policy."""


@torch.no_grad()
def sample(world: World, policy: Any, prompts: list[str], sampling: torch.Generator) -> Rollout:
    """Sample a response to each prompt, let the reference read it, and score it; without an end it loses 1."""
    pad, stops = world.tokenizer.pad_token_id, (world.tokenizer.eos_token_id,)
    ids, attention = encode_prompts(prompts, world.tokenizer, pad)
    found = generate(policy, ids, attention, PRESET.max_new_tokens, stops, pad, generator=sampling)
    whole, visible = torch.cat([ids, found.responses], 1), torch.cat([attention, found.mask], 1)
    ref_log_probs = gather_log_probs(response_logits(world.sft, whole, visible, ids.shape[1]), found.responses)
    scores = world.proxy(whole, visible, ids.shape[1])
    scores = penalize_missing_stop(scores, found.responses, stops, 1.0).clamp(-5, 5)
    return Rollout(whole, visible, found.mask, found.log_probs, ref_log_probs, scores)


def rloo_advantages(rollout: Rollout, kl_coef: float) -> Tensor:
    """Compare each response with the mean of the others of its group; the KL penalty is part of its reward."""
    kl = estimate_kl(rollout.log_probs, rollout.ref_log_probs).masked_fill(~rollout.mask, 0.0).sum(dim=1)
    rewards = (rollout.scores - kl_coef * kl).view(-1, GROUP)
    return (rewards - leave_one_out_baseline(rewards)).flatten()


def rloo_loss(now: Tensor, rollout: Rollout, advantages: Tensor, kl_coef: float) -> Tensor:
    losses = clipped_token_losses(now, rollout.log_probs, advantages, rollout.mask, CLIP, CLIP)
    return reduce_losses(losses, rollout.mask, "tokens")


def grpo_advantages(rollout: Rollout, kl_coef: float) -> Tensor:
    """Compare each response with its group's mean, in standard deviations; the KL penalty is left to the loss."""
    return group_advantages(rollout.scores.view(-1, GROUP)).flatten()


def dr_grpo_advantages(rollout: Rollout, kl_coef: float) -> Tensor:
    return group_advantages(rollout.scores.view(-1, GROUP), divide_by_std=False).flatten()


def penalized_loss(
    now: Tensor, rollout: Rollout, advantages: Tensor, kl_coef: float, denominator: str, clip_high: float = CLIP
) -> Tensor:
    """Add the KL penalty to the loss of each token."""
    losses = clipped_token_losses(now, rollout.log_probs, advantages, rollout.mask, CLIP, clip_high)
    losses = losses + kl_coef * kl_token_losses(now, rollout.log_probs, rollout.ref_log_probs, rollout.mask)
    constant = PRESET.max_new_tokens if denominator == "constant" else None
    return reduce_losses(losses, rollout.mask, denominator, constant=constant)


grpo_loss = partial(penalized_loss, denominator="responses")
dr_grpo_loss = partial(penalized_loss, denominator="constant")
dapo_loss = partial(penalized_loss, denominator="tokens", clip_high=CLIP_HIGH)
"""DAPO has no KL penalty; here a curve runs over one."""


def minibatches(rows: int, epochs: int, shuffling: torch.Generator) -> Iterator[Tensor]:
    """Yield the rows of each minibatch, in an order of its own for each epoch."""
    for _ in range(epochs):
        yield from torch.randperm(rows, generator=shuffling).split(rows // MINIBATCHES)


def train(
    advantages_of: Callable[[Rollout, float], Tensor], loss_of: Callable[..., Tensor], world: World, job: Job
) -> Trained:
    """Run the whole training; an update ends early when the policy has moved far enough."""
    policy = copy_of_sft(world)
    optimizer, sampling, shuffling = make_optimizer(policy), world.generator(), world.generator()
    tokens = 0
    for number in range(UPDATES):
        prompts = world.prompts[number * BATCH // GROUP : (number + 1) * BATCH // GROUP]
        rollout = sample(world, policy, [one for one in prompts for _ in range(GROUP)], sampling)
        tokens += int(rollout.mask.sum())
        advantages = advantages_of(rollout, job.coefficient)
        set_learning_rate(optimizer, job, number, number / UPDATES)
        for index in minibatches(len(rollout.ids), job.epochs, shuffling):
            part = rollout.rows(index)
            logits = response_logits(policy, part.ids, part.visible, part.ids.shape[1] - part.mask.shape[1])
            now = gather_log_probs(logits, part.responses)
            step(loss_of(now, part, advantages[index], job.coefficient), policy, optimizer)
            each = advantages[index].unsqueeze(1).expand_as(now)
            if ppo_statistics(now.detach(), part.log_probs, each, CLIP, part.mask)["approx_kl"] > MAX_UPDATE_KL:
                break
    return tokens, policy


def copy_of_sft(world: World) -> Any:
    return copy.deepcopy(world.sft).requires_grad_(True)


def make_optimizer(policy: nn.Module) -> Optimizer:
    return AdamW(policy.parameters(), eps=1e-5, weight_decay=0.0, fused=True)


def set_learning_rate(optimizer: Optimizer, job: Job, number: int, done: float) -> None:
    """Set the rate to a warm-up and then a linear decay to 0, as in lesson 9."""
    for group in optimizer.param_groups:
        group["lr"] = job.learning_rate * min((number + 1) / (WARMUP + 1), 1 - done)


def step(loss: Tensor, policy: nn.Module, optimizer: Optimizer) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
