"""Settings of the trainer that no exercise needs: schedules, the critic's own rate, several samples per prompt."""

from __future__ import annotations

import pytest
import torch

from solutions.given.checks import policy_moves, scores_are_not_clipped
from solutions.given.config import NO_CLIP, PPOConfig
from solutions.given.prompts import PromptQueue
from solutions.given.schedule import learning_rates
from testcases.selfcheck.memory_test import PROMPTS, small_trainer


def rates(**settings) -> list[tuple[float, float]]:
    config = PPOConfig(stop_token_ids=(1,), pad_token_id=0, num_updates=4, learning_rate=8.0, **settings)
    return [learning_rates(config, done) for done in range(4)]


@pytest.mark.parametrize(
    "settings, policy",
    [
        pytest.param({"warmup_updates": 0}, [8, 6, 4, 2], id="linear"),
        pytest.param({"warmup_updates": 0, "scheduler": "constant"}, [8, 8, 8, 8], id="constant"),
        pytest.param({"warmup_updates": 0, "scheduler": "cosine"}, [8, 4 + 2 * 2**0.5, 4, 4 - 2 * 2**0.5], id="cosine"),
        pytest.param({"warmup_updates": 3, "scheduler": "constant"}, [2, 4, 6, 8], id="warm-up"),
        pytest.param({"warmup_updates": 3}, [2, 4, 4, 2], id="the-lower-of-warm-up-and-decay"),
        pytest.param({"warmup_updates": 0, "critic_warmup_updates": 2}, [0, 0, 4, 2], id="the-critic-learns-first"),
    ],
)
def test_the_learning_rate_of_each_update_by_hand(settings, policy):
    assert [rate for rate, _ in rates(**settings)] == pytest.approx(policy, abs=1e-12)
    whole = rates(**settings | {"critic_warmup_updates": 0})
    assert [rate for _, rate in rates(**settings)] == [rate for rate, _ in whole]
    tenfold = rates(**settings, critic_learning_rate=80.0)
    assert [rate for _, rate in tenfold] == pytest.approx([10 * rate for rate, _ in whole], abs=1e-12)


def weights(model) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in model.parameters()]


def moved(before: list[torch.Tensor], model) -> bool:
    return any(not torch.equal(one, two) for one, two in zip(before, model.parameters(), strict=True))


def test_only_the_critic_moves_in_its_warm_up():
    trainer = small_trainer(critic_warmup_updates=1, critic_learning_rate=1e-2)
    policy, critic = weights(trainer.policy), weights(trainer.model.value_model)
    metrics = trainer.training_step(PROMPTS)
    assert not moved(policy, trainer.policy) and moved(critic, trainer.model.value_model)
    assert metrics["learning_rate"] == 0.0 and policy_moves([metrics]) is None
    assert trainer.training_step(PROMPTS)["learning_rate"] > 0.0
    assert moved(policy, trainer.policy)


def test_equal_rates_in_two_groups_are_the_run_of_one():
    one, two = small_trainer(), small_trainer(critic_learning_rate=1e-3)
    assert [len(trainer.optimizer.param_groups) for trainer in (one, two)] == [1, 2]
    assert one.train(PROMPTS) == two.train(PROMPTS)
    assert not moved(weights(one.model), two.model)


def test_each_prompt_of_an_update_is_answered_several_times():
    queue = PromptQueue(0, samples=3)
    taken = queue.take(6, 4) + queue.take(6, 4)
    assert taken[::3] == taken[1::3] == taken[2::3] and sorted(taken[::3]) == [0, 1, 2, 3]
    trainer, seen = small_trainer(batch_size=6, samples_per_prompt=3), []
    collect = trainer._collect
    trainer._collect = lambda prompts: seen.append(prompts) or collect(prompts)
    trainer.train(PROMPTS)
    assert all(batch[0] == batch[1] == batch[2] and batch[3] == batch[4] == batch[5] for batch in seen)
    responses = trainer.generate_responses([[5, 6]] * 6).responses
    assert len(responses.unique(dim=0)) > 1, "the responses are drawn one by one"


def test_metrics_say_what_acts():
    trainer = small_trainer(clip_score=6.0, missing_stop_penalty=0.0)
    experience = trainer._collect(PROMPTS)
    metrics = trainer._rollout_metrics(experience)
    assert metrics["score_clip_fraction"] == pytest.approx((experience.scores.abs() > 6.0).double().mean().item())
    assert 0.0 < metrics["score_clip_fraction"] < 1.0
    assert metrics["score_std"] == pytest.approx(experience.scores.std(correction=0).item())
    assert metrics["return_std"] == pytest.approx(experience.returns[experience.mask].std(correction=0).item())
    assert "clipped to +- clip_score" in str(scores_are_not_clipped([metrics]))
    assert small_trainer(clip_score=None).config.clip_score == NO_CLIP


def test_the_penalty_of_a_missing_stop_counts_for_the_clip():
    trainer = small_trainer(max_new_tokens=1, clip_score=1000.0, missing_stop_penalty=2000.0)
    experience = trainer._collect(PROMPTS)
    assert trainer._rollout_metrics(experience)["score_clip_fraction"] == pytest.approx(
        1.0 - trainer._rollout_metrics(experience)["stopped_share"]
    )
