"""The trainer without a critic: advantages of groups, the gradient of the KL in the loss, and what is refused."""

from dataclasses import replace

import pytest
import torch

from ppo_by_hand.core.config import PPOConfig
from solutions.lesson01_masked_sequences import gather_log_probs
from solutions.lesson03_policy_gradient import leave_one_out_baseline
from solutions.lesson07_actor_critic import PolicyAlone, PolicyAndValue, ValueModel, make_reference
from solutions.lesson09_ppo_trainer import PPOTrainer
from solutions.lesson13_after_ppo import group_advantages, kl_token_losses, reduce_losses
from testcases.course.memory_test import PROMPTS, TokenSum, small_policy

GROUPS = {"advantages": "rloo", "samples_per_prompt": 3, "whiten_advantages": False}
BATCH = [prompt for prompt in PROMPTS[:2] for _ in range(3)]


def tiny(seed=1):
    return small_policy(seed).double()


def with_critic():
    return PolicyAndValue(tiny(), ValueModel(tiny().base_model)).double()


def trainer_of(model=None, **settings) -> PPOTrainer:
    options = {"num_updates": 2, "batch_size": 6, "max_new_tokens": 6, "num_minibatches": 2, "num_epochs": 2}
    config = PPOConfig(stop_token_ids=(1, 2), pad_token_id=0, **options | GROUPS | settings)
    return PPOTrainer(model or PolicyAlone(tiny()), TokenSum(), make_reference(tiny(seed=2)), config)


@pytest.mark.parametrize("kl_in", ["reward", "loss"])
@pytest.mark.parametrize("advantages", ["rloo", "grpo"])
def test_each_token_has_the_advantage_of_its_response(advantages, kl_in):
    experience = trainer_of(advantages=advantages, kl_in=kl_in, kl_coef=0.3)._collect(BATCH)
    kl = (experience.log_probs - experience.ref_log_probs).masked_fill(~experience.mask, 0.0).sum(dim=1)
    stopped = experience.mask.sum(dim=1) < 6
    stopped |= (experience.responses[:, -1:] == torch.tensor([1, 2])).any(dim=1)
    totals = (experience.scores - (~stopped).double()).clamp(-5, 5) - (0.3 * kl if kl_in == "reward" else 0.0)
    totals = totals.view(2, 3)
    expected = group_advantages(totals) if advantages == "grpo" else totals - leave_one_out_baseline(totals)
    expected = expected.view(-1, 1).expand_as(experience.mask).masked_fill(~experience.mask, 0.0)
    torch.testing.assert_close(experience.advantages, expected, rtol=0, atol=1e-9)
    assert kl.abs().sum() > 0.1 and expected.abs().sum() > 0.1 and not experience.returns.any()


WITH_CRITIC = {"advantages": "gae", "whiten_advantages": True}


@pytest.mark.parametrize("make, settings", [(lambda: PolicyAlone(tiny()), {}), (with_critic, WITH_CRITIC)])
def test_the_kl_in_the_loss_is_that_of_lesson_13(make, settings):
    """Loss and gradient, away from the policy that sampled."""
    model = make()
    trainer = trainer_of(model, **settings, kl_in="loss", kl_coef=0.3)
    batch = trainer._collect(BATCH)
    with torch.no_grad():
        next(trainer.policy.parameters()).mul_(1.05)
    loss, statistics = trainer.compute_loss(batch)
    plain, _ = trainer_of(model, **settings, kl_coef=0.3).compute_loss(batch)
    logits = model(batch.input_ids, batch.attention_mask, batch.prompt_length).logits
    now = gather_log_probs(logits, batch.responses)
    term = reduce_losses(kl_token_losses(now, batch.log_probs, batch.ref_log_probs, batch.mask), batch.mask)
    torch.testing.assert_close(loss, plain + 0.3 * term)
    assert statistics["kl_loss"] == pytest.approx(term.item()) and term > 1e-3
    weights = list(trainer.policy.parameters())
    ours, without, added = (torch.autograd.grad(one, weights) for one in (loss, plain, term))
    for slope, before, more in zip(ours, without, added, strict=True):
        torch.testing.assert_close(slope, before + 0.3 * more)


def test_without_a_critic_none_is_trained_measured_or_complained_about():
    trainer = trainer_of(num_updates=12, kl_in="loss")
    policy = {id(weight) for weight in trainer.policy.parameters()}
    assert {id(weight) for group in trainer.optimizer.param_groups for weight in group["params"]} == policy
    history = trainer.train(PROMPTS)
    assert not {"explained_variance", "value_mean", "return_std"} & history[-1].keys() and "kl_loss" in history[-1]
    assert history[0]["first_ratio_max"] == pytest.approx(1.0) and history[-1]["value_loss"] == 0.0


def test_a_run_of_groups_goes_on_from_its_checkpoint(tmp_path):
    whole = trainer_of(advantages="grpo").train(PROMPTS)
    first = trainer_of(advantages="grpo")
    first.train(PROMPTS, lambda one: one.save_checkpoint(tmp_path) if one.updates_done == 1 else None)
    second = trainer_of(advantages="grpo")
    second.load_checkpoint(tmp_path)
    assert second.train(PROMPTS) == whole


@pytest.mark.parametrize(
    "settings, says",
    [
        ({"advantages": "ppo"}, "advantages to be one of gae, rloo, grpo, got 'ppo'"),
        ({"kl_in": "both"}, "kl_in to be one of reward, loss, got 'both'"),
        ({"samples_per_prompt": 1}, "samples_per_prompt of 2 or more"),
        ({"whiten_advantages": True}, "whiten_advantages to be False"),
        ({"whiten_rewards": True}, "whiten_rewards to be False"),
        ({"gamma": 0.9}, "gamma to be 1.0"),
        ({"critic_warmup_updates": 3}, "critic_warmup_updates to be 0"),
        ({"critic_learning_rate": 1e-3}, "critic_learning_rate to be None"),
        ({"lam": 0.9}, "lam to be 0.95"),
        ({"value_coef": 0.5}, "value_coef to be 0.1"),
        ({"value_clip_epsilon": 0.3}, "value_clip_epsilon to be 0.2"),
        ({"kl_in": "loss", "kl_estimator": "k3"}, "no kl_estimator"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, says):
    with pytest.raises(ValueError, match=says):
        trainer_of(**settings)


def test_a_critic_that_nothing_would_train_is_refused_and_one_that_is_missing():
    with pytest.raises(ValueError, match="expected PolicyAlone.*got a PolicyAndValue; nothing would train a critic"):
        trainer_of(with_critic())
    with pytest.raises(ValueError, match="expected PolicyAndValue.*got a PolicyAlone; GAE reads"):
        trainer_of(advantages="gae", whiten_advantages=True)


def test_a_batch_that_is_no_groups_is_refused():
    trainer = trainer_of()
    with pytest.raises(ValueError, match="groups of 3 responses .* got 5 rows"):
        trainer.training_step(BATCH[:5])
    with pytest.raises(ValueError, match="different prompts in a group"):
        trainer.training_step([BATCH[0], BATCH[3], *BATCH[:2], *BATCH[:2]])


def test_the_rollout_may_be_read_in_parts():
    """Groups are compared when all of them are there."""
    whole, parts = (trainer_of(micro_rollout_batch_size=size) for size in (None, 2))
    generation = whole.collector.generate(BATCH)
    experiences = [one.collector.compared(one.collector.evaluate(generation, BATCH)) for one in (whole, parts)]
    torch.testing.assert_close(*(replace(one).advantages for one in experiences))
