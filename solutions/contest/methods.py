"""The methods, each from the lessons' functions: a copy of the SFT model goes in, a tuned policy comes out."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from ppo_by_hand.core.prompts import encode_prompts
from ppo_by_hand.core.scoring import RewardFunction, Scorer, make_scorer
from tiny_models.preferences import Preference

from ..demo.stages import encode_preferences
from ..lesson01_masked_sequences import gather_log_probs, response_log_probs
from ..lesson02_reward_model import PreferenceBatch, RewardModel
from ..lesson03_policy_gradient import leave_one_out_baseline
from ..lesson05_ppo_loss import ppo_statistics
from ..lesson06_kl_rewards import estimate_kl, penalize_missing_stop
from ..lesson07_actor_critic import (
    PolicyAndValue,
    ValueModel,
    critic_from_reward_model,
    make_reference,
    response_logits,
)
from ..lesson08_rollout import generate
from ..lesson09_ppo_trainer import PPOTrainer
from ..lesson12_capstone import SFTConfig, encode_demonstrations, train_sft
from ..lesson13_after_ppo import clipped_token_losses, dpo_loss, group_advantages, kl_token_losses, reduce_losses
from .world import BATCH, GROUP, MAX_UPDATE_KL, RESPONSES, UPDATES, World

Watch = Callable[[int, int, Any], None]
"""Called with the responses and the tokens sampled so far, and the policy."""
Reward = RewardModel | RewardFunction
WARMUP, MINIBATCHES, CLIP = 5, 4, 0.2
PAIRS_IN_A_BATCH = 32
ROUNDS = 4
"""Of rejection-sampling fine-tuning: each samples with the policy of the round before."""


@dataclass(frozen=True)
class Settings:
    """What is tuned, and the coefficient that a curve runs over."""

    learning_rate: float
    epochs: int
    coefficient: float
    """kl_coef; of DPO beta; of rejection sampling the n of which the best is kept."""


class Trained(NamedTuple):
    """What a method gives."""

    policy: Any
    sampled: int
    """Tokens that it sampled for its training, each response's stop token among them."""


@dataclass(frozen=True)
class Rollout:
    """Responses of one update, as groups: the K responses to a prompt are neighboring rows."""

    ids: Tensor
    visible: Tensor
    mask: Tensor
    log_probs: Tensor
    ref_log_probs: Tensor
    scores: Tensor
    prompt_length: int

    @property
    def responses(self) -> Tensor:
        return self.ids[:, self.prompt_length :]


def ppo(world: World, reward: Reward, settings: Settings, watch: Watch) -> Trained:
    """Lesson 9's trainer; the critic starts as the reward model, or where the reward is a program as the SFT model."""
    config = world.config(
        learning_rate=settings.learning_rate,
        num_epochs=settings.epochs,
        num_minibatches=MINIBATCHES,
        warmup_updates=WARMUP,
        kl_coef=settings.coefficient,
    )
    if isinstance(reward, RewardModel):
        critic = critic_from_reward_model(reward)
    else:
        with torch.random.fork_rng():
            torch.manual_seed(world.seed)
            critic = ValueModel(copy.deepcopy(world.sft.base_model))
    model = PolicyAndValue(_copy(world), critic)
    trainer = PPOTrainer(model, reward, make_reference(world.sft), config, world.tokenizer)
    trainer.train(world.prompts, lambda one: watch(one.updates_done * BATCH, _tokens_of(one), one.policy))
    return Trained(trainer.policy, _tokens_of(trainer))


def _tokens_of(trainer: PPOTrainer) -> int:
    return round(sum(one["response_tokens"] for one in trainer.history))


def rloo(world: World, reward: Reward, settings: Settings, watch: Watch) -> Trained:
    """Each response against the mean of the others of its group; the KL penalty is part of its reward."""

    def losses(now: Tensor, rollout: Rollout, rows: Tensor, advantages: Tensor) -> Tensor:
        old, mask = rollout.log_probs[rows], rollout.mask[rows]
        return reduce_losses(clipped_token_losses(now, old, advantages, mask, CLIP, CLIP), mask, "tokens")

    def advantages(rollout: Rollout) -> Tensor:
        kl = estimate_kl(rollout.log_probs, rollout.ref_log_probs).masked_fill(~rollout.mask, 0.0).sum(dim=1)
        rewards = (rollout.scores - settings.coefficient * kl).view(-1, GROUP)
        return (rewards - leave_one_out_baseline(rewards)).flatten()

    return _with_groups(world, reward, settings, watch, advantages, losses)


def grpo(world: World, reward: Reward, settings: Settings, watch: Watch) -> Trained:
    """Each response in standard deviations of its group; the KL penalty is part of the loss."""

    def losses(now: Tensor, rollout: Rollout, rows: Tensor, advantages: Tensor) -> Tensor:
        old, ref, mask = rollout.log_probs[rows], rollout.ref_log_probs[rows], rollout.mask[rows]
        losses = clipped_token_losses(now, old, advantages, mask, CLIP, CLIP)
        return reduce_losses(losses + settings.coefficient * kl_token_losses(now, old, ref, mask), mask, "responses")

    return _with_groups(
        world, reward, settings, watch, lambda one: group_advantages(one.scores.view(-1, GROUP)).flatten(), losses
    )


def dpo(world: World, settings: Settings, sampled: bool, watch: Watch) -> Trained:
    """On the reward model's own pairs, or on new ones: two responses of the SFT model, the better one by proxy."""
    policy = _copy(world).eval()
    pairs, tokens = _labeled_pairs(world, policy) if sampled else (encode_preferences(world.tokenizer, world.pairs), 0)
    reference = _sums(world.sft, pairs)
    optimizer = _optimizer(policy, settings)
    shuffling = torch.Generator().manual_seed(world.seed)
    orders = [torch.randperm(len(pairs.chosen_ids), generator=shuffling) for _ in range(settings.epochs)]
    batches = [index for order in orders for index in order.split(PAIRS_IN_A_BATCH)]
    for number, index in enumerate(batches):
        chosen, rejected = _sums(policy, pairs.rows(index), grad=True)
        loss = dpo_loss(chosen, rejected, reference[0][index], reference[1][index], settings.coefficient)
        _step(loss, policy, optimizer, settings, number / len(batches), number)
    watch(RESPONSES if sampled else 0, tokens, policy)
    return Trained(policy, tokens)


def rejection_sampling(world: World, settings: Settings, watch: Watch) -> Trained:
    """In rounds: sample n responses to each prompt, keep the best by proxy, and imitate it."""
    policy, n, per_round = _copy(world).eval(), int(settings.coefficient), RESPONSES // ROUNDS
    sampling, tokens = world.generator(), 0
    for number in range(ROUNDS):
        first = number * per_round // n
        prompts = [one for one in world.prompts[first : first + per_round // n] for _ in range(n)]
        rollout = _sample(world, policy, prompts, sampling, world.proxy)
        tokens += int(rollout.mask.sum())
        best = rollout.scores.view(-1, n).argmax(dim=1) + torch.arange(0, len(prompts), n)
        texts = [_text(world, rollout, int(row)) for row in best]
        data = encode_demonstrations(world.tokenizer, prompts[::n], texts)
        for epoch in range(settings.epochs):
            train_sft(policy, data, SFTConfig(settings.learning_rate, 16, seed=world.seed + epoch))
        watch((number + 1) * per_round, tokens, policy)
    return Trained(policy, tokens)


def _with_groups(
    world: World,
    reward: Reward,
    settings: Settings,
    watch: Watch,
    advantages_of: Callable[[Rollout], Tensor],
    losses_of: Callable[[Tensor, Rollout, Tensor, Tensor], Tensor],
) -> Trained:
    """A rollout of groups, then epochs of minibatches of whole responses; no critic."""
    policy = _copy(world).eval()
    optimizer, sampling, shuffling = _optimizer(policy, settings), world.generator(), world.generator()
    tokens, score = 0, make_scorer(reward, world.tokenizer)
    for update in range(UPDATES):
        chosen = world.prompts[update * BATCH // GROUP : (update + 1) * BATCH // GROUP]
        rollout = _sample(world, policy, [one for one in chosen for _ in range(GROUP)], sampling, score)
        tokens += int(rollout.mask.sum())
        advantages = advantages_of(rollout)
        for rows in _minibatches(settings.epochs, shuffling):
            now = _log_probs(policy, rollout, rows)
            loss = losses_of(now, rollout, rows, advantages[rows])
            _step(loss, policy, optimizer, settings, update / UPDATES, update)
            old, mask = rollout.log_probs[rows], rollout.mask[rows]
            per_token = advantages[rows].unsqueeze(1).expand_as(old)
            if ppo_statistics(now.detach(), old, per_token, CLIP, mask)["approx_kl"] > MAX_UPDATE_KL:
                break
        watch((update + 1) * BATCH, tokens, policy)
    return Trained(policy, tokens)


def _minibatches(epochs: int, shuffling: torch.Generator) -> Iterator[Tensor]:
    for _ in range(epochs):
        yield from torch.randperm(BATCH, generator=shuffling).split(BATCH // MINIBATCHES)


@torch.no_grad()
def _sample(world: World, policy: Any, prompts: list[str], sampling: torch.Generator, score: Scorer) -> Rollout:
    """Responses, read by the reference and scored; the score of one without a stop token is lowered, as in lesson 8."""
    config = world.config()
    ids, attention = encode_prompts(prompts, world.tokenizer, config.pad_token_id)
    found = generate(policy, ids, attention, **config.sampling(), generator=sampling)
    whole, visible = torch.cat([ids, found.responses], 1), torch.cat([attention, found.mask], 1)
    ref = gather_log_probs(response_logits(world.sft, whole, visible, ids.shape[1]), found.responses)
    scores = score(whole, visible, ids.shape[1])
    scores = penalize_missing_stop(scores, found.responses, config.stop_token_ids, config.missing_stop_penalty)
    bound = cast("float", config.clip_score)
    scores = scores.clamp(-bound, bound)
    return Rollout(whole, visible, found.mask, found.log_probs, ref, scores, ids.shape[1])


def _log_probs(policy: Any, rollout: Rollout, rows: Tensor) -> Tensor:
    logits = response_logits(policy, rollout.ids[rows], rollout.visible[rows], rollout.prompt_length)
    return gather_log_probs(logits, rollout.responses[rows])


def _labeled_pairs(world: World, policy: Any) -> tuple[PreferenceBatch, int]:
    """RESPONSES / 2 pairs and their tokens; two of equal score teach nothing and are dropped."""
    sampling, prompts = world.generator(), world.prompts[: RESPONSES // 2]
    one, other = (_sample(world, policy, prompts, sampling, world.proxy) for _ in range(2))
    preferences = []
    for row, (first, second) in enumerate(zip(one.scores.tolist(), other.scores.tolist(), strict=True)):
        texts = _text(world, one, row), _text(world, other, row)
        if first != second:
            preferences.append(Preference(prompts[row], *(texts if first > second else texts[::-1])))
    return encode_preferences(world.tokenizer, preferences), int(one.mask.sum() + other.mask.sum())


def _sums(policy: Any, pairs: PreferenceBatch, grad: bool = False) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the whole chosen and rejected texts; the prompts' cancel between policy and reference.

    A pair's prompt is the same on both sides, so in DPO's margin its tokens cancel as well.
    """
    ids, visible = (
        torch.cat([pairs.chosen_ids, pairs.rejected_ids]),
        torch.cat([pairs.chosen_mask, pairs.rejected_mask]),
    )
    with torch.set_grad_enabled(grad):
        logits = policy(input_ids=ids, attention_mask=visible, use_cache=False).logits
        found = response_log_probs(logits, ids, prompt_length=1).masked_fill(~visible[:, 1:], 0.0).sum(dim=1)
    chosen, rejected = found.chunk(2)
    return chosen, rejected


def _text(world: World, rollout: Rollout, row: int) -> str:
    return world.tokenizer.decode(rollout.responses[row][rollout.mask[row]], skip_special_tokens=True)


def _copy(world: World) -> Any:
    return copy.deepcopy(world.sft).requires_grad_(True)


def _optimizer(policy: nn.Module, settings: Settings) -> torch.optim.AdamW:
    return torch.optim.AdamW(policy.parameters(), lr=settings.learning_rate, eps=1e-5, weight_decay=0.0, fused=True)


def _step(
    loss: Tensor, policy: nn.Module, optimizer: torch.optim.Optimizer, settings: Settings, done: float, number: int
) -> None:
    """One optimizer step at lesson 9's rate: a warm-up, then a linear decay to 0."""
    for group in optimizer.param_groups:
        group["lr"] = settings.learning_rate * min((number + 1) / (WARMUP + 1), 1 - done)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
